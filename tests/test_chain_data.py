"""The databases of a data directory, opened together."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from fastnode.chain_data import ChainData
from fastnode.errors import DataDirectoryError
from fastnode.storage.database import LOG_LEFT_BYTES_MAX, SharedDatabase, log_bytes

CRASH = """
import os, sys
from pathlib import Path
from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
data = ChainData.open(Path(sys.argv[1]))
adopt_chain_file(data.store, Path(sys.argv[2]))
import_chain_file(data.open_ingestor(verify=True), Path(sys.argv[2]))
os._exit(9)
"""


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A data directory with the bundled chain that nothing closed."""
    sample = str(files("fastnode").joinpath("data/sample_chain.jsonl.xz"))
    done = subprocess.run([sys.executable, "-c", CRASH, tmp_path, sample], check=False)
    assert done.returncode == 9
    assert log_bytes(tmp_path / "world_state") > LOG_LEFT_BYTES_MAX
    return tmp_path


def test_after_a_crash_everything_is_there(crashed: Path) -> None:
    with ChainData.open(crashed) as data:
        assert data.state.block_number == data.store.open_view().tip_number == 106


def test_a_state_that_was_not_asked_for_is_closed(crashed: Path) -> None:
    with ChainData.open(crashed):
        pass
    SharedDatabase.open(crashed / "world_state", create=False).release()


def test_a_chain_that_cannot_be_opened_leaves_the_state_unlocked(crashed: Path) -> None:
    (crashed / "archiver" / "CURRENT").unlink()
    with pytest.raises(DataDirectoryError, match="damaged"):
        ChainData.open(crashed)
    SharedDatabase.open(crashed / "world_state", create=False).release()
