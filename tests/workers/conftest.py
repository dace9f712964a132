"""Nodes with workers."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conftest import ADMIN_KEY_HASH, SAMPLE_CHAIN, NodeProcess
from tests.ports import free_port
from tests.taking_node import start_taking
from tests.workers.nodes import SAMPLE_TIP, WORKERS, Client, Workers, until

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def stored_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample chain in a data directory, to be copied."""
    directory = tmp_path_factory.mktemp("stored") / "data"
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, SAMPLE_CHAIN)
        import_chain_file(data.open_ingestor(verify=False), SAMPLE_CHAIN)
    return directory


@pytest.fixture
def workers(start_node: Callable[..., NodeProcess], stored_chain: Path, tmp_path: Path) -> Iterator[Workers]:
    """Over all of the sample chain, as a chain of one's own: transactions are taken."""
    port = free_port()
    shutil.copytree(stored_chain, tmp_path / "data")
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
