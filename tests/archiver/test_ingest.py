"""Adding checkpoints and blocks, adding them again, moving tips, and every reason to refuse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.source import BlockRecord, CheckpointRecord, TipsRecord, UndoRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import BlockRejected
from fastnode.protocol.block import L2Block
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips
from fastnode.storage.database import WriteBatch

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Contents = Callable[[ArchiverStore], dict[bytes, bytes]]
Json = dict[str, Any]

OTHER_FIELD = "0x" + "00" * 31 + "07"


@pytest.fixture
def unverified(store: ArchiverStore, open_ingestor: Callable[..., Ingestor]) -> Ingestor:
    """It checks the order of records only."""
    return open_ingestor(store, verification=Verification.NONE)


def add_checkpoints(ingestor: Ingestor, sample: SampleChain, count: int) -> None:
    for number in range(1, count + 1):
        ingestor.apply(sample.checkpoint(number))


def header_of(record: Json) -> Json:
    return record["published"]["checkpoint"]["header"]


def blocks_of(record: Json) -> list[Json]:
    return record["published"]["checkpoint"]["blocks"]


# ---- accepting ---------------------------------------------------------------------------------


def test_a_checkpoint_adds_its_blocks_and_moves_two_tips(ingestor: Ingestor, sample: SampleChain) -> None:
    assert [ingestor.apply(sample.checkpoint(number)) for number in range(1, 5)] == [1, 1, 1, 2]
    tips = ingestor.view.tips
    assert tips.proposed == tips.checkpointed.block
    assert tips.proposed.number == 5
    assert tips.checkpointed.checkpoint.number == 4
    assert tips.proven.checkpoint.number == 0


def test_every_checkpoint_of_the_bundled_chain_passes_every_check(ingestor: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(ingestor, sample, sample.checkpoint_count)
    assert ingestor.view.tip_number == 106


def test_blocks_added_singly_and_then_checkpointed_give_the_same_database(
    store: ArchiverStore,
    full_store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    sample: SampleChain,
    contents: Contents,
) -> None:
    ingestor = open_ingestor(store, verification=Verification.NONE)
    for number in range(1, sample.checkpoint_count + 1):
        assert [ingestor.apply(record) for record in sample.block_records(number)].count(0) == 0
        assert ingestor.view.tips.checkpointed.checkpoint.number == number - 1
        assert ingestor.apply(sample.checkpoint(number)) == 0
    with full_store.open_view() as view:
        ingestor.set_tips(view.tips)
    assert contents(store) == contents(full_store)


def test_a_checkpoint_can_begin_with_known_blocks_and_end_with_new_ones(
    ingestor: Ingestor, sample: SampleChain
) -> None:
    add_checkpoints(ingestor, sample, 5)
    for record in sample.block_records(6)[:2]:
        ingestor.apply(record)
    assert ingestor.apply(sample.checkpoint(6)) == 2
    assert ingestor.view.tips.checkpointed.checkpoint.number == 6


def test_blocks_may_run_several_checkpoints_ahead(ingestor: Ingestor, sample: SampleChain) -> None:
    for number in (1, 2, 3, 4):
        for record in sample.block_records(number):
            ingestor.apply(record)
    assert ingestor.view.tips.proposed.number == 5
    assert ingestor.view.tips.checkpointed.checkpoint.number == 0
    for number in (1, 2, 3, 4):
        assert ingestor.apply(sample.checkpoint(number)) == 0
        assert ingestor.view.tips.checkpointed.checkpoint.number == number


def test_an_unfinished_checkpoint_goes_on_after_a_restart(
    store: ArchiverStore, ingestor: Ingestor, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    add_checkpoints(ingestor, sample, 5)
    records = sample.block_records(6)
    for record in records[:2]:
        ingestor.apply(record)
    restarted = open_ingestor(store)
    assert [restarted.apply(record) for record in records] == [0, 0, 1, 1]
    assert restarted.apply(sample.checkpoint(6)) == 0


def test_each_commit_is_published(
    store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    seen: list[tuple[int, int]] = []
    ingestor = open_ingestor(
        store,
        on_commit=lambda commit: seen.append((commit.view.tip_number, commit.view.tips.checkpointed.checkpoint.number)),
    )
    add_checkpoints(ingestor, sample, 4)
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)]


# ---- adding again ------------------------------------------------------------------------------


def test_adding_everything_again_changes_nothing(
    full_store: ArchiverStore, full_ingestor: Ingestor, sample: SampleChain, contents: Contents
) -> None:
    before = contents(full_store)
    for number in range(1, sample.checkpoint_count + 1):
        assert full_ingestor.apply(sample.checkpoint(number)) == 0
        record = sample.checkpoint(number)
        assert full_ingestor.add_checkpoint(record.published, record.l1_to_l2_messages) == 0
    for number in range(1, 107):
        assert full_ingestor.add_block(sample.block(number)) is False
    assert contents(full_store) == before


def test_a_known_checkpoint_may_be_published_anew(full_ingestor: Ingestor, sample: SampleChain) -> None:
    record = sample.checkpoint_json(7)
    record["published"]["l1"]["blockNumber"] = "7777"
    assert full_ingestor.apply(CheckpointRecord(record)) == 0
    checkpoint = full_ingestor.view.checkpoint(7)
    assert checkpoint is not None
    assert b'"blockNumber":"7777"' in checkpoint.l1_json
    assert full_ingestor.view.tips.checkpointed.checkpoint.number == 41


def change_known_header(record: Json) -> None:
    header_of(record)["blobsHash"] = OTHER_FIELD


def change_known_block(record: Json) -> None:
    blocks_of(record)[1]["header"]["totalManaUsed"] = OTHER_FIELD


def change_known_archive(record: Json) -> None:
    blocks_of(record)[1]["archive"]["root"] = OTHER_FIELD


def drop_known_block(record: Json) -> None:
    del blocks_of(record)[1]


def change_known_modifier(record: Json) -> None:
    record["published"]["checkpoint"]["feeAssetPriceModifier"] = "-12"


def add_known_message(record: Json) -> None:
    record["l1ToL2Messages"] = [OTHER_FIELD]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_known_header, r"checkpoint 5, known already: header hash is 0x00\w+, expected 0x00"),
        (change_known_block, r"block 7, known already: hash is"),
        (change_known_archive, r"block 7, known already: archive.root is"),
        (drop_known_block, r"checkpoint 5, known already: number of blocks is 1, expected 2"),
        (change_known_modifier, r"checkpoint 5, known already: feeAssetPriceModifier is -12, expected 0"),
        (add_known_message, r"checkpoint 5, known already: number of L1->L2 messages is 1, expected 0"),
    ],
)
def test_a_different_checkpoint_at_a_known_number_is_rejected(
    full_store: ArchiverStore,
    full_ingestor: Ingestor,
    sample: SampleChain,
    contents: Contents,
    change: Callable[[Json], None],
    message: str,
) -> None:
    before = contents(full_store)
    raw = sample.checkpoint_json(5)
    change(raw)
    record = CheckpointRecord(raw)
    with pytest.raises(BlockRejected, match=message):
        full_ingestor.add_checkpoint(record.published, record.l1_to_l2_messages)
    assert contents(full_store) == before


def test_a_checkpoint_with_another_header_is_not_taken_for_the_known_one(
    full_ingestor: Ingestor, sample: SampleChain
) -> None:
    for change in (change_known_header, change_known_block, drop_known_block, change_known_modifier, add_known_message):
        record = sample.checkpoint_json(5)
        change(record)
        with pytest.raises(BlockRejected, match="known already"):
            full_ingestor.apply(CheckpointRecord(record))


def test_a_different_block_at_a_known_number_is_rejected(full_ingestor: Ingestor, sample: SampleChain) -> None:
    raw = sample.block_json(50)
    raw["header"]["totalManaUsed"] = OTHER_FIELD
    with pytest.raises(BlockRejected, match="block 50, known already: hash is"):
        full_ingestor.add_block(L2Block.from_json(raw))


# ---- rejecting a checkpoint --------------------------------------------------------------------


def set_number(record: Json) -> None:
    record["published"]["checkpoint"]["number"] = 7


def set_block_number(record: Json) -> None:
    blocks_of(record)[0]["header"]["globalVariables"]["blockNumber"] = 9


def set_checkpoint_number_of_block(record: Json) -> None:
    blocks_of(record)[1]["checkpointNumber"] = 7


def set_index_within_checkpoint(record: Json) -> None:
    blocks_of(record)[1]["indexWithinCheckpoint"] = 2


def set_parent_archive(record: Json) -> None:
    blocks_of(record)[0]["header"]["lastArchive"]["root"] = OTHER_FIELD


def set_parent_archive_size(record: Json) -> None:
    blocks_of(record)[0]["header"]["lastArchive"]["nextAvailableLeafIndex"] = 7


def set_archive_between_blocks(record: Json) -> None:
    blocks_of(record)[0]["archive"]["root"] = OTHER_FIELD


def set_archive_size(record: Json) -> None:
    blocks_of(record)[0]["archive"]["nextAvailableLeafIndex"] = 7


def set_slot_of_one_block(record: Json) -> None:
    blocks_of(record)[1]["header"]["globalVariables"]["slotNumber"] = f"0x{9:064x}"


def set_slot_back(record: Json) -> None:
    blocks_of(record)[0]["header"]["globalVariables"]["slotNumber"] = f"0x{7:064x}"


def set_time_back(record: Json) -> None:
    blocks_of(record)[0]["header"]["globalVariables"]["timestamp"] = "1"


def set_chain_id(record: Json) -> None:
    blocks_of(record)[0]["header"]["globalVariables"]["chainId"] = OTHER_FIELD


def set_version(record: Json) -> None:
    blocks_of(record)[0]["header"]["globalVariables"]["version"] = OTHER_FIELD


def set_coinbase_of_one_block(record: Json) -> None:
    blocks_of(record)[1]["header"]["globalVariables"]["coinbase"] = "0x" + "12" * 20


def set_coinbase_of_all_blocks(record: Json) -> None:
    for block in blocks_of(record):
        block["header"]["globalVariables"]["coinbase"] = "0x" + "12" * 20


def set_total_fees(record: Json) -> None:
    blocks_of(record)[0]["header"]["totalFees"] = OTHER_FIELD


def set_total_mana(record: Json) -> None:
    blocks_of(record)[0]["header"]["totalManaUsed"] = OTHER_FIELD


def set_state_root(record: Json) -> None:
    blocks_of(record)[3]["header"]["state"]["partial"]["noteHashTree"]["root"] = OTHER_FIELD


def set_sponge_blob_hash(record: Json) -> None:
    blocks_of(record)[0]["header"]["spongeBlobHash"] = OTHER_FIELD


def set_nullifier(record: Json) -> None:
    blocks_of(record)[0]["body"]["txEffects"][0]["nullifiers"][1] = OTHER_FIELD


def drop_nullifiers(record: Json) -> None:
    blocks_of(record)[0]["body"]["txEffects"][0]["nullifiers"] = []


def add_zero(key: str, value: Any = "0x" + "00" * 32) -> Callable[[Json], None]:
    def change(record: Json) -> None:
        blocks_of(record)[0]["body"]["txEffects"][0][key].append(value)

    return change


def fill_padding_of_private_log(record: Json) -> None:
    blocks_of(record)[0]["body"]["txEffects"][0]["privateLogs"][0]["fields"][15] = OTHER_FIELD


def fill_padding_of_class_log(record: Json) -> None:
    blocks_of(record)[0]["body"]["txEffects"][0]["contractClassLogs"][0]["fields"]["fields"][3022] = OTHER_FIELD


def double_transaction(record: Json) -> None:
    effects = blocks_of(record)[0]["body"]["txEffects"]
    blocks_of(record)[0]["header"]["totalFees"] = "0x" + f"{2 * int(effects[0]['transactionFee'], 16):064x}"
    effects.append(effects[0])


def drop_last_block(record: Json) -> None:
    del blocks_of(record)[3]


def drop_all_blocks(record: Json) -> None:
    blocks_of(record).clear()


def set_archive_of_checkpoint(record: Json) -> None:
    record["published"]["checkpoint"]["archive"]["root"] = OTHER_FIELD


def set_header(key: str, value: Any) -> Callable[[Json], None]:
    def change(record: Json) -> None:
        header_of(record)[key] = value

    change.__name__ = f"set_{key}"
    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_number, r"checkpoint 7: number is 7, expected 6"),
        (set_block_number, r"block 9: header.globalVariables.blockNumber is 9, expected 8"),
        (set_checkpoint_number_of_block, r"block 9: checkpointNumber is 7, expected 6"),
        (set_index_within_checkpoint, r"block 9: indexWithinCheckpoint is 2, expected 1"),
        (set_parent_archive, r"block 8: header.lastArchive.root is 0x00\w+07, expected 0x\w{64}"),
        (set_parent_archive_size, r"block 8: header.lastArchive.nextAvailableLeafIndex is 7, expected 8"),
        (set_archive_between_blocks, r"block 9: header.lastArchive.root is 0x\w{64}, expected 0x00\w+07"),
        (set_archive_size, r"block 8: archive.nextAvailableLeafIndex is 7, expected 9"),
        (set_slot_of_one_block, r"block 9: header.globalVariables.slotNumber is 9, expected 8"),
        (set_slot_back, r"block 8: header.globalVariables.slotNumber is 7, expected more than 7"),
        (set_time_back, r"block 8: header.globalVariables.timestamp is 1, expected more than \d+"),
        (set_chain_id, r"block 8: header.globalVariables.chainId is 7, expected 31337"),
        (set_version, r"block 8: header.globalVariables.version is 7, expected \d+"),
        (set_coinbase_of_one_block, r"block 9: header.globalVariables.coinbase is 0x1212\w+, expected 0x"),
        (set_total_fees, r"block 8: header.totalFees is 7, expected \d+"),
        (set_coinbase_of_all_blocks, r"checkpoint 6: header.blockHeadersHash is"),
        (set_total_mana, r"block 8: header.spongeBlobHash is"),
        (set_state_root, r"block 11: header.spongeBlobHash is"),
        (set_sponge_blob_hash, r"block 8: header.spongeBlobHash is 0x00\w+07, expected 0x"),
        (set_nullifier, r"block 8: header.spongeBlobHash is 0x\w{64}, expected 0x"),
        (drop_nullifiers, r"block 8: transaction 0: number of nullifiers is 0, at least 1 needed"),
        (add_zero("noteHashes"), r"block 8: transaction 0: noteHashes\[\d+\] is zero"),
        (add_zero("nullifiers"), r"block 8: transaction 0: nullifiers\[\d+\] is zero"),
        (add_zero("l2ToL1Msgs"), r"block 8: transaction 0: l2ToL1Msgs\[\d+\] is zero"),
        (
            add_zero("publicDataWrites", {"leafSlot": "0x" + "00" * 32, "value": "0x" + "00" * 32}),
            r"block 8: transaction 0: publicDataWrites\[\d+\] is zero",
        ),
        (
            add_zero("privateLogs", {"fields": ["0x" + "00" * 32] * 16, "emittedLength": 0}),
            r"block 8: transaction 0: privateLogs\[\d+\] is empty",
        ),
        (fill_padding_of_private_log, r"block 8: transaction 0: privateLogs\[0\] is not zero behind its emittedLength"),
        (fill_padding_of_class_log, r"block 8: transaction 0: contractClassLogs\[0\] is not zero behind its"),
        (double_transaction, r"block 8: header.spongeBlobHash is"),
        (drop_last_block, r"checkpoint 6: archive is"),
        (drop_all_blocks, r"checkpoint 6: has no blocks"),
        (set_archive_of_checkpoint, r"checkpoint 6: archive is"),
        (set_header("slotNumber", 9), r"checkpoint 6: header.slotNumber is 9, expected 8"),
        (set_header("blockHeadersHash", OTHER_FIELD), r"checkpoint 6: header.blockHeadersHash is 0x00\w+07"),
        (set_header("lastArchiveRoot", OTHER_FIELD), r"checkpoint 6: header.lastArchiveRoot is 0x00\w+07"),
        (set_header("timestamp", "5"), r"checkpoint 6: header.timestamp is 5, expected \d+"),
        (set_header("coinbase", "0x" + "12" * 20), r"checkpoint 6: header.coinbase is 0x1212"),
        (set_header("feeRecipient", OTHER_FIELD), r"checkpoint 6: header.feeRecipient is 0x00\w+07"),
        (set_header("totalManaUsed", OTHER_FIELD), r"checkpoint 6: header.totalManaUsed is 7, expected \d+"),
        (set_header("inHash", OTHER_FIELD), r"checkpoint 6: header.inHash is 0x00\w+07, expected 0x"),
        (set_header("epochOutHash", OTHER_FIELD), r"checkpoint 6: header.epochOutHash is 0x00\w+07, expected 0x"),
        (
            set_header("gasFees", {"feePerDaGas": "1", "feePerL2Gas": "2"}),
            r"checkpoint 6: header.gasFees is .*, expected",
        ),
    ],
)
def test_a_checkpoint_with_one_wrong_value_is_rejected_by_name_and_leaves_no_trace(
    store: ArchiverStore,
    ingestor: Ingestor,
    sample: SampleChain,
    contents: Contents,
    change: Callable[[Json], None],
    message: str,
) -> None:
    add_checkpoints(ingestor, sample, 5)
    before = contents(store)
    record = sample.checkpoint_json(6)
    change(record)
    with pytest.raises(BlockRejected, match=message):
        ingestor.apply(CheckpointRecord(record))
    assert contents(store) == before
    assert ingestor.apply(sample.checkpoint(6)) == 4


def test_a_checkpoint_that_skips_one_is_rejected(ingestor: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(ingestor, sample, 2)
    with pytest.raises(BlockRejected, match="checkpoint 4: number is 4, expected 3"):
        ingestor.apply(sample.checkpoint(4))


@pytest.mark.parametrize("number", [12, 13])
def test_a_wrong_l2_to_l1_message_is_rejected(
    store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain, number: int
) -> None:
    ingestor = open_ingestor(store, verification=Verification.NONE)
    add_checkpoints(ingestor, sample, number - 1)
    strict = open_ingestor(store)
    record = sample.checkpoint_json(number)
    header_of(record)["epochOutHash"] = OTHER_FIELD
    with pytest.raises(BlockRejected, match=f"checkpoint {number}: header.epochOutHash is 0x00.*07"):
        strict.apply(CheckpointRecord(record))
    assert strict.apply(sample.checkpoint(number)) == 4


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([OTHER_FIELD], r"checkpoint 8: header.inHash is 0x\w{64}, expected 0x\w{64}"),
        ([], r"checkpoint 8: header.inHash is"),
        (["0x" + "00" * 32], r"checkpoint 8: L1->L2 message 0 is zero, expected no padding"),
        ([OTHER_FIELD, OTHER_FIELD], r"checkpoint 8: an L1->L2 message is there twice"),
        ([f"0x{i:064x}" for i in range(1, 1026)], r"number of L1->L2 messages is 1025, at most 1024 allowed"),
    ],
)
def test_wrong_l1_to_l2_messages_are_rejected(
    store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    sample: SampleChain,
    messages: list[str],
    message: str,
) -> None:
    add_checkpoints(open_ingestor(store, verification=Verification.NONE), sample, 7)
    record = sample.checkpoint_json(8) | {"l1ToL2Messages": messages}
    with pytest.raises(BlockRejected, match=message):
        open_ingestor(store).apply(CheckpointRecord(record))


def test_a_message_of_an_earlier_checkpoint_is_rejected(unverified: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(unverified, sample, 8)
    record = sample.checkpoint_json(9) | {"l1ToL2Messages": sample.checkpoint_json(8)["l1ToL2Messages"][:1]}
    with pytest.raises(BlockRejected, match=r"checkpoint 9: L1->L2 message 0x\w{64}: index is 8192, expected 7168"):
        unverified.apply(CheckpointRecord(record))


def test_without_verification_only_the_order_is_checked(unverified: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(unverified, sample, 5)
    wrong_hash = sample.checkpoint_json(6)
    set_sponge_blob_hash(wrong_hash)
    header_of(wrong_hash)["inHash"] = OTHER_FIELD
    wrong_parent = sample.checkpoint_json(6)
    set_parent_archive(wrong_parent)
    with pytest.raises(BlockRejected, match="lastArchive"):
        unverified.apply(CheckpointRecord(wrong_parent))
    assert unverified.apply(CheckpointRecord(wrong_hash)) == 4


def test_running_without_verification_is_said_in_the_log(
    store: ArchiverStore, open_ingestor: Callable[..., Ingestor], caplog: pytest.LogCaptureFixture
) -> None:
    open_ingestor(store, verification=Verification.NONE)
    assert "verification is off: not checked: " in caplog.text


# ---- rejecting a block -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 3, 106])
def test_a_block_that_does_not_follow_the_newest_is_rejected(
    ingestor: Ingestor, sample: SampleChain, number: int
) -> None:
    add_checkpoints(ingestor, sample, 1)
    raw = sample.block_json(2)
    raw["header"]["globalVariables"]["blockNumber"] = number
    with pytest.raises(BlockRejected, match=f"block {number}: header.globalVariables.blockNumber is {number}"):
        ingestor.add_block(L2Block.from_json(raw))


def test_a_known_transaction_is_rejected(unverified: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(unverified, sample, 3)
    raw = sample.block_json(4)
    raw["body"]["txEffects"][0]["txHash"] = sample.block_json(2)["body"]["txEffects"][0]["txHash"]
    with pytest.raises(BlockRejected, match=r"block 4: transaction 0x\w{64} is already in block 2"):
        unverified.add_block(L2Block.from_json(raw))


def test_a_transaction_twice_in_one_checkpoint_is_rejected(unverified: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(unverified, sample, 3)
    record = sample.checkpoint_json(4)
    first, second = blocks_of(record)
    second["body"] = first["body"]
    with pytest.raises(BlockRejected, match=r"block 5: transaction 0x\w{64} is there twice"):
        unverified.apply(CheckpointRecord(record))


def test_a_known_archive_root_is_rejected(unverified: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(unverified, sample, 3)
    raw = sample.block_json(4)
    raw["archive"]["root"] = sample.block_json(2)["archive"]["root"]
    with pytest.raises(BlockRejected, match=r"block 4: archive.root 0x\w{64} is already that of block 2"):
        unverified.add_block(L2Block.from_json(raw))


def test_messages_for_a_later_block_of_a_checkpoint_are_rejected(ingestor: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(ingestor, sample, 3)
    first, second = sample.block_records(4)
    ingestor.apply(first)
    with pytest.raises(BlockRejected, match="block 5: L1->L2 messages given, expected none after a first block"):
        ingestor.add_block(second.block, [b"\x01" * 32])


def test_a_checkpoint_whose_messages_differ_from_those_of_its_first_block_is_rejected(
    unverified: Ingestor, sample: SampleChain
) -> None:
    add_checkpoints(unverified, sample, 7)
    unverified.add_block(sample.block(sample.checkpoint(8).block_headers[0].global_variables.block_number), [])
    with pytest.raises(BlockRejected, match="checkpoint 8, known already: number of L1->L2 messages is 5, expected 0"):
        unverified.apply(sample.checkpoint(8))


def test_a_checkpoint_that_ends_before_a_known_block_of_it_is_rejected(
    unverified: Ingestor, sample: SampleChain
) -> None:
    add_checkpoints(unverified, sample, 3)
    for record in sample.block_records(4):
        unverified.apply(record)
    short = sample.checkpoint_json(4)
    del blocks_of(short)[1]
    with pytest.raises(
        BlockRejected,
        match="block 5, stored behind the last block of checkpoint 4: checkpointNumber is 4, expected 5",
    ):
        unverified.apply(CheckpointRecord(short))


def test_a_rejected_block_does_not_spoil_the_next_one(ingestor: Ingestor, sample: SampleChain) -> None:
    add_checkpoints(ingestor, sample, 5)
    records = sample.block_records(6)
    ingestor.apply(records[0])
    raw = sample.block_json(9)
    raw["header"]["spongeBlobHash"] = OTHER_FIELD
    with pytest.raises(BlockRejected, match=r"block 9: header\.spongeBlobHash"):
        ingestor.apply(BlockRecord({"block": raw}))
    assert [ingestor.apply(record) for record in records] == [0, 1, 1, 1]


# ---- tips --------------------------------------------------------------------------------------


def test_proven_and_finalized_move_forward_and_back(full_ingestor: Ingestor) -> None:
    view = full_ingestor.view
    for proven, finalized in ((41, 40), (20, 0), (0, 0), (39, 36)):
        tips = dataclasses.replace(
            view.tips, proven=view.tip_of_checkpoint(proven), finalized=view.tip_of_checkpoint(finalized)
        )
        full_ingestor.apply(TipsRecord(tips))
        assert full_ingestor.view.tips == tips


def unknown_block(tips: L2Tips) -> L2Tips:
    return dataclasses.replace(tips, proposed=BlockId(107, tips.proposed.hash))


def wrong_block_hash(tips: L2Tips) -> L2Tips:
    return dataclasses.replace(tips, proposed=BlockId(106, bytes(32)))


def unknown_checkpoint(tips: L2Tips) -> L2Tips:
    proven = dataclasses.replace(tips.proven, checkpoint=CheckpointId(42, bytes(32)))
    return dataclasses.replace(tips, proven=proven)


def wrong_checkpoint_hash(tips: L2Tips) -> L2Tips:
    proven = dataclasses.replace(tips.proven, checkpoint=CheckpointId(39, bytes(32)))
    return dataclasses.replace(tips, proven=proven)


def wrong_last_block(tips: L2Tips) -> L2Tips:
    proven = dataclasses.replace(tips.proven, block=tips.finalized.block)
    return dataclasses.replace(tips, proven=proven)


def proven_above_checkpointed(tips: L2Tips) -> L2Tips:
    return dataclasses.replace(tips, checkpointed=tips.finalized)


def finalized_above_proven(tips: L2Tips) -> L2Tips:
    return dataclasses.replace(tips, finalized=tips.checkpointed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (unknown_block, "tips.proposed: block 107 is unknown, the newest is 106"),
        (wrong_block_hash, "tips.proposed: block 106: hash is 0x0000"),
        (unknown_checkpoint, "tips.proven: checkpoint 42 is unknown, the newest is 41"),
        (wrong_checkpoint_hash, "tips.proven: checkpoint 39: hash is 0x0000"),
        (wrong_last_block, "tips.proven: checkpoint 39: last block is 92, expected 99"),
        (proven_above_checkpointed, "tips.proven: checkpoint 39 is above the checkpointed tip, checkpoint 36"),
        (finalized_above_proven, "tips.finalized: checkpoint 41 is above the proven tip, checkpoint 39"),
    ],
)
def test_tips_that_do_not_fit_the_chain_are_rejected(
    full_ingestor: Ingestor, change: Callable[[L2Tips], L2Tips], message: str
) -> None:
    before = full_ingestor.view.tips
    with pytest.raises(BlockRejected, match=message):
        full_ingestor.set_tips(change(before))
    assert full_ingestor.view.tips == before


def test_tips_at_the_genesis_are_accepted_with_their_constant_hash(ingestor: Ingestor) -> None:
    tips = ingestor.view.tips
    ingestor.set_tips(tips)
    wrong = dataclasses.replace(tips, proven=dataclasses.replace(tips.proven, checkpoint=CheckpointId(0, bytes(32))))
    with pytest.raises(BlockRejected, match=r"tips\.proven: checkpoint\.hash is"):
        ingestor.set_tips(wrong)


# ---- undo --------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_number", [0, 1, 4, 5, 8, 9, 17, 21, 50, 105])
def test_undoing_and_adding_again_gives_the_same_database(
    full_store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    sample: SampleChain,
    contents: Contents,
    block_number: int,
) -> None:
    ingestor = open_ingestor(full_store, verification=Verification.NONE)
    before, tips = contents(full_store), ingestor.view.tips
    ingestor.apply(UndoRecord(block_number))
    assert ingestor.view.tip_number == block_number
    assert sum(ingestor.apply(sample.checkpoint(number)) for number in range(1, 42)) == 106 - block_number
    ingestor.set_tips(tips)
    assert contents(full_store) == before


@pytest.mark.parametrize("block_number", [0, 3, 4, 9])
def test_undoing_leaves_what_never_having_seen_the_blocks_leaves(
    store: ArchiverStore,
    full_store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    sample: SampleChain,
    contents: Contents,
    block_number: int,
) -> None:
    fresh = open_ingestor(store, verification=Verification.NONE)
    records = [record for number in range(1, 7) for record in sample.block_records(number)]
    for record in records[:block_number]:
        fresh.apply(record)
    for number in range(1, 7):
        if sample.checkpoint(number).block_headers[-1].global_variables.block_number <= block_number:
            fresh.apply(sample.checkpoint(number))
    undone = open_ingestor(full_store, verification=Verification.NONE)
    undone.undo_above(block_number)
    undone.set_tips(fresh.view.tips)
    assert contents(full_store) == contents(store)


def test_undo_lowers_each_tip_to_what_is_left(full_ingestor: Ingestor) -> None:
    def tips() -> tuple[int, int, int, int]:
        now = full_ingestor.view.tips
        return (
            now.proposed.number,
            now.checkpointed.checkpoint.number,
            now.proven.checkpoint.number,
            now.finalized.checkpoint.number,
        )

    assert tips() == (106, 41, 39, 36)
    for block_number, expected in (
        (105, (105, 40, 39, 36)),  # checkpoint 41 lost its last block
        (102, (102, 40, 39, 36)),  # exactly the end of checkpoint 40
        (100, (100, 39, 39, 36)),
        (98, (98, 38, 38, 36)),
        (91, (91, 35, 34, 34)),  # within an epoch, of which L1 has a later root
        (0, (0, 0, 0, 0)),
    ):
        full_ingestor.undo_above(block_number)
        assert tips() == expected


def test_after_an_undo_only_a_root_that_is_known_to_be_on_l1_counts_as_proven(
    full_store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    """Epochs of the sample are 4 slots long: wherever an undo ends, the proven tip ends an epoch, or was final."""
    ingestor = open_ingestor(full_store, verification=Verification.NONE)
    slots = {number: sample.checkpoint(number).header.slot_number for number in range(1, 42)}
    ends = {number for number in range(1, 41) if slots[number] // 4 != slots[number + 1] // 4} | {0, 36}
    for number in range(38, 0, -1):
        stored = ingestor.view.checkpoint(number)
        assert stored is not None
        ingestor.undo_above(stored.last_block)
        tips = ingestor.view.tips
        assert tips.checkpointed.checkpoint.number == number
        assert tips.proven.checkpoint.number in ends
        assert tips.proven.checkpoint.number == max(
            end for end in ends if end <= number and (end != 36 or number >= 36)
        )
        assert tips.finalized.checkpoint.number <= tips.proven.checkpoint.number


def test_undoing_above_the_tip_does_nothing(
    full_store: ArchiverStore, full_ingestor: Ingestor, contents: Contents
) -> None:
    before = contents(full_store)
    assert full_ingestor.undo_above(106) == 0
    assert full_ingestor.undo_above(2000) == 0
    assert contents(full_store) == before


def test_undoing_below_the_genesis_is_a_mistake_of_the_caller(full_ingestor: Ingestor) -> None:
    with pytest.raises(ValueError, match="cannot undo above block -1"):
        full_ingestor.undo_above(-1)


def test_after_an_undo_another_block_is_accepted_at_that_number(
    full_store: ArchiverStore, open_ingestor: Callable[..., Ingestor], sample: SampleChain
) -> None:
    ingestor = open_ingestor(full_store, verification=Verification.NONE)
    other = sample.block_json(5)
    other["header"]["totalManaUsed"] = OTHER_FIELD
    block = L2Block.from_json(other)
    with pytest.raises(BlockRejected, match="known already"):
        ingestor.add_block(block)
    ingestor.undo_above(4)
    assert ingestor.add_block(block)
    assert ingestor.view.tips.proposed == BlockId(5, block.hash())
    assert ingestor.view.block_number_by_hash(sample.block(5).hash()) is None


class CrashAt:
    """An index writer without keys that fails when a certain block is undone."""

    prefixes = ()

    def __init__(self, block_number: int) -> None:
        self._block_number = block_number

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        pass

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        if block.number == self._block_number:
            raise RuntimeError("crash")


def test_a_long_undo_that_was_interrupted_is_finished_at_the_next_start(
    full_store: ArchiverStore,
    open_ingestor: Callable[..., Ingestor],
    monkeypatch: pytest.MonkeyPatch,
    contents: Contents,
) -> None:
    monkeypatch.setattr("fastnode.archiver.ingest.UNDO_BLOCKS_PER_BATCH", 10)
    ingestor = open_ingestor(full_store, index_writers=[CrashAt(70)])
    with pytest.raises(RuntimeError, match="crash"):
        ingestor.undo_above(20)
    assert ingestor.view.tip_number == 76
    resumed = open_ingestor(full_store)
    assert resumed.view.tip_number == 20
    after = contents(full_store)
    assert b"U" not in after
    assert not [key for key in after if key.startswith(b"b") and int.from_bytes(key[1:], "big") > 20]


def test_an_undo_of_several_batches_is_announced_once(
    full_store: ArchiverStore, open_ingestor: Callable[..., Ingestor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.archiver.ingest.UNDO_BLOCKS_PER_BATCH", 10)
    announced: list[int] = []
    ingestor = open_ingestor(full_store, on_commit=lambda commit: announced.append(commit.view.tip_number))
    ingestor.undo_above(20)
    assert announced == [20]
