"""Checkpoints on a real L1 with the rollup's contracts, and what goes wrong there."""

from __future__ import annotations

from tests.publishing.live_l1 import LiveL1, needs_anvil

from fastnode.publishing.requests import OutcomeKind

pytestmark = needs_anvil


def test_checkpoints_are_published_one_slot_after_the_other(l1: LiveL1) -> None:
    for number in range(1, 4):
        outcome = l1.publish(l1.next_slot)
        assert outcome.kind is OutcomeKind.PUBLISHED, outcome
        assert l1.tip() == number
        assert outcome.gas_used > 100_000
        assert outcome.fee_wei > 0
    assert not list(l1.directory.iterdir())
