"""A node from its settings to its end, in four stages.

    foundation  the ports listen and say that the node starts; the data directory is locked, the databases are open
    core        the chain is known; everything that methods read is there, at the newest stored block
    equipment   all parts are there that do more than answer: peers, sequencer, prover, fleet, webhooks
    service     requests are answered; a thread feeds the chain from its sources: a chain file, then other nodes

Each stage is a frozen value, made by a function from the one before.  What a stage opens it puts on one exit stack,
so that a stop, and a start that fails, close everything in the reverse order.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from fastnode.app.ground.seat import OwnSeat
from fastnode.app.ground.start_wait import StartWait
from fastnode.app.ground.takeover import FIRST_PROCESS, FirstProcess, Resetting
from fastnode.app.process import service as service_stage
from fastnode.app.process.reset import ResetRequest
from fastnode.app.process.service import Service, serve
from fastnode.app.process.value_checks import check_values
from fastnode.app.roles.equipment import Equipment, equip
from fastnode.app.stages.core import Core, join_network
from fastnode.app.stages.foundation import Foundation, open_node
from fastnode.config.settings import Settings
from fastnode.records import dataclass
from fastnode.serving.server import HttpServer, RpcServer
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.serving.webhooks import Hook
    from fastnode.workers.seat import PrimarySeat

__all__ = ["Node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A running node.  ``start`` and ``stop`` belong to one event loop."""

    foundation: Foundation
    core: Core
    equipment: Equipment
    service: Service
    #: Reset that a method of a local network asks for; None: there can be none.
    reset: ResetRequest
    stack: AsyncExitStack

    @classmethod
    async def start(
        cls,
        settings: Settings,
        seat: OwnSeat | PrimarySeat | None = None,
        resetting: Resetting | FirstProcess = FIRST_PROCESS,
    ) -> Node:
        """``seat``: it is the primary of a node with workers; ``resetting``: what a local network goes on with.

        SettingError, StartError or DatabaseError, with everything closed again, when the node cannot start."""
        check_values(settings)
        hooks = _read_webhooks(settings)  # before anything opens
        start_wait = StartWait()
        telling = asyncio.ensure_future(start_wait.tell())
        stack = AsyncExitStack()
        try:
            foundation = await open_node(settings, start_wait, stack, seat or OwnSeat(), resetting)
            start_wait.stage += 1
            core = await join_network(foundation, stack)
            start_wait.stage += 1
            reset = ResetRequest.of(core)
            equipment = await equip(core, hooks)
            start_wait.stage += 1
            service = await serve(equipment, stack)
        except BaseException:
            await stack.aclose()
            raise
        finally:
            telling.cancel()  # not awaited: a stop that came here would close nothing
        return cls(foundation=foundation, core=core, equipment=equipment, service=service, reset=reset, stack=stack)

    async def wait_for_failure(self) -> None:
        """Never returns; raises what ended ingestion."""
        await self.service.failure

    async def stop(self) -> None:
        """Answer what is being answered, finish the block being written, close everything."""
        await self.stack.aclose()

    def reload_limits(self) -> None:
        """Read the limits of clients again; if anything is wrong with them, those from before stay."""
        settings = self.settings
        service_stage.reload_limits(self.service, settings.rpc_limits, are_shared=settings.bus_share_limits)

    # ---- what others look at ----------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.foundation.settings

    @property
    def view(self) -> View | None:
        """View that a request that comes now is answered from; None once the node has stopped."""
        return self.core.views.newest

    @property
    def public(self) -> RpcServer:
        return self.service.public

    @property
    def admin(self) -> RpcServer:
        return self.service.admin

    @property
    def l1_clock(self) -> RpcServer | None:
        return self.service.l1_clock

    @property
    def explorer(self) -> HttpServer | None:
        return self.service.explorer

    @property
    def metrics(self) -> HttpServer | None:
        return self.service.metrics


def _read_webhooks(settings: Settings) -> tuple[list[Hook], bytes] | None:
    if settings.webhook_url is None:
        return None
    from fastnode.app.roles.webhooks import read_webhooks

    return read_webhooks(settings)
