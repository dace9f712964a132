"""A trace as JSON: the tree of calls, gas by phase, what the fee was made of, steps, and stacks for flame graphs.

Long lists are rendered in pieces: whoever renders all at once holds the interpreter, and with it every other answer.
"""

from __future__ import annotations

import time
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
from fastnode.public_execution.tracing import PLACES_MAX, Event, Trace, TracedCall
from fastnode.public_execution.transaction import ExecutableTx

__all__ = ["trace_json"]

#: Arguments of a call that are tried as keys of maps.
_KEYS_PER_CALL: Final = 8
#: Events that are rendered without letting go of the interpreter.
_EVENTS_AT_ONCE: Final = 256
#: JSON of a line of a gas profile beside its stack.
_NUMBER_TEXT: Final = 16
#: Characters of a function's name in a stack.
_FRAME_NAME_MAX: Final = 100
_PHASES: Final = {Phase.SETUP: "setup", Phase.APP: "app", Phase.TEARDOWN: "teardown"}


def trace_json(
    trace: Trace,
    tx: ExecutableTx,
    executed: ExecutedTx,
    block: GlobalVariables,
    head: Mapping[str, Any],
    naming: Naming,
    deadline: float | None = None,
) -> bytes:
    """TransactionTrace.  ``head`` says where the transaction is and where it was found.

    What has no room in the trace, or is not rendered at ``deadline`` (a time of ``time.monotonic``), is left out, and
    the trace is truncated."""
    naming.note_keys(_keys_of(trace))
    writer = _Writer(trace, naming, deadline)
    members: dict[str, Any] = dict(head)
    members |= {
        "revertCode": executed.effect.revert_code,
        "gas": _gas_json(trace, tx, executed),
        "fee": _fee_json(tx, executed, block),
        "effect": executed.effect.to_json(),
    }
    if executed.effect.revert_code:
        members["revertReason"] = revert_reason_json(executed, naming, places_max=PLACES_MAX)
    profile = None
    if trace.options.with_gas_profile:
        profile = {"l2": writer.folded_stacks(), "da": writer.folded_stacks(of_da=True)}
    calls = writer.calls()
    members["isTruncated"] = writer.is_truncated
    if trace.options.steps_max:
        members["steps"] = {
            "first": trace.options.first_step,
            "taken": trace.steps_taken,
            "list": orjson.Fragment(b"[%b]" % trace.steps),
        }
    if profile is not None:
        members["gasProfile"] = profile
    text = b'%b,"calls":[%b]}' % (orjson.dumps(members)[:-1], calls)
    trace.room.settle(trace.mark, len(text))
    return text


# ---- calls --------------------------------------------------------------------------------------


class _Writer:
    """Renders one trace as long as there are room and time.

    The trace has counted what it expects of its calls and events; what they take beyond that, such as long names, is
    counted here."""

    def __init__(self, trace: Trace, naming: Naming, deadline: float | None) -> None:
        self.is_truncated = trace.is_truncated
        self._trace = trace
        self._naming = naming
        self._deadline = deadline
        #: JSON that was counted while the trace was recorded, as far as it is not written yet.
        self._counted = trace.text_bytes
        self._pieces: list[bytes] = []

    def calls(self) -> bytes:
        """The enqueued calls as the elements of a JSON array."""
        for place, call in enumerate(self._trace.calls):
            if not self._write_call(b",{" if place else b"{", call):
                break
        return b"".join(self._pieces)

    def _has_time(self) -> bool:
        if self._deadline is not None and time.monotonic() > self._deadline:
            self.is_truncated = True
            return False
        return True

    def _has_room(self, size: int, memory: int = 0) -> bool:
        if not self._trace.room.add(size, memory):
            self.is_truncated = True
            return False
        return True

    def _write(self, *parts: bytes) -> bool:
        """False, and nothing is written, if there is no room for it."""
        size = sum(map(len, parts))
        missing = max(0, size - self._counted)
        if not self._has_time() or (missing and not self._has_room(missing)):
            return False
        self._counted = max(0, self._counted - size)
        self._pieces += parts
        return True

    def _write_call(self, before: bytes, call: TracedCall) -> bool:
        naming = self._naming
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
            head |= {"message": call.message, "pcs": call.pcs.tolist()}
        if not self._write(before, orjson.dumps(head)[1:-1], b',"entries":['):
            return False
        self._write_entries(call)
        self._pieces.append(b"]}")
        return True

    def _write_entries(self, call: TracedCall) -> None:
        events: list[Event] = []
        comma = b""
        for entry in call.entries:
            if events and (isinstance(entry, TracedCall) or len(events) >= _EVENTS_AT_ONCE):
                if not self._write(comma, orjson.dumps(events)[1:-1]):
                    return
                events, comma = [], b","
            if isinstance(entry, TracedCall):
                if not self._write_nested(comma, entry):
                    return
                comma = b","
            else:
                events.append(_named(entry, call.address, self._naming))
        if events:
            self._write(comma, orjson.dumps(events)[1:-1])

    def _write_nested(self, comma: bytes, call: TracedCall) -> bool:
        return self._write_call(comma + b'{"event":"call",', call)

    def folded_stacks(self, *, of_da: bool = False) -> list[str]:
        """Gas by function and operation, a line for each stack: ``app;0x12..ab.transfer;SLOAD 1290``, as tools that
        draw flame graphs read it."""
        stacks: dict[str, int] = {}
        pending = [(call, _PHASES[call.phase]) for call in self._trace.calls]
        while pending:
            call, above = pending.pop()
            if not self._has_time():
                break
            stack = f"{above};{_frame(call, self._naming)}"
            gas = [(meter.operation, meter.da_gas if of_da else meter.l2_gas) for meter in call.meters]
            if call.number is None:  # nothing ran, and its gas is lost
                gas.append(("HALT", call.da_gas_used if of_da else call.l2_gas_used))
            for operation, used in gas:
                line = f"{stack};{operation}"
                if used > 0 and line not in stacks and not self._has_room(len(line) + _NUMBER_TEXT, 3 * len(line)):
                    return _lines(stacks)
                if used > 0:
                    stacks[line] = stacks.get(line, 0) + used
            pending += [(nested, stack) for nested in call.nested()]
        return _lines(stacks)


def _lines(stacks: Mapping[str, int]) -> list[str]:
    return [f"{stack} {gas}" for stack, gas in sorted(stacks.items())]


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


def _frame(call: TracedCall, naming: Naming) -> str:
    """Contract and function.  Neither has a blank or a semicolon, which end a frame."""
    selector = selector_of(call.calldata)
    if selector is None:
        return hex_text(call.address)
    name = naming.function(call.address, selector)
    if name is None:
        return f"{hex_text(call.address)}.{hex_text(selector)}"
    function = name[:_FRAME_NAME_MAX].partition("(")[0].replace(";", "_").replace(" ", "_")
    return f"{hex_text(call.address)}.{function}"
