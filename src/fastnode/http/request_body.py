"""Body of a request while it arrives.

    add, add, ... ──► take: the body whole, and the memory that is its own until the answer is sent
         │
         └── drop: the memory is given back

Large pieces are kept as they come and put together at the end; small ones go into one buffer, so that none costs more
than its bytes.  These are taken from the memory budget as they come.
"""

from __future__ import annotations

from typing import Final

from fastnode.http.allowance import Allowance, Party

__all__ = ["RequestBody"]

#: The memory of a body is taken in steps of this.
BODY_STEP_BYTES: Final = 16 * 1024
#: A smaller piece of a body is copied into a buffer.
PIECE_BYTES_MIN: Final = 4 * 1024


class RequestBody:
    """``bytes_max``: size that no body exceeds; ``party`` pays for the memory, None: nobody does."""

    __slots__ = ("_bytes_max", "_party", "_pieces", "_small_pieces", "allowance", "chunk_count", "size")

    def __init__(self, bytes_max: int, party: Party | None) -> None:
        self._bytes_max = bytes_max
        self._party = party
        #: Memory that is taken; None before the first byte, and where nobody pays.
        self.allowance: Allowance | None = None
        self._forget()

    def _forget(self) -> None:
        self.size = 0
        self.chunk_count = 0
        self._pieces: list[bytes] = []
        self._small_pieces: bytearray | None = None  # behind the pieces

    def invariant(self) -> None:
        """AssertionError unless the size is that of the pieces, and they are paid for."""
        assert self.size == sum(map(len, self._pieces)) + len(self._small_pieces or b"")
        assert self._party is None or not self.size or self.allowance is not None

    def add(self, piece: bytes) -> None:
        """NodeBusy, and nothing is added, if there is no memory for it."""
        size = self.size + len(piece)
        if self._party is not None:
            self._take_memory(self._party, size)
        if len(piece) >= PIECE_BYTES_MIN or not self.size:
            self._end_small_pieces()
            self._pieces.append(piece)
        elif self._small_pieces is None:
            self._small_pieces = bytearray(piece)
        else:
            self._small_pieces += piece
        self.size = size

    def _take_memory(self, party: Party, size: int) -> None:
        if self.allowance is None:
            self.allowance = Allowance(party)
        missing = size - self.allowance.taken_bytes
        if missing > 0:
            self.allowance.take(max(missing, min(BODY_STEP_BYTES, self._bytes_max)))

    def _end_small_pieces(self) -> None:
        if self._small_pieces is not None:
            self._pieces.append(bytes(self._small_pieces))
            self._small_pieces = None

    def take(self) -> tuple[bytes, Allowance | None]:
        """The body, and its memory; an idle connection holds on to nothing."""
        self._end_small_pieces()
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        allowance, self.allowance = self.allowance, None
        self._forget()
        return body, allowance

    def drop(self) -> None:
        """Give back all of it."""
        self._forget()
        if self.allowance is not None:
            self.allowance.give_back()
            self.allowance = None
