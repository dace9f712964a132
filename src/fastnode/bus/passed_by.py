"""Transactions of the fleet that a block had when they were read: no pool can judge them while it stands.

Once a block is taken back, what it had is read again, and comes into the pool after every check, unless another block
has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["PassedBy"]


class PassedBy:
    """For one thread.  Grows with what blocks that are not final have."""

    def __init__(self) -> None:
        #: Hashes of transactions by number and hash of the block that has them.
        self._blocks: dict[tuple[int, bytes], set[bytes]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._blocks.values()))

    def note(self, tx_hash: bytes, number: int, chain: ChainView) -> None:
        """``number``: that of the block that has it."""
        if number > chain.tips.finalized.block.number:
            self._blocks.setdefault((number, chain.block_id(number).hash), set()).add(tx_hash)

    def undone(self, chain: ChainView) -> list[bytes]:
        """Transactions whose block is in the chain no more; they are told of once."""
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
