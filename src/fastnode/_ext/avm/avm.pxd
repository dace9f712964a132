from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "avm_machine.h" nogil:
    const char **OPERATION_NAMES
    enum:
        OPERATIONS
        ENVIRONMENT_CELLS
        FIELD_BYTES
        ENV_TRANSACTION_FEE
        ENV_CHAIN_ID
        ENV_VERSION
        ENV_BLOCK_NUMBER
        ENV_TIMESTAMP
        ENV_FEE_PER_L2_GAS
        ENV_FEE_PER_DA_GAS
        PAGE_BYTES
        TAG_U32
        TAG_U64
        TAG_U128

    ctypedef enum avm_event:
        AVM_GO_ON
        AVM_ENTER
        AVM_LEAVE
        AVM_ASK
        AVM_DONE
        AVM_TX_ERROR
        AVM_TIME_LIMIT
        AVM_MEMORY_LIMIT
        AVM_CANCELLED
        AVM_NO_MEMORY

    ctypedef enum avm_topic:
        ASK_READ_STORAGE
        ASK_IS_COLD
        ASK_WRITE_STORAGE
        ASK_NOTE_HASH_EXISTS
        ASK_EMIT_NOTE_HASH
        ASK_NULLIFIER_EXISTS
        ASK_EMIT_NULLIFIER
        ASK_MESSAGE_EXISTS
        ASK_INSTANCE_MEMBER
        ASK_ROOM_FOR_LOG
        ASK_EMIT_LOG
        ASK_SEND_MESSAGE
        ASK_COUNT_DEBUG_LOG
        ASK_DEBUG_LOG

    ctypedef struct cell:
        pass

    ctypedef struct page_pool:
        int64_t limit
        int64_t shared_limit

    ctypedef struct avm_rules:
        uint32_t copy_gas
        uint32_t bitwise_gas
        uint32_t point_gas
        uint32_t members
        uint8_t point_flags
        uint8_t bounds_reads

    ctypedef struct avm_program:
        pass

    ctypedef struct avm_data:
        uint64_t size

    ctypedef struct avm_question:
        avm_topic topic
        uint8_t[32] address
        uint8_t[2][32] field
        uint64_t number
        const uint8_t *bytes
        size_t size
        size_t message_size
        avm_data data

    ctypedef struct avm_reply:
        uint8_t[32] field
        bint flag

    ctypedef struct avm_ending:
        bint success
        bint is_halt
        avm_data output
        int64_t l2_gas
        int64_t da_gas

    ctypedef struct element:
        pass

    ctypedef struct avm_opening:
        element sender
        bint is_static
        avm_data calldata
        int64_t l2_gas
        int64_t da_gas

    ctypedef struct gas_meter:
        uint64_t count
        int64_t l2_gas
        int64_t da_gas

    ctypedef struct call_watch:
        uint32_t pc
        gas_meter *meters
        gas_meter lost

    ctypedef struct avm_call:
        call_watch *watch

    ctypedef struct step_record:
        uint64_t first
        uint64_t room
        uint64_t taken
        size_t count

    ctypedef struct avm_machine:
        int (*permute)(const uint8_t *state, uint8_t *out) noexcept nogil
        cell *environment
        bint collect_debug_logs
        bint has_deadline
        uint64_t deadline_ns
        page_pool pool
        bint is_watched
        step_record steps
        size_t call_count
        avm_opening opening
        avm_question question
        avm_reply reply
        avm_ending ending
        char *text

    avm_program *avm_program_new(const uint8_t *bytecode, size_t size, avm_rules rules)
    void avm_program_free(avm_program *program)

    uint64_t avm_now()
    size_t avm_first_not_canonical(const uint8_t *fields, size_t count)
    void avm_set_field(cell *where, const uint8_t *bytes)
    void avm_set_integer(cell *where, int tag, uint64_t high, uint64_t low)
    avm_event avm_start(avm_machine *m, const uint8_t *address, const uint8_t *sender, const uint8_t *calldata,
                        size_t calldata_fields, bint is_static, int64_t l2_gas, int64_t da_gas,
                        int64_t l2_gas_limit, int64_t da_gas_limit)
    avm_event avm_entered(avm_machine *m, avm_program *program)
    avm_event avm_not_entered(avm_machine *m)
    avm_event avm_run(avm_machine *m)
    avm_event avm_refused(avm_machine *m)
    avm_event avm_left(avm_machine *m)
    void avm_stop(avm_machine *m)
    void avm_cancel(avm_machine *m)
    size_t avm_copy_data(const avm_data *data, size_t room, uint8_t *out)
    void field_store(element value, uint8_t *bytes)
    avm_call *running_call(avm_machine *m)
    size_t steps_json_room(const step_record *record)
    size_t steps_json(const step_record *record, char *out)
    void steps_free(step_record *record)
    size_t avm_open_pc_count(const avm_machine *m)
    void avm_copy_open_pcs(const avm_machine *m, uint32_t *out)


cdef class Program:
    cdef avm_program *decoded
    cdef readonly bytes bytecode


cdef class Machine:
    cdef avm_machine *machine
    cdef object host
    cdef list programs
    cdef object memory_limit
    cdef bint is_running
    # What the call that ended last has returned.
    cdef bytes output
    # Text of a host's CallHalted, None when the interpreter's own text counts.
    cdef object refusal

    cdef call_watch *watch(self) except NULL
    cdef object run(self, avm_event event)
    cdef avm_event enter(self) except *
    cdef avm_event leave(self) except *
    cdef avm_event answer(self) except *
    cdef int ask(self) except -1
    cdef int ask_about_logs(self) except -1
    cdef object open_pcs(self)
    cdef str ending_text(self)
    cdef object give_up(self, avm_event event)
