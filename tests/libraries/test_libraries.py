"""Ten JSON-RPC libraries against a node: each sees the results and errors that the node sends, one by one, in batches,
and after a notification.

FASTNODE_LIBRARIES=1 scripts/test tests/libraries fetches the libraries (tests/programs.py has their versions).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ADMIN_KEY, NodeProcess

from fastnode.jsonrpc.methods import METHOD_SETS

HERE = Path(__file__).parent
BATCH_CALLS = 50
PATIENCE_S = 900.0
LIBRARIES = {
    *("jsonrpclib-pelix", "jsonrpcclient", "web3.py", "tinyrpc"),
    *("web3.js", "json-rpc-2.0", "@open-rpc/client-js", "jayson", "ethers", "viem"),
}
#: They have no call without an id.
WITHOUT_NOTIFICATIONS = {"web3.py", "web3.js", "ethers", "viem"}
UNKNOWN = "0x" + "12" * 32
#: Lookups that find nothing and calls that return nothing, under the names of both namespaces.
ABSENT = [
    ("getBlock", [10**6]),
    ("getTxEffect", [UNKNOWN]),
    ("getTxByHash", [UNKNOWN]),
    ("getContract", [UNKNOWN]),
    ("getNullifierMembershipWitness", [1, UNKNOWN]),
    ("registerContractFunctionSignatures", [[]]),
]
#: They change what others answer: only their errors are compared.
CHANGES = ("rollbackTo", "startSnapshotUpload", "registerArtifact")


@pytest.fixture(scope="module")
def packages() -> Path:
    folder = os.environ.get("FASTNODE_TEST_LIBRARIES", "")
    if not folder:
        pytest.skip("the libraries are asked for by FASTNODE_LIBRARIES=1")
    return Path(folder)


@pytest.fixture(params=METHOD_SETS)
def node(
    request: pytest.FixtureRequest, start_node: Callable[..., NodeProcess], sample_chain: Path
) -> Iterator[NodeProcess]:
    node = start_node("--chain-file", sample_chain, "--method-set", request.param, "--disable-admin-api-key")
    node.wait_until_serving().wait_for_line("chain file loaded")
    yield node
    assert node.stop() == 0


def send(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"x-api-key": ADMIN_KEY})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        content = response.read()
    return json.loads(content) if content else None


def answered(url: str, calls: list[tuple[str, list[Any]]]) -> list[list[Any]]:
    """What the node sends, as bytes on the wire."""
    outcomes = []
    for number, (method, params) in enumerate(calls):
        answer = send(url, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        outcomes.append(["error", answer["error"]["code"]] if "error" in answer else ["result", answer["result"]])
    return outcomes


def calls_of(url: str) -> list[tuple[str, list[Any]]]:
    """Calls of every method of a port: those of its examples, absent ones, and one that is an error."""
    methods = send(url, {"id": 1, "method": "rpc.discover"})["result"]["methods"]
    names = {method["name"] for method in methods}
    calls: list[tuple[str, list[Any]]] = []
    for method in methods:
        name = method["name"]
        if not name.endswith(CHANGES):
            calls += [(name, [each["value"] for each in one["params"]]) for one in method.get("examples", ())]
        calls.append((name, [{"misspelt": 1}] * (len(method["params"]) + 1)))
    calls += [(name, params) for each, params in ABSENT for name in (f"node_{each}", f"aztec_{each}") if name in names]
    return [*calls, ("node_noSuchMethod", [])]


def run(command: list[str], asked: dict[str, Any], **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        command,
        input=json.dumps(asked),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("port", ["public", "admin"])
def test_every_library_sees_every_answer_of_every_method(
    packages: Path, node: NodeProcess, tmp_path: Path, port: str
) -> None:
    url = node.url if port == "public" else f"http://127.0.0.1:{node.admin_port}"
    calls = calls_of(url)
    before = answered(url, calls)
    asked = {"url": url, "calls": calls, "size": BATCH_CALLS}
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    script = tmp_path / "clients.mjs"
    script.write_text((HERE / "clients.mjs").read_text())
    told = run(["node", str(script)], asked)
    told |= run([sys.executable, str(HERE / "clients.py")], asked, PYTHONPATH=str(packages / "python"))
    assert told.keys() == LIBRARIES
    after = answered(url, calls)
    kinds = {(kind, value is None) for kind, value in before}
    assert kinds >= {("result", False), ("error", False), *([("result", True)] if port == "public" else [])}
    differing = []
    for library, outcomes in told.items():
        for way in ("single", "batch"):
            assert len(outcomes[way]) == len(calls)
            for call, outcome, wanted, later in zip(calls, outcomes[way], before, after, strict=True):
                # What depends on the moment, as a time does, is a result of the same kind.
                is_same = outcome == wanted if wanted == later else outcome[0] == wanted[0] == "result"
                if not is_same:
                    differing.append((library, way, call, str(outcome)[:300], str(wanted)[:300]))
        assert outcomes["notified"] is (None if library in WITHOUT_NOTIFICATIONS else True), library
    assert not differing, f"{len(differing)} of {2 * len(calls) * len(told)}: {differing[:10]}"
