"""Nodes with workers."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import ADMIN_KEY_HASH, NodeProcess
from tests.workers.nodes import SAMPLE_TIP, WORKERS, Client, Workers, until


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def workers(start_node: Callable[..., NodeProcess], sample_chain: Path, tmp_path: Path) -> Iterator[Workers]:
    """Over all of the sample chain, as a chain of one's own: transactions are taken."""
    port = free_port()
    running = Workers(
        start_node(
            f"--workers={WORKERS}",
            f"--metrics-port={port}",
            f"--chain-file={sample_chain}",
            f"--data-directory={tmp_path / 'data'}",
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        )
    )
    running.metrics_port = port
    client = Client(running.node.port)
    until(lambda: client.result("node_getBlockNumber") == SAMPLE_TIP, "the chain is not there")
    running.node.wait_for_line("chain file loaded")
    client.close()
    yield running
    running.close()
