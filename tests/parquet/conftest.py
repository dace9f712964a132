"""The recorded chain in a data directory, and as the file says it, for comparison."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file


def load(directory: Path, chain_file: Path) -> ChainData:
    """An open data directory that holds the chain of a file."""
    data = ChainData.open(directory)
    adopt_chain_file(data.store, chain_file)
    import_chain_file(data.open_ingestor(verify=False), chain_file)
    return data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, sample_chain: Path) -> Iterator[ChainData]:
    """The recorded chain, open."""
    with load(tmp_path_factory.mktemp("recorded"), sample_chain) as opened:
        yield opened


@pytest.fixture(scope="session")
def recorded(sample_chain: Path) -> list[dict[str, Any]]:
    """The lines of the recorded chain's file."""
    with lzma.open(sample_chain) as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def recorded_blocks(recorded: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Its blocks in order, as nodes answer them."""
    blocks = []
    for line in recorded:
        if line["kind"] == "checkpoint":
            blocks += line["published"]["checkpoint"]["blocks"]
        elif line["kind"] == "block":
            blocks.append(line["block"])
    return blocks
