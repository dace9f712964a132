"""Fixtures for pytest, there as soon as fastnode is installed.

    def test_mining(fastnode_network):
        before = fastnode_network.block_number
        assert fastnode_network.mine() == before + 1

The setting ``fastnode_flags`` of pytest's configuration has flags of ``fastnode start`` for it, one on each line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fastnode.testing import RunningNetwork

__all__ = ["fastnode_network", "fastnode_session_network", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("fastnode_flags", "flags of the local network of the tests", type="linelist", default=[])


@pytest.fixture(scope="session")
def fastnode_session_network(request: pytest.FixtureRequest) -> Iterator[RunningNetwork]:
    """One local network for the whole run; what a test leaves on it stays."""
    from fastnode.testing import local_network

    with local_network(*request.config.getini("fastnode_flags")) as network:
        yield network


@pytest.fixture
def fastnode_network(fastnode_session_network: RunningNetwork) -> Iterator[RunningNetwork]:
    """A local network that is after each test what it was before."""
    with fastnode_session_network.rolled_back():
        yield fastnode_session_network
