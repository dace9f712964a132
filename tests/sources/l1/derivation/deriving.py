"""A chain that is derived from L1, one pass after the other, as a test wants it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from tests.sources.l1.publishing import PublishingL1
from tests.sources.made_chain import MadeChain

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import ChainRecord, GenesisRecord, Record
from fastnode.chain_data import ChainData
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.protocol.tips import L2Tips
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobFetcher, BlobSources, FetchPatience
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.l1.rollup import Wanted
from fastnode.sources.l1.service import L1Options, L1Reader
from fastnode.sources.l1.source import L1Source

QUICK = Patience(unavailable_s=0.01, unavailable_max_s=0.05, aside_s=0.05, aside_max_s=0.05)
AT_ONCE = FetchPatience(retries_s=(0.0,), store_rounds_s=(0.0,), lie_rest_s=0.0)

Json = dict[str, Any]
#: How long L1 may take to be looked at without an error.
LOOK_S = 30.0


class Deriving:
    """Databases, L1 as their only source; passes are made by the test."""

    def __init__(
        self,
        directory: Path,
        chain: Json,
        genesis: Json,
        l1: PublishingL1,
        stack: ExitStack,
        sources: Callable[[HttpGet], BlobSources] | None = None,
        *,
        other_urls: Sequence[str] = (),
        urls: Sequence[str] | None = None,
        limits: ClientLimits | None = None,
        poll_interval_s: float = 0.005,
    ) -> None:
        network = Network()
        stack.callback(network.close)
        self.data = stack.enter_context(ChainData.open(directory))
        store = self.data.store
        if not store.has_chain:
            store.adopt_chain(ChainRecord.from_json(chain), GenesisRecord.from_json(genesis))
        self.ingestor: Ingestor = self.data.open_ingestor(verify="full")
        self.reader = L1Reader(
            [l1.url, *other_urls] if urls is None else urls,
            network,
            L1Options(poll_interval_s=poll_interval_s, drift_max_s=0),
            limits=limits,
            patience=QUICK,
        )
        stack.callback(self.reader.close)
        stack.callback(self.reader.interrupt)
        self.reader.learn(Wanted.of(chain["nodeInfo"]))
        self.reader.begin(lambda: self.ingestor.view)
        http = HttpGet(network) if limits is None else HttpGet(network, limits)
        given = (
            BlobSources(consensus=(BeaconNode(l1.beacon.url, http, "beacon 1"),)) if sources is None else sources(http)
        )
        executor = stack.enter_context(ThreadPoolExecutor(3))
        self.fetcher = BlobFetcher(given, executor, patience=AT_ONCE)
        self._executor = executor
        self.checks_attestations = True
        self.begin_anew()
        self.l1 = l1

    def begin_anew(self) -> None:
        """With a source that remembers nothing."""
        self.source = L1Source(
            self.reader,
            self.fetcher,
            self._executor,
            first_pause_s=0.0,
            checks_attestations=lambda: self.checks_attestations,
        )

    def look(self) -> None:
        """Until the newest block of L1 was looked at."""
        begun = time.monotonic()
        while True:
            self.reader._look_again()
            if self.reader._silence is None:
                return
            assert time.monotonic() - begun < LOOK_S, self.reader._silence
            time.sleep(0.001)  # L1 rests for a moment after an error

    def pass_(
        self, most: int | None = None, *, looks: bool = True, meanwhile: Callable[[int], None] = lambda count: None
    ) -> list[Record]:
        """``most``: records after which it is cut off; ``looks``: at L1, before; ``meanwhile`` is called after each
        record with their count."""
        if looks:
            self.look()
        applied: list[Record] = []
        with closing(self.source.records(lambda: self.ingestor.view)) as records:
            for record in islice(records, most):
                self.ingestor.apply(record)
                applied.append(record)
                meanwhile(len(applied))
        return applied

    @property
    def tips(self) -> L2Tips:
        return self.ingestor.view.tips

    @property
    def checkpoint(self) -> int:
        return self.tips.checkpointed.checkpoint.number


def has(node: Deriving, chain: MadeChain) -> bool:
    return node.tips.checkpointed == chain.tips().checkpointed and node.tips.proposed == chain.tips().proposed


@contextmanager
def deriving(
    tmp_path: Path,
    chain: MadeChain,
    l1: PublishingL1,
    sources: Callable[[HttpGet], BlobSources] | None = None,
) -> Iterator[Deriving]:
    with ExitStack() as stack:
        yield Deriving(tmp_path / "node", chain.chain_record, chain.genesis, l1, stack, sources)
