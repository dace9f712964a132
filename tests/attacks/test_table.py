"""A table of attacks of clients on the public port of a whole node: each must leave it alive, answering, and within its
memory, and for each the most memory, the longest block of the event loop and the longest wait of another client are
measured.

    FASTNODE_ATTACKS=FILE scripts/test tests/attacks/test_table.py      # writes the table as Markdown

Those of ``bench/strain.py`` (which measures many attackers, alone on a machine), and those that it has not.  Attacks
through L1, peers and transactions are in the other files of this folder.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.api.test_traces import keep
from tests.attacks.measured import Measured
from tests.attacks.test_memory import MINED
from tests.attacks.test_memory import genesis_hash as genesis_hash
from tests.conftest import PATIENCE_S, NodeProcess
from tests.effort import tries
from tests.public_execution.hostile import PROGRAMS
from tests.public_execution.made import tx_running

from fastnode.http.limits import MIB
from fastnode.kernels import USING_TWINS

pytestmark = pytest.mark.skipif(USING_TWINS, reason="attacks are on what is served")

BENCH = Path(__file__).parents[2] / "bench"
BUDGET = 256 * MIB
#: Beside the budget: what is loaded on demand, buffers of connections, and a program that runs.
BESIDE = 200 * MIB
#: Processor time of the event loop while another client waits: several times the longest turn of any request.
BLOCK_MAX_S = 0.12
ATTACKERS = 4
SECONDS = 1.5
TABLE = os.environ.get("FASTNODE_ATTACKS")


def load_strain() -> ModuleType:
    sys.path.insert(0, str(BENCH))
    try:
        spec = importlib.util.spec_from_file_location("strain", BENCH / "strain.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["strain"] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCH))
    return module


STRAIN: Any = load_strain()


def own_attacks() -> dict[str, Any]:
    """Attacks that ``strain.py`` has not."""
    attack, asks, leaves_unread, post, call = (
        *(STRAIN.Attack, STRAIN.asks, STRAIN.leaves_unread),
        *(STRAIN.post, STRAIN.call),
    )
    made: dict[str, Any] = {}
    for name, (program, gas) in PROGRAMS.items():
        tx = tx_running(program, l2_gas=gas).to_json()
        options = {"opcodes": {"limit": 20_000}, "gasProfile": True}
        traced, simulated = call("fastnode_traceCall", tx, options), call("node_simulatePublicCalls", tx, True)
        made[f"trace of {name}"] = attack(f"traces of a program with {name}", asks(post(json.dumps(traced).encode())))
        made[f"simulation of {name}"] = attack(
            f"simulations of a program with {name}", asks(post(json.dumps(simulated).encode()))
        )
    blocks = json.dumps([call("node_getBlocks", 1, 50)] * 100).encode()
    tracing = json.dumps([call("fastnode_traceTransaction", MINED[0], {"opcodes": True})] * 100).encode()
    made["16 unread blocks"] = attack(
        "16 batches of 100 x 50 blocks that are not read", leaves_unread(post(blocks)), 16
    )
    made["16 unread traces"] = attack("16 batches of 100 traces that are not read", leaves_unread(post(tracing)), 16)
    long_name = call("node_registerContractFunctionSignatures", ["f" * 9_990 + "(Field)"] * 100)
    made["long names"] = attack("registrations of names of 10 kB", asks(post(json.dumps(long_name).encode())))
    return made


OWN = own_attacks()
ALL_NAMES = [*STRAIN.attacks(STRAIN._NO_CHAIN), *OWN]
#: Every fifth of them in everyday runs: each takes seconds of both processors.
NAMES = ALL_NAMES[:: tries(5, 1)]


class Row(NamedTuple):
    what: str
    peak: int
    longest_block_s: float
    longest_wait_s: float


def note(row: Row) -> None:
    """Add a line to the table."""
    if TABLE is None:
        return
    file = Path(TABLE)
    if not file.exists():
        file.write_text("| attack | memory above idle | longest block | longest wait |\n|---|---|---|---|\n")
    with file.open("a") as lines:
        block_ms, wait_ms = 1e3 * row.longest_block_s, 1e3 * row.longest_wait_s
        lines.write(f"| {row.what} | {row.peak >> 20} MB | {block_ms:.0f} ms | {wait_ms:.0f} ms |\n")


@pytest.fixture(scope="module")
def node(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory, genesis_hash: bytes) -> Iterator[Measured]:
    folder = tmp_path_factory.mktemp("attacked")
    shutil.copytree(chain_directory, folder / "data")
    keep(folder / "data" / "p2p", genesis_hash, MINED)
    flags = [
        *("--data-directory", str(folder / "data"), "--keep-txs=1000", "--public-traces", "--metrics-port=0"),
        *("--disable-admin-api-key", f"--rpc-memory-budget={BUDGET}"),
    ]
    process = NodeProcess(flags, folder / "log", {})
    try:
        yield Measured(process.wait_until_serving())
    finally:
        process.process.kill()
        process.process.wait()


@pytest.fixture(scope="module")
def known(node: Measured) -> dict[str, Any]:
    """All attacks, by name, on the chain that the node has."""
    return {**STRAIN.attacks(STRAIN.Chain(node.port)), **OWN}


@pytest.mark.parametrize("name", NAMES)
def test_a_node_stays_alive_within_its_memory_and_responsive(node: Measured, known: dict[str, Any], name: str) -> None:
    attack = known[name]
    attacking = multiprocessing.get_context("fork").Process(
        target=STRAIN.attack_for, args=(attack, ATTACKERS, node.port, SECONDS)
    )
    with node.watched() as watched:
        attacking.start()
        attacking.join()
        until_answered(node)
    note(Row(attack.what, watched.peak, watched.longest_block_s, watched.longest_wait_s))
    assert node.process.process.poll() is None
    assert "Traceback" not in node.process.log.read_text()
    assert watched.peak < BUDGET + BESIDE, f"{watched.peak >> 20} MiB"
    assert watched.longest_block_s < BLOCK_MAX_S, f"{1e3 * watched.longest_block_s:.0f} ms"


def until_answered(node: Measured) -> None:
    """Another client is answered again."""
    deadline = time.monotonic() + PATIENCE_S
    while node.call_status() != 200:
        assert time.monotonic() < deadline, "the node does not answer"
        time.sleep(0.05)
