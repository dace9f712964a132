"""Each loop of a node goes on after whatever its sources raise, tells it, and has lost nothing once they behave.

The sources raise each kind of exception at any of the calls that a step makes; FASTNODE_SEED=N takes other calls.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry, Gauge
from tests.bus.conftest import server as server
from tests.bus.nats import open_bus
from tests.bus.txs import hash_of, tx_of
from tests.clock import Clock
from tests.conftest import PATIENCE_S
from tests.mempool.test_recovery import RefusedDatabase
from tests.mutated_answers import seed
from tests.sequencing.test_proposer import Slots
from tests.sources.l1.conftest import chain as chain
from tests.sources.l1.conftest import l1 as l1
from tests.sources.l1.conftest import network as network
from tests.sources.l1.derivation.deriving import QUICK
from tests.sources.l1.scripted_l1 import ScriptedL1
from tests.sources.made_chain import MadeChain
from tests.test_loop import KINDS
from tests.workers.test_links import Notes

from fastnode.app.stages.upkeep import Upkeep
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.bus import members
from fastnode.bus.budgets import SharedBudgets
from fastnode.bus.connection import Bus
from fastnode.bus.members import Heartbeat
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.bus.transactions import SharedTxs
from fastnode.chain_data import ChainData
from fastnode.errors import DatabaseUnwritable
from fastnode.loop import Loop
from fastnode.mempool.rules import Added
from fastnode.mempool.store import PoolStore
from fastnode.metrics.otlp import MetricsExport
from fastnode.outgoing.network import Network
from fastnode.protocol.releases import FOUR, Release
from fastnode.proving.prover import NEEDS_COMMAND, Prover, ProverOptions
from fastnode.sentinel.watch import OffenseThread
from fastnode.sequencing.validator import Validator
from fastnode.serving.webhooks import Hook, Webhook
from fastnode.sources.l1.rollup import Wanted
from fastnode.sources.l1.service import L1Options, L1Reader
from fastnode.sources.sync_control import SyncControl
from fastnode.view import View
from fastnode.workers.feed import Feed
from fastnode.workers.hub import Hub
from fastnode.workers.link import Link

TX = tx_of(1)
#: Longer than any pause of a loop, and real time in which one begins or ends a pause, or does something else.
_PAUSE_S, _AT_MOST_S = 60.0, 0.005


class Trying:
    """Stands before a source: what is left of KINDS is raised at some of its calls, each once."""

    def __init__(self, source: Any, chance: random.Random) -> None:
        self._source, self._chance = source, chance
        self.left: list[BaseException] = [type(kind)(*kind.args) for kind in KINDS]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._source, name)
        return self._tried(value) if callable(value) and not isinstance(value, Clock) else value

    def _tried(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*arguments: Any, **named: Any) -> Any:
            if self.left and self._chance.random() < 0.6:
                raise self.left.pop()
            return call(*arguments, **named)

        return tried


@dataclass(kw_only=True)
class Case:
    """``works``: true once the loop has done its work; ``begin`` starts it, ``nudge`` gives it something to do."""

    source: Trying
    loop: Loop
    trouble: Callable[[], object]
    works: Callable[[], object]
    begin: Callable[[], object]
    close: Callable[[], object]
    nudge: Callable[[], object] = lambda: None


class Parts:
    """Parts of a node that loops stand on."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._fixture = request.getfixturevalue
        self.chance = random.Random(seed(5))
        self.clock = Clock()
        self.directory: Path = self._fixture("tmp_path")
        self.view: View = self._fixture("view")
        self.subjects = Subjects.of(self.view.chain.chain.node_info)

    def l1(self) -> tuple[ScriptedL1, MadeChain, Network]:
        """L1, the chain on it, and the way to it."""
        return self._fixture("l1"), self._fixture("chain"), self._fixture("network")

    def tried(self, source: Any) -> Trying:
        return Trying(source, self.chance)

    @contextmanager
    def bus(self) -> Iterator[Bus]:
        bus = open_bus(self._fixture("server").url, clock=self.clock)
        try:
            yield bus
        finally:
            bus.close()


Builder = Callable[[Parts], Iterator[Case]]


def heartbeat(parts: Parts) -> Iterator[Case]:
    with parts.bus() as bus:
        source: Any = parts.tried(bus)
        beat = Heartbeat(source, parts.subjects, lambda: {"role": "replica"})
        yield Case(
            source=source,
            loop=beat._loop,
            trouble=lambda: beat.trouble,
            works=lambda: members.Members(bus, parts.subjects).all().get("node", {}).get("session") == beat.session,
            begin=beat.start,
            close=beat.close,
        )


def publisher(parts: Parts) -> Iterator[Case]:
    with parts.bus() as bus:
        source: Any = parts.tried(bus)
        publisher = Publisher(source, parts.subjects, lambda: parts.view)
        yield Case(
            source=source,
            loop=publisher._loop,
            trouble=lambda: publisher.trouble,
            works=lambda: (
                publisher.describe()["publishedBlock"] == parts.view.chain.tip_number
                and bus.last(parts.subjects.stream, parts.subjects.at("node")) is not None
            ),
            begin=publisher.start,
            close=publisher.close,
        )


def shared_budgets(parts: Parts) -> Iterator[Case]:
    spent: dict[str, float] = {}
    own = SimpleNamespace(take_spent=lambda: {client: spent.pop(client) for client in tuple(spent)}, charge=None)
    with parts.bus() as bus:
        Heartbeat(bus, parts.subjects, dict)._write()  # makes the bucket
        source: Any = parts.tried(bus)
        shared = SharedBudgets(source, parts.subjects, lambda: own, session="s")
        granted = parts.subjects.value("spent.node")
        yield Case(
            source=source,
            loop=shared._loop,
            trouble=lambda: shared.trouble,
            works=lambda: any(b'"somebody":' in each.data for each in bus.matching(parts.subjects.bucket, granted)),
            begin=shared.start,
            close=shared.close,
            nudge=lambda: spent.update(somebody=1.0),  # who has not asked for a while is forgotten
        )


class Pool:
    """Has one transaction, or takes it."""

    def __init__(self, waiting: set[bytes]) -> None:
        self.waiting, self.forwarded = waiting, set[bytes]()
        self.pool = self

    def receive(self, tx: Any, _view: View, *, forwarded: bool) -> Added:
        self.waiting.add(tx.hash)
        return Added.ACCEPTED

    def is_waiting(self, tx_hash: bytes) -> bool:
        return tx_hash in self.waiting

    def pending_hashes(self) -> list[bytes]:
        return list(self.waiting)

    def unforwarded_hashes(self) -> set[bytes]:
        return self.waiting - self.forwarded

    def waits_for_block(self, tx_hash: bytes) -> bool:
        return tx_hash in self.waiting

    def unforwarded_since(self, tx_hash: bytes) -> float | None:
        return 0.0 if tx_hash in self.unforwarded_hashes() else None

    def mark_forwarded(self, tx_hash: bytes) -> None:
        self.forwarded.add(tx_hash)

    def tx_json(self, _tx_hash: bytes) -> bytes:
        return json.dumps(TX).encode()


def read_transactions(parts: Parts) -> Iterator[Case]:
    """One node shares a transaction; the other reads it."""
    tx_hash = bytes.fromhex(hash_of(TX)[2:])
    untyped: Any = Pool({tx_hash}), Pool(set())
    giver, taker = untyped
    with parts.bus() as bus:
        source: Any = parts.tried(bus)
        members_: Any = None
        one = SharedTxs(bus, parts.subjects, giver, lambda: parts.view, members_, session="1")
        other = SharedTxs(source, parts.subjects, taker, lambda: parts.view, members_, session="2")
        one._read_some()
        yield Case(
            source=source,
            loop=other._reader,
            trouble=lambda: other.troubles()["sharedTransactions"],
            works=lambda: tx_hash in taker.waiting,
            begin=other._reader.start,
            close=other.close,
        )


def hand_transactions_on(parts: Parts) -> Iterator[Case]:
    pool: Any = Pool(set())
    with parts.bus() as bus:
        source: Any = parts.tried(bus)

        def send() -> None:
            if source.left:
                pool.waiting.add(parts.chance.randbytes(32))

        sink: Any = parts.tried(SimpleNamespace(forward=lambda _tx_json, _is_wanted: True))
        sink.left = source.left
        nobody: Any = SimpleNamespace(is_dead=lambda *_: False)
        txs = SharedTxs(source, parts.subjects, pool, lambda: parts.view, nobody, session="s", sink=sink)
        SharedTxs(bus, parts.subjects, pool, lambda: parts.view, nobody, session="t")._read_some()  # makes the stream
        yield Case(
            source=source,
            loop=txs.handing_on.loop,
            trouble=lambda: txs.troubles()["forwarding"],
            works=lambda: pool.forwarded == pool.waiting and not txs.handing_on._unsaid,
            begin=txs.handing_on.start,
            close=txs.close,
            nudge=send,
        )


def prove(parts: Parts) -> Iterator[Case]:
    facts = SimpleNamespace(rollup=bytes(20))
    reader = SimpleNamespace(seen=lambda: (facts, None), run=lambda _work: False, clock=parts.clock)
    source: Any = parts.tried(reader)
    work: Any = parts.tried(SimpleNamespace(work=lambda: None))
    work.left = source.left
    nobody: Any = None
    prover = Prover(source, lambda: parts.view, work, nobody, ProverOptions(prover_id=bytes(20)), nobody)
    yield Case(
        source=source,
        loop=prover._loop,
        trouble=lambda: prover._loop.trouble,
        works=lambda: prover.state == NEEDS_COMMAND,
        begin=prover.start,
        close=prover.stop,
    )


def send_metrics(parts: Parts) -> Iterator[Case]:
    registry = CollectorRegistry()
    Gauge("aztec_archiver_block_height", "Blocks", registry=registry)
    exported = threading.Event()

    def export(_data: Any) -> MetricExportResult:
        exported.set()
        return MetricExportResult.SUCCESS

    resource = Resource.create({})
    metrics = MetricsExport(
        "http://127.0.0.1:9/", registry, interval_s=60, timeout_s=0.1, resource=resource, clock=parts.clock
    )
    metrics._exporter.shutdown()
    source = parts.tried(SimpleNamespace(export=export, shutdown=lambda: None))
    untyped: Any = metrics
    untyped._exporter = source
    yield Case(
        source=source,
        loop=metrics._loop,
        trouble=lambda: metrics.troubles()["metricsCollector"],
        works=exported.is_set,
        begin=metrics.start,
        close=metrics.close,
    )


def look_for_offenses(parts: Parts) -> Iterator[Case]:
    looked = threading.Event()
    source: Any = parts.tried(SimpleNamespace(look=lambda _view: looked.set(), clock=parts.clock))
    thread = OffenseThread(source, lambda: True)
    committed: Any = SimpleNamespace(view=parts.view)
    yield Case(
        source=source,
        loop=thread._loop,
        trouble=lambda: thread.fault,
        works=looked.is_set,
        begin=thread.start,
        close=thread.close,
        nudge=lambda: thread.on_committed(committed),
    )


def recover_the_pool(parts: Parts) -> Iterator[Case]:
    database = RefusedDatabase()
    source: Any = parts.tried(database)
    left, source.left = source.left, []
    store = PoolStore(source, parts.clock)
    staged = 0

    def refuse() -> None:
        nonlocal staged
        if staged and not (left and store.fault is None):
            return
        source.left, database.refuses = [], True
        with pytest.raises(DatabaseUnwritable):
            store.commit(store.stage([(bytes([staged]), b"")]))
        staged += 1
        source.left, database.refuses = left, False

    yield Case(
        source=source,
        loop=store._recovery,
        trouble=lambda: store.fault,
        works=lambda: not left and database.written == [(bytes([number]), b"") for number in range(staged)],
        begin=refuse,
        close=store._recovery.close,
        nudge=refuse,
    )


def read_l1(parts: Parts) -> Iterator[Case]:
    l1, chain, network = parts.l1()
    reader = L1Reader([l1.url], network, L1Options(drift_max_s=0), patience=QUICK, clock=parts.clock)
    reader.learn(Wanted.of(chain.chain_record["nodeInfo"]))
    untyped: Any = reader
    source = untyped._client = parts.tried(reader._client)
    with ChainData.open(parts.directory / "data") as data:
        data.store.adopt_chain(ChainRecord.from_json(chain.chain_record), GenesisRecord.from_json(chain.genesis))
        with closing(data.store.open_view()) as stored:
            yield Case(
                source=source,
                loop=reader._loop,
                trouble=lambda: reader.trouble,
                works=lambda: reader.describe()["block"] == l1.head.number and reader.messages_of(1) is not None,
                begin=lambda: reader.begin(lambda: stored),
                close=reader.close,
            )


def deliver_webhooks(parts: Parts) -> Iterator[Case]:
    sent: list[bytes] = []

    def post(_url: str, body: bytes, _limits: object, _headers: object) -> Any:
        sent.append(body)
        return SimpleNamespace(status=200, headers={})

    source: Any = parts.tried(SimpleNamespace(post=post))
    hook = Webhook(
        Hook("http://127.0.0.1:9/#blocks&from=1"),
        b"s" * 16,
        parts.directory / "cursors",
        lambda: parts.view,
        source,
        clock=parts.clock,
    )
    numbers = list(range(1, parts.view.chain.tip_number + 1))
    yield Case(
        source=source,
        loop=hook.loop,
        trouble=lambda: hook.trouble,
        works=lambda: [json.loads(body)["data"].get("number") for body in sent] == numbers,
        begin=hook.loop.start,
        close=hook.loop.close,
    )


def look_at_slots(parts: Parts) -> Iterator[Case]:
    slots = Slots(elapsed_s=2, clock=parts.clock)
    sequencer: Any = slots.sequencer
    source = sequencer._parts.reader = parts.tried(slots.reader)
    for name in ("candidates", "chain"):
        other = parts.tried(getattr(sequencer._parts, name))
        other.left = source.left
        setattr(sequencer._parts, name, other)
    sequencer._parts.publisher = SimpleNamespace(warm_up=lambda: None)
    yield Case(
        source=source,
        loop=sequencer.loop,
        trouble=lambda: sequencer.loop.trouble,
        works=lambda: slots.looked_at == [100],
        begin=sequencer.start,
        close=lambda: (setattr(slots.chain, "close", lambda: None), sequencer.stop()),
    )


def judge_proposals(parts: Parts) -> Iterator[Case]:
    judged = threading.Event()
    facts = SimpleNamespace(epoch_duration=32)
    reader = SimpleNamespace(
        newest_timestamp=0,
        newest_block_may_be_old=True,
        slot_duration=12,
        seen=lambda: (facts, None),
        committees=SimpleNamespace(committee_of=lambda _epoch: judged.set()),
        clock=parts.clock,
    )
    source: Any = parts.tried(reader)
    untyped: Any = SimpleNamespace(
        reader=source, is_paused=lambda: False, signs=lambda: True, door=SimpleNamespace(attesters=lambda: ())
    )
    validator = Validator(untyped)
    proposal: Any = SimpleNamespace(slot=1, archive_root=bytes(32))
    yield Case(
        source=source,
        loop=validator._loop,
        trouble=lambda: validator._loop.trouble,
        works=judged.is_set,
        begin=validator.start,
        close=validator.stop,
        nudge=lambda: validator.offer(proposal),
    )


def give_room_back(parts: Parts) -> Iterator[Case]:
    """A state that has history to drop until it was asked for it often enough."""
    left_to_drop = [True] * 5
    giving_back = SimpleNamespace(is_due=False)
    state = SimpleNamespace(
        prune=lambda: bool(left_to_drop) and left_to_drop.pop(),
        thin=lambda: False,
        giving_back=giving_back,
        view=SimpleNamespace(oldest=1, thin=0),
    )
    source: Any = parts.tried(state)
    ingestor: Any = SimpleNamespace(
        between_blocks=lambda: nullcontext(True),
        pack_texts=lambda: False,
        is_far_behind=True,
        view=SimpleNamespace(oldest_body=1),
        store=SimpleNamespace(giving_back=giving_back),
    )
    upkeep = Upkeep(ingestor, source, SyncControl(), on_pruned=lambda: None, clock=parts.clock)
    yield Case(
        source=source,
        loop=upkeep._loop,
        trouble=lambda: upkeep.troubles()["upkeep"],
        works=lambda: not left_to_drop,
        begin=upkeep.start,
        close=upkeep.close,
    )


@contextmanager
def hub_of(parts: Parts, listener: socket.socket, source: Trying, feed: Any) -> Iterator[Hub]:
    left, source.left = source.left, []  # what is raised while a hub is made ends the start
    untyped: Any = source
    made = Hub(
        untyped if source._source is listener else listener,
        parts.directory,
        feed,
        workers=1,
        facts=lambda: "facts",  # type: ignore[arg-type,return-value]
        answers={},
        names=list,
        clock=parts.clock,
    )
    source.left = left
    yield made


def accept_workers(parts: Parts) -> Iterator[Case]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(parts.directory / "primary"))
        listener.listen()
        source = parts.tried(listener)
        with hub_of(parts, listener, source, Feed(())) as made:
            link = Link(parts.directory / "primary", 1, Notes())
            link.start()

            def come_and_go() -> None:
                # Where too many wait already there is enough to do.
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as worker, suppress(BlockingIOError):
                    worker.setblocking(False)
                    worker.connect(str(parts.directory / "primary"))

            yield Case(
                source=source,
                loop=made._accepting,
                trouble=lambda: made._accepting.trouble,
                works=made.reports,
                begin=made.start,
                close=lambda: (link.close(), made.close()),
                nudge=come_and_go,
            )


def tell_workers(parts: Parts) -> Iterator[Case]:
    told: list[bytes] = []
    source = parts.tried(SimpleNamespace(tell=told.append))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(parts.directory / "primary"))
        listener.listen()
        with hub_of(parts, listener, source, source) as made:
            yield Case(
                source=source,
                loop=made._telling,
                trouble=lambda: made._telling.trouble,
                works=lambda: told,
                begin=made.start,
                close=made.close,
            )


BUILDERS: tuple[Builder, ...] = (
    give_room_back,
    shared_budgets,
    hand_transactions_on,
    heartbeat,
    publisher,
    read_transactions,
    recover_the_pool,
    send_metrics,
    prove,
    look_for_offenses,
    look_at_slots,
    judge_proposals,
    deliver_webhooks,
    read_l1,
    accept_workers,
    tell_workers,
)


@pytest.fixture
def release() -> Release:
    """Release of the chains: loops are the same in all."""
    return FOUR


@pytest.fixture
def parts(request: pytest.FixtureRequest) -> Parts:
    return Parts(request)


@pytest.mark.parametrize("build", BUILDERS, ids=lambda build: build.__name__)
def test_a_loop_does_its_work_whatever_its_source_has_raised(build: Builder, parts: Parts) -> None:
    with contextmanager(build)(parts) as case:
        troubles: set[object] = set()
        case.begin()
        try:
            deadline = time.monotonic() + PATIENCE_S
            while case.source.left or not case.works() or case.trouble() is not None:
                assert time.monotonic() < deadline, (case.source.left, case.works(), case.trouble())
                troubles.add(case.trouble())
                case.nudge()
                case.loop.wake()
                parts.clock.pass_by(_PAUSE_S, at_most_s=_AT_MOST_S)
        finally:
            case.close()
        assert len(troubles - {None}) > 1, "it was said"
