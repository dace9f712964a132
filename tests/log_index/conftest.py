"""Empty chains with log indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.log_index.chain import Chain


@pytest.fixture
def make_chain(tmp_path: Path) -> Iterator[Callable[..., Chain]]:
    """Makes empty chains, each in a directory of its own, and closes them."""
    chains: list[Chain] = []

    def make(*, indexed: bool = True) -> Chain:
        chains.append(Chain(tmp_path / f"chain-{len(chains)}", indexed=indexed))
        return chains[-1]

    yield make
    for chain in chains:
        chain.close()


@pytest.fixture
def chain(make_chain: Callable[..., Chain]) -> Chain:
    return make_chain()
