"""A pool whose database was refused a write: opened anew after a pause, as often as that happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tests.clock import Clock
from tests.conftest import PATIENCE_S

from fastnode.errors import DatabaseUnwritable
from fastnode.mempool.store import RECOVERY_INTERVAL_S, PoolStore


class RefusedDatabase:
    """Keeps what is written, or refuses it."""

    fault = None
    closed = False
    after_failure = ""

    def __init__(self) -> None:
        self.refuses = False
        self.reopened = 0
        self.written: list[tuple[bytes, bytes | None]] = []
        self.changed = threading.Condition()

    def write(self, changes: Sequence[tuple[bytes, bytes | None]]) -> None:
        with self.changed:
            if self.refuses:
                raise DatabaseUnwritable("no")
            self.written += changes
            self.changed.notify_all()

    def reopen(self) -> None:
        with self.changed:
            self.reopened += 1
            self.changed.notify_all()

    def wait_for(self, reopened: int, written: int) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: (self.reopened, len(self.written)) == (reopened, written), PATIENCE_S
            ), (self.reopened, self.written)

    def release(self) -> None:
        self.closed = True


@pytest.fixture
def database() -> RefusedDatabase:
    return RefusedDatabase()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: RefusedDatabase, clock: Clock) -> Iterator[PoolStore]:
    untyped: Any = database
    store = PoolStore(untyped, clock)
    yield store
    store.close()


def write(store: PoolStore, number: int) -> None:
    store.commit(store.stage([(bytes([number]), b"")]))


def test_what_was_refused_is_written_when_the_database_was_opened_anew_each_time(
    store: PoolStore, database: RefusedDatabase, clock: Clock
) -> None:
    for round_number in (1, 2):
        database.refuses = True
        for number in range(3):  # a refused write behind another one does not put it off
            with pytest.raises(DatabaseUnwritable):
                write(store, number)
            clock.now += 0.4 * RECOVERY_INTERVAL_S
        database.refuses = False
        store._recovery.wake()
        database.wait_for(round_number, 3 * round_number)
    assert store.fault is None


def test_it_is_tried_again_until_it_can_be_written(
    store: PoolStore, database: RefusedDatabase, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    database.refuses = True
    with pytest.raises(DatabaseUnwritable):
        write(store, 1)
    for reopened in (1, 2, 3):
        clock.now += 1.1 * RECOVERY_INTERVAL_S
        store._recovery.wake()
        database.wait_for(reopened, 0)
    database.refuses = False
    clock.now += 1.1 * RECOVERY_INTERVAL_S
    store._recovery.wake()
    database.wait_for(4, 1)
    store.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the pool cannot be written",
        "the pool is written again",
    ]


def test_what_keeps_it_from_being_opened_anew_is_told(
    store: PoolStore, database: RefusedDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError

    monkeypatch.setattr(database, "reopen", fail)
    database.refuses = True
    with pytest.raises(DatabaseUnwritable):
        write(store, 1)
    told = threading.Event()
    monkeypatch.setattr(store._recovery, "_on_error", told.set)
    clock.now += 1.1 * RECOVERY_INTERVAL_S
    store._recovery.wake()
    assert told.wait(PATIENCE_S)
    assert store.fault == "the pool is not opened anew: ValueError; the log has the cause"
