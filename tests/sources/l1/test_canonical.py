"""Whether the rollup that is followed is still the canonical one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.sources.l1.canonical import CanonicalRollup, read_canonical

OWN, OTHER = b"\1" * 20, b"\2" * 20
FACTS: Any = SimpleNamespace(registry=b"\3" * 20, rollup=OWN)


def test_a_change_of_the_canonical_rollup_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    canonical = CanonicalRollup()
    assert (canonical.is_canonical, canonical.reason) == (None, None)
    for address in [OWN, OWN, OTHER, OTHER, OWN]:
        canonical.note(FACTS, address)
        assert canonical.is_canonical is (address == OWN)
        assert canonical.address == address
        assert (canonical.reason is None) is (address == OWN)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "rollup: not canonical any more"),
        ("INFO", "rollup: canonical again"),
    ]


def test_without_a_registry_nothing_is_read() -> None:
    facts: Any = SimpleNamespace(registry=None, rollup=OWN)
    endpoint: Any = None
    assert read_canonical(endpoint, facts) is None
    canonical = CanonicalRollup()
    canonical.note(facts, None)
    assert (canonical.is_canonical, canonical.reason) == (None, None)
