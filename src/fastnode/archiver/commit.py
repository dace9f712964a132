"""Announcement of ingestion after each commit to the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.protocol.block import L2Block
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["ChainCommit"]


@dataclass(frozen=True, slots=True)
class ChainCommit:
    """``view`` is the chain now.  First the blocks with the numbers ``undone`` were taken back, then ``blocks`` came.

    Both are empty when only tips have moved, or a checkpoint has become complete.
    """

    view: ChainView
    blocks: tuple[L2Block, ...] = ()
    undone: range = range(0)

    def then(self, later: ChainCommit) -> ChainCommit:
        """Both as one, as it looks to those who saw neither."""
        if not later.undone:
            return ChainCommit(later.view, self.blocks + later.blocks, self.undone)
        # The newest block before both; blocks of the first that the second takes back were never seen.
        before = self.undone.stop - 1 if self.undone else later.undone.stop - 1 - len(self.blocks)
        first_undone = min(self.undone.start if self.undone else before + 1, later.undone.start)
        kept = tuple(block for block in self.blocks if block.number < later.undone.start)
        return ChainCommit(later.view, kept + later.blocks, range(first_undone, before + 1))
