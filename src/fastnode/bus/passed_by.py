"""Transactions of the fleet that this node could not judge when they were read, and that are read again later.

    a block had it                  its nullifiers exist: once that block is taken back
    built on a block not here yet   again and again for a minute, then once that block is here, however long that takes

They come into the pool after every check then, unless a block has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.protocol.tx import Tx

__all__ = ["PassedBy"]

#: Transactions that are built on a block that is not here yet, and for how long they are kept; then they are looked for
#: on the bus once it is here.
LATER_MAX: Final = 256
LATER_S: Final = 60.0
#: Transactions that wait for a block; the oldest are left out.
UNANCHORED_MAX: Final = 10_000


class PassedBy:
    """For one thread, but for ``is_kept``.  Grows with what blocks that are not final have."""

    def __init__(self) -> None:
        #: Hashes of transactions by number and hash of the block that has them.
        self._blocks: dict[tuple[int, bytes], set[bytes]] = {}
        #: By its hash: the message, the block that it is built on, and until when it is tried again.
        self._later: dict[bytes, tuple[bytes, bytes, float]] = {}
        #: Block that a transaction is built on, by its hash.
        self._anchors: dict[bytes, bytes] = {}
        #: Transactions that are read again now.
        self._due: dict[bytes, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._blocks.values())) + len(self._later) + len(self._anchors) + len(self._due)

    def note(self, tx_hash: bytes, number: int, chain: ChainView) -> None:
        """``number``: that of the block that has it."""
        if number > chain.tips.finalized.block.number:
            self._blocks.setdefault((number, chain.block_id(number).hash), set()).add(tx_hash)

    def keep(self, tx: Tx, data: bytes, now: float) -> None:
        """The block that it is built on is on its way."""
        anchor = tx.data.anchor_block_hash
        if len(self._later) < LATER_MAX or tx.hash in self._later:
            self._later.setdefault(tx.hash, (data, anchor, now + LATER_S))
        else:
            self._note_unanchored(tx.hash, anchor)

    def is_kept(self, tx_hash: bytes) -> bool:
        return tx_hash in self._later

    def kept(self, now: float) -> list[tuple[bytes, bytes]]:
        """Transactions that are tried again, with their messages."""
        for tx_hash, (_, anchor, until) in tuple(self._later.items()):
            if now >= until:
                self._note_unanchored(tx_hash, anchor)
                self.let_go(tx_hash)
        return [(tx_hash, data) for tx_hash, (data, _, _) in self._later.items()]

    def let_go(self, tx_hash: bytes) -> None:
        self._later.pop(tx_hash, None)

    def _note_unanchored(self, tx_hash: bytes, anchor: bytes) -> None:
        self._anchors[tx_hash] = anchor
        if len(self._anchors) > UNANCHORED_MAX:
            del self._anchors[next(iter(self._anchors))]

    def due(self, chain: ChainView) -> list[bytes]:
        """Transactions that can be judged now, until they are :meth:`read`."""
        found = self._undone(chain)
        there = {anchor for anchor in set(self._anchors.values()) if chain.block_number_by_hash(anchor) is not None}
        for tx_hash in [tx_hash for tx_hash, anchor in self._anchors.items() if anchor in there] if there else ():
            del self._anchors[tx_hash]
            found.append(tx_hash)
        self._due |= dict.fromkeys(found)
        return list(self._due)

    def read(self, tx_hash: bytes) -> None:
        del self._due[tx_hash]

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
