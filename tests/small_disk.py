"""A small file system of its own, to be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(disk: Path, size: int) -> Iterator[Path]:
    """A file system of so many bytes in a new folder; skips where it cannot be made."""
    disk.mkdir()
    try:
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", disk], capture_output=True)
    except FileNotFoundError:
        pytest.skip("no file system can be made here: there is no mount")
    if made.returncode != 0:
        pytest.skip("no file system can be made here: only root can")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
