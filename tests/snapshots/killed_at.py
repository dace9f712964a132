"""Runs fastnode commands, each in a fork that is killed just before the Nth time that it touches a folder's files.

    python killed_at.py

For each line ``[N, EVENTS, FOLDER, COMMAND...]`` (JSON) on stdin there is a line ``[CODE, ERRORS]`` on stdout.  EVENTS
is "all", or "moves" for what changes names only.

CODE is -9 if it came that far; otherwise that of the command.  Touching is what Python tells its audit hooks, and what
the libraries below it do is in between.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import traceback
from typing import IO

# Imported before the watch begins: what counts is the work, not the loading of code.
import fastnode.cli.snapshot
import fastnode.config.everyday
import fastnode.config.resolve
import fastnode.snapshots.create
import fastnode.snapshots.restore
import fastnode.snapshots.stored_chain
from fastnode.cli.app import main as fastnode

MOVES = {"os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree"}
ALL = MOVES | {"open", "os.remove", "os.link", "shutil.copyfile"}


def run(kill_at: int, events: str, folder: str, command: list[str], errors: IO[bytes]) -> None:
    """Never returns."""
    watched = {"all": ALL, "moves": MOVES}[events]
    touched = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal touched
        if event in watched and arguments and str(arguments[0]).startswith(folder):
            touched += 1
            if touched == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    code: object = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(errors.fileno(), 2)
        sys.addaudithook(watch)
        sys.argv = ["fastnode", *command]
        fastnode()
        code = 0
    except SystemExit as end:
        code = 0 if end.code is None else end.code
    except BaseException:  # noqa: BLE001 - told to the one who asked
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


def main() -> None:
    gc.freeze()  # a look at what is shared would copy it
    for line in sys.stdin:
        kill_at, events, folder, *command = json.loads(line)
        with tempfile.TemporaryFile() as errors:
            child = os.fork()
            if child == 0:
                run(kill_at, events, folder, command, errors)
            _, status = os.waitpid(child, 0)
            errors.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(status), errors.read().decode(errors="replace")]), flush=True)


main()
