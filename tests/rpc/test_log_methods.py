"""Log methods: recorded answers of the reference node, limits, and what is refused."""

from __future__ import annotations

import asyncio
import json
import lzma
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from fastnode.archiver.chain_import import adopt_chain_file, import_chain_file
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.logs import ChainIndexes
from fastnode.rpc import log_methods
from fastnode.rpc.engine import Engine, Reply
from fastnode.rpc.methods import MethodTable
from fastnode.rpc.view import View

#: Field 0 of the private logs that publish contract instances: a tag with more than twenty logs.
BUSY_TAG = "0x1a7e1badb79abdd38c684b3c8306ffe7ecb33c69e3380d9855730aaaa83a21a8"
MODULUS = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001"


class Client:
    """Calls methods of one engine by name."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        """The response without the envelope: ``result``, ``error``, or neither."""
        assert self.engine.table.get(method) is not None
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        reply = self.engine.handle(body)
        if not isinstance(reply, Reply):
            reply = asyncio.run(reply)
        assert reply.body is not None
        answer = json.loads(reply.body)
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def result(self, method: str, *params: Any) -> Any:
        return self.call(method, *params)["result"]

    def error(self, method: str, *params: Any) -> dict[str, Any]:
        error: dict[str, Any] = self.call(method, *params)["error"]
        return error


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ArchiverStore, ChainIndexes]]:
    """The sample chain with its log indexes."""
    indexes = ChainIndexes(filter_bytes=1 << 16)
    sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.gz"
    with resources.as_file(sample) as path, ArchiverStore.open(tmp_path_factory.mktemp("chain")) as opened:
        adopt_chain_file(opened, path)
        ingestor = Ingestor(opened, verification=Verification.NONE, index_writers=indexes.writers)
        import_chain_file(ingestor, path)
        indexes.load_filter(ingestor.view)
        ingestor.close()
        yield opened, indexes


@pytest.fixture(scope="module", params=["release", "development", "both"])
def client(request: pytest.FixtureRequest, store: tuple[ArchiverStore, ChainIndexes]) -> Iterator[Client]:
    opened, indexes = store
    with opened.open_view() as view:
        table = MethodTable(log_methods.methods(indexes.known_tags), request.param)
        yield Client(Engine(table, lambda: View(view)))


def recorded(data: Path, *methods: str) -> list[dict[str, Any]]:
    with lzma.open(data / "logs_recorded.jsonl.xz") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["method"] in methods]


# ---- by tag ---------------------------------------------------------------------------------


def test_recorded_tag_queries_are_answered_alike(client: Client, data_directory: Path) -> None:
    rows = recorded(data_directory, "node_getPrivateLogsByTags", "node_getPublicLogsByTagsFromContract")
    refused = 0
    for row in rows:
        answer = client.call(row["method"], *row["params"])
        if 1.5 in row["params"]:
            assert answer["error"]["code"] == -32602
        elif "error" in row:
            refused += 1
            assert "error" in answer, row
            if "not found" in row["error"]["message"]:
                assert answer["error"]["message"] == row["error"]["message"]
        else:
            assert answer == {"result": row["result"]}, row["params"]
    assert len(rows) == 343
    assert refused == 68


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
        return self._answer(wanted, lambda log: after is None or position(log) > behind)

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
        if "error" in row:
            assert answer["error"]["code"] == -32602, row["params"]
            continue
        wanted = row["params"][0]
        if "afterLog" not in wanted:
            assert answer == {"result": row["result"]}, wanted
            alike += 1
            continue
        assert row["result"] == logs.as_the_reference(wanted), wanted
        after = wanted["afterLog"]
        if logs.number_of(after["blockHash"]) == after["blockNumber"]:
            assert answer == {"result": logs.right(wanted)}, wanted
        else:
            assert "might indicate a reorg" in answer["error"]["message"]
    assert alike == {"node_getPublicLogs": 154, "node_getContractClassLogs": 100}[method]
