"""Disks of a world: what a power cut leaves of a node's files, a disk without room, one that cannot be read, one that
lies.

    the process writes ──► what it sees ──► a kill leaves all of it, and half a record where it was inside a write
                              │
                              └── synced ──► a power cut leaves this, and of the rest what the seed says:
                                               log of a database   nothing, a part, a page of zeros in it, all of it
                                               another file        the content before, none, half of it, the new one
                                               a name              the one before, or the new one

A synced file of a new name keeps its name, as the usual file systems have it; a name that has changed is kept once its
folder was synced.  LevelDB syncs its tables and manifests itself, and no thread of the world is ever inside of that, so
only its logs are cut.  Its own thread merges tables when it likes: no choice of the seed depends on which tables there
are, and what is spoiled in one is merged into one first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import plyvel
from tests.simulation.scheduler import the_world

from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.errors import DatabaseFull
from fastnode.storage import database as databases
from fastnode.storage.database import SharedDatabase
from fastnode.storage.database_files import is_database
from fastnode.storage.log_length import WRITTEN_FILE

if TYPE_CHECKING:
    from tests.simulation.world import NodeOfWorld, World

__all__ = ["Disk", "Doom", "put_disks_in_place", "without_numbers"]

#: Pages of a file that reach a disk each for itself.
PAGE_BYTES: Final = 4096
#: Newest contents of a file that is never synced, one of which a power cut leaves.
_NOTES_KEPT: Final = 8
_COPIES_MAX: Final = 200
#: LevelDB's own files, whose numbers its thread gives; those of a folder that LevelDB does not sync by itself are cut.
_OF_LEVELDB: Final = re.compile(r"CURRENT|LOCK|LOG|LOG\.old|MANIFEST-\d+|\d+\.(?:ldb|sst|log|dbtmp)")
_NUMBERED: Final = re.compile(r"\b\d{6,}(?=\.(?:ldb|sst|log)\b)|(?<=MANIFEST-)\d+")
_real_fsync, _real_statvfs, _real_database = os.fsync, os.statvfs, plyvel.DB


def without_numbers(text: str) -> str:
    """The text without the numbers of a database's files, which LevelDB's own thread gives."""
    return _NUMBERED.sub("*", text)


@dataclass
class Doom:
    """The end of a process at a write: ``writes`` from now on, before it is done or when it is, by a power cut or not.
    ``on_death`` is told."""

    writes: int
    is_before: bool
    is_power: bool
    on_death: Callable[[], None]


@dataclass(frozen=True)
class _Kept:
    """A file as it was synced.  ``descriptor`` is held so that no other file gets its number."""

    descriptor: int
    content: bytes


class Disk:
    """The disk of one node: its directories, one for each of its lives."""

    def __init__(self, node: NodeOfWorld, dice: random.Random) -> None:
        self._node, self._dice = node, dice
        self.doom: Doom | None = None
        #: Nothing can be written, and the system says so beforehand; or it says so only when something is.
        self.is_full = self.refuses = False
        #: Reads of the node from now on until one fails.
        self.reads_left: int | None = None
        #: Longest time of a synced write, in seconds.
        self.write_s = 0.0
        #: True once a write found no room.
        self.has_refused = False
        self._files: dict[int, _Kept] = {}
        self.forget()

    def forget(self) -> None:
        """Begin with a directory all of which is on the disk."""
        for kept in self._files.values():
            os.close(kept.descriptor)
        self._files.clear()
        #: Newest log of each database, and how much of it is on the disk for certain.
        self._logs: dict[Path, tuple[str, int]] = {}
        self._notes: dict[Path, list[bytes]] = {}
        self._names: dict[Path, dict[str, int]] = {}

    def rest(self) -> None:
        """No more trouble from now on."""
        self.doom, self.reads_left, self.is_full, self.refuses = None, None, False, False

    # ---- while the process runs ----------------------------------------------------------------

    def has(self, path: Path) -> bool:
        """True if the path is one of the life that goes on."""
        return self._node.process is not None and f"{path}/".startswith(f"{self._node.directory}/")

    def on_write(self, write: Callable[[], None], *, is_synced: bool) -> None:
        """Do it, unless the process ends before."""
        if is_synced and self.write_s:
            the_world().sleep(self._dice.uniform(0, self.write_s))
        doom = self._doom_of_this_write() if is_synced else None
        if doom is not None and doom.is_before:
            self._die(doom)
        write()
        if doom is not None:
            self._die(doom)

    def _doom_of_this_write(self) -> Doom | None:
        doom = self.doom
        if doom is None:
            return None
        doom.writes -= 1
        if doom.writes > 0 or not self._node.can_be_killed():
            return None
        self.doom = None
        return doom

    def _die(self, doom: Doom) -> None:
        """End the process, in a thread of it, which never goes on."""
        self._node.world.count("dies at a write")
        self._node.kill(is_power=doom.is_power, where="before a write" if doom.is_before else "inside a write")
        doom.on_death()
        the_world().wait(None)

    def on_batch(self, path: Path) -> None:
        """A synced batch of a database is done."""
        self._logs[path] = self._newest_log(path)
        note = path / WRITTEN_FILE
        with contextlib.suppress(FileNotFoundError):
            self._notes[note] = [*self._notes.get(note, ())[1 - _NOTES_KEPT :], note.read_bytes()]

    def on_open(self, path: Path) -> None:
        """LevelDB has read the log and begun another one."""
        self._logs[path] = self._newest_log(path)

    def on_sync(self, path: Path, descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            self._names[path] = {
                entry.name: entry.stat().st_ino
                for entry in path.iterdir()
                if entry.is_file() and not _OF_LEVELDB.fullmatch(entry.name)
            }
            return
        kept = self._files.pop(found.st_ino, None)
        held = os.dup(descriptor) if kept is None else kept.descriptor
        self._files[found.st_ino] = _Kept(held, path.read_bytes())

    @staticmethod
    def _newest_log(path: Path) -> tuple[str, int]:
        newest = max((name for name in os.listdir(path) if name.endswith(".log")), default="")  # noqa: PTH208 - quick
        return newest, os.stat(f"{path}/{newest}").st_size if newest else 0  # noqa: PTH116

    @property
    def takes_nothing(self) -> bool:
        return self.refuses or self.is_full

    def require_room(self, path: Path) -> None:
        """OSError as the system raises it where a file takes nothing more."""
        if self.takes_nothing:
            self.has_refused = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def on_read(self, path: Path) -> None:
        """plyvel.IOError where the disk cannot be read: for threads of the node, not for who looks at what it has."""
        task = the_world().current()
        if self.reads_left is None or task is None or task.group is not self._node.process:
            return
        self.reads_left -= 1
        if self.reads_left <= 0:
            self.reads_left = None
            self._node.world.say(self._node.name, f"cannot read its disk: {path.name}")
            raise plyvel.IOError(f"IO error: {path}/000005.ldb: {os.strerror(errno.EIO)}".encode())

    # ---- at its end ----------------------------------------------------------------------------

    def leave(self, directory: Path, copy: Path, *, is_power: bool) -> None:
        """Make ``copy`` of a directory as the next process finds it."""
        self.doom = self.reads_left = None
        if directory.exists():
            _copy_still(directory, copy)
            if is_power:
                for folder in _folders(copy):
                    self._cut(directory / folder.relative_to(copy), folder)
        self.forget()
        self._know(copy)

    def _know(self, directory: Path) -> None:
        """Take all that is in a directory for synced: a later power cut leaves what nobody has written since."""
        for folder in _folders(directory):
            files = [file for file in folder.iterdir() if file.is_file() and not _OF_LEVELDB.fullmatch(file.name)]
            self._names[folder] = {file.name: file.stat().st_ino for file in files}
            for file in files:
                self._files[file.stat().st_ino] = _Kept(os.open(file, os.O_RDONLY | os.O_CLOEXEC), file.read_bytes())

    def _cut(self, before: Path, folder: Path) -> None:
        """``folder`` is a copy of ``before``, whose files are the ones that were synced."""
        if is_database(folder):
            self._cut_log(before, folder)
        names = {file.name for file in folder.iterdir() if file.is_file() and not _OF_LEVELDB.fullmatch(file.name)}
        for name in sorted(names | self._names.get(before, {}).keys()):
            content = self._left_of(before / name)
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (folder / name).write_bytes(content)

    def _cut_log(self, before: Path, folder: Path) -> None:
        name, length = self._newest_log(folder)
        known, synced = self._logs.get(before, (name, length))
        if known != name or synced >= length:
            return
        log = folder / name
        content, dice = log.read_bytes(), self._dice
        where = synced + int((length - synced) * dice.random())
        kind = dice.choice(["none", "part", "zeros", "page", "all"])
        if kind in ("none", "part"):
            content = content[: synced if kind == "none" else where]
        elif kind == "zeros":
            content = content[:where] + bytes(length - where)
        elif kind == "page":
            first = max(synced, where // PAGE_BYTES * PAGE_BYTES)
            last = min(length, (first // PAGE_BYTES + 1) * PAGE_BYTES)
            content = content[:first] + bytes(last - first) + content[last:]
        log.write_bytes(content)
        said = {"none": "nothing", "part": "a part", "zeros": "a part and zeros", "page": "all but a page"}
        self._node.world.say("disk", f"of the newest writes of {folder.name}, {said.get(kind, kind)} is there")

    def _left_of(self, file: Path) -> bytes | None:
        """Content of a file after the power has failed, or None: there is none."""
        number = file.stat().st_ino if file.exists() else None
        before = self._names.get(file.parent, {}).get(file.name)
        synced = None if number is None else self._files.get(number)
        choices: list[bytes | None] = []
        if number is not None:
            content = file.read_bytes()
            if synced is None:
                half = content[: int(len(content) * self._dice.random())]
                choices += [content, half, b"", bytes(len(content)), *self._notes.get(file, ())]
            else:
                choices += [synced.content, content]
        if before != number:
            old = None if before is None else self._files.get(before)
            choices += [None if old is None else old.content] * 2
        elif synced is None and before is None:
            choices.append(None)
        return self._dice.choice(choices)

    # ---- damage --------------------------------------------------------------------------------

    def spoil(self) -> None:
        """Turn one bit of one file over, while nothing uses it."""
        dice, directory = self._dice, self._node.directory
        found = sorted(path for path in directory.iterdir() if is_database(path)) if directory.is_dir() else []
        if not found:
            return
        path, kind, where, bit = (
            dice.choice(found),
            dice.choice(["table", "log", "manifest"]),
            dice.random(),
            1 << dice.randrange(8),
        )
        if kind == "table":
            _settle(path)
        patterns = {"table": "*.ldb", "log": "*.log", "manifest": "MANIFEST-*"}
        files = [file for file in sorted(path.glob(patterns[kind])) if file.stat().st_size]
        if not files:
            return
        content = bytearray(files[-1].read_bytes())
        content[int(len(content) * where)] ^= bit
        files[-1].write_bytes(content)
        self._node.world.say("disk", f"a bit of a {kind} of {self._node.name}'s {path.name} is another one")
        self._node.world.count(f"spoiled {kind}")


def _folders(directory: Path) -> list[Path]:
    return sorted(item for item in (directory, *directory.rglob("*")) if item.is_dir()) if directory.is_dir() else []


def _copy_still(directory: Path, copy: Path) -> None:
    """A copy of all files at one moment, while LevelDB's thread may go on merging tables."""
    for _ in range(_COPIES_MAX):
        before = _manifests(directory)
        try:
            shutil.copytree(directory, copy)
        except (shutil.Error, FileNotFoundError):
            pass
        else:
            if _manifests(directory) == before:
                return
        shutil.rmtree(copy, ignore_errors=True)
    raise AssertionError(f"{directory} changes all the time")


def _manifests(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.glob("*/MANIFEST-*")}


def _settle(path: Path) -> None:
    """Leave one table with all that the closed database has, for any state that LevelDB's thread left."""
    opened = _real_database(
        str(path), compression=None, bloom_filter_bits=10, block_size=1 << 10, max_file_size=32 << 20
    )
    opened.compact_range(start=b"\0", stop=b"\xff" * 129)
    opened.close()


def newest_block(directory: Path, scratch: Path) -> int:
    """The newest block that a node finds in a directory, which stays as it is."""
    if not is_database(directory / ARCHIVER_DIRECTORY):
        return 0
    _copy_still(directory, scratch)
    try:
        with ArchiverStore.open(scratch, create=False) as store:
            return store.open_view().tips.proposed.number if store.has_chain else 0
    finally:
        shutil.rmtree(scratch)


# ---- what the shipped code opens and asks --------------------------------------------------------


class _Batch:
    def __init__(self, batch: Any, database: _Database, *, is_synced: bool) -> None:
        self._batch, self._database, self._is_synced = batch, database, is_synced
        self.put, self.delete = batch.put, batch.delete

    def write(self) -> None:
        disk, path = self._database.disk, self._database.path
        if disk is None or not disk.has(path):
            self._batch.write()
            return
        if self._database.refusal is None:
            try:
                disk.require_room(path)
            except OSError as error:  # from then on LevelDB writes nothing
                self._database.refusal = plyvel.IOError(f"IO error: {path}/000006.log: {error.strerror}".encode())
        if self._database.refusal is not None:
            raise self._database.refusal
        disk.on_write(self._batch.write, is_synced=self._is_synced)
        if self._is_synced:
            disk.on_batch(path)


class _Reads:
    """A database or a snapshot whose reads may fail."""

    def __init__(self, inner: Any, path: Path, disk: Disk | None) -> None:
        self._inner, self.path, self.disk = inner, path, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _look(self) -> None:
        if self.disk is not None and self.disk.reads_left is not None and self.disk.has(self.path):
            self.disk.on_read(self.path)

    def get(self, key: bytes, **more: Any) -> Any:
        self._look()
        return self._inner.get(key, **more)

    def iterator(self, **more: Any) -> Any:
        self._look()
        return self._inner.iterator(**more)

    def raw_iterator(self, **more: Any) -> Any:
        self._look()
        return self._inner.raw_iterator(**more)


class _Database(_Reads):
    def __init__(self, inner: Any, path: Path, disk: Disk | None) -> None:
        super().__init__(inner, path, disk)
        self.refusal: Exception | None = None

    def snapshot(self) -> _Reads:
        return _Reads(self._inner.snapshot(), self.path, self.disk)

    def write_batch(self, *, sync: bool) -> _Batch:
        return _Batch(self._inner.write_batch(sync=sync), self, is_synced=sync)


def put_disks_in_place(world: World) -> None:
    """Let what the nodes open, sync and ask of the file system go by their disks."""

    everywhere = f"{world.directory}/"

    def disk_of(path: Path) -> Disk | None:
        text = str(path)
        if not text.startswith(everywhere):
            return None
        name = text[len(everywhere) :].partition("/")[0].rpartition("-")[0]
        disk = next((node.disk for node in world.nodes if node.name == name), None)
        return disk if disk is not None and disk.has(path) else None

    def open_database(name: str, **more: Any) -> _Database:
        path = Path(name)
        opened, disk = _real_database(name, **more), disk_of(path)
        if disk is not None:
            disk.on_open(path)
        return _Database(opened, path, disk)

    def sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        disk = disk_of(path)
        if disk is not None:
            disk.require_room(path)
            disk.on_write(lambda: disk.on_sync(path, descriptor), is_synced=True)

    def statvfs(path: Any) -> Any:
        disk = disk_of(Path(path)) if isinstance(path, str | Path) else None
        left = 0 if disk is not None and disk.is_full else 1 << 24
        return SimpleNamespace(
            f_bavail=left, f_bfree=left, f_blocks=1 << 25, f_frsize=4096, f_favail=1 << 20, f_files=1 << 21
        )

    room = SharedDatabase.require_room

    def require_room(self: SharedDatabase, count: int = 0) -> None:
        try:
            room(self, count)
        except DatabaseFull:
            disk = disk_of(self.path)
            if disk is not None:
                disk.has_refused = True
            raise

    databases.plyvel.DB = open_database  # type: ignore[misc,assignment]
    os.fsync, os.statvfs = sync, statvfs  # type: ignore[assignment]
    SharedDatabase.require_room = require_room  # type: ignore[method-assign]
