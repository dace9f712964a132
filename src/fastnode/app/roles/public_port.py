"""Part that answers on the public port: this process itself.  With workers they do (``workers.py``)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastnode.app.ground.part import Part
from fastnode.app.ground.servers import tell_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastnode.app.ground.method_tables import Services
    from fastnode.app.ground.servers import ServerParts
    from fastnode.app.stages.core import Core
    from fastnode.serving.server import RpcServer

__all__ = ["PublicPort"]


class PublicPort(Part):
    def __init__(self, core: Core) -> None:
        self._core = core

    def open(self, public: RpcServer, parts: ServerParts, services: Services) -> RpcServer:
        """Prepare ``public``, which does not answer yet; returns the server that is reported on.

        ``services``: all that methods ask.
        """
        core = self._core
        tell_events(public, parts, core.views.subscribe, core.mempool.pool, core.artifacts)
        return public

    def take_over(self, public: RpcServer) -> None:
        """From now on requests are answered."""
        public.take_over(self._core.foundation.ports.public)

    def begin_ingestion(self) -> None:
        """First of all in the thread that ingests."""

    async def announce_stop(self) -> None:
        """Go on serving until load balancers have noticed that /readyz fails."""
        delay_s = self._core.foundation.settings.shutdown_delay_s
        if delay_s:
            await asyncio.sleep(delay_s)

    async def until_served(self, is_stopping: Callable[[], bool]) -> None:
        """Wait until requests are answered."""
