"""A local network for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked_nodes
from tests.local_network.local_chain import LocalChain, opened


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[LocalChain]:
    """It builds a block for each transaction."""
    yield from opened(tmp_path)


@pytest.fixture
def quiet_chain(tmp_path: Path) -> Iterator[LocalChain]:
    """It builds no block unless it is asked to."""
    yield from opened(tmp_path, automine=False)


@pytest.fixture(scope="module")
def forked_networks() -> Iterator[None]:
    """Networks that are processes begin sooner."""
    with forked_nodes.used_by("fastnode.testing"):
        yield
