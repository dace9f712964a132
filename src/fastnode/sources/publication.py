"""When readers get to see a new view.

In a reorg the chain goes back before it goes forward again.  Readers keep the old view until the replacement
is as long, so they never see half of it, and nothing at all when the replacement turns out to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from fastnode.archiver.queries import ChainView

__all__ = ["Publication"]


class Publication:
    """Give it to the Ingestor as ``on_commit``.  Called from the thread that ingests only."""

    def __init__(self, publish: Callable[[ChainView], None]) -> None:
        self._publish = publish
        self._is_held = False
        self._newest: ChainView | None = None

    def __call__(self, view: ChainView) -> None:
        if self._is_held:
            self._newest = view
        else:
            self._publish(view)

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        """Hand on the newest view that was held back, and all that follow at once."""
        self._is_held = False
        newest, self._newest = self._newest, None
        if newest is not None:
            self._publish(newest)
