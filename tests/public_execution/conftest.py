"""The recorded chain with its state, for reading."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.chain_data import ChainData
from fastnode.view import View


@pytest.fixture(scope="session")
def view(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """The recorded chain at its tip; its state can be read after every block."""
    directory = shutil.copytree(chain_directory, tmp_path_factory.mktemp("executed_chain") / "data")
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        assert data.state is not None
        yield View(ingestor.view, data.state.view)
