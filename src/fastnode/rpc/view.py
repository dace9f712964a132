"""What one request sees: the chain and the state at one tip.

A request takes the current view once and reads only from it; a batch shares one view.  So the
answers of one HTTP request can never disagree with each other, whatever ingestion does meanwhile.

Nobody closes a published view.  Ingestion replaces the reference to it; the requests that still
hold the old one, on the loop or in a thread, finish with it, and the last of them frees its
database snapshots.  A close by hand could hit a reader in the middle of a read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.world_state.view import WorldStateView

__all__ = ["View"]


@dataclass(frozen=True, slots=True)
class View:
    """``chain`` and ``state`` are immutable and belong to the same tip.

    ``state`` is None in a node that serves the chain without its trees.  ``key`` stands for the view where holding the
    view itself would keep its databases open.
    """

    chain: ChainView
    state: WorldStateView | None = None
    key: object = field(default_factory=object, compare=False, repr=False)
