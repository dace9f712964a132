"""A prover on an L1 whose verifier takes no empty proof: refused without a program, and with one epochs are proven."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from tests.publishing.live_l1 import ROLLUP, needs_anvil, test_key
from tests.sequencing.network import ProposingNetwork, checkpointed, components, wait_until
from tests.sequencing.test_live_sequencer import first_slot

from fastnode.sources.l1.terms import STATE_SLOT

pytestmark = needs_anvil

#: A contract that answers true when the first argument of ``verify(bytes,bytes32[])`` has a length other than zero.
TAKES_ANY_BUT_EMPTY = "0x604435151560005260206000f3"
PROGRAM = """
import pathlib, sys
inputs, proof = map(pathlib.Path, sys.argv[1:])
pathlib.Path(__file__).with_name("inputs.json").write_bytes(inputs.read_bytes())
proof.write_bytes(b"a proof")
"""


@pytest.fixture
def checking(alone: ProposingNetwork) -> ProposingNetwork:
    """Its verifier looks at proofs."""
    slot = hex(STATE_SLOT + 7)
    verifier = "0x" + alone.anvil.call("eth_getStorageAt", "0x" + ROLLUP.hex(), slot, "latest")[-40:]
    alone.anvil.call("anvil_setCode", verifier, TAKES_ANY_BUT_EMPTY)
    return alone


def test_without_a_program_the_start_is_refused_and_says_what_is_needed(checking: ProposingNetwork) -> None:
    key = "0x" + test_key(0).reveal().hex()
    with pytest.raises(AssertionError, match=r"verifier on L1 checks proofs; give a program .* --prover-command"):
        checking.node("--prover-node", PROVER_PUBLISHER_PRIVATE_KEYS=key)


def test_a_program_proves_epochs_and_gets_all_of_them(checking: ProposingNetwork, tmp_path: Path) -> None:
    program = tmp_path / "prover.py"
    program.write_text(PROGRAM)
    command = shlex.join([sys.executable, str(program)])
    node = checking.proposer("--prover-node", "--prover-command", command)
    first_slot(checking)
    wait_until(lambda: checkpointed(node) == 1, lambda: components(node))
    checking.begin_slot(checking.slot // 4 * 4 + 4)  # the epoch is over

    def is_proven() -> bool:
        if checking.anvil.pool():
            checking.anvil.mine()
        return checking.proven >= 1

    wait_until(is_proven, checking.log)
    inputs = json.loads((tmp_path / "inputs.json").read_text())
    published = node.call("node_getCheckpoints", 1, 1)["result"][0]["checkpoint"]
    [checkpoint] = inputs["checkpoints"]
    assert checkpoint["archive"] == published["archive"]
    assert (inputs["startCheckpoint"], inputs["endCheckpoint"]) == (1, 1)
