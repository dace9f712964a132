"""The workers of a node as seen from its primary: what they follow, and what it answers them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from fastnode.app.ground.priorities import come_last
from fastnode.app.roles.public_port import PublicPort
from fastnode.errors import FastnodeError, Refused, UpstreamError
from fastnode.log_index.function_names import NAMES_MAX
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.handover import NO_UPSTREAM
from fastnode.mempool.rules import Added
from fastnode.mempool.store import is_json_key
from fastnode.protocol.tx import Tx
from fastnode.workers.contents import ContentsWriter
from fastnode.workers.copies import CONTENTS_DIRECTORY
from fastnode.workers.counters import Counters, Totals
from fastnode.workers.facts import ChainTime, Facts
from fastnode.workers.feed import Feed
from fastnode.workers.groups import Together
from fastnode.workers.hub import COPIES_DIRECTORY, Hub

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.core import Metric

    from fastnode.app.ground.method_tables import Services
    from fastnode.app.ground.servers import ServerParts
    from fastnode.app.stages.core import Core
    from fastnode.sentinel.sentinel import Sentinel
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed, View
    from fastnode.workers.seat import PrimarySeat

__all__ = ["Workers"]

#: Interval of checks whether all workers serve, in seconds.
_LOOK_S: Final = 0.02
#: Signatures that are told to a worker that comes later, and their characters.
_SIGNATURES_MAX: Final = NAMES_MAX
_SIGNATURES_LENGTH_MAX: Final = 4_000_000


class Workers(PublicPort):
    """From here on every write is told, and every view shown."""

    def __init__(self, core: Core, seat: PrimarySeat) -> None:
        super().__init__(core)
        data, pool = core.foundation.data, core.mempool.pool
        self._seat = seat
        contents = ContentsWriter(data.directory.path / COPIES_DIRECTORY / CONTENTS_DIRECTORY, is_json_key)
        self._feed = Feed((data.store.database, data.state.database, pool.database), contents)
        self._hub: Hub | None = None
        view = core.views.newest
        if view is not None and view.state is not None:
            self._feed.show(view)
        # First of all: a view is shown before anything that it causes is written.
        core.views.subscribe_first(self._on_committed)

    @property
    def hub(self) -> Hub:
        assert self._hub is not None  # the servers are made before anything starts
        return self._hub

    def open(self, public: RpcServer, parts: ServerParts, services: Services) -> RpcServer:
        """Workers answer on the public port, and ``public`` stands for them; what they count is reported."""
        core, seat = self._core, self._seat
        public.stand_for(seat.port)
        totals = Totals(public)
        answers = _Answers(core, services)
        self._hub = hub = Hub(
            seat.listener,
            core.foundation.data.directory.path,
            self._feed,
            workers=seat.workers,
            facts=lambda: _facts(core, services),
            answers=answers.by_name(),
            names=answers.signatures,
            together=[Together("insert", answers.insert, answers.after_insert)],
            totals=totals,
            on_counted=answers.count,
        )
        answers.tell_names = hub.register_names
        core.operator.wait_until_seen = hub.wait_until_seen
        return cast("RpcServer", totals)

    def take_over(self, public: RpcServer) -> None:
        self.hub.start()

    def begin_ingestion(self) -> None:
        come_last()

    async def announce_stop(self) -> None:
        """Workers have done so."""

    async def until_served(self, is_stopping: Callable[[], bool]) -> None:
        """No other process answers on the public port."""
        os.kill(os.getppid(), signal.SIGUSR1)  # from here on the supervisor starts this process again when it goes
        while not self.hub.all_serve and not is_stopping():
            await asyncio.sleep(_LOOK_S)

    def stop(self) -> None:
        if self._hub is not None:
            self._hub.close()

    def _on_committed(self, committed: Committed) -> None:
        self._feed.show(committed.view)
        self.hub.look_again()

    def troubles(self) -> Mapping[str, str | None]:
        return {} if self._hub is None else self._hub.troubles()

    def metrics(self) -> Iterable[Metric]:
        from fastnode.workers.metrics import worker_metrics

        return worker_metrics(self.hub)


def _facts(core: Core, services: Services) -> Facts:
    mempool, condition = core.mempool, core.condition
    return Facts(
        health=condition.health(),
        no_transactions=condition.no_transactions_because(),
        closed=mempool.closed,
        sync_status=condition.sync_status(),
        is_paused=condition.is_paused,
        is_sample=condition.is_sample,
        rules=mempool.validator.rules,
        proofs_required=mempool.judge.required,
        hands_on=mempool.handover is not None,
        fees=core.source.fee_facts(),
        time=ChainTime.of(mempool.clock.now),
        record=None if services.own_record is None else services.own_record(),
        lineage=core.foundation.lineage.text,
    )


class _Answers:
    """Each but :meth:`insert` is called in a thread of its own; what is Refused is what the client is told."""

    def __init__(self, core: Core, services: Services) -> None:
        self._core = core
        self._services = services
        self._signatures: OrderedDict[str, None] = OrderedDict()
        self._signatures_length = 0
        self._lock = threading.Lock()
        self.tell_names: Callable[[list[str]], None] = lambda signatures: None

    @property
    def _view(self) -> View:
        view = self._core.views.newest
        assert view is not None  # workers are told of the end before the last view goes
        return view

    @property
    def _sentinel(self) -> Sentinel:
        assert self._services.sentinel is not None  # a worker without the method does not ask
        return self._services.sentinel

    def by_name(self) -> dict[str, Callable[..., Any]]:
        return {
            "consider": self.consider,
            "hand on": self.hand_on,
            "question": self.question,
            "find at peers": self.find_at_peers,
            "heard of peers": self.heard_of_peers,
            "validators stats": self.validators_stats,
            "stats of validators": self.stats_of_validators,
            "outbox roots": self.outbox_roots,
            "message index": self.message_index,
            "standing in the fleet": self.standing_in_fleet,
            "simulate": self.simulate,
            "register": self.register,
        }

    def insert(self, calls: Sequence[tuple[bytes, bytes, bytes]]) -> list[str | FastnodeError]:
        newcomers = [(PoolEntry.decode(tx_hash, record), tx_json) for tx_hash, record, tx_json in calls]
        outcomes = self._core.mempool.take(newcomers)
        return [outcome.value if isinstance(outcome, Added) else outcome for outcome in outcomes]

    def after_insert(self, outcome: str, call: tuple[bytes, bytes, bytes]) -> Callable[[], None] | None:
        tx_hash, _, tx_json = call
        return self._core.mempool.after_taking(tx_hash, tx_json, Added(outcome))

    def consider(self, tx_hash: bytes, record: bytes) -> str:
        return self._core.mempool.pool.consider_entry(PoolEntry.decode(tx_hash, record)).value

    def hand_on(self, tx_json: bytes) -> None:
        handover = self._core.mempool.handover
        if handover is None:
            raise Refused(NO_UPSTREAM)
        handover.ask(tx_json)

    def question(self, method: str, parameters: list[Any], max_age_s: float) -> Any:
        questions = self._services.questions
        if questions is None:
            raise Refused(NO_UPSTREAM)
        return questions.ask_cached(method, parameters, max_age_s)

    def find_at_peers(self, tx_hash: bytes) -> list[bytes]:
        ask_peers = self._services.ask_peers
        return [] if ask_peers is None else list(ask_peers(tx_hash))

    def heard_of_peers(self, slot: int, payload_hash: bytes | None) -> list[bytes]:
        heard = self._services.heard
        return [] if heard is None else list(heard(slot, payload_hash))

    def validators_stats(self) -> Any:
        return self._sentinel.validators_stats(self._view.chain)

    def stats_of_validators(self, addresses: Sequence[bytes], from_slot: int | None, to_slot: int | None) -> Any:
        return self._sentinel.stats_of_validators(self._view.chain, addresses, from_slot, to_slot)

    def outbox_roots(self, epoch: int) -> tuple[bool, list[bytes] | str]:
        outbox_roots = self._services.outbox_roots
        assert outbox_roots is not None
        try:
            return True, list(outbox_roots(epoch))
        except UpstreamError as error:
            return False, str(error)

    def message_index(self, message: bytes) -> int | None:
        message_index = self._services.message_index
        return None if message_index is None else message_index(message)

    def standing_in_fleet(self, tx_hash: bytes) -> tuple[bool, tuple[bool, str] | None]:
        """Pair: True if the bus has answered, and what the fleet knows of the transaction."""
        ask_fleet = self._services.ask_fleet
        try:
            standing = None if ask_fleet is None else ask_fleet(tx_hash)
        except UpstreamError:
            return False, None
        return True, None if standing is None else (standing.is_pending, standing.reason)

    def simulate(self, tx_json: bytes, skip_fee_enforcement: bool) -> bytes:
        view = self._view
        tx = Tx.from_json(orjson.loads(tx_json), view.chain.chain.release)
        return self._core.simulation.simulate(tx, view, skip_fee_enforcement=skip_fee_enforcement)

    def register(self, signature: str) -> None:
        self._core.function_names.register(signature)
        with self._lock:
            self._remember(signature)
        self.tell_names([signature])

    def _remember(self, signature: str) -> None:
        kept = self._signatures
        if signature not in kept:
            self._signatures_length += len(signature)
        kept[signature] = None
        kept.move_to_end(signature)
        while len(kept) > _SIGNATURES_MAX or self._signatures_length > _SIGNATURES_LENGTH_MAX:
            self._signatures_length -= len(kept.popitem(last=False)[0])

    def count(self, before: Counters | None, after: Counters) -> None:
        """Refused transactions and judged proofs count where those of the primary do."""
        mempool = self._core.mempool
        before = before or Counters()
        mempool.rejections.update(after.rejections - before.rejections)
        mempool.judge.verdicts.update(after.verdicts - before.verdicts)

    def signatures(self) -> list[str]:
        with self._lock:
            return list(self._signatures)
