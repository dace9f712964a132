"""Questions that are answered together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any

import pytest
from tests.conftest import PATIENCE_S

from fastnode.errors import Refused
from fastnode.workers.groups import Asked, Group, Together


class Groups:
    """Doubles numbers; a group begins when it is let in."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.may_go_on = threading.Semaphore(0)
        self.replies: SimpleQueue[tuple[Any, list[tuple[int, Any]]]] = SimpleQueue()
        self.later: list[Callable[[], None]] = []
        self.failure: Exception | None = None
        self.group = Group(
            Together("double", self._double, self._then), lambda *reply: self.replies.put(reply), self._in_thread
        )

    def _double(self, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        self.seen.append([number for (number,) in calls])
        self.entered.release()
        assert self.may_go_on.acquire(timeout=PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        return [Refused("odd") if number % 2 else 2 * number for (number,) in calls]

    def _then(self, result: int, call: tuple[int]) -> Callable[[], None] | None:
        def check() -> None:
            if result == 20:
                raise Refused("another node does not want it")

        assert result == 2 * call[0]
        if result == 8:
            raise KeyError("secret")
        return check if result >= 10 else None

    def _in_thread(self, function: Callable[..., None], *arguments: Any) -> bool:
        self.later.append(lambda: function(*arguments))
        return True

    def ask(self, worker: str, number: int) -> None:
        self.group.put(Asked(worker, number, (number,)))  # type: ignore[arg-type]

    def next_replies(self, count: int) -> dict[Any, list[tuple[int, Any]]]:
        return dict(self.replies.get(timeout=PATIENCE_S) for _ in range(count))


@pytest.fixture
def groups() -> Iterator[Groups]:
    made = Groups()
    made.group.start()
    yield made
    made.may_go_on.release(100)
    made.group.close()


def begin(groups: Groups) -> None:
    """One is being answered, so that those that come now wait."""
    groups.ask("first", 0)
    assert groups.entered.acquire(timeout=PATIENCE_S)


def test_what_comes_while_others_are_answered_is_answered_together(groups: Groups) -> None:
    begin(groups)
    for worker, number in (("first", 2), ("second", 1), ("first", 3)):
        groups.ask(worker, number)
    groups.may_go_on.release(2)
    assert groups.next_replies(1) == {"first": [(0, (True, 0))]}
    assert groups.next_replies(2) == {
        "first": [(2, (True, 4)), (3, (False, ("refused", "odd", None, None)))],
        "second": [(1, (False, ("refused", "odd", None, None)))],
    }
    assert groups.seen == [[0], [2, 1, 3]]


def test_a_group_has_a_bound(groups: Groups) -> None:
    begin(groups)
    for _ in range(40):
        groups.ask("first", 2)
    groups.may_go_on.release(3)
    groups.next_replies(1)
    groups.next_replies(1)
    groups.next_replies(1)
    assert list(map(len, groups.seen)) == [1, 32, 8]


def test_what_is_raised_is_the_answer_to_all_and_tells_nothing_of_a_fault(groups: Groups) -> None:
    groups.failure = KeyError("secret")
    begin(groups)
    groups.ask("second", 2)
    groups.may_go_on.release(2)
    assert groups.next_replies(1) == {"first": [(0, (False, ("internal", "double", None, None)))]}
    assert groups.next_replies(1) == {"second": [(2, (False, ("internal", "double", None, None)))]}


def test_what_blocks_afterwards_holds_up_its_own_answer_only(groups: Groups) -> None:
    begin(groups)
    for number in (6, 2, 10, 4):
        groups.ask("first", number)
    groups.may_go_on.release(2)
    groups.next_replies(1)
    failure = ("internal", "double", None, None)
    assert groups.next_replies(1) == {"first": [(2, (True, 4)), (4, (False, failure))]}
    for give_later in groups.later:
        give_later()
    assert groups.next_replies(1) == {"first": [(6, (True, 12))]}
    refusal = ("refused", "another node does not want it", None, None)
    assert groups.next_replies(1) == {"first": [(10, (False, refusal))]}


def test_what_waits_is_answered_before_the_end(groups: Groups) -> None:
    begin(groups)
    groups.ask("first", 2)
    closing = threading.Thread(target=groups.group.close)
    closing.start()
    groups.may_go_on.release(2)
    closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert groups.seen == [[0], [2]]
    groups.next_replies(1)
    assert groups.next_replies(1) == {"first": [(2, (True, 4))]}
    groups.group.close()
