"""What one proposer, or anybody with one transaction on L1, can publish: other followers skip it, and so do we."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from coincurve import PrivateKey
from tests.sources.conftest import FollowingNode
from tests.sources.l1.derivation.attesting import sign
from tests.sources.l1.derivation.test_deriving_node import deriving, wait_for
from tests.sources.l1.publishing import PublishingL1, Sheet, send_messages
from tests.sources.made_chain import SHAPE, MadeChain

from fastnode.development.synthetic_chain import ChainShape

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
