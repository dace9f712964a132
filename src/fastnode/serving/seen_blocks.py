"""Blocks of the chain that clients were told of, what became of them, and cursors that name them.

A cursor is a block, ``<number>-<start of its hash>``: all up to it has been told.  ``<number>-<start>.<count>`` is a
place in a block: of what there is in it the first ``count`` have been told.  Any process, and any node of the same
chain, knows from a cursor where to go on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastnode.archiver.queries import ChainView
    from fastnode.protocol.tips import BlockId

__all__ = ["CURSOR_PATTERN", "Cursor", "Place", "SeenBlocks", "stands"]

#: Blocks whose hashes are remembered, to find what a reorg has left.
REMEMBERED: Final = 1024
_HASH_BYTES: Final = 8
CURSOR_PATTERN: Final = r"[0-9]{1,10}-[0-9a-f]{16}(?:\.[0-9]{1,9})?"
_CURSOR: Final = re.compile(r"([0-9]{1,10})-([0-9a-f]{16})(?:\.([0-9]{1,9}))?", re.ASCII)


class Cursor(NamedTuple):
    """``start``: of the hash of block ``number``.  ``part`` of what is in it has been told; 0: all of it."""

    number: int
    start: bytes
    part: int = 0

    @classmethod
    def at(cls, block: BlockId, part: int = 0) -> Cursor:
        return cls(block.number, block.hash[:_HASH_BYTES], part)

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """None for a text that is no cursor."""
        parts = _CURSOR.fullmatch(text)
        return None if parts is None else cls(int(parts[1]), bytes.fromhex(parts[2]), int(parts[3] or 0))

    def __str__(self) -> str:
        return f"{self.number}-{self.start.hex()}" + (f".{self.part}" if self.part else "")

    def __bytes__(self) -> bytes:
        return str(self).encode("ascii")


class Place(NamedTuple):
    """A place to go on: all up to block ``number`` has been told, and ``part`` of what is in the next one.

    Blocks ``pruned`` have been told and are not in the chain any more, which is to be said first.
    """

    number: int
    part: int
    pruned: range


def stands(chain: ChainView, number: int, start: bytes) -> bool:
    """True if the block of this number is in the chain and its hash begins so."""
    return 0 <= number <= chain.tip_number and block_id(chain, number).hash.startswith(start)


def block_id(chain: ChainView, number: int) -> BlockId:
    return chain.tips.proposed if number == chain.tip_number else chain.block_id(number)


class SeenBlocks:
    """The newest block that was told of, :attr:`tip`, and those before it.  Belongs to one thread; holds no view."""

    def __init__(self, chain: ChainView, first: int) -> None:
        self.tip = chain.tips.proposed
        #: Blocks that were there, by number; without a gap below the tip.
        self._hashes: dict[int, bytes] = {}
        #: By number and start of the hash: the newest block below that is still there, of blocks taken back.
        self._undone: dict[tuple[int, bytes], int] = {}
        self.go_on(chain, max(0, first), chain.tip_number)

    def newest_kept(self, chain: ChainView) -> int:
        """The newest block that was told of and is still in the chain, as far as that is known."""
        number = min(self.tip.number, chain.tip_number)
        while number in self._hashes:
            if block_id(chain, number).hash == self._hashes[number]:
                return number
            number -= 1
        return min(number, chain.tips.finalized.block.number) if number >= 0 else 0

    def take_back(self, chain: ChainView) -> range:
        """Numbers of the blocks that were told of and are not in ``chain``; the tip is below them then."""
        kept, last = self.newest_kept(chain), self.tip.number
        if kept >= last:
            return range(0)
        for key, number in self._undone.items():
            self._undone[key] = min(number, kept)
        for number in range(kept + 1, last + 1):
            block_hash = self._hashes.pop(number, None)
            if block_hash is not None:
                self._undone[number, block_hash[:_HASH_BYTES]] = kept
        shorten(self._undone, REMEMBERED)
        self.tip = block_id(chain, kept)
        return range(kept + 1, last + 1)

    def go_on(self, chain: ChainView, first: int, last: int) -> None:
        """Blocks ``first`` to ``last`` of the chain have been told."""
        for number in range(max(first, last - REMEMBERED + 1), last + 1):
            self._hashes[number] = block_id(chain, number).hash
        shorten(self._hashes, REMEMBERED)
        self.tip = block_id(chain, last)

    def kept_below(self, number: int, start: bytes) -> int | None:
        """The newest block below one that was taken back; None if that one is not remembered."""
        return self._undone.get((number, start))

    def place_of(self, chain: ChainView, cursors: Sequence[Cursor]) -> Place | None:
        """The place of a client that was at the first of ``cursors``, and before at the others, the newest first.

        ``chain`` is the one that :attr:`tip` is of, or a later one in which it stands.  None: the client has been told
        by a node that is ahead; that will be known when the chain gets there.  ValueError for cursors of another chain.
        """
        first, tip = cursors[0], self.tip.number
        is_contradicted = False
        for cursor in cursors:
            kept = self.kept_below(cursor.number, cursor.start)
            if cursor.number <= tip and stands(chain, cursor.number, cursor.start):
                if cursor is first or is_contradicted:
                    part = cursor.part
                    number = cursor.number - 1 if part else cursor.number
                    return Place(number, part, range(cursor.number + 1, first.number + 1))
            elif kept is not None and kept <= tip:
                return Place(kept, 0, range(kept + 1, first.number + 1))
            elif cursor.number <= tip:
                is_contradicted = True
        if first.number > tip and not is_contradicted:
            return None
        finalized = min(tip, chain.tips.finalized.block.number)
        if first.number <= finalized:
            raise ValueError(f"the cursor {first} is not of this chain: block {first.number} is final, and another one")
        return Place(finalized, 0, range(finalized + 1, first.number + 1))


def shorten(kept: dict, count_max: int) -> None:  # type: ignore[type-arg]
    """Forget what came first."""
    while len(kept) > count_max:
        del kept[next(iter(kept))]
