"""The chain derived from L1 and blobs."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.sources.l1.publishing import PublishingL1, RecordedL1, served

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import ChainRecord, GenesisRecord, Record
from fastnode.chain_data import ChainData
from fastnode.outgoing.network import NetworkThread
from fastnode.outgoing.upstreams import Patience
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.tips import L2Tips
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobFetcher, BlobSources, FetchPatience
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.l1.rollup import Wanted
from fastnode.sources.l1.service import L1Options, L1Reader
from fastnode.sources.l1.source import L1Source

QUICK = Patience(unavailable_s=0.01, unavailable_max_s=0.05, aside_s=0.05, aside_max_s=0.05, l1_grace_s=0.05)
AT_ONCE = FetchPatience(retries_s=(0.0,), store_rounds_s=(0.0,), lie_rest_s=0.0)

Json = dict[str, Any]


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
    ) -> None:
        network = NetworkThread()
        network.start()
        stack.callback(network.close)
        self.data = stack.enter_context(ChainData.open(directory))
        store = self.data.store
        if not store.has_chain:
            store.adopt_chain(ChainRecord.from_json(chain), GenesisRecord.from_json(genesis))
        self.ingestor: Ingestor = self.data.open_ingestor(verify="full")
        self.reader = L1Reader([l1.url], network, L1Options(poll_interval_s=0.005, drift_max_s=0), patience=QUICK)
        stack.callback(self.reader.close)
        stack.callback(self.reader.interrupt)
        self.reader.learn(Wanted.of(chain["nodeInfo"]))
        self.reader.begin(lambda: self.ingestor.view)
        http = HttpGet(network)
        given = (
            BlobSources(consensus=(BeaconNode(l1.beacon.url, http, "beacon 1"),)) if sources is None else sources(http)
        )
        executor = stack.enter_context(ThreadPoolExecutor(3))
        self.fetcher = BlobFetcher(given, executor, patience=AT_ONCE)
        self.source = L1Source(self.reader, self.fetcher, executor)
        self.l1 = l1

    def look(self) -> None:
        """Until the newest block of L1 was looked at."""
        wanted = self.l1.head.hash
        for _ in range(3_000):
            self.reader._look_again()
            try:
                if self.reader.seen()[1].head.hash == wanted:
                    return
            except Exception as error:  # noqa: BLE001 - said when the time is over
                last = error
        raise AssertionError(last)

    def pass_(self) -> list[Record]:
        self.look()
        applied = []
        for record in self.source.records(lambda: self.ingestor.view):
            self.ingestor.apply(record)
            applied.append(record)
        return applied

    @property
    def tips(self) -> L2Tips:
        return self.ingestor.view.tips

    @property
    def checkpoint(self) -> int:
        return self.tips.checkpointed.checkpoint.number


@pytest.fixture(scope="module")
def sample() -> list[Json]:
    """The recorded chain, line by line."""
    packed = (files("fastnode") / "data" / "sample_chain.jsonl.gz").read_bytes()
    return [orjson.loads(line) for line in gzip.decompress(packed).splitlines()]


@pytest.fixture
def recorded(sample: list[Json]) -> Iterator[RecordedL1]:
    with served(RecordedL1(sample[0]["nodeInfo"], sample[0]["l1Constants"])) as l1:
        assert isinstance(l1, RecordedL1)
        yield l1


def test_a_recorded_network_is_derived_hash_by_hash(tmp_path: Path, sample: list[Json], recorded: RecordedL1) -> None:
    with ExitStack() as stack:
        node = Deriving(tmp_path, sample[0], sample[1], recorded, stack)
        node.pass_()
        view = node.ingestor.view
        checkpoints = [line for line in sample if line["kind"] == "checkpoint"]
        assert node.checkpoint == len(checkpoints) == 41
        for line in checkpoints:
            expected = PublishedCheckpoint.from_json(line["published"])
            stored = view.checkpoint(expected.checkpoint.number)
            assert stored is not None
            assert stored.header_hash == expected.checkpoint.header.hash()
            assert orjson.loads(stored.l1_json) == expected.l1.to_json()
            assert orjson.loads(stored.attestations_json) == []
            for block in expected.checkpoint.blocks:
                assert view.load_block(block.number) == block
            messages = ["0x" + item.hex() for item in view.l1_to_l2_messages(expected.checkpoint.number)]
            assert messages == line["l1ToL2Messages"]
        assert node.tips.to_json() == sample[-1]["tips"]
