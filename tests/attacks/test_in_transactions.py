"""Whole nodes and what anybody can write into a transaction: pool, blocks and answers are those of published nodes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests._ext.avm_programs import assemble, put
from tests.attacks.attacked import AttackedNode
from tests.attacks.conftest import Attacked
from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs
from tests.mempool.recorded import hashes, recorded_tx
from tests.public_execution.made import tx_running, valid_tx_running
from tests.sources.l1.publishing import PublishingL1, publish
from tests.sources.made_chain import MadeChain

from fastnode._twins.avm_instructions import U8, U32
from fastnode.kernels import poseidon2
from fastnode.protocol.contracts import contract_class_id, public_bytecode_chunks, public_bytecode_commitment
from fastnode.protocol.effects import ContractClassLog, TxEffect
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

#: The smallest bytecode that ends with a whole chunk of zeros.
ZEROS_AT_END = b"\x26" + bytes(31)
#: Bytes that a node may take for transactions which buy memory: far below what 6.0 M public gas could buy.
MEMORY_MAX = 400 << 20


@pytest.fixture
def network(tmp_path: Path, start_node: Callable[..., Any]) -> AttackedNode:
    """A local network: a node that builds a block for each transaction that its pool takes."""
    flags = ("--local-network", "--disable-admin-api-key", "--metrics-port=0", "--data-directory", tmp_path / "net")
    return AttackedNode(start_node(*flags))


def goes_on(network: AttackedNode) -> None:
    """It takes and builds what anybody else sends."""
    before = network.ask("node_getBlockNumber")
    (other,) = made_txs(1)
    tx = for_chain(other, network.ask("node_getBlockHeader", "latest"), network.ask("node_getVersion"))
    assert network.ask("node_sendTx", tx) is None, "the network is well"
    assert network.ask("node_getTxReceipt", hash_of(tx))["blockNumber"] == before + 1
    assert not network.wrong()
    network.require_no_fault()


def adapted(network: AttackedNode, tx: Tx) -> Tx:
    """A recorded transaction as it would be for this network."""
    header, version = network.ask("node_getBlockHeader", "latest"), network.ask("node_getVersion")
    return Tx.from_json(for_chain(tx.to_json(), header, version), FOUR)


# ---- classes ----------------------------------------------------------------------------------


def publishing(template: Tx, bytecode: bytes) -> tuple[Tx, bytes]:
    """The transaction with a class log of this bytecode in place of its own, and the id of the class."""
    log = template.class_logs[0]
    class_id = contract_class_id(log[96:128], log[128:160], public_bytecode_commitment(bytecode))
    length = len(bytecode).to_bytes(32, "big")
    published = log[:32] + class_id + log[64:160] + length + public_bytecode_chunks(bytecode)
    emitted = -(-len(published.rstrip(b"\0")) // 32)  # the registry leaves out the zero fields at the end
    published = published.ljust(len(log), b"\0")
    data = bytearray(template.data.buffer)
    base = USUAL.non_revertible if template.data.is_public else USUAL.accumulated
    struct.pack_into(">32sI", data, base + USUAL.class_log_hashes, poseidon2.hash_fields(published), emitted)
    # Another one than the recorded transaction.
    data[base + USUAL.nullifiers : base + USUAL.nullifiers + 32] = class_id
    return replace(template, data=TxData.from_buffer(bytes(data)), class_logs=(published,)), class_id


def require_class(node: AttackedNode, class_id: bytes, bytecode: bytes) -> None:
    found = node.ask("node_getContractClass", "0x" + class_id.hex())
    assert base64.b64decode(found["packedBytecode"]) == bytecode


def test_bytecode_that_ends_with_a_chunk_of_zeros(
    network: AttackedNode, attacked: Attacked, chain: MadeChain, l1: PublishingL1
) -> None:
    """The pool takes it, blocks have it, and a class from L1 is known by it."""
    template = next(tx for tx in map(recorded_tx, hashes("sent")) if tx.class_logs)
    tx, class_id = publishing(adapted(network, template), ZEROS_AT_END)
    assert network.ask("node_sendTx", tx.to_json()) is None
    receipt = network.ask("node_getTxReceipt", "0x" + tx.hash.hex())
    assert receipt["executionResult"] == "success"
    require_class(network, class_id, ZEROS_AT_END)
    block = network.ask("node_getBlock", receipt["blockNumber"])
    effect = TxEffect.from_json(block["body"]["txEffects"][0])
    assert isinstance(effect.contract_class_logs[0], ContractClassLog)
    goes_on(network)

    node = attacked(l1)
    node.wait_for(chain)
    with l1.lock, l1.beacon.lock:
        chain.propose(1, effect)
        chain.publish()
        publish(l1, chain.units[-1])
    node.wait_for(chain)
    require_class(node, class_id, ZEROS_AT_END)
    node.stop()
    network.stop()


# ---- memory -----------------------------------------------------------------------------------


def peak_bytes(network: AttackedNode) -> int:
    """Most memory that the process has had so far."""
    text = Path(f"/proc/{network.process.process.pid}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) << 10


def pages_of_memory() -> bytes:
    """A program that writes two cells over the edge of one page after the other, for ever."""
    head = put(0, U32, 64) + put(1, U32, 2) + put(2, U32, 0) + put(3, U32, 1024 * 16)
    copies = b"".join(assemble("CALLDATACOPY", 1, 2, 7 + 16 * k, mode=0b100000) for k in range(1024))
    return head + copies + assemble("ADD", 0, 3, 0) + assemble("JUMP", len(head))


def send_running(network: AttackedNode, bytecode: bytes, calldata: bytes = b"") -> Any:
    """The receipt of a transaction that publishes this program and calls it, from a payer with plenty."""
    payer = b"\0" * 30 + b"\xfe\xed"
    network.ask("anvil_setBalance", "0x" + payer.hex(), hex(10**24))
    header = BlockHeader.from_json(network.ask("node_getBlockHeader", "latest"))
    tx = valid_tx_running(bytecode, header, network.ask("node_getVersion"), payer, calldata=calldata)
    assert network.ask("node_sendTx", tx.to_json()) is None
    return network.ask("node_getTxReceipt", "0x" + tx.hash.hex())


def test_memory_that_a_transaction_can_buy(network: AttackedNode) -> None:
    """In a block its program ends as everywhere, for want of gas: no limit of memory decides, and none is needed."""
    receipt = send_running(network, pages_of_memory(), bytes(64))
    assert receipt["executionResult"] == "app_logic_reverted"
    assert peak_bytes(network) < MEMORY_MAX
    goes_on(network)
    network.stop()


# ---- debug logs and texts ---------------------------------------------------------------------


def simulated(network: AttackedNode, tx: Tx) -> Any:
    return network.ask("node_simulatePublicCalls", tx.to_json(), True)


def test_debug_logs_up_to_their_limits(network: AttackedNode) -> None:
    """Cells are counted for each log; what all take together is bounded, and nobody else notices."""
    end = put(9, U32, 0) + assemble("RETURN", 9, 9)
    log = assemble("DEBUGLOG", 1, 5, 5, 2, 0)
    many = put(1, U8, 3) + put(2, U32, 100_000) + log * 3 + end
    result = simulated(network, tx_running(many))
    assert result.get("revertReason") is None, "three logs of 100,000 cells each"
    assert len(result["debugLogs"]) == 3
    long = put(1, U8, 3) + put(2, U32, 125_001) + log + end
    assert "debug log" in str(simulated(network, tx_running(long))).lower()
    goes_on(network)
    network.stop()


def test_class_logs_that_publish_nothing(network: AttackedNode) -> None:
    """The errors are those of published nodes, in their order: for another version, and for another id."""
    template = next(tx for tx in map(recorded_tx, hashes("sent")) if tx.class_logs)
    tx, _ = publishing(adapted(network, template), ZEROS_AT_END)
    for field, words in ((2, "Failed to parse contract class"), (1, "class id")):
        log = tx.class_logs[0]
        forged = log[: 32 * field] + bytes(31) + b"\x09" + log[32 * field + 32 :]
        data = bytearray(tx.data.buffer)
        base = USUAL.non_revertible if tx.data.is_public else USUAL.accumulated
        data[base + USUAL.class_log_hashes : base + USUAL.class_log_hashes + 32] = poseidon2.hash_fields(forged)
        bad = replace(tx, data=TxData.from_buffer(bytes(data)), class_logs=(forged,))
        assert words in str(network.ask("node_sendTx", bad.to_json())), words
    goes_on(network)
    network.stop()


# ---- flags ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [2, 255])
def test_flags_that_are_neither_0_nor_1(network: AttackedNode, flag: int) -> None:
    """Any but 0 is true: the same transaction as with 1, in the pool and in its block."""
    program = put(9, U32, 0) + assemble("RETURN", 9, 9)
    payer = b"\0" * 30 + b"\xfe\xed"
    network.ask("anvil_setBalance", "0x" + payer.hex(), hex(10**24))
    header = BlockHeader.from_json(network.ask("node_getBlockHeader", "latest"))
    tx = valid_tx_running(program, header, network.ask("node_getVersion"), payer)
    data = bytearray(tx.data.buffer)
    static = USUAL.revertible + USUAL.call_requests + 64
    data[USUAL.for_public] = data[static] = 1
    plain = TxData.from_buffer(bytes(data)).tx_hash
    data[USUAL.for_public] = data[static] = flag
    sent = tx.to_json() | {"data": base64.b64encode(data).decode()}
    assert network.ask("node_isValidTx", sent)["result"] == "valid"
    assert network.ask("node_sendTx", sent) is None
    receipt = network.ask("node_getTxReceipt", "0x" + plain.hex())
    assert receipt["executionResult"] == "success"
    goes_on(network)
    network.stop()
