"""This node among those of its fleet: what it publishes on the bus, what it shares there, what it tells of itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from fastnode import __version__
from fastnode.app.ground.part import Part
from fastnode.bus.budgets import LoopEnded, SharedBudgets
from fastnode.bus.members import Heartbeat, Members
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.bus.transactions import SharedTxs, Standing
from fastnode.errors import UpstreamUnavailable
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.tx import Tx
from fastnode.serving.version_headers import version_headers
from fastnode.snapshots.allowed_places import ON_BUS, public_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from fastnode.app.stages.core import Core
    from fastnode.bus.connection import Bus
    from fastnode.fees.sources import FeeSource
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed, View

__all__ = ["Fleet"]

#: Calls into what builds blocks here, each of which may wait for a block.
BUILDERS: Final = 4
#: Time that the event loop may take for a small thing, in seconds.
LOOP_S: Final = 5.0


class NoPublisher:
    """A replica publishes no blocks."""

    trouble: str | None = None

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def on_committed(self, committed: Committed) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        return {}


class Fleet(Part):
    def __init__(self, core: Core, bus: Bus, loop: asyncio.AbstractEventLoop) -> None:
        """``loop`` has the limits of clients."""
        settings, chain, views = core.foundation.settings, core.foundation.data.store.chain, core.views
        self._core = core
        self._bus = bus
        self._loop = loop
        self._is_replica = not settings.bus_publish
        self._upstream = core.source.bus
        #: Builds blocks here from the transactions that it is called with; None: nothing does.
        self._build = core.source.build
        self._builders = ThreadPoolExecutor(BUILDERS, thread_name_prefix="fastnode-built")
        self._closing = threading.Lock()
        self._subjects = subjects = Subjects.of(chain.node_info)
        self._publisher: Publisher | NoPublisher = NoPublisher()
        if settings.bus_publish:
            self._publisher = Publisher(
                bus, subjects, lambda: views.newest, terms=self._terms, snapshots=self._snapshots
            )
        self._members = Members(bus, subjects)
        self._heartbeat = Heartbeat(bus, subjects, self._describe_self)
        self._txs = SharedTxs(
            bus,
            subjects,
            core.mempool,
            lambda: views.newest,
            self._members,
            session=self._heartbeat.session,
            sink=core.peers.fleet_sink,
            on_accepted=None if self._build is None else self._build_later,
        )
        self._budgets: SharedBudgets | None = None
        #: Parts on the bus, in the order in which they start.
        self._parts: list[Heartbeat | Publisher | NoPublisher | SharedTxs | SharedBudgets] = [
            self._heartbeat,
            self._publisher,
            self._txs,
        ]
        core.mempool.watch_accepted(self._share)
        core.mempool.watch_repeated(self._txs.share_repeated)

    # ---- its life --------------------------------------------------------------------------------

    def start(self, public: RpcServer) -> None:
        """From now on tell the others, and hear them."""
        if self._core.foundation.settings.bus_share_limits:
            self._budgets = SharedBudgets(
                self._bus,
                self._subjects,
                lambda: public.rate_limits,
                session=self._heartbeat.session,
                in_loop=lambda work: _in_loop(self._loop, work),
            )
            self._parts.append(self._budgets)
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        with self._closing:
            for part in reversed(self._parts):
                part.close()
            self._builders.shutdown(wait=False, cancel_futures=True)
            self._bus.close()

    def close(self) -> None:
        self.stop()

    def on_committed(self, committed: Committed) -> None:
        self._upstream.on_committed(committed)
        self._publisher.on_committed(committed)

    # ---- transactions ----------------------------------------------------------------------------

    def _share(self, tx: Tx, tx_json: bytes) -> None:
        """A client's transaction is in the pool: returns when all nodes will have it.  Refused."""
        self._txs.share(tx, tx_json)
        if self._build is not None:
            self._build(tx, tx_json)

    def standing_of(self, tx_hash: bytes) -> Standing | None:
        """Standing, in the other nodes, of a transaction that is not in the pool here.  UpstreamUnavailable."""
        if not self._bus.is_connected:
            raise UpstreamUnavailable("the bus is not connected")
        return self._txs.standing_of(tx_hash)

    def _build_later(self, tx: Tx, tx_json: bytes) -> None:
        assert self._build is not None
        with suppress(RuntimeError):  # the node is stopping
            self._builders.submit(self._build, tx, tx_json)

    # ---- what it says ----------------------------------------------------------------------------

    def _terms(self, view: View) -> dict[str, Any]:
        mempool = self._core.mempool
        headers = version_headers(
            self._core.foundation.data.store.chain,
            mempool.network.node_version,
            vk_tree_root=mempool.network.vk_tree_root,
            protocol_contracts_hash=mempool.network.protocol_contracts_hash,
        )
        return {
            "fees": _fees_of(self._core.source.fees, view),
            "allowedPublicSetup": [element.to_json() for element in mempool.allow_list],
            "headers": {name.lower(): value for name, value in headers},
        }

    def _snapshots(self) -> dict[str, Any] | None:
        locations, uploads = self._core.foundation.settings.snapshot_upload_locations, self._core.uploads
        if not locations and not (uploads.last_place or "").startswith(ON_BUS):
            return None
        return {"location": public_form(locations[0]) if locations else None, "block": uploads.last_block}

    def _describe_self(self) -> dict[str, Any]:
        view = self._core.views.newest
        wrong = [f"{name}: {reason}" for name, reason in self.troubles().items() if reason is not None]
        return {
            "role": "replica" if self._is_replica else "publisher",
            "release": __version__,
            "tip": None if view is None else view.chain.tip_number,
            "lagMs": self._upstream.describe_bus().get("lagMs"),
            "handsOn": self._txs.handing_on.lease.is_held,
            "trouble": "; ".join(wrong) or None,
        }

    def describe(self) -> Mapping[str, Any]:
        return {"fleet": self._describe(with_nodes=True)}

    def _describe(self, *, with_nodes: bool) -> dict[str, Any]:
        """This node on the bus, and all nodes as they tell of themselves, which takes a question to the bus."""
        counts = self._bus.counts
        described: dict[str, Any] = {
            "name": self._bus.options.name,
            "connected": self._bus.is_connected,
            "received": counts["received"],
            "published": counts["published"],
            "reconnections": counts["reconnections"],
            "transactions": dict(self._txs.counts),
            "handsOn": self._txs.handing_on.lease.is_held,
        }
        described |= self._publisher.describe()
        return described | self._upstream.describe_bus() | {"nodes": self._nodes() if with_nodes else []}

    def _nodes(self) -> list[dict[str, Any]]:
        if not self._bus.is_connected:
            return []
        try:
            values = self._members.all()
        except UpstreamUnavailable:
            return []
        kept = ("role", "release", "tip", "lagMs", "handsOn", "trouble")
        return [{"name": name} | {key: value.get(key) for key in kept} for name, value in sorted(values.items())]

    def troubles(self) -> dict[str, str | None]:
        bus = self._bus.trouble or self._publisher.trouble
        shared = {} if self._bus.trouble is not None else self._txs.troubles()
        budgets = {} if self._budgets is None else {"budgets": self._budgets.trouble}
        return {"bus": bus} | shared | {"heartbeat": self._heartbeat.trouble} | budgets

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.fleet import fleet_metrics

        # A thousand replicas that ask for each other at each scrape would be a load of its own.
        return fleet_metrics(self._describe(with_nodes=not self._is_replica))


def _in_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Any]) -> Any:
    """Run ``work`` in the loop and return its result; LoopEnded when the loop has ended."""

    async def run() -> Any:
        return work()

    doing = run()
    try:
        return asyncio.run_coroutine_threadsafe(doing, loop).result(LOOP_S)
    except RuntimeError as error:
        doing.close()
        if loop.is_closed():
            raise LoopEnded("the event loop has ended") from error
        raise


def _fees_of(fees: FeeSource, view: View) -> dict[str, Any]:
    predicted = {usage.value: fees.predicted(view, usage) for usage in ManaUsage}
    return {
        "current": fees.current(view).to_json(),
        "predicted": {str(usage): [each.to_json() for each in values] for usage, values in predicted.items() if values},
    }
