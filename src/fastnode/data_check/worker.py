"""A process of the check: it opens a copy of the databases and runs the steps that it is given.

in    JSON lines: {"seed": hex, "release_record": path or null}, then {"step": [kind, where, work]} ...
out   JSON lines: {"ready": true}; {"part": done of the step} ..., {"found": {...}} for each step; {"failed": reason} at
      the end of all
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Final

from fastnode.chain_data import ChainData, ChainOptions
from fastnode.data_check.whole import Step, Steps
from fastnode.errors import FastnodeError
from fastnode.protocol import releases

__all__ = ["end_with_parent"]

#: Each step reads what it needs once, in order: little is worth remembering.
_OPTIONS: Final = ChainOptions(world_state_cache_mb=16, tag_filter_mb=1)
_PART_INTERVAL_S: Final = 0.2
_PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """Leave no process behind that holds the databases: who asks again needs them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(directory: Path) -> None:
    plan = json.loads(sys.stdin.buffer.readline())
    if plan["release_record"] is not None:
        releases.add(releases.read_file(Path(plan["release_record"])))
    say_at = time.monotonic()

    def advance(part: float) -> None:
        nonlocal say_at
        if time.monotonic() >= say_at:
            say_at = time.monotonic() + _PART_INTERVAL_S
            _say(part=round(part, 3))

    seed = bytes.fromhex(plan["seed"])
    with ChainData.open(directory, create=False, options=_OPTIONS) as data, Steps(data, seed) as steps:
        _say(ready=True)
        for line in sys.stdin.buffer:
            kind, where, work = json.loads(line)["step"]
            _say(found=steps.run(Step(kind, tuple(where), work), advance))


def _say(**answer: object) -> None:
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
    sys.stdout.buffer.flush()


def _main() -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end_with_parent()
    try:
        _run(Path(sys.argv[1]))
    except BrokenPipeError:  # who asked is gone
        pass
    except FastnodeError as error:
        _say(failed=str(error))
    except Exception as error:  # noqa: BLE001 - told to the one who asked
        _say(failed="".join(traceback.format_exception(error)))


if __name__ == "__main__":
    _main()
