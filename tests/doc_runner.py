"""Runs the commands of a page as its reader would: in order, in one shell, on the ports that the page names.

A page's blocks of ``sh`` and ``console`` are commands.  A comment right above a block says what is special about it:

    <!-- not run: REASON -->                              it is only checked for its syntax
    <!-- runs in the background -->                       a node; the next block waits until it serves
    <!-- ends what runs in the background -->             stops that node first

In a ``console`` block lines behind ``$ `` are commands and the others are what they print, with ``...`` for anything.

The shell lives in namespaces of its own (Linux, ``unshare``): nothing else has its ports, /var/lib is an empty folder
(with the recorded chain in /var/lib/fastnode where a page names it as a data directory),
the hosts ``node`` and ``spare`` are this machine, there is no other network, and nothing outlives it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import clean_environment

PROJECT = Path(__file__).parents[1]
#: For a page, with a node that loads and everything that may have to be built.
TIMEOUT_S = 420.0

_NAMESPACES = ["unshare", "-rnmpf", "--kill-child", "--mount-proc", "--"]
_FENCE = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (not run: .+|runs in the background|ends what runs in the background) -->\n\Z")

#: A page with such a command begins with the recorded chain in that directory.
_READING = re.compile(r"fastnode .*--data-directory /var/lib/fastnode\b")
_STORING = f"fastnode import {PROJECT}/src/fastnode/data/sample_chain.jsonl.xz --data-directory /var/lib/fastnode"

_PREAMBLE = """\
set -euo pipefail
mount --bind {scratch}/hosts /etc/hosts
mount --bind {scratch}/lib /var/lib
ip link set lo up
mkdir /var/lib/fastnode
{stored}
background=
newest() {{ curl -sf localhost:8080 -d '{{"id":1,"method":"node_getBlockNumber"}}'; }}
wait_until_serving() {{
    local before=
    until [ -n "$before" ] && [ "$(newest)" = "$before" ] && curl -sf -o /dev/null localhost:8080/readyz; do
        kill -0 "$background" 2>/dev/null || {{ echo "the node has ended"; exit 70; }}
        before=$(newest || true)
        sleep 1
    done
}}
end_background() {{
    [ -n "$background" ] || return 0
    kill -- "-$background" 2>/dev/null || true
    wait "$background" || true
    # The shell around the node ends at once, the node when its databases are closed.
    while kill -0 -- "-$background" 2>/dev/null; do sleep 0.05; done
    background=
}}
trap end_background EXIT
cd {scratch}/work
"""


@dataclass(frozen=True, slots=True)
class Block:
    """``mark`` is what the comment above says, empty without one; ``line`` is where its commands begin."""

    language: str
    text: str
    mark: str
    line: int

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith("not run")

    @property
    def commands(self) -> str:
        if self.language == "sh":
            return self.text
        return "".join(line[2:] for line in self.text.splitlines(keepends=True) if line.startswith(("$ ", "> ")))

    @property
    def expected(self) -> str:
        """What the commands print; empty where the page does not say."""
        if self.language == "sh":
            return ""
        return "".join(line for line in self.text.splitlines(keepends=True) if not line.startswith(("$ ", "> ")))


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        mark = _MARK.search(before)
        found.append(Block(fence[1], fence[2], mark[1] if mark else "", before.count("\n") + 2))
    return found


def reason_against_running() -> str | None:
    """Why commands cannot be run here."""
    if not sys.platform.startswith("linux"):
        return "namespaces of Linux are needed"
    try:
        tried = subprocess.run([*_NAMESPACES, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    except FileNotFoundError:
        return "unshare is not installed"
    if tried.returncode:
        return f"this user may make no namespaces: {tried.stderr.strip()}"
    if not (PROJECT / ".venv" / "bin" / "fastnode").exists():
        return "there is no .venv: scripts/test makes one"
    return None


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what the page says; blanks at the ends of lines do not count."""
    pattern = re.escape("\n".join(line.rstrip() for line in expected.strip().splitlines())).replace(r"\.\.\.", ".*")
    text = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, text, re.DOTALL) is not None


class PageRun:
    """The commands of a page, run; raises AssertionError with the block that failed and what it printed."""

    def __init__(self, page: Path, scratch: Path) -> None:
        self._page = page
        self._scratch = scratch
        self._blocks = [block for block in blocks_of(page) if block.is_run]
        self._prepare()
        script = scratch / "page.sh"
        stored = f"{_STORING}\n" if any(_READING.search(block.text) for block in self._blocks) else ""
        preamble = _PREAMBLE.format(scratch=shlex.quote(str(scratch)), stored=stored)
        script.write_text(preamble + "".join(map(self._step, self._blocks)))
        environment = clean_environment(SVC_DATA_DIRECTORY=str(scratch / "data"))
        environment["PATH"] = f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
        done = subprocess.run(
            [*_NAMESPACES, "bash", str(script)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
        )
        if done.returncode:
            self._fail(self._blocks[int((scratch / "at").read_text() or 0)], f"exit {done.returncode}: {done.stderr}")
        for block in self._blocks:
            self._check(block)

    def _prepare(self) -> None:
        """A folder that looks like the project and may be written to."""
        work = self._scratch / "work"
        (work / "scripts").mkdir(parents=True)
        (self._scratch / "lib").mkdir()
        (self._scratch / "hosts").write_text("127.0.0.1 localhost node spare\n")
        (self._scratch / "at").write_text("")
        for entry in PROJECT.iterdir():
            if entry.name not in ("scripts", "data", ".git"):
                (work / entry.name).symlink_to(entry)
        for script in (PROJECT / "scripts").iterdir():
            # Not a link: a script takes the folder above its own for the project.
            wrapper = work / "scripts" / script.name
            wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(str(script))} "$@"\n')
            wrapper.chmod(0o755)

    def _step(self, block: Block) -> str:
        """Lines of the script."""
        number = self._blocks.index(block)
        commands, output = self._scratch / f"{number}.sh", shlex.quote(str(self._output(block)))
        commands.write_text(block.commands)
        source = f"source {shlex.quote(str(commands))} >{output} 2>&1 </dev/null"
        lines = [f"echo {number} >{shlex.quote(str(self._scratch / 'at'))}"]
        if block.mark.startswith("ends"):
            lines.append("end_background")
        if block.mark.startswith("runs"):
            # A process group of its own, so that all of it can be ended.
            lines += ["set -m", f"( {source} ) &", "background=$!", "set +m", "wait_until_serving"]
        else:
            lines.append(source)
        return "\n".join(lines) + "\n"

    def _output(self, block: Block) -> Path:
        return self._scratch / f"{self._blocks.index(block)}.out"

    def _check(self, block: Block) -> None:
        printed = self._output(block).read_text()
        if block.expected and not matches(block.expected, printed):
            self._fail(block, "it printed something else than the page says")
        if '"error":' in printed and '"error":' not in block.expected:
            self._fail(block, "an answer is an error")

    def _fail(self, block: Block, reason: str) -> None:
        output = self._output(block)
        printed = output.read_text()[-3000:] if output.exists() else ""
        raise AssertionError(
            f"{self._page.name}:{block.line}: {reason}\n--- commands\n{block.text}--- printed\n{printed}"
        )
