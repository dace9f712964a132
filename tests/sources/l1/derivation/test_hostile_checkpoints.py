"""What one proposer, or anybody with one transaction on L1, can publish: other followers skip it, and so do we."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.sources.conftest import FollowingNode
from tests.sources.l1.derivation.attesting import sign
from tests.sources.l1.derivation.test_deriving_node import deriving, wait_for
from tests.sources.l1.publishing import PublishingL1, Sheet, multicall_data, send_messages
from tests.sources.made_chain import SHAPE, MadeChain

from fastnode.development.synthetic_chain import ChainShape
from fastnode.protocol.blobs import checkpoint_blob_fields
from fastnode.protocol.kzg import blob_commitment, blobs_hash, blobs_of_fields, versioned_hash
from fastnode.sources.l1.propose_calls import MULTICALL3

Bend = Callable[[bytes], bytes]
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.fixture
def shape() -> ChainShape:
    """Without messages: those stay where they are when checkpoints are replaced, and this chain would bring others."""
    return replace(SHAPE, l1_to_l2=0)


def next_sheet(chain: MadeChain, l1: PublishingL1, place: int) -> Sheet:
    unit = chain.units[place]
    send_messages(l1, unit)
    assert unit.published is not None
    return l1.sheet(unit.published)


def publish_attested(
    chain: MadeChain, l1: PublishingL1, committee: list[PrivateKey], places: range | None = None
) -> None:
    for place in places or range(len(chain.units)):
        sheet = next_sheet(chain, l1, place)
        sign(sheet, committee, (0, 1, 2))
        l1.publish(sheet)


def wait_for_refusal(node: FollowingNode, number: int) -> None:
    def is_refused() -> bool:
        invalid = node.follower.invalid_checkpoint
        return invalid is not None and invalid.number == number

    node.wait(is_refused)
    assert node.tips.checkpointed.checkpoint.number == number - 1


# ---- signatures -------------------------------------------------------------------------------


def with_v(v: Callable[[int], int]) -> Bend:
    return lambda signature: signature[:64] + bytes([v(signature[64])])


def with_high_s(signature: bytes) -> bytes:
    high = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + high.to_bytes(32, "big") + bytes([55 - signature[64]])


@pytest.mark.parametrize("bent", [with_v(lambda v: v - 27), with_high_s], ids=["v 0 or 1", "high s"])
def test_a_signature_that_contracts_refuse_does_not_count(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey], bent: Bend
) -> None:
    publish_attested(chain, attested, committee, range(2))
    sheet = next_sheet(chain, attested, 2)
    sign(sheet, committee, (0, 1, 2, 3), bent)
    with deriving(tmp_path / "node", attested) as node:
        attested.publish(sheet)
        wait_for_refusal(node, 3)
        with attested.lock:
            attested.prune_to(2)  # somebody takes it back
            chain.undo_to(chain.units[1].blocks[-1].number)
            chain.checkpoint(1)
            publish_attested(chain, attested, committee, range(2, 3))
        wait_for(node, chain)


# ---- the same checkpoint again ----------------------------------------------------------------


def signed_sheets(chain: MadeChain, l1: PublishingL1, committee: list[PrivateKey], place: int) -> tuple[Sheet, Sheet]:
    """The same checkpoint with too few attestations and with enough."""
    bad, good = next_sheet(chain, l1, place), next_sheet(chain, l1, place)
    sign(bad, committee, (1, 3))
    sign(good, committee, (0, 1, 2))
    return bad, good


def propose_together(l1: PublishingL1, *sheets: Sheet) -> None:
    """In one block of L1: each takes the place of the one before, which somebody has taken back in between."""
    proposals = tuple(sheet.transaction() for sheet in sheets)
    last = proposals[-1]
    block = l1.mine(archives=(*l1.head.archives[: last.number], last.archive), proposals=proposals)
    for sheet in sheets:
        l1.beacon.put(l1.beacon.slot_of(block), sheet.blobs)


@pytest.mark.parametrize("between", [0, 1, 2], ids=["next block", "a block between", "two blocks between"])
def test_a_checkpoint_that_was_refused_is_taken_when_it_comes_with_good_attestations(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey], between: int
) -> None:
    publish_attested(chain, attested, committee, range(2))
    bad, good = signed_sheets(chain, attested, committee, 2)
    with deriving(tmp_path / "on", attested) as node:
        attested.publish(bad)
        wait_for_refusal(node, 3)
        with attested.lock:  # so that no look sees that it is gone
            if between:
                attested.prune_to(2)
            attested.mine(max(0, between - 1))
            attested.publish(good)
        wait_for(node, chain)
        assert node.follower.invalid_checkpoint is None
    with deriving(tmp_path / "late", attested) as node:
        wait_for(node, chain)


def test_the_good_one_of_several_in_one_block_is_taken(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    publish_attested(chain, attested, committee, range(2))
    bad, good = signed_sheets(chain, attested, committee, 2)
    other = next_sheet(chain, attested, 2)
    sign(other, committee, ())
    with deriving(tmp_path / "on", attested) as node:
        node.wait(lambda: node.tips.checkpointed.checkpoint.number == 2)
        propose_together(attested, bad, other, good)
        wait_for(node, chain)
    with deriving(tmp_path / "late", attested) as node:
        wait_for(node, chain)
        stored = node.ingestor.view.checkpoint(3)
        assert stored is not None
        assert stored.attestations_json.count(b'"address":"0x' + b"00" * 20) == 3, "those of the good one"


def test_of_bad_ones_the_last_is_the_one_to_take_back(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    publish_attested(chain, attested, committee, range(2))
    bad, good = signed_sheets(chain, attested, committee, 2)
    worse = next_sheet(chain, attested, 2)
    sign(worse, committee, ())
    with deriving(tmp_path / "on", attested) as node:
        attested.publish(bad)
        wait_for_refusal(node, 3)
        with attested.lock:
            attested.prune_to(2)
            attested.publish(worse)

        def is_known() -> bool:
            invalid = node.follower.invalid_checkpoint
            return invalid is not None and invalid.proposal.signature_indices == worse.indices

        node.wait(is_known)
        attested.prune_to(2)
        attested.publish(good)
        wait_for(node, chain)


# ---- what no checkpoint can be ----------------------------------------------------------------


def with_seven_blobs(sheet: Sheet) -> None:
    sheet.hashes = [sheet.hashes[0]] * 7


def with_blobs_of_nothing(sheet: Sheet) -> None:
    blobs = [b"\1" * 32 * 9]
    put_blobs(sheet, blobs)


def with_a_zero(sheet: Sheet) -> None:
    """The first effect of the first transaction behind marker, hash and fee."""
    joined = sheet.blobs[0]
    put_blobs(sheet, [joined[: 3 * 32] + bytes(32) + joined[4 * 32 :], *sheet.blobs[1:]])


def with_a_total_too_small(sheet: Sheet) -> None:
    joined = sheet.blobs[0]
    marker = int.from_bytes(joined[:32], "big") - 1
    put_blobs(sheet, [marker.to_bytes(32, "big") + joined[32:], *sheet.blobs[1:]])


def put_blobs(sheet: Sheet, blobs: list[bytes]) -> None:
    sheet.blobs = blobs
    sheet.commitments = [blob_commitment(blob) for blob in blobs]
    sheet.hashes = [versioned_hash(item) for item in sheet.commitments]
    change_header(sheet, blobs_hash=blobs_hash(sheet.hashes))


def change_header(sheet: Sheet, **changes: Any) -> None:
    published = sheet.published
    header = replace(published.checkpoint.header, **changes)
    sheet.published = replace(published, checkpoint=replace(published.checkpoint, header=header))


def with_roots_above_the_modulus(sheet: Sheet) -> None:
    """L1 does not look at them."""
    change_header(sheet, block_headers_hash=b"\xff" * 32, epoch_out_hash=b"\xff" * 32, fee_recipient=b"\xff" * 32)


def with_blobs_of_another(sheet: Sheet) -> None:
    change_header(sheet, blobs_hash=bytes(32))


def without_its_blobs(sheet: Sheet) -> None:
    put_blobs(sheet, [b"\2" * 32])
    sheet.blobs = []


@pytest.mark.parametrize(
    "bent",
    [
        with_seven_blobs,
        with_blobs_of_nothing,
        with_a_zero,
        with_a_total_too_small,
        with_roots_above_the_modulus,
        with_blobs_of_another,
        without_its_blobs,
    ],
)
def test_a_refused_checkpoint_may_have_any_content(
    tmp_path: Path,
    chain: MadeChain,
    attested: PublishingL1,
    committee: list[PrivateKey],
    bent: Callable[[Sheet], None],
) -> None:
    """It is known as invalid, so that somebody takes it back, and no provider is blamed for it."""
    publish_attested(chain, attested, committee, range(2))
    sheet, good = signed_sheets(chain, attested, committee, 2)
    bent(sheet)
    sign(sheet, committee, (1, 3))
    with deriving(tmp_path / "on", attested) as node:
        attested.publish(sheet)
        wait_for_refusal(node, 3)
        invalid = node.follower.invalid_checkpoint
        assert invalid is not None
        assert invalid.reason == "2 of 4 have signed, 3 are needed"
        assert invalid.proposal.signature_indices == sheet.indices
        node.wait(lambda: node.follower.trouble == f"checkpoint 3 on L1 is not valid: {invalid.reason}")
        with deriving(tmp_path / "late", attested) as late:
            wait_for_refusal(late, 3)
            with attested.lock:
                attested.prune_to(2)
                attested.publish(good)
            wait_for(node, chain)
            wait_for(late, chain)


def test_a_refused_checkpoint_that_may_be_pruned_is_no_trouble(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    """The contract has it still, and whoever proposes next gives it up with all that is not proven."""
    publish_attested(chain, attested, committee, range(2))
    bad, _ = signed_sheets(chain, attested, committee, 2)
    with deriving(tmp_path / "on", attested) as node:
        attested.publish(bad)
        wait_for_refusal(node, 3)
        attested.mine(proven=1, can_prune=True)
        node.wait(lambda: node.tips.checkpointed.checkpoint.number == 1 and node.follower.trouble is None)
        assert node.follower.invalid_checkpoint is None
        attested.mine(can_prune=False)  # a proof came in time after all
        wait_for_refusal(node, 3)


@pytest.mark.parametrize("kind", ["content", "blobs"])
def test_a_node_that_ends_while_it_refuses_a_checkpoint_leaves_its_data_free(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey], kind: str
) -> None:
    """The error that is told again and again holds no view of the databases."""
    publish_attested(chain, attested, committee, range(2))
    sheet = next_sheet(chain, attested, 2)
    if kind == "content":
        with_blobs_of_nothing(sheet)
    else:
        without_its_blobs(sheet)
    sign(sheet, committee, (0, 1, 2, 3))
    attested.publish(sheet)
    gc.disable()
    try:
        for _ in range(3):
            with deriving(tmp_path / "on", attested) as node:
                node.wait(lambda: re.search("checkpoint 3", node.follower.trouble or ""))
    finally:
        gc.enable()


@pytest.mark.parametrize("of", [(0,), (1,), (0, 1), ()], ids=["first", "second", "first and second", "none"])
def test_nothing_goes_for_a_checkpoint_with_the_blocks_of_others(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey], of: tuple[int, ...]
) -> None:
    """Its whole committee has signed it: it is on L1, and no follower can store it before L1 gives it up."""
    publish_attested(chain, attested, committee, range(2))
    sheet = next_sheet(chain, attested, 2)
    blocks = [block for place in of for block in chain.units[place].blocks]
    put_blobs(sheet, blobs_of_fields(checkpoint_blob_fields(blocks)))
    sign(sheet, committee, (0, 1, 2, 3))
    with deriving(tmp_path / "on", attested) as node:
        node.wait(lambda: node.tips.checkpointed.checkpoint.number == 2)
        attested.publish(sheet)
        node.wait(lambda: re.search("expected|checkpoint 3", str(node.follower.describe().get("reason"))))
        assert node.tips.checkpointed.checkpoint.number == 2
        with attested.lock:
            attested.prune_to(2)
            chain.undo_to(chain.units[1].blocks[-1].number)
            chain.checkpoint(1)
            publish_attested(chain, attested, committee, range(2, 3))
        wait_for(node, chain)


@pytest.mark.parametrize(
    "data", ["0x", "0x01", "0x" + "ff" * 32 * 4, "0x" + "00" * 31 + "60" + "00" * 32 * 4], ids=range(4)
)
def test_a_log_that_no_proposal_could_bring_holds_nobody_up(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey], data: str
) -> None:
    """Taken back at once, so that it never was of the chain."""
    publish_attested(chain, attested, committee, range(2))
    other = next_sheet(chain, attested, 2).transaction()
    with deriving(tmp_path / "on", attested) as node:
        node.wait(lambda: node.tips.checkpointed.checkpoint.number == 2)
        attested.mine(proposals=(replace(other, archive=b"\7" * 32, event=data),))
        publish_attested(chain, attested, committee, range(2, 3))
        wait_for(node, chain)
    with deriving(tmp_path / "late", attested) as node:
        wait_for(node, chain)


def test_seven_blobs_that_are_taken_back_at_once_hold_nobody_up(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    publish_attested(chain, attested, committee, range(2))
    seven = next_sheet(chain, attested, 2)
    with_seven_blobs(seven)
    other = replace(seven.transaction(), archive=b"\7" * 32)
    with deriving(tmp_path / "on", attested) as node:
        node.wait(lambda: node.tips.checkpointed.checkpoint.number == 2)
        with attested.lock:
            attested.mine(proposals=(other,), archives=(*attested.head.archives, other.archive))
            attested.prune_to(2)
        publish_attested(chain, attested, committee, range(2, 3))
        wait_for(node, chain)
    with deriving(tmp_path / "late", attested) as node:
        wait_for(node, chain)


# ---- call data --------------------------------------------------------------------------------


def test_a_proposal_behind_thousands_of_calls_needs_no_trace(
    tmp_path: Path, chain: MadeChain, attested: PublishingL1, committee: list[PrivateKey]
) -> None:
    publish_attested(chain, attested, committee, range(2))
    sheet = next_sheet(chain, attested, 2)
    sign(sheet, committee, (0, 1, 2))
    calls = [(bytes(19) + b"\4", b"")] * 700 + [(attested.rollup, b"")] * 300 + [(attested.rollup, sheet.call_data)]
    wrapped = multicall_data([(MULTICALL3, multicall_data(calls))])  # to any depth
    with deriving(tmp_path / "on", attested) as node:
        attested.publish(sheet, sheet.transaction(MULTICALL3, wrapped))
        wait_for(node, chain)
