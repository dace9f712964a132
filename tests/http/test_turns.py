"""Turns on the event loop: who comes next, and for how long."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import pytest

from fastnode.http.fair_queue import DEBT_NS_MAX, GROUPS_MAX, FairQueue, Groups
from fastnode.http.turns import Turns
from fastnode.kernels import loop_time

SLICE, ROUND = 1_000, 3_000


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


# ---- the queue ----------------------------------------------------------------------------------


def test_the_party_that_has_used_least_comes_next() -> None:
    queue: FairQueue[str] = FairQueue()
    greedy, modest = loop_time.Share(), loop_time.Share()
    greedy.used_ns = 100
    queue.push(greedy, "greedy")
    queue.push(modest, "modest")
    assert [queue.pop()[1], queue.pop()[1]] == ["modest", "greedy"]


def test_equal_parties_come_in_the_order_of_arrival() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(5):
        queue.push(loop_time.Share(), number)
    assert [queue.pop()[1] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_much_of_one_party_does_not_keep_another_waiting() -> None:
    queue: FairQueue[str] = FairQueue()
    greedy, modest = loop_time.Share(), loop_time.Share()
    for _ in range(100):
        queue.push(greedy, "greedy", 10)
    for _ in range(50):
        queue.pop()
    queue.push(modest, "modest", 10)
    assert "modest" in [queue.pop()[1] for _ in range(2)]


def serve(queue: FairQueue[str], used_ns: int, *, again: bool = True) -> str:
    """Give one turn, and queue its party again."""
    share, name = queue.pop()
    share.charge(used_ns)
    if again:
        queue.push(share, name)
    return name


def test_rest_is_no_credit() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push(loop_time.Share(), "busy")
    for _ in range(100):
        serve(queue, 1_000_000)
    queue.push(loop_time.Share(), "rested")
    assert [serve(queue, 1_000_000) for _ in range(20)].count("busy") >= 9


def test_rest_among_the_connections_of_an_address_is_no_credit() -> None:
    queue: FairQueue[str] = FairQueue()
    groups = Groups()
    busy, rested = loop_time.Share(), loop_time.Share()
    for share in (busy, rested):
        groups.join(share, b"host")
    queue.push(busy, "busy")
    for _ in range(100):
        serve(queue, 1_000_000)
    queue.push(rested, "rested")
    assert [serve(queue, 1_000_000) for _ in range(20)].count("busy") >= 9


def test_what_was_used_while_nobody_waited_is_not_paid_back_for_ever() -> None:
    queue: FairQueue[str] = FairQueue()
    old = loop_time.Share()
    old.add(3600 * 10**9)
    queue.push(old, "old")
    queue.push(loop_time.Share(), "new")
    names = [serve(queue, 1_000_000) for _ in range(200)]
    assert 90 < names.count("old") <= 101


@pytest.mark.parametrize("count", [1, 64])
def test_use_while_the_loop_was_free_costs_the_same_wait_however_many_are_there(count: int) -> None:
    queue: FairQueue[str] = FairQueue()
    others = [loop_time.Share() for _ in range(count)]
    for share in others:
        share.turn_ns = 50_000
        queue.push(share, "other")
    early = loop_time.Share()
    early.turn_ns = 50_000
    early.charge(50_000_000)
    early.turn_ns = 50_000
    queue.push(early, "early")
    served = 0
    while serve(queue, 50_000) != "early":
        served += 1
    assert served * 50_000 <= DEBT_NS_MAX + count * 100_000


def test_one_that_asks_for_little_passes_hundreds_that_have_just_come() -> None:
    queue: FairQueue[str] = FairQueue()
    modest = loop_time.Share()
    queue.push(modest, "modest")
    for _ in range(20):
        serve(queue, 50_000)
    serve(queue, 50_000, again=False)
    for _ in range(300):
        queue.push(loop_time.Share(), "new")
    for _ in range(500):
        serve(queue, 100_000)
    queue.push(modest, "modest")
    assert "modest" in [serve(queue, 100_000) for _ in range(3)]


def test_connections_of_one_address_share_its_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    groups = Groups()
    many, one = [loop_time.Share() for _ in range(10)], loop_time.Share()
    for share in many:
        groups.join(share, b"many")
    groups.join(one, b"one")
    for share in (*many, one):
        queue.push(share, "one" if share is one else "many")
    order = []
    for _ in range(20):
        order.append(serve(queue, 250_000))
    assert order.count("one") >= 9


def test_new_connections_of_an_address_begin_where_it_is() -> None:
    queue: FairQueue[str] = FairQueue()
    groups = Groups()
    other = loop_time.Share()
    groups.join(other, b"other")
    queue.push(other, "other")
    order = []
    for _ in range(20):
        fresh = loop_time.Share()
        groups.join(fresh, b"host")
        queue.push(fresh, "fresh")
        order.append(serve(queue, 250_000))
    assert order.count("other") >= 9


def test_new_connections_of_an_address_are_one_party_until_they_are_opened() -> None:
    queue: FairQueue[str] = FairQueue()
    groups = Groups()
    other = loop_time.Share()
    groups.join(other, b"host")
    for _ in range(1000):
        queue.push(groups.door(b"host", 60_000), "new", 60_000)
    queue.push(other, "other")
    assert "other" in [queue.pop()[1] for _ in range(10)]


def test_a_new_connection_is_taken_to_need_what_its_address_needed() -> None:
    groups = Groups()
    before, after = loop_time.Share(), loop_time.Share()
    groups.join(before, b"host")
    for _ in range(40):
        before.charge(1_000_000)
    groups.join(after, b"host")
    assert after.turn_ns > 900_000


def test_one_turn_that_was_held_up_does_not_put_a_modest_party_behind() -> None:
    share = loop_time.Share()
    for _ in range(40):
        share.charge(50_000)
    share.charge(20_000_000)
    assert share.turn_ns < 70_000


def test_what_a_turn_waits_for_other_threads_is_not_charged() -> None:
    time_, share = loop_time.LoopTime(10**8, 10**8), loop_time.Share()
    time_.begin_round()
    started = time.monotonic_ns()
    time.sleep(0.02)
    time_.charge(share, time.monotonic_ns() - started)
    assert share.used_ns < 5_000_000
    assert time_.spent_ns >= 20_000_000  # the round's time is everybody's


def test_what_a_turn_works_is_charged_in_full_beside_short_ones() -> None:
    time_, share, other = loop_time.LoopTime(10**8, 10**8), loop_time.Share(), loop_time.Share()
    time_.begin_round()
    for _ in range(3):
        worked = time.thread_time_ns()
        started = time.monotonic_ns()
        while time.thread_time_ns() - worked < 5_000_000:
            pass
        time_.charge(share, time.monotonic_ns() - started)
        time_.charge(other, 50_000)
    assert share.used_ns >= 14_000_000
    assert other.used_ns == 150_000


@pytest.mark.parametrize("count", [64])
def test_one_that_asks_for_little_waits_a_few_turns_however_unequal_others_are(count: int) -> None:
    queue: FairQueue[str] = FairQueue()
    modest = loop_time.Share()
    for _ in range(40):
        modest.charge(50_000)
    for _ in range(count):
        queue.push(loop_time.Share(), "other")
    waits = []
    for number in range(20 * count):
        # Most turns are short, some cannot be interrupted for long.
        serve(queue, 5_000_000 if number % 37 == 0 else 30_000)
        if number % 101 == 100 and number > 5 * count:
            queue.push(modest, "modest")
            waits.append(0)
            while True:
                share, name = queue.pop()
                share.charge(50_000 if share is modest else 30_000)
                if share is modest:
                    break
                queue.push(share, name)
                waits[-1] += 1
    assert sum(waits[1:]) / len(waits[1:]) < count / 4


def test_none_waits_for_ever_for_those_that_have_just_come() -> None:
    queue: FairQueue[str] = FairQueue()
    large = loop_time.Share()
    for _ in range(20):
        large.charge(1_000_000)
    queue.push(large, "large")
    names = []
    for _ in range(100):
        queue.push(loop_time.Share(), "new")
        queue.push(loop_time.Share(), "new")
        names.append(serve(queue, 10_000, again=False))
    assert "large" in names


def test_the_addresses_remembered_are_bounded() -> None:
    groups = Groups()
    first, again = loop_time.Share(), loop_time.Share()
    groups.join(first, b"first")
    for number in range(GROUPS_MAX):
        groups.join(loop_time.Share(), number.to_bytes(8, "big"))
    groups.join(again, b"first")
    assert again.group is not first.group


def test_what_is_used_beside_turns_does_not_make_them_look_short() -> None:
    time, share = loop_time.LoopTime(SLICE, ROUND), loop_time.Share()
    before = share.turn_ns
    time.add(share, ROUND + 1)
    assert (share.turn_ns, share.used_ns) == (before, ROUND + 1)
    assert time.is_crowded


# ---- rounds ---------------------------------------------------------------------------------------


class Work:
    """Turns that use a slice each; ``log`` has who had one, and where the loop looked for new data."""

    def __init__(self) -> None:
        self.turns = Turns(slice_ns=SLICE, round_ns=ROUND)
        self.log: list[str] = []

    def begin(self, name: str, slices: int, share: loop_time.Share | None = None) -> None:
        share = share or loop_time.Share()
        share.turn_ns = SLICE  # known

        def turn() -> None:
            nonlocal slices
            self.log.append(name)
            self.turns.time.charge(share, SLICE)
            slices -= 1
            if slices:
                self.turns.wait(share, turn)

        self.turns.wait(share, turn)

    async def finish(self) -> list[str]:
        while self.turns.waiting_count:
            self.log.append("|")
            await asyncio.sleep(0)
        return self.log


@pytest.mark.parametrize(("count", "slice_us"), [(1, 1000), (16, 1000), (32, 500), (64, 250), (1000, 250)])
def test_the_more_wait_the_shorter_is_a_slice(run: Callable[..., Any], count: int, slice_us: int) -> None:
    async def wait() -> tuple[int, int]:
        turns, seen = Turns(), list[int]()
        for _ in range(count):
            turns.wait(loop_time.Share(), lambda: seen.append(turns.time.slice_ns))
        while turns.waiting_count:
            await asyncio.sleep(0)
        return seen[0], turns.time.slice_ns

    assert run(wait()) == (slice_us * 1000, 1_000_000)


def test_two_parties_take_turns(run: Callable[..., Any]) -> None:
    work = Work()

    async def both() -> list[str]:
        work.begin("a", 3)
        work.begin("b", 3)
        return await work.finish()

    assert "".join(run(both())).replace("|", "") == "ababab"


def test_the_loop_looks_for_new_data_after_each_round(run: Callable[..., Any]) -> None:
    work = Work()

    async def one() -> list[str]:
        work.begin("a", 10)
        return await work.finish()

    rounds = [part for part in "".join(run(one())).split("|") if part]
    assert [len(part) for part in rounds] == [3, 3, 3, 1]


def test_new_data_waits_while_turns_are_waited_for(run: Callable[..., Any]) -> None:
    work = Work()

    async def one() -> tuple[bool, bool]:
        work.begin("a", 5)
        during = work.turns.time.is_crowded
        await work.finish()
        await asyncio.sleep(0)
        return during, work.turns.time.is_crowded

    assert run(one()) == (True, False)


def test_the_loop_is_crowded_when_a_round_is_used_up() -> None:
    time, share = loop_time.LoopTime(SLICE, ROUND), loop_time.Share()
    time.charge(share, ROUND)
    assert not time.is_crowded
    time.charge(share, 1)
    assert time.is_crowded
    assert share.used_ns == ROUND + 1


def test_use_is_noted_once_in_a_round() -> None:
    noted = []
    time, share = loop_time.LoopTime(SLICE, ROUND, lambda: noted.append(1)), loop_time.Share()
    time.charge(share, ROUND // 8)
    assert noted == []
    for _ in range(4):
        time.charge(share, ROUND // 4)
    assert noted == [1]
    time.begin_round()
    assert time.spent_ns == 0
    time.charge(share, ROUND // 2)
    assert noted == [1, 1]


def test_a_round_ends_when_the_loop_looks_for_new_data(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    async def work() -> None:
        turns, share = Turns(slice_ns=SLICE, round_ns=ROUND), loop_time.Share()
        turns.time.charge(share, ROUND + 1)
        assert turns.time.is_crowded
        await asyncio.sleep(0)
        assert not turns.time.is_crowded
        assert turns.time.spent_ns == 0

    run(work())


def test_a_round_does_not_begin_anew_while_the_loop_works(run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
    """The loop's clock goes on meanwhile."""

    async def work() -> None:
        turns, shares = Turns(slice_ns=SLICE, round_ns=ROUND), [loop_time.Share() for _ in range(20)]
        loop, looked, order = asyncio.get_running_loop(), [0], list[int]()

        def turn(share: loop_time.Share) -> None:
            until = time.monotonic() + 0.002
            while time.monotonic() < until:
                loop.time()
            order.append(looked[0])
            turns.time.charge(share, SLICE)

        async def look() -> None:
            while turns.waiting_count:
                await asyncio.sleep(0)
                looked[0] += 1

        for share in shares:
            turns.wait(share, partial(turn, share))
        await look()
        assert max(Counter(order).values()) <= ROUND // SLICE

    run(work())


def test_short_turns_come_before_long_ones_of_many() -> None:
    """Each of the many has used nothing yet; one whose turns have been short waits for none of them."""
    queue: FairQueue[str] = FairQueue()
    modest = loop_time.Share()
    for _ in range(20):
        modest.charge(10)
    for _ in range(100):
        queue.push(loop_time.Share(), "unknown")
    queue.push(modest, "modest")
    assert queue.pop()[1] == "modest"


def test_a_coroutine_waits_for_its_turn(run: Callable[..., Any]) -> None:
    work = Work()
    share = loop_time.Share()

    async def both() -> list[str]:
        work.begin("a", 4)

        async def other() -> None:
            for _ in range(2):
                await work.turns.next(share)
                work.log.append("b")

        await asyncio.gather(other(), work.finish())
        return work.log

    # It goes on in the next turn of the loop.
    assert "".join(run(both())).replace("|", "").count("b") == 2
    assert share.used_ns >= 2 * SLICE


def test_a_turn_that_fails_does_not_stop_the_others(run: Callable[..., Any]) -> None:
    work = Work()

    async def both() -> list[str]:
        def fail() -> None:
            raise ZeroDivisionError

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        work.turns.wait(loop_time.Share(), fail)
        work.begin("a", 2)
        found = await work.finish()
        asyncio.get_running_loop().set_exception_handler(None)
        return found

    assert "".join(run(both())).replace("|", "") == "aa"


@pytest.mark.parametrize(("slice_ns", "round_ns"), [(0, 10), (11, 10), (-1, -1)])
def test_a_slice_is_a_part_of_a_round(slice_ns: int, round_ns: int) -> None:
    with pytest.raises(ValueError, match="slice"):
        Turns(slice_ns=slice_ns, round_ns=round_ns)
