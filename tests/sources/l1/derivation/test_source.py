"""The chain derived from L1 and blobs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from coincurve import PrivateKey
from tests.conftest import PATIENCE_S
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.derivation.deriving import Deriving, has
from tests.sources.l1.publishing import (
    PublishingL1,
    RecordedL1,
    Sheet,
    _commitment,
    multicall_data,
    propose_data,
    proposer_multicall_data,
    publish,
    send_messages,
)
from tests.sources.l1.scripted_l1 import Block
from tests.sources.made_chain import SHAPE, MadeChain

from fastnode.archiver.source import TipsRecord, UndoRecord
from fastnode.errors import BlobsUnavailable, UpstreamError, UpstreamFault, UpstreamUnavailable
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.kzg import are_commitments, blob_commitment, blobs_hash, versioned_hash
from fastnode.sources.blobs.base import BlobRequest
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobSources
from fastnode.sources.blobs.file_store import FileStore, folder_of, pack_blob
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.propose_calls import MULTICALL3
from fastnode.sources.l1.retries import PassRetries
from fastnode.sources.l1.source import CHECKPOINTS_TOGETHER
from fastnode.sources.l1.state import CheckpointPlace

Json = dict[str, Any]


def test_a_recorded_network_is_derived_hash_by_hash(tmp_path: Path, sample: list[Json], recorded: RecordedL1) -> None:
    with ExitStack() as stack:
        node = Deriving(tmp_path, sample[0], sample[1], recorded, stack)
        node.pass_()
        view = node.ingestor.view
        checkpoints = [line for line in sample if line["kind"] == "checkpoint"]
        assert node.checkpoint == len(checkpoints) == 41
        for line in checkpoints:
            expected = PublishedCheckpoint.from_json(line["published"])
            stored = view.checkpoint(expected.checkpoint.number)
            assert stored is not None
            assert stored.header_hash == expected.checkpoint.header.hash()
            assert orjson.loads(stored.l1_json) == expected.l1.to_json()
            assert orjson.loads(stored.attestations_json) == []
            for block in expected.checkpoint.blocks:
                assert view.load_block(block.number) == block
            messages = ["0x" + item.hex() for item in view.l1_to_l2_messages(expected.checkpoint.number)]
            assert messages == line["l1ToL2Messages"]
        assert node.tips.to_json() == sample[-1]["tips"]


def test_no_more_checkpoints_are_in_memory_at_once_than_may_be(
    tmp_path: Path, sample: list[Json], recorded: RecordedL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.sources.l1.source.CHECKPOINTS_AHEAD", 12)
    monkeypatch.setattr("fastnode.sources.l1.source.CHECKPOINTS_TOGETHER", 8)
    with ExitStack() as stack:
        node = Deriving(tmp_path, sample[0], sample[1], recorded, stack)
        fetch = node.fetcher.fetch
        ahead: list[int] = []

        def counted(request: BlobRequest, *, near_tip: bool) -> list[bytes]:
            ahead.append(request.checkpoint - node.checkpoint)
            return fetch(request, near_tip=near_tip)

        monkeypatch.setattr(node.fetcher, "fetch", counted)
        node.pass_()
        assert node.checkpoint == len(ahead) == 41
        assert 8 < max(ahead) <= 12


def test_blobs_of_a_network_are_verified_many_checkpoints_at_a_time(
    tmp_path: Path, sample: list[Json], recorded: RecordedL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most, counts = 0, 0, []

    def counted(claims: Sequence[tuple[bytes, bytes]]) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.005)  # three threads would meet here
        running -= 1
        counts.append(len(claims))
        return are_commitments(claims)

    monkeypatch.setattr("fastnode.sources.blobs.naming.are_commitments", counted)
    monkeypatch.setattr("fastnode.sources.blobs.naming.blob_commitment", None)
    with ExitStack() as stack:
        node = Deriving(tmp_path, sample[0], sample[1], recorded, stack)
        node.pass_()
        assert node.checkpoint == 41
        assert sum(counts) == node.fetcher.together_count == 41
    assert (most, max(counts)) == (1, CHECKPOINTS_TOGETHER)


# ---- a made chain, published on a scripted L1 -------------------------------------------------


#: Messages stay where they are when checkpoints are replaced; this chain would bring others.
without_messages = pytest.mark.parametrize("shape", [replace(SHAPE, l1_to_l2=0)])


def test_a_made_chain_with_messages_is_derived(node: Deriving, chain: MadeChain) -> None:
    assert any(unit.messages for unit in chain.units)
    node.pass_()
    assert has(node, chain)


def test_a_second_pass_brings_nothing_and_asks_nothing(node: Deriving, l1: PublishingL1) -> None:
    node.pass_()
    node.look()
    with l1.lock:
        l1.requests.clear()
    l1.beacon.requests.clear()
    assert list(node.source.records(lambda: node.ingestor.view)) == []
    assert "eth_getLogs" not in l1.requests
    assert l1.beacon.requests == []


def test_new_checkpoints_come_one_by_one(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    node.pass_()
    for blocks in (1, 3, 1):
        chain.checkpoint(blocks)
        publish(l1, chain.units[-1])
        node.pass_()
        assert has(node, chain)


def test_proven_and_finalized_tips_are_those_of_l1(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    l1.mine(proven=2)
    node.pass_()
    assert (node.tips.proven.checkpoint.number, node.tips.finalized.checkpoint.number) == (2, 0)
    l1.mine(l1.finality)
    node.pass_()
    assert (node.tips.proven.checkpoint.number, node.tips.finalized.checkpoint.number) == (2, 2)


def test_a_proof_that_is_taken_back_is_taken_back(node: Deriving, l1: PublishingL1) -> None:
    l1.mine(proven=2)
    node.pass_()
    l1.reorg(1)
    l1.mine(2, proven=1)
    node.pass_()
    assert node.tips.proven.checkpoint.number == 1


def test_what_is_final_ahead_of_what_is_stored_waits(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    l1.mine(proven=3)
    l1.mine(l1.finality)
    last = bytes.fromhex(chain.units[2].published["l1"]["blockHash"][2:]) if chain.units[2].published else b""
    assert last
    l1.beacon.hidden = set(l1.sheet(chain.units[2].published or {}).hashes)
    with pytest.raises(BlobsUnavailable):
        node.pass_()
    node.ingestor.view  # noqa: B018 - what was there before the missing blobs is stored
    assert node.checkpoint == 2
    l1.beacon.hidden = set()
    node.pass_()
    assert node.tips.finalized.checkpoint.number == 3


# ---- reorgs and prunes ------------------------------------------------------------------------


@without_messages
@pytest.mark.parametrize("depth", [1, 3])
def test_a_reorg_of_l1_is_followed(node: Deriving, chain: MadeChain, l1: PublishingL1, depth: int) -> None:
    for _ in range(depth):
        chain.checkpoint(1)
        publish(l1, chain.units[-1])
    node.pass_()
    with l1.lock:
        number = len(chain.units) - depth
        first = next(block.number for block in l1.blocks if block.pending > number)
        l1.reorg(len(l1.blocks) - first)
        chain.undo_to(chain.units[number - 1].blocks[-1].number)
        for _ in range(depth):
            chain.checkpoint(2)
            publish(l1, chain.units[-1])
    applied = node.pass_()
    assert any(isinstance(record, UndoRecord) for record in applied)
    assert has(node, chain)


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("later", [0, 2])
def test_a_reorg_that_only_moves_checkpoints_changes_nothing_else(
    node: Deriving, chain: MadeChain, l1: PublishingL1, moved: int, later: int
) -> None:
    """They are named with the blocks of L1 that have them now; no blob is asked for."""
    node.pass_()
    before, blobs = node.tips, node.fetcher.blob_count
    with l1.lock:
        numbers = [unit.number for unit in chain.units[-moved:]]
        first = next(block.number for block in l1.blocks if block.pending == numbers[0])
        l1.reorg(len(l1.blocks) - first)
        l1.mine(later)
        for unit in chain.units[-moved:]:
            publish(l1, unit)
        l1.mine(1)
    applied = node.pass_()
    assert not any(isinstance(record, UndoRecord) for record in applied)
    assert node.tips == before
    for number in range(1, len(chain.units) + 1):
        place = CheckpointPlace.of(node.ingestor.view, number)
        assert place is not None
        assert place.block_hash == l1.blocks[place.block_number].hash
    assert node.fetcher.blob_count == blobs
    assert node.pass_() == []


@pytest.mark.parametrize("later", [0, 3])
def test_an_l1_that_became_shorter_than_the_block_of_a_checkpoint_has_it_elsewhere(
    node: Deriving, chain: MadeChain, l1: PublishingL1, later: int
) -> None:
    """The EVM has no hash of a block that is still to come, nor has L1 such a block."""
    newest = chain.units[-1]
    with l1.lock:
        first = next(block.number for block in l1.blocks if block.pending == newest.number)
        l1.reorg(len(l1.blocks) - first)
        l1.mine(5)
        publish(l1, newest)
    node.pass_()
    with l1.lock:
        l1.reorg(len(l1.blocks) - first)
        publish(l1, newest)
        l1.mine(later)
    node.pass_()
    place = CheckpointPlace.of(node.ingestor.view, newest.number)
    assert place is not None
    assert (place.block_number, place.block_hash) == (first, l1.blocks[first].hash)


@pytest.mark.parametrize("seed", [0, 5, 17])
def test_reorgs_that_move_checkpoints_forth_and_back_leave_each_where_it_is(
    node: Deriving, chain: MadeChain, l1: PublishingL1, seed: int
) -> None:
    """Passes between them are cut off after a few records, and L1 begins to be read anew as after a restart."""
    choice = random.Random(seed)
    node.pass_()
    branches: list[list[Block]] = []
    longest = len(l1.blocks)

    def switch() -> None:
        """To another branch, or a new one, which then is the longest that ever was."""
        nonlocal longest
        branches.append(list(l1.blocks))
        l1.blocks[:] = choice.choice(branches[-3:])
        if choice.random() < 0.5:
            first = choice.randrange(2, len(chain.units) + 1)
            l1.reorg(len(l1.blocks) - next(block.number for block in l1.blocks if block.pending >= first))
            l1.mine(choice.randrange(1, 4))
            for unit in chain.units[first - 1 :]:
                publish(l1, unit)
        longest = max(longest, len(l1.blocks)) + 1
        l1.mine(longest - len(l1.blocks))

    for _ in range(choice.randrange(2, 8)):
        with l1.lock:
            switch()
        node.pass_(choice.randrange(4))
        if choice.random() < 0.3:
            node.begin_anew()
    node.pass_()
    for number in range(1, len(chain.units) + 1):
        place = CheckpointPlace.of(node.ingestor.view, number)
        assert place is not None
        assert place.block_hash == l1.blocks[place.block_number].hash


@without_messages
@pytest.mark.parametrize("after", range(1, 5))
@pytest.mark.parametrize("moved", [1, 2])
def test_a_reorg_in_the_middle_of_a_pass_leaves_each_checkpoint_where_it_is(
    node: Deriving, chain: MadeChain, l1: PublishingL1, after: int, moved: int
) -> None:
    """L1 is looked at before the rest of the pass is stored, and has one more checkpoint by then."""

    def switch(count: int) -> None:
        if count != after:
            return
        with l1.lock:
            first = next(block.number for block in l1.blocks if block.pending == len(chain.units) - moved + 1)
            l1.reorg(len(l1.blocks) - first)
            l1.mine(1)
            for unit in chain.units[-moved:]:
                publish(l1, unit)
            chain.checkpoint(1)
            publish(l1, chain.units[-1])
        node.look()

    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    with suppress(UpstreamError):
        node.pass_(meanwhile=switch)
    with suppress(UpstreamError):
        node.pass_(looks=False)
    node.pass_()
    assert has(node, chain)
    for number in range(1, len(chain.units) + 1):
        place = CheckpointPlace.of(node.ingestor.view, number)
        assert place is not None
        assert place.block_hash == l1.blocks[place.block_number].hash


@without_messages
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_reorg_between_a_look_and_its_pass_leaves_each_checkpoint_where_it_is(
    node: Deriving, chain: MadeChain, l1: PublishingL1, seed: int
) -> None:
    """The newest one, which is not stored yet, is moved as well as some of those below it."""
    choice = random.Random(seed)
    node.pass_()
    for _ in range(4):
        with l1.lock:
            chain.checkpoint(1)
            publish(l1, chain.units[-1])
            l1.mine(choice.randrange(2, 5))
        node.look()
        with l1.lock:
            moved, height = choice.randrange(2, 4), len(l1.blocks)
            first = next(block.number for block in l1.blocks if block.pending == len(chain.units) - moved + 1)
            l1.reorg(len(l1.blocks) - first)
            for unit in chain.units[-moved:]:
                publish(l1, unit)
            l1.mine(max(0, height - len(l1.blocks)) + choice.randrange(3))
        with suppress(UpstreamError):
            node.pass_(looks=False)
        node.pass_()
        assert has(node, chain)
        for number in range(1, len(chain.units) + 1):
            place = CheckpointPlace.of(node.ingestor.view, number)
            assert place is not None
            assert place.block_hash == l1.blocks[place.block_number].hash


def test_messages_that_come_otherwise_after_a_reorg_are_read_again(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    node.pass_()
    with l1.lock:
        first = next(block.number for block in l1.blocks if block.sent)
        l1.reorg(len(l1.blocks) - first)
        chain.undo_to(0)
        for _ in range(4):
            chain.checkpoint(1)
            publish(l1, chain.units[-1])
    node.pass_()
    assert has(node, chain)


@without_messages
def test_what_the_contract_gave_up_is_given_up(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    l1.mine(proven=1)
    node.pass_()
    assert node.checkpoint == 3
    l1.prune_to(1)
    node.pass_()
    assert node.checkpoint == 1
    chain.undo_to(chain.units[0].blocks[-1].number)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    node.pass_()
    assert has(node, chain)


@without_messages
def test_nothing_differs_from_l1_any_more_where_every_checkpoint_was_given_up(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    node.pass_()
    assert has(node, chain)
    l1.prune_to(0)
    node.look()
    observer = node.reader._observer
    assert observer is not None
    assert "has the archive root" in (observer.contradiction or "")
    node.pass_()
    assert node.checkpoint == 0
    l1.mine()
    node.look()
    assert observer.contradiction is None


@without_messages
def test_what_can_be_pruned_is_given_up_before_the_contract_does_it(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    kept: list[int] = []
    node.reader.on_pruned = kept.append
    l1.mine(proven=1)
    node.pass_()
    l1.mine(can_prune=True)
    node.pass_()
    assert node.checkpoint == 1
    assert node.source.checkpoints_behind(node.ingestor.view) == 0, "the node is where it belongs, and ready"
    assert kept == [chain.units[0].blocks[-1].number], "who judges pruned epochs is told what stays"
    l1.mine(can_prune=True)
    assert all(isinstance(record, TipsRecord) for record in node.pass_())
    chain.undo_to(chain.units[0].blocks[-1].number)
    chain.checkpoint(1)
    l1.prune_to(1)
    publish(l1, chain.units[-1], can_prune=False)
    node.pass_()
    assert has(node, chain)


@without_messages
@pytest.mark.parametrize("looks", [1, 2], ids=["at a new block", "again at the same one"])
@pytest.mark.parametrize("elapsed", [1, 12, 20, 24, 240], ids="{} seconds behind the one before".format)
def test_what_can_be_pruned_is_given_up_one_l1_slot_before_and_not_sooner(
    node: Deriving, l1: PublishingL1, elapsed: int, looks: int
) -> None:
    l1.mine(proven=1)
    node.pass_()
    l1.mine(timestamp=l1.head.timestamp + 12)
    node.pass_()
    # The time of the newest block and one slot of L1: when the next one comes.
    for seconds, is_given_up in ((13, False), (12, True)):
        at = l1.head.timestamp + elapsed
        l1.mine(timestamp=at, prunable_from=at + seconds)
        for _ in range(looks):
            node.pass_()
        assert (node.checkpoint == 1) is is_given_up


def test_a_checkpoint_that_was_seen_and_not_read_yet_is_not_stored(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    node.pass_()
    assert node.source.is_stored(node.ingestor.view)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    node.look()
    assert node.source.checkpoints_behind(node.ingestor.view) == 0, "as the last pass knew"
    assert not node.source.is_stored(node.ingestor.view)
    node.pass_()
    assert node.source.is_stored(node.ingestor.view)


def test_proposed_blocks_go_when_their_slot_is_over(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    node.pass_()
    chain.propose(2)
    unit = chain.units[-1]
    messages = tuple(bytes.fromhex(text[2:]) for text in unit.messages)
    node.ingestor.add_block(unit.blocks[0], messages)
    assert node.tips.proposed.number == unit.blocks[0].number
    start = int(chain.chain_record["l1Constants"]["l1GenesisTime"])
    slot = unit.blocks[0].header.global_variables.slot_number
    length = int(chain.chain_record["l1Constants"]["slotDuration"])
    l1.mine(timestamp=start + (slot + 1) * length)
    node.pass_()
    assert node.tips.proposed.number == unit.blocks[0].number - 1


@without_messages
@pytest.mark.parametrize("is_of_another_slot", [True, False], ids=["another slot", "the same slot"])
def test_proposed_blocks_go_when_l1_has_a_checkpoint_of_another_slot_that_nobody_can_read(
    node: Deriving, chain: MadeChain, l1: PublishingL1, is_of_another_slot: bool
) -> None:
    """A crash in the middle of a checkpoint leaves some of its blocks, and L1 may have given it up since then."""
    node.pass_()
    chain.propose(2)
    unit = chain.units[-1]
    node.ingestor.add_block(unit.blocks[0], ())
    begun = unit.blocks[0].number - 1
    if is_of_another_slot:
        chain.undo_to(begun)
        chain._chain._slot += 1
        chain.propose(2)
    chain.publish()
    published = PublishedCheckpoint.from_json(chain.units[-1].published)  # type: ignore[arg-type]
    sheet = l1.sheet(published)
    header = published.checkpoint.header
    l1.publish(sheet, timestamp=header.timestamp + int(chain.chain_record["l1Constants"]["slotDuration"]))
    l1.beacon.hidden = set(sheet.hashes)
    with pytest.raises(BlobsUnavailable):
        node.pass_()
    assert node.tips.proposed.number == begun + (not is_of_another_slot)
    l1.beacon.hidden = set()
    node.pass_()
    assert has(node, chain)


def test_a_checkpoint_confirms_the_proposed_blocks_that_it_has(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    node.pass_()
    chain.propose(2)
    unit = chain.units[-1]
    node.ingestor.add_block(unit.blocks[0], tuple(bytes.fromhex(text[2:]) for text in unit.messages))
    chain.publish()
    publish(l1, unit)
    applied = node.pass_()
    assert not any(isinstance(record, UndoRecord) for record in applied)
    assert has(node, chain)


@without_messages
@pytest.mark.parametrize("is_bent", [False, True], ids=["the same", "others"])
def test_stored_proposed_blocks_count_if_the_blobs_on_l1_are_theirs(
    node: Deriving, chain: MadeChain, l1: PublishingL1, is_bent: bool
) -> None:
    """Header, event and archive root agree with each other, and the committee has signed them; the blobs decide."""
    node.pass_()
    chain.propose(2)
    unit = chain.units[-1]
    for block in unit.blocks:
        node.ingestor.add_block(block, ())
    chain.publish()
    assert unit.published is not None
    sheet = l1.sheet(unit.published)
    if is_bent:
        bent = bytearray(sheet.blobs[0])
        bent[63] ^= 1
        sheet.blobs[0] = bytes(bent)
        sheet.commitments = [blob_commitment(blob) for blob in sheet.blobs]
        sheet.hashes = [versioned_hash(item) for item in sheet.commitments]
        checkpoint = sheet.published.checkpoint
        header = replace(checkpoint.header, blobs_hash=blobs_hash(sheet.hashes))
        sheet.published = replace(sheet.published, checkpoint=replace(checkpoint, header=header))
    l1.publish(sheet)
    l1.beacon.blobs.clear()
    if is_bent:
        with pytest.raises(BlobsUnavailable):
            node.pass_()
        assert node.checkpoint == unit.number - 1
    else:
        node.pass_()
        assert has(node, chain)


@without_messages
def test_a_checkpoint_replaces_proposed_blocks_that_are_others(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    node.pass_()
    chain.propose(1)
    unit = chain.units[-1]
    node.ingestor.add_block(unit.blocks[0], tuple(bytes.fromhex(text[2:]) for text in unit.messages))
    chain.undo_to(unit.blocks[0].number - 1)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    applied = node.pass_()
    assert any(isinstance(record, UndoRecord) for record in applied)
    assert has(node, chain)


# ---- what providers do ------------------------------------------------------------------------


def test_logs_from_outside_the_range_are_left_out(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    node.pass_()
    everything = {"fromBlock": "0x0", "toBlock": hex(10**5)}
    l1.tamper = lambda method, parameters, result: (
        l1._get_logs(parameters[0] | everything) if method == "eth_getLogs" else result
    )
    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    node.pass_()
    assert has(node, chain)


@without_messages
def test_a_log_of_a_checkpoint_that_is_no_longer_there_is_left_out(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    chain.checkpoint(1)
    replaced = chain.units[-1]
    publish(l1, replaced)
    l1.prune_to(3)
    chain.undo_to(replaced.blocks[0].number - 1)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    node.pass_()
    assert has(node, chain)


def test_logs_that_come_late_are_waited_for(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    l1.unindexed = 1
    with pytest.raises(UpstreamUnavailable, match="do not have checkpoint 3"):
        node.pass_()
    assert node.checkpoint == 2
    l1.unindexed = 0
    node.pass_()
    assert has(node, chain)


def test_a_state_that_is_told_with_the_block_before_it_is_read_again(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    """A node that is taking in a block may answer so; the block is told rightly from then on."""
    node.pass_()
    tell = l1._of_block
    l1._of_block = lambda block, data: tell(l1.blocks[block.number - 1] if block is l1.head else block, data)  # type: ignore[method-assign]
    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    with pytest.raises(UpstreamUnavailable, match="do not have checkpoint 4"):
        node.pass_()
    l1._of_block = tell  # type: ignore[method-assign]
    end = time.monotonic() + PATIENCE_S
    while not has(node, chain):  # the reader looks by itself too, and may have looked again before that
        assert time.monotonic() < end, node.reader.describe()
        with suppress(UpstreamUnavailable):
            node.pass_()


def test_a_provider_with_small_ranges_is_asked_for_small_ranges(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    l1.limits.range_blocks = 2
    l1.limits.batch = 3
    node.pass_()
    assert has(node, chain)


# ---- call data --------------------------------------------------------------------------------


def next_sheet(chain: MadeChain, l1: PublishingL1) -> Sheet:
    chain.checkpoint(1)
    unit = chain.units[-1]
    send_messages(l1, unit)
    assert unit.published is not None
    return l1.sheet(unit.published)


def other_of(sheet: Sheet) -> bytes:
    """Call data of a proposal that is not the one of the event."""
    checkpoint = sheet.published.checkpoint
    header = replace(checkpoint.header, total_mana_used=checkpoint.header.total_mana_used + 1)
    other = replace(sheet.published, checkpoint=replace(checkpoint, header=header))
    return propose_data(other, sheet.commitments, sheet.indices, sheet.signed)


def test_a_direct_call_is_found(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    sheet = next_sheet(chain, l1)
    l1.publish(sheet, sheet.transaction(l1.rollup, sheet.call_data))
    node.pass_()
    assert has(node, chain)


def test_of_two_proposals_in_one_multicall_the_one_of_the_event_counts(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    sheet = next_sheet(chain, l1)
    calls = [(l1.rollup, other_of(sheet)), (bytes(20), b"..."), (l1.rollup, sheet.call_data)]
    l1.publish(sheet, sheet.transaction(MULTICALL3, multicall_data(calls)))
    node.pass_()
    assert has(node, chain)


def test_a_call_through_a_proposer_contract_is_found(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    for inner in (False, True):
        sheet = next_sheet(chain, l1)
        call = (l1.rollup, sheet.call_data)
        calls = [(MULTICALL3, multicall_data([call]))] if inner else [call]
        l1.publish(sheet, sheet.transaction(b"\x99" * 20, proposer_multicall_data(calls)))
        node.pass_()
        assert has(node, chain)


@pytest.mark.parametrize("method", ["trace_transaction", "debug_traceTransaction"])
def test_a_nested_call_is_found_by_a_trace(node: Deriving, chain: MadeChain, l1: PublishingL1, method: str) -> None:
    sheet = next_sheet(chain, l1)
    rollup, data = hex_data(l1.rollup), hex_data(sheet.call_data)
    other = hex_data(other_of(sheet))
    steps = [
        {"type": "call", "traceAddress": [], "action": {"callType": "call", "to": "0x" + "11" * 20, "input": "0x"}},
        {"type": "call", "traceAddress": [0], "error": "Reverted", "action": {"callType": "call"}},
        {
            "type": "call",
            "traceAddress": [0, 1],
            "action": {"callType": "call", "to": rollup, "input": other},
        },
        {"type": "call", "traceAddress": [1], "action": {"callType": "call", "to": rollup, "input": data}},
    ]
    tree = {
        "type": "CALL",
        "to": "0x" + "11" * 20,
        "calls": [
            {"type": "CALL", "error": "reverted", "calls": [{"type": "CALL", "to": rollup, "input": data}]},
            {"type": "CALL", "to": rollup, "input": other},
            {"type": "CALL", "to": rollup, "input": data},
        ],
    }
    l1._methods[method] = lambda *_: steps if method == "trace_transaction" else tree
    l1.publish(sheet, sheet.transaction(b"\x11" * 20, b"nested"))
    node.pass_()
    assert has(node, chain)


def test_a_nested_call_without_a_trace_says_what_is_needed(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    sheet = next_sheet(chain, l1)
    l1.publish(sheet, sheet.transaction(b"\x11" * 20, b"nested"))
    with pytest.raises(UpstreamUnavailable, match="--ethereum-debug-hosts"):
        node.pass_()
    assert node.checkpoint == 3


def test_call_data_with_another_attestations_hash_is_not_taken(
    node: Deriving, chain: MadeChain, l1: PublishingL1
) -> None:
    sheet = next_sheet(chain, l1)
    good = sheet.transaction()
    sheet.indices = b"\x80"
    l1.publish(sheet, replace(good, input=sheet.transaction().input))
    with pytest.raises(UpstreamError):
        node.pass_()
    assert node.checkpoint == 3


# ---- blobs ------------------------------------------------------------------------------------


def test_a_missing_blob_is_waited_for(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    now = [1_000.0]
    node.source._retries = PassRetries(1.0, lambda: now[0])
    l1.beacon.hidden = set(l1.sheet(chain.units[1].published or {}).hashes)
    with pytest.raises(BlobsUnavailable, match=r"checkpoint 2 .*beacon 1: it does not have them"):
        node.pass_()
    assert node.checkpoint == 1
    assert node.source.describe()["waitingForBlobs"]["checkpoint"] == 2
    for pause in (1.0, 2.0, 4.0):
        node.look()
        l1.requests.clear()
        l1.beacon.requests.clear()
        now[0] += pause - 0.1
        with pytest.raises(BlobsUnavailable):
            list(node.source.records(lambda: node.ingestor.view))
        assert l1.beacon.requests == []
        assert set(l1.requests) <= {"eth_call"}, "no more than looks at L1"
        now[0] += 0.2
        with pytest.raises(BlobsUnavailable):
            node.pass_()
        blocks = {path.partition("/headers/0x")[2] for path in l1.beacon.requests} - {""}
        assert len(blocks) == 1, "what is behind it is fetched again"
    l1.beacon.hidden = set()
    now[0] += 8.1
    node.pass_()
    assert has(node, chain)
    assert node.source.waiting_for is None


@pytest.mark.parametrize("serves_blobs", [True, False])
@pytest.mark.parametrize("lie", [lambda blob: blob + b"\1", lambda blob: blob[:31] + b"\2" + blob[32:]])
def test_a_blob_that_is_another_one_is_not_taken(
    node: Deriving, chain: MadeChain, l1: PublishingL1, serves_blobs: bool, lie: Callable[[bytes], bytes]
) -> None:
    l1.beacon.serves_blobs = serves_blobs
    commitments = {_commitment(blob) for blobs in l1.beacon.blobs.values() for _, blob in blobs}
    l1.beacon.tamper = lie
    l1.beacon.claim = lambda blob: next(iter(commitments))
    with pytest.raises(BlobsUnavailable):
        node.pass_()
    assert node.checkpoint == 0
    l1.beacon.tamper = lambda blob: blob
    l1.beacon.claim = _commitment
    node.pass_()
    assert has(node, chain)


def test_a_short_blob_is_named(node: Deriving, l1: PublishingL1) -> None:
    l1.beacon.cut = 10
    with pytest.raises(BlobsUnavailable, match="instead of 262146 characters"):
        node.pass_()
    assert node.checkpoint == 0


@pytest.mark.parametrize("status", [429, 500, 401])
def test_a_consensus_client_that_answers_with_a_status_is_named(node: Deriving, l1: PublishingL1, status: int) -> None:
    l1.beacon.status = status
    with pytest.raises(BlobsUnavailable, match=f"HTTP status {status}"):
        node.pass_()


def test_clients_that_have_blobs_as_bytes_give_them_so(
    node: Deriving, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    l1.beacon.serves_bytes = True
    monkeypatch.setattr("fastnode.sources.blobs.beacon.blob_from_hex", None)
    node.pass_()
    assert has(node, chain)


def test_bytes_that_are_no_blobs_are_none(node: Deriving, l1: PublishingL1) -> None:
    l1.beacon.serves_bytes = True
    l1.beacon.cut = 2
    with pytest.raises(BlobsUnavailable, match="it gives 131071 bytes, which are no list of blobs"):
        node.pass_()


def test_wrong_bytes_are_no_blobs_of_l1(node: Deriving, l1: PublishingL1) -> None:
    l1.beacon.serves_bytes = True
    l1.beacon.tamper = lambda blob: bytes([blob[0] ^ 1]) + blob[1:]
    with pytest.raises(BlobsUnavailable, match="none of which has a hash that was asked for"):
        node.pass_()
    assert node.checkpoint == 0


def test_older_clients_give_sidecars(node: Deriving, chain: MadeChain, l1: PublishingL1) -> None:
    l1.beacon.serves_blobs = False
    node.pass_()
    assert has(node, chain)
    assert any("blob_sidecars" in path for path in l1.beacon.requests)


@pytest.mark.parametrize("serves_blobs", [True, False], ids=["blobs", "sidecars"])
def test_commitments_of_call_data_spare_computing_them_and_sources_are_not_believed(
    node: Deriving, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch, serves_blobs: bool
) -> None:
    """The one blob of a group that is not what its source says is asked for again; those beside it are not."""
    monkeypatch.setattr("fastnode.sources.l1.source._NEAR_TIP", -1)
    l1.beacon.serves_blobs = serves_blobs
    bad = l1.sheet(chain.units[1].published or {}).blobs[0]
    claim = l1.beacon.claim
    l1.beacon.tamper = lambda blob: bytes([blob[0] ^ 1]) + blob[1:] if blob == bad else blob
    l1.beacon.claim = lambda blob: claim(bad if blob == l1.beacon.tamper(bad) else blob)
    with pytest.raises(BlobsUnavailable, match="none of which has a hash that was asked for"):
        node.pass_()
    assert node.checkpoint == 1
    assert node.fetcher.together_count == 2
    good_slot, bad_slot = list(l1.beacon.blobs)[:2]
    path = "/eth/v1/beacon/" + ("blobs" if serves_blobs else "blob_sidecars")
    asked = [urlsplit(target).path for target in l1.beacon.requests]
    assert [asked.count(f"{path}/{slot}") for slot in (good_slot, bad_slot)] == [1, 2]
    l1.beacon.tamper = lambda blob: blob
    node.pass_()
    assert has(node, chain)


def test_near_the_tip_no_checkpoint_waits_for_the_blobs_of_the_next(
    node: Deriving, chain: MadeChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, is_stored = node.fetcher.fetch, threading.Event()

    def fetch_later(request: BlobRequest, *, near_tip: bool) -> list[bytes]:
        assert request.checkpoint != 2 or is_stored.wait(PATIENCE_S)
        return fetch(request, near_tip=near_tip)

    monkeypatch.setattr(node.fetcher, "fetch", fetch_later)
    node.look()
    with closing(node.source.records(lambda: node.ingestor.view)) as records:
        for record in records:
            node.ingestor.apply(record)
            if node.checkpoint == 1:
                is_stored.set()
    assert has(node, chain)


def test_what_is_not_proven_is_not_handed_on(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    folder = folder_of(1, 2, l1.rollup)
    store = FileStore(f"file://{tmp_path}/store", folder, "store", is_written=True)

    def sources(http: HttpGet) -> BlobSources:
        return BlobSources(consensus=(BeaconNode(l1.beacon.url, http, "beacon 1"),), upload=store)

    def uploaded() -> set[str]:
        return {path.stem for path in (tmp_path / "store").rglob("*.data")}

    with ExitStack() as stack:
        l1.beacon.tamper = lambda blob: bytes([blob[0] ^ 1]) + blob[1:]
        node = Deriving(tmp_path / "node", chain.chain_record, chain.genesis, l1, stack, sources)
        with pytest.raises(BlobsUnavailable):
            node.pass_()
        assert not uploaded()
        l1.beacon.tamper = lambda blob: blob
        node.pass_()
        assert has(node, chain)
    assert uploaded() == {hex_data(item) for unit in chain.units for item in l1.sheet(unit.published or {}).hashes}


def test_a_file_store_alone_is_enough(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    info = chain.chain_record["nodeInfo"]
    folder = folder_of(int(info["l1ChainId"]), int(info["rollupVersion"]), l1.rollup)
    writer = FileStore(f"file://{tmp_path}/store", folder, "store", is_written=True)
    writer.sign_as_healthy()
    for unit in chain.units:
        sheet = l1.sheet(unit.published or {})
        for blob, commitment, item in zip(sheet.blobs, sheet.commitments, sheet.hashes, strict=True):
            assert writer.upload(item, blob, commitment)
            assert not writer.upload(item, blob, commitment)
    with ExitStack() as stack:
        store = FileStore(f"file://{tmp_path}/store", folder, "store 1")
        store.check()
        node = Deriving(
            tmp_path / "node", chain.chain_record, chain.genesis, l1, stack, lambda _: BlobSources(stores=(store,))
        )
        node.pass_()
        assert has(node, chain)
    assert l1.beacon.requests == []


def test_what_a_file_store_has_wrong_comes_from_the_consensus_client(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    folder = folder_of(1, 2, l1.rollup)
    first, second, third = (l1.sheet(unit.published or {}) for unit in chain.units)
    blobs = tmp_path / "store" / folder / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hex_data(first.hashes[0])}.data").write_bytes(pack_blob(second.blobs[0], first.commitments[0]))
    (blobs / f"{hex_data(second.hashes[0])}.data").write_bytes(b"\xff\xff\xff\x7f" + bytes(100))
    (blobs / f"{hex_data(third.hashes[0])}.data").write_bytes(b"no snappy")
    with ExitStack() as stack:
        store = FileStore(f"file://{tmp_path}/store", folder, "store 1")
        node = Deriving(
            tmp_path / "node",
            chain.chain_record,
            chain.genesis,
            l1,
            stack,
            lambda http: BlobSources(stores=(store,), consensus=(BeaconNode(l1.beacon.url, http, "beacon 1"),)),
        )
        node.pass_()
        assert has(node, chain)
        assert not node.fetcher.describe()[0]["ok"]


# ---- committees -------------------------------------------------------------------------------


def test_a_checkpoint_needs_the_signatures_of_its_committee(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    for unit in chain.units:
        sheet = attested.sheet(unit.published or {})
        send_messages(attested, unit)
        sign(sheet, committee, {1: (0, 1, 2, 3), 2: (0, 2, 3), 3: (1, 3)}[unit.number])
        attested.publish(sheet)
    with ExitStack() as stack:
        node = Deriving(tmp_path / "node", chain.chain_record, chain.genesis, attested, stack)
        node.pass_()
        assert node.checkpoint == 2
        invalid = node.source.invalid
        assert invalid is not None
        assert (invalid.number, invalid.reason) == (3, "2 of 4 have signed, 3 are needed")
        stored = node.ingestor.view.checkpoint(2)
        assert stored is not None
        listed = orjson.loads(stored.attestations_json)
        assert [item["address"] for item in listed] == [
            "0x" + ("00" * 20 if place != 1 else address_of(committee[1]).hex()) for place in range(4)
        ]
        # Nothing is fetched again for it, until it is replaced.
        attested.mine()
        attested.beacon.requests.clear()
        node.pass_()
        assert attested.beacon.requests == []
        with attested.lock:
            attested.reorg(2)  # the same checkpoint comes again, with one more signature
            sign(sheet, committee, (1, 2, 3))
            attested.mine()
            attested.publish(sheet)
        node.pass_()
        assert node.checkpoint == 3
        assert node.source.invalid is None


def test_a_checkpoint_without_its_committee_is_stored_while_attestations_are_not_checked(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    sheet = attested.sheet(chain.units[0].published or {})
    send_messages(attested, chain.units[0])
    sign(sheet, committee, (1, 3))
    attested.publish(sheet)
    with ExitStack() as stack:
        node = Deriving(tmp_path / "node", chain.chain_record, chain.genesis, attested, stack)
        node.pass_()
        assert (node.checkpoint, node.source.invalid is None) == (0, False)
        node.checks_attestations = False
        attested.mine()
        node.pass_()
        assert (node.checkpoint, node.source.invalid) == (1, None)


def test_a_signature_of_another_address_is_refused(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    sheet = attested.sheet(chain.units[0].published or {})
    stranger = PrivateKey(b"\x77" * 32)
    sign(sheet, [committee[0], stranger, *committee[2:]], (0, 1, 2, 3))
    attested.publish(sheet)
    with ExitStack() as stack:
        node = Deriving(tmp_path / "node", chain.chain_record, chain.genesis, attested, stack)
        node.pass_()
        assert node.checkpoint == 0
        assert node.source.invalid is not None
        assert "attestation 1" in node.source.invalid.reason


def test_an_epoch_without_a_committee_needs_no_signatures(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1
) -> None:
    attested.mine(committees=())
    attested.publish(attested.sheet(chain.units[0].published or {}))
    with ExitStack() as stack:
        node = Deriving(tmp_path / "node", chain.chain_record, chain.genesis, attested, stack)
        node.pass_()
        assert node.checkpoint == 1


# ---- limits -----------------------------------------------------------------------------------


def test_a_checkpoint_with_more_mana_than_the_rollup_allows_is_not_stored(
    tmp_path: Path, sample: list[Json], recorded: RecordedL1
) -> None:
    mana = [int(line["published"]["checkpoint"]["header"]["totalManaUsed"], 16) for line in sample[2:43]]
    most = max(mana)
    first = mana.index(most)
    recorded.constants["rollupManaLimit"] = most - 1
    with ExitStack() as stack:
        node = Deriving(tmp_path / "a", sample[0], sample[1], recorded, stack)
        with pytest.raises(
            UpstreamFault, match=f"checkpoint {first + 1} uses {most} mana, the rollup allows {most - 1}"
        ):
            node.pass_()
        assert node.checkpoint == first
    recorded.constants["rollupManaLimit"] = most
    with ExitStack() as stack:
        node = Deriving(tmp_path / "b", sample[0], sample[1], recorded, stack)
        node.pass_()
        assert node.checkpoint == 41
