"""Budgets of clients over several nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.bus.nats import NatsServer, open_bus
from tests.clock import Clock

from fastnode.bus.budgets import SharedBudgets
from fastnode.bus.members import bucket_of
from fastnode.bus.subjects import Subjects
from fastnode.jsonrpc.rate_limit_rules import read_rate_limit_rules
from fastnode.jsonrpc.rate_limits import RateLimits

NODES = 3
RATE = 50
BURST = 100
METHOD = "node_getBlockNumber"
ADDRESS = "192.0.2.1"


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def nodes(server: NatsServer, tmp_path: Path, clock: Clock) -> Iterator[list[tuple[RateLimits, SharedBudgets]]]:
    file = tmp_path / "limits.toml"
    file.write_text(f"[address]\nrate = {RATE}\nburst = {BURST}\n")
    subjects = Subjects("fastnode-1-1")
    with ExitStack() as stack:
        made = []
        for number in range(NODES):
            bus = open_bus(server.url, name=f"node-{number}")
            stack.callback(bus.close)
            bus.set_up(bucket_of(subjects))
            limits = RateLimits(read_rate_limit_rules(file, frozenset({METHOD})), clock=clock, are_shared=True)
            made.append((limits, SharedBudgets(bus, subjects, lambda it=limits: it, session=f"{number}")))
        yield made


def granted(limits: RateLimits, wanted: int) -> int:
    """Of so many calls of one client at once."""
    client = limits.client_of(ADDRESS, {})
    assert client is not None
    return sum(client.refusal_of(METHOD) is None for _ in range(wanted))


def test_a_client_that_asks_all_nodes_gets_one_budget_within_ten_percent(
    nodes: list[tuple[RateLimits, SharedBudgets]], clock: Clock
) -> None:
    total, seconds = 0, 60
    for _, shared in nodes:
        shared.exchange()
    for second in range(seconds):
        for tenth in range(10):
            clock.now = second + tenth / 10
            total += sum(granted(limits, RATE) for limits, _ in nodes)
        for _, shared in nodes:
            shared.exchange()
    wanted = BURST + RATE * seconds
    assert wanted * 0.9 <= total <= wanted * 1.1, (total, wanted)


def test_without_sharing_each_node_grants_a_budget_of_its_own(
    nodes: list[tuple[RateLimits, SharedBudgets]], clock: Clock
) -> None:
    for second in range(10):
        clock.now = float(second)
        for limits, _ in nodes:
            granted(limits, BURST)
    assert sum(next(iter(limits.usage.values())).calls for limits, _ in nodes) == NODES * (BURST + RATE * 9)


def test_a_node_that_starts_is_not_charged_for_what_was_before(
    nodes: list[tuple[RateLimits, SharedBudgets]],
) -> None:
    (old, sharing), (new, starting), _ = nodes
    assert granted(old, BURST) == BURST
    sharing.exchange()
    starting.exchange()
    assert granted(new, 1) == 1


def test_nodes_that_have_gone_are_forgotten_after_a_while(
    nodes: list[tuple[RateLimits, SharedBudgets]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, shared in reversed(nodes):
        shared.exchange()
    one = nodes[0][1]
    assert len(one._others) == NODES - 1
    monkeypatch.setattr(one._bus, "matching", lambda *question: [])
    one.exchange()
    assert len(one._others) == NODES - 1, "the bus may have been away"
    monkeypatch.setattr("fastnode.bus.budgets.OTHERS_KEPT_S", 0.0)
    one.exchange()
    assert not one._others
