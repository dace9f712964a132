"""Watching an execution: which calls a transaction made, and what each of them read, wrote and used.

    trace = Trace(TraceOptions(steps_max=1000))
    executor.execute(tx, trace=trace)        # the same effects and gas as without
    trace.calls                              # those enqueued, in their order, each with what happened in it

A trace has a bounded number of calls and events, and of bytes (trace_room.py); ``is_truncated`` says that there were
more.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Final, TypeAlias

from fastnode.kernels import avm
from fastnode.protocol.fields import FIELD_BYTES, field_texts, hex_text
from fastnode.public_execution.call_tree import Phase
from fastnode.public_execution.contracts import Contracts, leaf_slot_of
from fastnode.public_execution.host import TxHost
from fastnode.public_execution.state import StateJournal
from fastnode.public_execution.trace_room import TraceRoom
from fastnode.records import dataclass

__all__ = ["DEPTH_MAX", "ENTRIES_MAX", "PLACES_MAX", "Trace", "TraceOptions", "TracedCall", "TracingHost"]

#: Calls and events of one trace.
ENTRIES_MAX: Final = 20_000
#: Calls that are open at one time and recorded.  Gas buys thousands, of which no reader of JSON takes the nesting.
DEPTH_MAX: Final = 100
#: Places in a program that the JSON of a failed call has: the innermost.
PLACES_MAX: Final = 256

#: Bytes of JSON: of a field, of a call without its fields, of an event without its members, of a member without its
#: text, of a step.
_FIELD_TEXT: Final = 69
_CALL_TEXT: Final = 900
_EVENT_TEXT: Final = 48
_MEMBER_TEXT: Final = 24
_STEP_TEXT: Final = 256
#: Bytes of memory: of a call without its fields, of an event with members of some fields, of each further field, of
#: one meter of gas, of a step.
_CALL_MEMORY: Final = 1_200
_EVENT_MEMORY: Final = 900
_FIELD_MEMORY: Final = 136
_METER_MEMORY: Final = 200
_STEP_MEMORY: Final = 80

#: One thing that a call did, as answers carry it.
Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """``steps_max`` instructions are kept from number ``first_step`` on, of all that the transaction executes."""

    first_step: int = 0
    steps_max: int = 0
    with_gas_profile: bool = False


@dataclass(slots=True)
class TracedCall:
    """A call, enqueued or nested.  Everything from ``success`` on holds once it has ended."""

    phase: Phase
    address: bytes
    opening: avm.Opening
    #: Joined fields, at most as many as the interpreter hands out.
    calldata: bytes
    #: The number that steps know the call by; None when nothing could run.
    number: int | None = None
    success: bool = False
    output: bytes = b""
    pcs: array[int] = field(default_factory=lambda: array("I"))
    message: str = ""
    l2_gas_used: int = 0
    da_gas_used: int = 0
    #: Gas of its own instructions; empty unless the trace has a gas profile.
    meters: list[avm.GasMeter] = field(default_factory=list)
    #: Events and nested calls in their order.
    entries: list[Event | TracedCall] = field(default_factory=list)

    def nested(self) -> Iterator[TracedCall]:
        """The calls that it has made."""
        return (entry for entry in self.entries if isinstance(entry, TracedCall))


class Trace:
    """Everything that is seen of one transaction.  Written by the thread that executes it."""

    def __init__(self, options: TraceOptions | None = None, room: TraceRoom | None = None) -> None:
        self.options: Final = options or TraceOptions()
        self.room: Final = room or TraceRoom()
        #: The room before anything was recorded.
        self.mark: Final = self.room.mark()
        #: The enqueued calls that have ended.
        self.calls: list[TracedCall] = []
        self.is_truncated = False
        #: JSON that calls and events are expected to take, as counted in the room.
        self.text_bytes = 0
        self._steps_max = self.options.steps_max
        if not self.room.add(_STEP_TEXT * self._steps_max, _STEP_MEMORY * self._steps_max):
            self._steps_max, self.is_truncated = 0, True
        self.steps = b""
        self.steps_taken = 0
        self._machine: avm.Machine | None = None
        self._open: list[TracedCall | None] = []
        self._entered = 0
        self._entries = 0

    @property
    def machine_options(self) -> dict[str, Any]:
        """Options of the machine, beside those of any."""
        return {
            "is_watched": True,
            "first_step": self.options.first_step,
            "steps_max": self._steps_max,
        }

    def attach(self, machine: avm.Machine) -> None:
        """Watch this machine; before it executes anything."""
        self._machine = machine

    def finish(self) -> None:
        """Take the steps of the machine, which has executed everything."""
        if self._machine is not None:
            self.steps, self.steps_taken = self._machine.steps_json(), self._machine.steps_taken

    def detach(self) -> None:
        """Let go of the machine, which knows this trace through its host: a circle would stay in memory for long."""
        self._machine = None

    # ---- what the host is asked and told ---------------------------------------------------------

    def enter(self, phase: Phase, address: bytes, calldata: bytes) -> None:
        """A call begins; there may be nothing to run at its address."""
        assert self._machine is not None
        fields = len(calldata) // FIELD_BYTES
        if len(self._open) >= DEPTH_MAX or not self._has_room(
            _CALL_TEXT + _FIELD_TEXT * fields, _CALL_MEMORY + len(calldata)
        ):
            self.is_truncated = True
            self._open.append(None)
            return
        call = TracedCall(phase, address, self._machine.opening, calldata)
        self._siblings().append(call)
        self._open.append(call)

    def entered(self) -> None:
        """There is a program for the call that has begun."""
        call = self._open[-1]
        if call is not None:
            call.number = self._entered
        self._entered += 1

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        """The call entered last has ended."""
        assert self._machine is not None
        call = self._open.pop()
        if call is None:
            return
        l2_left, da_left = self._machine.ending_gas
        # Programs that call themselves leave millions of places.
        call.success, call.output, call.pcs, call.message = success, output, pcs[-PLACES_MAX:], message
        # A transaction that has overdrawn gives a call less than nothing, of which it can use nothing.
        call.l2_gas_used = max(0, call.opening.l2_gas - l2_left)
        call.da_gas_used = max(0, call.opening.da_gas - da_left)
        if call.number is not None and self.options.with_gas_profile:
            call.meters = self._machine.gas_meters
        text = _FIELD_TEXT * (len(output) // FIELD_BYTES) + 2 * len(message) + _MEMBER_TEXT * len(call.pcs)
        memory = len(output) + len(message) + 4 * len(call.pcs) + _METER_MEMORY * len(call.meters)
        self.text_bytes += text
        if not self.room.add(text, memory):  # it is recorded already; few are open
            self.is_truncated = True

    def add(self, kind: str, **members: Any) -> None:
        """The running call has done something; ``members`` as answers carry them.

        No call runs while the private part of the transaction is inserted: the effects have what it brings.
        """
        assert self._machine is not None
        call = self._open[-1] if self._open else None
        if call is None:
            return
        text, memory = _EVENT_TEXT, _EVENT_MEMORY
        for name, value in members.items():
            text += _MEMBER_TEXT + len(name)
            if kind == "debugLog" and isinstance(value, str):
                text += 6 * len(value)  # its message: each character escaped, at worst
                memory += 4 * len(value)
            elif isinstance(value, str):
                text += len(value)
            elif isinstance(value, list):
                text += _FIELD_TEXT * len(value)
                memory += _FIELD_MEMORY * len(value)
        if self._has_room(text, memory):
            call.entries.append({"event": kind, "pc": self._machine.pc, **members})

    def _has_room(self, text: int, memory: int) -> bool:
        if self._entries >= ENTRIES_MAX or not self.room.add(text, memory):
            self.is_truncated = True
            return False
        self._entries += 1
        self.text_bytes += text
        return True

    def _siblings(self) -> list[Any]:
        """The list that a call which begins belongs to.  Calls of a call that is left out are left out too."""
        if not self._open:
            return self.calls
        caller = self._open[-1]
        return [] if caller is None else caller.entries


class TracingHost(TxHost):
    """The host of a transaction that is watched: it does what any does, and tells the trace."""

    def __init__(
        self,
        journal: StateJournal,
        contracts: Contracts,
        first_nullifier: bytes,
        debug_log_memory_reads_max: int,
        trace: Trace,
    ) -> None:
        super().__init__(journal, contracts, first_nullifier, debug_log_memory_reads_max)
        self._trace = trace

    # ---- calls -----------------------------------------------------------------------------------

    def enter(self, address: bytes, calldata: bytes) -> avm.Program:
        self._trace.enter(self.calls.phase, address, calldata)
        program = super().enter(address, calldata)
        self._trace.entered()
        return program

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        super().leave(success, output, pcs, message)
        self._trace.leave(success, output, pcs, message)

    # ---- storage ---------------------------------------------------------------------------------

    def read_storage(self, address: bytes, slot: bytes) -> bytes:
        value = super().read_storage(address, slot)
        self._trace.add("storageRead", contractAddress=hex_text(address), slot=hex_text(slot), value=hex_text(value))
        return value

    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None:
        before = self._journal.storage(leaf_slot_of(address, slot))
        super().write_storage(address, slot, value)
        self._trace.add("storageWrite", slot=hex_text(slot), oldValue=hex_text(before), newValue=hex_text(value))

    # ---- trees -----------------------------------------------------------------------------------

    def note_hash_exists(self, note_hash: bytes, index: int) -> bool:
        return self._asked("noteHashExists", super().note_hash_exists(note_hash, index), note_hash, leafIndex=index)

    def emit_note_hash(self, address: bytes, note_hash: bytes) -> None:
        super().emit_note_hash(address, note_hash)
        unique = self.effects.note_hashes[-1]
        self._trace.add("noteHash", value=hex_text(note_hash), uniqueNoteHash=hex_text(unique))

    def nullifier_exists(self, siloed_nullifier: bytes) -> bool:
        return self._asked("nullifierExists", super().nullifier_exists(siloed_nullifier), siloed_nullifier)

    def emit_nullifier(self, address: bytes, nullifier: bytes) -> None:
        super().emit_nullifier(address, nullifier)
        siloed = self.effects.nullifiers[-1]
        self._trace.add("nullifier", value=hex_text(nullifier), siloedNullifier=hex_text(siloed))

    def l1_to_l2_message_exists(self, message_hash: bytes, index: int) -> bool:
        found = super().l1_to_l2_message_exists(message_hash, index)
        return self._asked("l1ToL2MessageExists", found, message_hash, leafIndex=index)

    def send_l2_to_l1_message(self, address: bytes, recipient: bytes, content: bytes) -> None:
        super().send_l2_to_l1_message(address, recipient, content)
        message = self.effects.messages[-1]
        self._trace.add("l2ToL1Message", recipient=hex_text(message.recipient), content=hex_text(content))

    def contract_instance_member(self, address: bytes, member: int) -> bytes | None:
        value = super().contract_instance_member(address, member)
        self._trace.add(
            "contractInstance",
            contractAddress=hex_text(address),
            member=_MEMBERS[member],
            value=None if value is None else hex_text(value),
        )
        return value

    def _asked(self, kind: str, answer: bool, value: bytes, **members: Any) -> bool:
        self._trace.add(kind, value=hex_text(value), **members, exists=answer)
        return answer

    # ---- logs ------------------------------------------------------------------------------------

    def emit_public_log(self, address: bytes, fields: bytes) -> None:
        super().emit_public_log(address, fields)
        self._trace.add("publicLog", fields=field_texts(fields))

    def debug_log(self, address: bytes, level: int, message: bytes, fields: bytes) -> None:
        # Not kept for the host: a trace has no other list of them, and is truncated where a simulation fails.
        if self._trace.room.is_full:  # a log may read a hundred thousand cells
            return
        text = message.decode("utf-8", "replace")
        self._trace.add("debugLog", level=level, message=text, fields=field_texts(fields))


_MEMBERS: Final = {
    avm.MEMBER_DEPLOYER: "deployer",
    avm.MEMBER_CLASS_ID: "currentContractClassId",
    avm.MEMBER_INITIALIZATION_HASH: "initializationHash",
}
