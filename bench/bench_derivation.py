"""Deriving a chain from L1 and blobs: everything fetched, every commitment computed, decoded, verified and stored.

L1 and its consensus client are scripts in another process.  Baseline, measured in the same run: importing the same
chain from its file, which is the same verification without L1, blobs and their commitments.

FASTNODE_BENCH_DERIVE_BLOCKS is the length of the synthetic chain (default 600).  It is derived from an L1 that answers
at once, and from one that takes 50 ms for each answer; transactions of wallets' shape with all history of the state and
with runs (``--world-state-history-from``), by processor time of all threads.  What is in memory while checkpoints are
fetched ahead is measured with checkpoints of nearly six blobs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from fastnode.config.settings import Settings
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.interpreter import SWITCH_INTERVAL_S
from fastnode.protocol.kzg import blob_commitment
from feeding import feed, import_file, measure_feeding

SAMPLE = Path(str(files("fastnode").joinpath("data/sample_chain.jsonl.xz")))
BLOCKS = int(os.environ.get("FASTNODE_BENCH_DERIVE_BLOCKS", "600"))
TXS_PER_BLOCK = 4
WALLET_BLOCKS = int(os.environ.get("FASTNODE_BENCH_DERIVE_WALLET_BLOCKS", "250"))
ROUNDS = 3
#: Of each answer of L1.
DELAYS_S = (0.0, 0.05)
#: Checkpoints of 23,000 fields, more of them than are in memory at once.
FULL = ChainShape(blocks=60, txs=17, nullifiers=32, writes=32, private_logs=32, public_logs=2)

Server = dict[str, Any]


@pytest.fixture(autouse=True)
def _threads_as_in_a_node() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module", params=["bundled", "synthetic"])
def chain_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "bundled":
        return SAMPLE
    path = tmp_path_factory.mktemp("synthetic") / "chain.jsonl.gz"
    write_synthetic_chain(path, ChainShape(blocks=BLOCKS, txs=TXS_PER_BLOCK))
    return path


@contextmanager
def published(chain_file: Path, delay_s: float = 0.0) -> Iterator[Server]:
    """L1 in another process that has the whole chain; each of its answers comes ``delay_s`` late."""
    command = [sys.executable, str(Path(__file__).with_name("l1_server.py")), str(chain_file), str(delay_s)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def _derive(server: Server, chain_file: Path, directory: Path, history_from: str = "genesis") -> None:
    settings = Settings(
        l1_rpc_urls=(server["l1"],),
        l1_consensus_host_urls=(server["beacon"],),
        registry_address=server["registry"],
        genesis=chain_file,
        max_allowed_eth_client_drift_seconds=0,
        world_state_history_from=history_from,
    )
    feed(directory, settings, server["blocks"])


def _measure(benchmark: BenchmarkFixture, work: Callable[[Path], object], tmp_path: Path, server: Server) -> None:
    measure_feeding(benchmark, work, tmp_path, rounds=ROUNDS, blocks=server["blocks"], txs=server["txs"])


@pytest.mark.parametrize("delay_s", DELAYS_S)
def test_deriving_from_l1(benchmark: BenchmarkFixture, chain_file: Path, tmp_path: Path, delay_s: float) -> None:
    benchmark.group = f"derivation, {chain_file.name}"
    with published(chain_file, delay_s) as server:
        _measure(benchmark, lambda path: _derive(server, chain_file, path), tmp_path, server)


def test_importing_the_same_from_a_file(benchmark: BenchmarkFixture, chain_file: Path, tmp_path: Path) -> None:
    benchmark.group = f"derivation, {chain_file.name}"
    with published(chain_file) as server:
        counts = dict(server)
    _measure(benchmark, lambda path: import_file(chain_file, path), tmp_path, counts)


@pytest.mark.benchmark(group="derivation, transactions of wallets")
def test_processor_time_with_all_history_and_in_runs(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """One after the other in each round, so that both meet the same load."""
    file = tmp_path / "wallets.jsonl.gz"
    write_synthetic_chain(file, ChainShape(blocks=WALLET_BLOCKS, txs=8, wallets=True))
    spent: dict[str, list[float]] = {"genesis": [], "sync": []}
    rounds = iter(range(1_000))
    with published(file) as server:

        def both() -> None:
            number = next(rounds)
            for history_from, found in spent.items():
                before = resource.getrusage(resource.RUSAGE_SELF)
                _derive(server, file, tmp_path / f"{history_from}-{number}", history_from)
                after = resource.getrusage(resource.RUSAGE_SELF)
                seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                found.append(round(seconds * 1e6 / server["txs"]))

        benchmark.pedantic(both, rounds=ROUNDS)
    benchmark.extra_info |= {f"us_per_tx_{name}": found for name, found in spent.items()}
    print(f"\nus of processor time a transaction: {spent}")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="nothing forgets a peak of memory here")
def test_memory_while_full_checkpoints_are_derived(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    benchmark.group = "derivation, full checkpoints"
    file = tmp_path / "full.jsonl.gz"
    write_synthetic_chain(file, FULL)
    with published(file) as server:
        before = _memory_mib("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        benchmark.pedantic(_derive, args=(server, file, tmp_path / "derived"), rounds=1)
        derived = _memory_mib("VmHWM") - before
        before = _memory_mib("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        import_file(file, tmp_path / "imported")
        imported = _memory_mib("VmHWM") - before
    benchmark.extra_info |= {"derived_mib": derived, "imported_mib": imported}
    print(f"\n{derived} MiB more at the peak while deriving, {imported} MiB more while importing")


def _memory_mib(name: str) -> int:
    """``VmRSS``, or ``VmHWM``: the most since that was forgotten."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) // 1024
    raise LookupError(name)


@pytest.mark.parametrize("count", [300, 4096])
@pytest.mark.benchmark(group="commitment of a blob")
def test_a_commitment(benchmark: BenchmarkFixture, count: int) -> None:
    """Of a blob with so many fields that are not zero."""
    blob = b"".join(bytes([1]) + place.to_bytes(31, "big") for place in range(1, count + 1))
    benchmark(blob_commitment, blob)
