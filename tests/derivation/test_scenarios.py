"""A handful of the scenarios of ``scripts/compare-derivation``, without the published node: against what is right."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from tests.derivation import compare_derivation
from tests.derivation.compare_derivation import PORTS, TRIES, Session, Terms
from tests.derivation.followers import is_same
from tests.derivation.scenario import kinds, scenario
from tests.ports import free_ports
from tests.publishing.live_l1 import needs_anvil

from fastnode.protocol.releases import FIVE, FOUR, Release

#: With every kind of action among them.
SEEDS = (2, 5, 8, 17)


@needs_anvil
@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda one: one.name)
def test_a_node_derives_what_the_network_does_from_a_hostile_l1(release: Release) -> None:
    with ExitStack() as stack:
        session = Session(stack, free_ports(PORTS), "test", with_published=False, release=release)
        for seed in SEEDS:
            session.run(scenario(seed))
        session.start_late()


def test_a_seed_is_a_scenario() -> None:
    assert scenario(5) == scenario(5) != scenario(6)


@pytest.mark.parametrize("kind", ["propose", "reorg", "messages", "prove", "expire", "late", "restart", "invalidate"])
def test_scenarios_have_all_kinds_of_actions(kind: str) -> None:
    assert any(kinds(scenario(seed))[kind] for seed in range(1, 60))


class _Slow:
    """In the place of a session: starts with the last of some tries, and says what was closed."""

    def __init__(self, fails: int) -> None:
        self.fails, self.names, self.closed = fails, list[str](), list[str]()

    def __call__(
        self, stack: ExitStack, ports: range, name: str, with_published: bool, patience_s: float, release: Release
    ) -> _Slow:
        assert (list(ports), with_published, patience_s) == (list(range(9000, 9000 + PORTS)), True, 50.0)
        assert release is FOUR
        self.names.append(name)
        stack.callback(self.closed.append, name)
        if len(self.names) <= self.fails:
            raise AssertionError("no line 'serving'")
        return self


TERMS = Terms(port=9000, with_published=True, patience_s=50.0, say=lambda _: None)


def test_what_does_not_start_is_closed_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = _Slow(fails=TRIES - 1)
    monkeypatch.setattr(compare_derivation, "Session", slow)
    with ExitStack() as stack:
        assert TERMS.session(stack, "x") is slow
        assert slow.closed == slow.names[:-1]
    assert len(set(slow.names)) == TRIES
    assert slow.closed == slow.names


def test_what_never_starts_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = _Slow(fails=TRIES)
    monkeypatch.setattr(compare_derivation, "Session", slow)
    with ExitStack() as stack, pytest.raises(AssertionError, match="serving"):
        TERMS.session(stack, "x")
    assert slow.closed == slow.names


def _tips(finalized: int, proven: int = 2) -> dict[str, Any]:
    places = {"checkpointed": 3, "proven": proven, "finalized": finalized}
    return {
        name: {"checkpoint": {"number": number}, "block": {"number": number, "hash": f"0x{number:064x}"}}
        for name, number in places.items()
    }


@pytest.mark.parametrize(
    ("theirs", "is_waiting", "same"),
    [
        (_tips(1), False, True),
        (_tips(0), False, False),
        (_tips(0), True, True),
        (_tips(2), True, False),
        (_tips(0, proven=1), True, False),
    ],
)
def test_only_the_published_finalized_tip_may_stand_and_only_while_blobs_are_missing(
    theirs: dict[str, Any], is_waiting: bool, same: bool
) -> None:
    assert is_same(_tips(1), theirs, is_waiting=is_waiting) is same
