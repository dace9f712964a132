"""The published view, and the subscribers to commits."""

from __future__ import annotations

from collections.abc import Callable

from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.queries import ChainView
from fastnode.kernels import simple_request
from fastnode.view import Committed, View
from fastnode.world_state.state import WorldState

__all__ = ["Views"]


class Views:
    """``published`` holds what a request that comes now is answered from; the engine reads it once per body.

    Subscribers are called in the thread that ingests, in the order in which they subscribed, after the view is
    published.  They subscribe before anything is ingested.
    """

    def __init__(self, state: WorldState, chain: ChainView) -> None:
        self.state = state
        self._subscribers: list[Callable[[Committed], None]] = []
        self.published: simple_request.Published[View | None] = simple_request.Published(self._first(chain))

    @property
    def newest(self) -> View | None:
        """None once the node has stopped."""
        return self.published.value

    def replace(self, view: View | None) -> None:
        """Publish a view; subscribers are not called."""
        self.published.publish(view)

    def show(self, chain: ChainView) -> None:
        """Publish what is stored, before anything is ingested."""
        self.published.publish(self._first(chain))

    def subscribe(self, on_committed: Callable[[Committed], None]) -> None:
        self._subscribers.append(on_committed)

    def subscribe_first(self, on_committed: Callable[[Committed], None]) -> None:
        """Before all who have subscribed: what they do comes after."""
        self._subscribers.insert(0, on_committed)

    def publish(self, commit: ChainCommit) -> None:
        """Called by ingestion, in its thread, when chain and state are at the same block."""
        view = self._at(commit.view)
        if view is not None:
            self.published.publish(view)
            committed = Committed(view, commit.blocks, commit.undone)
            for on_committed in self._subscribers:
                on_committed(committed)

    def _first(self, chain: ChainView) -> View:
        """After a crash the state may be behind the chain; until it has caught up the view has none."""
        return self._at(chain) or View(chain)

    def _at(self, chain: ChainView) -> View | None:
        state = self.state.view
        return View(chain, state) if state.tip.number == chain.tip_number else None
