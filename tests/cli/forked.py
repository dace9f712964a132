"""Commands of ``fastnode``, each in a process that is forked from one that has imported all that they need.

    python -m tests.cli.forked

reads an order from each line of standard input: a JSON object with ``words``, ``environment`` and ``directory``.  A
line with ``BEGIN`` and the process id goes before what the command says, one with ``END`` and its exit code behind it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BEGIN, END = "--- the command is process ", "--- the command ended with "
IMPORTED = ("fastnode.cli.start", "fastnode.cli.rpc", "fastnode.app.process.process")


class Forker:
    """Runs one command after the other; no longer than ``patience_s`` each."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path
    ) -> Generator[str, None, int | None]:
        """The lines that the command prints, and its exit code; one whose lines are not all wanted is killed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        order = {"words": list(words), "environment": dict(environment), "directory": str(directory)}
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()
        child = int(stdout.readline().removeprefix(BEGIN))
        timer = threading.Timer(self._patience_s, kill, [child])
        timer.start()
        line = ""
        try:
            while not (line := stdout.readline()).startswith(END):
                assert line, "the process that forks has ended"
                yield line
            return int(line.removeprefix(END))
        finally:
            timer.cancel()
            while line and not line.startswith(END):
                kill(child)
                line = stdout.readline()

    def stop(self) -> None:
        """A command that still runs goes on."""
        self._process.communicate(timeout=self._patience_s)


def kill(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def become(order: dict[str, Any]) -> None:
    """The command, in the process that calls this."""
    from fastnode.cli import main

    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["fastnode", *order["words"]]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    main()


def serve() -> None:
    for name in IMPORTED:
        import_module(name)
    gc.freeze()  # a look at what is shared would copy it
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print(f"{BEGIN}{os.getpid()}", flush=True)
            become(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(f"{END}{os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    serve()
