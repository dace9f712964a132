"""Files in pieces on the bus: what is written comes back, or is missed; a bus that goes away comes back too."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator

import pytest
from tests.bus.nats import NatsServer, open_bus

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.folder import PIECE_BYTES, BusFolder, folder_owners, pieces_of
from fastnode.bus.subjects import Subjects
from fastnode.errors import UpstreamFault, UpstreamUnavailable

SUBJECTS = Subjects("fastnode-31337-1")
ROOM = 64 << 20


@pytest.fixture
def bus(server: NatsServer) -> Iterator[Bus]:
    bus = open_bus(server.url)
    yield bus
    bus.close()


@pytest.fixture
def folder(bus: Bus) -> BusFolder:
    folder = BusFolder(bus, SUBJECTS, "publisher-1", away_s=60.0)
    folder.set_up(ROOM)
    return folder


def content_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def chunks(content: bytes, size: int) -> Iterator[bytes]:
    return (content[begin : begin + size] for begin in range(0, len(content), size))


@pytest.mark.parametrize(
    "size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 8 * PIECE_BYTES, 9 * PIECE_BYTES + 5]
)
def test_a_file_comes_back_as_it_was_written(folder: BusFolder, size: int) -> None:
    content = content_of(size)
    folder.put("network/parts/a", chunks(content, 100_000))
    assert b"".join(folder.stream("network/parts/a")) == content
    assert folder.piece_counts("network/parts") == {"a": pieces_of(size)}
    assert folder.piece_counts("network/other") == {}


def test_a_file_that_is_written_again_is_the_new_one(folder: BusFolder) -> None:
    for size in (5, 3):
        folder.put("network/leaves.json", [content_of(size)])
        assert b"".join(folder.stream("network/leaves.json")) == content_of(size)


def test_a_file_that_is_not_there_or_was_removed_is_missed(folder: BusFolder) -> None:
    with pytest.raises(FileNotFoundError):
        list(folder.stream("network/parts/a"))
    for name in ("a", "ab"):
        folder.put(f"network/parts/{name}", [name.encode()])
    folder.remove("network/parts/a")
    with pytest.raises(FileNotFoundError):
        list(folder.stream("network/parts/a"))
    assert list(folder.stream("network/parts/ab")) == [b"ab"]


def test_a_file_without_a_piece_of_it_is_no_file(bus: Bus, folder: BusFolder) -> None:
    folder.put("network/parts/a", [content_of(3 * PIECE_BYTES)])
    bus.purge(SUBJECTS.leaf_stream, subject=f"{SUBJECTS.leaves('publisher-1')}.network.parts.a.1")
    assert folder.piece_counts("network/parts") == {"a": 0}
    with pytest.raises(UpstreamFault, match="the piece 1 of network/parts/a is not on the bus"):
        list(folder.stream("network/parts/a"))


def test_a_piece_that_is_too_large_makes_no_sense(bus: Bus, folder: BusFolder) -> None:
    bus.publish(Outgoing(f"{SUBJECTS.leaves('publisher-1')}.network.parts.a.0", bytes(PIECE_BYTES + 1)))
    with pytest.raises(UpstreamFault, match="the piece 0 of network/parts/a makes no sense"):
        list(folder.stream("network/parts/a"))


def test_publishers_have_folders_of_their_own(bus: Bus, folder: BusFolder) -> None:
    assert folder_owners(bus, SUBJECTS, "network/leaves.json") == []
    other = BusFolder(bus, SUBJECTS, "publisher-2")
    for each, text in ((folder, b"one"), (other, b"two")):
        each.put("network/leaves.json", [text])
    assert sorted(folder_owners(bus, SUBJECTS, "network/leaves.json")) == ["publisher-1", "publisher-2"]
    folder.remove("network/leaves.json")
    assert folder_owners(bus, SUBJECTS, "network/leaves.json") == ["publisher-2"]
    assert list(other.stream("network/leaves.json")) == [b"two"]


def test_where_nobody_has_set_up_the_stream_nobody_has_files(bus: Bus) -> None:
    assert folder_owners(bus, SUBJECTS, "network/leaves.json") == []


def test_what_does_not_fit_is_refused_and_what_is_there_stays(bus: Bus) -> None:
    folder = BusFolder(bus, SUBJECTS, "publisher-1", away_s=0.0)
    folder.set_up(4 * PIECE_BYTES)
    before = folder.room()
    folder.put("network/parts/a", [content_of(2 * PIECE_BYTES)])
    assert 0 < folder.room() < before - 2 * PIECE_BYTES
    with pytest.raises(UpstreamUnavailable, match="maximum bytes exceeded"):
        folder.put("network/parts/b", [content_of(3 * PIECE_BYTES)])
    assert b"".join(folder.stream("network/parts/a")) == content_of(2 * PIECE_BYTES)


def test_a_bus_that_has_not_the_room_says_so_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("small")
    server = NatsServer(directory, more="jetstream { max_file_store: 10MB }")
    try:
        bus = open_bus(server.url)
        with pytest.raises(UpstreamUnavailable, match="insufficient"):
            BusFolder(bus, SUBJECTS, "publisher-1").set_up(ROOM)
        bus.close()
    finally:
        server.stop()


def test_a_bus_that_is_killed_in_the_middle_of_a_file_is_waited_for(server: NatsServer, folder: BusFolder) -> None:
    content = content_of(20 * PIECE_BYTES)
    folder.put("network/parts/a", chunks(content, PIECE_BYTES))
    found, back = bytearray(), threading.Timer(0.5, server.start)
    for number, piece in enumerate(folder.stream("network/parts/a")):
        found += piece
        if number == 2:
            server.stop(signal.SIGKILL)
            back.start()
    back.join()
    assert bytes(found) == content


def test_a_bus_that_stays_away_ends_the_wait(server: NatsServer, bus: Bus, folder: BusFolder) -> None:
    folder.put("network/parts/a", [content_of(20 * PIECE_BYTES)])
    server.stop()
    with pytest.raises(UpstreamUnavailable):
        list(BusFolder(bus, SUBJECTS, "publisher-1", away_s=1.0).stream("network/parts/a"))
