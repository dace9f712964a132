"""View of one request: the chain and the state at one tip.

A request takes the current view once and reads only from it; a batch shares one view.  So the
answers of one HTTP request can never disagree with each other, also while blocks come.

A published view is not closed.  Ingestion replaces the reference to it; the requests that still
hold the old one, on the loop or in a thread, finish with it, and the last of them frees its
database snapshots.  A close by hand could hit a reader in the middle of a read.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.protocol.block import L2Block
    from fastnode.world_state.view import WorldStateView

__all__ = ["TIPS", "Committed", "View", "tip_numbers"]

#: The names of the four tips, the newest first.
TIPS: Final = ("proposed", "checkpointed", "proven", "finalized")


@dataclass(frozen=True, slots=True)
class View:
    """``chain`` and ``state`` are immutable and belong to the same tip.

    ``state`` is None in a node that serves the chain without its trees.  ``key`` identifies the view where a reference
    to it would keep its databases open.
    """

    chain: ChainView
    state: WorldStateView | None = None
    key: object = field(default_factory=object, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Committed:
    """Changes that ingestion has just made readable; announced in its thread, when ``view`` is what new requests see.

    First the blocks with the numbers ``undone`` were taken back, then ``blocks`` came, in their order.  Both are empty
    when only tips have moved, a checkpoint has become complete, or the state has caught up with the chain.
    """

    view: View
    blocks: tuple[L2Block, ...] = ()
    undone: range = range(0)


def tip_numbers(view: View) -> dict[str, int]:
    """The block numbers of the four tips, by name."""
    tips = view.chain.tips
    blocks = (tips.proposed, tips.checkpointed.block, tips.proven.block, tips.finalized.block)
    return {name: block.number for name, block in zip(TIPS, blocks, strict=True)}
