"""A node from its settings to its end, in four stages.

    opened    the ports listen and say that the node starts; the data directory is locked, the databases are open
    joined    the chain is known; everything that methods read is there, at the newest stored block
    equipped  all parts are there that do more than answer: peers, sequencer, prover, fleet, webhooks
    serving   requests are answered; a thread feeds the chain from its sources: a chain file, then other nodes

Each stage is a frozen value, made by a function from the one before.  What a stage opens it puts on one exit stack,
so that a stop, and a start that fails, close everything in the reverse order.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from fastnode.app.ground.start_wait import Awaiting
from fastnode.app.process import service as serving_stage
from fastnode.app.process.service import Serving, serve
from fastnode.app.roles.equipment import Equipped, equip
from fastnode.app.stages.core import Joined, join_network
from fastnode.app.stages.foundation import Opened, open_node
from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings
from fastnode.records import dataclass
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.app.ground.takeover import Resetting
    from fastnode.serving.webhooks import Hook
    from fastnode.workers.seat import PrimarySeat

__all__ = ["Node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A running node.  ``start`` and ``stop`` belong to one event loop."""

    opened: Opened
    joined: Joined
    equipped: Equipped
    serving: Serving
    stack: AsyncExitStack

    @classmethod
    async def start(
        cls, settings: Settings, seat: PrimarySeat | None = None, resetting: Resetting | None = None
    ) -> Node:
        """``seat``: it is the primary of a node with workers; ``resetting``: what a local network goes on with.

        SettingError, StartError or DatabaseError, with everything closed again, when the node cannot start."""
        check_settings(settings)
        hooks = _read_webhooks(settings)  # before anything opens
        awaiting = Awaiting()
        telling = asyncio.ensure_future(awaiting.tell())
        stack = AsyncExitStack()
        try:
            opened = await open_node(settings, awaiting, stack, seat, resetting)
            joined = await join_network(opened, stack)
            equipped = await equip(joined, stack, hooks)
            serving = await serve(equipped, stack)
        except BaseException:
            await stack.aclose()
            raise
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return cls(opened=opened, joined=joined, equipped=equipped, serving=serving, stack=stack)

    async def wait_for_failure(self) -> None:
        """Never returns; raises what ended ingestion."""
        await self.serving.failure

    async def stop(self) -> None:
        """Answer what is being answered, finish the block being written, close everything."""
        await self.stack.aclose()

    def reload_limits(self) -> None:
        """Read the limits of clients again; if anything is wrong with them, those from before stay."""
        settings = self.settings
        serving_stage.reload_limits(self.serving, settings.rpc_limits, are_shared=settings.bus_share_limits)

    # ---- what others look at ----------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.opened.settings

    @property
    def view(self) -> View | None:
        """View that a request that comes now is answered from; None once the node has stopped."""
        return self.joined.views.newest

    @property
    def public(self) -> RpcServer:
        return self.serving.public

    @property
    def admin(self) -> RpcServer:
        return self.serving.admin

    @property
    def l1_clock(self) -> RpcServer | None:
        return self.serving.l1_clock

    @property
    def explorer(self) -> HttpServer | None:
        return self.serving.explorer

    @property
    def metrics(self) -> HttpServer | None:
        return self.serving.metrics


def _read_webhooks(settings: Settings) -> tuple[list[Hook], bytes] | None:
    if settings.webhook_url is None:
        return None
    from fastnode.app.roles.webhooks import read_webhooks

    return read_webhooks(settings)
