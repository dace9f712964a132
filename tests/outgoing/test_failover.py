"""Several endpoints: the first that can be asked is asked, another stands in for it."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.failover import Endpoint, Failover
from fastnode.outgoing.health import Patience
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
    """An executor that does its work when it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Any, ...]] = []

    def submit(self, *work: Any) -> None:
        self.work.append(work)

    def run(self) -> None:
        for function, *arguments in self.work:
            function(*arguments)
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
    failover = Failover(both, later)  # type: ignore[arg-type]
    both[0].failure = UpstreamUnavailable("away")
    assert failover.choose() is both[1]
    both[0].failure, both[0].health.usable_at = None, 0.0
    assert failover.choose() is both[1]
    assert failover.choose() is both[1]
    assert len(later.work) == 1, "once at a time"
    later.run()
    assert failover.choose() is both[0]


def test_all_are_put_aside_only_when_each_is(both: tuple[Scripted, Scripted]) -> None:
    failover = Failover(both)
    both[0].put_aside("wrong")
    assert not failover.are_all_put_aside
    both[1].put_aside("wrong")
    assert failover.are_all_put_aside


def no_pauses(failover: Failover[Scripted]) -> None:
    for each in failover.all:
        each.health.usable_at = 0.0


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
        pauses.append(failover.seconds_until_usable())
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
