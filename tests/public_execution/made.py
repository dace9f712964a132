"""Transactions that publish a contract with any bytecode and call it.  Simulations take them: nothing is validated."""

from __future__ import annotations

from dataclasses import replace

from tests.mempool.recorded import made_up_proof, recordings

from fastnode.kernels import encode, poseidon2
from fastnode.protocol.artifacts import Artifact
from fastnode.protocol.constants import (
    CONTRACT_CLASS_LOG_FIELDS,
    CONTRACT_CLASS_PUBLISHED_MAGIC,
    CONTRACT_INSTANCE_REGISTRY_ADDRESS,
)
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    HashedPublicKeys,
    PublicKeys,
    contract_address,
    contract_class_id,
    partial_address,
    public_bytecode_chunks,
    public_bytecode_commitment,
)
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, field_from_int
from fastnode.protocol.grumpkin import GENERATOR
from fastnode.protocol.header import HEADER_BYTES, BlockHeader
from fastnode.protocol.releases import FOUR, Release
from fastnode.protocol.siloing import silo_nullifier
from fastnode.protocol.tx import Calldata, Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

REGISTRY = field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS)
ADDRESS = field_from_int(0xADD2E55)
PENNILESS = field_from_int(0xB0A7)
CALLDATA_HASH = field_from_int(1)

#: JUMP_32 to itself.
ENDLESS_LOOP = bytes((35, 0, 0, 0, 0))


def tx_running(bytecode: bytes, *, l2_gas: int = 6_540_000, calls: int = 1, calldata: bytes = b"") -> Tx:
    """A transaction whose app logic calls a contract with this bytecode so many times.

    It has no payer: the fee must not be enforced."""
    class_log, class_id = _class_log(bytecode)
    template = next(row["tx"]["data"] for row in recordings().values() if row["tx"]["publicFunctionCalldata"])
    data = bytearray(encode.from_base64(template))
    data[USUAL.non_revertible :] = bytes(USUAL.public_data_bytes - USUAL.non_revertible)
    _put(data, USUAL.gas_limits, (786_432).to_bytes(4, "big") + l2_gas.to_bytes(4, "big"))
    _put(data, USUAL.teardown_gas_limits, bytes(8))
    _put(data, USUAL.max_fees, ((1 << 128) - 1).to_bytes(16, "big") * 2)
    _put(data, USUAL.max_priority_fees, bytes(32))
    _put(data, USUAL.gas_used, (96).to_bytes(4, "big") + (540_000).to_bytes(4, "big"))
    _put(data, USUAL.fee_payer, PENNILESS)
    part = USUAL.non_revertible
    _put(data, part + USUAL.nullifiers, field_from_int(0xF125700) + silo_nullifier(REGISTRY, ADDRESS))
    _put(data, part + USUAL.private_logs, _instance_log(class_id))
    # The registry emits a log without the zero fields at its end.
    emitted = -(-len(class_log.rstrip(b"\0")) // FIELD_BYTES)
    class_log_hash = poseidon2.hash_fields(class_log) + emitted.to_bytes(4, "big")
    _put(data, part + USUAL.class_log_hashes, class_log_hash + FOUR.addresses.class_registry)
    request = field_from_int(42) + ADDRESS + b"\0" + CALLDATA_HASH
    _put(data, USUAL.revertible + USUAL.call_requests, request * calls)
    proof = encode.from_base64(made_up_proof("made"))[4:]
    assert len(proof) == FOUR.proof_fields * FIELD_BYTES
    return Tx(TxData.from_buffer(bytes(data)), proof, (class_log,), (Calldata(calldata, CALLDATA_HASH),))


def valid_tx_running(
    bytecode: bytes,
    anchor: BlockHeader,
    version: int,
    payer: bytes,
    *,
    calldata: bytes = b"",
    of: Artifact | None = None,
    nullifier: bytes = b"",
    release: Release = FOUR,
) -> Tx:
    """As :func:`tx_running`, but one that a pool takes: class, instance and calldata are what their hashes say.

    ``anchor`` is the block that it was proven against; ``payer`` must have plenty of the fee asset.  ``of``: what the
    bytecode is that of; the contract calls itself then.  ``nullifier``: one more that it emits.
    """
    class_log, class_id = _class_log(bytecode, of)
    made = replace(tx_running(bytecode), class_logs=(class_log,))
    address, log = _valid_instance(class_id, release)
    calldata_hash = Calldata(calldata, ZERO_FIELD).computed_hash()
    layout = release.tx_layout
    # The header alone may have another length: what is behind it is the same.
    begin, end = USUAL.anchor_header, USUAL.anchor_header + HEADER_BYTES
    data = bytearray(made.data.buffer[:begin] + anchor.to_buffer() + made.data.buffer[end:])
    part = layout.non_revertible
    _put(data, layout.version, version.to_bytes(32, "big"))
    _put(data, layout.max_fees, bytes(16) + (10**8).to_bytes(16, "big"))
    _put(data, layout.fee_payer, payer)
    _put(data, layout.expiration, (anchor.global_variables.timestamp + 3600).to_bytes(8, "big"))
    _put(data, part + layout.nullifiers, class_id + silo_nullifier(REGISTRY, address) + nullifier)
    _put(data, part + layout.private_logs, log)
    emitted = -(-len(class_log.rstrip(b"\0")) // FIELD_BYTES)
    class_log_hash = poseidon2.hash_fields(class_log) + emitted.to_bytes(4, "big")
    _put(data, part + layout.class_log_hashes, class_log_hash + release.addresses.class_registry)
    _put(data, layout.vk_tree_root, release.vk_tree_root)
    _put(data, layout.protocol_contracts_hash, release.contracts_hash)
    sender = field_from_int(42) if of is None else address
    _put(data, layout.revertible + layout.call_requests, sender + address + b"\0" + calldata_hash)
    proof = made.proof[: release.proof_fields * FIELD_BYTES]
    arguments = (Calldata(calldata, calldata_hash),)
    return replace(made, data=TxData.from_buffer(bytes(data), layout=layout), proof=proof, calldata=arguments)


def _valid_instance(class_id: bytes, release: Release) -> tuple[bytes, bytes]:
    """The address of an instance of a class, and the log that publishes it."""
    point, version = b"".join(map(field_from_int, GENERATOR)), field_from_int(release.instance_version)
    head = version + ZERO_FIELD + class_id + ZERO_FIELD
    keys: PublicKeys | HashedPublicKeys = PublicKeys(point, point, point, point)
    if release.instance_version == 1:
        immutables, content, emitted = None, b"".join([point] * 4), 15
    else:
        keys = HashedPublicKeys(ZERO_FIELD, point, *[ZERO_FIELD] * 4)
        immutables, content, emitted = ZERO_FIELD, ZERO_FIELD * 2 + point + ZERO_FIELD * 4, 16
    partial = partial_address(class_id, ZERO_FIELD, ZERO_FIELD, ZERO_FIELD, immutables)
    address = contract_address(keys, partial, release.address_separator)
    log = (INSTANCE_PUBLISHED_TAG + address + head + content + ZERO_FIELD).ljust(16 * FIELD_BYTES, b"\0")
    return address, log + emitted.to_bytes(4, "big")


def _put(data: bytearray, offset: int, value: bytes) -> None:
    data[offset : offset + len(value)] = value


def _class_log(bytecode: bytes, of: Artifact | None = None) -> tuple[bytes, bytes]:
    """The joined fields of the log that publishes a class, and the class id."""
    artifact, functions = field_from_int(7), field_from_int(8)
    if of is not None:
        artifact, functions = of.artifact_hash, of.private_functions_root
    class_id = contract_class_id(artifact, functions, public_bytecode_commitment(bytecode))
    head = (
        field_from_int(CONTRACT_CLASS_PUBLISHED_MAGIC),
        class_id,
        field_from_int(1),
        artifact,
        functions,
        field_from_int(len(bytecode)),
    )
    log = b"".join(head) + public_bytecode_chunks(bytecode)
    return log.ljust(CONTRACT_CLASS_LOG_FIELDS * FIELD_BYTES, b"\0"), class_id


def _instance_log(class_id: bytes) -> bytes:
    head = INSTANCE_PUBLISHED_TAG + ADDRESS + field_from_int(1) + ZERO_FIELD + class_id
    return head.ljust(16 * FIELD_BYTES, b"\0") + (15).to_bytes(4, "big")
