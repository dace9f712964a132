"""Snapshots of a running node: one upload at a time, in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from fastnode.errors import FastnodeError, Refused, SnapshotError
from fastnode.log import log_facts
from fastnode.snapshots.allowed_places import ON_BUS, require_allowed

if TYPE_CHECKING:
    from fastnode.snapshots.index import Snapshot
    from fastnode.snapshots.leaf_index import LeafSnapshot
    from fastnode.snapshots.location import Location
    from fastnode.world_state.leaves import LeavesOfBlock

__all__ = ["BusUploads", "SnapshotUploads"]

logger = logging.getLogger(__name__)

_PROGRESS_INTERVAL_S: Final = 10.0
#: Time a stop waits for an upload to notice, in seconds; what it leaves is removed at the next start.
_STOP_TIME_S: Final = 10.0


class _Stopped(Exception):  # noqa: N818 - not an error
    """Ends an upload between two chunks."""


class BusUploads(NamedTuple):
    """Uploads to the bus, which are of leaves: the location, opened when one begins, and the leaves."""

    open: Callable[[], Location]
    leaves: Callable[[], LeavesOfBlock]


class SnapshotUploads:
    """``rest`` gives a context in which nothing is written; Refused when that cannot be had.

    Uploads go to the ``allowed`` locations and below; none given: below ``directory``.  ``leaves`` gives those of the
    state, for snapshots of leaves; None: snapshots have the history of the state.  ``on_bus``: what "bus://" is; None:
    no place.
    """

    def __init__(
        self,
        directory: Path,
        rest: Callable[[], AbstractContextManager[object]],
        allowed: Sequence[str] = (),
        leaves: Callable[[], LeavesOfBlock] | None = None,
        on_bus: BusUploads | None = None,
    ) -> None:
        self._directory = directory
        self._allowed = allowed
        self._rest = rest
        self._leaves = leaves
        self._on_bus = on_bus
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        #: Uploads that have ended, by how: ``uploaded``, ``failed``, ``given_up`` (the node stops).
        self.outcomes: Counter[str] = Counter()
        #: Reason why the last upload failed; None if it did not.
        self.failure: str | None = None
        #: The newest block of the last snapshot that was uploaded, where to, and when that was done, in seconds since
        #: 1970.
        self.last_block: int | None = None
        self.last_place: str | None = None
        self.last_time: float | None = None

    @property
    def is_uploading(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, location_text: str) -> None:
        """Begin to copy and upload; what goes wrong from now on is in the log.

        SnapshotError for an invalid location; Refused while another upload runs.
        """
        location, leaves = self._opened(location_text)
        with self._starting:
            if self.is_uploading:
                raise Refused(
                    "Snapshot upload already in progress. Cannot start another one until complete.",
                    data={"code": "SNAPSHOT_IN_PROGRESS"},
                )
            # A daemon: a server that does not answer must not keep the process.
            self._thread = threading.Thread(
                target=self._run, args=(location, leaves), name="fastnode-snapshot", daemon=True
            )
            self._thread.start()

    def _opened(self, text: str) -> tuple[Location, Callable[[], LeavesOfBlock] | None]:
        if text == ON_BUS:
            if self._on_bus is None:
                raise SnapshotError("this node puts no snapshots on the bus; start a publisher with --bus-leaves-mb")
            return self._on_bus.open(), self._on_bus.leaves
        # On demand: a start would pay for what few nodes ever use.
        from fastnode.snapshots.location import Location

        require_allowed(text, self._allowed, self._directory)
        return Location.to_write(text), self._leaves

    def troubles(self) -> dict[str, str | None]:
        """Fault of the last upload; None for none."""
        return {"snapshots": self.failure}

    def close(self) -> None:
        """End the upload that runs; its archives never appear in the index."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_TIME_S)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the upload to end; True if it has in time."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.is_uploading

    def _run(self, location: Location, leaves: Callable[[], LeavesOfBlock] | None) -> None:
        logger.info("snapshot begun", extra=log_facts(location=location.text))
        begun = time.monotonic()
        try:
            made = self._create(location, leaves)
        except Exception as error:
            if self._stop.is_set():
                self.outcomes["given_up"] += 1
                logger.warning("snapshot given up: the node stops")
                return
            self.outcomes["failed"] += 1
            self.failure = f"the last snapshot was not uploaded to {location.text}: {error}"
            expected = isinstance(error, FastnodeError | OSError)
            logger.error("snapshot failed", exc_info=not expected, extra=log_facts(reason=str(error)))
            return
        self.outcomes["uploaded"] += 1
        self.failure = None
        self.last_block, self.last_place, self.last_time = made.l2_block_number, location.text, time.time()
        extra = log_facts(
            location=location.text,
            block=made.l2_block_number,
            bytes=made.bytes,
            seconds=round(time.monotonic() - begun, 1),
        )
        logger.info("snapshot uploaded", extra=extra)

    def _create(self, location: Location, leaves: Callable[[], LeavesOfBlock] | None) -> Snapshot | LeafSnapshot:
        progress = _Progress(self._stop)
        if leaves is None:
            from fastnode.snapshots.create import create_snapshot

            return create_snapshot(self._directory, location, self._rest(), on_progress=progress)
        from fastnode.snapshots.leaf_create import create_leaf_snapshot

        return create_leaf_snapshot(self._directory, location, self._rest(), leaves, on_progress=progress)


class _Progress:
    """A line in the log now and then; ends the upload when the node stops."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._next_line_at = time.monotonic() + _PROGRESS_INTERVAL_S

    def __call__(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        now = time.monotonic()
        if now >= self._next_line_at:
            self._next_line_at = now + _PROGRESS_INTERVAL_S
            logger.info(
                "uploading snapshot", extra=log_facts(bytes=done, of=total, percent=100 * done // max(1, total))
            )
