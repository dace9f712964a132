"""Log queries over many tags: what wallets ask all day, as response bytes, in process.

``FASTNODE_BENCH_LOG_TAGS`` sets the number of tags: 10,000 by default and at least, 1,000,000 for the figures of
README.md.  ``FASTNODE_BENCH_LOG_DIRECTORY`` names a folder to keep the database in and to find it again.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from bench.log_chain import (
    BUSY_TAG,
    LOGS_PER_BLOCK,
    RARE_CONTRACT,
    LogChain,
    contract,
    field_of,
    private_tag,
    public_tag,
)

from fastnode.archiver import layout as archiver_layout
from fastnode.archiver.chain_import import adopt_chain_file
from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredTips
from fastnode.archiver.store import ArchiverStore
from fastnode.logs import ChainIndexes
from fastnode.logs.indexes import BLOCKS_PER_BATCH
from fastnode.logs.known_tags import KnownTags
from fastnode.protocol.block import L2Block
from fastnode.rpc import log_methods
from fastnode.rpc.engine import Engine, Reply
from fastnode.rpc.methods import Call, MethodTable
from fastnode.rpc.view import View

TAGS = int(os.environ.get("FASTNODE_BENCH_LOG_TAGS", "10000"))
KEPT = os.environ.get("FASTNODE_BENCH_LOG_DIRECTORY")


@dataclass
class Bench:
    view: ChainView
    known_tags: KnownTags
    engine: Engine
    facts: dict[str, Any]

    def request(self, method: str, *params: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()

    def answer(self, body: bytes) -> bytes:
        reply = self.engine.handle(body)
        assert isinstance(reply, Reply)
        assert reply.body is not None
        return reply.body


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = Path(KEPT) if KEPT else tmp_path_factory.mktemp("logs")
    facts = directory / f"facts-{TAGS}.json"
    with ArchiverStore.open(directory) as store:
        if not facts.exists():
            facts.write_text(json.dumps(fill(store)))
        with store.open_view() as view:
            indexes = ChainIndexes()
            indexes.load_filter(view)
            known = json.loads(facts.read_text())
            print(f"\n{json.dumps(known)}")
            table = MethodTable(log_methods.methods(indexes.known_tags))
            yield Bench(view, indexes.known_tags, Engine(table, lambda: View(view)), known)


def fill(store: ArchiverStore) -> dict[str, Any]:
    """Index all blocks in batches, as a start does with blocks that were stored without indexes."""
    with resources.as_file(resources.files("fastnode") / "data" / "sample_chain.jsonl.gz") as path:
        adopt_chain_file(store, path)
    indexes = ChainIndexes()
    with store.open_view() as view:
        indexes.load_filter(view)
    chain = LogChain(TAGS)
    seconds, blocks = 0.0, chain.make()
    while batch := list(islice(blocks, BLOCKS_PER_BATCH)):
        started = time.perf_counter()
        index(store, indexes, batch)
        seconds += time.perf_counter() - started
        tip = batch[-1]
    write_tip(store, tip)
    return {
        "tags": chain.private_tags + chain.public_tags,
        "logs": chain.logs,
        "blocks": chain.blocks,
        "logs_per_s": round(chain.logs / seconds),
        "memory_max_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }


def index(store: ArchiverStore, indexes: ChainIndexes, blocks: list[L2Block]) -> None:
    """Everything that the indexes write for these blocks, in one synced batch."""
    transaction = store.transaction()
    for block in blocks:
        for writer in indexes.writers:
            writer.write(transaction, block)
    transaction.commit()


def write_tip(store: ArchiverStore, block: L2Block) -> None:
    """What a view needs of the newest block."""
    number = block.number
    info = BlockInfo(number, block.hash(), block.archive.root, number, 0, number, 36 * number, 1)
    transaction = store.transaction()
    transaction.put(archiver_layout.block_key(number), StoredBlock(info, b"{}", b"{}").encode())
    transaction.put(archiver_layout.KEY_TIPS, StoredTips(number, 0, 0, 0).encode())
    transaction.commit()


def texts(fields: list[bytes]) -> list[str]:
    return ["0x" + field.hex() for field in fields]


def unknown(count: int) -> list[bytes]:
    return [field_of("unknown", number) for number in range(count)]


def counted(answer: bytes) -> list[int]:
    return [len(logs) for logs in json.loads(answer)["result"]]


# ---- by tag ---------------------------------------------------------------------------------


@pytest.mark.benchmark(group="logs: 100 tags, none known (limit 60 us)")
def test_a_hundred_unknown_private_tags(bench: Bench, benchmark: Callable[..., Any]) -> None:
    body = bench.request("node_getPrivateLogsByTags", texts(unknown(100)))
    assert counted(benchmark(bench.answer, body)) == [0] * 100


@pytest.mark.benchmark(group="logs: 100 tags, none known (limit 60 us)")
def test_a_hundred_unknown_public_tags(bench: Bench, benchmark: Callable[..., Any]) -> None:
    contract_address = texts([contract(1)])[0]
    body = bench.request("node_getPublicLogsByTagsFromContract", contract_address, texts(unknown(100)))
    assert counted(benchmark(bench.answer, body)) == [0] * 100


def spread(count: int, known: int) -> list[int]:
    """Numbers of tags from the whole history; those at its end occur once or twice."""
    return [known * (2 * number + 1) // (2 * count) for number in range(count)]


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_a_hundred_private_tags_of_which_ten_are_known(bench: Bench, benchmark: Callable[..., Any]) -> None:
    """Another hundred each time, so that the database's cache helps no more than it does a node with many wallets."""
    bodies = []
    for turn in range(200):
        tags = unknown(90) + [private_tag(number + turn) for number in spread(10, TAGS * 3 // 4)]
        bodies.append(bench.request("node_getPrivateLogsByTags", texts(tags)))
    turns = iter(range(1 << 60))
    answer = benchmark(lambda: bench.answer(bodies[next(turns) % len(bodies)]))
    assert sum(count > 0 for count in counted(answer)) == 10


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_a_hundred_public_tags_of_which_ten_are_known(bench: Bench, benchmark: Callable[..., Any]) -> None:
    numbers = range(0, 1000, 100)  # all of one contract
    tags = unknown(90) + [public_tag(number) for number in numbers]
    body = bench.request("node_getPublicLogsByTagsFromContract", texts([contract(0)])[0], texts(tags))
    assert sum(count > 0 for count in counted(benchmark(bench.answer, body))) == 10


@pytest.mark.benchmark(group="logs: a page of 10 logs (limit 20 us)")
def test_a_page_of_one_tag(bench: Bench, benchmark: Callable[..., Any]) -> None:
    pages = bench.facts["blocks"] // 1000
    bodies = [bench.request("node_getPrivateLogsByTags", texts([BUSY_TAG]), page) for page in range(max(1, pages))]
    turns = iter(range(1 << 60))
    answer = benchmark(lambda: bench.answer(bodies[next(turns) % len(bodies)]))
    assert counted(answer) == [10]


# ---- by range -------------------------------------------------------------------------------


@pytest.mark.benchmark(group="logs: 100 public logs of a contract over the whole chain (limit 2 ms)")
def test_the_logs_of_a_rare_contract(bench: Bench, benchmark: Callable[..., Any]) -> None:
    """The method as it runs in a thread; the change to the thread and back is not in it."""
    method = bench.engine.table.get("node_getPublicLogs")
    assert method is not None
    wanted = {"contractAddress": texts([RARE_CONTRACT])[0], "fromBlock": 1}

    def answer() -> bytes:
        call = Call(View(bench.view), "both", 64 << 20)
        found = method.handler(call, *method.decode([wanted]))
        assert found is not None
        return found

    assert len(json.loads(benchmark(answer))["logs"]) == 100


@pytest.mark.benchmark(group="logs: 1,000 public logs of the whole chain")
def test_the_first_thousand_public_logs(bench: Bench, benchmark: Callable[..., Any]) -> None:
    method = bench.engine.table.get("node_getPublicLogs")
    assert method is not None
    answer = benchmark(lambda: method.handler(Call(View(bench.view), "both", 64 << 20), *method.decode([{}])))
    assert answer.endswith(b'"maxLogsHit":true}')


# ---- filter and ingestion -------------------------------------------------------------------


@pytest.mark.benchmark(group="logs: look 100,000 unknown tags up in the filter")
@pytest.mark.parametrize("size_mb", [1, 2, 4, 16])
def test_unknown_tags_that_pass_the_filter(bench: Bench, benchmark: Callable[..., Any], size_mb: int) -> None:
    known_tags = KnownTags(size_mb << 20)
    known_tags.fill(bench.view)
    tag_filter, keys = known_tags.reader_filter, unknown(100_000)
    assert tag_filter is not None
    passed = benchmark.pedantic(lambda: sum(map(tag_filter.may_contain, keys)), rounds=3)  # type: ignore[attr-defined]
    benchmark.extra_info["passed_of_100000"] = passed  # type: ignore[attr-defined]
    print(f"\n{passed} of {len(keys)} unknown tags pass a filter of {size_mb} MB")


@pytest.mark.benchmark(group="logs: fill the filter at start")
@pytest.mark.parametrize("source", ["database", "file"])
def test_filling_the_filter(bench: Bench, benchmark: Callable[..., Any], tmp_path: Path, source: str) -> None:
    path = None
    if source == "file":
        path = tmp_path / "tag_filter"
        if not bench.known_tags.save(path, bench.view):
            pytest.skip("so few tags are not kept in a file")
    size = bench.known_tags.size
    benchmark.pedantic(  # type: ignore[attr-defined]
        lambda: KnownTags(size).fill(bench.view, path), rounds=3
    )


@pytest.mark.benchmark(group=f"logs: index a block of {LOGS_PER_BLOCK} logs")
def test_a_block_in_a_batch_of_its_own(tmp_path: Path, benchmark: Callable[..., Any]) -> None:
    with ArchiverStore.open(tmp_path) as store:
        with resources.as_file(resources.files("fastnode") / "data" / "sample_chain.jsonl.gz") as path:
            adopt_chain_file(store, path)
        indexes = ChainIndexes()
        with store.open_view() as view:
            indexes.load_filter(view)
        blocks = LogChain(100_000).make()
        benchmark.pedantic(  # type: ignore[attr-defined]
            index, setup=lambda: ((store, indexes, [next(blocks)]), {}), rounds=1_000
        )
