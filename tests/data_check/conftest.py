"""Data directories to check."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file


@pytest.fixture(scope="session")
def short_loaded(tmp_path_factory: pytest.TempPathFactory, short_chain: Path) -> Path:
    """A data directory with the first blocks of the sample chain; not to be written to."""
    path = tmp_path_factory.mktemp("short") / "data"
    with ChainData.open(path) as data:
        adopt_chain_file(data.store, short_chain)
        import_chain_file(data.open_ingestor(verify=False), short_chain)
    return path


@pytest.fixture
def directory(short_loaded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(short_loaded, tmp_path / "data"))
