"""Vectors of public execution: states and transactions, and what release 4.1.2 makes of them.

``tests/data/avm`` holds them.  A file has ``vectors``, each with a state of its own, or ``steps``, which follow
each other on one state.
"""

from __future__ import annotations

import base64
import functools
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from tests.public_execution.memory_state import MemoryState

from fastnode.errors import TxExecutionError
from fastnode.kernels import hash_threads
from fastnode.protocol.effects import ContractClassLog, PrivateLog
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Calldata, Tx
from fastnode.protocol.tx_data import CallRequest, Gas, TxData
from fastnode.public_execution.answers import debug_log_json, revert_reason_json
from fastnode.public_execution.contracts import ProgramCache
from fastnode.public_execution.executor import BlockExecutor
from fastnode.public_execution.phases import message_hashes
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions
from fastnode.public_execution.state import PublishedContract
from fastnode.public_execution.transaction import ExecutableTx, MessageToL1, PrivateEffects

DATA = Path(__file__).parents[1] / "data" / "avm"
SAMPLE_CHAIN = Path(__file__).parents[2] / "src" / "fastnode" / "data" / "sample_chain.jsonl.xz"

Json = dict[str, Any]


class _NoHash:
    """Stands for the hash of a transaction, which vectors do not have."""

    def result(self) -> bytes:
        return bytes(32)


NO_HASH = cast(hash_threads.PendingHash, _NoHash())


def load(name: str) -> Json:
    """The content of ``tests/data/avm/<name>.json.xz``."""
    content: Json = orjson.loads(lzma.decompress((DATA / f"{name}.json.xz").read_bytes()))
    return content


def integer(value: int | str) -> int:
    return value if isinstance(value, int) else int(value, 16)


def as_field(value: int | str) -> bytes:
    return field_from_int(integer(value))


def as_fields(values: list[int | str]) -> tuple[bytes, ...]:
    return tuple(as_field(value) for value in values)


def texts(fields: list[bytes] | tuple[bytes, ...] | bytes) -> list[str]:
    """Fields as the vectors write them, without leading zeros."""
    if isinstance(fields, bytes):
        fields = [fields[start : start + 32] for start in range(0, len(fields), 32)]
    return [hex(int.from_bytes(value, "big")) for value in fields]


# ---- states -------------------------------------------------------------------------------------


@functools.cache
def _genesis() -> Json:
    with lzma.open(SAMPLE_CHAIN) as lines:
        next(lines)
        record: Json = orjson.loads(next(lines))
        return record


def add_protocol_contracts(state: MemoryState) -> None:
    for contract_class in _genesis()["contractClasses"]:
        state.classes[as_field(contract_class["id"])] = base64.b64decode(contract_class["packedBytecode"])
    for instance in _genesis()["contractInstances"]:
        names = ("currentContractClassId", "deployer", "initializationHash")
        contract = PublishedContract(*[as_field(instance[name]) for name in names])
        state.contracts[as_field(instance["address"])] = contract


def state_of(vector: Json) -> MemoryState:
    state = MemoryState()
    if vector.get("extra", {}).get("protocolContracts"):
        add_protocol_contracts(state)
    for contract in vector["contracts"]:
        state.classes[as_field(contract["classId"])] = bytes.fromhex(contract["code"])
        if not contract.get("undeployed"):
            names = ("originalClassId", "deployer", "initHash")
            state.deploy(
                as_field(contract["address"]), PublishedContract(*[as_field(contract[name]) for name in names])
            )
    content = vector.get("state", {})
    state.leaves = {as_field(slot): as_field(value) for slot, value in content.get("leaves", [])}
    state.nullifiers.update(as_fields(content.get("nullifiers", [])))
    state.notes = list(as_fields(content.get("notes", [])))
    state.messages = list(as_fields(content.get("messages", [])))
    return state


def globals_of(record: Json) -> GlobalVariables:
    return GlobalVariables(
        chain_id=record["chainId"],
        version=record["version"],
        block_number=record["blockNumber"],
        slot_number=0,
        timestamp=record["timestamp"],
        coinbase=bytes(20),
        fee_recipient=bytes(32),
        gas_fees=GasFees(record["feePerDaGas"], record["feePerL2Gas"]),
    )


# ---- transactions -------------------------------------------------------------------------------


def tx_of(vector: Json, defaults: Json) -> ExecutableTx:
    record = {**defaults["tx"], **vector.get("tx", {})}
    calldata: dict[bytes, bytes] = {}

    def call(request: Json) -> CallRequest:
        claimed = field_from_int(len(calldata) + 1)
        calldata[claimed] = b"".join(as_fields(request["calldata"]))
        return CallRequest(as_field(request["sender"]), as_field(request["address"]), int(request["static"]), claimed)

    calls = vector["calls"]
    teardown = calls.get("teardown")
    setup = _private_effects(record.get("nr", {}))
    return ExecutableTx(
        pending_hash=NO_HASH,
        gas_limits=_gas(record["gasLimits"]),
        teardown_gas_limits=_gas(record["teardownGasLimits"]),
        max_fees_per_gas=GasFees(*map(integer, record["maxFees"])),
        max_priority_fees_per_gas=GasFees(*map(integer, record["priority"])),
        gas_used=_gas(record["gasUsed"]),
        fee_payer=as_field(record["feePayer"]),
        setup=setup._replace(nullifiers=(as_field(record["first"]), *setup.nullifiers)),
        app=_private_effects(record.get("rv", {})),
        setup_calls=tuple(call(request) for request in calls.get("setup", [])),
        app_calls=tuple(call(request) for request in calls.get("app", [])),
        teardown_call=call(teardown) if teardown else None,
        calldata=calldata,
    )


def _gas(pair: list[int | str]) -> Gas:
    return Gas(*map(integer, pair))


def _private_effects(record: Json) -> PrivateEffects:
    return PrivateEffects(
        note_hashes=as_fields(record.get("notes", [])),
        nullifiers=as_fields(record.get("nullifiers", [])),
        messages=tuple(_message(*message) for message in record.get("messages", [])),
        private_logs=tuple(PrivateLog(as_fields(log), length) for log, length in record.get("privateLogs", [])),
        class_logs=tuple(
            ContractClassLog(as_field(address), b"".join(as_fields(log)), len(log))
            for address, log in record.get("classLogs", [])
        ),
    )


def _message(contract: int | str, recipient: int | str, content: int | str) -> MessageToL1:
    return MessageToL1(as_field(contract), as_field(recipient)[12:], as_field(content))


# ---- outcomes -----------------------------------------------------------------------------------


def outcome(
    state: MemoryState,
    tx: ExecutableTx,
    block: GlobalVariables,
    *,
    skip_fee_enforcement: bool = False,
    collect_debug_logs: bool = True,
) -> Json:
    """Outcome in the form that the vectors call ``expect``."""
    options = ExecutionOptions(collect_debug_logs=collect_debug_logs)
    executor = BlockExecutor(state, block, options=options, programs=ProgramCache(release=FOUR))
    try:
        executed = executor.execute(tx, skip_fee_enforcement=skip_fee_enforcement)
    except TxExecutionError as error:
        return {"error": str(error)}
    return described(executed)


def described(executed: ExecutedTx) -> Json:
    effect = executed.effect
    return {
        "revertCode": effect.revert_code,
        "gas": executed.gas.to_json(),
        "fee": hex(effect.transaction_fee),
        "notes": texts(effect.note_hashes),
        "nullifiers": texts(effect.nullifiers),
        "messages": texts(effect.l2_to_l1_msgs),
        "logs": [[texts(log.contract_address)[0], texts(log.fields)] for log in effect.public_logs],
        "writes": [texts((write.leaf_slot, write.value)) for write in effect.public_data_writes],
        "returns": [texts(output) for output in executed.app_outputs],
        "debugLogs": [debug_log_json(entry) for entry in executed.debug_logs],
        # The vectors have nothing where the record of calls does not reach what failed.
        "revertReason": None if executed.failure is None else orjson.loads(orjson.dumps(revert_reason_json(executed))),
    }


def expected(vector: Json, block: GlobalVariables) -> Json:
    """``expect`` with the hashes of its messages in the place of what was hashed."""
    expect: Json = vector["expect"]
    if "messages" not in expect:
        return expect
    messages = [_message(*message) for message in expect["messages"]]
    return {**expect, "messages": texts(message_hashes(messages, block))}


# ---- scenarios ----------------------------------------------------------------------------------


def scenario(name: str) -> Iterator[tuple[str, Json, Json]]:
    """(label, what came out, what should) of each transaction of a scenario, on one growing state."""
    content = load(name)
    block = globals_of(content["globals"])
    state = MemoryState()
    add_protocol_contracts(state)
    for step in content["steps"]:
        if step["step"] == "tx":
            executor = BlockExecutor(state, block, programs=ProgramCache(release=FOUR))
            try:
                executed = executor.execute(scenario_tx(step))
            except TxExecutionError as error:
                yield step["label"], {"error": str(error)}, step["expect"]
                continue
            settle(state, executed)
            yield step["label"], described(executed), expected(step, block)
        else:
            take_step(state, step)


def scenario_tx(step: Json) -> ExecutableTx:
    """The transaction of a step; it has no proof, and its hash is not worked out: that takes longer than to run it."""
    buffer = zlib.decompress(base64.b64decode(step["data"]))
    data = TxData(buffer, buffer[:1] == b"\1", NO_HASH)
    calldata = tuple(Calldata(b"".join(as_fields(values)), as_field(claimed)) for claimed, values in step["calldata"])
    return ExecutableTx.of(Tx(data, b"", (), calldata))


def take_step(state: MemoryState, step: Json) -> None:
    """Change ``state`` as a step without a transaction says."""
    kind = step["step"]
    if kind == "leaf":
        state.leaves[as_field(step["slot"])] = as_field(step["value"])
    elif kind == "nullifier":
        state.nullifiers.add(as_field(step["value"]))
    elif kind == "note":
        state.notes.append(as_field(step["value"]))
    elif kind == "message":
        state.messages.append(as_field(step["value"]))
    elif kind == "class":
        state.classes[as_field(step["id"])] = base64.b64decode(step["code"])
    elif kind == "instance":
        address = as_field(step["address"])
        if address not in state.contracts:
            names = ("originalClassId", "deployer", "initHash")
            state.contracts[address] = PublishedContract(*[as_field(step[name]) for name in names])
    else:
        raise ValueError(f"unknown step {kind}")


def settle(state: MemoryState, executed: ExecutedTx) -> None:
    """Make what a transaction did part of the state."""
    effect = executed.effect
    state.leaves.update((write.leaf_slot, write.value) for write in effect.public_data_writes)
    state.nullifiers.update(effect.nullifiers)
    state.notes += effect.note_hashes + (bytes(32),) * (64 - len(effect.note_hashes))
