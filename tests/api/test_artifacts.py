"""Registering artifacts through the engine, and the names that they give to traces and logs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.api.test_traces import kept
from tests.api.test_txs import Node, _finish
from tests.api.test_txs import make_node as make_node
from tests.api.test_txs import node as node
from tests.mempool.recorded import recorded_tx, recordings
from tests.protocol.test_artifacts import CLASS_ID, compact, raw

from fastnode.api import artifacts as artifact_methods
from fastnode.api import traces
from fastnode.artifacts import store as store_module
from fastnode.artifacts.store import ArtifactStore
from fastnode.cli.trace import trace_lines
from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine, Reply
from fastnode.jsonrpc.methods import MethodTable
from fastnode.public_execution.service import Simulation
from fastnode.public_execution.simulation import LocalSimulator, SimulationOptions
from fastnode.status_page.findings import fee_juice

TOKEN_CLASS = "0x01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee"


def labelled(label: str) -> str:
    return next(text for text, row in recordings().items() if row.get("label") == label)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def ask(node: Node, directory: Path) -> Callable[..., dict[str, Any]]:
    """Asks a node whose artifacts are in ``directory``; each call opens them anew, as a restart does."""
    local = LocalSimulator(node.mempool.clock, node.fees.current, SimulationOptions(timeout_s=60), node.names)

    def call(method: str, *params: Any) -> dict[str, Any]:
        store = ArtifactStore(directory)
        methods = [
            *traces.methods(Simulation(local), kept, artifacts=store),
            *artifact_methods.registering_methods(store),
            *artifact_methods.event_methods(store),
        ]
        table = MethodTable(methods, "both")
        bound = table.get(method)
        assert bound is not None
        bound.in_thread = False
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        limits = Limits(response_bytes_max=10 << 20)
        reply = Engine(table, lambda: node.view, limits=limits).handle(body)
        if not isinstance(reply, Reply):
            reply = asyncio.run(_finish(reply))
        answer: dict[str, Any] = orjson.loads(reply.text)
        return {key: answer[key] for key in ("result", "error") if key in answer}

    return call


def test_a_registered_artifact_names_calls_arguments_slots_and_assertions(
    ask: Callable[..., dict[str, Any]],
) -> None:
    plain = ask("fastnode_traceTransaction", labelled("storage map"))["result"]["calls"][0]
    assert plain.keys().isdisjoint({"contractName", "functionName", "arguments"})
    registered = ask("fastnode_registerArtifact", raw())["result"]
    assert (registered["classId"], registered["name"]) == ("0x" + CLASS_ID, "AvmTest")
    trace = ask("fastnode_traceTransaction", labelled("storage map"))["result"]
    frame = trace["calls"][0]
    assert {name: frame[name] for name in plain if name != "entries"} == {
        name: plain[name] for name in plain if name != "entries"
    }
    assert (frame["contractName"], frame["functionName"]) == ("AvmTest", "set_storage_map")
    (to, amount) = frame["arguments"]
    assert (to, amount["name"]) == ({"name": "to", "value": plain["calldata"][1]}, "amount")
    assert int(amount["value"]) == int(plain["calldata"][2], 16)
    (write,) = [entry for entry in frame["entries"] if entry["event"] == "storageWrite"]
    key = int(plain["calldata"][1], 16)
    assert write["slotName"] == f"map[{key if key < 1 << 64 else plain['calldata'][1]}]"
    text = "\n".join(trace_lines(trace))
    assert "AvmTest 0x" in text
    assert "set_storage_map(to=" in text
    assert "write map[" in text
    fee, prices = trace["fee"], ("feePerL2Gas", "feePerDaGas")
    assert f"fee {fee_juice(int(fee['transactionFee']))}, paid by {fee['payer']}" in text
    assert [price for price in prices if f"{int(fee[price]):,}" not in text.partition("gas prices")[2]] == []
    used = frame["gasUsed"]
    assert f"[{used['l2Gas']:,} L2, {used['daGas']:,} DA gas]" in text
    failed = ask("fastnode_traceTransaction", labelled("assertion_failure"))["result"]
    assert failed["revertReason"]["assertion"] == "This assertion should fail!"
    assert failed["calls"][0]["assertion"] == "This assertion should fail!"
    assert "(assertion: This assertion should fail!)" in "\n".join(trace_lines(failed))


def test_simulations_have_names_and_assertions_once_one_is_registered(
    node: Node, directory: Path, ask: Callable[..., dict[str, Any]]
) -> None:
    def reason() -> dict[str, Any]:
        options = SimulationOptions(timeout_s=60)
        local = LocalSimulator(node.mempool.clock, node.fees.current, options, node.names, ArtifactStore(directory))
        answer = local.simulate(recorded_tx(labelled("assertion_failure")), node.view, skip_fee_enforcement=True)
        found: dict[str, Any] = orjson.loads(answer)["revertReason"]
        return found

    plain = reason()
    assert "assertion" not in plain
    assert all(frame.keys() == {"contractAddress", "functionSelector"} for frame in plain["functionErrorStack"])
    ask("fastnode_registerArtifact", raw())
    named = reason()
    assert named.pop("assertion") == "This assertion should fail!"
    (frame,) = named["functionErrorStack"]
    assert (frame.pop("contractName"), frame.pop("functionName")) == ("AvmTest", "assertion_failure")
    assert named == plain


def test_contracts_of_the_release_have_names_without_registration(ask: Callable[..., dict[str, Any]]) -> None:
    trace = ask("fastnode_traceTransaction", labelled("token public transfer"))["result"]
    frame = trace["calls"][0]
    assert (frame["contractName"], frame["functionName"]) == ("Token", "transfer_in_public")
    assert [argument["name"] for argument in frame["arguments"]] == ["from", "to", "amount", "authwit_nonce"]
    slots = {entry["slotName"] for entry in frame["entries"] if entry["event"] == "storageWrite"}
    assert {slot.partition("[")[0] for slot in slots} == {"public_balances"}


def test_logs_have_the_names_of_their_events(ask: Callable[..., dict[str, Any]]) -> None:
    logs = ask("fastnode_getPublicEvents", {})["result"]
    named = [log for log in logs["logs"] if "contractName" in log]
    assert named
    assert all("log" in log for log in logs["logs"])


def test_an_artifact_of_another_class_is_refused_and_what_differs_is_named(
    ask: Callable[..., dict[str, Any]], directory: Path
) -> None:
    refused = ask("fastnode_registerArtifact", compact(), TOKEN_CLASS)["error"]
    assert refused["data"] == {"code": "OTHER_CLASS", "classId": "0x" + CLASS_ID}
    assert "it differs in its name, outputs, or private and utility functions" in refused["message"]
    changed = compact() | {"name": "Another"}
    refused = ask("fastnode_registerArtifact", changed, "0x" + CLASS_ID)["error"]
    assert "name, outputs" in refused["message"]
    assert "private functions;" not in refused["message"]
    unknown = ask("fastnode_registerArtifact", changed)["error"]
    assert unknown["data"]["code"] == "UNKNOWN_CLASS"
    changed = compact() | {"publicBytecodeCommitment": "0x" + "0" * 64}
    refused = ask("fastnode_registerArtifact", changed, "0x" + CLASS_ID)["error"]
    assert "it differs in its public bytecode" in refused["message"]
    assert not directory.exists()
    # One of a class that is not published is kept when its id is named.
    assert "result" in ask("fastnode_registerArtifact", changed, refused["data"]["classId"])


@pytest.mark.parametrize(
    ("record", "reason"),
    [({}, "name: a text expected"), ([], "the JSON that the compiler wrote"), ({"name": "x"}, "outputs: an object")],
)
def test_what_is_no_artifact_is_refused_with_the_reason(
    ask: Callable[..., dict[str, Any]], record: Any, reason: str
) -> None:
    error = ask("fastnode_registerArtifact", record)["error"]
    assert error["code"] == -32602
    assert reason in error["message"]


def test_artifacts_are_bounded_by_number_and_size(
    ask: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "result" in ask("fastnode_registerArtifact", compact())
    monkeypatch.setattr(store_module, "ARTIFACTS_MAX", 1)
    assert "result" in ask("fastnode_registerArtifact", compact()), "in the place of the one that is there"
    other = compact() | {"name": "Another"}
    class_id = ask("fastnode_registerArtifact", other)["error"]["data"]["classId"]
    refused = ask("fastnode_registerArtifact", other, class_id)["error"]
    assert refused["data"]["code"] == "TOO_MANY_ARTIFACTS"
    monkeypatch.setattr(store_module, "ARTIFACTS_MAX", 10)
    monkeypatch.setattr(store_module, "TOTAL_BYTES_MAX", 50_000)
    assert ask("fastnode_registerArtifact", other, class_id)["error"]["data"]["code"] == "TOO_MANY_ARTIFACTS"
    monkeypatch.setattr(store_module, "COMPACT_BYTES_MAX", 1_000)
    assert "at most 1000 are kept" in ask("fastnode_registerArtifact", other, class_id)["error"]["message"]


def test_a_file_that_was_changed_is_overlooked(ask: Callable[..., dict[str, Any]], directory: Path) -> None:
    ask("fastnode_registerArtifact", compact())
    (file,) = directory.iterdir()
    store = ArtifactStore(directory)
    class_id = bytes.fromhex(CLASS_ID)
    assert store.find(class_id) is not None
    for time_ns, content in enumerate((b"{", orjson.dumps(compact() | {"name": "Another"}), b"[]", b"\xff"), 1):
        file.write_bytes(content)
        os.utime(file, ns=(time_ns, time_ns))
        assert store.find(class_id) is None
    file.unlink()
    assert store.find(class_id) is None
