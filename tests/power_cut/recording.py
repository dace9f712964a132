"""A process whose files are recorded, and the disk that a power cut at any moment of it leaves.

    recorder.c        is loaded into the process and writes down what it does to the files below a folder
    Recording         these events, one after the other
    RecordedDisk      plays them: what each file and folder holds, and of that what is on the disk for certain

    synced     a file: its content, its names and those of the folders that it lies in; a folder: its names
    not        of names a beginning, in each folder another one: a file that was renamed may lie under its old name, one
               that was removed may be there again
               of content nothing, the beginning, all, or some pages, with zeros or the older content in the others

A kill leaves all that was done, and of the write that it came into a part.
"""

from __future__ import annotations

import functools
import hashlib
import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

RECORDER: Final = Path(__file__).with_name("recorder.c")
#: Files that nobody reads: LevelDB writes them through a library that is not recorded.
UNREAD: Final = ("LOG", "LOG.old")
PAGE_BYTES: Final = 4096

_INODE = struct.Struct("<Q")
_OPENED = struct.Struct("<QB")
_WRITTEN = struct.Struct("<QQI")
_CUT = struct.Struct("<QQ")
_LENGTH = struct.Struct("<I")
_CREATED: Final = 1
_EMPTIED: Final = 2


@functools.cache
def recorder() -> Path:
    """The compiled recorder; skips the test where nothing compiles it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = RECORDER.read_bytes()
    library = Path(tempfile.gettempdir()) / f"fastnode-recorder-{hashlib.sha256(source).hexdigest()[:16]}.so"
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", made, RECORDER, "-ldl"], check=True)
        made.replace(library)
    return library


class Event(NamedTuple):
    """``kind`` as in recorder.c, with what belongs to it."""

    kind: str
    paths: tuple[str, ...] = ()
    inode: int = 0
    number: int = 0
    content: bytes = b""


class Recording(list[Event]):
    """The events of a process; of a process that was killed maybe not all of the last one."""

    @classmethod
    def read(cls, file: Path) -> Recording:
        return cls(_events_of(file.read_bytes()))


def _events_of(data: bytes) -> Iterator[Event]:
    at = 0

    def path() -> str:
        nonlocal at
        (length,) = _LENGTH.unpack_from(data, at)
        at += 4 + length
        return data[at - length : at].decode()

    while at < len(data):
        kind = chr(data[at])
        at += 1
        if kind == "O":
            inode, flags = _OPENED.unpack_from(data, at)
            at += _OPENED.size
            yield Event(kind, (path(),), inode, flags)
        elif kind == "W":
            inode, offset, length = _WRITTEN.unpack_from(data, at)
            at += _WRITTEN.size + length
            yield Event(kind, (), inode, offset, data[at - length : at])
        elif kind == "T":
            inode, length = _CUT.unpack_from(data, at)
            at += _CUT.size
            yield Event(kind, (), inode, length)
        elif kind == "S":
            (inode,) = _INODE.unpack_from(data, at)
            at += _INODE.size
            yield Event(kind, (), inode)
        else:
            paths = (path(), path()) if kind in "NL" else (path(),)
            yield Event(kind, paths)


@dataclass(eq=False)
class _File:
    """Content as the process sees it, and as it is on the disk for certain; changes of it that are not."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    is_changed: bool = False

    def write(self, offset: int, data: bytes) -> None:
        self.content[len(self.content) : offset] = bytes(max(0, offset - len(self.content)))
        self.content[offset : offset + len(data)] = data
        self.is_changed = True

    def cut(self, length: int) -> None:
        self.content[len(self.content) : length] = bytes(max(0, length - len(self.content)))
        del self.content[length:]
        self.is_changed = True

    def sync(self) -> None:
        if self.is_changed:
            self.synced, self.is_changed = bytes(self.content), False

    def left(self, dice: random.Random) -> bytes:
        """Content after a power cut."""
        if not self.is_changed:
            return self.synced
        now, before = bytes(self.content), self.synced
        kind = dice.choice(["nothing", "beginning", "all", "zeros", "pages"])
        if kind == "nothing":
            return before
        if kind == "all":
            return now
        both = min(len(now), len(before))  # a file may have been cut
        same = next((place for place in range(both) if now[place] != before[place]), both)
        where = same + int((len(now) - same) * dice.random())
        if kind == "beginning":
            return now[:where]
        if kind == "zeros":
            return now[:where] + bytes(len(now) - where)
        pages = range(same // PAGE_BYTES * PAGE_BYTES, len(now), PAGE_BYTES)
        old = before + bytes(max(0, len(now) - len(before)))
        return now[: pages.start] + b"".join(
            [dice.choice([now, old])[page : page + PAGE_BYTES][: len(now) - page] for page in pages]
        )


@dataclass(eq=False)
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)


@dataclass(eq=False)
class _Change:
    """Names that get other files, in the folders that they are in; None: the name is gone."""

    names: tuple[tuple[_Folder, str, _File | _Folder | None], ...]

    @property
    def folders(self) -> set[int]:
        return {id(folder) for folder, _, _ in self.names}

    def apply(self) -> None:
        for folder, name, item in self.names:
            if item is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = item


class RecordedDisk:
    """The files below ``folder`` as they are before a recording; :meth:`play` makes them what they are after events."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._inodes: dict[int, _File] = {}
        self._root = self._load(folder)
        #: Changes of names that are not on the disk for certain, and where the names are as they are there.
        self._changes: list[_Change] = []
        self._synced: dict[_Folder, dict[str, _File | _Folder]] = {}

    def _load(self, folder: Path) -> _Folder:
        found = _Folder()
        for path in folder.iterdir():
            if path.is_dir():
                found.names[path.name] = self._load(path)
            elif path.name not in UNREAD:
                content = path.read_bytes()
                file = found.names[path.name] = _File(bytearray(content), content)
                self._inodes[path.stat().st_ino] = file
        return found

    # ---- events --------------------------------------------------------------------------------

    def play(self, event: Event) -> None:
        if any(path.rpartition("/")[2] in UNREAD for path in event.paths):
            return
        getattr(self, f"_play_{event.kind}")(event)

    def _play_O(self, event: Event) -> None:  # noqa: N802
        if event.number & _CREATED:
            file = self._inodes[event.inode] = _File()
            self._rename((*self._place(event.paths[0]), file))
        file = self._inodes[event.inode]
        if event.number & _EMPTIED and file.content:
            file.cut(0)

    def _play_W(self, event: Event) -> None:  # noqa: N802
        self._inodes[event.inode].write(event.number, event.content)

    def _play_T(self, event: Event) -> None:  # noqa: N802
        self._inodes[event.inode].cut(event.number)

    def _play_S(self, event: Event) -> None:  # noqa: N802
        file = self._inodes[event.inode]
        file.sync()
        self._force({id(folder) for folder in _folders_of(self._root, file)}, file)

    def _play_D(self, event: Event) -> None:  # noqa: N802
        folder = self._find(event.paths[0])
        assert isinstance(folder, _Folder)
        self._force({id(folder)} | {id(above) for above in _folders_of(self._root, folder)}, folder)

    def _play_N(self, event: Event) -> None:  # noqa: N802
        (folder, name), item = self._place(event.paths[0]), self._find(event.paths[0])
        self._rename((folder, name, None), (*self._place(event.paths[1]), item))

    def _play_L(self, event: Event) -> None:  # noqa: N802
        self._rename((*self._place(event.paths[1]), self._find(event.paths[0])))

    def _play_U(self, event: Event) -> None:  # noqa: N802
        self._rename((*self._place(event.paths[0]), None))

    def _play_M(self, event: Event) -> None:  # noqa: N802
        self._rename((*self._place(event.paths[0]), _Folder()))

    def _play_X(self, event: Event) -> None:  # noqa: N802
        self._play_U(event)

    def _find(self, path: str) -> _File | _Folder:
        item: _File | _Folder = self._root
        for name in Path(path).relative_to(self._folder).parts:
            assert isinstance(item, _Folder)
            item = item.names[name]
        return item

    def _place(self, path: str) -> tuple[_Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self._find(above)
        assert isinstance(folder, _Folder)
        return folder, name

    def _rename(self, *names: tuple[_Folder, str, _File | _Folder | None]) -> None:
        change = _Change(names)
        for folder in {folder for folder, _, _ in names}:
            self._synced.setdefault(folder, dict(folder.names))
        change.apply()
        self._changes.append(change)

    def _force(self, folders: set[int], item: _File | _Folder) -> None:
        """Put the changes of names on the disk that these folders need, of a file those up to its own newest name."""
        needed: set[int] = set() if isinstance(item, _File) else set(folders)
        kept: list[_Change] = []
        forced: list[_Change] = []
        for change in reversed(self._changes):
            if change.folders & needed or any(
                found is item or (found is not None and id(found) in folders) for _, _, found in change.names
            ):
                needed |= change.folders
                forced.append(change)
            else:
                kept.append(change)
        self._changes = kept[::-1]
        for change in reversed(forced):
            for folder, name, found in change.names:
                names = self._synced[folder]
                if found is None:
                    names.pop(name, None)
                else:
                    names[name] = found
        open_folders = {id(folder) for change in self._changes for folder, _, _ in change.names}
        self._synced = {folder: names for folder, names in self._synced.items() if id(folder) in open_folders}

    # ---- what is left --------------------------------------------------------------------------

    def after_kill(self, target: Path, event: Event | None, dice: random.Random) -> None:
        """Make ``target`` the folder as a killed process leaves it, inside of an event."""
        if event is not None and event.kind == "W" and dice.random() < 0.5:
            part = event.content[: int(len(event.content) * dice.random())]
            file = self._inodes[event.inode]
            before = file.content[:], file.is_changed
            file.write(event.number, part)
            self._write(target, self._root, {}, lambda one: bytes(one.content))
            file.content, file.is_changed = before
            return
        self._write(target, self._root, {}, lambda one: bytes(one.content))

    def after_power_cut(self, target: Path, dice: random.Random) -> None:
        """Make ``target`` the folder as a power cut leaves it."""
        names = {id(folder): dict(synced) for folder, synced in self._synced.items()}
        ended: set[int] = set()
        share = dice.choice([0.0, 0.1, 0.5, 1.0])
        for change in self._changes:
            if change.folders & ended or dice.random() < share:
                ended |= change.folders
                continue
            for folder, name, item in change.names:
                if item is None:
                    names[id(folder)].pop(name, None)
                else:
                    names[id(folder)][name] = item
        left: dict[int, bytes] = {}

        def content(file: _File) -> bytes:
            if id(file) not in left:
                left[id(file)] = file.left(dice)
            return left[id(file)]

        self._write(target, self._root, names, content)

    def _write(self, target: Path, folder: _Folder, names: dict[int, dict[str, Any]], content: Any) -> None:
        target.mkdir()
        for name, item in names.get(id(folder), folder.names).items():
            if isinstance(item, _Folder):
                self._write(target / name, item, names, content)
            else:
                (target / name).write_bytes(content(item))


def _folders_of(folder: _Folder, item: _File | _Folder) -> list[_Folder]:
    """All folders that something lies in, directly or not."""
    found: list[_Folder] = []
    for below in folder.names.values():
        inner = _folders_of(below, item) if isinstance(below, _Folder) else []
        if below is item or inner:
            found = [folder, *found, *inner]
    return found
