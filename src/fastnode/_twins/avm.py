"""The interpreter of the public virtual machine in plain Python: the readable twin of ``fastnode._ext.avm.avm``.

Instructions and their gas are in ``avm_instructions``, what they do in ``avm_opcodes`` and ``avm_world_opcodes``, a
running call in ``avm_call``, memory in ``avm_memory``, hashing and curves in ``avm_gadgets``.  Here is what surrounds
them: the stack of calls, the host, and what may be used.
"""

from __future__ import annotations

import time
from array import array
from typing import Final, NamedTuple, Protocol

from fastnode._twins.avm_call import Call, End, NestedCall, read_field, read_fields, to_bytes
from fastnode._twins.avm_instructions import Instruction, Rules, decode
from fastnode._twins.avm_memory import NO_DATA, Data, GivenData, Memory, MemoryData, PageAccount
from fastnode._twins.avm_opcodes import run
from fastnode._twins.avm_watch import CallWatch, GasMeter, StepRecord
from fastnode.errors import CallHalted, ExecutionCancelled, ExecutionTimeExceeded

__all__ = [
    "MEMBER_CLASS_ID",
    "MEMBER_DEPLOYER",
    "MEMBER_IMMUTABLES_HASH",
    "MEMBER_INITIALIZATION_HASH",
    "RECORDED_FIELDS",
    "GasMeter",
    "Host",
    "Machine",
    "Opening",
    "Outcome",
    "Program",
]

RECORDED_FIELDS: Final = 300

MEMBER_DEPLOYER: Final = 0
MEMBER_CLASS_ID: Final = 1
MEMBER_INITIALIZATION_HASH: Final = 2
MEMBER_IMMUTABLES_HASH: Final = 3

#: The text of a call that ended with REVERT; the blank at its end belongs to it.
_REVERTED: Final = "Assertion failed: "
#: The clock is read once in so many instructions.
_INSTRUCTIONS_PER_TICK: Final = 256


class Program:
    """Public bytecode with its decoded instructions, by place."""

    def __init__(
        self,
        bytecode: bytes,
        *,
        copy_gas: int = 3,
        point_gas: int = 270,
        bitwise_gas: int = 3,
        members: int = 3,
        point_flags: bool = True,
        bounds_reads: bool = True,
    ) -> None:
        if not isinstance(bytecode, bytes):
            raise TypeError(f"bytecode must be bytes, not {type(bytecode).__name__}")
        self.bytecode = bytecode
        self.rules = Rules(copy_gas, point_gas, bitwise_gas, members, point_flags, bounds_reads)
        self._decoded: dict[int, Instruction] = {}

    def instruction_at(self, pc: int) -> Instruction:
        """CallHalted when there is none."""
        instruction = self._decoded.get(pc)
        if instruction is None:
            instruction = self._decoded[pc] = decode(self.bytecode, pc, self.rules)
        return instruction


class Host(Protocol):
    """Described in ``fastnode/_ext/avm/avm.pyi``."""

    def enter(self, address: bytes, calldata: bytes) -> Program: ...
    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None: ...
    def read_storage(self, address: bytes, slot: bytes) -> bytes: ...
    def is_cold(self, address: bytes, slot: bytes) -> bool: ...
    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None: ...
    def note_hash_exists(self, note_hash: bytes, index: int) -> bool: ...
    def emit_note_hash(self, address: bytes, note_hash: bytes) -> None: ...
    def nullifier_exists(self, siloed_nullifier: bytes) -> bool: ...
    def emit_nullifier(self, address: bytes, nullifier: bytes) -> None: ...
    def l1_to_l2_message_exists(self, message_hash: bytes, index: int) -> bool: ...
    def contract_instance_member(self, address: bytes, member: int) -> bytes | None: ...
    def has_room_for_public_log(self, size: int) -> bool: ...
    def emit_public_log(self, address: bytes, fields: bytes) -> None: ...
    def send_l2_to_l1_message(self, address: bytes, recipient: bytes, content: bytes) -> None: ...
    def count_debug_log(self, cells: int) -> None: ...
    def debug_log(self, address: bytes, level: int, message: bytes, fields: bytes) -> None: ...


class Outcome(NamedTuple):
    """End of an enqueued call."""

    success: bool
    output: bytes
    l2_gas_left: int
    da_gas_left: int
    message: str


class Opening(NamedTuple):
    """The beginning of a call, beside its address and calldata."""

    sender: bytes
    is_static: bool
    calldata_fields: int
    l2_gas: int
    da_gas: int


class Machine:
    """Runs the enqueued calls of one transaction, one after the other."""

    def __init__(
        self,
        host: Host,
        *,
        chain_id: bytes,
        version: bytes,
        block_number: int,
        timestamp: int,
        fee_per_l2_gas: int,
        fee_per_da_gas: int,
        collect_debug_logs: bool = True,
        memory_limit: int = 1 << 28,
        shared_memory_limit: int = 0,
        deadline: float | None = None,
        is_watched: bool = False,
        first_step: int = 0,
        steps_max: int = 0,
    ) -> None:
        self.host = host
        self.chain_id, self.version = read_field(chain_id, "chain_id"), read_field(version, "version")
        self.block_number = _check_unsigned(block_number, "block_number", 32)
        self.timestamp = _check_unsigned(timestamp, "timestamp", 64)
        self.fee_per_l2_gas = _check_unsigned(fee_per_l2_gas, "fee_per_l2_gas", 128)
        self.fee_per_da_gas = _check_unsigned(fee_per_da_gas, "fee_per_da_gas", 128)
        self.collect_debug_logs = collect_debug_logs
        self.transaction_fee = 0
        self._memory_limit = _check_unsigned(memory_limit, "memory_limit", 63)
        self._account = PageAccount(self._memory_limit)
        _check_unsigned(shared_memory_limit, "shared_memory_limit", 63)  # of programs that run at once: not here
        self._deadline = deadline
        self._cancelled = False
        self._calls: list[Call] = []
        self._running = False
        self._record: StepRecord | None = None
        if is_watched:
            first_step = _check_unsigned(first_step, "first_step", 63)
            self._record = StepRecord(first_step, _check_unsigned(steps_max, "steps_max", 32))
        #: For the host, while it is told that a call begins or has ended.
        self.opening = Opening(bytes(32), False, 0, 0, 0)
        self.ending_gas = (0, 0)

    def cancel(self) -> None:
        """Make the call that is running, and each later one, end with ExecutionCancelled soon."""
        self._cancelled = True

    # ---- what a watched machine tells -------------------------------------------------------------

    @property
    def pc(self) -> int:
        return self._watch.pc

    @property
    def gas_meters(self) -> list[GasMeter]:
        return self._watch.meters()

    @property
    def _watch(self) -> CallWatch:
        watch = self._calls[-1].watch if self._calls else None
        if watch is None:
            raise RuntimeError("no watched call is running")
        return watch

    @property
    def steps_taken(self) -> int:
        return self._record.taken if self._record else 0

    @property
    def step_count(self) -> int:
        return len(self._record.steps) if self._record else 0

    def steps_json(self) -> bytes:
        return self._record.json() if self._record else b""

    # ---- running ----------------------------------------------------------------------------------

    def execute(
        self,
        address: bytes,
        sender: bytes,
        calldata: bytes,
        *,
        is_static: bool,
        transaction_fee: bytes,
        l2_gas: int,
        da_gas: int,
        l2_gas_limit: int,
        da_gas_limit: int,
    ) -> Outcome:
        """Run one enqueued call."""
        if self._running:
            raise RuntimeError("the machine is running already")
        self.transaction_fee = read_field(transaction_fee, "transaction_fee")
        first = NestedCall(
            read_field(address, "address"),
            is_static,
            GivenData(read_fields(calldata, "calldata")),
            _check_gas(l2_gas, "l2_gas"),
            _check_gas(da_gas, "da_gas"),
        )
        caller = read_field(sender, "sender")
        limits = _check_gas(l2_gas_limit, "l2_gas_limit"), _check_gas(da_gas_limit, "da_gas_limit")
        self._running, self._account, self._calls = True, PageAccount(self._memory_limit), []
        try:
            return self._run(first, caller, limits)
        finally:
            self._running, self._calls = False, []

    # ---- stack of calls ---------------------------------------------------------------------------

    def _run(self, first: NestedCall, sender: int, limits: tuple[int, int]) -> Outcome:
        self._check_limits()
        outcome = self._begin(first, sender, limits)
        steps = 0
        while outcome is None:
            steps += 1
            if steps % _INSTRUCTIONS_PER_TICK == 0:
                self._check_limits()
            call = self._calls[-1]
            try:
                action = self._step(call)
            except CallHalted as halt:
                if call.watch is not None:
                    call.watch.halt(call.l2_gas, call.da_gas)
                outcome = self._end(success=False, output=NO_DATA, message=str(halt), gas_left=(0, 0))
                continue
            match action:
                case None:
                    call.pc = call.next_pc
                case End(success, output):
                    if call.watch is not None:
                        call.watch.close_step(call.l2_gas, call.da_gas)
                    message = "" if success else _REVERTED
                    outcome = self._end(success, output, message, (call.l2_gas, call.da_gas))
                case NestedCall():
                    call.pc = call.next_pc
                    call.l2_gas -= action.l2_gas
                    call.da_gas -= action.da_gas
                    call.forget_returned()
                    self._begin(action, call.address, (action.l2_gas, action.da_gas))
        return outcome

    def _step(self, call: Call) -> End | NestedCall | None:
        if call.watch is not None:
            call.watch.close_step(call.l2_gas, call.da_gas)
        instruction = call.program.instruction_at(call.pc)
        call.instruction, call.next_pc = instruction, call.pc + instruction.size
        addresses = call.resolve()
        if call.watch is not None:
            call.watch.begin_step(call.pc, instruction.name, addresses, call.l2_gas, call.da_gas)
        return run(call, addresses, instruction.immediates)

    def _check_limits(self) -> None:
        if self._cancelled:
            raise ExecutionCancelled
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise ExecutionTimeExceeded

    def _begin(self, request: NestedCall, sender: int, limits: tuple[int, int]) -> Outcome | None:
        """Push a call.  When the host has no program for it, it has ended already; an outcome if it was the first."""
        self.opening = Opening(
            to_bytes(sender), request.is_static, request.calldata.size, request.l2_gas, request.da_gas
        )
        try:
            program = self.host.enter(to_bytes(request.address), _recorded(request.calldata))
        except CallHalted as halt:
            self.ending_gas = (0, 0)
            self.host.leave(False, b"", array("I", (0,)), str(halt))
            if self._calls and self._calls[-1].watch is not None:
                self._calls[-1].watch.add_nested(request.l2_gas, request.da_gas)
            return None if self._calls else Outcome(False, b"", 0, 0, str(halt))
        if not isinstance(program, Program):
            raise TypeError(f"the host gave a {type(program).__name__} for a program")
        self._calls.append(
            Call(
                machine=self,
                address=request.address,
                sender=sender,
                is_static=request.is_static,
                calldata=request.calldata,
                l2_gas=request.l2_gas,
                da_gas=request.da_gas,
                l2_gas_limit=limits[0],
                da_gas_limit=limits[1],
                program=program,
                memory=Memory(self._account),
                account=self._account,
                watch=self._record.watch_call() if self._record else None,
            )
        )
        return None

    def _end(self, success: bool, output: Data, message: str, gas_left: tuple[int, int]) -> Outcome | None:
        """Pop the running call and tell its caller; the outcome if it was the first."""
        call = self._calls[-1]
        recorded = _recorded(output)
        self.ending_gas = gas_left
        self.host.leave(success, recorded, call.open_pcs(), message)
        self._calls.pop()
        call.release()
        if not self._calls:
            call.memory.release()
            return Outcome(success, recorded, *gas_left, message)
        caller = self._calls[-1]
        if caller.watch is not None:  # the limits of a nested call are what it was given
            caller.watch.add_nested(call.l2_gas_limit - gas_left[0], call.da_gas_limit - gas_left[1])
        caller.l2_gas += gas_left[0]
        caller.da_gas += gas_left[1]
        caller.nested_succeeded, caller.returned = success, output
        if isinstance(output, MemoryData):
            caller.returned_memory = call.memory
        else:
            call.memory.release()
        return None


def _recorded(data: Data) -> bytes:
    return b"".join(to_bytes(value) for value in data.first(RECORDED_FIELDS))


# ---- checks -------------------------------------------------------------------------------------------


def _check_unsigned(value: int, name: str, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} must be from 0 to 2^{bits} - 1, not {value}")
    return value


def _check_gas(value: int, name: str) -> int:
    """Negative when a transaction has overdrawn."""
    if not -(1 << 32) < value < 1 << 32:
        raise ValueError(f"{name} must be above -2^32 and below 2^32, not {value}")
    return value
