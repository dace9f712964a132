"""Runs a fastnode command and kills its process just before the Nth time that it touches a folder's files.

    python killed_at.py N EVENTS FOLDER COMMAND...

EVENTS is "all", or "moves" for what changes names only.

Exit code -9 if it came that far; otherwise that of the command.  Touching is what Python tells its audit hooks, and
what the libraries below it do is in between.
"""

from __future__ import annotations

import os
import signal
import sys

MOVES = {"os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree"}
ALL = MOVES | {"open", "os.remove", "os.link", "shutil.copyfile"}


def main() -> None:
    kill_at, folder, command = int(sys.argv[1]), sys.argv[3], sys.argv[4:]
    watched = {"all": ALL, "moves": MOVES}[sys.argv[2]]
    touched = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal touched
        if event in watched and arguments and str(arguments[0]).startswith(folder):
            touched += 1
            if touched == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    # Imported before the watch begins: what counts is the work, not the loading of code.
    import fastnode.snapshots.create
    import fastnode.snapshots.restore
    import fastnode.snapshots.stored
    from fastnode.cli.app import main as fastnode

    sys.addaudithook(watch)
    sys.argv = ["fastnode", *command]
    fastnode()


main()
