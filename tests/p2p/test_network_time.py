"""The time by which proposals are judged."""

from __future__ import annotations

from tests.clock import Clock

from fastnode.p2p.judging.network_time import NetworkTime, Pulse


class Clocks:
    def __init__(self, l1: float, wall: float) -> None:
        self.l1, self.wall, self.instant = Clock(l1), Clock(wall), Clock(0.0)
        self.network = NetworkTime(self.l1, self.wall, self.instant)

    def now(self) -> float:
        return self.network.now()


def test_where_l1_keeps_the_time_of_the_wall_that_counts() -> None:
    clocks = Clocks(l1=1000, wall=1011.5)
    assert clocks.now() == 1011.5


def test_where_it_does_not_time_goes_on_from_its_newest_block() -> None:
    clocks = Clocks(l1=1000, wall=500_000)
    clocks.now()
    clocks.instant.now = 7
    assert clocks.now() == 1007
    clocks.l1.now = 1012
    assert clocks.now() == 1012
    clocks.instant.now = 9
    assert clocks.now() == 1014


class Time(Clock):
    def __init__(self) -> None:
        super().__init__(0.0)
        self.pulse = Pulse(self)

    def beat(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += 1
            self.pulse.beat()


def test_a_process_that_runs_has_not_paused() -> None:
    time = Time()
    time.beat(30)
    assert not time.pulse.has_paused


def test_one_that_did_not_run_has_paused_until_it_has_worked_off_what_came_meanwhile() -> None:
    time = Time()
    time.beat(3)
    time.now += 60
    assert time.pulse.has_paused, "before the first beat already"
    time.beat(5)
    assert time.pulse.has_paused
    time.beat(10)
    assert not time.pulse.has_paused
