"""The bundled chain and the recorded vectors, as blocks to apply."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.world_state.chain import open_state

from fastnode.archiver.source import CheckpointRecord, GenesisRecord
from fastnode.protocol.block import L2Block
from fastnode.sources.chain_file import ChainFileSource
from fastnode.world_state.state import WorldState


@pytest.fixture(scope="session")
def sample_path() -> Path:
    return Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))


class SampleBlocks:
    """The bundled chain: its genesis, its blocks, and the messages of each first block."""

    def __init__(self, path: Path) -> None:
        self.blocks: list[tuple[L2Block, tuple[bytes, ...]]] = []
        with ChainFileSource(path) as source:
            self.genesis: GenesisRecord = source.genesis
            for record in source.records():
                if isinstance(record, CheckpointRecord):
                    for block in record.published.checkpoint.blocks:
                        messages = tuple(record.l1_to_l2_messages) if block.index_within_checkpoint == 0 else ()
                        self.blocks.append((block, messages))

    def apply(self, state: WorldState, *, upto: int) -> None:
        """Apply what is missing below or at block ``upto``."""
        for block, messages in self.blocks[state.block_number : upto]:
            state.commit(state.prepare(block, messages))


@pytest.fixture(scope="session")
def sample(sample_path: Path) -> SampleBlocks:
    return SampleBlocks(sample_path)


@pytest.fixture(scope="session")
def vectors(data_directory: Path) -> dict[str, Any]:
    """``trees``: what the reference's trees computed; ``replays``: live chains cut down to what the trees see."""
    loaded: dict[str, Any] = json.loads(lzma.decompress((data_directory / "state_vectors.json.xz").read_bytes()))
    return loaded


@pytest.fixture
def state(tmp_path: Path) -> Iterator[WorldState]:
    """A network without prefilled data, at its genesis."""
    with open_state(tmp_path) as state:
        yield state
