"""Contract methods: recorded answers of the reference node, limits, and what is refused."""

from __future__ import annotations

import asyncio
import json
import lzma
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from tests.serving import fixtures
from tests.serving.fixtures import RECORDED_ALLOW_LIST

from fastnode.api import contracts as contract_methods
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ArchiverStore
from fastnode.config.allow_list import parse_allow_list
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import MethodTable
from fastnode.log_index import ChainIndexes
from fastnode.log_index.function_names import FunctionNames, function_selector
from fastnode.mempool.allow_list import default_allow_list
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiverStore]:
    indexes = ChainIndexes()
    sample = resources.files("fastnode") / "data" / "sample_chain.jsonl.xz"
    with resources.as_file(sample) as path, ArchiverStore.open(tmp_path_factory.mktemp("chain")) as opened:
        adopt_chain_file(opened, path)
        indexes.catch_up(opened)
        ingestor = Ingestor(opened, verification=Verification.NONE, index_writers=indexes.writers)
        import_chain_file(ingestor, path)
        ingestor.close()
        yield opened


class Client(fixtures.Client):
    """Its answers are without the envelope: ``result``, ``error``, or neither."""

    def __init__(self, engine: Engine, runner: asyncio.Runner, function_names: FunctionNames) -> None:
        super().__init__(engine, runner)
        self.function_names = function_names

    def call(self, method: str, *params: Any) -> dict[str, Any]:
        answer = super().call(method, *params)
        return {key: answer[key] for key in ("result", "error") if key in answer}


@pytest.fixture(params=["release", "development", "both"])
def client(request: pytest.FixtureRequest, store: ArchiverStore, loop_runner: asyncio.Runner) -> Iterator[Client]:
    names, allowed = FunctionNames(), (*default_allow_list(FOUR), *parse_allow_list(RECORDED_ALLOW_LIST))
    table = MethodTable(contract_methods.methods(names, lambda: allowed), request.param)
    with store.open_view() as view:
        yield Client(Engine(table, lambda: View(view)), loop_runner, names)


def test_recorded_queries_are_answered_alike(client: Client, data_directory: Path) -> None:
    names = ("getContractClass", "getContract", "registerContractFunctionSignatures", "getAllowedPublicSetup")
    beginnings = tuple(b'{"method":"node_%b"' % name.encode() for name in names)
    alike = refused = 0
    with lzma.open(data_directory / "logs_recorded.jsonl.xz") as lines:
        rows = [json.loads(line) for line in lines if line.startswith(beginnings)]
    for row in rows:
        answer = client.call(row["method"], *row["params"])
        if "error" in row or len(row["params"]) > 1:  # the reference ignores a second parameter
            assert answer["error"]["code"] == -32602, row["params"]
            refused += 1
        else:
            assert answer == {"result": row.get("result")}, row["params"]
            alike += 1
    assert (alike, refused) == (79, 15)


def test_registered_names_are_kept_by_selector(client: Client) -> None:
    assert client.call("node_registerContractFunctionSignatures", ["transfer(Field,Field)", "f()"]) == {"result": None}
    assert client.function_names.name_of(function_selector("transfer(Field,Field)")) == "transfer"
    assert client.function_names.name_of(function_selector("f()")) == "f"


def test_many_long_signatures_are_hashed_beside_the_event_loop(client: Client) -> None:
    signatures = ["f" * 9_000 + f"({number})" for number in range(3)]
    assert client.call("node_registerContractFunctionSignatures", signatures) == {"result": None}
    assert client.function_names.name_of(function_selector(signatures[2])) == "f" * 9_000
    bound = client.engine.table.get("node_registerContractFunctionSignatures")
    assert bound is not None
    assert bound.decode([signatures])[1]
    assert not bound.decode([["f()"]])[1]


SIGNATURES = "node_registerContractFunctionSignatures"
BAD_CALLS: dict[str, tuple[str, list[Any], str]] = {
    "no signatures": (SIGNATURES, [], "functionSignatures (parameter 1) is required"),
    "signatures as text": (SIGNATURES, ["f()"], "functionSignatures (parameter 1) must be an array of at most 100"),
    "too many signatures": (SIGNATURES, [["f()"] * 101], "must be an array of at most 100, got 101"),
    "a long signature": (
        SIGNATURES,
        [["f()", "f" * 10_001]],
        "functionSignatures[1] (parameter 1) must be a function signature of 1 to 10000",
    ),
    "a signature with a blank": (SIGNATURES, [["f(Field, Field)"]], "without blanks"),
    "a signature that begins with a blank": (SIGNATURES, [["\tf()"]], "without blanks"),
    "a signature that ends with a blank": (SIGNATURES, [["f()\u2003"]], "without blanks"),
    "a signature of one blank": (SIGNATURES, [[" "]], "without blanks"),
    "an empty signature": (SIGNATURES, [[""]], "of 1 to 10000 characters"),
    "half a character": (SIGNATURES, [["f\ud800()"]], "half a character"),
    "a number as signature": (SIGNATURES, [[1]], "functionSignatures[0] (parameter 1) must be"),
    "a short address": ("node_getContract", ["0x1"], "address (parameter 1) must be an address"),
    "an address above the modulus": ("node_getContract", ["0x" + "ab" * 32], "not below the field modulus"),
    "a class id that is no hex": ("node_getContractClass", ["x"], "id (parameter 1) must be a field element"),
    "parameters where there are none": ("node_getAllowedPublicSetup", [1], "takes no parameters"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_is_refused_with_words(client: Client, name: str) -> None:
    method, params, words = BAD_CALLS[name]
    error = client.call(method, *params)["error"]
    assert error["code"] == -32602
    assert words in error["message"]
