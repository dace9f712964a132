"""Locks on duties: one signer each, through waits, deaths and returns."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from tests.clock import Clock
from tests.ha.pooler import Pooler

from fastnode.errors import DutyAlreadySigned, DutyConflict, DutyError, DutyInProgress, DutyLockLost, HaDatabaseError
from fastnode.ha import duties
from fastnode.ha.connection import connect
from fastnode.ha.duties import Duty, DutyLocks, DutyType

ROLLUP, VALIDATOR = b"\x01" * 20, b"\x02" * 20
MESSAGE, OTHER_MESSAGE = b"\x0a" * 32, b"\x0b" * 32
SIGNATURE = bytes(range(65))


def attestation(slot: int) -> Duty:
    return Duty(rollup=ROLLUP, validator=VALIDATOR, slot=slot, type=DutyType.ATTESTATION)


@pytest.fixture(params=["", "transaction", "session"], ids=["direct", "transaction-pooled", "session-pooled"])
def database(request: pytest.FixtureRequest, database: str) -> str:
    """The URL of a database with the tables of duties: the server's, or that of a PgBouncer in front of it."""
    if not request.param:
        return database
    pooler: Pooler = request.getfixturevalue(f"{request.param}_pooler")
    return pooler.url(database)


@pytest.fixture
def open_node(database: str) -> Iterator[Callable[..., DutyLocks]]:
    """Opens the locks of one node after the other: ``open_node("a")``."""
    opened: list[DutyLocks] = []

    def open_locks(node_id: str, signing_timeout_s: float = 0.0) -> DutyLocks:
        opened.append(
            DutyLocks(database, node_id=node_id, polling_interval_s=0.01, signing_timeout_s=signing_timeout_s)
        )
        return opened[-1]

    yield open_locks
    for locks in opened:
        locks.close()


def stored(url: str) -> list[tuple[object, ...]]:
    with connect(url) as connection:
        return connection.execute(
            "SELECT duty_type, slot, block_index_within_checkpoint, status, node_id, signature,"
            " completed_at >= started_at FROM validator_duties ORDER BY slot, duty_type, block_index_within_checkpoint"
        ).fetchall()


Open = Callable[..., DutyLocks]


# ---- one duty ----------------------------------------------------------------------------------------


def test_who_takes_a_duty_first_signs_it_and_all_others_get_the_signature(open_node: Open, database: str) -> None:
    first, second = open_node("a"), open_node("b")
    lock = first.take(attestation(7), MESSAGE)
    assert stored(database) == [("ATTESTATION", 7, -1, "signing", "a", None, None)]
    first.finish(lock, SIGNATURE)
    assert stored(database) == [("ATTESTATION", 7, -1, "signed", "a", "0x" + SIGNATURE.hex(), True)]
    for node in (second, first):
        with pytest.raises(DutyAlreadySigned, match=r"ATTESTATION of 0x0202.* in slot 7: signed by node a") as caught:
            node.take(attestation(7), MESSAGE)
        assert caught.value.signature == SIGNATURE


@pytest.mark.parametrize("finished", [False, True])
def test_another_message_for_a_begun_duty_is_a_conflict(open_node: Open, finished: bool) -> None:
    first, second = open_node("a"), open_node("b")
    lock = first.take(attestation(1), MESSAGE)
    if finished:
        first.finish(lock, SIGNATURE)
    for node in (first, second):
        with pytest.raises(DutyConflict, match="node a has begun to sign another message"):
            node.take(attestation(1), OTHER_MESSAGE)


def test_a_duty_that_another_node_is_signing_is_waited_for_and_then_given_up(
    open_node: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(0.0)
    monkeypatch.setattr(duties, "time", SimpleNamespace(monotonic=clock, sleep=clock.go_on))
    open_node("a").take(attestation(1), MESSAGE)
    with pytest.raises(DutyInProgress):
        open_node("b", 20.0).take(attestation(1), MESSAGE)
    assert clock.now == pytest.approx(20.0, abs=0.02)


def test_a_duty_that_fails_goes_to_the_node_that_waits(open_node: Open, database: str) -> None:
    first, second = open_node("a"), open_node("b", 30.0)
    lock = first.take(attestation(1), MESSAGE)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(second.take, attestation(1), MESSAGE)
        first.fail(lock, "the signer did not answer")
        second.finish(waiting.result(30), SIGNATURE)
    assert stored(database)[0][3:5] == ("signed", "b")


def test_what_distinguishes_duties_is_validator_slot_type_and_block_index(open_node: Open, database: str) -> None:
    node = open_node("a")
    proposal = DutyType.BLOCK_PROPOSAL
    duties = [
        attestation(1),
        attestation(2),
        Duty(rollup=ROLLUP, validator=VALIDATOR, slot=1, type=DutyType.CHECKPOINT_PROPOSAL),
        Duty(rollup=ROLLUP, validator=VALIDATOR, slot=1, type=proposal, block_index=0, block_number=9),
        Duty(rollup=ROLLUP, validator=VALIDATOR, slot=1, type=proposal, block_index=1, block_number=10),
        Duty(rollup=ROLLUP, validator=b"\x03" * 20, slot=1, type=DutyType.ATTESTATION),
        Duty(rollup=b"\x04" * 20, validator=VALIDATOR, slot=1, type=DutyType.ATTESTATION),
    ]
    for duty in duties:
        node.finish(node.take(duty, MESSAGE), SIGNATURE)
    assert len(stored(database)) == len(duties)
    # The block number does not: two blocks with one index are the offense.
    with pytest.raises(DutyAlreadySigned):
        node.take(
            Duty(rollup=ROLLUP, validator=VALIDATOR, slot=1, type=proposal, block_index=0, block_number=8), MESSAGE
        )


@pytest.mark.parametrize("type", list(DutyType))
def test_every_type_of_duty_is_one_that_the_database_takes(open_node: Open, type: DutyType) -> None:
    index = 0 if type is DutyType.BLOCK_PROPOSAL else None
    open_node("a").take(Duty(rollup=ROLLUP, validator=VALIDATOR, slot=1, type=type, block_index=index), MESSAGE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rollup": b""},
        {"validator": b"\x01" * 32},
        {"slot": -1},
        {"block_index": 0},
        {"type": DutyType.BLOCK_PROPOSAL},
        {"type": DutyType.BLOCK_PROPOSAL, "block_index": -1},
    ],
)
def test_a_duty_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    right = {"rollup": ROLLUP, "validator": VALIDATOR, "slot": 1, "type": DutyType.ATTESTATION}
    with pytest.raises(ValueError, match=r"."):
        Duty(**(right | wrong))  # type: ignore[arg-type]


# ---- stuck and old duties ------------------------------------------------------------------------------


def test_stuck_duties_are_freed_for_their_own_node_only(open_node: Open, database: str) -> None:
    first, second = open_node("a"), open_node("b")
    first.take(attestation(1), MESSAGE)
    second.take(attestation(2), MESSAGE)
    second.finish(second.take(attestation(3), MESSAGE), SIGNATURE)
    assert second.clean_up_stuck(3600.0) == 0
    assert second.clean_up_stuck(0.0) == 1
    assert [(row[1], row[4]) for row in stored(database)] == [(1, "a"), (3, "b")]


def test_a_signature_made_after_the_clean_up_is_refused(open_node: Open) -> None:
    slow, quick = open_node("a"), open_node("b")
    lock = slow.take(attestation(1), MESSAGE)
    assert slow.clean_up_stuck(0.0) == 1
    quick.finish(quick.take(attestation(1), MESSAGE), SIGNATURE)
    with pytest.raises(DutyLockLost):
        slow.finish(lock, SIGNATURE)
    slow.fail(lock, "too late")  # takes nothing away from the other node
    with pytest.raises(DutyAlreadySigned):
        slow.take(attestation(1), MESSAGE)


def test_old_signed_duties_are_forgotten_and_those_being_signed_are_not(open_node: Open, database: str) -> None:
    node = open_node("a")
    node.finish(node.take(attestation(1), MESSAGE), SIGNATURE)
    node.take(attestation(2), MESSAGE)
    assert node.clean_up_signed(3600.0) == 0
    assert node.clean_up_signed(0.0) == 1
    assert [row[1] for row in stored(database)] == [2]


def test_sessions_in_other_time_zones_agree_on_ages(database: str, open_node: Open) -> None:
    with connect(database) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET timezone TO 'Pacific/Kiritimati'".encode())
    node = open_node("a")
    node.take(attestation(1), MESSAGE)
    assert node.clean_up_stuck(60.0) == 0


# ---- lost connections ------------------------------------------------------------------------------------


def cut_connections(url: str) -> None:
    with connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_lost_connection_is_made_again(open_node: Open, database: str) -> None:
    node = open_node("a")
    cut_connections(database)
    lock = node.take(attestation(1), MESSAGE)
    cut_connections(database)
    node.finish(lock, SIGNATURE)
    assert stored(database)[0][3] == "signed"


def test_a_row_that_arrived_before_the_connection_broke_is_recognised(open_node: Open, database: str) -> None:
    """The insert is committed, its answer is lost: asked again, the node finds its own token."""
    node = open_node("a")
    question = node._ask

    def ask_and_lose_the_answer(insert: Callable[[object], object]) -> object:
        node._ask = question  # type: ignore[method-assign]
        question(insert)  # type: ignore[arg-type]
        return question(insert)  # type: ignore[arg-type]

    node._ask = ask_and_lose_the_answer  # type: ignore[method-assign, assignment]
    lock = node.take(attestation(1), MESSAGE)
    node.finish(lock, SIGNATURE)
    node.finish(lock, SIGNATURE)  # likewise
    with pytest.raises(DutyLockLost):
        node.finish(lock, SIGNATURE[::-1])


def test_a_database_without_the_tables_says_so(empty_database: str) -> None:
    with DutyLocks(empty_database, node_id="a") as node, pytest.raises(HaDatabaseError, match="does not exist"):
        node.take(attestation(1), MESSAGE)


def test_threads_of_one_node_share_its_locks(open_node: Open, database: str) -> None:
    node = open_node("a")
    won: Counter[int] = Counter()
    gate = threading.Barrier(8)

    def sign_all(_: int) -> None:
        gate.wait(30)
        for slot in range(20):
            try:
                node.finish(node.take(attestation(slot), MESSAGE), SIGNATURE)
                won[slot] += 1
            except DutyError:
                pass

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(sign_all, range(8)))
    assert won == Counter(range(20))


# ---- processes -----------------------------------------------------------------------------------------------

PROCESSES = 8


def duty_of(number: int) -> Duty:
    """Ten validators, one duty per slot each."""
    validator = bytes([number % 10]) * 20
    return Duty(rollup=ROLLUP, validator=validator, slot=number // 10, type=DutyType.ATTESTATION)


def sign(node: int, number: int) -> bytes:
    """A signature that tells who made it."""
    return node.to_bytes(1, "big") + hashlib.sha512(number.to_bytes(4, "big")).digest()


def sign_everything(url: str, node: int, duties: int, dies_at: int | None, results: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    """Try every duty; reports those for which this process may publish its signature."""
    published = []
    with DutyLocks(url, node_id=f"node-{node}", signing_timeout_s=0.0) as locks:
        for number in range(duties):
            message = hashlib.sha256(number.to_bytes(4, "big")).digest()
            try:
                lock = locks.take(duty_of(number), message)
            except DutyError:
                continue
            if dies_at is not None and number >= dies_at:
                results.put((node, published))
                results.close()
                results.join_thread()
                os._exit(1)
            locks.finish(lock, sign(node, number))
            published.append(number)
    results.put((node, published))


@pytest.mark.parametrize("duties", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_eight_processes_sign_every_duty_exactly_once(database: str, duties: int) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    # The last one dies in the middle of a duty, and comes back under its name.
    deaths = [None] * (PROCESSES - 1) + [duties // 2]
    processes = [
        context.Process(target=sign_everything, args=(database, node, duties, dies_at, results))
        for node, dies_at in enumerate(deaths)
    ]
    for process in processes:
        process.start()
    reports = [results.get(timeout=600) for _ in processes]
    for process in processes:
        process.join(60)

    with DutyLocks(database, node_id=f"node-{PROCESSES - 1}", signing_timeout_s=0.0) as returned:
        stuck = returned.clean_up_stuck(0.0)
        for number in range(duties):
            message = hashlib.sha256(number.to_bytes(4, "big")).digest()
            try:
                lock = returned.take(duty_of(number), message)
            except DutyAlreadySigned:
                continue
            returned.finish(lock, sign(PROCESSES, number))
            reports.append((PROCESSES, [number]))

    signers = {number: node for node, published in reports for number in published}
    assert sum(len(published) for _, published in reports) == len(signers) == duties
    assert stuck == sum(process.exitcode == 1 for process in processes)
    with connect(database) as connection:
        rows = connection.execute("SELECT slot, validator_address, status, signature FROM validator_duties").fetchall()
    assert len(rows) == duties
    for slot, validator, status, signature in rows:
        number = slot * 10 + int(validator[2:4], 16)
        assert (status, signature) == ("signed", "0x" + sign(signers[number], number).hex())
