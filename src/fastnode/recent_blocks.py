"""The newest blocks, kept from the commits that stored them: the status page and the metrics show them repeatedly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode.archiver.entries import block_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastnode.archiver.records import BlockInfo
    from fastnode.protocol.block import L2Block
    from fastnode.view import Committed, View

__all__ = ["RECENT_BLOCKS", "RecentBlocks"]

#: Number of blocks that are kept.
RECENT_BLOCKS: Final = 20


class RecentBlocks:
    """Usable from any thread; :meth:`on_committed` is called in the one that ingests."""

    def __init__(self) -> None:
        #: The newest first, without a gap.  Replaced as a whole.
        self._known: tuple[BlockInfo, ...] = ()

    def on_committed(self, committed: Committed) -> None:
        known = self._known
        if committed.undone:
            known = tuple(info for info in known if info.number < committed.undone.start)
        if committed.blocks:
            new = _infos(committed.blocks[-RECENT_BLOCKS:], committed.view)
            is_joined = known and known[0].number + 1 == new[-1].number
            known = (new + known)[:RECENT_BLOCKS] if is_joined else new
        self._known = known

    def newest(self, view: View, count: int = RECENT_BLOCKS) -> Sequence[BlockInfo]:
        """The ``count`` newest blocks of ``view``, the newest first; block 0 is the last there is.

        Blocks that were stored before the start are read once.
        """
        chain, known = view.chain, self._known
        if not known or known[0].hash != chain.tips.proposed.hash:
            known = ()
        wanted = min(count, chain.tip_number + 1)
        if len(known) < wanted:
            missing = (chain.block_info(chain.tip_number - place) for place in range(len(known), wanted))
            known += tuple(info for info in missing if info is not None)
            self._known = known
        return known[:wanted]


def _infos(blocks: Iterable[L2Block], view: View) -> tuple[BlockInfo, ...]:
    """The newest first.  The hash of the newest one is known already."""
    newest, *others = reversed(tuple(blocks))
    infos = [block_info(newest, view.chain.tips.proposed.hash)]
    return (*infos, *(block_info(block, block.hash()) for block in others))
