"""Parts of a node for its fleet, put together: the bus, what it publishes, what it shares and what it tells of itself.

fleet = Fleet(settings)                                  # connects in the background
fleet.join(...)                                          # once the chain is known
fleet.start()                                            # once the node serves
fleet.close()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from fastnode import __version__
from fastnode.app.views import Views
from fastnode.bus.budgets import LoopEnded, SharedBudgets
from fastnode.bus.connection import Bus
from fastnode.bus.members import Heartbeat, Members
from fastnode.bus.options import BusOptions
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.bus.transactions import SharedTxs, Standing
from fastnode.bus.upstream import BusUpstream
from fastnode.config.settings import Settings
from fastnode.errors import Refused, UpstreamUnavailable
from fastnode.fees.sources import FeeSource
from fastnode.jsonrpc.rate_limits import RateLimits
from fastnode.mempool.handover import TxSink
from fastnode.mempool.service import Mempool
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass
from fastnode.snapshots.allowed import public_form
from fastnode.snapshots.service import SnapshotUploads
from fastnode.view import View

__all__ = ["Fleet", "Parts"]

#: Calls into what builds blocks here, each of which may wait for a block.
BUILDERS: Final = 4
#: Time that the event loop may take for a small thing, in seconds.
LOOP_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts of the node that its fleet needs."""

    node_info: dict[str, Any]
    views: Views
    mempool: Mempool
    fees: FeeSource
    #: Version headers of this node's answers, which tell its network.
    headers: Callable[[], list[tuple[str, str]]]
    uploads: SnapshotUploads
    #: The bus as a followed node; None: the chain does not come from there.
    upstream: BusUpstream | None
    #: Other nodes that take transactions; None: there are none.
    sink: TxSink | None
    #: Builds blocks here from the transactions that it is called with; None: nothing does.
    builder: Callable[[Tx, bytes], None] | None


class Fleet:
    """SettingError for settings of the bus that make no sense; ModuleNotFoundError without its package."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.bus = Bus(BusOptions.of(settings))
        #: True if the chain comes from the bus.
        self.is_replica = not settings.bus_publish
        self._parts: Parts | None = None
        self._publisher: Publisher | None = None
        self._txs: SharedTxs | None = None
        self._members: Members | None = None
        self._heartbeat: Heartbeat | None = None
        self._budgets: SharedBudgets | None = None
        self._builders = ThreadPoolExecutor(BUILDERS, thread_name_prefix="fastnode-built")
        self._closing = threading.Lock()
        self.bus.start()

    def join(self, parts: Parts) -> None:
        """The chain is known."""
        self._parts = parts
        views = parts.views
        subjects = Subjects.of(parts.node_info)
        if parts.upstream is not None:
            views.subscribe(parts.upstream.on_committed)
        if not self.is_replica:
            self._publisher = Publisher(
                self.bus, subjects, lambda: views.newest, terms=self._terms, snapshots=self._snapshots
            )
            views.subscribe(self._publisher.on_committed)
        self._members = Members(self.bus, subjects)
        self._heartbeat = Heartbeat(self.bus, subjects, self._describe_self)
        self._txs = SharedTxs(
            self.bus,
            subjects,
            parts.mempool,
            lambda: views.newest,
            self._members,
            session=self._heartbeat.session,
            sink=parts.sink,
            on_accepted=None if parts.builder is None else self._build,
        )

    def share(self, tx: Tx, tx_json: bytes) -> None:
        """A client's transaction is in the pool: returns when all nodes will have it.  Refused."""
        if self._txs is None or self._parts is None:
            raise Refused("The node is starting; try again later", data={"code": "BUS_UNAVAILABLE"})
        self._txs.share(tx, tx_json)
        if self._parts.builder is not None:
            self._parts.builder(tx, tx_json)

    def standing_of(self, tx_hash: bytes) -> Standing | None:
        """Standing, in the other nodes, of a transaction that is not in the pool here.  UpstreamUnavailable."""
        if self._txs is None or not self.bus.is_connected:
            raise UpstreamUnavailable("the bus is not connected")
        return self._txs.standing_of(tx_hash)

    def _build(self, tx: Tx, tx_json: bytes) -> None:
        assert self._parts is not None
        assert self._parts.builder is not None
        with suppress(RuntimeError):  # the node is stopping
            self._builders.submit(self._parts.builder, tx, tx_json)

    # ---- what it says ----------------------------------------------------------------------------

    def _terms(self, view: View) -> dict[str, Any]:
        assert self._parts is not None
        return {
            "fees": _fees_of(self._parts.fees, view),
            "allowedPublicSetup": [element.to_json() for element in self._parts.mempool.allow_list],
            "headers": {name.lower(): value for name, value in self._parts.headers()},
        }

    def _snapshots(self) -> dict[str, Any] | None:
        locations = self._settings.snapshot_upload_locations
        if not locations or self._parts is None:
            return None
        return {"location": public_form(locations[0]), "block": self._parts.uploads.last_block}

    def _describe_self(self) -> dict[str, Any]:
        parts = self._parts
        assert parts is not None
        view = parts.views.newest
        lag = None if parts.upstream is None else parts.upstream.describe_bus()["lagMs"]
        wrong = [f"{name}: {reason}" for name, reason in self.troubles().items() if reason is not None]
        return {
            "role": "replica" if self.is_replica else "publisher",
            "release": __version__,
            "tip": None if view is None else view.chain.tip_number,
            "lagMs": lag,
            "handsOn": self._txs is not None and self._txs.lease.is_held,
            "trouble": "; ".join(wrong) or None,
        }

    def describe(self, *, with_nodes: bool = True) -> dict[str, Any]:
        """This node on the bus, and all nodes as they tell of themselves, which takes a question to the bus."""
        upstream = None if self._parts is None else self._parts.upstream
        counts = self.bus.counts
        described: dict[str, Any] = {
            "name": self.bus.options.name,
            "connected": self.bus.is_connected,
            "received": counts["received"],
            "published": counts["published"],
            "reconnections": counts["reconnections"],
            "transactions": {} if self._txs is None else dict(self._txs.counts),
            "handsOn": self._txs is not None and self._txs.lease.is_held,
        }
        if self._publisher is not None:
            described |= self._publisher.describe()
        if upstream is not None:
            described |= upstream.describe_bus()
        return described | {"nodes": self._nodes() if with_nodes else []}

    def _nodes(self) -> list[dict[str, Any]]:
        if self._members is None or not self.bus.is_connected:
            return []
        try:
            values = self._members.all()
        except UpstreamUnavailable:
            return []
        kept = ("role", "release", "tip", "lagMs", "handsOn", "trouble")
        return [{"name": name} | {key: value.get(key) for key in kept} for name, value in sorted(values.items())]

    def troubles(self) -> dict[str, str | None]:
        """Troubles with which the node goes on serving, by part; None for nothing."""
        publisher = self._publisher
        bus = self.bus.trouble or (None if publisher is None else publisher.trouble)
        shared = {} if self._txs is None or self.bus.trouble is not None else self._txs.troubles()
        heartbeat = {} if self._heartbeat is None else {"heartbeat": self._heartbeat.trouble}
        budgets = {} if self._budgets is None else {"budgets": self._budgets.trouble}
        return {"bus": bus} | shared | heartbeat | budgets

    # ---- its life --------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop, limits: Callable[[], RateLimits | None]) -> None:
        """From now on tell the others, and hear them.  ``limits`` of clients, which belong to the loop."""
        if self._settings.bus_share_limits and self._parts is not None and self._heartbeat is not None:
            self._budgets = SharedBudgets(
                self.bus,
                Subjects.of(self._parts.node_info),
                limits,
                session=self._heartbeat.session,
                in_loop=lambda work: _in_loop(loop, work),
            )
        for part in (self._heartbeat, self._publisher, self._txs, self._budgets):
            if part is not None:
                part.start()

    def close(self) -> None:
        """May be called more than once."""
        with self._closing:
            for part in (self._budgets, self._txs, self._publisher, self._heartbeat):
                if part is not None:
                    part.close()
            self._builders.shutdown(wait=False, cancel_futures=True)
            self.bus.close()


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
