"""The bundled chain as records to tamper with, and stores that hold all or some of it.

With the checkpoints in hand: 4 and 5 have two blocks each, 6 four; 8 and 9 bring L1->L2 messages; 12 and
13 send L2->L1 messages in two epochs.  Block 1 registers a class (200 kB of one transaction).
"""

from __future__ import annotations

import copy
import lzma
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson
import pytest

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import BlockRecord, CheckpointRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.protocol.block import L2Block
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

Json = dict[str, Any]


class SampleChain:
    """The bundled chain, parsed once; what it hands out may be changed at will."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = lzma.decompress(path.read_bytes()).splitlines()
        self._checkpoints: list[Json] = [orjson.loads(line) for line in self.lines[2:-1]]

    @property
    def checkpoint_count(self) -> int:
        return len(self._checkpoints)

    def checkpoint_json(self, number: int) -> Json:
        """The record of a checkpoint, numbered from 1."""
        return copy.deepcopy(self._checkpoints[number - 1])

    def checkpoint(self, number: int) -> CheckpointRecord:
        return CheckpointRecord(self.checkpoint_json(number))

    def block_json(self, number: int) -> Json:
        for record in self._checkpoints:
            for block in record["published"]["checkpoint"]["blocks"]:
                if block["header"]["globalVariables"]["blockNumber"] == number:
                    return copy.deepcopy(block)
        raise KeyError(number)

    def block(self, number: int) -> L2Block:
        return L2Block.from_json(self.block_json(number))

    def block_records(self, checkpoint_number: int) -> list[BlockRecord]:
        """The blocks of a checkpoint as proposed blocks."""
        record = self.checkpoint_json(checkpoint_number)
        messages = record["l1ToL2Messages"]
        return [
            BlockRecord({"block": block} | ({"l1ToL2Messages": messages} if index == 0 and messages else {}))
            for index, block in enumerate(record["published"]["checkpoint"]["blocks"])
        ]

    def messages(self, checkpoint_number: int) -> list[bytes]:
        texts = self._checkpoints[checkpoint_number - 1]["l1ToL2Messages"]
        return [bytes.fromhex(text[2:]) for text in texts]


@pytest.fixture(scope="session")
def sample_path() -> Path:
    return Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))


@pytest.fixture(scope="session")
def sample(sample_path: Path) -> SampleChain:
    return SampleChain(sample_path)


@pytest.fixture
def contents() -> Callable[[ArchiverStore], dict[bytes, bytes]]:
    """Everything in a store's database."""

    def contents(store: ArchiverStore) -> dict[bytes, bytes]:
        with store.open_view() as view:
            return dict(view.scan())

    return contents


@pytest.fixture(scope="session")
def imported_directory(sample_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the whole chain, fully verified.  Not to be opened: copy it."""
    directory = tmp_path_factory.mktemp("imported")
    with ArchiverStore.open(directory) as store:
        adopt_chain_file(store, sample_path)
        ingestor = Ingestor(store)
        import_chain_file(ingestor, sample_path)
        ingestor.close()
    return directory


@pytest.fixture
def full_store(imported_directory: Path, tmp_path: Path) -> Iterator[ArchiverStore]:
    """A store with the whole chain, to do with as one likes."""
    directory = tmp_path / "full"
    shutil.copytree(imported_directory, directory)
    with ArchiverStore.open(directory, create=False) as store:
        yield store


@pytest.fixture
def store(sample_path: Path, tmp_path: Path) -> Iterator[ArchiverStore]:
    """A store with the genesis only."""
    with ArchiverStore.open(tmp_path / "data") as store:
        adopt_chain_file(store, sample_path)
        yield store


@pytest.fixture
def open_ingestor() -> Iterator[Callable[..., Ingestor]]:
    """``Ingestor(...)`` that is closed at the end of the test."""
    opened: list[Ingestor] = []

    def open_ingestor(store: ArchiverStore, **arguments: Any) -> Ingestor:
        opened.append(Ingestor(store, **arguments))
        return opened[-1]

    yield open_ingestor
    for ingestor in opened:
        ingestor.close()


@pytest.fixture
def ingestor(store: ArchiverStore, open_ingestor: Callable[..., Ingestor]) -> Ingestor:
    """On a store with the genesis only; verifies everything."""
    return open_ingestor(store)


@pytest.fixture
def full_ingestor(full_store: ArchiverStore, open_ingestor: Callable[..., Ingestor]) -> Ingestor:
    """On a store with the whole chain."""
    return open_ingestor(full_store)
