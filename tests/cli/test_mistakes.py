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


#: Names of the running node, and of the server that is none, in a row's command.
OF_SERVERS = re.compile(r"\$\{?(NODE|ADMIN|KEY|WEB|DATA)\b")


class Row(NamedTuple):
    mistake: str
    command: str
    words: tuple[str, ...]
    #: Exit code; None: the command may go on, or its code is not fastnode's.
    code: int | None


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = re.fullmatch(r"\| (.+?) \| `(.+)` \| (`.+`) \|(?: (\d*) ?\|)?", line)
        if cells is not None:
            words = tuple(re.findall(r"`([^`]+)`", cells[3]))
            found.append(Row(cells[1], cells[2], words, int(cells[4]) if cells[4] else None))
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of the rows."""
    programs = tmp_path_factory.mktemp("mistakes") / "bin"
    programs.mkdir()
    (programs / "fastnode").write_text(f'#!/bin/sh\nexec {sys.executable} -m fastnode "$@"\n')
    (programs / "fastnode").chmod(0o755)
    return clean_environment() | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "FREE": "--port 0 --admin-port 0",
        # Root may write everywhere, unless it has no capabilities.
        "UNPRIVILEGED": "setpriv --bounding-set=-all" if os.geteuid() == 0 else "",
    }


@pytest.fixture(scope="module")
def servers(shell: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The same with a node that serves the sample chain, and a server that is none."""
    folder = tmp_path_factory.mktemp("servers")
    web = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder_of_pages(folder)))
    )
    threading.Thread(target=web.serve_forever, daemon=True).start()
    environment = shell | {"DATA": str(folder / "data"), "WEB": f"http://127.0.0.1:{web.server_port}"}
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


def lines_of(command: str, shell: dict[str, str], directory: Path, forker: Forker) -> Generator[str, None, int | None]:
    """What a command says, until it ends or has said enough, and its exit code."""
    parts = words_of(command, shell)
    if parts is not None:
        before, names, words = parts
        if before:
            subprocess.run(["bash", "-c", before], cwd=directory, env=shell, timeout=PATIENCE_S, check=True)
        return (yield from forker.run(words, shell | names, directory))
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
            return process.wait(PATIENCE_S)
        finally:
            timer.cancel()
            end(process)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.mistake)
def test_a_mistake_is_told_with_what_to_do(
    row: Row, shell: dict[str, str], request: pytest.FixtureRequest, tmp_path: Path, forker: Forker
) -> None:
    """Until all words are there, or the command ends."""
    if OF_SERVERS.search(row.command):
        shell = request.getfixturevalue("servers")
    if "setpriv" in shell["UNPRIVILEGED"] and "$UNPRIVILEGED" in row.command and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not here")
    said, code = "", None
    with contextlib.closing(lines_of(row.command, shell, tmp_path, forker)) as lines:
        while row.code is not None or not said or any(word not in said for word in row.words):
            try:
                said += next(lines)
            except StopIteration as end_of_lines:
                code = end_of_lines.value
                break
    assert row.code in (None, code), said
    assert [word for word in row.words if word not in said] == [], said
    assert "Traceback" not in said
    assert "internal error" not in said


def end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
