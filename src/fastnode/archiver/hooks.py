"""Further work when a block is stored or undone: state trees and further indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fastnode.protocol.block import L2Block
from fastnode.storage.database import WriteBatch

__all__ = ["IndexWriter", "StateApplier"]


class StateApplier(Protocol):
    """The state trees behind the chain, in a database of their own.

    Order for a block: ``prepare``, then the archiver's batch and ``commit`` at the same time.  After a
    crash the trees may be a block behind the archiver, or ahead of it; ``Ingestor.catch_up`` brings them
    to it either way.  A run of final blocks cannot be taken back: the archiver's batch is on disk before it is
    committed.  Order for an undo: the trees first (they may refuse), then the archiver; a crash
    in between leaves the trees behind.
    """

    @property
    def block_number(self) -> int:
        """The newest block whose state is committed; 0 for the genesis."""
        ...

    @property
    def block_hash(self) -> bytes:
        """The hash of that block."""
        ...

    def prepare(self, block: L2Block, l1_to_l2_messages: Sequence[bytes], final_checkpoint: int) -> Any:
        """Compute the block's trees and compare all roots; BlockRejected when one differs.

        Writes nothing.  ``l1_to_l2_messages`` are those of the checkpoint, without padding, for its
        first block, and empty for every other block.  What is far behind ``final_checkpoint``, the newest that is final
        by what is known, may leave less to look back with.
        """
        ...

    def newest_of_runs(self, final_checkpoint: int) -> int:
        """The newest checkpoint whose blocks may be applied in runs when ``final_checkpoint`` is final, 0 for none."""
        ...

    def prepare_run(self, blocks: Sequence[tuple[L2Block, Sequence[bytes]]]) -> Any:
        """As ``prepare`` for several (block, messages), in one step; roots are compared at their end.

        Which block is to blame for a BlockRejected, ``prepare`` tells.
        """
        ...

    def commit(self, prepared: Any) -> None:
        """Write what ``prepare`` or ``prepare_run`` returned, in one synced batch."""
        ...

    def settle(self, finalized: int) -> None:
        """No undo goes below block ``finalized`` any more, unless an operator forces it."""
        ...

    def undo_above(self, block_number: int) -> None:
        """Return to the state after ``block_number``; no-op when not above it.

        HistoryUnavailable, before anything is undone, when there is no way back to it.
        """
        ...

    def reset(self) -> None:
        """Return to the genesis from any state of the index."""
        ...


class IndexWriter(Protocol):
    """Adds keys of its own to the batch of each block (logs, contracts).

    All its keys start with bytes of :attr:`prefixes`, each one byte in 0x80..0xff that no other
    writer uses.  The transaction is readable: it sees what earlier calls of the same batch changed.
    """

    @property
    def prefixes(self) -> Sequence[bytes]: ...

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        """Add the block's entries."""
        ...

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        """Take back exactly what ``write`` did for this block; called from the newest block down."""
        ...

    def prune(self, batch: WriteBatch, block: L2Block) -> int:
        """Drop what only this block needs; called from the oldest block up, and never undone.  Bytes that go, about."""
        ...

    def renew(self, batch: WriteBatch, key: bytes, stored: bytes) -> int:
        """Bring an entry in the form of an older version to this one's; called for the texts among its keys, in order.
        Bytes that it takes less."""
        ...
