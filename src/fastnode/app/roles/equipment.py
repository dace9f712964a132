"""The third stage of a node: it has all its parts, those that its methods ask and those that work beside them.

A new role is a module of ``roles/`` and its lines in :func:`_open`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from fastnode.app.ground.part import Part
from fastnode.app.stages.core import Core
from fastnode.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from fastnode.app.roles.fleet import Fleet
    from fastnode.app.roles.l1_writer import L1Writer
    from fastnode.app.roles.peers import Peers
    from fastnode.serving.webhooks import Hook

__all__ = ["Equipment", "equip"]

_P = TypeVar("_P", bound=Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    core: Core
    #: In the order in which they start.
    parts: tuple[Part, ...]
    #: Parts that methods ask; None: the node has no such part.
    peers: Peers | None
    fleet: Fleet | None

    def describe(self) -> dict[str, Any]:
        """Members of the object that the status page is made of."""
        return {name: value for part in self.parts for name, value in part.describe().items()}

    def metrics(self) -> Iterator[Metric]:
        for part in self.parts:
            yield from part.metrics()


async def equip(core: Core, stack: AsyncExitStack, hooks: tuple[list[Hook], bytes] | None) -> Equipment:
    """``hooks``: webhooks and the secret that signs their messages; None: there are none.

    StartError when a part cannot do its work.
    """
    loop = asyncio.get_running_loop()
    return await core.foundation.start_wait.in_thread(_open, core, stack, loop, hooks)


def _open(
    core: Core,
    stack: AsyncExitStack,
    loop: asyncio.AbstractEventLoop,
    hooks: tuple[list[Hook], bytes] | None,
) -> Equipment:
    """In a thread.  A part is imported where it is wanted only, and is given the other parts that it needs."""
    settings, bus = core.foundation.settings, core.foundation.bus
    parts: list[Part] = []

    def add(part: _P) -> _P:
        parts.append(part)
        _connect(part, core, stack)
        return part

    writer: L1Writer | None = None
    peers: Peers | None = None
    fleet: Fleet | None = None
    if not settings.local_network and (settings.sequencer or settings.prover_node):
        from fastnode.app.roles.l1_writer import L1Writer

        writer = add(L1Writer(core))
    if core.gossip is not None:
        from fastnode.app.roles.peers import open_peers

        peers = add(open_peers(core, core.gossip, writer))
    if writer is not None and settings.sequencer:
        from fastnode.app.roles.sequencer import SequencerPart

        add(SequencerPart(core, writer, peers))
    if writer is not None and settings.prover_node:
        from fastnode.app.roles.prover import ProverPart

        add(ProverPart(core, writer))
    if bus is not None:
        from fastnode.app.roles.fleet import Fleet

        fleet = add(Fleet(core, bus, loop))
    if hooks is not None:
        from fastnode.app.roles.webhooks import WebhooksPart

        add(WebhooksPart(core, *hooks))
    return Equipment(core=core, parts=tuple(parts), peers=peers, fleet=fleet)


def _connect(part: Part, core: Core, stack: AsyncExitStack) -> None:
    stack.push_async_callback(asyncio.to_thread, part.close)
    core.views.subscribe(part.on_committed)
    core.condition.watch(part.faults)
    core.condition.mention(part.troubles)
    core.condition.tell(part.states)
