"""A primary and a replica in one process: what the one writes goes to the other frame by frame, when a test says so."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.serving.fixtures import Client

from fastnode.app.ground.method_tables import Services, public_methods
from fastnode.app.ground.views import Views
from fastnode.chain_data import ChainData
from fastnode.config.settings import Settings
from fastnode.http.fair_threads import FairThreads
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import MethodTable
from fastnode.log_index.known_tags import KnownTags
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.pool import Added, TxPool
from fastnode.mempool.store import POOL_DIRECTORY
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_file import ChainFileSource
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.sources.publication import Publication
from fastnode.workers.copies import ReplicaOptions
from fastnode.workers.feed import Feed
from fastnode.workers.frames import Kind, batch_of
from fastnode.workers.replica import Replica

_HEAD_BYTES = 5


class NobodyDecides:
    """No transaction is sent."""

    def insert(self, entry: PoolEntry, tx_json: bytes) -> Added:
        raise AssertionError

    def consider(self, entry: PoolEntry) -> Added:
        raise AssertionError

    def ask(self, tx_json: bytes) -> None:
        raise AssertionError


class Wire:
    """In place of a follower with its socket."""

    def __init__(self) -> None:
        self.frames: deque[bytes] = deque()
        self.is_closed = False

    def put(self, data: bytes) -> None:
        while data:
            length = _HEAD_BYTES + int.from_bytes(data[:4], "big")
            self.frames.append(data[:length])
            data = data[length:]

    def close(self) -> None:
        self.is_closed = True

    def deliver(self, replica: Replica) -> None:
        while self.frames:
            data = self.frames.popleft()
            kind, payload = Kind(data[_HEAD_BYTES - 1]), data[_HEAD_BYTES:]
            if kind is Kind.BATCH:
                replica.on_batch(*batch_of(payload))
            elif kind is Kind.COPY:
                replica.on_copy(pickle.loads(payload))
            elif kind is Kind.VIEW:
                assert replica.on_view(pickle.loads(payload))
                replica.after_view()


class Primary:
    """The sample chain, to be applied record by record, with a feed over its databases."""

    def __init__(self, path: Path, chain_file: Path) -> None:
        self.path = path
        self.data = ChainData.open(path)
        adopt_chain_file(self.data.store, chain_file)
        self.views = Views(self.data.state, self.data.store.open_view())
        self.publication = Publication(self.views.publish)
        self.ingestor = self.data.open_ingestor(verify=False, on_commit=self.publication)
        self.views.show(self.ingestor.view)
        chain = self.data.store.chain
        self.pool = TxPool.open(
            path / POOL_DIRECTORY, None, SlotClock.of_chain(chain), genesis_hash=chain.genesis_block_hash, release=FOUR
        )
        self.feed = Feed((self.data.store.database, self.data.state.database, self.pool.database))
        view = self.views.newest
        assert view is not None
        self.feed.show(view)
        self.views.subscribe(lambda committed: self.feed.show(committed.view))
        self.data.indexes.load_filter(self.ingestor.view)
        self._file = chain_file
        self._source = ChainFileSource(chain_file)
        self._records = self._source.records()

    def follow(self, target: Path) -> tuple[Replica, Wire]:
        """A replica at the newest view."""
        wire = Wire()
        replica = Replica(
            ReplicaOptions(cache_mb=32, tag_filter_mb=1, growth_percent=50), NobodyDecides(), on_first=lambda: None
        )
        self.feed.add(wire, target)  # type: ignore[arg-type]
        wire.deliver(replica)
        return replica, wire

    def apply(self, count: int) -> None:
        """The next ``count`` records of the chain file, or what is left of them."""
        for record in islice(self._records, count):
            self.ingestor.apply(record)

    def begin_again(self) -> None:
        """The records from the first one on; what is stored already is known."""
        self._source.close()
        self._source = ChainFileSource(self._file)
        self._records = self._source.records()

    def close(self) -> None:
        self._source.close()
        self.views.replace(None)
        self.pool.close()
        self.data.close()


def asking(published: Any, known_tags: KnownTags, runner: asyncio.Runner, threads: FairThreads) -> Client:
    """Questions to all methods that read the chain and its state."""
    table = MethodTable(public_methods(Settings(), Services(known_tags=known_tags, allow_list=tuple)), "both")
    return Client(Engine(table, published, executor=threads, busy_executor=threads), runner)


def batches(wire: Wire) -> Iterator[bytes]:
    """The batches that wait."""
    return (data for data in wire.frames if data[_HEAD_BYTES - 1] == Kind.BATCH)
