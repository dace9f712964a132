"""Nodes that peers attack (strain_peers.py) where the sample chain does not do: one that verifies real proofs, and one
that judges proposals by the committee of an L1.

    with_verifier    the network of the test setup, where recorded proofs hold (FASTNODE_TEST_BB names the program)
    with_committee   follows an anvil whose committee has four members (FASTNODE_ANVIL names the program)
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from coincurve import PrivateKey
from tests.conftest import NodeProcess, clean_environment
from tests.p2p.vectors import recorded
from tests.proofs import toy_network
from tests.proofs.programs import toy_program, vector
from tests.publishing.live_l1 import address_of, test_key
from tests.sequencing.network import ProposingNetwork, proposing_network, wait_until

import proof_flood
import strain
from fastnode.p2p.gossip.topics import Topic, decompressed, unpack
from fastnode.p2p.messages.proposals import BlockProposal, wire_signature
from fastnode.protocol.ethereum import keccak_256, signed_digest
from fastnode.protocol.header import BlockHeader

#: How many false proofs cost what a valid one costs: those that fail at the last step.
DEAR: Final = proof_flood.DEAR
#: Different proposals for one position, before the next one.
AT_ONE_POSITION: Final = 10


class Target(strain.Node):
    """A node that runs already."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process, self.port = process, port


# ---- real proofs -----------------------------------------------------------------------------------


@cache
def _setup() -> Path:
    """Files that the verifier makes at its first start: some seconds, once for all rounds."""
    folder = Path(tempfile.mkdtemp())
    with proof_flood.running_node(folder / "first") as (port, _):
        proof_flood.wait_until_ready(port)
    shutil.copytree(folder / "first" / "data" / "proofs" / "setup", folder / "setup")
    shutil.rmtree(folder / "first")
    return folder / "setup"


@contextmanager
def with_verifier(flags: list[str]) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data_directory = toy_network.make_data_directory(folder)
        shutil.copytree(_setup(), data_directory / "proofs" / "setup")
        command = [sys.executable, "-m", toy_network.MODULE, "start", "--node", "--port=0", "--admin-port=0"]
        command += ["--metrics-port=0", *toy_network.arguments(data_directory, toy_program(folder)), *flags]
        environment = clean_environment(LOG_JSON="1", PYTHONPATH=toy_network.ROOT)
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        node = Target(process, 0)
        try:
            node.port = proof_flood._port(process, log)
            proof_flood.wait_until_ready(node.port)
            yield node
        finally:
            node.close()


@cache
def _recorded_tx() -> tuple[bytes, int]:
    """As it is sent, and where its proof begins in that."""
    tx = vector("private")
    payload = tx.to_buffer()
    return payload, payload.index(tx.proof) - 4


def false_proof(number: int) -> bytes:
    """A transaction that is right but for its proof; each number another one."""
    payload, at = _recorded_tx()
    at += proof_flood.LAST_FIELD if number % DEAR == 0 else proof_flood.FIRST_FIELD
    return payload[:at] + number.to_bytes(32, "big") + payload[at + 32 :]


# ---- a committee -------------------------------------------------------------------------------------


@dataclass
class Turn:
    """Of the slot that is now on the L1 of the node: who may propose, and what comes next."""

    header: BlockHeader
    in_hash: bytes
    secret: PrivateKey

    def proposal(self, number: int) -> bytes:
        """A block of the slot's proposer, another one for each number; so many for a position, then for the next."""
        header = replace(self.header, total_fees=number)
        block = BlockProposal.of(header, number // AT_ONE_POSITION, self.in_hash, bytes(32), (), bytes(65))
        signature = self.secret.sign_recoverable(signed_digest(keccak_256(block.signed)), hasher=None)
        signature = signature[:64] + bytes([27 + signature[64]])
        return replace(block, signature=wire_signature(signature)).to_buffer()


#: Of the node that :func:`with_committee` has started.
turns: list[Turn] = []


def _turn(network: ProposingNetwork, node: NodeProcess) -> Turn:
    slot = network.slot
    address = network.read("getProposerAt(uint256)", network.start_of(slot)).to_bytes(20, "big")
    key = next(key for key in map(test_key, range(6)) if address_of(key) == address)
    made = BlockProposal.from_buffer(unpack(decompressed(Topic.BLOCK_PROPOSAL, recorded("block_proposal-1.message"))))
    # It continues the chain, so that it is executed.
    newest = node.call("node_getBlock", "latest")["result"]
    number = int(newest["header"]["globalVariables"]["blockNumber"])
    archive = replace(made.header.last_archive, root=bytes.fromhex(newest["archive"]["root"][2:]))
    variables = replace(
        made.header.global_variables,
        slot_number=slot,
        timestamp=network.start_of(slot),
        block_number=number + 1,
    )
    header = replace(made.header, global_variables=variables, last_archive=archive)
    return Turn(header, made.in_hash, PrivateKey(key.reveal()))


@contextmanager
def with_committee(flags: list[str]) -> Iterator[Target]:
    started: list[NodeProcess] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def start(*arguments: object, **environment: str) -> NodeProcess:
            texts = [str(argument) for argument in arguments]
            started.append(NodeProcess(texts, folder / "node-0.log", environment))
            return started[-1]

        try:
            with proposing_network("committee_of_4", folder, start) as network:
                node = network.node(*flags)
                wait_until(lambda: node.call("node_isReady").get("result"), network.log)
                turns[:] = [_turn(network, node)]
                yield Target(node.process, node.port)
        finally:
            for each in started:
                each.process.terminate()
                each.process.wait(30)
