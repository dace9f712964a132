"""Following: catching up with a node in another process, everything fetched, verified and stored; and how long after a
block is there a node that follows serves it.

Baseline, measured in the same run: importing the same chain from its file, which is the same work without the
network and without the other process, that has to read and render every block meanwhile.

FASTNODE_BENCH_FOLLOW_BLOCKS is the length of the synthetic chain (default 300), FASTNODE_BENCH_FOLLOW_FILE a chain
file to use instead of making one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from tests.sources.made_chain import made_chain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.config.settings import Settings
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from feeding import PATIENCE_S, feed, feeding, import_file, measure_feeding

SAMPLE = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
BLOCKS = int(os.environ.get("FASTNODE_BENCH_FOLLOW_BLOCKS", "300"))
TXS_PER_BLOCK = 4
ROUNDS = 3 if BLOCKS <= 1000 else 1


@pytest.fixture(scope="module", params=["bundled", "synthetic"])
def chain_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "bundled":
        return SAMPLE
    given = os.environ.get("FASTNODE_BENCH_FOLLOW_FILE")
    if given is not None:
        return Path(given)
    path = tmp_path_factory.mktemp("synthetic") / "chain.jsonl.gz"
    write_synthetic_chain(path, ChainShape(blocks=BLOCKS, txs=TXS_PER_BLOCK))
    return path


@contextmanager
def serving(chain_file: Path, directory: Path) -> Iterator[str]:
    """A node in another process that has the whole chain; gives its URL."""
    log = directory / "upstream.log"
    command = [sys.executable, "-m", "fastnode", "start", "--node", "--port=0", "--admin-port=0", "--log-json"]
    command += ["--data-directory", str(directory / "upstream"), "--chain-file", str(chain_file)]
    with log.open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
    try:
        port = _line(log, process, "serving")["port"]
        _line(log, process, "chain file loaded")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _line(log: Path, process: subprocess.Popen[bytes], message: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for line in log.read_text().splitlines():
            entry: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            if entry.get("message") == message:
                return entry
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(message)


def _follow(url: str, directory: Path, tip: int) -> None:
    feed(directory, Settings(upstream_url=(url,), upstream_timeout_s=60.0), tip)


def _measure(
    benchmark: BenchmarkFixture, work: Callable[[Path], object], tmp_path: Path, chain_file: Path, tip: int
) -> None:
    measure_feeding(benchmark, work, tmp_path, rounds=ROUNDS, blocks=tip, txs=_tx_count(chain_file))


def _tx_count(chain_file: Path) -> int:
    from fastnode.archiver.source import CheckpointRecord
    from fastnode.sources.chain_file import ChainFileSource

    with ChainFileSource(chain_file) as source:
        records = [record for record in source.records() if isinstance(record, CheckpointRecord)]
    blocks = (block for record in records for block in record.published.checkpoint.blocks)
    return sum(len(block.body.tx_effects) for block in blocks)


def test_catching_up_with_another_node(benchmark: BenchmarkFixture, chain_file: Path, tmp_path: Path) -> None:
    benchmark.group = f"catching up, {chain_file.name}"
    with serving(chain_file, tmp_path) as url:
        tip = import_file(chain_file, tmp_path / "length")
        _measure(benchmark, lambda path: _follow(url, path, tip), tmp_path, chain_file, tip)


def test_importing_the_same_from_a_file(benchmark: BenchmarkFixture, chain_file: Path, tmp_path: Path) -> None:
    benchmark.group = f"catching up, {chain_file.name}"
    tip = import_file(chain_file, tmp_path / "length")
    _measure(benchmark, lambda path: import_file(chain_file, path), tmp_path, chain_file, tip)


# ---- at the tip --------------------------------------------------------------------------------------------------

#: New blocks that are waited for; each begins at another moment between two looks.
TIP_ROUNDS = 40
LONGEST_REST_S = 0.5


@pytest.mark.parametrize("shortest_ms", [50, 500], ids=["as-shipped", "every-500-ms"])
@pytest.mark.benchmark(group="lag at the tip")
def test_a_new_block_is_served(benchmark: BenchmarkFixture, tmp_path: Path, shortest_ms: int) -> None:
    """From the moment an upstream has a block to the moment the node that follows it serves that block.

    Time on the wall, as waiting is what is measured: the rest between two looks, the fetch, verification and writing.
    The baseline asks every 500 ms in every case.
    """
    with ExitStack() as stack:
        (tmp_path / "made").mkdir()
        chain = stack.enter_context(made_chain(tmp_path / "made"))
        chain.checkpoint(2)
        upstream = stack.enter_context(scripted_upstream(chain))
        settings = Settings(upstream_url=(upstream.url,), upstream_polling_min_ms=shortest_ms)
        served = threading.Condition()
        tips = [0]

        def note(number: int) -> None:
            with served:
                tips.append(number)
                served.notify_all()

        stack.enter_context(feeding(tmp_path / "node", settings, note))
        phases = random.Random(1)

        def make_a_block() -> tuple[tuple[int], dict[str, Any]]:
            time.sleep(phases.uniform(0.2, 0.2 + LONGEST_REST_S))
            with upstream.lock:
                chain.propose()
            return (chain.tip,), {}

        def is_served(number: int) -> None:
            with served:
                assert served.wait_for(lambda: tips[-1] >= number, PATIENCE_S)

        is_served(chain.tip)
        benchmark.pedantic(is_served, setup=make_a_block, rounds=TIP_ROUNDS)
