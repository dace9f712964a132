"""The parts of a node that write to L1: what signs and pays, the sequencer, the prover; imported where wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastnode.app.proposing import Proposing
from fastnode.app.proving import Proving
from fastnode.app.publishing import Publishing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastnode.app.condition import Condition
    from fastnode.app.opened import Opened
    from fastnode.app.peers import PeerToPeer
    from fastnode.app.views import Views
    from fastnode.app.watching import Watching
    from fastnode.archiver.ingest import Ingestor
    from fastnode.config.configuration import NodeConfiguration
    from fastnode.keystore.validators import Validators
    from fastnode.mempool.service import Mempool
    from fastnode.protocol.tx import Tx
    from fastnode.sources.follower import Follower

__all__ = ["L1Writing"]


class L1Writing:
    """Writing to L1 by a node with ``--sequencer`` or ``--prover-node``.  StartError where it cannot do its work."""

    def __init__(self, opened: Opened) -> None:
        settings = opened.settings
        self._opened = opened
        self._publishing: Publishing | None = None
        self._proposing = Proposing(opened) if settings.sequencer else None
        self._proving = Proving(opened) if settings.prover_node else None

    @property
    def on_accepted(self) -> Callable[[Tx, bytes], None] | None:
        """Function that is told of each transaction of a client; None: no blocks are published."""
        if self._proposing is None or self._opened.settings.fisherman_mode:
            return None
        return self._proposing.on_accepted

    def join(
        self,
        ingestor: Ingestor,
        follower: Follower | None,
        views: Views,
        mempool: Mempool,
        condition: Condition,
        configuration: NodeConfiguration,
        validators: Validators,
        peers: PeerToPeer | None,
        watching: Watching,
    ) -> None:
        """Once the chain is known.  Close it whatever becomes of this."""
        assert follower is not None
        self._publishing = publishing = Publishing(self._opened, validators)
        condition.watch(publishing.faults)
        condition.mention(publishing.troubles)
        if self._proposing is not None:
            self._proposing.join(
                ingestor, follower, mempool, condition, configuration, publishing, views, peers, watching
            )
        if self._proving is not None:
            self._proving.join(views, mempool, condition, publishing)

    def start(self) -> None:
        for part in (self._publishing, self._proposing, self._proving):
            if part is not None:
                part.start()

    def stop(self) -> None:
        """Waits until what is being sent is decided or left; what is in flight stays on disk."""
        if self._publishing is not None:
            self._publishing.stop()
        for part in (self._proposing, self._proving):
            if part is not None:
                part.stop()

    def close(self) -> None:
        """May be called more than once."""
        if self._publishing is not None:
            self._publishing.close()

    def describe(self) -> dict[str, Any]:
        """For the status page and metrics."""
        assert self._publishing is not None
        return {
            "sequencer": None if self._proposing is None else self._proposing.describe(),
            "prover": None if self._proving is None else self._proving.describe(),
            "publishing": self._publishing.describe(),
        }
