"""Floods of questions to the bus: few are under way, and no answer is older than its question."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from tests.conftest import PATIENCE_S
from tests.serving.sockets import wait_until

from fastnode.bus.questions import Questions
from fastnode.errors import UpstreamUnavailable

AT_ONCE = 4


class Bus:
    """Answers when a test lets it, and counts."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked: Counter[bytes] = Counter()
        self.under_way: Counter[bytes] = Counter()
        self.most = self.most_of_one = 0
        self.value = 0
        self._lock = threading.Lock()

    def ask(self, about: bytes) -> int:
        with self._lock:
            self.asked[about] += 1
            self.under_way[about] += 1
            self.most = max(self.most, self.under_way.total())
            self.most_of_one = max(self.most_of_one, self.under_way[about])
        value = self.value
        try:
            if not self.may_answer.wait(PATIENCE_S):
                raise UpstreamUnavailable("away")
            return value
        finally:
            with self._lock:
                self.under_way[about] -= 1


def in_threads(count: int, work: Callable[[int], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_flood_of_one_hash_is_one_question_after_the_other() -> None:
    bus = Bus()
    questions = Questions(bus.ask, AT_ONCE, PATIENCE_S)
    answers: list[int] = []
    first = in_threads(1, lambda _: answers.append(questions.answer(b"a")))
    wait_until(lambda: bus.asked[b"a"] == 1)
    bus.value = 1  # those who ask from now on must not be told what was true before
    late: list[int] = []
    asking = threading.Barrier(101)

    def ask(_number: int) -> None:
        asking.wait(PATIENCE_S)
        late.append(questions.answer(b"a"))

    rest = in_threads(100, ask)
    asking.wait(PATIENCE_S)
    wait_until(lambda: questions._running[b"a"].following is not None)
    assert bus.asked[b"a"] == 1
    bus.may_answer.set()
    join([*first, *rest])
    assert answers == [0]
    assert late == [1] * 100
    assert bus.most_of_one == 1
    assert len(questions) == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_flood_of_many_hashes_has_few_questions_under_way_and_leaves_nothing_behind(seed: int) -> None:
    dice = random.Random(seed)
    bus = Bus()
    questions = Questions(bus.ask, AT_ONCE, 0.05)
    outcomes: Counter[str] = Counter()
    chosen = [dice.randbytes(1) if dice.random() < 0.3 else dice.randbytes(32) for _ in range(200)]

    def ask(number: int) -> None:
        try:
            outcomes[f"answer {questions.answer(chosen[number])}"] += 1
        except UpstreamUnavailable:
            outcomes["too many"] += 1

    threads = in_threads(len(chosen), ask)
    wait_until(lambda: outcomes["too many"] > 100)  # nobody waits for ever
    assert bus.under_way.total() == AT_ONCE
    bus.may_answer.set()
    join(threads)
    assert outcomes.total() == len(chosen)
    assert outcomes["answer 0"] >= AT_ONCE
    assert bus.most == AT_ONCE
    assert bus.most_of_one == 1
    assert len(questions) == 0
    assert questions.answer(b"after the flood") == 0


def test_an_error_is_that_of_all_who_shared_the_question_and_the_next_is_asked_anew() -> None:
    bus = Bus()
    questions = Questions(bus.ask, AT_ONCE, PATIENCE_S)

    def fail(_about: bytes) -> int:
        raise UpstreamUnavailable("away")

    questions._ask = fail
    with pytest.raises(UpstreamUnavailable, match="away"):
        questions.answer(b"a")
    questions._ask = bus.ask
    bus.may_answer.set()
    assert questions.answer(b"a") == 0
    assert len(questions) == 0
