"""Cases of public execution: transactions on a small state, and what comes out, in a form that both nodes can give.

A case is a JSON object::

    globals             of the block; all transactions of a case are in one
    classes             {class id: bytecode} and contracts [{address, classId, deployer, initHash}], beside BASE's
    state               {leaves, nullifiers, notes, messages} before the block, beside BASE's
    newMessages         what the block's checkpoint adds to the message tree
    txs                 [{calls: {setup, app, teardown}, nr and rv: private parts, first, gasLimits ...}]
    block               several transactions as a block is built; otherwise one, with the record of its calls
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from typing import Any

import orjson
from tests.public_execution.memory_state import REGISTRY, MemoryState
from tests.public_execution.vectors import (
    add_protocol_contracts,
    as_field,
    as_fields,
    described,
    globals_of,
    integer,
    texts,
    tx_of,
)

from fastnode.errors import FastnodeError
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.siloing import silo_nullifier
from fastnode.public_execution import executor as executor_module
from fastnode.public_execution.answers import revert_reason_json
from fastnode.public_execution.call_tree import CallRecord
from fastnode.public_execution.contracts import ProgramCache
from fastnode.public_execution.executor import BlockExecutor
from fastnode.public_execution.phases import PublicPhases, message_hashes
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions
from fastnode.public_execution.state import PublishedContract
from fastnode.public_execution.transaction import ExecutableTx

Json = dict[str, Any]

ADDRESSES = tuple(range(0x1000, 0x1018))
CLASSES = tuple(range(0x5000, 0x5018))
PAYER = 0x2A
#: The first note hashes and messages, and some nullifiers.
KNOWN = (1111, 2222, 3333)
#: What the contracts of BASE do unless a case says something else: SET_8 of 0 at cell 5, RETURN.
RETURN_NOTHING = bytes((39, 0, 5, 4, 0, 59, 0, 0, 5, 0, 5)).hex()

BASE: Json = {
    "contracts": [
        {"address": address, "classId": class_id, "deployer": 0x32 + index, "initHash": 0x90 + index}
        for index, (address, class_id) in enumerate(zip(ADDRESSES, CLASSES, strict=True))
    ],
    "classes": {str(class_id): RETURN_NOTHING for class_id in CLASSES},
    "nullifiers": [texts(silo_nullifier(REGISTRY, field_from_int(address)))[0] for address in ADDRESSES] + list(KNOWN),
    "leaves": [[texts(balance_slot(field_from_int(PAYER), FOUR.addresses.fee_juice))[0], hex(10**30)]],
    "notes": [*KNOWN, *[0] * 61],
    "messages": list(KNOWN),
}

_PRIVATE_LOG_FIELDS = 16


# ---- states ---------------------------------------------------------------------------------------


def add(state: MemoryState, part: Json) -> None:
    """What BASE or a case says of the state."""
    for class_id, bytecode in part.get("classes", {}).items():
        state.classes[as_field(int(class_id, 0))] = bytes.fromhex(bytecode)
    for contract in part.get("contracts", []):
        values = [as_field(contract[name]) for name in ("classId", "deployer", "initHash")]
        state.contracts[as_field(contract["address"])] = PublishedContract(*values)
    content = part.get("state", part)
    state.leaves.update({as_field(slot): as_field(value) for slot, value in content.get("leaves", [])})
    state.nullifiers.update(as_fields(content.get("nullifiers", [])))
    state.notes += as_fields(content.get("notes", []))
    state.messages += as_fields(content.get("messages", []))


def base_state() -> MemoryState:
    state = MemoryState()
    add_protocol_contracts(state)
    add(state, BASE)
    return state


def state_with(base: MemoryState, case: Json) -> MemoryState:
    state = copy.copy(base)
    for name in ("leaves", "nullifiers", "notes", "messages", "classes", "contracts"):
        setattr(state, name, getattr(base, name).copy())
    add(state, case)
    return state


def _variables(case: Json) -> GlobalVariables:
    return globals_of({name: integer(value) for name, value in case["globals"].items()})


# ---- transactions -----------------------------------------------------------------------------------


class _KnownHash:
    def __init__(self, value: bytes) -> None:
        self._value = value

    def result(self) -> bytes:
        return self._value


def transaction(tx: Json) -> ExecutableTx:
    made = tx_of({"calls": _complete(tx["calls"]), "tx": _padded(tx)}, {"tx": {}})
    return replace(made, pending_hash=_KnownHash(as_field(tx.get("hash", 7))))


def _complete(calls: Json) -> Json:
    """Each request says whether it is static."""
    return {
        phase: [{"static": False, **call} for call in part] if isinstance(part, list) else {"static": False, **part}
        for phase, part in calls.items()
    }


def _padded(tx: Json) -> Json:
    """Private logs with all their fields."""
    parts = {}
    for name in ("nr", "rv"):
        part = dict(tx.get(name) or {})
        logs = part.get("privateLogs", [])
        part["privateLogs"] = [[fields + [0] * (_PRIVATE_LOG_FIELDS - len(fields)), length] for fields, length in logs]
        parts[name] = part
    return {**tx, **parts}


# ---- outcomes -----------------------------------------------------------------------------------------


class _KeptPhases(PublicPhases):
    """The last transaction with public calls: its record of calls is not part of what executing gives."""

    last: PublicPhases

    def run(self, *, skip_fee_enforcement: bool) -> ExecutedTx:
        type(self).last = self
        return super().run(skip_fee_enforcement=skip_fee_enforcement)


executor_module.PublicPhases = _KeptPhases  # type: ignore[misc]


def outcome(base: MemoryState, case: Json) -> tuple[Json, list[TxEffect]]:
    """What a case comes to, and the effects of the transactions that are in its block."""
    executor = BlockExecutor(
        state_with(base, case),
        _variables(case),
        l1_to_l2_messages=as_fields(case.get("newMessages", [])),
        options=ExecutionOptions(collect_debug_logs=case.get("collectDebugLogs", True)),
        programs=ProgramCache(release=FOUR),
    )
    results, effects = [], []
    for tx in case["txs"]:
        try:
            executed = executor.execute(transaction(tx), skip_fee_enforcement=bool(case.get("skipFeeEnforcement")))
        except FastnodeError as error:
            results.append({"error": str(error)})
            continue
        effects.append(executed.effect)
        results.append(_in_block(executed) if case.get("block") else _alone(executed))
    return ({"results": results} if case.get("block") else results[0]), effects


def _alone(executed: ExecutedTx) -> Json:
    calls = _KeptPhases.last._host.calls
    return {**described(executed), "calls": [_call(record) for record in calls.roots]}


def _call(record: CallRecord) -> Json:
    return {
        "phase": int(record.phase),
        "address": texts(record.address)[0],
        "calldata": texts(record.calldata),
        "output": texts(record.output),
        "pcs": list(record.pcs),
        "message": record.message,
        "reverted": not record.success,
        "nested": [_call(nested) for nested in record.nested],
    }


def _in_block(executed: ExecutedTx) -> Json:
    effect = executed.effect
    found = described(executed)
    if effect.revert_code and executed.failure is None:  # the record of calls does not reach what failed
        found["revertReason"] = {**revert_reason_json(executed), "noirErrorStack": None}
    found["privateLogs"] = [[log.emitted_length, texts(log.fields[0])[0]] for log in effect.private_logs]
    found["classLogs"] = [[texts(log.contract_address)[0], log.emitted_length] for log in effect.contract_class_logs]
    return found


def published_outcome(case: Json, answer: Json) -> Json:
    """An answer of the published node in the same form."""
    found = {key: value for key, value in answer.items() if key not in ("id", "roots")}
    if "messages" in found:  # they are not hashed yet where a transaction is alone
        sent = tx_of({"calls": {}, "tx": _with_messages(found["messages"])}, {"tx": {}}).setup.messages
        found["messages"] = texts(message_hashes(sent, _variables(case)))
    return found


def _with_messages(messages: list[list[str]]) -> Json:
    nothing = {"gasLimits": [0, 0], "teardownGasLimits": [0, 0], "maxFees": [0, 0], "priority": [0, 0]}
    return {**nothing, "gasUsed": [0, 0], "feePayer": 0, "first": 0, "nr": {"messages": messages}}


def digest(found: Json) -> str:
    """Short form of an outcome, for recordings."""
    return hashlib.blake2b(orjson.dumps(found, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()
