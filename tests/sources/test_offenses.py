"""Offenses on a followed chain: a committee that signs two checkpoints of one slot, and one that hardly signs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sentinel.test_sentinel import ADDRESSES, signed
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.sentinel.offense_store import OffenseStore
from fastnode.sentinel.offenses import RoundSize
from fastnode.sentinel.sentinel import Sentinel
from fastnode.sentinel.statistics import SlotTime
from fastnode.sentinel.watch import OffenseWatch

CONFIGURATION: dict[str, Any] = {
    "slashInactivityPenalty": 0,
    "slashProposeInvalidAttestationsPenalty": 5,
    "slashAttestDescendantOfInvalidPenalty": 7,
    "slashDuplicateProposalPenalty": 8,
    "slashDuplicateAttestationPenalty": 9,
    "slashOffenseExpirationRounds": 0,
    "slashGracePeriodL2Slots": 0,
}
PROPOSER = ADDRESSES[0]


def publish(chain: MadeChain, *absent: int) -> int:
    """A checkpoint with one block that all members but some signed; its slot."""
    chain.checkpoint()
    unit = chain.units[-1]
    assert unit.published is not None
    unit.published = signed({"published": unit.published}, lambda _checkpoint, member: member in absent)["published"]
    return int(unit.making._variables.slot_number)


@pytest.fixture
def store(tmp_path: Path, chain: MadeChain) -> Iterator[OffenseStore]:
    opened = OffenseStore.open(tmp_path / "offenses", b"\x01" * 32)
    yield opened
    opened.close()


def test_a_committee_that_signs_twice_is_found_by_the_reorg(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, store: OffenseStore
) -> None:
    sentinel = Sentinel(
        history_epochs=24, proven_epochs=10, is_ready=lambda: True, proposer_of=lambda _slot: PROPOSER, now=lambda: 0
    )
    watch = OffenseWatch(sentinel, CONFIGURATION, RoundSize(4, 2), store)

    def found(node: Any) -> list[tuple[str, bytes, int, int]]:
        offenses = watch.offenses(node.ingestor.view, "all")
        return [(item.type.name, item.validator, item.at, item.amount) for item in offenses]

    with upstream.lock:
        publish(chain)
        slot = publish(chain, 3)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        assert found(node) == []

        with upstream.lock:
            chain.undo_to(chain.tip - 1)
            chain._chain._slot = slot - 1
            assert publish(chain, 1) == slot
        node.wait_for(chain)
        twice = [
            ("DUPLICATE_PROPOSAL", PROPOSER, slot, 8),
            *(("DUPLICATE_ATTESTATION", member, slot, 9) for member in sorted((ADDRESSES[0], ADDRESSES[2]))),
        ]
        assert found(node) == twice

        with upstream.lock:
            hardly = publish(chain, 1, 2)
            after = publish(chain)
        node.wait_for(chain)
        assert found(node) == [
            *twice,
            ("PROPOSED_INSUFFICIENT_ATTESTATIONS", PROPOSER, hardly, 5),
            *(("ATTESTED_DESCENDANT_OF_INVALID", member, after, 7) for member in sorted(ADDRESSES)),
        ]
        time = SlotTime(node.ingestor.view.chain.l1_genesis_time, node.ingestor.view.chain.slot_duration)
        assert time.of(slot) < time.of(hardly)
