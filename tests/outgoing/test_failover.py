"""Several endpoints: the first that can be asked is asked, another stands in for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.failover import Endpoint, Failover, begin_probe
from fastnode.outgoing.health import EndpointState, Patience
from fastnode.outgoing.network import Network


class Scripted(Endpoint):
    """Identifies itself without a network."""

    kind = "thing"

    def __init__(self, name: str) -> None:
        super().__init__("http://127.0.0.1:1", Network(), name, patience=Patience())
        self.failure: Exception | None = None
        self.identified = 0

    def identify(self) -> None:
        self.identified += 1
        if self.failure is not None:
            raise self.failure


class Later:
    """Does its work at once, until it is told to keep it."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.keeps = False

    def __call__(self, work: Callable[[], None]) -> None:
        self.work.append(work)
        if not self.keeps:
            self.run()

    def run(self) -> None:
        for work in self.work:
            work()
        self.work.clear()


@pytest.fixture
def both() -> tuple[Scripted, Scripted]:
    return Scripted("one"), Scripted("two")


def test_the_first_is_asked_as_long_as_it_can_be(both: tuple[Scripted, Scripted]) -> None:
    failover = Failover(both)
    assert failover.choose() is both[0]
    assert failover.choose() is both[0]
    assert [each.identified for each in both] == [1, 0]


def test_another_stands_in_for_one_that_fails_and_the_work_begins_anew(both: tuple[Scripted, Scripted]) -> None:
    tried: list[str] = []

    def work(endpoint: Scripted) -> str:
        tried.append(endpoint.name)
        if endpoint is both[0]:
            raise UpstreamUnavailable("away")
        return "done"

    failover = Failover(both)
    assert failover.run(work) == "done"
    assert failover.run(work) == "done"
    assert tried == ["one", "two", "two"]
    assert failover.reasons() == "one is unavailable: away"


def test_when_none_can_do_it_the_reasons_are_told(both: tuple[Scripted, Scripted]) -> None:
    both[0].failure, both[1].failure = UpstreamUnavailable("away"), UpstreamFault("it lies")
    failover = Failover(both)
    with pytest.raises(UpstreamUnavailable, match=r"^one is unavailable: away; two is put aside: it lies$"):
        failover.run(lambda endpoint: endpoint.name)
    assert failover.seconds_until_usable() > 0
    assert failover.choose() is None
    assert [each.identified for each in both] == [1, 1]


def test_while_one_is_healthy_the_others_are_identified_beside_the_work(both: tuple[Scripted, Scripted]) -> None:
    later = Later()
    failover = Failover(both, later)
    both[0].failure = UpstreamUnavailable("away")
    assert failover.choose() is both[1]
    later.keeps = True
    both[0].failure, both[0].health.usable_at = None, 0.0
    assert failover.choose() is both[1]
    assert failover.choose() is both[1]
    assert len(later.work) == 1, "once at a time"
    later.run()
    assert failover.choose() is both[0]


def no_pauses(failover: Failover[Scripted]) -> None:
    for each in failover.all:
        each.health.end_pause()


@pytest.mark.parametrize(
    "error",
    [
        UpstreamRejection(-32000, "no EVM here"),
        UpstreamUnavailable("status 500"),
        UpstreamFault("odd"),
    ],
)
def test_one_that_says_who_it_is_and_does_no_work_is_told_of_once_and_asked_more_and_more_seldom(
    both: tuple[Scripted, Scripted], caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level("INFO")
    one, _ = both
    failover = Failover([one])

    def fail(_thing: Scripted) -> None:
        raise error

    pauses = []
    for _ in range(5):
        with pytest.raises(UpstreamUnavailable):
            failover.run(fail)
        pauses.append(one.health.usable_at - time.monotonic())
        no_pauses(failover)
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == "thing healthy"
    assert pauses[4] > 3 * pauses[0]
    assert failover.run(lambda thing: thing.name) == "one"
    assert caplog.messages[2:] == ["thing healthy"]
    failover.run(lambda thing: thing.name)
    assert len(caplog.messages) == 3


def test_another_reason_is_told_of(both: tuple[Scripted, Scripted], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    one, _ = both
    failover = Failover([one])
    for reason in ("no EVM here", "no EVM here", "no state"):

        def fail(_thing: Scripted, reason: str = reason) -> None:
            raise UpstreamRejection(-32000, reason)

        with pytest.raises(UpstreamUnavailable):
            failover.run(fail)
        no_pauses(failover)
    assert caplog.messages == ["thing healthy", "thing unavailable", "thing unavailable"]


def test_an_exception_that_nobody_expects_puts_one_aside_and_another_stands_in(
    both: tuple[Scripted, Scripted], caplog: pytest.LogCaptureFixture
) -> None:
    def work(endpoint: Scripted) -> str:
        return "done" if endpoint is both[1] else [][1]  # type: ignore[no-any-return]

    failover = Failover(both)
    for _ in range(5):
        assert failover.run(work) == "done"
        no_pauses(failover)
        both[0].health.on_identified()
    assert both[0].health.state is EndpointState.HEALTHY
    with_cause = [record for record in caplog.records if record.exc_info]
    assert len(with_cause) == 1, "logged once with its cause"


def test_the_only_one_is_asked_again_soon_however_wrong_it_was() -> None:
    one = Scripted("one")
    failover = Failover([one])
    for _ in range(20):
        one.put_aside("wrong")
    assert one.health.usable_at - time.monotonic() > 100
    assert failover.seconds_until_usable() <= Patience().alone_s
    assert failover.choose() is None
    one.health.usable_alone_at = 0.0
    assert failover.choose() is one


def test_one_of_two_rests_for_all_of_its_pause_while_the_other_can_be_asked(both: tuple[Scripted, Scripted]) -> None:
    failover = Failover(both)
    for _ in range(20):
        both[0].put_aside("wrong")
    both[0].health.usable_alone_at = 0.0
    assert failover.choose() is both[1]
    assert both[0].identified == 0


def test_an_identity_that_makes_no_sense_puts_one_aside(both: tuple[Scripted, Scripted]) -> None:
    both[0].failure = KeyError("result")
    assert Failover(both).choose() is both[1]
    assert both[0].health.state is EndpointState.ASIDE


def test_one_that_is_silent_at_the_start_does_not_delay_the_work(both: tuple[Scripted, Scripted]) -> None:
    answers = threading.Event()

    class Silent(Scripted):
        def identify(self) -> None:
            answers.wait(60)
            raise UpstreamUnavailable("no complete answer")

    silent = Silent("silent")
    failover = Failover([silent, both[1]], begin_probe)
    try:
        for _ in range(3):
            assert failover.run(lambda thing: thing.name) == "two"
        assert silent.health.state is EndpointState.UNKNOWN, "it is still being identified"
    finally:
        answers.set()


def test_when_all_are_silent_the_work_waits_for_the_first_that_answers(both: tuple[Scripted, Scripted]) -> None:
    both[0].failure = UpstreamUnavailable("away")
    failover = Failover(both, begin_probe)
    assert failover.run(lambda thing: thing.name) == "two"
    both[1].on_error(UpstreamUnavailable("away"))
    both[1].failure = UpstreamUnavailable("away")
    with pytest.raises(UpstreamUnavailable, match="one is unavailable: away; two is unavailable: away"):
        failover.run(lambda thing: thing.name)


def test_one_that_fails_at_work_again_and_again_comes_behind_the_others(both: tuple[Scripted, Scripted]) -> None:
    """It says who it is at once, and each piece of work with it ends after a timeout."""
    asked: list[str] = []

    def work(thing: Scripted) -> str:
        asked.append(thing.name)
        if thing is both[0]:
            raise UpstreamUnavailable("no complete answer within 15 s")
        return "done"

    failover = Failover(both, Later())
    for _ in range(20):
        assert failover.run(work) == "done"
        no_pauses(failover)
        both[0].make_healthy()
    assert asked.count("one") == 2


def test_a_reason_with_other_numbers_is_no_news(
    both: tuple[Scripted, Scripted], caplog: pytest.LogCaptureFixture
) -> None:
    one, _ = both
    for number in range(5):
        one.put_aside(f"its answer is not JSON: b'request {number} at 0x{number:x}{number:x}'")
        one.health.end_pause()
    assert caplog.messages == ["thing put aside"]
