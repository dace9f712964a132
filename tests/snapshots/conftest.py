"""Data directories with the first blocks of the sample chain, and snapshots of them."""

from __future__ import annotations

import itertools
import lzma
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from fastnode.chain_data import ChainData
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.leaf_create import create_leaf_snapshot, leaves_to_ship
from fastnode.snapshots.leaf_index import LeafSnapshot
from fastnode.snapshots.location import Location
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file


def import_checkpoints(sample_chain: Path, count: int, directory: Path) -> Path:
    """A data directory with that many checkpoints."""
    directory.mkdir(parents=True)
    file = directory.parent / f"{directory.name}.jsonl"
    with lzma.open(sample_chain) as lines:
        file.write_bytes(b"".join(itertools.islice(lines, 2 + count)))
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        import_chain_file(ingestor, file)
    return directory


@pytest.fixture(scope="session")
def long_directory(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight checkpoints, blocks 1 to 16.  Not to be written."""
    return import_checkpoints(sample_chain, 8, tmp_path_factory.mktemp("long") / "data")


@pytest.fixture(scope="session")
def short_directory(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints.  Not to be written."""
    return import_checkpoints(sample_chain, 3, tmp_path_factory.mktemp("short") / "data")


@pytest.fixture(scope="session")
def made_snapshot(long_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot of the long directory.  Not to be written."""
    folder = tmp_path_factory.mktemp("location")
    create_snapshot(long_directory, Location.to_write(f"file://{folder}"), nullcontext())
    return folder


@pytest.fixture
def snapshot(made_snapshot: Path, tmp_path: Path) -> Path:
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(made_snapshot, tmp_path / "location"))


@pytest.fixture
def old(short_directory: Path, tmp_path: Path) -> Path:
    """A data directory with the short chain, to be replaced."""
    return Path(shutil.copytree(short_directory, tmp_path / "old"))


@pytest.fixture(scope="session")
def made_leaves(long_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a snapshot of leaves of a copy of the long directory.  Not to be written."""
    folder = tmp_path_factory.mktemp("leaves")
    directory = Path(shutil.copytree(long_directory, folder / "data"))
    create_leaves(directory, folder / "location")
    return folder / "location"


def create_leaves(directory: Path, folder: Path) -> LeafSnapshot:
    """Make a snapshot of leaves of a data directory."""
    return create_leaves_at(directory, Location.to_write(f"file://{folder}"))


def create_leaves_at(directory: Path, location: Location) -> LeafSnapshot:
    """The same at any location."""
    with ChainData.open(directory, create=False) as data:
        return create_leaf_snapshot(directory, location, nullcontext(), lambda: leaves_to_ship(data.store, data.state))


@pytest.fixture
def leaves(made_leaves: Path, tmp_path: Path) -> Path:
    """A copy of it that may be spoilt."""
    return Path(shutil.copytree(made_leaves, tmp_path / "leaves"))
