"""The recorded chain with its state, for reading."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.mempool.chain import SAMPLE_CHAIN

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.view import View


@pytest.fixture(scope="session")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """The recorded chain at its tip; its state can be read after every block."""
    with ChainData.open(tmp_path_factory.mktemp("executed_chain")) as data:
        adopt_chain_file(data.store, SAMPLE_CHAIN)
        ingestor = data.open_ingestor(verify=False)
        import_chain_file(ingestor, SAMPLE_CHAIN)
        assert data.state is not None
        yield View(ingestor.view, data.state.view)
