"""Log queries over many tags: what wallets ask all day, as response bytes, in process.

``FASTNODE_BENCH_LOG_TAGS`` sets the number of tags: 10,000 by default and at least, 1,000,000 for the figures of
README.md.  ``FASTNODE_BENCH_LOG_DIRECTORY`` names a folder to keep the database in and to find it again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import orjson
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

from fastnode.api import logs as log_methods
from fastnode.archiver import layout as archiver_layout
from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredTips
from fastnode.archiver.store import ArchiverStore
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import Context, MethodTable
from fastnode.log_index import ChainIndexes, layout
from fastnode.log_index.known_tags import KnownTags
from fastnode.protocol.block import L2Block
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.view import View

#: Blocks in one batch while the database is filled.
BLOCKS_PER_BATCH = 4_000

TAGS = int(os.environ.get("FASTNODE_BENCH_LOG_TAGS", "10000"))
KEPT = os.environ.get("FASTNODE_BENCH_LOG_DIRECTORY")


@dataclass
class Bench:
    store: ArchiverStore
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
        return reply.text


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
            yield Bench(store, view, indexes.known_tags, Engine(table, lambda: View(view)), known)


def fill(store: ArchiverStore) -> dict[str, Any]:
    """Index all blocks, in large batches: a page is rewritten once for all its logs in a batch."""
    with resources.as_file(resources.files("fastnode") / "data" / "sample_chain.jsonl.xz") as path:
        adopt_chain_file(store, path)
    indexes = ChainIndexes()
    indexes.catch_up(store)
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
    settle(store)
    return {
        "private_tags": chain.private_tags,
        "public_tags": chain.public_tags,
        "logs": chain.logs,
        "blocks": chain.blocks,
        "logs_per_s_in_large_batches": round(chain.logs / seconds),
    }


def index(store: ArchiverStore, indexes: ChainIndexes, blocks: list[L2Block]) -> None:
    """Everything that the indexes write for these blocks, in one synced batch."""
    transaction = store.write_batch()
    for block in blocks:
        for writer in indexes.writers:
            writer.write(transaction, block)
    transaction.commit()


def write_tip(store: ArchiverStore, block: L2Block) -> None:
    """What a view needs of the newest block."""
    number = block.number
    info = BlockInfo(number, block.hash(), block.archive.root, number, 0, number, 36 * number, 1)
    transaction = store.write_batch()
    transaction.put(archiver_layout.block_key(number), StoredBlock(info, b"{}", b"{}").encode())
    transaction.put(archiver_layout.BLOCK_BY_HASH + info.hash, archiver_layout.encode_number(number))
    transaction.put(archiver_layout.KEY_TIPS, StoredTips(number, 0, 0, 0).encode())
    transaction.commit()


def settle(store: ArchiverStore) -> None:
    """Let the database merge what was written last, as it does by itself within minutes."""
    store._database.compact()


def texts(fields: list[bytes]) -> list[str]:
    return ["0x" + field.hex() for field in fields]


def unknown(count: int) -> list[bytes]:
    return [field_of("unknown", number) for number in range(count)]


def counted(answer: bytes) -> list[int]:
    return [len(logs) for logs in json.loads(answer)["result"]]


# ---- by tag ---------------------------------------------------------------------------------


@pytest.mark.benchmark(group="logs: 100 tags, none known (limit 60 us)")
def test_baseline_parsing_the_request_alone(bench: Bench, benchmark: Callable[..., Any]) -> None:
    body = bench.request("node_getPrivateLogsByTags", texts(unknown(100)))
    assert len(benchmark(orjson.loads, body)["params"][0]) == 100


@pytest.mark.benchmark(group="logs: 100 tags, none known (limit 60 us)")
def test_a_hundred_unknown_private_tags(bench: Bench, benchmark: Callable[..., Any]) -> None:
    body = bench.request("node_getPrivateLogsByTags", texts(unknown(100)))
    assert counted(benchmark(bench.answer, body)) == [0] * 100


@pytest.mark.benchmark(group="logs: 100 tags, none known (limit 60 us)")
def test_a_hundred_unknown_public_tags(bench: Bench, benchmark: Callable[..., Any]) -> None:
    contract_address = texts([contract(1)])[0]
    body = bench.request("node_getPublicLogsByTagsFromContract", contract_address, texts(unknown(100)))
    assert counted(benchmark(bench.answer, body)) == [0] * 100


def known_private_tags(turn: int) -> list[bytes]:
    """Ten tags from all over the chain, others each turn."""
    chosen = random.Random(turn)
    return [private_tag(chosen.randrange(TAGS * 3 // 4)) for _ in range(10)]


def request_with_ten_known(bench: Bench, turn: int) -> bytes:
    return bench.request("node_getPrivateLogsByTags", texts(unknown(90) + known_private_tags(turn)))


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_a_hundred_private_tags_ten_known_and_asked_for_before(bench: Bench, benchmark: Callable[..., Any]) -> None:
    bodies = [request_with_ten_known(bench, turn) for turn in range(200)]
    for body in bodies:
        assert sum(count > 0 for count in counted(bench.answer(body))) == 10
    turns = iter(range(1 << 60))
    benchmark(lambda: bench.answer(bodies[next(turns) % len(bodies)]))


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_a_hundred_private_tags_ten_known_and_never_asked_for(bench: Bench, benchmark: Callable[..., Any]) -> None:
    """Not in the database's cache: each page is unpacked from the file, which the operating system has in memory."""
    turns = iter(range(1000, 1 << 60))
    benchmark.pedantic(  # type: ignore[attr-defined]
        bench.answer,
        setup=lambda: ((request_with_ten_known(bench, next(turns)),), {}),
        rounds=1_000,
        warmup_rounds=1_000,
    )


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_a_hundred_public_tags_of_which_ten_are_known(bench: Bench, benchmark: Callable[..., Any]) -> None:
    numbers = range(0, 1000, 100)  # all of one contract
    tags = unknown(90) + [public_tag(number) for number in numbers]
    body = bench.request("node_getPublicLogsByTagsFromContract", texts([contract(0)])[0], texts(tags))
    assert sum(count > 0 for count in counted(benchmark(bench.answer, body))) == 10


@pytest.mark.benchmark(group="logs: 100 tags, 10 known (limit 150 us)")
def test_baseline_ten_database_gets_of_pages_asked_for_before(bench: Bench, benchmark: Callable[..., Any]) -> None:
    requests = [[layout.page_key(tag, 0) for tag in known_private_tags(turn)] for turn in range(200)]
    turns, get = iter(range(1 << 60)), bench.view.get
    assert None not in benchmark(lambda: [get(key) for key in requests[next(turns) % len(requests)]])


@pytest.mark.benchmark(group="logs: a page of 10 logs (limit 20 us)")
def test_baseline_a_database_get_of_the_page(bench: Bench, benchmark: Callable[..., Any]) -> None:
    keys = [layout.page_key(BUSY_TAG, page) for page in range(max(1, bench.facts["blocks"] // 1000))]
    turns, get = iter(range(1 << 60)), bench.view.get
    assert benchmark(lambda: get(keys[next(turns) % len(keys)])) is not None


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
        context = Context(View(bench.view), "both", 64 << 20)
        found = method.answer(context, [wanted])
        assert found is not None
        return found

    assert len(json.loads(benchmark(answer))["logs"]) == 100


@pytest.mark.benchmark(group="logs: 1,000 public logs of the whole chain")
def test_the_first_thousand_public_logs(bench: Bench, benchmark: Callable[..., Any]) -> None:
    method = bench.engine.table.get("node_getPublicLogs")
    assert method is not None
    answer = benchmark(lambda: method.answer(Context(View(bench.view), "both", 64 << 20), [{}]))
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


@pytest.mark.benchmark(group=f"logs: index or undo a block of {LOGS_PER_BLOCK} logs, in a synced batch of its own")
def test_a_block_written_and_undone(bench: Bench, benchmark: Callable[..., Any]) -> None:
    """Behind the last block of the whole database, which is left as it was.  A round is one block; the table
    shows writing, the line above it undoing."""
    indexes = ChainIndexes()
    indexes.catch_up(bench.store)
    indexes.load_filter(bench.view)
    made = LogChain(TAGS).make_more(bench.facts["private_tags"], bench.facts["public_tags"])
    blocks: list[L2Block] = []

    def next_block() -> tuple[tuple[Any, ...], dict[str, Any]]:
        blocks.append(next(made))
        return (bench.store, indexes, blocks[-1:]), {}

    benchmark.pedantic(index, setup=next_block, rounds=500)  # type: ignore[attr-defined]
    seconds = []
    for block in reversed(blocks):
        started = time.perf_counter()
        transaction = bench.store.write_batch()
        for writer in reversed(indexes.writers):
            writer.undo(transaction, block)
        transaction.commit()
        seconds.append(time.perf_counter() - started)
    print(f"\nundoing a block: {median(seconds) * 1e6:.0f} us in the middle, {min(seconds) * 1e6:.0f} us at least")
