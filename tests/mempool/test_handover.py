"""Giving transactions to other nodes: at once, later, and before they enter the pool."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.mempool.pools import Harness, entry, tx_json, word

from fastnode.errors import Refused, UpstreamUndecided, UpstreamVerdict
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.handover import ASKED_MAX, OFFERS_MAX, UNDECIDED_MAX, PoolHandover


class OtherNode:
    """Takes what it is given, unless a test has it do something else."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.is_away = False
        self.refusal: Refused | None = None

    def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
        if self.refusal is not None:
            raise self.refusal
        if not self.is_away:
            self.taken.append(tx_json)
        return not self.is_away


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Harness]:
    pool = Harness(tmp_path / "p2p")
    yield pool
    pool.pool.close()


@pytest.fixture
def other() -> OtherNode:
    return OtherNode()


def offered(pool: Harness, handover: PoolHandover, number: int) -> PoolEntry:
    one = entry(number)
    pool.add(one)
    handover._hand_on(one.hash, tx_json(one))
    return one


def test_what_no_node_takes_says_so_after_a_while(pool: Harness, other: OtherNode) -> None:
    other.is_away = True
    patient, handover = PoolHandover(pool.pool, other), PoolHandover(pool.pool, other, untaken_s=0)
    one = offered(pool, handover, 1)
    assert patient.waiting_reason(one.hash) is None
    assert handover.waiting_reason(one.hash) == "No other node has taken it for 0 s; it waits in this node's pool"
    other.is_away = False
    handover.flush()
    assert handover.waiting_reason(one.hash) is None
    assert handover.waiting_reason(word(2)) is None, "it is not here"


def test_what_a_node_has_taken_is_marked_and_not_sent_again(pool: Harness, other: OtherNode) -> None:
    handover = PoolHandover(pool.pool, other)
    offered(pool, handover, 1)
    stored = pool.pool.entry(word(1))
    assert stored is not None
    assert stored.forwarded
    handover.flush()
    assert len(other.taken) == 1


@pytest.mark.parametrize("seed", range(10))
def test_what_is_in_a_block_or_gone_when_its_turn_comes_goes_to_nobody(pool: Harness, seed: int) -> None:
    """Other nodes may wait before they take one: what happens meanwhile counts."""
    dice, taken, meanwhile = random.Random(seed), list[bytes](), dict[bytes, str]()
    entries = {tx_json(each): each for each in map(entry, range(1, 13))}

    def pass_by(one: PoolEntry) -> None:
        meanwhile[one.hash] = what = dice.choice(["nothing", "drop", "mine", "protect"])
        if what == "drop":
            pool.pool.drop(one.hash, "its anchor was taken back")
        elif what == "mine":
            pool.mine(one)
        elif what == "protect":
            pool.pool.protect([one.hash], 1)

    class Patient:
        def forward(self, tx_json: bytes, is_wanted: Callable[[], bool]) -> bool:
            pass_by(entries[tx_json])
            if is_wanted():
                taken.append(tx_json)
                return True
            return False

    handover, before = PoolHandover(pool.pool, Patient()), pool.ledger
    for each in entries.values():
        pool.add(each)
    handover.flush()
    assert handover.trouble is None
    assert not handover.has_waiting
    assert taken == [tx_json(each) for each in entries.values() if meanwhile[each.hash] in ("nothing", "protect")]
    pool.undo_to(before)
    assert {each for each, what in meanwhile.items() if what == "mine"} == set(pool.pool.unforwarded_hashes())


def test_what_no_node_took_goes_out_in_its_order_when_one_answers(pool: Harness, other: OtherNode) -> None:
    handover = PoolHandover(pool.pool, other)
    other.is_away = True
    for number in (3, 1, 2):
        offered(pool, handover, number)
    assert handover.has_waiting
    handover.flush()
    assert other.taken == []
    assert handover.trouble == "transactions wait here until another node answers: none takes them now"
    other.is_away = False
    handover.flush()
    assert handover.trouble is None
    assert other.taken == [tx_json(entry(number)) for number in (3, 1, 2)]
    assert not handover.has_waiting


@pytest.mark.parametrize("seed", range(20))
def test_what_other_nodes_cannot_decide_does_not_hold_up_the_rest(pool: Harness, seed: int) -> None:
    dice, taken, asked = random.Random(seed), set[bytes](), list[bytes]()
    entries = {tx_json(each): each for each in map(entry, range(1, 13))}
    fates = {text: dice.choice(["takes", "takes", "refuses", "undecided", "undecided"]) for text in entries}

    class Doubtful:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            asked.append(tx_json)
            if fates[tx_json] == "undecided":
                raise UpstreamUndecided("a node refuses it, and none says whether it is known")
            if fates[tx_json] == "refuses":
                raise UpstreamVerdict("it does not please", code=-32702)
            taken.add(tx_json)
            return True

    handover = PoolHandover(pool.pool, Doubtful())
    for text, each in entries.items():
        pool.add(each)
        if dice.random() < 0.3:
            handover.offer(each.hash, text) if fates[text] != "refuses" else None
    passes = 0
    while any(
        fate != "undecided" and pool.pool.is_waiting(entries[text].hash) and text not in taken
        for text, fate in fates.items()
    ):
        asked.clear()
        handover.flush()
        passes += 1
        assert sum(fates[text] == "undecided" for text in asked) <= UNDECIDED_MAX
        assert passes <= 1 + len(entries) // UNDECIDED_MAX, "each pass tries others first"
    open_ones = {text for text, fate in fates.items() if fate == "undecided"}
    assert set(pool.pool.unforwarded_hashes()) == {entries[text].hash for text in open_ones}
    handover.flush()
    assert (handover.trouble is None) == (not open_ones)
    fates |= dict.fromkeys(open_ones, "takes")
    while handover.has_waiting:
        handover.flush()
    assert taken >= open_ones
    assert handover.trouble is None


def test_a_transaction_that_cannot_be_judged_here_or_there_is_refused(pool: Harness, other: OtherNode) -> None:
    """Its sender tries again; nothing of it is kept."""

    class Doubtful:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            raise UpstreamUndecided("a node refuses it, and none says whether it is known")

    with pytest.raises(Refused, match="No upstream answers"):
        PoolHandover(pool.pool, Doubtful()).ask(b"{}")


def test_a_restart_sends_only_what_was_not_taken(pool: Harness, other: OtherNode) -> None:
    offered(pool, PoolHandover(pool.pool, other), 1)
    other.is_away = True
    offered(pool, PoolHandover(pool.pool, other), 2)
    other.is_away = False
    pool.restart()
    assert pool.pool.unforwarded_hashes() == [word(2)]
    PoolHandover(pool.pool, other).flush()
    assert other.taken == [tx_json(entry(number)) for number in (1, 2)]
    pool.restart()
    assert not PoolHandover(pool.pool, other).has_waiting


def test_a_later_refusal_takes_the_transaction_out_of_the_pool_with_a_line_in_the_log(
    pool: Harness, other: OtherNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fastnode.mempool")
    handover = PoolHandover(pool.pool, other)
    other.is_away = True
    offered(pool, handover, 1)
    offered(pool, handover, 2)
    other.refusal = UpstreamVerdict("Invalid tx: Existing nullifier", code=-32702)
    handover.flush()
    assert [pool.pool.state_of(word(number)) for number in (1, 2)] == [TxState.DELETED, TxState.DELETED]
    assert f"tx 0x{word(1).hex()} leaves the pool: refused upstream: Invalid tx: Existing nullifier" in caplog.text


def test_a_transaction_that_another_node_must_judge_needs_one_that_answers(pool: Harness, other: OtherNode) -> None:
    handover = PoolHandover(pool.pool, other)
    handover.ask(b"{}")
    assert other.taken == [b"{}"]
    other.is_away = True
    with pytest.raises(Refused, match="No upstream answers"):
        handover.ask(b"{}")


@contextmanager
def held(count: int, start: Callable[[], None]) -> Iterator[None]:
    """``count`` threads in ``start``, until the end."""
    threads = [threading.Thread(target=start) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def test_a_slow_node_takes_only_so_many_threads(pool: Harness) -> None:
    """Asked for its verdict, more are refused; what is in the pool waits there."""
    inside, go = threading.Semaphore(0), threading.Event()

    class Slow:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            inside.release()
            return go.wait(60)

    handover = PoolHandover(pool.pool, Slow())
    with held(ASKED_MAX, lambda: handover.ask(b"{}")):
        for _ in range(ASKED_MAX):
            assert inside.acquire(timeout=60)
        with pytest.raises(Refused, match="on their way to other nodes") as busy:
            handover.ask(b"{}")
        assert busy.value.data == {"code": "BUSY"}
        assert OFFERS_MAX < ASKED_MAX
        go.set()


def test_two_threads_that_come_to_one_transaction_hand_it_on_once(pool: Harness) -> None:
    inside, go, taken = threading.Semaphore(0), threading.Event(), list[bytes]()

    class Slow:
        def forward(self, tx_json: bytes, _is_wanted: object = None) -> bool:
            inside.release()
            taken.append(tx_json)
            return go.wait(60)

    handover = PoolHandover(pool.pool, Slow())
    one, two = entry(1), entry(2)
    for each in (one, two):
        pool.add(each)
    with held(1, lambda: handover.offer(one.hash, tx_json(one))):
        assert inside.acquire(timeout=60)
        with held(1, handover.flush):
            assert inside.acquire(timeout=60)
            go.set()
    handover.offer(one.hash, tx_json(one))
    assert taken == [tx_json(one), tx_json(two)]
    assert not handover.has_waiting
