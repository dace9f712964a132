"""A node that has a chain serves it before it asks any other node; what the others are, it finds out then."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

Start = Callable[..., NodeProcess]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with made_chain(tmp_path / "made") as chain:
        chain.checkpoint(2)
        yield chain


@pytest.fixture
def upstream(chain: MadeChain) -> Iterator[ScriptedUpstream]:
    with scripted_upstream(chain) as upstream:
        yield upstream


@pytest.fixture
def directory(tmp_path: Path, start_node: Start, upstream: ScriptedUpstream) -> Path:
    """A data directory that has the chain of the upstream."""
    node = start_node("--upstream-url", upstream.url, "--data-directory", tmp_path / "data")
    node.wait_for_line("caught up")
    assert node.stop() == 0
    return tmp_path / "data"


def readiness(node: NodeProcess) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{node.url}/readyz", timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def status_text(node: NodeProcess) -> str:
    try:
        with urllib.request.urlopen(f"{node.url}/status", timeout=PATIENCE_S) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read().decode())


def headers_of(node: NodeProcess, port: int) -> dict[str, str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=PATIENCE_S) as response:
        return {name.lower(): value for name, value in response.headers.items()}


def test_a_silent_upstream_does_not_delay_serving(directory: Path, start_node: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        node = start_node("--upstream-url", url, "--upstream-timeout-s=300", "--data-directory", directory)
        silent.settimeout(PATIENCE_S)
        connection, _ = silent.accept()  # it is asked, and does not answer
        with connection:
            node.wait_until_serving()
            assert node.call("node_getBlockNumber")["result"] == 2
            status, text = readiness(node)
            assert status == 503
            assert "no source has been asked yet" in text
            assert "no source has been asked yet" in status_text(node)
            assert node.call("node_isReady")["result"] is False
            assert node.stop() == 0


def test_a_silent_l1_does_not_delay_serving(directory: Path, start_node: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        sources = ("--l1-rpc-urls", url, "--l1-consensus-host-urls", url, "--l1-timeout-s=0.2")
        node = start_node(*sources, "--data-directory", directory).wait_until_serving()
        assert node.call("node_getBlockNumber")["result"] == 2
        node.wait_for_line("the chain does not advance")
        assert node.stop() == 0


def test_an_upstream_of_another_network_ends_the_node(
    directory: Path, start_node: Start, upstream: ScriptedUpstream
) -> None:
    upstream.node_info["rollupVersion"] = 77
    node = start_node("--upstream-url", upstream.url, "--data-directory", directory)
    assert node.process.wait(PATIENCE_S) == 1
    assert "it is on another network: its rollup version is 77" in node.log.read_text().splitlines()[-1]


def test_what_is_learned_of_the_network_later_is_in_the_headers_at_once(
    directory: Path, start_node: Start, upstream: ScriptedUpstream
) -> None:
    root = "0x" + "07" * 32

    def with_root(handler: Any, body: bytes) -> bool:
        handler.reply(upstream.answer(body), x_aztec_l2CircuitsVkTreeRoot=root)
        return True

    upstream.stop()
    node = start_node("--upstream-url", upstream.url, "--data-directory", directory).wait_until_serving()
    node.wait_for_line("upstream unavailable")
    name = "x-aztec-l2circuitsvktreeroot"
    assert headers_of(node, node.port).get(name) != root
    upstream.disturb = with_root
    upstream.start()
    deadline = time.monotonic() + PATIENCE_S
    while any(headers_of(node, port).get(name) != root for port in (node.port, node.admin_port)):
        assert time.monotonic() < deadline, json.dumps(node.entries()[-5:])
        time.sleep(0.02)
    assert headers_of(node, node.port)["x-aztec-rollupversion"], "the other headers stay"
    assert node.stop() == 0
