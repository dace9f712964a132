"""The check by several processes: it finds what one process finds, goes on after a kill, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import forked_nodes
from tests.conftest import PATIENCE_S
from tests.small_disk import mounted

from fastnode.archiver import layout as chain_layout
from fastnode.archiver.check import CheckReport
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data, processes
from fastnode.data_check.processes import VERIFIED_FILE, check_apart
from fastnode.errors import DatabaseError
from fastnode.kernels import stored_text
from fastnode.log_index import layout as index_layout
from fastnode.storage import database
from fastnode.storage.database import free_bytes, open_leveldb
from fastnode.world_state import layout as state_layout

Change = tuple[str, bytes, Callable[[bytes], bytes | None]]


@pytest.fixture(autouse=True)
def always_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short check is worth several processes too."""
    monkeypatch.setattr(processes, "APART_MIN_US", 0)


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    """The processes begin sooner."""
    with forked_nodes.used_by("fastnode.data_check.processes"):
        yield


class Watch:
    """Progress of a check: the notes that it gives, and what is done at the first one after ``parts`` parts."""

    def __init__(self, parts: int = 1_000_000, do: Callable[[], None] = lambda: None) -> None:
        self.notes: list[str] = []
        self.done: list[int] = []
        self._parts = parts
        self._do = do

    def __call__(self, done: int, total: int, note: str) -> None:
        assert done <= total
        self.notes.append(note)
        self.done.append(done)
        if verified(note) >= self._parts:
            self._parts = 1_000_000
            self._do()


def verified(note: str) -> int:
    return int(note.split()[0])


def interrupt() -> None:
    raise KeyboardInterrupt


def check(directory: Path, watch: Watch | None = None, processes: int = 2) -> CheckReport:
    with ChainData.open(directory, create=False) as data:
        return check_apart(data, processes=processes, progress=watch or Watch())


def interrupted(directory: Path, parts: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        check(directory, Watch(parts, interrupt))


def children() -> set[int]:
    """Processes that run below this one, but for those that fork for tests."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            found.update(map(int, (task / "children").read_text().split()))
    found.discard(forked_nodes.forking_process())
    return {pid for pid in found if b"tests.forking" not in _command_of(pid)}


def _command_of(pid: int) -> bytes:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def left_behind(directory: Path) -> set[str]:
    return {entry.name for entry in directory.iterdir()} - {"archiver", "world_state", "fastnode.lock"}


def change(directory: Path, kind: bytes, changed: Callable[[bytes], bytes | None], name: str) -> None:
    """Change the first entry of a kind."""
    with open_leveldb(directory / name, create=False) as opened:
        with opened.iterator(prefix=kind) as entries:
            key, value = next(entries)
        is_text = name == "archiver" and kind[0] in chain_layout.TEXTS
        after = changed(stored_text.unpack(value) if is_text else value)
        opened.delete(key) if after is None else opened.put(key, after)


def flipped(value: bytes) -> bytes:
    return value[:-1] + bytes((value[-1] ^ 1,))


CHANGES: tuple[Change, ...] = (
    ("archiver", chain_layout.EFFECT, flipped),
    ("archiver", chain_layout.BLOCK, lambda _: None),
    ("archiver", chain_layout.TRANSACTION, lambda _: None),
    ("archiver", index_layout.PRIVATE_PAGE, flipped),
    ("archiver", index_layout.CONTRACT_CLASS, lambda value: bytes(4) + value[4:]),
    ("world_state", state_layout.NODE_HISTORY, flipped),
    ("world_state", state_layout.TILE, flipped),
    ("world_state", state_layout.LEAF_HISTORY, lambda _: None),
    ("world_state", state_layout.CHANGED, flipped),
)


def test_a_whole_directory_is_clean_and_leaves_nothing(directory: Path) -> None:
    watch = Watch()
    report = check(directory, watch)
    assert (report.problems, report.notes) == ([], [])
    assert watch.done == sorted(watch.done)
    with ChainData.open(directory, create=False) as data:
        assert check_data(data) == report
    assert left_behind(directory) == set()
    assert children() == set()


@pytest.mark.parametrize(("name", "kind", "changed"), CHANGES, ids=[f"{name} {kind!r}" for name, kind, _ in CHANGES])
def test_processes_find_what_one_finds(
    directory: Path, name: str, kind: bytes, changed: Callable[[bytes], bytes | None]
) -> None:
    change(directory, kind, changed, name)
    with ChainData.open(directory, create=False) as data:
        expected = check_data(data)
    report = check(directory)
    assert report == expected
    assert report.problems


def test_a_check_that_was_interrupted_goes_on(directory: Path) -> None:
    interrupted(directory, parts=5)
    assert children() == set()
    assert left_behind(directory) == {VERIFIED_FILE}
    watch = Watch()
    assert check(directory, watch).clean
    assert verified(watch.notes[0]) >= 5
    assert left_behind(directory) == set()


def test_damage_that_was_found_before_an_interruption_is_told_after_it(directory: Path) -> None:
    change(directory, state_layout.NODE_HISTORY, flipped, "world_state")
    change(directory, chain_layout.EFFECT, flipped, "archiver")
    with ChainData.open(directory, create=False) as data:
        expected = check_data(data)
        steps = len(processes.plan_of(data, CheckReport()).steps)
    interrupted(directory, parts=steps - 1)
    watch = Watch()
    assert check(directory, watch) == expected
    assert verified(watch.notes[0]) >= steps - 1


def test_a_database_that_was_changed_meanwhile_is_checked_anew(directory: Path) -> None:
    interrupted(directory, parts=5)
    change(directory, chain_layout.EFFECT, flipped, "archiver")
    watch = Watch()
    assert check(directory, watch).problems
    assert verified(watch.notes[0]) == 0


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-20],
        lambda text: text.replace(b'"seed": "', b'"seed": "00', 1),
        lambda _: b"[]",
        lambda text: json.dumps(json.loads(text) | {"found": {}}).encode(),
    ],
)
def test_a_damaged_file_of_what_is_verified_is_not_believed(directory: Path, spoil: Callable[[bytes], bytes]) -> None:
    interrupted(directory, parts=3)
    file = directory / VERIFIED_FILE
    file.write_bytes(spoil(file.read_bytes()))
    watch = Watch()
    assert check(directory, watch).clean
    assert verified(watch.notes[0]) == 0


def test_what_a_process_cannot_survive_is_a_problem(directory: Path) -> None:
    """As LevelDB ends on some tables."""
    report = check(directory, Watch(1, lambda: os.kill(min(children()), signal.SIGSEGV)))
    assert any("what read it ended by signal SIGSEGV" in problem for problem in report.problems)
    assert children() == set()


def test_a_process_that_somebody_kills_is_no_finding(directory: Path) -> None:
    with pytest.raises(DatabaseError, match="ended by signal SIGKILL; what is verified so far is kept"):
        check(directory, Watch(1, lambda: os.kill(min(children()), signal.SIGKILL)))
    assert children() == set()
    assert check(directory).clean


# ---- the command ----------------------------------------------------------------------------------------

#: Says how many parts are verified, and waits to be ended once they are as many as it is told.
COMMAND = textwrap.dedent(
    """
    import contextlib
    import sys
    import time
    from fastnode.cli import chain
    from fastnode.data_check import processes
    from fastnode.cli.app import main

    directory, parts = sys.argv[1], int(sys.argv[2])

    def advance(done, total, note):
        if int(note.split()[0]) >= parts:
            print("there", file=sys.stderr, flush=True)
            time.sleep(600.0)

    @contextlib.contextmanager
    def progress(doing):
        yield advance

    chain.progress = progress
    processes.APART_MIN_US = 0
    processes._KEEP_INTERVAL_S = 0.0
    sys.argv = ["fastnode", "db", "check", "--processes", "2", "--data-directory", directory]
    main()
    """
)


@contextlib.contextmanager
def running(directory: Path, parts: int) -> Iterator[subprocess.Popen[bytes]]:
    """The command, once it has verified so many parts."""
    command = [sys.executable, "-c", COMMAND, str(directory), str(parts)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert b"there\n" in process.stderr
            yield process
        finally:
            process.kill()


def ends(process: subprocess.Popen[bytes]) -> int:
    """Exit code, when all that the process has started is gone too: they hold the other end of a pipe."""
    assert process.stderr is not None
    process.stderr.read()
    return process.wait(PATIENCE_S)


def test_a_check_that_is_killed_goes_on_and_its_copies_are_removed(directory: Path) -> None:
    with running(directory, 4) as process:
        process.kill()
        assert ends(process) == -signal.SIGKILL
    assert any(name.startswith("check-") for name in left_behind(directory))
    watch = Watch()
    assert check(directory, watch).clean
    assert verified(watch.notes[0]) >= 4
    assert left_behind(directory) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_check_and_leaves_what_is_verified_alone(directory: Path, number: signal.Signals) -> None:
    with running(directory, 2) as process:
        process.send_signal(number)
        assert ends(process) == 130
    assert left_behind(directory) == {VERIFIED_FILE}


# ---- a full disk ----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One of which no node needs any room for itself."""
    monkeypatch.setattr(database, "ROOM_BYTES", 0)
    with mounted(tmp_path / "disk", 64 << 20) as disk:
        yield disk


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filling").open("ab", buffering=0) as file:
        file.write(bytes(free_bytes(disk)))


def test_a_full_disk_is_told_and_nothing_is_left(disk: Path, short_loaded: Path) -> None:
    directory = Path(shutil.copytree(short_loaded, disk / "data"))
    with ChainData.open(directory, create=False) as data:
        data.state.check_sampled()
        fill(disk)
        with pytest.raises(DatabaseError, match="cannot be copied for the check: No space left on device"):
            check_apart(data, processes=2, progress=Watch())
    assert left_behind(directory) == set()


def test_a_disk_that_becomes_full_does_not_end_the_check(disk: Path, short_loaded: Path) -> None:
    """Only an interruption would cost what is verified already."""
    directory = Path(shutil.copytree(short_loaded, disk / "data"))
    assert check(directory, Watch(2, lambda: fill(disk))).clean
    assert left_behind(directory) == set()
