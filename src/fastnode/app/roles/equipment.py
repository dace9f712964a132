"""The third stage of a node: it has all its parts, those that its methods ask and those that work beside them.

A new role is a module of ``roles/`` and its lines in :func:`_open`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastnode.app.ground.method_tables import Services
from fastnode.app.ground.seat import OwnSeat
from fastnode.app.roles.public_port import PublicPort
from fastnode.app.stages.core import Core
from fastnode.mempool.known_txs import KnownTxs
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.app.roles.fleet import Fleet
    from fastnode.app.roles.l1_writer import L1Writer
    from fastnode.app.roles.peers import Peers
    from fastnode.app.stages.parts import Parts
    from fastnode.serving.webhooks import Hook

__all__ = ["Equipment", "equip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    core: Core
    #: All parts of the node, in the order in which they start.
    parts: Parts
    #: All that methods, here and in workers, ask of the parts of the node.
    services: Services
    #: Part that answers on the public port.
    public_port: PublicPort


async def equip(core: Core, hooks: tuple[list[Hook], bytes] | None) -> Equipment:
    """``hooks``: webhooks and the secret that signs their messages; None: there are none.

    StartError when a part cannot do its work.
    """
    loop = asyncio.get_running_loop()
    return await core.foundation.start_wait.in_thread(_open, core, loop, hooks)


def _open(core: Core, loop: asyncio.AbstractEventLoop, hooks: tuple[list[Hook], bytes] | None) -> Equipment:
    """In a thread.  A part is imported where it is wanted only, and is given the other parts that it needs."""
    settings, bus, seat, add = core.foundation.settings, core.foundation.bus, core.foundation.seat, core.parts.add
    if isinstance(seat, OwnSeat):
        public_port = add(PublicPort(core))
    else:
        from fastnode.app.roles.workers import Workers

        public_port = add(Workers(core, seat))
    writer: L1Writer | None = None
    peers: Peers | None = None
    fleet: Fleet | None = None
    if not settings.local_network and (settings.sequencer or settings.prover_node):
        from fastnode.app.roles.l1_writer import L1Writer

        writer = add(L1Writer(core))
    if core.peers.gossip is not None:
        from fastnode.app.roles.peers import open_peers

        peers = add(open_peers(core, core.peers.gossip, writer))
    if writer is not None and settings.sequencer:
        from fastnode.app.roles.sequencer import SequencerPart

        add(SequencerPart(core, writer, peers))
    if writer is not None and settings.prover_node:
        from fastnode.app.roles.prover import ProverPart

        add(ProverPart(core, writer))
    if bus is not None:
        from fastnode.app.roles.fleet import Fleet

        fleet = add(Fleet(core, bus, loop))
    if settings.snapshot_serve_port is not None:
        from fastnode.app.roles.leaf_sharing import LeafSharing

        add(LeafSharing(core))
    if hooks is not None:
        from fastnode.app.roles.webhooks import WebhooksPart

        add(WebhooksPart(core, *hooks))
    return Equipment(core=core, parts=core.parts, services=_services(core, peers, fleet), public_port=public_port)


def _services(core: Core, peers: Peers | None, fleet: Fleet | None) -> Services:
    mempool, condition, source = core.mempool, core.condition, core.source
    ask_peers = None if peers is None else peers.find_tx
    known_txs = KnownTxs(mempool.pool, source.questions, ask_peers)
    return Services(
        known_tags=core.foundation.data.indexes.known_tags,
        function_names=core.function_names,
        allow_list=lambda: mempool.allow_list,
        mempool=mempool,
        fees=source.fees,
        simulation=core.simulation,
        artifacts=core.artifacts,
        simulation_threads=core.simulation_threads,
        trace_threads=core.trace_threads,
        find_tx=known_txs.find,
        find_tx_here=known_txs.find_here,
        ask_peers=ask_peers,
        ask_fleet=None if fleet is None else fleet.standing_of,
        no_transactions=condition.no_transactions_because,
        sync_status=condition.sync_status,
        is_paused=lambda: condition.is_paused,
        is_sample=lambda: condition.is_sample,
        questions=source.questions,
        sentinel=core.validator_watch.sentinel,
        outbox_roots=source.outbox_roots,
        message_index=source.message_index,
        local_network=core.local_network.network,
        own_record=None if peers is None else peers.record,
        connected_peers=None if peers is None else peers.connected,
        heard=None if peers is None else peers.heard,
    )
