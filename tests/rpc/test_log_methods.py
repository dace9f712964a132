"""Log methods: recorded answers of the reference node, limits, and what is refused."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from fastnode.archiver.chain_import import adopt_chain_file, import_chain_file
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ArchiverStore
from fastnode.logs import ChainIndexes
from fastnode.rpc import log_methods
from fastnode.rpc.engine import Engine
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
        bound = self.engine.table.get(method)
        assert bound is not None
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        reply = self.engine.handle(body)
        if not hasattr(reply, "body"):
            import asyncio

            async def finish() -> Any:
                return await reply  # type: ignore[misc]

            reply = asyncio.run(finish())
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
