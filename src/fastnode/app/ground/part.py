"""The one form of what a node does beside answering: how each part is started, stopped, asked and told.

A part is made once the chain and the pool are known, and gets then all that it needs, other parts too
(``app/stages/core.py`` and ``app/roles/equipment.py`` add them to one list).  A method does nothing where a part has
nothing to do or to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed

__all__ = ["Part"]


class Part:
    # ---- life, in threads in which it may wait --------------------------------------------------------

    def start(self, public: RpcServer) -> None:
        """Begin once the ports answer, ``public`` that of clients; in the order of the list.  StartError."""

    def stop(self) -> None:
        """Begin nothing new, and end what waits: in the reverse order, while the ports still answer and the chain is
        fed.  Also where the start failed.
        """

    def close(self) -> None:
        """Give back what it holds, in the reverse order, once the chain is no longer fed.  Also where none began."""

    # ---- the chain ------------------------------------------------------------------------------------

    def on_committed(self, committed: Committed) -> None:
        """The chain has changed; in the thread that ingests, after the view is published."""

    # ---- reports, from any thread ---------------------------------------------------------------------

    def is_ready(self) -> bool:
        """False while the chain is not new enough to be served."""
        return True

    def sync_status(self) -> Mapping[str, Any]:
        """Members of the description of how the chain is followed."""
        return {}

    def faults(self) -> Mapping[str, str | None]:
        """Faults that keep it from its work, by name, None for nothing: the node is not ready with one."""
        return {}

    def troubles(self) -> Mapping[str, str | None]:
        """Troubles with which the node goes on serving, by name, None for nothing."""
        return {}

    def states(self) -> Mapping[str, str]:
        """Lines of /status, by name."""
        return {}

    def describe(self) -> Mapping[str, Any]:
        """Members of the object that the status page is made of."""
        return {}

    def metrics(self) -> Iterable[Metric]:
        return ()
