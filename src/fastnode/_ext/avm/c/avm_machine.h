/* The public virtual machine: runs an enqueued call with everything it calls, without Python.
 *
 * avm_run() goes on until it needs its surroundings, and says for what (avm_event).  The caller does that, puts the
 * answer where avm_run() finds it, and calls it again:
 *
 *     AVM_ENTER   a call of question.address begins with question.data: then avm_entered(), or avm_not_entered() when
 *                 there is no program for it
 *     AVM_LEAVE   the running call ends, as `ending` says: then avm_left()
 *     AVM_ASK     the host is asked `question`: then avm_run() with the answer in `reply`, or avm_refused() when the
 *                 host halts the call
 *     AVM_DONE    the enqueued call has ended as `ending` says
 *     all others  execution is given up; avm_stop()
 */
#ifndef FASTNODE_AVM_MACHINE_H
#define FASTNODE_AVM_MACHINE_H

#include "avm_memory.h"
#include "avm_program.h"
#include "avm_watch.h"

#define TEXT_BYTES 512
#define ENVIRONMENT_CELLS 12
#define CELLS_PER_INSTRUCTION 32 /* written in the time of one */

typedef enum {
    AVM_GO_ON, /* never returned by avm_run() */
    AVM_HALT,  /* the same */
    AVM_ENTER,
    AVM_LEAVE,
    AVM_ASK,
    AVM_DONE,
    AVM_TX_ERROR, /* as `text` says */
    AVM_TIME_LIMIT,
    AVM_MEMORY_LIMIT,
    AVM_CANCELLED,
    AVM_NO_MEMORY, /* the system has none left */
} avm_event;

typedef enum {
    ASK_NOTHING,
    ASK_READ_STORAGE,       /* address, field[0]: slot; reply.field */
    ASK_IS_COLD,            /* address, field[0]: slot; reply.flag */
    ASK_WRITE_STORAGE,      /* address, field[0]: slot, field[1]: value */
    ASK_NOTE_HASH_EXISTS,   /* field[0], number: index; reply.flag */
    ASK_EMIT_NOTE_HASH,     /* address, field[0] */
    ASK_NULLIFIER_EXISTS,   /* field[0]; reply.flag */
    ASK_EMIT_NULLIFIER,     /* address, field[0] */
    ASK_MESSAGE_EXISTS,     /* field[0], number: index; reply.flag */
    ASK_INSTANCE_MEMBER,    /* field[0]: address, number: member; reply.flag: exists, reply.field */
    ASK_ROOM_FOR_LOG,       /* number: size; reply.flag */
    ASK_EMIT_LOG,           /* address, bytes, size */
    ASK_SEND_MESSAGE,       /* address, field[0]: recipient, field[1]: content */
    ASK_COUNT_DEBUG_LOG,    /* number: cells */
    ASK_DEBUG_LOG,          /* address, number: level, bytes, size, of which message_size are the message */
} avm_topic;

/* Data of another call, read when it is copied.  Either fields from outside, or a range of memory. */
typedef struct {
    avm_memory *memory; /* NULL: fields */
    const uint8_t *fields;
    uint64_t start, size;
} avm_data;

typedef struct {
    avm_topic topic;
    uint8_t address[FIELD_BYTES];
    uint8_t field[2][FIELD_BYTES];
    uint64_t number;
    uint8_t *bytes; /* the machine's */
    size_t size, message_size;
    avm_data data;
} avm_question;

typedef struct {
    uint8_t field[FIELD_BYTES];
    int flag;
} avm_reply;

typedef struct {
    int success, is_halt;
    avm_data output;
    int64_t l2_gas, da_gas;
} avm_ending;

typedef struct {
    uint32_t pc, return_pc;
} internal_call;

/* One open call. */
typedef struct {
    avm_program *program;
    avm_memory *memory;
    uint64_t pc, next_pc;
    int64_t l2_gas, da_gas;
    int64_t l2_gas_limit, da_gas_limit; /* only for the text about running out of gas */
    element address, sender;
    int is_static;
    avm_data calldata;
    int nested_succeeded; /* of the last nested call, with what it returned and what keeps that readable */
    avm_data returned;
    avm_memory *returned_memory;
    internal_call *internal_calls;
    size_t internal_count, internal_room, internal_pages;
    call_watch *watch; /* NULL: nobody watches */
} avm_call;

/* A call about to begin. */
typedef struct {
    element address, sender;
    int is_static;
    avm_data calldata;
    int64_t l2_gas, da_gas, l2_gas_limit, da_gas_limit;
} avm_opening;

typedef struct {
    /* Set before avm_start(). */
    int (*permute)(const uint8_t *state, uint8_t *out);
    cell environment[ENVIRONMENT_CELLS]; /* of GETENVVAR; what depends on the call stays empty */
    int collect_debug_logs;
    int has_deadline;
    uint64_t deadline_ns; /* of avm_now() */
    page_pool pool;
    int is_watched;
    step_record steps;
    /* For the caller. */
    avm_question question;
    avm_reply reply;
    avm_ending ending;
    char text[TEXT_BYTES]; /* of a halt or of AVM_TX_ERROR */
    /* Its own. */
    _Atomic int cancelled;
    avm_call *calls;
    size_t call_count, call_room;
    avm_opening opening;
    instruction current;
    uint32_t address[OPERANDS_MAX]; /* its resolved operands */
    uint64_t work; /* since limits of time were looked at, in instructions */
} avm_machine;

enum {
    ENV_ADDRESS,
    ENV_SENDER,
    ENV_TRANSACTION_FEE,
    ENV_CHAIN_ID,
    ENV_VERSION,
    ENV_BLOCK_NUMBER,
    ENV_TIMESTAMP,
    ENV_FEE_PER_L2_GAS,
    ENV_FEE_PER_DA_GAS,
    ENV_IS_STATIC,
    ENV_L2_GAS_LEFT,
    ENV_DA_GAS_LEFT,
};

/* ---- for the caller ------------------------------------------------------------------- */

uint64_t avm_now(void);
/* Index of the first of some fields that is not below the modulus, or `count`. */
size_t avm_first_not_canonical(const uint8_t *fields, size_t count);
void avm_set_field(cell *where, const uint8_t bytes[FIELD_BYTES]);
void avm_set_integer(cell *where, int tag, uint64_t high, uint64_t low);

/* Begin an enqueued call; `calldata` stays where it is until the call has ended. */
avm_event avm_start(avm_machine *m, const uint8_t *address, const uint8_t *sender, const uint8_t *calldata,
                    size_t calldata_fields, int is_static, int64_t l2_gas, int64_t da_gas, int64_t l2_gas_limit,
                    int64_t da_gas_limit);
avm_event avm_entered(avm_machine *m, avm_program *program);
avm_event avm_not_entered(avm_machine *m);
avm_event avm_run(avm_machine *m);
avm_event avm_refused(avm_machine *m);
avm_event avm_left(avm_machine *m);
/* Forget all calls and give every page back. */
void avm_stop(avm_machine *m);
/* From any thread. */
void avm_cancel(avm_machine *m);

/* The first fields of some data, at most `room`, with addresses that wrap around; how many. */
size_t avm_copy_data(const avm_data *data, size_t room, uint8_t *out);
/* The open INTERNALCALL instructions of the running call, and where it is. */
size_t avm_open_pc_count(const avm_machine *m);
void avm_copy_open_pcs(const avm_machine *m, uint32_t *out);

/* ---- between its own files ------------------------------------------------------------------- */

#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        avm_event event_ = (expression);                                                                               \
        if (event_ != AVM_GO_ON)                                                                                       \
            return event_;                                                                                             \
    } while (0)

extern const char *const TAG_NAMES[];

INLINE avm_call *running_call(avm_machine *m)
{
    return m->calls + m->call_count - 1;
}

/* Notes the text, and is AVM_HALT. */
avm_event halt(avm_machine *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
avm_event out_of_gas(avm_machine *m, const avm_call *call, int64_t l2, int64_t da);
avm_event wrong_tag(avm_machine *m, int index, cell c, int wanted);
avm_event refused_page(const avm_memory *memory);

INLINE cell read_cell(const avm_call *call, uint64_t address)
{
    return memory_read(call->memory, (uint32_t)address);
}

INLINE avm_event write_cell(avm_call *call, uint64_t address, cell value)
{
    cell *where = memory_at(call->memory, (uint32_t)address);
    if (__builtin_expect(!where, 0))
        return refused_page(call->memory);
    *where = value;
    return AVM_GO_ON;
}

/* For the current instruction, with what it costs beyond its fixed price. */
INLINE avm_event pay(avm_machine *m, avm_call *call, int64_t more_l2, int64_t more_da)
{
    int64_t l2 = m->current.l2_gas + more_l2, da = m->current.da_gas + more_da;
    if (__builtin_expect(call->l2_gas < l2 || call->da_gas < da, 0))
        return out_of_gas(m, call, l2, da);
    call->l2_gas -= l2;
    call->da_gas -= da;
    return AVM_GO_ON;
}

/* Many cells are as much work as some instructions. */
INLINE void count_work(avm_machine *m, uint64_t cells)
{
    m->work += cells / CELLS_PER_INSTRUCTION;
}

/* The cell of the `index`-th input, which must have this tag. */
INLINE avm_event take(avm_machine *m, const avm_call *call, int index, int tag, cell *out)
{
    *out = read_cell(call, m->address[index]);
    return __builtin_expect(cell_tag(*out) == tag, 1) ? AVM_GO_ON : wrong_tag(m, index, *out, tag);
}

/* Execute one instruction of its kind: m->current with m->address. */
avm_event run_gadget(avm_machine *m, avm_call *call);
avm_event run_host_operation(avm_machine *m, avm_call *call);
void forget_question(avm_machine *m);
/* Go on with it after the host has answered. */
avm_event finish_host_operation(avm_machine *m, avm_call *call);

/* For a watched machine; watch_call() is 0 when the system has no memory left. */
int watch_call(avm_machine *m, avm_call *call);
/* The instruction that was fetched is executed next. */
avm_event watch_step(avm_machine *m, avm_call *call);
/* The instruction that was watched last has been executed: note what it cost. */
void watch_cost(avm_machine *m, avm_call *call);
/* The same for one that halts its call, which loses all its gas. */
void watch_halt(avm_machine *m, avm_call *call);
/* A call that the instruction has made used so much. */
void watch_nested(avm_call *caller, int64_t l2_gas, int64_t da_gas);

avm_event push_internal_call(avm_machine *m, avm_call *call, uint32_t target);
avm_event begin_nested_call(avm_machine *m, avm_call *call);
avm_event end_call(avm_machine *m, avm_call *call, int success);
avm_event end_call_by_halt(avm_machine *m);

#endif
