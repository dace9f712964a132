"""State of the node, in one JSON object: what the status page asks for every other second.

Everything in it is a number that a part keeps for its own work, or comes from a fixed count of reads: the cost does not
grow with the chain.  Counters only ever rise; the page shows the differences.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

import orjson

from fastnode import __version__, kernels
from fastnode.archiver.progress import IngestionProgress
from fastnode.archiver.records import BlockInfo
from fastnode.http.health import Health
from fastnode.http.meters import DURATION_BOUNDS_NS, OTHER
from fastnode.mempool.service import Mempool
from fastnode.recent_blocks import RecentBlocks
from fastnode.records import dataclass
from fastnode.serving.server import RpcServer
from fastnode.status_page.log_tail import LogTail
from fastnode.view import TIPS, View, tip_numbers

__all__ = ["NodeSources", "Overview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """Parts that are read at each request of the page."""

    servers: Mapping[str, RpcServer]
    view: Callable[[], View | None]
    health: Callable[[], Health]
    progress: IngestionProgress
    log: LogTail
    recent: RecentBlocks = field(default_factory=RecentBlocks)
    mempool: Mempool | None = None
    #: State of following the chain; None when it is not followed.
    sync_status: Callable[[], dict[str, Any] | None] = lambda: None
    #: A local network, as of a view; None when the node is none.
    local_network: Callable[[View], dict[str, Any]] | None = None
    #: Members that parts of the node add.
    parts: Callable[[], Mapping[str, Any]] = dict


class Overview:
    def __init__(self, sources: NodeSources) -> None:
        self._sources = sources
        self._started_at = time.time()

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the page that the first numbers of this node need, beside those of every node."""
        sources = self._sources
        writes = _proposing(sources.parts()) is not None
        return ("local-network.js",) * (sources.local_network is not None) + ("proposing.js",) * writes

    def render(self, *, after: int = 0) -> bytes:
        """The object; of the log, the lines behind number ``after``.  Takes about a millisecond."""
        sources = self._sources
        view = sources.view()
        parts = sources.parts()
        return orjson.dumps(
            {
                "now": time.time(),
                "startedAt": self._started_at,
                "software": _software(),
                "health": _health(sources.health()),
                "chain": None if view is None else _chain(view, sources.recent),
                "sync": sources.sync_status(),
                "fleet": None,
                "peers": None,
                **parts,
                "proposing": _proposing(parts),
                "localNetwork": _local_network(sources, view),
                "ingestion": _ingestion(sources.progress),
                "pool": None if sources.mempool is None else _pool(sources.mempool),
                "ports": {name: _port(server) for name, server in sources.servers.items()},
                "calls": _calls(sources.servers),
                "log": [line._asdict() for line in sources.log.lines_after(after)],
            }
        )


def _proposing(parts: Mapping[str, Any]) -> dict[str, Any] | None:
    """All that writes to L1, together; None: nothing does."""
    if "publishing" not in parts:
        return None
    return {name: parts.get(name) for name in ("sequencer", "prover", "publishing")}


def _local_network(sources: NodeSources, view: View | None) -> dict[str, Any] | None:
    return None if view is None or sources.local_network is None else sources.local_network(view)


def _software() -> dict[str, str]:
    return {
        "version": __version__,
        "kernel": kernels.poseidon2.kernel_name(),
        "extensions": "twins" if kernels.USING_TWINS else "compiled",
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def _health(health: Health) -> dict[str, Any]:
    return {"notReady": health.not_ready, "failing": health.failing, "notes": dict(health.notes)}


# ---- chain -------------------------------------------------------------------------------------------


def _chain(view: View, recent: RecentBlocks) -> dict[str, Any]:
    chain = view.chain
    return {
        "l1ChainId": chain.chain.l1_chain_id,
        "rollupVersion": chain.chain.rollup_version,
        "networkVersion": chain.chain.node_version,
        "tips": _tips(view),
        "stateTip": None if view.state is None else view.state.tip.number,
        "blocks": [_block(view, info) for info in recent.newest(view)],
    }


def _tips(view: View) -> dict[str, dict[str, Any]]:
    tips = view.chain.tips
    blocks = (tips.proposed, tips.checkpointed.block, tips.proven.block, tips.finalized.block)
    checkpoints = (None, *(tip.checkpoint.number for tip in (tips.checkpointed, tips.proven, tips.finalized)))
    numbers = tip_numbers(view)
    return {
        name: {"block": numbers[name], "hash": _hex(block.hash), "checkpoint": checkpoint}
        for name, block, checkpoint in zip(TIPS, blocks, checkpoints, strict=True)
    }


def _block(view: View, info: BlockInfo) -> dict[str, Any]:
    return {
        "number": info.number,
        "hash": _hex(info.hash),
        "timestamp": info.timestamp,
        "slot": info.slot_number,
        "checkpoint": info.checkpoint_number,
        "txs": info.tx_count,
        "status": view.chain.block_status(info.number).decode(),
    }


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _ingestion(progress: IngestionProgress) -> dict[str, Any]:
    return {
        "blocks": progress.blocks,
        "txs": progress.txs,
        "reorgs": progress.undos,
        "deepestReorg": progress.deepest_undo,
        "seconds": sum(progress.seconds.values()),
    }


# ---- requests ----------------------------------------------------------------------------------------


def _pool(mempool: Mempool) -> dict[str, Any]:
    return {
        "pending": mempool.pool.pending_count,
        "limit": mempool.options.p2p_max_pending_tx_count,
        "rejections": dict(mempool.rejections),
        "lost": mempool.pool.lost_count,
        "proofs": mempool.judge.status(),
    }


def _port(server: RpcServer) -> dict[str, Any]:
    return {
        "port": server.port,
        "connections": server.connection_count,
        "turnedAway": server.turned_away_count,
        "receivedBytes": server.traffic.received_bytes,
        "sentBytes": server.traffic.sent_bytes,
        "rejected": dict(server.traffic.rejected),
        "faults": server.engine.internal_fault_count,
    }


def _calls(servers: Mapping[str, RpcServer]) -> dict[str, Any] | None:
    """``methods`` maps the name of each method that was called to the count of its errors, its nanoseconds and its
    calls per bucket; None without counts."""
    meters = [server.engine.meters for server in servers.values() if server.engine.meters is not None]
    if not meters:
        return None
    methods: dict[str, list[int]] = {}
    for meter in meters:
        for name in (*meter.names, None):
            counts, sum_ns = meter.calls.histogram(name)
            row = [sum(meter.calls.errors(name).values()), sum_ns, *counts]
            if any(row):
                key = OTHER if name is None else name
                methods[key] = [have + more for have, more in zip(methods.get(key, [0] * len(row)), row, strict=True)]
    return {"boundsNs": DURATION_BOUNDS_NS, "methods": methods}
