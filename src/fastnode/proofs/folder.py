"""The private folder of a verifier: setup files, keys, and the proofs that are being checked.

    WORKING_DIRECTORY/              --bb-working-directory, default: proofs/ in the data directory
        program/                    what `fastnode proofs install` puts there
        setup/                      CRS_PATH of the program
            bn254_g1.dat            64 bytes: the generator
            grumpkin_g1.flat.dat    2 MiB: derived by the program, known by its SHA-256; grumpkin_g1_v2.flat.dat in 5.x
        checks-XXXXXXXX/            of one process; gone when it ends, removed by the next start when it was killed
            lock                    held as long as the process lives
            to_rollup.vk  to_public.vk
            N.proof                 public inputs and proof of one check, while it runs

Without ``bn254_g1.dat`` the program would try to load it from the network: it is written before the program first runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fastnode.proofs.inputs import Circuit, Statement
from fastnode.proofs.keys import VerificationKeys
from fastnode.protocol.releases import Release

__all__ = ["CheckFolder", "SetupFolder", "setup_digest"]

_PREFIX: Final = "checks-"
_PRIVATE: Final = 0o700
#: A folder has its lock file at the latest this long after it was made.
_MADE_WITHIN_S: Final = 60.0

#: The generator (1, 2) of the curve's first group.
GENERATOR: Final = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")

#: A file as the file system shows it: it has not been touched while this is the same.
_Seen = tuple[int, int, int]


def setup_digest(release: Release) -> str:
    """SHA-256 of the file that the program of the release derives."""
    return str(release.circuits["setup"]["sha256"])


class SetupFolder:
    """The two setup files of a release, checked by content once, and by :meth:`is_untouched` before each use."""

    def __init__(self, path: Path, release: Release) -> None:
        self.path = path
        self._digest = setup_digest(release)
        self._generator = path / "bn254_g1.dat"
        self._grumpkin = path / str(release.circuits["setup"]["file"])
        self._seen: tuple[_Seen | None, _Seen | None] = (None, None)

    def write_generator(self) -> None:
        """OSError if the folder cannot be written and does not hold the file."""
        self.path.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        with contextlib.suppress(FileNotFoundError):
            if self._generator.read_bytes() == GENERATOR:
                return
        new = self._generator.with_suffix(f".{os.getpid()}")
        new.write_bytes(GENERATOR)
        new.replace(self._generator)

    @property
    def derived(self) -> str:
        """Name of the file that the program derives."""
        return self._grumpkin.name

    def has_grumpkin(self) -> bool:
        """True if the derived file is there and right; a wrong one is removed, because the program would believe it."""
        try:
            with self._grumpkin.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == self._digest:
                    return True
        except FileNotFoundError:
            return False
        self._grumpkin.unlink()
        return False

    def remember(self) -> None:
        """To be called when both files have been found right."""
        self._seen = (_look_at(self._generator), _look_at(self._grumpkin))

    def is_untouched(self) -> bool:
        """True if both files are what :meth:`remember` saw."""
        return None not in self._seen and self._seen == (_look_at(self._generator), _look_at(self._grumpkin))


def _look_at(path: Path) -> _Seen | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class CheckFolder:
    """Keys and proofs of one process, readable by its user alone.  ``close``, once, removes all of it."""

    def __init__(self, working_directory: Path, keys: VerificationKeys) -> None:
        """OSError if nothing can be written there."""
        working_directory.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        _remove_abandoned(working_directory)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=working_directory))
        self._lock = _locked(self.path)
        self._numbers = itertools.count(1)
        for circuit in Circuit:
            self.key_path(circuit).write_bytes(keys.of(circuit))

    def key_path(self, circuit: Circuit) -> Path:
        return self.path / ("to_public.vk" if circuit is Circuit.TO_PUBLIC else "to_rollup.vk")

    @contextlib.contextmanager
    def proof_file(self, statement: Statement) -> Iterator[Path]:
        """A file with what the program reads, as long as the check takes."""
        path = self.path / f"{next(self._numbers)}.proof"
        try:
            path.write_bytes(statement.inputs + statement.proof)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _locked(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


def _remove_abandoned(working_directory: Path) -> None:
    """The folders of processes that were killed.  One without a lock file is being made, or was left half made."""
    for path in working_directory.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            young = time.time() - path.stat().st_mtime < _MADE_WITHIN_S
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | (0 if young else os.O_CREAT), 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
