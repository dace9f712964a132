"""Transactions of the fleet that this node could not judge when they were read, and that are read again later.

    a block had it                  its nullifiers exist: once that block is taken back
    built on a block not here yet   once that block is here, however long that takes

They come into the pool after every check then, unless a block has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["PassedBy"]

#: Transactions that wait for a block; the oldest are left out.
UNANCHORED_MAX: Final = 10_000


class PassedBy:
    """For one thread.  Grows with what blocks that are not final have."""

    def __init__(self) -> None:
        #: Hashes of transactions by number and hash of the block that has them.
        self._blocks: dict[tuple[int, bytes], set[bytes]] = {}
        #: Block that a transaction is built on, by its hash.
        self._anchors: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return sum(map(len, self._blocks.values())) + len(self._anchors)

    def note(self, tx_hash: bytes, number: int, chain: ChainView) -> None:
        """``number``: that of the block that has it."""
        if number > chain.tips.finalized.block.number:
            self._blocks.setdefault((number, chain.block_id(number).hash), set()).add(tx_hash)

    def note_unanchored(self, tx_hash: bytes, anchor: bytes) -> None:
        self._anchors[tx_hash] = anchor
        if len(self._anchors) > UNANCHORED_MAX:
            del self._anchors[next(iter(self._anchors))]

    def due(self, chain: ChainView) -> list[bytes]:
        """Transactions that can be judged now; they are told of once."""
        found = self._undone(chain)
        there = {anchor for anchor in set(self._anchors.values()) if chain.block_number_by_hash(anchor) is not None}
        for tx_hash in [tx_hash for tx_hash, anchor in self._anchors.items() if anchor in there] if there else ():
            del self._anchors[tx_hash]
            found.append(tx_hash)
        return found

    def _undone(self, chain: ChainView) -> list[bytes]:
        found: list[bytes] = []
        while self._blocks:
            newest = max(self._blocks)
            if chain.block_number_by_hash(newest[1]) is not None:
                break  # and so are those before it
            found += sorted(self._blocks.pop(newest))
        if self._blocks:
            final = chain.tips.finalized.block.number
            for block in [block for block in self._blocks if block[0] <= final]:
                del self._blocks[block]
        return found
