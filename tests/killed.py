"""Scripts that are killed while they work on a data directory.

They run in forks of one process that has loaded the code (``tests/forking.py``): a kill costs the work, not the start
of an interpreter.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.conftest import PATIENCE_S

#: Room of a message between the two processes: a code, or an id.
WORD_BYTES = 16


def script_command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


class Forker:
    """A process that runs scripts in forks of itself."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.forking", str(theirs.fileno())]
            nothing = subprocess.DEVNULL
            self._process = subprocess.Popen(command, stdin=nothing, stdout=nothing, pass_fds=[theirs.fileno()])
        self._socket.settimeout(PATIENCE_S)

    def start(self, script: str, arguments: Sequence[str], streams: Sequence[int]) -> int:
        """The process id of a script with this input and output."""
        message = json.dumps([script, *arguments]).encode()
        socket.send_fds(self._socket, [len(message).to_bytes(4, "big")], list(streams))
        self._socket.sendall(message)
        return self._word()

    def wait(self) -> int:
        """The exit code of what was started last; negative for a signal.  Its id is no longer its own."""
        self._socket.sendall(b"?")
        return self._word()

    def _word(self) -> int:
        word = self._socket.recv(WORD_BYTES, socket.MSG_WAITALL)
        assert word, "the process that forks has ended"
        return int(word)

    def close(self) -> None:
        self._socket.close()
        self._process.wait(PATIENCE_S)


@functools.cache
def _forker() -> Forker:
    forker = Forker()
    atexit.register(forker.close)
    return forker


def killed(command: Sequence[str], *, after: int, delay_s: float, ahead: int = 4) -> bool:
    """Run a script that says a dot at its start and at each commit, and kill it ``delay_s`` after so many commits.

    After each dot it reads a byte, and gets as many as it is killed after and ``ahead`` more: where others keep this
    process from killing it in time it waits, and does not come to its end.  Whether it was still at work.
    """
    _, _, script, *arguments = command
    forker = _forker()
    (given, feeding), (hearing, said) = os.pipe(), os.pipe()
    with os.fdopen(feeding, "wb") as stdin, os.fdopen(hearing, "rb") as stdout:
        try:
            pid = forker.start(script, arguments, [given, said])
        finally:
            os.close(given)
            os.close(said)
        stdin.write(b"." * (1 + after + ahead))
        stdin.flush()
        said_at_all = stdout.read(1 + after)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        code = forker.wait()
    assert said_at_all, "the process did not start"
    assert code in (0, -signal.SIGKILL)
    return code != 0
