"""What people type wrong: each row of docs/mistakes.md is typed, and its words must be there."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.cli.forked import Forker
from tests.conftest import clean_environment

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
#: Before a command is taken for one that says nothing.
PATIENCE_S = 120


class Row(NamedTuple):
    mistake: str
    command: str
    words: tuple[str, ...]


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = re.fullmatch(r"\| (.+?) \| `(.+)` \| (`.+`) \|", line)
        if cells is not None:
            found.append(Row(cells[1], cells[2], tuple(re.findall(r"`([^`]+)`", cells[3]))))
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of the rows: a node that serves the sample chain, and a server that is none."""
    folder = tmp_path_factory.mktemp("mistakes")
    web = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder_of_pages(folder)))
    )
    threading.Thread(target=web.serve_forever, daemon=True).start()
    programs = folder / "bin"
    programs.mkdir()
    (programs / "fastnode").write_text(f'#!/bin/sh\nexec {sys.executable} -m fastnode "$@"\n')
    (programs / "fastnode").chmod(0o755)
    environment = clean_environment() | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "DATA": str(folder / "data"),
        "FREE": "--port 0 --admin-port 0",
        "WEB": f"http://127.0.0.1:{web.server_port}",
        # Root may write everywhere, unless it has no capabilities.
        "UNPRIVILEGED": "setpriv --bounding-set=-all" if os.geteuid() == 0 else "",
    }
    command = ["fastnode", "start", "--node", *("--port", "0", "--admin-port", "0", "--data-directory")]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, environment["DATA"]], stdout=log, stderr=log, env=environment) as node,
    ):
        try:
            wait_for(folder / "log", "serving", node)
            text = (folder / "log").read_text()
            addresses = re.search(r"url=(\S+) admin_url=(\S+)", text)
            key = re.search(r"\b[0-9a-f]{64}\b", text)
            assert addresses is not None
            assert key is not None, text
            yield environment | {"NODE": addresses[1], "ADMIN": addresses[2], "KEY": key[0]}
        finally:
            node.terminate()
            web.shutdown()
            web.server_close()


def folder_of_pages(folder: Path) -> Path:
    pages = folder / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("<html>hello</html>")
    return pages


def wait_for(file: Path, word: str, process: subprocess.Popen[bytes]) -> None:
    with file.open() as lines:
        while word not in (line := lines.readline()):
            assert line or process.poll() is None, file.read_text()
            if not line:
                threading.Event().wait(0.02)


def test_a_hundred_mistakes_are_tried() -> None:
    listed = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows()) == len(listed) >= 101
    assert len({row.command for row in rows()}) == len(rows())


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    forker = Forker(PATIENCE_S)
    yield forker
    forker.stop()


def words_of(command: str, shell: dict[str, str]) -> tuple[str, dict[str, str], list[str]] | None:
    """What comes before, the names that are set and the words of a call of fastnode; None if only a shell can do it."""
    before, _, call = command.rpartition("; ")
    if re.search(r"\$\{|\$UNPRIVILEGED|[<>]", call) or re.match(r"([A-Z]\w*=\S* )*fastnode\b", call) is None:
        return None
    words = shlex.split(re.sub(r"\$([A-Z]+)", lambda name: shell[name[1]], call))
    at = words.index("fastnode")
    return before, dict(word.split("=", 1) for word in words[:at]), words[at + 1 :]


def lines_of(command: str, shell: dict[str, str], directory: Path, forker: Forker) -> Generator[str, None, None]:
    """What a command says, until it ends or has said enough."""
    parts = words_of(command, shell)
    if parts is not None:
        before, names, words = parts
        if before:
            subprocess.run(["bash", "-c", before], cwd=directory, env=shell, timeout=PATIENCE_S, check=True)
        yield from forker.run(words, shell | names, directory)
        return
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        timer = threading.Timer(PATIENCE_S, end, [process])
        timer.start()
        try:
            assert process.stdout is not None
            yield from process.stdout
        finally:
            timer.cancel()
            end(process)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.mistake)
def test_a_mistake_is_told_with_what_to_do(row: Row, shell: dict[str, str], tmp_path: Path, forker: Forker) -> None:
    """Until all words are there, or the command ends."""
    if "setpriv" in shell["UNPRIVILEGED"] and "$UNPRIVILEGED" in row.command and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not here")
    said = ""
    with contextlib.closing(lines_of(row.command, shell, tmp_path, forker)) as lines:
        for line in lines:
            said += line
            if all(word in said for word in row.words):
                break
    assert [word for word in row.words if word not in said] == [], said
    assert "Traceback" not in said
    assert "internal error" not in said


def end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
