"""Nodes with workers."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import ADMIN_KEY_HASH, NodeProcess
from tests.ports import free_port
from tests.taking_node import start_taking
from tests.workers.nodes import SAMPLE_TIP, WORKERS, Client, Workers, until


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def workers(start_node: Callable[..., NodeProcess], chain_directory: Path, tmp_path: Path) -> Iterator[Workers]:
    """Over all of the sample chain, as a chain of one's own: transactions are taken."""
    port = free_port()
    shutil.copytree(chain_directory, tmp_path / "data")
    running = Workers(
        start_taking(
            start_node,
            f"--workers={WORKERS}",
            f"--metrics-port={port}",
            f"--data-directory={tmp_path / 'data'}",
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        )
    )
    running.metrics_port = port
    until(lambda: _listens(port), "there are no metrics")
    until(lambda: running.status()[0] == 200, "it is not well")
    client = Client(running.node.port)
    until(lambda: client.result("node_getBlockNumber") == SAMPLE_TIP, "the chain is not there")
    client.close()
    yield running
    running.close()
