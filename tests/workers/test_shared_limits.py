"""Limits in memory that several processes see."""

from __future__ import annotations

import http.client
import multiprocessing
import os
from collections.abc import Callable

import pytest
from tests.conftest import ADMIN_KEY_HASH, NodeProcess
from tests.workers.nodes import Workers

from fastnode.jsonrpc.rate_limit_rules import Rate
from fastnode.workers.shared_limits import SharedBuckets, SharedConnections

PROCESSES = 4
RATE = Rate(per_second=2000.0, burst=500.0)
SECONDS = 1.0


def in_processes(count: int, work: Callable[[int], int]) -> list[int]:
    """What ``work`` returns in each of so many processes at the same time."""
    pipes = [os.pipe() for _ in range(count)]
    children = []
    for number, (_, writing) in enumerate(pipes):
        pid = os.fork()
        if not pid:
            try:
                os.write(writing, str(work(number)).encode())
            finally:
                os._exit(0)
        children.append(pid)
    found = [int(os.read(reading, 100)) for reading, _ in pipes]
    for pid in children:
        os.waitpid(pid, 0)
    for ends in pipes:
        for end in ends:
            os.close(end)
    return found


def test_one_budget_is_spent_by_all_processes_together() -> None:
    table, clock, all_there = SharedBuckets(), multiprocessing.Value("d", 1000.0), multiprocessing.Barrier(PROCESSES)

    def tick() -> float:
        """One clock for all: however the processes get their turns, it stands still while none of them has one."""
        with clock.get_lock():
            clock.value += SECONDS / 10_000
            return clock.value

    def spend(number: int) -> int:
        bucket = table.bucket("wallet", RATE, 1000.0)
        taken = int(not bucket.take(1.0, 1000.0))
        all_there.wait()
        while (now := tick()) < 1000.0 + SECONDS:
            taken += not bucket.take(1.0, now)
        return taken

    taken = in_processes(PROCESSES, spend)
    assert all(taken)
    assert sum(taken) == pytest.approx(RATE.burst + RATE.per_second * SECONDS, rel=0.05)


def test_budgets_of_different_clients_and_rates_are_different() -> None:
    table = SharedBuckets()
    first = table.bucket("a", Rate(per_second=1.0, burst=2.0), 10.0)
    assert [first.take(1.0, 10.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert table.bucket("b", Rate(per_second=1.0, burst=2.0), 10.0).take(2.0, 10.0) == 0.0
    assert table.bucket("a", Rate(per_second=1.0, burst=3.0), 10.0).take(3.0, 10.0) == 0.0
    again = table.bucket("a", Rate(per_second=1.0, burst=2.0), 10.0)
    assert again.take(1.0, 10.5) == 0.5
    assert again.take(1.0, 11.0) == 0.0


def test_what_is_given_back_can_be_spent_by_another_process() -> None:
    table = SharedBuckets()
    ours, theirs = (table.bucket("a", Rate(per_second=1.0, burst=5.0), 10.0) for _ in range(2))
    assert ours.take(5.0, 10.0) == 0.0
    assert theirs.take(3.0, 10.0) == 3.0
    ours.give(4.0)
    assert theirs.take(3.0, 10.0) == 0.0


def test_more_clients_than_rows_begin_anew_from_the_one_that_was_seen_longest_ago() -> None:
    table = SharedBuckets()
    rate = Rate(per_second=1.0, burst=1.0)
    for number in range(100_000):
        assert table.bucket(f"client {number}", rate, 1.0).take(1.0, 1.0 + number / 1e6) == 0.0
    assert table.bucket("client 99999", rate, 1.0).take(1.0, 1.2) > 0.0


def test_connections_of_one_address_count_over_all_workers() -> None:
    shared = SharedConnections(2)
    first, second = shared.counts(1, 3), shared.counts(2, 3)
    address, other = b"\x7f\0\0\1", b"\x7f\0\0\2"
    assert [first.enter(address), second.enter(address), first.enter(address)] == [True] * 3
    assert (first.enter(address), second.enter(address)) == (False, False)
    assert second.enter(other)
    assert (first.elsewhere, second.elsewhere) == (2, 2)
    first.leave(address)
    assert second.enter(address)
    assert not first.enter(address)
    # A worker that begins anew has none.
    first = shared.counts(1, 3)
    assert (second.elsewhere, first.elsewhere) == (0, 3)
    assert first.enter(address)


def test_a_socket_without_an_address_counts_in_the_total_alone() -> None:
    shared = SharedConnections(2)
    first, second = shared.counts(1, 1), shared.counts(2, 1)
    assert first.enter(None)
    assert first.enter(None)
    assert second.elsewhere == 2
    first.leave(None)
    assert second.elsewhere == 1


def test_a_client_has_one_budget_and_one_number_of_connections_in_a_node(
    start_node: Callable[..., NodeProcess], short_chain: object, tmp_path: object
) -> None:
    limits = tmp_path / "limits.toml"  # type: ignore[operator]
    limits.write_text("[address]\nrate = 0.01\nburst = 60\n")
    workers = Workers(
        start_node(
            "--workers=2",
            f"--chain-file={short_chain}",
            f"--rpc-limits={limits}",
            "--rpc-max-connections-per-address=20",
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        )
    )
    clients = [workers.connect() for _ in range(16)]
    answered = refused = 0
    for _ in range(6):
        for client in clients:
            answer = client.call("node_getBlockNumber")
            answered += "result" in answer
            refused += "error" in answer
    assert (answered, refused) == (60, 36)
    for _ in range(4):
        workers.connect().call("node_getBlockNumber")
    # It is turned away with text, and what it sends meets a closed connection, or not yet.
    with pytest.raises((OSError, ValueError, http.client.HTTPException)):
        workers.connect().call("node_getBlockNumber")
    workers.close()
    assert workers.node.stop() == 0
