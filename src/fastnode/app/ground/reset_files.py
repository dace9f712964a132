"""Files of a local network that is reset, so that the old chain stays until the new one is complete.

    reset.before.part/   takes the files of the old chain, one rename after the other
    reset.before/        has them all: what is beside it belongs to the new chain
    local_network.json   beside it: the new chain is complete, and the old one is removed

Where the process is killed on the way, the next start goes back to the old chain, or finishes.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from fastnode.storage.data_directory import LOCK_FILE, DataDirectory

__all__ = ["is_set_aside", "remove_old", "set_aside", "settle"]

_MOVING: Final = "reset.before.part"
_BEFORE: Final = "reset.before"
#: Written last: a chain without it is not complete.
_LAST_FILE: Final = "local_network.json"
#: Files of a data directory that are not of a chain.
_KEPT: Final = frozenset({LOCK_FILE, "admin", _MOVING, _BEFORE})


def set_aside(directory: Path) -> None:
    """Move everything that belongs to the chain in a locked or unused data directory out of the way."""
    before, moving = directory / _BEFORE, directory / _MOVING
    if before.is_dir():  # of a reset whose new chain this is
        shutil.rmtree(before)
    moving.mkdir(exist_ok=True)
    for item in list(directory.iterdir()):
        if item.name not in _KEPT:
            item.rename(moving / item.name)
    moving.rename(before)


def settle(directory: Path) -> None:
    """Finish a reset, or take it back: afterwards the directory has one chain, which is complete.

    DataDirectoryError when another process uses the directory.
    """
    before, moving = directory / _BEFORE, directory / _MOVING
    if not before.is_dir() and not moving.is_dir():
        return
    with DataDirectory.open(directory, create=False):
        if before.is_dir():
            if (directory / _LAST_FILE).exists():
                remove_old(directory)
                return
            for item in list(directory.iterdir()):
                if item.name not in _KEPT:
                    _remove(item)
            before.rename(moving)
        for item in list(moving.iterdir()):
            item.rename(directory / item.name)
        moving.rmdir()


def is_set_aside(directory: Path) -> bool:
    """True while there is an old chain beside a new one, or beside nothing yet."""
    return (directory / _BEFORE).is_dir()


def remove_old(directory: Path) -> None:
    """The new chain is complete: remove the old one."""
    shutil.rmtree(directory / _BEFORE, ignore_errors=True)


def _remove(item: Path) -> None:
    if item.is_dir() and not item.is_symlink():
        shutil.rmtree(item)
    else:
        item.unlink()
