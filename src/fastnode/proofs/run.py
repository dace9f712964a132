"""Running a program that checks a proof: one process at a time and call, with a time limit and bounded output."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final

from fastnode.records import dataclass

__all__ = ["Ended", "ProgramTimeout", "run_program"]

#: Bytes of a program's last words that are kept.
TAIL_BYTES: Final = 2000
#: Most bytes that are read at once.
_READ_BYTES: Final = 1 << 16
#: Time between looks for the end of a program that left its output open to a child.
_LOOK_S: Final = 0.1
#: Below the node's own priority: reads go first.
NICENESS: Final = 10


class ProgramTimeout(Exception):  # noqa: N818 - named like subprocess.TimeoutExpired
    """The program did not end in time, and was killed with all that it had started."""


@dataclass(frozen=True, slots=True)
class Ended:
    """``code`` is negative for a signal; ``said`` is the end of standard output and standard error, together."""

    code: int
    said: str


def run_program(
    command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None, stdin: bytes = b""
) -> Ended:
    """Blocks until the program has ended.  OSError: it cannot be started; ProgramTimeout.

    ``stdin`` must fit into a pipe (4 KiB), so that writing it never blocks.
    """
    deadline = time.monotonic() + timeout_s
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        with contextlib.suppress(OSError):  # it has ended already
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin)
        assert process.stdout is not None
        with process.stdout:
            tail = _read_until_ended(process, process.stdout.fileno(), deadline)
    finally:
        if process.returncode is None:
            _kill(process)
    return Ended(process.returncode, tail.decode("utf-8", "replace").strip())


def _read_until_ended(process: subprocess.Popen[bytes], output: int, deadline: float) -> bytes:
    """The last bytes of what it writes; it has ended when this returns."""
    tail = b""
    # Not select(), which takes no file descriptor above 1023.
    readable = select.poll()
    readable.register(output, select.POLLIN)
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ProgramTimeout
        if readable.poll(min(left_s, _LOOK_S) * 1000):
            piece = os.read(output, _READ_BYTES)
            tail = (tail + piece)[-TAIL_BYTES:]
            if piece:
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(left_s)
                return tail
        elif process.poll() is not None:
            # A child keeps the output open: its group exists, and is still this program's.
            _kill_group(process)
            return tail


def _kill(process: subprocess.Popen[bytes]) -> None:
    _kill_group(process)
    process.wait()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """The whole session: a script's children must not outlive their turn."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
