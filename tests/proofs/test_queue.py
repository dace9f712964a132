"""Order of proofs to check: turns, places, and who loses them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from tests.clock import Clock
from tests.proofs.programs import made_statement

from fastnode.proofs.inputs import Statement
from fastnode.proofs.queue import SUSPECT_S, VERIFIER_BUSY, CheckQueue
from fastnode.proofs.verdict import VALID, Judgement, Verdict

INVALID = Verdict.invalid("no")
BUSY = Verdict.unknown(VERIFIER_BUSY)


class Judge:
    """Checks wait until :meth:`go_on`; ``order`` says which came when."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.bad: set[int] = set()
        self.started = threading.Semaphore(0)
        self._may_end = threading.Semaphore(0)

    def __call__(self, statement: Statement) -> Verdict:
        number = int.from_bytes(statement.inputs[:32], "big")
        self.order.append(number)
        self.started.release()
        assert self._may_end.acquire(timeout=30)
        return INVALID if number in self.bad else VALID

    def go_on(self, count: int = 1000) -> None:
        self._may_end.release(count)


class Case:
    def __init__(self, *, threads: int = 1, waiting_max: int = 100) -> None:
        self.judge, self.clock = Judge(), Clock(0.0)
        self.queue = CheckQueue(self.judge, threads=threads, timeout_s=30, waiting_max=waiting_max, clock=self.clock)

    def ask(self, number: int, client: str) -> Future[Verdict]:
        return self.queue.submit(made_statement(number), number.to_bytes(32, "big"), client)

    def occupy(self) -> Future[Verdict]:
        """Keep the one thread busy, so that what follows waits."""
        result = self.ask(0, "first")
        assert self.judge.started.acquire(timeout=30)
        return result

    def make_suspect(self, client: str, number: int = 999) -> None:
        self.queue.suspect(client)


@pytest.fixture
def case() -> Iterator[Case]:
    made = Case()
    yield made
    made.judge.go_on()
    made.queue.close()


def test_clients_take_turns(case: Case) -> None:
    case.occupy()
    asked = [case.ask(10 + i, "many") for i in range(4)] + [
        case.ask(20, "one"),
        case.ask(30, "two"),
        case.ask(31, "two"),
    ]
    case.judge.go_on()
    assert [result.result(30) for result in asked] == [VALID] * 7
    assert case.judge.order == [0, 10, 20, 30, 11, 31, 12, 13]


def test_suspects_wait_for_others_but_for_every_eighth_turn(case: Case) -> None:
    case.occupy()
    case.make_suspect("bad")
    asked = [case.ask(100 + i, "bad") for i in range(3)] + [case.ask(i, "good") for i in range(1, 13)]
    case.judge.go_on()
    for result in asked:
        result.result(30)
    assert case.judge.order == [0, *range(1, 8), 100, *range(8, 13), 101, 102]


def test_a_refused_proof_makes_a_suspect_of_all_that_waits_too(case: Case) -> None:
    case.judge.bad = {1}
    bad = case.ask(1, "bad")
    assert case.judge.started.acquire(timeout=30)
    waiting = [case.ask(2 + i, "bad") for i in range(3)]
    good = [case.ask(10 + i, "good") for i in range(3)]
    case.judge.go_on()
    assert bad.result(30) == INVALID
    for result in (*waiting, *good):
        assert result.result(30) == VALID
    assert case.judge.order[:4] == [1, 10, 11, 12]


def test_a_suspect_is_forgiven_after_a_while(case: Case) -> None:
    case.make_suspect("bad")
    case.clock.now += SUSPECT_S + 1
    case.occupy()
    asked = [case.ask(1, "bad"), case.ask(2, "good")]
    case.judge.go_on()
    for result in asked:
        result.result(30)
    assert case.judge.order == [0, 1, 2]


def test_the_same_statement_is_checked_once_for_all_who_ask(case: Case) -> None:
    case.occupy()
    results = [case.ask(1, f"client {i}") for i in range(5)]
    assert case.queue.waiting_count == 1
    case.judge.go_on()
    assert {result.result(30) for result in results} == {VALID}
    assert case.judge.order == [0, 1]


def test_a_shared_check_takes_the_better_turn(case: Case) -> None:
    case.occupy()
    case.make_suspect("bad")
    shared = case.ask(1, "bad")
    others = [case.ask(10 + i, "other") for i in range(3)]
    case.ask(1, "good")
    case.judge.go_on()
    shared.result(30)
    for result in others:
        result.result(30)
    assert case.judge.order.index(1) <= 2


def test_one_caller_cannot_cancel_a_check_for_the_others(case: Case) -> None:
    case.occupy()
    one, other = case.ask(1, "one"), case.ask(1, "other")
    assert not one.cancel()
    case.judge.go_on()
    assert other.result(30) == VALID


def test_the_queue_is_bounded_and_who_has_most_gives_way() -> None:
    case = Case(waiting_max=10)
    try:
        case.occupy()
        flood = [case.ask(100 + i, "flood") for i in range(50)]
        assert case.queue.waiting_count == 10
        assert [result.result(0) for result in flood[10:]] == [BUSY] * 40
        honest = [case.ask(1, "honest"), case.ask(2, "other")]
        assert case.queue.waiting_count == 10
        assert flood[9].result(0) == flood[8].result(0) == BUSY
        assert case.queue.turned_away == 42
        case.judge.go_on()
        assert [result.result(30) for result in honest] == [VALID, VALID]
        assert set(case.judge.order[1:4]) >= {100, 1, 2}
    finally:
        case.judge.go_on()
        case.queue.close()


def test_suspects_give_way_first_however_few_they_have() -> None:
    case = Case(waiting_max=10)
    try:
        case.occupy()
        case.make_suspect("bad")
        bad = case.ask(1, "bad")
        for number in range(10, 19):
            case.ask(number, "good")
        assert case.queue.waiting_count == 10
        case.ask(30, "another")
        assert bad.result(0) == BUSY
        assert case.ask(2, "bad").result(0) == BUSY
    finally:
        case.judge.go_on()
        case.queue.close()


def test_who_waited_too_long_is_told_so(case: Case) -> None:
    case.occupy()
    late = case.ask(1, "late")
    case.clock.now += 31
    case.judge.go_on()
    assert late.result(30) == BUSY
    assert case.judge.order == [0]


def test_as_many_run_at_once_as_there_are_threads() -> None:
    case = Case(threads=3)
    try:
        for number in range(5):
            case.ask(number, "one")
        for _ in range(3):
            assert case.judge.started.acquire(timeout=30)
        assert case.queue.running_count == 3
        assert case.queue.waiting_count == 2
    finally:
        case.judge.go_on()
        case.queue.close()


def test_a_fault_in_a_check_loses_neither_the_thread_nor_who_waits() -> None:
    def judge(statement: Statement) -> Verdict:
        if statement.inputs[31] == 1:
            raise ValueError("a bug")
        return VALID

    queue = CheckQueue(judge, threads=1, timeout_s=30)
    results = [queue.submit(made_statement(number), bytes([number]), "one") for number in (1, 2)]
    assert results[0].result(30) == Verdict.unknown("Proof cannot be verified: a fault of this node")
    assert results[1].result(30) == VALID
    queue.close()


def test_closing_answers_those_who_wait_and_ends_what_runs() -> None:
    case = Case()
    running = case.occupy()
    waiting = case.ask(1, "one")
    case.judge.go_on()
    case.queue.close()
    assert running.result(30) == VALID
    assert waiting.result(30).judgement in {Judgement.UNKNOWN, Judgement.VALID}
    assert case.ask(2, "one").result(0).judgement is Judgement.UNKNOWN
