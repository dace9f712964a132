"""Epochs that a prover node cannot prove any more."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.errors import UpstreamUnavailable
from fastnode.proving.prover import Prover, ProverOptions

EPOCH_SLOTS = 4


class L1:
    """Has a checkpoint in each slot from 1 on, up to ``pending``; the prover's view has the same ones."""

    def __init__(self) -> None:
        self.pending = self.proven = 0
        self.slots: dict[int, int] = {}
        facts = SimpleNamespace(
            epoch_at=lambda at: at // EPOCH_SLOTS,
            epoch_duration=EPOCH_SLOTS,
            proof_submission_epochs=1,
            rollup=bytes(20),
        )
        self.is_silent = False
        self.reader: Any = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: 0.0, time=lambda: 0.0), newest_timestamp=0, slot_duration=12
        )
        self.reader.seen = lambda: self._seen(facts)
        self.prover = Prover(
            self.reader,
            self._view,
            SimpleNamespace(work=lambda: None),  # type: ignore[arg-type]
            SimpleNamespace(),  # type: ignore[arg-type]
            ProverOptions(prover_id=bytes(20), command="true"),
            lambda _hash: None,
        )

    def _seen(self, facts: Any) -> Any:
        if self.is_silent:
            raise UpstreamUnavailable("no endpoint answers")
        return facts, SimpleNamespace(proven=self.proven, pending=self.pending)

    def _view(self) -> Any:
        def checkpoint(number: int) -> Any:
            slot = self.slots.get(number)
            return None if slot is None else SimpleNamespace(number=number, slot_number=slot)

        newest = SimpleNamespace(checkpoint=SimpleNamespace(number=max(self.slots, default=0)))
        numbers = lambda epoch: [n for n, slot in sorted(self.slots.items()) if slot // EPOCH_SLOTS == epoch]  # noqa: E731
        chain = SimpleNamespace(
            tips=SimpleNamespace(checkpointed=newest),
            checkpoint=checkpoint,
            checkpoint_numbers_of_epoch=numbers,
            chain=SimpleNamespace(epoch_duration=EPOCH_SLOTS),
        )
        return SimpleNamespace(chain=chain)

    def look(self, slot: int) -> None:
        self.reader.newest_timestamp = slot
        self.prover._turn()


def pruned(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record)["facts"] for record in caplog.records if record.message == "epoch pruned unproven"]


def test_an_epoch_that_is_pruned_while_l1_is_silent_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    l1 = L1()
    l1.slots = {1: 5, 2: 6}
    l1.look(6)  # the epoch is not complete
    assert l1.prover.failures == 0
    l1.is_silent = True
    l1.look(20)
    l1.is_silent, l1.slots = False, {1: 21}  # the rollup has pruned both, and has another one in their place
    l1.look(21)
    l1.look(22)
    assert [facts["epoch"] for facts in pruned(caplog)] == [1]
    assert l1.prover.failures == 1


def test_an_epoch_that_somebody_proved_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    l1 = L1()
    l1.slots = {1: 5, 2: 6}
    l1.look(6)
    l1.proven, l1.slots = 2, {1: 5, 2: 6, 3: 9}
    l1.look(9)
    assert pruned(caplog) == []
    assert l1.prover.failures == 0


def test_a_reorg_within_the_epoch_is_no_prune(caplog: pytest.LogCaptureFixture) -> None:
    l1 = L1()
    l1.slots = {1: 5, 2: 6}
    caplog.set_level(logging.INFO)
    l1.look(6)
    for slots in ({}, {1: 6}):
        l1.slots = slots
        l1.look(6)
    assert pruned(caplog) == []
    l1.slots = {}
    l1.look(20)
    assert [facts["epoch"] for facts in pruned(caplog)] == [1]
