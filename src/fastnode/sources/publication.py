"""When readers get to see a new view.

In a reorg the chain goes back before it goes forward again.  Readers keep the old view until the replacement
is as long, so they never see half of it, and nothing at all when the replacement turns out to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from fastnode.archiver.commit import ChainCommit

__all__ = ["Publication"]


class Publication:
    """Give it to the Ingestor as ``on_commit``.  Called from the thread that ingests only."""

    def __init__(self, publish: Callable[[ChainCommit], None]) -> None:
        self._publish = publish
        self._is_held = False
        self._held: ChainCommit | None = None

    def __call__(self, commit: ChainCommit) -> None:
        if self._is_held:
            self._held = commit if self._held is None else self._held.then(commit)
        else:
            self._publish(commit)

    def hold(self) -> None:
        self._is_held = True

    def release(self) -> None:
        """Hand on what was held back, as one commit, and all that follow at once."""
        self._is_held = False
        held, self._held = self._held, None
        if held is not None:
            self._publish(held)
