"""Snapshots of leaves over HTTP from another node: what is there, what is not, ranges, limits, and a whole node."""

from __future__ import annotations

import http.client
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.snapshots.test_leaves import parts_of, require_whole

from fastnode.errors import SnapshotError
from fastnode.snapshots import serving
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_restore import find_leaf_snapshots, restore_leaves, unconfirmed
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network
from fastnode.snapshots.serving import LeafServer
from fastnode.values.client_network import network_of

Start = Callable[..., NodeProcess]


@pytest.fixture
def server(leaves: Path) -> Iterator[LeafServer]:
    server = LeafServer(leaves, host="127.0.0.1", port=0, bytes_per_s=1e9)
    server.start()
    yield server
    server.close()


@pytest.fixture
def network(leaves: Path) -> Network:
    return choose_network(Location.to_read(f"file://{leaves}"))


def ask(server: LeafServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    until(lambda: server.reader_count == 0)  # a place comes back a moment after its reader has gone
    return ask_now(server, path, method, **headers)


def ask_now(server: LeafServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


def test_a_directory_is_made_of_what_another_node_serves(server: LeafServer, network: Network, tmp_path: Path) -> None:
    location = Location.to_read(f"http://127.0.0.1:{server.port}")
    [snapshot] = find_leaf_snapshots(location, network)
    assert server.newest(network) == snapshot
    (tmp_path / "new").mkdir()
    restore_leaves(tmp_path / "new", location, network, snapshot, confirm=unconfirmed)
    require_whole(tmp_path / "new")
    assert server.counts["bytes"] > snapshot.bytes


def test_an_index_that_makes_no_sense_is_named(server: LeafServer, leaves: Path, network: Network) -> None:
    (leaves / network.folder / "leaves.json").write_text("{")
    with pytest.raises(SnapshotError, match="the index of leaves is damaged"):
        server.newest(network)
    shutil.rmtree(leaves / network.folder)
    assert server.newest(network) is None


def test_a_part_is_given_whole_or_from_anywhere_on(server: LeafServer, leaves: Path, network: Network) -> None:
    part = max(parts_of(leaves), key=lambda file: file.stat().st_size)
    path, whole = f"/{network.folder}/parts/{part.name}", part.read_bytes()
    assert ask(server, path)[:2] == (200, whole)
    size = len(whole)
    for asked, first, last in (
        ("bytes=0-", 0, size - 1),
        ("bytes=5-", 5, size - 1),
        (f"bytes={size - 1}-", size - 1, size - 1),
        ("bytes=7-9", 7, 9),
        (f"bytes=7-{10 * size}", 7, size - 1),
    ):
        status, content, headers = ask(server, path, Range=asked)
        assert (status, content) == (206, whole[first : last + 1]), asked
        assert headers["content-range"] == f"bytes {first}-{last}/{size}"
    for asked in (f"bytes={size}-", "bytes=9-7"):
        status, content, headers = ask(server, path, Range=asked)
        assert (status, content, headers["content-range"]) == (416, b"", f"bytes */{size}")
    for asked in ("bytes=-5", "bytes=1-2,4-5", "lines=1-"):  # as if it were not there
        assert ask(server, path, Range=asked)[:2] == (200, whole)
    status, content, headers = ask(server, path, "HEAD")
    assert (status, content, headers["content-length"]) == (200, b"", str(size))


def test_nothing_else_is_given(server: LeafServer, leaves: Path, network: Network) -> None:
    (leaves / "secret").write_text("secret")
    (leaves / network.folder / "index.json").write_text("{}")
    (leaves / network.folder / "parts" / "secret").write_text("secret")
    for path in (
        *("/", "/secret", f"/{network.folder}", f"/{network.folder}/", f"/{network.folder}/parts"),
        *(f"/{network.folder}/index.json", f"/{network.folder}/parts/secret", f"/{network.folder}/parts/../secret"),
        *(f"/{network.folder}/../secret", f"/{network.folder}/%2e%2e/secret"),
        *(f"/{network.folder}/leaves.json?a", f"/{network.folder}/parts/{'0' * 64}", "/../../etc/passwd"),
    ):
        assert ask(server, path)[:2] == (404, b""), path
    assert ask(server, f"/{network.folder}/leaves.json", "POST")[0] == 501
    assert ask(server, f"/{network.folder}/leaves.json")[0] == 200


@pytest.fixture
def large(leaves: Path, network: Network) -> str:
    """Path of a part that fills the buffers of a connection whose client reads nothing."""
    part = leaves / network.folder / "parts" / ("a" * 64)
    with part.open("wb") as file:
        file.truncate(64 << 20)
    return f"/{network.folder}/parts/{part.name}"


def hold(stack: ExitStack, server: LeafServer, path: str, source: str = "127.0.0.1") -> socket.socket:
    """A reader that reads nothing, from one address of many."""
    address = ("127.0.0.1", server.port)
    reader = stack.enter_context(socket.create_connection(address, PATIENCE_S, source_address=(source, 0)))
    reader.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    return reader


def test_readers_are_limited_and_places_come_back(server: LeafServer, network: Network, large: str) -> None:
    path = f"/{network.folder}/leaves.json"
    with ExitStack() as stack:
        for _ in range(serving._READERS_OF_ADDRESS_MAX):
            hold(stack, server, large)
        until(lambda: server.reader_count == serving._READERS_OF_ADDRESS_MAX)
        status, _, headers = ask_now(server, path)
        assert (status, headers["retry-after"]) == (503, "5")
    until(lambda: server.reader_count == 0)
    assert ask(server, path)[0] == 200
    assert server.counts["refused"] == 1


def test_connections_without_a_request_take_no_place(server: LeafServer, network: Network) -> None:
    path = f"/{network.folder}/leaves.json"
    with ExitStack() as stack:
        for source in ("127.0.0.2", "127.0.0.3"):
            for _ in range(serving._HEADS_OF_ADDRESS_MAX):
                address = ("127.0.0.1", server.port)
                silent = stack.enter_context(socket.create_connection(address, PATIENCE_S, source_address=(source, 0)))
                silent.sendall(b"GET ")
        assert [ask_now(server, path)[0] for _ in range(5)] == [200] * 5


def test_two_addresses_do_not_hold_all_places(server: LeafServer, network: Network, large: str) -> None:
    path = f"/{network.folder}/leaves.json"
    with ExitStack() as stack:
        for place in range(serving._READERS_MAX):
            hold(stack, server, large, f"127.0.0.{2 + place % 2}")
        until(lambda: server.reader_count == serving._READERS_MAX)
        assert [ask_now(server, path)[0] for _ in range(20)] == [200] * 20
        # The latest of the most crowded address gave up, perhaps another one too.
        until(lambda: server.reader_count < serving._READERS_MAX)
    assert server.counts["refused"] == 0


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    places = serving._Places(8, 4)
    with ExitStack() as stack:
        readers = [stack.enter_context(socket.socket()) for _ in range(6)]
        networks = [network_of((f"2001:db8::{place}", 1, 0, 0)) for place in range(5)] + [
            network_of(("2001:db9::1", 1))
        ]
        entered = [places.enter(reader, network) for reader, network in zip(readers, networks, strict=True)]
    assert entered == [True, True, True, True, False, True]


def test_a_request_that_does_not_end_loses_its_place(server: LeafServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when a byte of it comes now and then."""
    monkeypatch.setattr(serving, "_REQUEST_S", 0.3)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        is_left = threading.Event()

        def trickle() -> None:
            while not is_left.wait(0.05):
                try:
                    slow.sendall(b"x")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        until(lambda: server.reader_count == 0)
        is_left.set()
        thread.join()


def test_a_reader_that_takes_nothing_is_left(leaves: Path, network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_SEND_S", 0.2)
    part = leaves / network.folder / "parts" / ("a" * 64)
    with part.open("wb") as file:
        file.truncate(64 << 20)
    server = LeafServer(leaves, host="127.0.0.1", port=0, bytes_per_s=1e9)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as idle:
        idle.sendall(f"GET /{network.folder}/parts/{part.name} HTTP/1.1\r\n\r\n".encode())
        until(lambda: server.counts["bytes"] > 0)
        until(lambda: server.reader_count == 0)
    server.close()


def test_all_readers_together_get_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Ended(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            return False

    now = 100.0
    monkeypatch.setattr(serving.time, "monotonic", lambda: now)
    pace = serving._Pace(1000.0)
    for _ in range(4):
        pace.wait(500, Ended())
    assert waited == [0.5, 1.0, 1.5]
    now = 200.0
    pace.wait(500, Ended())
    assert len(waited) == 3


def test_a_server_that_closes_ends_what_it_sends(leaves: Path, network: Network) -> None:
    server = LeafServer(leaves, host="127.0.0.1", port=0, bytes_per_s=1.0)
    server.start()
    part = max(parts_of(leaves), key=lambda file: file.stat().st_size)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as reader:
        reader.sendall(f"GET /{network.folder}/parts/{part.name} HTTP/1.1\r\n\r\n".encode())
        until(lambda: server.counts["bytes"] > 0)
        server.close()
        while reader.recv(1 << 16):
            pass
    server.close()


def test_one_flipped_bit_in_what_another_node_serves_is_found(
    server: LeafServer, leaves: Path, network: Network, tmp_path: Path
) -> None:
    location = Location.to_read(f"http://127.0.0.1:{server.port}")
    [snapshot] = find_leaf_snapshots(location, network)
    for part in parts_of(leaves):
        whole = part.read_bytes()
        if not whole:
            continue
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        (tmp_path / "new").mkdir()
        part.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        with pytest.raises(SnapshotError, match=f"parts/{part.name}: its SHA-256 is another one"):
            restore_leaves(tmp_path / "new", location, network, snapshot, confirm=unconfirmed)
        part.write_bytes(whole)


def test_a_node_begins_with_the_leaves_of_the_node_that_it_follows(
    start_node: Start, long_directory: Path, tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(long_directory, tmp_path / "source"))
    source = start_node(
        *("--data-directory", directory, "--snapshot-serve-port", 0, "--snapshot-upload-form", "leaves"),
        SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
    ).wait_until_serving()
    port = source.wait_for_line("leaves for other nodes")["port"]
    assert "error" not in source.call_admin("nodeAdmin_startSnapshotUpload", f"file://{directory}/leaves")
    source.wait_for_line("snapshot uploaded")
    other = start_node(
        *("--data-directory", tmp_path / "other", "--upstream-url", f"http://127.0.0.1:{source.port}"),
        *("--snapshots-urls", f"http://127.0.0.1:{port}"),
    ).wait_until_serving()
    other.wait_for_line("the block of the snapshot is the one of a followed node")
    restored = other.wait_for_line("snapshot of leaves restored")
    assert restored["block"] == source.call("node_getBlockNumber")["result"]
    for method, parameters in (
        ("node_getBlock", ("latest",)),
        ("node_getNullifierMembershipWitness", ("latest", "0x01")),
    ):
        assert other.call(method, *parameters) == source.call(method, *parameters)
    tip = restored["block"]
    until(lambda: source.components()["leaves"]["state"] == f"up to block {tip}; port {port}, 0 readers")


def until(condition: Callable[[], bool]) -> None:
    ended = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        ended.wait(0.01)
    raise AssertionError("it does not happen")
