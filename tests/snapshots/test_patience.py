"""Waiting for a location: with a limit, and ended by a request to stop."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest

from fastnode.errors import SnapshotError
from fastnode.snapshots import patience
from fastnode.snapshots.index import Network
from fastnode.snapshots.location import Location
from fastnode.snapshots.patience import in_time, without_stall

NETWORK = Network(1, 2, "0x" + "00" * 20)


def go_on() -> None:
    pass


def test_what_comes_in_time_is_given_in_order() -> None:
    assert list(without_stall("it", lambda: iter(range(100)), go_on)) == list(range(100))
    assert in_time("it", lambda: 7, go_on) == 7


def test_an_error_arrives_as_it_was_raised() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    items = without_stall("it", fail, go_on)
    assert next(items) == 1
    with pytest.raises(OSError, match="gone"):
        next(items)


def test_an_error_keeps_nothing_of_those_who_waited_for_it() -> None:
    """A database that one of them has opened would stay open until the garbage is collected."""

    class Opened:
        pass

    def wait(_opened: Opened) -> None:
        with suppress(FileNotFoundError):
            in_time("it", not_there, lambda: None)

    def not_there() -> None:
        raise FileNotFoundError

    opened = Opened()
    gone = weakref.ref(opened)
    gc.disable()
    try:
        wait(opened)
        del opened
        for thread in threading.enumerate():
            if thread.name == "fastnode-location":
                thread.join()
        assert gone() is None
    finally:
        gc.enable()


def test_what_brings_nothing_any_more_is_given_up_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    forever = threading.Event()
    monkeypatch.setattr(patience, "time", SimpleNamespace(monotonic=lambda: 0.0))  # until the first has come

    def stall() -> Iterator[int]:
        yield 1
        forever.wait()

    items = without_stall("the place", stall, go_on, limit_s=0.2)
    assert next(items) == 1
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match=r"the place has brought nothing for 0\.2 seconds"):
        next(items)
    forever.set()


def test_what_is_fetched_ahead_is_bounded_and_ends_with_its_reader() -> None:
    fetched, ended = [], threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                fetched.append(1)
                yield 1
        finally:
            ended.set()

    items = without_stall("it", endless, go_on)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert ended.wait(60)
    assert len(fetched) < 10


def test_a_stop_is_obeyed_while_a_location_does_not_answer() -> None:
    """The server takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = threading.Event()

        def accept() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                asked.set()
                connection.recv(1 << 20)
                stopped.wait(60)

        stopped = threading.Event()
        threading.Thread(target=accept, daemon=True).start()

        def check() -> None:
            if asked.is_set():
                raise SnapshotError("the node stops")

        location = Location.to_read(f"http://127.0.0.1:{server.getsockname()[1]}/path", check)
        with pytest.raises(SnapshotError, match="the node stops"):
            location.read_index(NETWORK)
        stopped.set()
