"""Files below a URL: whole, in parts, over connections that break, and never from another server."""

from __future__ import annotations

import http.server
import random
import socket
from collections.abc import Iterator

import pytest
from tests.http_stand_in import HttpStandIn, answer

from fastnode.errors import UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.outgoing.web_folder import WebFolder

LIMITS = ClientLimits(request_time_s=20.0)


class Files(HttpStandIn):
    """One file of a megabyte; connections break as ``random`` says, and ranges may be unknown."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.content = self.random.randbytes(1 << 20)
        self.breaks = 0
        self.knows_ranges = True
        self.paths: list[str] = []
        #: Where a request for a path is sent on to.
        self.redirects: dict[str, str] = {}
        super().__init__()

    def respond(self, handler: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        self.paths.append(handler.path)
        if handler.path in self.redirects:
            answer(handler, b"", 302, Location=self.redirects[handler.path])
        elif not handler.path.startswith("/files/a%20file"):
            answer(handler, b"", 404)
        else:
            self._give(handler)

    def _give(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1]) if self.knows_ranges else 0
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        end = len(self.content)
        if self.breaks:
            self.breaks -= 1
            end = self.random.randrange(start, end)
            handler.close_connection = True
        handler.wfile.write(self.content[start:end])


@pytest.fixture
def files() -> Iterator[Files]:
    with Files() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastnode.outgoing.web_folder._PAUSE_S", 0.0)


def folder_of(server: HttpStandIn) -> WebFolder:
    return WebFolder(f"{server.url}/files/?key=1", LIMITS)


def test_a_file_is_read_whole_and_in_parts_with_the_query_of_the_folder(files: Files) -> None:
    folder = folder_of(files)
    assert folder.read("a file", 2 << 20) == files.content
    assert b"".join(folder.stream("a file")) == files.content
    assert set(files.paths) == {"/files/a%20file?key=1"}


@pytest.mark.parametrize("knows_ranges", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_connection_that_breaks_anywhere_is_made_again(files: Files, seed: int, knows_ranges: bool) -> None:
    files.random, files.breaks, files.knows_ranges = random.Random(seed), 5, knows_ranges
    assert b"".join(folder_of(files).stream("a file")) == files.content
    files.breaks = 6
    with pytest.raises(UpstreamUnavailable):
        list(folder_of(files).stream("a file"))


def test_another_part_than_was_asked_for_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.breaks = 1
    monkeypatch.setattr(
        http.server.BaseHTTPRequestHandler,
        "send_header",
        lambda self, name, value, send=http.server.BaseHTTPRequestHandler.send_header: send(
            self, name, value.replace("bytes ", "bytes 1") if name == "Content-Range" else value
        ),
    )
    with pytest.raises(UpstreamFault, match="another part of the file"):
        list(folder_of(files).stream("a file"))


def test_files_that_are_not_there_and_ones_that_are_too_large(files: Files) -> None:
    folder = folder_of(files)
    for read in (lambda: folder.read("other", 100), lambda: list(folder.stream("other"))):
        with pytest.raises(FileNotFoundError):
            read()
    with pytest.raises(UpstreamFault, match="exceeds 100 bytes"):
        folder.read("a file", 100)


def test_redirects_are_followed_within_the_server_and_to_no_other(files: Files) -> None:
    with Files() as other:
        port = other.url.rsplit(":", 1)[1].strip("/")
        files.redirects["/files/moved?key=1"] = "/files/a%20file"
        for number, target in enumerate(
            [
                f"{other.url}/files/a%20file",
                f"//127.0.0.1:{port}/files/a%20file",
                f"http://localhost:{port}/files/a%20file",
                f"http://me:secret@127.0.0.1:{port}/files/a%20file",
                f"https://127.0.0.1:{port}/files/a%20file",
            ]
        ):
            files.redirects[f"/files/{number}?key=1"] = target
        folder = folder_of(files)
        assert folder.read("moved", 2 << 20) == b"".join(folder.stream("moved")) == files.content
        for number in range(5):
            with pytest.raises(UpstreamFault, match=f"redirects to another server, (127.0.0.1|localhost):{port}"):
                folder.read(str(number), 2 << 20)
            with pytest.raises(UpstreamFault, match="redirects to another server"):
                list(folder.stream(str(number)))
        with Network() as network, pytest.raises(UpstreamFault, match="redirects to another server"):
            network.get(f"{files.url}/files/0?key=1", LIMITS)
        assert other.paths == []


def test_a_server_that_stops_in_the_middle_is_given_up(files: Files) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        folder = WebFolder(f"http://127.0.0.1:{server.getsockname()[1]}", ClientLimits(request_time_s=0.05))
        with pytest.raises(UpstreamUnavailable, match=r"no complete answer within 0.05 s"):
            list(folder.stream("a file"))
