"""Verifying a downloaded snapshot in a process of its own: if its tables crash LevelDB, only that process ends.

in    one JSON line: {"network": {...}, "snapshot": {...}}, as in an index; of leaves with "parts", the list as text
out   JSON lines: {"done": blocks, "total": blocks} ..., then {"error": reason or null}
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.data_check.worker import end_with_parent
from fastnode.errors import SnapshotError
from fastnode.snapshots.contents import verify_contents
from fastnode.snapshots.index import Network, Snapshot
from fastnode.snapshots.leaf_index import LeafSnapshot, PartList
from fastnode.snapshots.leaf_verify import verify_leaves
from fastnode.snapshots.patience import Check
from fastnode.storage.database_files import is_database
from fastnode.storage.table_files import damaged_tables

__all__ = ["verify_apart", "verify_leaves_apart"]

#: Memory that a verification may take, besides the tables that it maps.
MEMORY_BYTES_MAX: Final = 4 << 30
#: Processor time that it may take: for the start, and for the bytes of the archives.  Real ones take a fiftieth of it.
TIME_S_MIN: Final = 300
BYTES_PER_S: Final = 100_000
#: Time between two checks whether the node is stopping, in seconds.
_HEARING_INTERVAL_S: Final = 0.1
_READ_BYTES: Final = 1 << 16


def verify_apart(
    directory: Path, network: Network, snapshot: Snapshot, on_progress: Callable[[int, int], None], check: Check
) -> None:
    """``verify_contents`` in another process; SnapshotError too when that process does not survive it.

    ``check`` is called now and then; what it raises ends the verification.
    """
    question = {"network": network.to_json(), "snapshot": snapshot.to_json(network)}
    _ask(directory, question, snapshot.bytes, on_progress, check)


def verify_leaves_apart(
    directory: Path,
    network: Network,
    snapshot: LeafSnapshot,
    parts: PartList,
    on_progress: Callable[[int, int], None],
    check: Check,
) -> None:
    """``verify_leaves`` likewise: what it makes of the leaves is in ``directory`` then."""
    question = {"network": network.to_json(), "snapshot": snapshot.to_json(network)}
    _ask(directory, question | {"parts": parts.to_bytes().decode()}, snapshot.bytes, on_progress, check)


def _ask(
    directory: Path, question: dict[str, Any], size: int, on_progress: Callable[[int, int], None], check: Check
) -> None:
    seconds = TIME_S_MIN + size // BYTES_PER_S
    command = [sys.executable, "-P", "-m", "fastnode.snapshots.verification", str(directory), str(seconds)]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError), child.stdin as questions:
            questions.write(orjson.dumps(question) + b"\n")
        _follow(child, seconds, on_progress, check)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _follow(
    child: subprocess.Popen[bytes], seconds: int, on_progress: Callable[[int, int], None], check: Check
) -> None:
    for line in _lines(child, check):
        with contextlib.suppress(orjson.JSONDecodeError, KeyError):
            answer: dict[str, Any] = orjson.loads(line)
            if "done" in answer:
                on_progress(answer["done"], answer["total"])
            elif answer["error"] is None:
                return
            else:
                raise SnapshotError(str(answer["error"]))
    code = child.wait()
    if code == -signal.SIGXCPU:
        raise SnapshotError(f"its databases are wrong: to read them takes more than {seconds} s of a processor")
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
    raise SnapshotError(f"its databases are wrong: what read them ended {how}")


def _lines(child: subprocess.Popen[bytes], check: Check) -> Iterator[bytes]:
    assert child.stdout is not None
    descriptor, rest = child.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            check()
            if not selector.select(_HEARING_INTERVAL_S):
                continue
            data = os.read(descriptor, _READ_BYTES)
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
            if not data:
                return


# ---- in the other process ------------------------------------------------------------------------------


def _verify(directory: Path, question: dict[str, Any]) -> str | None:
    """First fault of the databases; None for none."""
    address = {"rollupAddress": question["network"]["rollupAddress"]}
    network = Network.from_node_info(question["network"] | {"l1ContractAddresses": address})
    for database in sorted(entry for entry in directory.iterdir() if is_database(entry)):
        for name, fault in damaged_tables(database).items():
            return f"its databases are wrong: the table {database.name}/{name}: {fault}"
    try:
        if "parts" in question:
            leaves = LeafSnapshot.from_json(question["snapshot"], network)
            verify_leaves(directory, network, leaves, PartList.from_bytes(question["parts"]), on_progress=_say_progress)
        else:
            snapshot = Snapshot.from_json(question["snapshot"], network)
            verify_contents(directory, network, snapshot, on_progress=_say_progress)
    except SnapshotError as error:
        return str(error)
    return None


def _say_progress(done: int, total: int) -> None:
    _say(done=done, total=total)


def _say(**answer: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


def _main() -> None:
    # Tables are mapped and do not count here.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    end_with_parent()
    seconds = int(sys.argv[2])
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    question = orjson.loads(sys.stdin.buffer.readline())
    _say(error=_verify(Path(sys.argv[1]), question))


if __name__ == "__main__":
    _main()
