"""``fastnode status``: what it says of a node, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_commands import TIMEOUT_S, fastnode
from tests.http_stand_in import HttpStandIn, answer, answer_json

from fastnode.cli.node_calls import url_of


class Probed(HttpStandIn):
    """A server whose probes and calls answer what they are told."""

    def __init__(self) -> None:
        self.probes: dict[str, tuple[int, bytes]] = {"/status": (200, b'{"ok":true}'), "/readyz": (200, b'{"ok":true}')}
        self.results: dict[str, Any] = {}
        self.keys: set[str | None] = set()
        super().__init__()

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "GET":
            status, content = self.probes.get(handler.path, (404, b""))
            answer(handler, content, status)
            return
        call = json.loads(body)
        self.keys.add(handler.headers["x-api-key"])
        known = call["method"] in self.results
        said = {"result": self.results[call["method"]]} if known else {"error": {"code": -32601, "message": ""}}
        answer_json(handler, {"jsonrpc": "2.0", "id": call["id"], **said})


@pytest.fixture
def probed() -> Iterator[Probed]:
    with Probed() as probed:
        yield probed


def status(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return fastnode("status", *arguments, **environment)


def on_a_terminal(arguments: list[str], environment: dict[str, str]) -> str:
    """Everything that a command writes where standard output is a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fastnode", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, env=os.environ | environment)
    os.close(theirs)
    told = b""
    try:
        while piece := os.read(ours, 65_536):
            told += piece
    except OSError:  # what Linux says when the other end of a terminal has closed
        pass
    finally:
        os.close(ours)
    process.wait(TIMEOUT_S)
    return told.decode()


def test_a_node_that_serves_is_ready_and_names_its_tips(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--metrics-port=0").wait_until_serving()
    node.wait_for_line("chain file loaded")  # until then the tips move
    done = status("--url", node.url)
    assert (done.stdout.split()[:2], done.stderr) == (["node", f"http://127.0.0.1:{node.port}"], "")
    lines = dict(line.split(None, 1) for line in done.stdout.replace(" tip", "").splitlines())
    tips = node.call("node_getL2Tips")["result"]
    assert lines["state"] == "ready"
    assert lines["note"].startswith("transactions: refused: this node follows no other node")
    assert lines["proposed"] == str(tips["proposed"]["number"])
    assert lines["finalized"] == str(tips["finalized"]["block"]["number"])
    found = json.loads(status("--json", FASTNODE_URL=node.url.removeprefix("http://")).stdout)
    assert (found["ok"], found["ready"], found["tips"]) == (True, True, tips)
    assert found["sync"]["state"] == "serving"
    bodies = f"bodies kept of blocks 1 to {tips['proposed']['number']}"
    assert found["components"]["chain"] == {"ok": True, "state": bodies}
    kept = f"kept of blocks 0 to {tips['proposed']['number']}"
    assert found["components"]["state"] == {"ok": True, "state": kept}
    assert lines["history"] == kept


def test_what_is_wrong_is_said_and_ends_with_1(probed: Probed) -> None:
    wrong = {"ok": False, "components": {"chain": {"ok": True}, "sync": {"ok": False, "reason": "no upstream answers"}}}
    probed.probes["/status"] = (503, json.dumps(wrong).encode())
    probed.probes["/readyz"] = (503, b'{"ok":false,"reason":"the chain is not new enough yet"}')
    sync = {"state": "degraded", "reason": "no upstream answers", "lagBlocks": 7}
    probed.results["fastnode_getSyncStatus"] = sync
    done = status("--url", probed.url, FASTNODE_API_KEY="key")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        f"node              {probed.url}",
        "state             not ready: the chain is not new enough yet",
        "sync              degraded: no upstream answers",
        "behind            7 blocks",
        "wrong             sync: no upstream answers",
    ]
    assert probed.keys == {"key"}
    assert json.loads(status("--json", "--url", probed.url).stdout)["sync"] == sync


def test_a_node_that_catches_up_says_how_fast_and_how_long_it_will_take(probed: Probed) -> None:
    derivation = {"checkpoint": 40, "ofCheckpoint": 100, "l1Block": 900, "ofL1Block": 2000}
    progress = derivation | {"checkpointsPerSecond": None, "etaSeconds": None}
    sync = {"state": "catching up", "reason": None, "lagBlocks": 7000, "derivation": {"progress": progress}}
    probed.results["fastnode_getSyncStatus"] = sync | {"catchingUp": {"blocksPerSecond": 87.5, "etaSeconds": 80}}
    assert "behind            7000 blocks, 87.5 a second, 1:20 left" in status("--url", probed.url).stdout.splitlines()
    progress |= {"checkpointsPerSecond": 0.5, "etaSeconds": 7384}
    where = "derivation        checkpoint 40 of 100, L1 block 900 of 2000"
    sync["derivation"] = {"progress": progress}
    probed.results["fastnode_getSyncStatus"] = sync
    told = status("--url", probed.url).stdout.splitlines()
    assert "behind            7000 blocks" in told
    assert f"{where}, 0.5 a second, 2 h 3 min left" in told


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_is_told_in_colours_unless_it_wants_none(
    probed: Probed, environment: dict[str, str], is_coloured: bool
) -> None:
    told = on_a_terminal(["status", "--url", probed.url], {"TERM": "xterm", "NO_COLOR": ""} | environment)
    assert ("\x1b[32mstate" in told) is is_coloured
    assert "ready" in told


def test_a_node_that_serves_while_something_is_wrong_ends_with_1_too(probed: Probed) -> None:
    probed.probes["/status"] = (503, b"no upstream answers")
    done = status("--url", probed.url)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        1,
        ["state             ready", "wrong             GET /status says so"],
    )


def test_a_node_of_another_make_is_understood(probed: Probed) -> None:
    probed.probes = {"/status": (200, b"OK"), "/readyz": (404, b"")}
    probed.results["node_getL2Tips"] = {"proposed": {"number": 5, "hash": "0x"}}
    done = status("--url", probed.url)
    assert done.stdout.splitlines()[1:] == ["state             ready", "proposed tip      5"]
    assert done.returncode == 0


def test_what_is_no_node_is_told_from_one(probed: Probed) -> None:
    probed.probes = {}
    done = status("--url", probed.url)
    assert (done.returncode, done.stderr) == (
        1,
        f"fastnode: error: {probed.url} is no node: GET /status answered HTTP 404\n",
    )


def test_the_address_is_where_a_node_with_this_environment_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FASTNODE_URL", "FASTNODE_ADMIN_URL"):
        monkeypatch.delenv(name, raising=False)
    for host, port, url in (
        ("", "", "http://127.0.0.1:8080"),
        ("0.0.0.0", "9000", "http://127.0.0.1:9000"),
        ("::", "9000", "http://[::1]:9000"),
        ("10.0.0.5", "0", "http://10.0.0.5:8080"),
        ("", "tcp://10.0.0.1:80", "http://127.0.0.1:8080"),
    ):
        monkeypatch.setenv("SVC_HOST", host)
        monkeypatch.setenv("SVC_PORT", port)
        assert url_of(None) == url
    monkeypatch.setenv("SVC_ADMIN_PORT", "9001")
    assert url_of(None, admin=True) == "http://127.0.0.1:9001"
    assert url_of("other:1") == "http://other:1"


def test_a_probe_in_the_container_of_a_node_finds_it(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain).wait_until_serving()
    done = status(SVC_HOST="0.0.0.0", SVC_PORT=str(node.port))
    assert (done.stdout.split()[:2], done.stderr) == (["node", f"http://127.0.0.1:{node.port}"], "")
