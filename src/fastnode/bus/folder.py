"""Files of one publisher on the bus: written by it, read by all.

    LEAVES_fastnode-31337-1                           a stream of its own, with a limit; what does not fit is refused
      <stream>.leaves.<publisher>.<path>.<piece>      a file, in pieces; "/" in its path is "." here

The last piece of a file is shorter than the others, empty if need be: so it is known where a file ends.  What a file
must be is for its reader to know.  Pieces are read by direct requests, a few at a time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from fastnode.bus.connection import Bus, Message, Outgoing, StreamSetup
from fastnode.bus.subjects import Subjects
from fastnode.errors import UpstreamFault, UpstreamUnavailable

__all__ = ["AWAY_S", "PIECE_BYTES", "BusFolder", "folder_owners", "pieces_of"]

#: Bytes of a piece: one comes within the time of a request also where the bus is far away.
PIECE_BYTES: Final = 512 << 10
#: Pieces under way at a time.
PIECES_AT_A_TIME: Final = 4
#: Time for which the bus may be away in the middle of a file, and the pause between two tries, in seconds.
AWAY_S: Final = 300.0
#: The same before anything was read.
FIRST_S: Final = 20.0
_PAUSE_S: Final = 1.0
#: Publishers whose files are read: the index of each takes some milliseconds.
OWNERS_MAX: Final = 256
_CHANCE: Final = random.SystemRandom()

T = TypeVar("T")


def folder_owners(bus: Bus, subjects: Subjects, path: str) -> list[str]:
    """Publishers that have this file on the bus, in no order; of very many any :data:`OWNERS_MAX`, others each time, so
    that no names keep the others from being read.  UpstreamUnavailable."""
    pattern = f"{_subject(subjects, '*', path)}.0"
    place = pattern.split(".").index("*")

    def find() -> list[str]:
        if bus.state(subjects.leaf_stream) is None:
            return []
        return [subject.split(".")[place] for subject in bus.subjects(subjects.leaf_stream, pattern)]

    owners = _waited(bus, find, FIRST_S)
    return _CHANCE.sample(owners, min(len(owners), OWNERS_MAX))


class BusFolder:
    """The files of ``publisher``.  Usable from any thread.

    Errors of all: UpstreamUnavailable: try later; UpstreamFault.
    """

    def __init__(self, bus: Bus, subjects: Subjects, publisher: str, *, away_s: float = AWAY_S) -> None:
        self._bus = bus
        self._subjects = subjects
        self._publisher = publisher
        self._away_s = away_s

    def set_up(self, bytes_max: int) -> None:
        """Make the stream unless it is there; the servers set this room aside for it, or refuse."""
        setup = StreamSetup(
            name=self._subjects.leaf_stream,
            subjects=(self._subjects.all_leaves,),
            bytes_max=bytes_max,
            refuses_when_full=True,
            is_compressed=False,  # hashes, and tables that are
        )
        self._bus.set_up(setup)

    def room(self) -> int:
        """Bytes that the stream still takes.  UpstreamUnavailable where there is none."""
        state = self._bus.state(self._subjects.leaf_stream)
        if state is None:
            raise UpstreamUnavailable(f"there is no stream {self._subjects.leaf_stream}")
        limit = state["max_bytes"]
        return (1 << 62) if limit < 0 else max(0, limit - state["bytes"])

    def stream(self, path: str) -> Iterator[bytes]:
        """Its bytes; FileNotFoundError.  A bus that is away is waited for."""
        number = 0
        while True:
            wanted = [self._piece(path, each) for each in range(number, number + PIECES_AT_A_TIME)]
            for subject, message in zip(wanted, self._fetched(wanted), strict=True):
                if message is None and number == 0:
                    raise FileNotFoundError(path)
                if message is None:
                    raise UpstreamFault(f"the piece {number} of {path} is not on the bus")
                if message.subject != subject or len(message.data) > PIECE_BYTES:
                    raise UpstreamFault(f"the piece {number} of {path} makes no sense")
                yield message.data
                if len(message.data) < PIECE_BYTES:
                    return
                number += 1

    def put(self, path: str, content: Iterable[bytes]) -> None:
        """Write a file; it is there as a whole once this returns."""
        waiting: list[Outgoing] = []
        for number, piece in enumerate(_pieces(content)):
            waiting.append(Outgoing(self._piece(path, number), piece))
            if len(waiting) == PIECES_AT_A_TIME:
                self._send(waiting)
                waiting = []
        if waiting:
            self._send(waiting)

    def piece_counts(self, path: str) -> dict[str, int]:
        """Pieces of each file right below this path, by name, as far as none before the last is missing."""
        prefix = f"{self._of(path)}."
        found: dict[str, set[int]] = {}
        for subject in self._waited(lambda: self._bus.subjects(self._subjects.leaf_stream, f"{prefix}>")):
            name, _, number = subject[len(prefix) :].rpartition(".")
            if number.isdecimal():
                found.setdefault(name, set()).add(int(number))
        return {name: len(numbers) if numbers == set(range(len(numbers))) else 0 for name, numbers in found.items()}

    def remove(self, path: str) -> None:
        self._waited(lambda: self._bus.purge(self._subjects.leaf_stream, subject=f"{self._of(path)}.>"))

    # ---- requests --------------------------------------------------------------------------------

    def _fetched(self, subjects: Sequence[str]) -> list[Message | None]:
        return self._waited(lambda: self._bus.lasts(self._subjects.leaf_stream, subjects))

    def _send(self, messages: Sequence[Outgoing]) -> None:
        self._waited(lambda: self._bus.publish_all(messages))

    def _waited(self, ask: Callable[[], T]) -> T:
        return _waited(self._bus, ask, self._away_s)

    def _of(self, path: str) -> str:
        return _subject(self._subjects, self._publisher, path)

    def _piece(self, path: str, number: int) -> str:
        return f"{self._of(path)}.{number}"


def pieces_of(count: int) -> int:
    """Pieces of a file of so many bytes."""
    return count // PIECE_BYTES + 1


def _waited(bus: Bus, ask: Callable[[], T], away_s: float) -> T:
    """Ask until the bus answers, for so long; what is asked may be asked twice."""
    give_up_at = time.monotonic() + away_s
    while True:
        try:
            return ask()
        except UpstreamUnavailable:
            if time.monotonic() >= give_up_at or bus.is_closed:
                raise
        time.sleep(_PAUSE_S)


def _subject(subjects: Subjects, publisher: str, path: str) -> str:
    return f"{subjects.leaves(publisher)}.{path.replace('/', '.')}"


def _pieces(content: Iterable[bytes]) -> Iterator[bytes]:
    waiting = bytearray()
    for chunk in content:
        waiting += chunk
        while len(waiting) >= PIECE_BYTES:
            yield bytes(waiting[:PIECE_BYTES])
            del waiting[:PIECE_BYTES]
    yield bytes(waiting)
