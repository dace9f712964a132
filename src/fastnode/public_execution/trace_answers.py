"""A trace as JSON: the tree of calls, gas by phase, what the fee was made of, steps, and stacks for flame graphs.

Long lists are rendered in pieces: whoever renders all at once holds the interpreter, and with it every other answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from fastnode.artifacts.naming import Naming
from fastnode.kernels import encode
from fastnode.protocol.fields import FIELD_BYTES, field_texts, hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.answers import revert_reason_json
from fastnode.public_execution.call_tree import Phase, selector_of
from fastnode.public_execution.fees import effective_fees
from fastnode.public_execution.results import ExecutedTx
from fastnode.public_execution.tracing import Event, Trace, TracedCall
from fastnode.public_execution.transaction import ExecutableTx

__all__ = ["folded_stacks", "trace_json"]

#: Arguments of a call that are tried as keys of maps.
_KEYS_PER_CALL: Final = 8
#: Events that are rendered without letting go of the interpreter.
_EVENTS_AT_ONCE: Final = 256
_PHASES: Final = {Phase.SETUP: "setup", Phase.APP: "app", Phase.TEARDOWN: "teardown"}


def trace_json(
    trace: Trace,
    tx: ExecutableTx,
    executed: ExecutedTx,
    block: GlobalVariables,
    head: Mapping[str, Any],
    naming: Naming,
) -> bytes:
    """TransactionTrace.  ``head`` says where the transaction is and where it was found."""
    naming.note_keys(_keys_of(trace))
    members: dict[str, Any] = dict(head)
    members |= {
        "revertCode": executed.effect.revert_code,
        "gas": _gas_json(trace, tx, executed),
        "fee": _fee_json(tx, executed, block),
        "effect": executed.effect.to_json(),
    }
    if executed.effect.revert_code:
        members["revertReason"] = revert_reason_json(executed, naming)
    members["isTruncated"] = trace.is_truncated
    if trace.options.steps_max:
        members["steps"] = {
            "first": trace.options.first_step,
            "taken": trace.steps_taken,
            "list": orjson.Fragment(b"[%b]" % trace.steps),
        }
    if trace.options.with_gas_profile:
        members["gasProfile"] = {"l2": folded_stacks(trace, naming), "da": folded_stacks(trace, naming, of_da=True)}
    calls = b",".join([_call_json(call, naming) for call in trace.calls])
    return b'%b,"calls":[%b]}' % (orjson.dumps(members)[:-1], calls)


# ---- calls --------------------------------------------------------------------------------------


def _call_json(call: TracedCall, naming: Naming) -> bytes:
    selector = selector_of(call.calldata)
    head: dict[str, Any] = {
        "phase": _PHASES[call.phase],
        "contractAddress": hex_text(call.address),
        "msgSender": hex_text(call.opening.sender),
        "isStaticCall": call.opening.is_static,
        "functionSelector": None if selector is None else hex_text(selector),
    }
    head |= naming.of_call(call.address, call.calldata, call.output, success=call.success)
    head |= {
        "number": call.number,
        "calldata": field_texts(call.calldata),
        "calldataFields": call.opening.calldata_fields,
        "gasLimit": _gas(max(0, call.opening.da_gas), max(0, call.opening.l2_gas)),
        "gasUsed": _gas(call.da_gas_used, call.l2_gas_used),
        "success": call.success,
        "returnData": field_texts(call.output),
    }
    if not call.success:
        head |= {"message": call.message, "pcs": call.pcs[-_EVENTS_AT_ONCE:].tolist()}
    return b'%b,"entries":[%b]}' % (orjson.dumps(head)[:-1], b",".join(_entries_json(call, naming)))


def _entries_json(call: TracedCall, naming: Naming) -> Iterator[bytes]:
    events: list[Event] = []
    for entry in call.entries:
        is_call = isinstance(entry, TracedCall)
        if events and (is_call or len(events) >= _EVENTS_AT_ONCE):
            yield orjson.dumps(events)[1:-1]
            events = []
        if isinstance(entry, TracedCall):
            yield b'{"event":"call",%b' % _call_json(entry, naming)[1:]
        else:
            events.append(_named(entry, call.address, naming))
    if events:
        yield orjson.dumps(events)[1:-1]


def _named(event: Event, address: bytes, naming: Naming) -> Event:
    """The event with the names of what it is about."""
    kind = event["event"]
    if kind in ("storageRead", "storageWrite"):
        owner = encode.from_hex(event["contractAddress"]) if kind == "storageRead" else address
        name = naming.slot(owner, encode.from_hex(event["slot"]))
        return event if name is None else event | {"slotName": name}
    if kind == "publicLog":
        return event | naming.of_log(address, b"".join(map(encode.from_hex, event["fields"])))
    return event


def _keys_of(trace: Trace) -> Iterator[bytes]:
    """Values that may be keys of maps: who calls, and with what."""
    pending = list(reversed(trace.calls))
    while pending:
        call = pending.pop()
        yield call.opening.sender
        fields = call.calldata[FIELD_BYTES : (1 + _KEYS_PER_CALL) * FIELD_BYTES]
        yield from (fields[at : at + FIELD_BYTES] for at in range(0, len(fields), FIELD_BYTES))
        pending += reversed(list(call.nested()))


# ---- gas and fee --------------------------------------------------------------------------------


def _gas_json(trace: Trace, tx: ExecutableTx, executed: ExecutedTx) -> dict[str, Any]:
    """The totals of a simulation, and what each phase used."""
    used = {phase: Gas(0, 0) for phase in _PHASES}
    for call in trace.calls:
        before = used[call.phase]
        used[call.phase] = Gas(before.da_gas + call.da_gas_used, before.l2_gas + call.l2_gas_used)
    phases = {"private": _gas(*tx.gas_used)}
    phases |= {name: _gas(*used[phase]) for phase, name in _PHASES.items()}
    return executed.gas.to_json() | {"phases": phases}


def _gas(da_gas: int, l2_gas: int) -> dict[str, int]:
    return {"daGas": da_gas, "l2Gas": l2_gas}


def _fee_json(tx: ExecutableTx, executed: ExecutedTx, block: GlobalVariables) -> dict[str, Any]:
    """Parts of the fee: gas that is billed, times prices."""
    fees = effective_fees(block.gas_fees, tx.max_fees_per_gas, tx.max_priority_fees_per_gas)
    billed = executed.gas.billed
    return {
        "payer": hex_text(tx.fee_payer),
        "feePerDaGas": str(fees.fee_per_da_gas),
        "feePerL2Gas": str(fees.fee_per_l2_gas),
        "daFee": str(fees.fee_per_da_gas * billed.da_gas),
        "l2Fee": str(fees.fee_per_l2_gas * billed.l2_gas),
        "transactionFee": str(executed.effect.transaction_fee),
    }


# ---- gas profile --------------------------------------------------------------------------------


def folded_stacks(trace: Trace, naming: Naming, *, of_da: bool = False) -> list[str]:
    """Gas by function and operation, a line for each stack: ``app;0x12..ab.transfer;SLOAD 1290``, as tools that draw
    flame graphs read it."""
    stacks: Counter[str] = Counter()
    pending = [(call, _PHASES[call.phase]) for call in trace.calls]
    while pending:
        call, above = pending.pop()
        stack = f"{above};{_frame(call, naming)}"
        for meter in call.meters:
            stacks[f"{stack};{meter.operation}"] += meter.da_gas if of_da else meter.l2_gas
        if call.number is None:  # nothing ran, and its gas is lost
            stacks[f"{stack};HALT"] += call.da_gas_used if of_da else call.l2_gas_used
        pending += [(nested, stack) for nested in call.nested()]
    return [f"{stack} {gas}" for stack, gas in sorted(stacks.items()) if gas > 0]


def _frame(call: TracedCall, naming: Naming) -> str:
    """Contract and function.  Neither has a blank or a semicolon, which end a frame."""
    selector = selector_of(call.calldata)
    if selector is None:
        return hex_text(call.address)
    name = naming.function(call.address, selector)
    function = hex_text(selector) if name is None else name.partition("(")[0].replace(";", "_").replace(" ", "_")
    return f"{hex_text(call.address)}.{function}"
