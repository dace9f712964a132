"""The interpreter of the public virtual machine: what drives it and speaks with the host."""

cimport cython
import time
from array import array
from collections import namedtuple
from typing import Protocol

from cpython.array cimport array as c_array, clone
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from fastnode._ext.hash.poseidon2 cimport permute_c

from fastnode.errors import (
    CallHalted,
    ExecutionCancelled,
    ExecutionMemoryExceeded,
    ExecutionOutOfMemory,
    ExecutionTimeExceeded,
    TxExecutionError,
)


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

RECORDED_FIELDS = 300

MEMBER_DEPLOYER = 0
MEMBER_CLASS_ID = 1
MEMBER_INITIALIZATION_HASH = 2
MEMBER_IMMUTABLES_HASH = 3

# Bounds on what is given.
cdef object BYTECODE_END = 1 << 32
cdef object GAS_END = 1 << 32
cdef object WORD_MASK = (1 << 64) - 1
# A deadline further away than this counts as this.
cdef double SECONDS_MAX = 1e9

# What arrays of places in a program are made like: uint32_t.
cdef c_array NO_PCS = array("I")

# The text of a call that ended with REVERT; the blank at its end belongs to it.
cdef str REVERTED = "Assertion failed: "


class Host(Protocol):
    """Described in the stub."""


Outcome = namedtuple("Outcome", ("success", "output", "l2_gas_left", "da_gas_left", "message"))
Outcome.__doc__ = "How an enqueued call ended."

Opening = namedtuple("Opening", ("sender", "is_static", "calldata_fields", "l2_gas", "da_gas"))
Opening.__doc__ = "The beginning of a call, beside its address and calldata."

GasMeter = namedtuple("GasMeter", ("operation", "executions", "l2_gas", "da_gas"))
GasMeter.__doc__ = "Gas of one call's own instructions of one kind; HALT: what it has lost by its halt."

cdef str HALT = "HALT"


@cython.final
cdef class Program:
    def __cinit__(
        self,
        bytecode,
        *,
        uint32_t copy_gas=3,
        uint32_t point_gas=270,
        uint32_t bitwise_gas=3,
        uint32_t members=3,
        bint point_flags=True,
        bint bounds_reads=True,
    ):
        if not isinstance(bytecode, bytes):
            raise TypeError(f"bytecode must be bytes, not {type(bytecode).__name__}")
        if PyBytes_GET_SIZE(bytecode) >= BYTECODE_END:
            raise ValueError(f"bytecode must be below {BYTECODE_END} bytes long, not {len(bytecode)}")
        self.bytecode = bytecode
        cdef const uint8_t *code = <const uint8_t *>PyBytes_AS_STRING(bytecode)
        cdef avm_rules rules
        rules.copy_gas, rules.point_gas, rules.members = copy_gas, point_gas, members
        rules.bitwise_gas = bitwise_gas
        rules.point_flags, rules.bounds_reads = point_flags, bounds_reads
        self.decoded = avm_program_new(code, PyBytes_GET_SIZE(bytecode), rules)
        if self.decoded is NULL:
            raise MemoryError

    def __dealloc__(self):
        avm_program_free(self.decoded)


# ---- machine ------------------------------------------------------------------------------------

@cython.final
cdef class Machine:
    def __cinit__(
        self,
        host,
        *,
        chain_id,
        version,
        block_number,
        timestamp,
        fee_per_l2_gas,
        fee_per_da_gas,
        collect_debug_logs=True,
        memory_limit=1 << 28,
        shared_memory_limit=0,
        deadline=None,
        is_watched=False,
        first_step=0,
        steps_max=0,
    ):
        self.machine = <avm_machine *>calloc(1, sizeof(avm_machine))
        if self.machine is NULL:
            raise MemoryError
        self.host, self.programs = host, []
        cdef cell *environment = self.machine.environment
        avm_set_field(environment + ENV_CHAIN_ID, field_bytes(chain_id, "chain_id"))
        avm_set_field(environment + ENV_VERSION, field_bytes(version, "version"))
        set_integer(environment + ENV_BLOCK_NUMBER, TAG_U32, unsigned(block_number, "block_number", 32))
        set_integer(environment + ENV_TIMESTAMP, TAG_U64, unsigned(timestamp, "timestamp", 64))
        set_integer(environment + ENV_FEE_PER_L2_GAS, TAG_U128, unsigned(fee_per_l2_gas, "fee_per_l2_gas", 128))
        set_integer(environment + ENV_FEE_PER_DA_GAS, TAG_U128, unsigned(fee_per_da_gas, "fee_per_da_gas", 128))
        self.memory_limit = unsigned(memory_limit, "memory_limit", 63)
        self.machine.pool.limit = self.memory_limit // PAGE_BYTES
        self.machine.pool.shared_limit = unsigned(shared_memory_limit, "shared_memory_limit", 63) // PAGE_BYTES
        self.machine.collect_debug_logs = bool(collect_debug_logs)
        self.machine.is_watched = bool(is_watched)
        self.machine.steps.first = unsigned(first_step, "first_step", 63)
        self.machine.steps.room = unsigned(steps_max, "steps_max", 32)
        self.machine.permute = permute_c
        if deadline is not None:
            self.machine.has_deadline = True
            self.machine.deadline_ns = avm_now() + nanoseconds_until(deadline)

    def __dealloc__(self):
        if self.machine is not NULL:
            avm_stop(self.machine)
            steps_free(&self.machine.steps)
            free(self.machine)

    def cancel(self):
        avm_cancel(self.machine)

    # ---- what a watched machine tells ---------------------------------------------------------

    @property
    def opening(self):
        cdef avm_opening *opening = &self.machine.opening
        cdef bytes sender = PyBytes_FromStringAndSize(NULL, FIELD_BYTES)
        field_store(opening.sender, <uint8_t *>PyBytes_AS_STRING(sender))
        return Opening(sender, bool(opening.is_static), opening.calldata.size, opening.l2_gas, opening.da_gas)

    @property
    def ending_gas(self):
        return self.machine.ending.l2_gas, self.machine.ending.da_gas

    @property
    def pc(self):
        return self.watch().pc

    @property
    def gas_meters(self):
        cdef call_watch *watch = self.watch()
        cdef size_t index
        meters = [
            GasMeter(
                OPERATION_NAMES[index].decode(),
                watch.meters[index].count,
                watch.meters[index].l2_gas,
                watch.meters[index].da_gas,
            )
            for index in range(OPERATIONS)
            if watch.meters[index].count
        ]
        if watch.lost.count:
            meters.append(GasMeter(HALT, watch.lost.count, watch.lost.l2_gas, watch.lost.da_gas))
        return meters

    cdef call_watch *watch(self) except NULL:
        if not self.machine.is_watched or not self.machine.call_count:
            raise RuntimeError("no watched call is running")
        return running_call(self.machine).watch

    @property
    def steps_taken(self):
        return self.machine.steps.taken

    @property
    def step_count(self):
        return self.machine.steps.count

    def steps_json(self):
        cdef step_record *record = &self.machine.steps
        cdef char *text = <char *>malloc(steps_json_room(record) + 1)
        cdef size_t size
        if text is NULL:
            raise MemoryError
        try:
            with nogil:
                size = steps_json(record, text)
            return PyBytes_FromStringAndSize(text, size)
        finally:
            free(text)

    def execute(
        self,
        address,
        sender,
        calldata,
        *,
        is_static,
        transaction_fee,
        l2_gas,
        da_gas,
        l2_gas_limit,
        da_gas_limit,
    ):
        if self.is_running:
            raise RuntimeError("the machine is running already")
        cdef size_t fields = 0
        cdef const uint8_t *values = run_of_fields(calldata, "calldata", &fields)
        cdef const uint8_t *called = field_bytes(address, "address")
        cdef const uint8_t *caller = field_bytes(sender, "sender")
        cdef const uint8_t *fee = field_bytes(transaction_fee, "transaction_fee")
        cdef int64_t l2 = gas(l2_gas, "l2_gas"), da = gas(da_gas, "da_gas")
        cdef int64_t l2_limit = gas(l2_gas_limit, "l2_gas_limit"), da_limit = gas(da_gas_limit, "da_gas_limit")
        cdef bint static = is_static
        self.is_running = True
        try:
            avm_set_field(self.machine.environment + ENV_TRANSACTION_FEE, fee)
            return self.run(avm_start(self.machine, called, caller, values, fields, static, l2, da, l2_limit, da_limit))
        finally:
            with nogil:  # there may be many pages to free
                avm_stop(self.machine)
            self.programs.clear()
            self.output = self.refusal = None
            self.is_running = False

    cdef object run(self, avm_event event):
        cdef avm_ending *ending = &self.machine.ending
        self.output = b""
        while event != AVM_DONE:
            if event == AVM_GO_ON:
                with nogil:
                    event = avm_run(self.machine)
            elif event == AVM_ASK:
                event = self.answer()
            elif event == AVM_ENTER:
                event = self.enter()
            elif event == AVM_LEAVE:
                event = self.leave()
            else:
                raise self.give_up(event)
        return Outcome(bool(ending.success), self.output, ending.l2_gas, ending.da_gas, self.ending_text())

    # ---- calls ----------------------------------------------------------------------------------

    cdef avm_event enter(self) except *:
        cdef avm_question *question = &self.machine.question
        cdef avm_event event
        try:
            program = self.host.enter(field_of(question.address), recorded(&question.data))
        except CallHalted as halt:
            self.refusal = str(halt)
            self.machine.ending.l2_gas = self.machine.ending.da_gas = 0
            self.host.leave(False, b"", array("I", (0,)), self.refusal)
            event = avm_not_entered(self.machine)
            if event != AVM_DONE:
                self.refusal = None
            return event
        if not isinstance(program, Program):
            raise TypeError(f"the host gave a {type(program).__name__} for a program")
        self.programs.append(program)
        return avm_entered(self.machine, (<Program>program).decoded)

    cdef avm_event leave(self) except *:
        cdef avm_ending *ending = &self.machine.ending
        self.output = recorded(&ending.output)
        self.host.leave(bool(ending.success), self.output, self.open_pcs(), self.ending_text())
        self.programs.pop()
        cdef avm_event event = avm_left(self.machine)
        if event != AVM_DONE:
            self.refusal = None
        return event

    cdef object open_pcs(self):
        cdef c_array pcs = clone(NO_PCS, avm_open_pc_count(self.machine), zero=False)
        avm_copy_open_pcs(self.machine, <uint32_t *>pcs.data.as_uints)
        return pcs

    cdef str ending_text(self):
        if self.machine.ending.success:
            return ""
        if not self.machine.ending.is_halt:
            return REVERTED
        return self.machine.text.decode() if self.refusal is None else self.refusal

    cdef object give_up(self, avm_event event):
        if event == AVM_TX_ERROR:
            return TxExecutionError(self.machine.text.decode())
        if event == AVM_TIME_LIMIT:
            return ExecutionTimeExceeded()
        if event == AVM_MEMORY_LIMIT:
            return ExecutionMemoryExceeded(self.memory_limit)
        if event == AVM_CANCELLED:
            return ExecutionCancelled()
        return ExecutionOutOfMemory()

    # ---- questions ------------------------------------------------------------------------------

    cdef avm_event answer(self) except *:
        try:
            self.ask()
        except CallHalted as halt:
            self.refusal = str(halt)
            return avm_refused(self.machine)
        return AVM_GO_ON

    cdef int ask(self) except -1:
        cdef avm_question *question = &self.machine.question
        cdef avm_reply *reply = &self.machine.reply
        cdef avm_topic topic = question.topic
        host = self.host
        address, first = field_of(question.address), field_of(question.field[0])
        if topic == ASK_READ_STORAGE:
            memcpy(reply.field, field_bytes(host.read_storage(address, first), "storage"), FIELD_BYTES)
        elif topic == ASK_IS_COLD:
            reply.flag = bool(host.is_cold(address, first))
        elif topic == ASK_WRITE_STORAGE:
            host.write_storage(address, first, field_of(question.field[1]))
        elif topic == ASK_NOTE_HASH_EXISTS:
            reply.flag = bool(host.note_hash_exists(first, question.number))
        elif topic == ASK_EMIT_NOTE_HASH:
            host.emit_note_hash(address, first)
        elif topic == ASK_NULLIFIER_EXISTS:
            reply.flag = bool(host.nullifier_exists(first))
        elif topic == ASK_EMIT_NULLIFIER:
            host.emit_nullifier(address, first)
        elif topic == ASK_MESSAGE_EXISTS:
            reply.flag = bool(host.l1_to_l2_message_exists(first, question.number))
        elif topic == ASK_INSTANCE_MEMBER:
            member = host.contract_instance_member(first, question.number)
            reply.flag = member is not None
            if member is not None:
                memcpy(reply.field, field_bytes(member, "instance"), FIELD_BYTES)
        elif topic == ASK_SEND_MESSAGE:
            host.send_l2_to_l1_message(address, first, field_of(question.field[1]))
        else:
            self.ask_about_logs()
        return 0

    cdef int ask_about_logs(self) except -1:
        cdef avm_question *question = &self.machine.question
        cdef avm_topic topic = question.topic
        if topic == ASK_ROOM_FOR_LOG:
            self.machine.reply.flag = bool(self.host.has_room_for_public_log(question.number))
        elif topic == ASK_EMIT_LOG:
            self.host.emit_public_log(field_of(question.address), question.bytes[: question.size])
        elif topic == ASK_COUNT_DEBUG_LOG:
            self.host.count_debug_log(question.number)
        elif topic == ASK_DEBUG_LOG:
            self.host.debug_log(
                field_of(question.address),
                question.number,
                question.bytes[: question.message_size],
                question.bytes[question.message_size : question.size],
            )
        else:
            raise AssertionError(f"a question about {topic}")
        return 0


# ---- values -------------------------------------------------------------------------------------

cdef inline bytes field_of(const uint8_t *value):
    return PyBytes_FromStringAndSize(<const char *>value, FIELD_BYTES)


cdef bytes recorded(const avm_data *data):
    cdef size_t count = min(<uint64_t>RECORDED_FIELDS, data.size)
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count * FIELD_BYTES)
    avm_copy_data(data, count, <uint8_t *>PyBytes_AS_STRING(result))
    return result


cdef const uint8_t *run_of_fields(data, str name, size_t *count) except NULL:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    if PyBytes_GET_SIZE(data) % FIELD_BYTES:
        raise ValueError(f"{name} must be a multiple of {FIELD_BYTES} bytes long, not {PyBytes_GET_SIZE(data)}")
    cdef const uint8_t *fields = <const uint8_t *>PyBytes_AS_STRING(data)
    count[0] = PyBytes_GET_SIZE(data) // FIELD_BYTES
    cdef size_t wrong = avm_first_not_canonical(fields, count[0])
    if wrong != count[0]:
        raise ValueError(f"element {wrong} of {name} is not below the field modulus")
    return fields


cdef const uint8_t *field_bytes(data, str name) except NULL:
    cdef size_t count = 0
    cdef const uint8_t *field = run_of_fields(data, name, &count)
    if count != 1:
        raise ValueError(f"{name} must be {FIELD_BYTES} bytes long, not {len(data)}")
    return field


cdef object unsigned(value, str name, bits):
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name} must be from 0 to 2^{bits} - 1, not {value}")
    return value


cdef int set_integer(cell *where, int tag, value) except -1:
    avm_set_integer(where, tag, value >> 64, value & WORD_MASK)
    return 0


cdef int64_t gas(value, str name) except? -1:
    if not -GAS_END < value < GAS_END:
        raise ValueError(f"{name} must be above -2^32 and below 2^32, not {value}")
    return value


cdef uint64_t nanoseconds_until(double deadline) except *:
    return <uint64_t>(1e9 * max(0.0, min(SECONDS_MAX, deadline - time.monotonic())))
