"""The calls of a transaction as far as an answer tells of them.

Only answers depend on this record, not execution.  Release 4.x keeps at most 100 calls and five levels, and when
a call ends it closes the last record that is open, *also when that call itself was not recorded*.  So what happened
at level six and below shows in the record of level five, and so on upwards; after 100 calls outcomes shift in the same
way.  Answers must be equal, so this is done alike.
"""

from __future__ import annotations

from array import array
from dataclasses import field
from enum import IntEnum
from typing import Final

from fastnode.log_index.function_names import SELECTOR_BYTES
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.records import dataclass

__all__ = ["PLACES_MAX", "CallRecord", "CallTree", "Phase", "selector_of"]

#: Places of a failed call that are kept: more than a transaction in a block can pay for.
PLACES_MAX: Final = 1_000_000
CALLS_RECORDED_MAX: Final = 100
DEPTH_RECORDED_MAX: Final = 5


class Phase(IntEnum):
    SETUP = 0
    APP = 1
    TEARDOWN = 2


def selector_of(calldata: bytes) -> bytes | None:
    """Selector of the called function: the last four bytes of the first field, if that is small enough."""
    first = calldata[:FIELD_BYTES]
    return first[-SELECTOR_BYTES:] if first and not any(first[:-SELECTOR_BYTES]) else None


@dataclass(slots=True)
class CallRecord:
    """A call, enqueued or nested.  Everything from ``success`` on holds once the call has ended."""

    phase: Phase
    address: bytes
    #: Joined fields, at most as many as the interpreter hands out.
    calldata: bytes
    nested: list[CallRecord] = field(default_factory=list)
    success: bool = True
    output: bytes = b""
    #: The first places where it ended; none where all calls together have too many.
    pcs: array[int] = field(default_factory=lambda: array("I"))
    has_more_places: bool = False
    message: str = ""


class CallTree:
    """Follows the calls of a transaction; ``roots`` are the enqueued ones that have ended."""

    __slots__ = ("_count", "_open", "_places", "phase", "roots")

    def __init__(self) -> None:
        #: The phase of the calls that come.
        self.phase = Phase.SETUP
        self.roots: list[CallRecord] = []
        self._open: list[CallRecord] = []
        self._count = 0
        #: Places that records have had.
        self._places = 0

    def enter(self, address: bytes, calldata: bytes) -> None:
        if self._count >= CALLS_RECORDED_MAX or len(self._open) >= DEPTH_RECORDED_MAX:
            return
        self._count += 1
        self._open.append(CallRecord(self.phase, address, calldata))

    def leave(self, *, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        if not self._open:
            return
        record = self._open.pop()
        record.success, record.output, record.message = success, output, message
        siblings = self._open[-1].nested if self._open else self.roots
        # Only the places of the call that failed last, and deepest, are answered: where there are too many, those of
        # others are dropped.
        if self._places + len(pcs) > PLACES_MAX:
            if not success and self._open:
                _forget_places(siblings)
            if success or _last_failed(record.nested) is not None:
                pcs = array("I")
        record.pcs, record.has_more_places = pcs[:PLACES_MAX], len(pcs) > PLACES_MAX
        self._places += len(record.pcs)
        siblings.append(record)

    def add_failed_insertion(self, message: str) -> None:
        """The private part's effects for the app logic could not be inserted: this stands in for a call."""
        self.roots.append(CallRecord(Phase.APP, bytes(32), b"", success=False, message=message))

    def first_failure(self) -> list[CallRecord] | None:
        """The path to what failed, outermost first: from the first enqueued call that failed, each time the last
        nested one that did, up to one whose nested calls all went well."""
        for record in self.roots:
            if not record.success:
                return _path_to_failure(record)
        return None


def _path_to_failure(record: CallRecord) -> list[CallRecord]:
    path = [record]
    while (failed := _last_failed(path[-1].nested)) is not None:
        path.append(failed)
    return path


def _forget_places(records: list[CallRecord]) -> None:
    """Drop places of the last failed record: one that fails later takes its place."""
    while (failed := _last_failed(records)) is not None:
        failed.pcs = array("I")
        records = failed.nested


def _last_failed(records: list[CallRecord]) -> CallRecord | None:
    return next((record for record in reversed(records) if not record.success), None)
