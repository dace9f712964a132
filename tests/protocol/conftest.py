"""Vectors and the recorded chain, each read once per session.

``protocol_chain``     12 generated blocks in 7 checkpoints with every value that the reference computes for them:
                       empty block, several blocks per checkpoint, full txs, class logs, messages
``protocol_misc``      single hashes, addresses, classes, genesis states
``protocol_out_hash``  40 random epochs of L2-to-L1 messages with their roots and all witnesses
"""

from __future__ import annotations

import gzip
import lzma
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import PublishedCheckpoint


def _load(directory: Path, name: str) -> Any:
    return orjson.loads(gzip.decompress((directory / f"{name}.json.gz").read_bytes()))


@pytest.fixture(scope="session")
def chain_vectors(data_directory: Path) -> dict[str, Any]:
    return _load(data_directory, "protocol_chain")


@pytest.fixture(scope="session")
def misc_vectors(data_directory: Path) -> dict[str, Any]:
    return _load(data_directory, "protocol_misc")


@pytest.fixture(scope="session")
def out_hash_vectors(data_directory: Path) -> dict[str, Any]:
    return _load(data_directory, "protocol_out_hash")


@pytest.fixture(scope="session")
def sample_records() -> list[dict[str, Any]]:
    """The records of the bundled chain, as parsed JSON."""
    packed = files("fastnode").joinpath("data/sample_chain.jsonl.xz").read_bytes()
    return [orjson.loads(line) for line in lzma.decompress(packed).splitlines()]


@pytest.fixture(scope="session")
def sample_checkpoint_records(sample_records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in sample_records if record["kind"] == "checkpoint"]


@pytest.fixture(scope="session")
def sample_checkpoints(sample_checkpoint_records: list[dict[str, Any]]) -> list[PublishedCheckpoint]:
    return [PublishedCheckpoint.from_json(record["published"]) for record in sample_checkpoint_records]


@pytest.fixture(scope="session")
def sample_blocks(sample_checkpoints: list[PublishedCheckpoint]) -> list[L2Block]:
    return [block for published in sample_checkpoints for block in published.checkpoint.blocks]


@pytest.fixture(scope="session")
def vector_blocks(chain_vectors: dict[str, Any]) -> list[L2Block]:
    return [L2Block.from_json(block) for block in chain_vectors["blocks"]]
