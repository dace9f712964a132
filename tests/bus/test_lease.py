"""One of several nodes has the lease, and never two at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.bus.nats import NatsServer, open_bus
from tests.clock import Clock

from fastnode.bus.connection import Bus
from fastnode.bus.lease import LEASE_S, Lease
from fastnode.bus.members import bucket_of
from fastnode.bus.subjects import Subjects
from fastnode.errors import UpstreamUnavailable

SUBJECTS = Subjects("fastnode-1-1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease_of(server: NatsServer, clock: Clock) -> Iterator[Callable[[str], Lease]]:
    with ExitStack() as stack:

        def make(name: str) -> Lease:
            bus: Bus = open_bus(server.url, name=name, clock=clock)
            stack.callback(bus.close)
            bus.set_up(bucket_of(SUBJECTS))
            return Lease(bus, SUBJECTS, "something")

        yield make


def test_the_first_has_it_and_keeps_it_while_it_renews(lease_of: Callable[[str], Lease], clock: Clock) -> None:
    one, two = lease_of("one"), lease_of("two")
    assert one.tick()
    for _ in range(20):
        assert not two.tick()
        clock.now += 1.0
        assert one.tick()
    assert two.holder == "one"


def test_another_takes_it_when_the_holder_falls_silent_and_never_before_that_one_stopped_counting_on_it(
    lease_of: Callable[[str], Lease], clock: Clock
) -> None:
    one, two = lease_of("one"), lease_of("two")
    assert one.tick()
    begun = clock.now
    while not two.tick():
        assert clock.now - begun < 2 * LEASE_S
        clock.now += 0.1
    assert clock.now - begun >= LEASE_S - 0.1
    assert not one.is_held
    assert not one.tick(), "it finds that another one has it"
    assert one.holder == "two"


def test_of_two_that_take_it_at_a_time_one_has_it(lease_of: Callable[[str], Lease]) -> None:
    one, two = lease_of("one"), lease_of("two")
    held = [lease.tick() for lease in (one, two, one, two)]
    assert held == [True, False, True, False]


def test_who_gives_it_up_lets_another_one_have_it_at_once(lease_of: Callable[[str], Lease], clock: Clock) -> None:
    one, two = lease_of("one"), lease_of("two")
    assert one.tick()
    one.give_up(5.0)
    assert not one.is_held
    assert two.tick()
    clock.now += 1.0
    assert not one.tick()


def test_without_the_bus_nobody_counts_on_it_for_longer_than_it_lasts(
    lease_of: Callable[[str], Lease], clock: Clock, server: NatsServer
) -> None:
    one = lease_of("one")
    assert one.tick()
    server.stop()
    clock.now += 1.5
    with pytest.raises(UpstreamUnavailable):
        one.tick()
    assert one.is_held, "for a moment it still is"
    clock.now += LEASE_S
    assert not one.is_held
