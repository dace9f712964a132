"""The one total of memory that requests may take."""

from __future__ import annotations

import threading

import pytest

from fastnode.errors import NodeBusy
from fastnode.http.allowance import BUDGET_BYTES_MAX, Allowance, MemoryBudget, Party, default_budget


def test_what_is_too_much_is_refused_and_not_taken() -> None:
    budget = MemoryBudget(100)
    budget.take(60)
    with pytest.raises(NodeBusy, match="rpc-memory-budget") as refusal:
        budget.take(41)
    assert refusal.value.data == {"code": "BUSY", "retryAfterMs": 1000}
    assert (budget.used_bytes, budget.refused_count) == (60, 1)
    budget.take(40)
    budget.give_back(100)
    assert (budget.used_bytes, budget.peak_bytes) == (0, 100)


def test_what_is_there_already_is_counted_even_if_it_is_too_much() -> None:
    budget = MemoryBudget(100)
    budget.take_unasked(150)
    assert budget.excess_bytes == 50
    with pytest.raises(NodeBusy):
        budget.take(1)
    budget.give_back(150)
    assert budget.excess_bytes == 0


def test_without_a_limit_all_is_counted_and_nothing_refused() -> None:
    budget = MemoryBudget()
    budget.take(1 << 50)
    assert (budget.used_bytes, budget.excess_bytes) == (1 << 50, 0)


def test_threads_lose_no_bytes() -> None:
    budget = MemoryBudget(1 << 40)

    def take_and_give_back() -> None:
        for _ in range(2_000):
            budget.take(3)
            budget.give_back(2)

    threads = [threading.Thread(target=take_and_give_back) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.used_bytes == 4 * 2_000


def test_the_default_is_a_part_of_the_machine() -> None:
    assert 0 < default_budget() <= BUDGET_BYTES_MAX


def test_a_request_gives_back_what_it_took_once() -> None:
    budget = MemoryBudget(100)
    allowance = Allowance(Party(budget=budget))
    allowance.take(30)
    allowance.take(20)
    with pytest.raises(NodeBusy):
        allowance.take(51)
    assert (allowance.taken_bytes, budget.used_bytes) == (50, 50)
    allowance.give_back()
    allowance.give_back()
    assert (allowance.taken_bytes, budget.used_bytes) == (0, 0)


def test_work_for_a_connection_is_told_when_it_goes() -> None:
    party, told = Party(), []
    party.call_at_end(lambda: told.append("first"))
    second = lambda: told.append("second")  # noqa: E731
    party.call_at_end(second)
    party.forget_end(second)
    assert not Allowance(party).is_abandoned
    party.leave()
    assert Allowance(party).is_abandoned
    party.call_at_end(lambda: told.append("late"))
    assert told == ["first", "late"]


def test_requests_of_one_address_share_a_part_of_the_budget_of_which_one_alone_may_have_more() -> None:
    budget = MemoryBudget(1000, address_bytes_max=100)
    one, two = (Allowance(Party(budget=budget, network=b"crowd")) for _ in range(2))
    one.take(60)
    two.take(40)
    for allowance in (one, two):
        with pytest.raises(NodeBusy, match=r"from this address .*--rpc-memory-budget-per-address") as refusal:
            allowance.take(1)
        assert refusal.value.data == {"code": "BUSY", "retryAfterMs": 1000}
    other = Allowance(Party(budget=budget, network=b"other"))
    other.take(90)
    two.give_back()
    one.take(500)
    with pytest.raises(NodeBusy, match="from this address"):
        two.take(1)
    one.release(500)
    two.take(40)
    for allowance in (one, two, other):
        allowance.give_back()
    assert budget.used_bytes == 0
    budget.take_unasked(100, b"crowd")  # answers that its clients leave unread
    with pytest.raises(NodeBusy, match="from this address"):
        one.take(1)
    budget.give_back(100, b"crowd")
    one.take(1)
    Allowance(Party(budget=budget)).take(900)  # a client without an address, such as one of a test
