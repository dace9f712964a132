"""Answers of a view, compared with the chain file it came from, and that they never change."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from fastnode.archiver import forms
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import DatabaseError
from fastnode.kernels import block_text
from fastnode.protocol.genesis import genesis_tips

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Json = dict[str, Any]

EPOCH_SLOTS = 4
UNKNOWN = b"\x01" * 32


def as_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


@pytest.fixture
def view(full_store: ArchiverStore) -> Iterator[ChainView]:
    with full_store.open_view() as view:
        yield view


@pytest.fixture
def blocks(sample: SampleChain) -> list[Json]:
    return [sample.block_json(number) for number in range(1, 107)]


# ---- blocks ------------------------------------------------------------------------------------


def test_every_block_is_answered_as_it_came(view: ChainView, blocks: list[Json]) -> None:
    for number, raw in enumerate(blocks, 1):
        assert view.header_json(number) == orjson.dumps(raw["header"])
        assert view.archive_json(number) == orjson.dumps(raw["archive"])
        assert view.body_json(number) == orjson.dumps(raw["body"])
        info = view.block_info(number)
        assert info is not None
        assert info.number == number
        assert info.tx_count == len(raw["body"]["txEffects"])
        assert (info.checkpoint_number, info.index_within_checkpoint) == (
            raw["checkpointNumber"],
            raw["indexWithinCheckpoint"],
        )
        variables = raw["header"]["globalVariables"]
        assert (info.slot_number, info.timestamp) == (int(variables["slotNumber"], 16), int(variables["timestamp"]))


def test_every_block_is_found_by_its_hash_and_by_its_archive(view: ChainView, sample: SampleChain) -> None:
    for number in range(1, 107):
        block = sample.block(number)
        assert view.block_number_by_hash(block.hash()) == number
        assert view.block_number_by_archive(block.archive.root) == number
        loaded = view.load_block(number)
        assert loaded == block
        assert view.tx_hashes(number) == [effect.tx_hash for effect in block.body.tx_effects]


def test_the_genesis_is_block_0(view: ChainView, sample: SampleChain) -> None:
    genesis = orjson.loads(sample.lines[1])
    assert view.header_json(0) == orjson.dumps(genesis["header"])
    assert orjson.loads(view.archive_json(0) or b"") == {"root": genesis["archiveRoot"], "nextAvailableLeafIndex": 1}
    assert view.body_json(0) == b'{"txEffects":[]}'
    assert view.block_number_by_hash(as_bytes(genesis["blockHash"])) == 0
    assert view.block_number_by_archive(as_bytes(genesis["archiveRoot"])) == 0
    assert view.load_block(0) is None
    assert view.l2_to_l1_messages_of_block(0) == []


def test_what_the_genesis_brings_is_kept(view: ChainView, sample: SampleChain) -> None:
    genesis = orjson.loads(sample.lines[1])
    assert orjson.loads(view.genesis_json()) == {key: value for key, value in genesis.items() if key != "kind"}
    assert genesis["contractClasses"]
    for item in genesis["contractClasses"]:
        assert view.contract_class_json(as_bytes(item["id"])) == orjson.dumps(item)
    assert genesis["contractInstances"]
    for item in genesis["contractInstances"]:
        assert view.contract_instance_json(as_bytes(item["address"])) == orjson.dumps(item)
    assert view.prefilled_public_data() == [
        (as_bytes(pair["slot"]), as_bytes(pair["value"])) for pair in genesis["prefilledPublicData"]
    ]


@pytest.mark.parametrize("number", [-1, 107, 2**32, 2**64])
def test_a_block_number_outside_the_chain_gives_nothing(view: ChainView, number: int) -> None:
    assert view.block(number) is None
    assert view.block_info(number) is None
    assert view.header_json(number) is None
    assert view.archive_json(number) is None
    assert view.body_json(number) is None
    assert view.tx_hashes(number) is None
    assert view.load_block(number) is None
    assert view.l2_to_l1_messages_of_block(number) is None


def test_an_unknown_hash_gives_nothing(view: ChainView) -> None:
    assert view.block_number_by_hash(UNKNOWN) is None
    assert view.block_number_by_archive(UNKNOWN) is None
    assert view.tx_location(UNKNOWN) is None
    assert block_text.mined(forms.INDEXED_EFFECT, UNKNOWN, view.blocks) is None
    assert view.tx_receipt_json(UNKNOWN) is None
    assert view.l1_to_l2_message_index(UNKNOWN) is None
    assert view.contract_class_json(UNKNOWN) is None
    assert view.contract_instance_json(UNKNOWN) is None


# ---- checkpoints -------------------------------------------------------------------------------


def test_every_checkpoint_is_answered_as_it_came(view: ChainView, sample: SampleChain) -> None:
    next_block = 1
    for number in range(1, sample.checkpoint_count + 1):
        published = sample.checkpoint_json(number)["published"]
        raw = published["checkpoint"]
        stored = view.checkpoint(number)
        assert stored is not None
        assert stored.header_json == orjson.dumps(raw["header"])
        assert stored.archive_json == orjson.dumps(raw["archive"])
        assert stored.l1_json == orjson.dumps(published["l1"])
        assert stored.attestations_json == orjson.dumps(published["attestations"])
        assert stored.fee_asset_price_modifier == int(raw["feeAssetPriceModifier"])
        assert (stored.start_block, stored.block_count) == (next_block, len(raw["blocks"]))
        assert stored.header_hash == sample.checkpoint(number).header.hash()
        assert view.checkpoint_number_by_slot(raw["header"]["slotNumber"]) == number
        next_block += len(raw["blocks"])


@pytest.mark.parametrize("number", [-1, 0, 42, 2**32, 2**64])
def test_a_checkpoint_number_outside_the_chain_gives_nothing(view: ChainView, number: int) -> None:
    assert view.checkpoint(number) is None
    assert view.l1_to_l2_messages(number) == []


@pytest.mark.parametrize("slot", [-1, 0, 5, 2550, 2555, 2**32, 2**64])
def test_a_slot_without_a_checkpoint_gives_nothing(view: ChainView, slot: int) -> None:
    assert view.checkpoint_number_by_slot(slot) is None


def test_the_checkpoints_of_an_epoch_follow_from_their_slots(view: ChainView, sample: SampleChain) -> None:
    by_epoch: dict[int, list[int]] = {}
    for number in range(1, sample.checkpoint_count + 1):
        slot = sample.checkpoint(number).header.slot_number
        by_epoch.setdefault(slot // EPOCH_SLOTS, []).append(number)
    for epoch in range(max(by_epoch) + 2):
        assert list(view.checkpoint_numbers_of_epoch(epoch)) == by_epoch.get(epoch, [])


@pytest.mark.parametrize("epoch", [-1, 2**30, 2**32, 2**64])
def test_an_epoch_beyond_all_slots_has_no_checkpoints(view: ChainView, epoch: int) -> None:
    assert list(view.checkpoint_numbers_of_epoch(epoch)) == []
    assert view.l2_to_l1_messages_json(epoch) == b"[]"


# ---- transactions ------------------------------------------------------------------------------


def test_every_transaction_is_found(view: ChainView, blocks: list[Json], sample: SampleChain) -> None:
    for number, raw in enumerate(blocks, 1):
        block_hash = "0x" + sample.block(number).hash().hex()
        for index, effect in enumerate(raw["body"]["txEffects"]):
            tx_hash = as_bytes(effect["txHash"])
            assert view.tx_location(tx_hash) == (number, index)
            assert block_text.mined(forms.INDEXED_EFFECT, tx_hash, view.blocks) == orjson.dumps(
                {"l2BlockHash": block_hash, "l2BlockNumber": number, "txIndexInBlock": index, "data": effect}
            )
            receipt = orjson.loads(view.tx_receipt_json(tx_hash) or b"")
            assert receipt.pop("status") == view.block_status(number).decode()
            assert receipt == {
                "txHash": effect["txHash"],
                "executionResult": ["success", "app_logic_reverted", "teardown_reverted", "both_reverted"][
                    effect["revertCode"]
                ],
                "transactionFee": str(int(effect["transactionFee"], 16)),
                "blockHash": block_hash,
                "blockNumber": number,
                "epochNumber": int(raw["header"]["globalVariables"]["slotNumber"], 16) // EPOCH_SLOTS,
            }


def test_the_status_of_a_block_follows_the_tips(full_ingestor: Ingestor) -> None:
    full_ingestor.undo_above(105)
    statuses = [full_ingestor.view.block_status(number) for number in (92, 93, 99, 100, 102, 103, 105)]
    assert statuses == [
        b"finalized",
        b"proven",
        b"proven",
        b"checkpointed",
        b"checkpointed",
        b"proposed",
        b"proposed",
    ]


def test_receipts_of_newer_node_versions_only_say_that_a_transaction_reverted(
    view: ChainView, blocks: list[Json]
) -> None:
    effects = [effect for raw in blocks for effect in raw["body"]["txEffects"]]
    reverted = next(effect for effect in effects if effect["revertCode"])
    chain = dataclasses.replace(view.chain, node_info=view.chain.node_info | {"nodeVersion": "4.3.0"})
    with ChainView(view._database, chain) as newer:
        receipt = orjson.loads(newer.tx_receipt_json(as_bytes(reverted["txHash"])) or b"")
    assert receipt["executionResult"] == "reverted"


# ---- messages ----------------------------------------------------------------------------------


def test_every_l1_to_l2_message_has_its_leaf_index(view: ChainView, sample: SampleChain) -> None:
    total = 0
    for number in range(1, sample.checkpoint_count + 1):
        messages = sample.messages(number)
        assert view.l1_to_l2_messages(number) == messages
        for position, message in enumerate(messages):
            assert view.l1_to_l2_message_index(message) == (number - 1) * 1024 + position
        total += len(messages)
    assert total == 16


def test_l2_to_l1_messages_are_grouped_by_checkpoint_block_and_transaction(
    view: ChainView, sample: SampleChain
) -> None:
    messages = 0
    for epoch in (3, 4):
        expected = [
            [
                [effect["l2ToL1Msgs"] for effect in block["body"]["txEffects"]]
                for block in sample.checkpoint_json(number)["published"]["checkpoint"]["blocks"]
            ]
            for number in view.checkpoint_numbers_of_epoch(epoch)
        ]
        assert view.l2_to_l1_messages_json(epoch) == orjson.dumps(expected)
        messages += view.l2_to_l1_messages_json(epoch).count(b"0x")
    assert messages == 19


def test_l2_to_l1_messages_of_a_block_are_bytes(view: ChainView, blocks: list[Json]) -> None:
    for number, raw in enumerate(blocks, 1):
        assert view.l2_to_l1_messages_of_block(number) == [
            [as_bytes(message) for message in effect["l2ToL1Msgs"]] for effect in raw["body"]["txEffects"]
        ]


# ---- tips --------------------------------------------------------------------------------------


def test_an_empty_chain_has_the_tips_of_the_protocol(store: ArchiverStore) -> None:
    with store.open_view() as view:
        genesis = view.block_id(0)
        assert genesis.hash == view.chain.genesis_block_hash
        constants = genesis_tips()
        assert view.tips.proposed == genesis
        for tip in (view.tips.checkpointed, view.tips.proven, view.tips.finalized):
            assert (tip.block, tip.checkpoint) == (genesis, constants.checkpointed.checkpoint)
        assert view.tip_number == 0


def test_the_tips_are_those_of_the_file(view: ChainView, sample: SampleChain) -> None:
    assert orjson.loads(view.tips_json) == orjson.loads(sample.lines[-1])["tips"]


def test_the_newest_complete_checkpoint_of_each_block(full_ingestor: Ingestor, sample: SampleChain) -> None:
    last_blocks = {
        sample.checkpoint(number).block_headers[-1].global_variables.block_number: number for number in range(1, 42)
    }
    full_ingestor.undo_above(105)
    expected = 0
    for number in range(106):
        expected = last_blocks.get(number, expected)
        assert full_ingestor.view.newest_complete_checkpoint(number) == expected


# ---- one moment --------------------------------------------------------------------------------


def test_a_view_stays_as_it_was(store: ArchiverStore, ingestor: Ingestor, sample: SampleChain) -> None:
    old = ingestor.view
    everything = dict(old.scan())
    for number in range(1, 8):
        ingestor.apply(sample.checkpoint(number))
    assert dict(old.scan()) == everything
    assert (old.tip_number, ingestor.view.tip_number) == (0, 15)
    assert old.block_info(1) is None
    assert old.block_number_by_hash(sample.block(1).hash()) is None


def test_views_stay_consistent_while_blocks_come_and_go(
    store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    """A reader thread checks each view it gets hold of against itself, during ingestion and undo."""
    ingestor = open_ingestor(store, verification=Verification.NONE)
    stop = threading.Event()
    failures: list[BaseException] = []
    seen: set[int] = set()

    def read() -> None:
        try:
            while not stop.is_set():
                view = ingestor.view
                seen.add(view.tip_number)
                assert_consistent(view)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for last, kept in ((20, 7), (30, 40), (41, 0), (41, 3)):
            for number in range(1, last + 1):
                ingestor.apply(sample.checkpoint(number))
            ingestor.undo_above(kept)
    finally:
        stop.set()
        reader.join()
    assert not failures, failures[0]
    assert len(seen) > 20
    del reader, read
    assert store._database.owners == 2  # the store and the ingestor's view: the reader's were collected


def assert_consistent(view: ChainView) -> None:
    """All ways to the newest block meet, and nothing beyond it shows."""
    tip = view.tip_number
    info = view.block_info(tip)
    assert info is not None
    assert view.block_number_by_hash(info.hash) == tip
    assert view.block_number_by_archive(info.archive_root) == tip
    assert view.body_json(tip) is not None
    assert view.get(b"b" + (tip + 1).to_bytes(4, "big")) is None
    for tx_hash in view.tx_hashes(tip) or []:
        location = view.tx_location(tx_hash)
        assert location is not None
        assert location.block_number == tip
    checkpointed = view.tips.checkpointed.checkpoint.number
    assert view.checkpoint(checkpointed + 1) is None
    if checkpointed:
        checkpoint = view.checkpoint(checkpointed)
        assert checkpoint is not None
        assert checkpoint.last_block == view.tips.checkpointed.block.number <= tip


def test_a_missing_value_points_to_the_check(full_store: ArchiverStore) -> None:
    batch = full_store.write_batch()
    batch.delete(b"e" + (50).to_bytes(4, "big") + bytes(4))
    batch.commit()
    with full_store.open_view() as view, pytest.raises(DatabaseError, match="run `fastnode db check`"):
        view.body_json(50)
