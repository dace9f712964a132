"""A node that follows itself, or a node that follows it, is refused: each says in its answers whom it follows."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import forked_nodes
from tests.conftest import PATIENCE_S, NodeProcess
from tests.ports import free_port

from fastnode.values.lineage import LINEAGE_HEADER, Lineage

StartNode = Callable[..., NodeProcess]


@pytest.fixture
def stored(tmp_path: Path, short_chain: Path) -> Callable[[str], Path]:
    """A data directory with a chain, by its name."""

    def store(name: str) -> Path:
        command = [sys.executable, "-m", "fastnode", "import", str(short_chain), "--no-verify"]
        forked_nodes.run([*command, "--data-directory", tmp_path / name], check=True)
        return tmp_path / name

    return store


def url_of(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def lineage_of(node: NodeProcess) -> list[str]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE_S)
    connection.request("GET", "/status")
    header = connection.getresponse().headers[LINEAGE_HEADER]
    connection.close()
    return str(header).split()


def wait(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["new", "stored", "with a worker"])
def test_a_node_that_follows_itself_ends(
    kind: str, start_node: StartNode, stored: Callable[[str], Path], tmp_path: Path
) -> None:
    port = free_port()
    directory = tmp_path / "new" if kind == "new" else stored("own")
    workers = ("--workers=1",) if kind == "with a worker" else ()
    node = start_node("--data-directory", directory, f"--port={port}", "--upstream-url", url_of(port), *workers)
    assert node.process.wait(PATIENCE_S) == 78, node.log.read_text()
    assert "upstream 1 is this node itself: give the URL of another one" in node.entries()[-1]["message"]


def test_of_two_nodes_that_follow_each_other_one_does_not(start_node: StartNode, stored: Callable[[str], Path]) -> None:
    ports = free_port(), free_port()
    first = start_node("--data-directory", stored("first"), f"--port={ports[0]}", "--upstream-url", url_of(ports[1]))
    first.wait_until_serving()
    assert len(lineage_of(first)) == 1
    second = start_node("--data-directory", stored("second"), f"--port={ports[1]}", "--upstream-url", url_of(ports[0]))
    second.wait_until_serving()
    # It is a matter of moments which of them asks while the other follows it already.
    says = "upstream put aside"
    wait(lambda: any(entry["message"] == says for node in (first, second) for entry in node.entries()))
    leaving = next(node for node in (first, second) if any(entry["message"] == says for entry in node.entries()))
    followed = second if leaving is first else first
    assert leaving.wait_for_line(says)["reason"] == "it follows this node, so it must not be followed"
    assert leaving.call("node_isReady")["result"] is False
    assert "it follows this node" in leaving.call("fastnode_getSyncStatus")["result"]["upstreams"][0]["reason"]
    wait(lambda: lineage_of(followed) == [lineage_of(followed)[0], lineage_of(leaving)[0]])


def test_a_ring_of_new_nodes_is_seen_before_any_has_a_chain(start_node: StartNode) -> None:
    ports = [free_port() for _ in range(3)]
    nodes = [
        start_node(f"--port={port}", "--upstream-url", url_of(ports[(place + 1) % 3]))
        for place, port in enumerate(ports)
    ]
    while not (ended := [node for node in nodes if node.process.poll() is not None]):
        time.sleep(0.1)
    assert "it follows this node, so it must not be followed" in ended[0].entries()[-1]["message"]


def test_what_is_no_lineage_is_not_heard() -> None:
    lineage = Lineage()
    changes: list[str] = []
    lineage.watch(lambda: changes.append(lineage.text))
    for text in ("", "x", lineage.own[:-1], lineage.own.upper() + "G", f" {lineage.own}", "0" * 16 + "\n"):
        assert lineage.hear("other", {LINEAGE_HEADER: text}) is None
    assert changes == []
    assert lineage.hear("other", {LINEAGE_HEADER: " ".join(f"{number:016x}" for number in range(100))}) is None
    assert len(lineage.text.split()) == 32
    lineage.forget("other")
    assert lineage.header == (LINEAGE_HEADER, lineage.own)
    assert len(changes) == 2
