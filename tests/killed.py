"""Scripts that are killed while they work on a data directory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.conftest import PATIENCE_S


def script_command(script: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", script, *map(str, arguments)]


def killed(command: Sequence[str], *, after: int, delay_s: float, ahead: int = 4) -> bool:
    """Run a script that says a dot at its start and at each commit, and kill it ``delay_s`` after so many commits.

    After each dot it reads a byte, and gets as many as it is killed after and ``ahead`` more: where others keep this
    process from killing it in time it waits, and does not come to its end.  Whether it was still at work.
    """
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"." * (1 + after + ahead))
        child.stdin.flush()
        assert child.stdout.read(1 + after), "the process did not start"
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
        code = child.wait(timeout=PATIENCE_S)
    assert code in (0, -signal.SIGKILL)
    return code != 0
