"""Log methods: recorded answers of the reference node, limits, and what is refused."""

from __future__ import annotations

import asyncio
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.serving import fixtures

from fastnode.api import logs as log_methods
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import NodeBusy
from fastnode.http.allowance import Allowance, MemoryBudget, Party
from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import Context, MethodTable
from fastnode.log_index import ChainIndexes, range_queries
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View

#: Field 0 of the private logs that publish contract instances: a tag with more than twenty logs.
BUSY_TAG = "0x1a7e1badb79abdd38c684b3c8306ffe7ecb33c69e3380d9855730aaaa83a21a8"
MODULUS = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001"


class Client(fixtures.Client):
    """Its answers are without the envelope: ``result``, ``error``, or neither."""

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        assert self.engine.table.get(method) is not None
        answer = super().call(method, *params)
        return {key: answer[key] for key in ("result", "error") if key in answer}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ArchiverStore, ChainIndexes]]:
    """The sample chain with its log indexes."""
    indexes = ChainIndexes(filter_bytes=1 << 16)
    sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"
    with resources.as_file(sample) as path, ArchiverStore.open(tmp_path_factory.mktemp("chain")) as opened:
        adopt_chain_file(opened, path)
        indexes.catch_up(opened)
        ingestor = Ingestor(opened, verification=Verification.NONE, index_writers=indexes.writers)
        import_chain_file(ingestor, path)
        indexes.load_filter(ingestor.view)
        ingestor.close()
        yield opened, indexes


@pytest.fixture(scope="module", params=["release", "development", "both"])
def client(
    request: pytest.FixtureRequest, store: tuple[ArchiverStore, ChainIndexes], loop_runner: asyncio.Runner
) -> Iterator[Client]:
    opened, indexes = store
    with opened.open_view() as view:
        table = MethodTable(log_methods.methods(indexes.known_tags), request.param)
        yield Client(Engine(table, lambda: View(view)), loop_runner)


def recorded(data: Path, *methods: str) -> Iterator[dict[str, Any]]:
    """Questions to the reference and its answers on this chain: method, params, and result or error."""
    beginnings = tuple(b'{"method":"%b"' % method.encode() for method in methods)
    with lzma.open(data / "logs_recorded.jsonl.xz") as lines:
        for line in lines:
            if line.startswith(beginnings):
                yield json.loads(line)


# ---- by tag ---------------------------------------------------------------------------------


def test_recorded_tag_queries_are_answered_alike(client: Client, data_directory: Path) -> None:
    answered = refused = 0
    for row in recorded(data_directory, "node_getPrivateLogsByTags", "node_getPublicLogsByTagsFromContract"):
        answer = client.call(row["method"], *row["params"])
        if 1.5 in row["params"]:
            assert answer["error"]["code"] == -32602  # the reference answers half of one page and half of the next
        elif "error" in row:
            refused += 1
            assert "error" in answer, row
            if "not found" in row["error"]["message"]:
                assert answer["error"]["message"] == row["error"]["message"]
        else:
            assert answer == {"result": row["result"]}, row["params"]
            answered += 1
    assert (answered, refused) == (274, 68)


def test_pages_of_a_tag_have_ten_logs_until_the_last(client: Client) -> None:
    pages = [client.result("node_getPrivateLogsByTags", [BUSY_TAG], page)[0] for page in range(6)]
    sizes = [len(page) for page in pages]
    assert sizes[:3] == [10, 10, 10]
    assert 0 in sizes
    assert len({json.dumps(log) for page in pages for log in page}) == sum(sizes)


def test_a_tag_asked_for_twice_is_answered_twice(client: Client) -> None:
    first, unknown, again = client.result("node_getPrivateLogsByTags", [BUSY_TAG, "0x5", BUSY_TAG])
    assert first == again != []
    assert unknown == []


def test_a_page_beyond_every_number_is_empty(client: Client) -> None:
    for page in (1 << 32, 1 << 60, 1e30):
        assert client.result("node_getPrivateLogsByTags", [BUSY_TAG], page) == [[]]


def test_an_unknown_reference_block_is_told_as_a_reorg(client: Client) -> None:
    error = client.error("node_getPrivateLogsByTags", [BUSY_TAG], 0, "0x1234567")
    text = "0x" + "1234567".rjust(64, "0")
    assert error["message"] == f"Block {text} not found in the node. This might indicate a reorg has occurred."


ADDRESS = "0x" + "1".rjust(64, "0")
BAD_TAG_QUERIES: dict[str, tuple[list[Any], str]] = {
    "no tags": ([], "tags (parameter 1) is required"),
    "tags null": ([None], "tags (parameter 1) must be an array"),
    "tags text": (["0x1"], "tags (parameter 1) must be an array of at most 100 tags (--rpc-max-tags)"),
    "too many tags": ([["0x1"] * 101], "must be an array of at most 100 tags (--rpc-max-tags), got 101"),
    "tag without hex": ([["0x1", "0xzz"]], "tags[1] (parameter 1) must be a field element"),
    "tag above the modulus": ([[MODULUS]], "not below the field modulus"),
    "tag as a number": ([[1]], "tags[0] (parameter 1) must be a field element"),
    "tag null": ([[None]], "tags[0] (parameter 1) must be a field element"),
    "fractional page": ([["0x1"], 1.5], "page (parameter 2) must be"),
    "negative page": ([["0x1"], -1], "page (parameter 2) must be a whole number of at least 0"),
    "page as text": ([["0x1"], "0"], "page (parameter 2) must be"),
    "reference block by name": ([["0x1"], 0, "latest"], "referenceBlock (parameter 3) must be a block hash"),
    "reference block by number": ([["0x1"], 0, 5], "referenceBlock (parameter 3) must be a block hash"),
    "reference block above the modulus": ([["0x1"], 0, MODULUS], "not below the field modulus"),
    "another parameter": ([["0x1"], 0, None, {"unknown": 1}], "takes at most 3 parameters"),
}


@pytest.mark.parametrize("name", BAD_TAG_QUERIES)
def test_a_bad_tag_query_is_refused_with_words(client: Client, name: str) -> None:
    params, words = BAD_TAG_QUERIES[name]
    error = client.error("node_getPrivateLogsByTags", *params)
    assert error["code"] == -32602
    assert words in error["message"]


def test_a_bad_contract_address_is_refused_with_words(client: Client) -> None:
    for address in ("0x1", MODULUS, None, 5, "0x" + "g" * 64):
        error = client.error("node_getPublicLogsByTagsFromContract", address, ["0x1"])
        assert error["code"] == -32602
        assert "contractAddress (parameter 1)" in error["message"]


# ---- by range -------------------------------------------------------------------------------


class ChainLogs:
    """All logs of a chain as the reference would give them, and two ways to filter them."""

    def __init__(self, view: ChainView, kind: str) -> None:
        self.logs: list[dict[str, Any]] = []
        for number in range(1, view.tip_number + 1):
            block = view.load_block(number)
            assert block is not None
            for tx_index, effect in enumerate(block.body.to_json()["txEffects"]):
                for log_index, log in enumerate(effect[kind]):
                    log_id = {
                        "blockNumber": number,
                        "blockHash": "0x" + block.hash().hex(),
                        "txHash": effect["txHash"],
                        "txIndex": tx_index,
                        "logIndex": log_index,
                    }
                    self.logs.append({"id": log_id, "log": log})
        self.has_tags = kind == "publicLogs"

    def right(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """The answer without the reference's mistake."""
        after = wanted.get("afterLog")
        behind = (after["blockNumber"], after["txIndex"], after["logIndex"]) if after else (0, 0, 0)
        answer = self._answer(wanted, lambda log: after is None or position(log) > behind)
        # The reference says of a range that ends before it starts that a limit was hit.
        return answer if answer["logs"] else {"logs": [], "maxLogsHit": False}

    def as_the_reference(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Its mistake: the two indexes of ``afterLog`` are applied to every block and transaction from there on."""
        after = wanted["afterLog"]

        def is_reached(log: dict[str, Any]) -> bool:
            return log["id"]["txIndex"] >= after["txIndex"] and log["id"]["logIndex"] > after["logIndex"]

        return self._answer(wanted, is_reached)

    def number_of(self, block_hash: str) -> int | None:
        return next((log["id"]["blockNumber"] for log in self.logs if log["id"]["blockHash"] == block_hash), None)

    def _answer(self, wanted: dict[str, Any], is_reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        after, tx_hash = wanted.get("afterLog"), wanted.get("txHash")
        start, end = max(1, wanted.get("fromBlock", 1)), wanted.get("toBlock", 1 << 40)
        if after:
            start = after["blockNumber"]
        elif tx_hash:
            start, end = 0, 1 << 40
        if end < start:
            return {"logs": [], "maxLogsHit": True}
        found = [
            log
            for log in self.logs
            if start <= log["id"]["blockNumber"] < end
            and is_reached(log)
            and tx_hash in (None, log["id"]["txHash"])
            and wanted.get("contractAddress") in (None, log["log"]["contractAddress"])
            and (not self.has_tags or wanted.get("tag") in (None, *log["log"]["fields"][:1]))
        ]
        return {"logs": found[:1000], "maxLogsHit": len(found) >= 1000}


def position(log: dict[str, Any]) -> tuple[int, int, int]:
    return log["id"]["blockNumber"], log["id"]["txIndex"], log["id"]["logIndex"]


KINDS = {"node_getPublicLogs": "publicLogs", "node_getContractClassLogs": "contractClassLogs"}


@pytest.fixture(scope="module")
def chain_logs(store: tuple[ArchiverStore, ChainIndexes]) -> dict[str, ChainLogs]:
    with store[0].open_view() as view:
        return {method: ChainLogs(view, kind) for method, kind in KINDS.items()}


@pytest.mark.parametrize("method", KINDS)
def test_recorded_range_queries_are_answered_alike_but_for_the_reference_skipping_logs(
    client: Client, chain_logs: dict[str, ChainLogs], data_directory: Path, method: str
) -> None:
    logs, alike = chain_logs[method], 0
    for row in recorded(data_directory, method):
        answer = client.call(method, *row["params"])
        if "error" in row or "unknown" in row["params"][0]:  # the reference ignores members that it does not know
            assert answer["error"]["code"] == -32602, row["params"]
            continue
        wanted = row["params"][0]
        if "afterLog" not in wanted:
            # The reference says of a range that ends before it starts that a limit was hit.
            first, end = (
                int(str(wanted.get(key, usual)), 0) for key, usual in (("fromBlock", 1), ("toBlock", 1 << 40))
            )
            is_backward = "txHash" not in wanted and end < max(1, first)
            expected = row["result"] | ({"maxLogsHit": False} if is_backward else {})
            assert answer == {"result": expected}, wanted
            alike += 1
            continue
        assert row["result"] == logs.as_the_reference(wanted), wanted
        after = wanted["afterLog"]
        if logs.number_of(after["blockHash"]) == after["blockNumber"]:
            assert answer == {"result": logs.right(wanted)}, wanted
        else:
            assert "might indicate a reorg" in answer["error"]["message"]
    assert alike == {"node_getPublicLogs": 133, "node_getContractClassLogs": 99}[method]


def test_going_on_behind_the_last_log_gives_every_log_once(
    store: tuple[ArchiverStore, ChainIndexes], chain_logs: dict[str, ChainLogs], loop_runner: asyncio.Runner
) -> None:
    with store[0].open_view() as view:
        table = MethodTable(log_methods.methods(store[1].known_tags, logs_max=7))
        client = Client(Engine(table, lambda: View(view)), loop_runner)
        for method, logs in chain_logs.items():
            found: list[dict[str, Any]] = []
            answer = client.result(method, {})
            while answer["maxLogsHit"]:
                found += answer["logs"]
                assert len(answer["logs"]) == 7
                answer = client.result(method, {"afterLog": found[-1]["id"]})
            assert found + answer["logs"] == logs.logs


def test_an_answer_that_would_be_too_large_is_cut_like_one_with_too_many_logs(
    store: tuple[ArchiverStore, ChainIndexes], chain_logs: dict[str, ChainLogs], loop_runner: asyncio.Runner
) -> None:
    with store[0].open_view() as view:
        table = MethodTable(log_methods.methods(store[1].known_tags))
        engine = Engine(table, lambda: View(view), limits=Limits(response_bytes_max=1 << 20))
        client = Client(engine, loop_runner)
        answer = client.result("node_getContractClassLogs", {})
        assert answer["maxLogsHit"] is True
        assert 1 < len(answer["logs"]) < len(chain_logs["node_getContractClassLogs"].logs)
        assert answer["logs"] == chain_logs["node_getContractClassLogs"].logs[: len(answer["logs"])]


@pytest.mark.parametrize("method", ["node_getPublicLogs", "node_getContractClassLogs"])
def test_logs_that_find_no_memory_are_not_collected(
    store: tuple[ArchiverStore, ChainIndexes], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is taken while logs are collected, not when all of them are there."""
    monkeypatch.setattr(range_queries, "UNASKED_BYTES_MAX", 1 << 10)
    read: list[int] = []
    take = range_queries._take

    def noted(logs: Iterable[bytes], limits: range_queries.AnswerLimits) -> range_queries.FoundLogs:
        return take((read.append(len(log)) or log for log in logs), limits)  # type: ignore[func-returns-value]

    monkeypatch.setattr(range_queries, "_take", noted)
    with store[0].open_view() as view:
        bound = MethodTable(log_methods.methods(store[1].known_tags)).method(method)
        assert bound is not None
        whole = bound.answer(Context(View(view), "both", 1 << 26), [{}])
        assert whole is not None
        total, largest = sum(read), max(read)
        read.clear()
        allowance = Allowance(Party(budget=MemoryBudget(total // 2)))
        with pytest.raises(NodeBusy):
            bound.answer(Context(View(view), "both", 1 << 26, allowance=allowance), [{}])
        assert sum(read) <= total // 2 + largest + range_queries.UNASKED_BYTES_MAX
        assert allowance.taken_bytes <= total // 2


def test_a_range_that_ends_before_it_starts_is_empty_and_hits_no_limit(client: Client) -> None:
    for wanted in (
        {"fromBlock": 9, "toBlock": 8},
        {"toBlock": 0},
        {"toBlock": -5},
        {"fromBlock": 1 << 70, "toBlock": 5},
    ):
        assert client.result("node_getPublicLogs", wanted) == {"logs": [], "maxLogsHit": False}
    for wanted in ({"fromBlock": 9, "toBlock": 9}, {"fromBlock": 1 << 70}, {"fromBlock": 107, "toBlock": 1 << 70}):
        assert client.result("node_getPublicLogs", wanted) == {"logs": [], "maxLogsHit": False}


GOOD_ID = {"blockNumber": 1, "blockHash": "0x1", "txHash": ADDRESS, "txIndex": 0, "logIndex": 0}
BAD_FILTERS: dict[str, tuple[Any, str]] = {
    "null": (None, "filter (parameter 1) must be an object"),
    "an array": ([], "filter (parameter 1) must be an object"),
    "a null block": ({"fromBlock": None}, "filter.fromBlock (parameter 1)"),
    "a fractional block": ({"toBlock": 1.5}, "filter.toBlock (parameter 1)"),
    "a short transaction hash": ({"txHash": "0x1"}, "filter.txHash (parameter 1)"),
    "a short address": ({"contractAddress": "0x1"}, "filter.contractAddress (parameter 1)"),
    "an address above the modulus": ({"contractAddress": MODULUS}, "not below the field modulus"),
    "a tag above the modulus": ({"tag": MODULUS}, "filter.tag (parameter 1)"),
    "afterLog without its block": (
        {"afterLog": {key: value for key, value in GOOD_ID.items() if key != "blockHash"}},
        "filter.afterLog.blockHash (parameter 1) is required",
    ),
    "afterLog in block 0": ({"afterLog": GOOD_ID | {"blockNumber": 0}}, "filter.afterLog.blockNumber (parameter 1)"),
    "afterLog of a block that is gone": ({"afterLog": GOOD_ID}, "This might indicate a reorg has occurred."),
}


@pytest.mark.parametrize("name", BAD_FILTERS)
def test_a_bad_filter_is_refused_with_words(client: Client, name: str) -> None:
    params, words = BAD_FILTERS[name]
    for method in KINDS:
        error = client.error(method, params)
        assert error["code"] == -32602
        assert words in error["message"]


def test_a_long_scan_runs_beside_the_event_loop(client: Client) -> None:
    for method in KINDS:
        bound = client.engine.table.get(method)
        assert bound is not None
        assert bound.decode([{}])[1]
        assert bound.decode([{"contractAddress": ADDRESS}])[1]
        assert not bound.decode([{"txHash": ADDRESS}])[1]


def test_the_event_loop_goes_on_during_a_long_scan(client: Client) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "node_getContractClassLogs", "params": [{}]}).encode()

    async def ticks_during_a_scan() -> int:
        answering = client.engine.handle(body)
        assert not isinstance(answering, Reply)
        scan = asyncio.ensure_future(answering)
        ticks = 0
        while not scan.done():
            await asyncio.sleep(0)
            ticks += 1
        assert (await scan).error_code is None
        return ticks

    # Two would do for a scan that holds the loop: one before it and one behind it.
    assert asyncio.run(ticks_during_a_scan()) > 2
