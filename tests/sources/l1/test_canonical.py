"""Whether the rollup that is followed is still the canonical one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.sources.l1.canonical import CanonicalRollup

OWN, OTHER = b"\1" * 20, b"\2" * 20
FACTS: Any = SimpleNamespace(registry=b"\3" * 20, rollup=OWN, epoch_duration=4, slot_at=lambda time: time // 10)
EPOCH_S = 40


def test_the_registry_is_read_once_an_epoch_and_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    canonical = CanonicalRollup()
    assert (canonical.is_canonical, canonical.reason) == (None, None)
    for epoch, address in enumerate([OWN, OWN, OTHER, OTHER, OWN]):
        time = epoch * EPOCH_S
        assert canonical.is_due(FACTS, time)
        canonical.note(FACTS, time, address)
        assert not canonical.is_due(FACTS, time + EPOCH_S - 1)
        assert canonical.is_canonical is (address == OWN)
        assert canonical.address == address
        assert (canonical.reason is None) is (address == OWN)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "rollup: not canonical any more"),
        ("INFO", "rollup: canonical again"),
    ]


def test_without_a_registry_nothing_is_read() -> None:
    facts: Any = SimpleNamespace(registry=None, epoch_duration=4, slot_at=lambda time: time // 10)
    assert not CanonicalRollup().is_due(facts, 0)
