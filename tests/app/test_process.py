"""What a node asks of the system for its process, and what it does around its life."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.app.process import process
from fastnode.app.roles.public_port import PublicPort
from fastnode.config.settings import Settings
from fastnode.http.allowance import MemoryBudget

ASK = """
import logging, resource, sys
from fastnode.app.process.process import allow_open_files
logging.basicConfig(format="%(message)s", stream=sys.stdout)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, int(sys.argv[1])))
allow_open_files(int(sys.argv[2]))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("hard", "wanted", "said"),
    [
        (400, 300, ["300 400"]),
        (400, 100, ["100 400"]),
        (400, 50, ["100 400"]),
        (400, 900, ["fewer open files are allowed than the connections may need", "400 400"]),
    ],
)
def test_as_many_open_files_as_needed_are_asked_for_and_no_more(hard: int, wanted: int, said: list[str]) -> None:
    command = [sys.executable, "-c", ASK, str(hard), str(wanted)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == said


TABLE = """
import sys
from pathlib import Path
from fastnode.app.process.process import allow_open_files
allow_open_files(900)
print(Path("/proc/self/status").read_text().partition("FDSize:")[2].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the table is told by Linux alone")
def test_the_table_of_open_files_does_not_have_to_grow_while_connections_are_accepted() -> None:
    found = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, check=True).stdout
    assert int(found) >= 900


class ShortNode:
    """A node that ends as soon as it is ready."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.frozen_when_ready = -1
        self.frozen_before = gc.get_freeze_count()  # CPython 3.12 begins with some
        self.foundation = SimpleNamespace(budget=MemoryBudget(1 << 20))
        self.reset = SimpleNamespace(is_made=False, wait=asyncio.Event().wait)
        self.equipment = SimpleNamespace(public_port=PublicPort(core=None))

    async def start(self) -> ShortNode:
        assert gc.get_freeze_count() == self.frozen_before
        return self

    async def wait_for_failure(self) -> None:
        self.frozen_when_ready = gc.get_freeze_count()

    async def stop(self) -> None:
        pass


@pytest.mark.usefixtures("thaws")
def test_what_a_start_leaves_behind_is_not_collected_again_and_again() -> None:
    gc.unfreeze()
    node: Any = ShortNode()
    try:
        asyncio.run(process._run_until_stopped(node.start))
    finally:
        gc.unfreeze()
    assert node.frozen_when_ready > 1000


#: Third parties that a plain start has no use for, and rooms for what few nodes do.
NOT_AT_THE_START = {
    *("aiohttp", "coincurve", "cramjam", "Crypto", "numpy", "obstore", "prometheus_client", "psycopg"),
    *("py_arkworks_bls12381", "rich"),
    *("fastnode.app.stages.origins", "fastnode.building", "fastnode.keystore.keystore", "fastnode.local_network"),
    *("fastnode.outgoing.network", "fastnode.sentinel.sentinel", "fastnode.snapshots.location", "fastnode.sources.l1"),
    *("fastnode.workers", "fastnode.world_state.replica", "fastnode.mempool.pool_replica"),
}


def test_a_plain_start_imports_nothing_that_only_some_settings_need() -> None:
    command = [sys.executable, "-c", "import sys, fastnode.app.process.process; print(*sys.modules, sep='\\n')"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert NOT_AT_THE_START.isdisjoint(loaded), sorted(NOT_AT_THE_START.intersection(loaded))
