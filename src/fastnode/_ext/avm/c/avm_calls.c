/* The stack of calls: how they begin, end, and see each other's data. */
#define _POSIX_C_SOURCE 200809L

#include "avm_machine.h"

#include <stdlib.h>
#include <time.h>

/* Each also takes its place in the answer that tells where a program failed. */
#define INTERNAL_CALLS_PER_PAGE 16
#define CALLS_AT_FIRST 8

static const avm_data NO_DATA;

/* ---- settings -------------------------------------------------------------------------------- */

uint64_t avm_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

size_t avm_first_not_canonical(const uint8_t *fields, size_t count)
{
    size_t i = 0;
    while (i < count && field_less(field_load(fields + i * FIELD_BYTES), modulus()))
        i++;
    return i;
}

void avm_set_field(cell *where, const uint8_t bytes[FIELD_BYTES])
{
    *where = field_load(bytes);
}

void avm_set_integer(cell *where, int tag, uint64_t high, uint64_t low)
{
    *where = cell_integer(tag, (wide)high << 64 | low);
}

void avm_cancel(avm_machine *m)
{
    atomic_store(&m->cancelled, 1);
}

/* ---- data ------------------------------------------------------------------------------------ */

size_t avm_copy_data(const avm_data *data, size_t room, uint8_t *out)
{
    size_t count = data->size < room ? (size_t)data->size : room;
    if (!data->memory) {
        if (count)
            memcpy(out, data->fields + data->start * FIELD_BYTES, count * FIELD_BYTES);
        return count;
    }
    for (size_t i = 0; i < count; i++) {
        cell c = memory_read(data->memory, (uint32_t)(data->start + i));
        field_store(cell_value(c), out + i * FIELD_BYTES);
    }
    return count;
}

size_t avm_open_pc_count(const avm_machine *m)
{
    return m->calls[m->call_count - 1].internal_count + 1;
}

void avm_copy_open_pcs(const avm_machine *m, uint32_t *out)
{
    const avm_call *call = m->calls + m->call_count - 1;
    for (size_t i = 0; i < call->internal_count; i++)
        out[i] = call->internal_calls[i].pc;
    out[call->internal_count] = (uint32_t)call->pc;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static avm_event page_event(page_grant grant)
{
    return grant == PAGES_GRANTED ? AVM_GO_ON : grant == PAGES_LIMIT ? AVM_MEMORY_LIMIT : AVM_NO_MEMORY;
}

avm_event refused_page(const avm_memory *memory)
{
    return page_event(memory->refusal);
}

static avm_event announce(avm_machine *m)
{
    field_store(m->opening.address, m->question.address);
    m->question.data = m->opening.calldata;
    return AVM_ENTER;
}

avm_event avm_start(avm_machine *m, const uint8_t *address, const uint8_t *sender, const uint8_t *calldata,
                    size_t calldata_fields, int is_static, int64_t l2_gas, int64_t da_gas, int64_t l2_gas_limit,
                    int64_t da_gas_limit)
{
    m->question.topic = ASK_NOTHING;
    m->opening = (avm_opening){
        .address = field_load(address),
        .sender = field_load(sender),
        .is_static = is_static,
        .calldata = {.fields = calldata, .size = calldata_fields},
        .l2_gas = l2_gas,
        .da_gas = da_gas,
        .l2_gas_limit = l2_gas_limit,
        .da_gas_limit = da_gas_limit,
    };
    return announce(m);
}

static int make_room_for_call(avm_machine *m)
{
    if (m->call_count < m->call_room)
        return 1;
    size_t room = m->call_room ? 2 * m->call_room : CALLS_AT_FIRST;
    avm_call *calls = realloc(m->calls, room * sizeof *calls);
    if (!calls)
        return 0;
    m->calls = calls;
    m->call_room = room;
    return 1;
}

avm_event avm_entered(avm_machine *m, avm_program *program)
{
    TRY(page_event(pool_take(&m->pool, CALL_PAGES)));
    avm_memory *memory = memory_new(&m->pool);
    if (!memory)
        return AVM_NO_MEMORY;
    if (!make_room_for_call(m)) {
        memory_free(memory);
        return AVM_NO_MEMORY;
    }
    m->calls[m->call_count++] = (avm_call){
        .program = program,
        .memory = memory,
        .l2_gas = m->opening.l2_gas,
        .da_gas = m->opening.da_gas,
        .l2_gas_limit = m->opening.l2_gas_limit,
        .da_gas_limit = m->opening.da_gas_limit,
        .address = m->opening.address,
        .sender = m->opening.sender,
        .is_static = m->opening.is_static,
        .calldata = m->opening.calldata,
    };
    return m->is_watched && !watch_call(m, running_call(m)) ? AVM_NO_MEMORY : AVM_GO_ON;
}

avm_event avm_not_entered(avm_machine *m)
{
    if (m->call_count) {
        if (m->is_watched)
            watch_nested(running_call(m), m->opening.l2_gas, m->opening.da_gas);
        return AVM_GO_ON; /* the caller knows of no success and no data already */
    }
    m->ending = (avm_ending){.is_halt = 1};
    return AVM_DONE;
}

static void forget_returned(avm_call *call)
{
    call->nested_succeeded = 0;
    call->returned = NO_DATA;
    if (call->returned_memory) {
        memory_free(call->returned_memory);
        call->returned_memory = NULL;
    }
}

avm_event begin_nested_call(avm_machine *m, avm_call *call)
{
    cell l2_gas, da_gas, address, size;
    TRY(take(m, call, 0, TAG_U32, &l2_gas));
    TRY(take(m, call, 1, TAG_U32, &da_gas));
    TRY(take(m, call, 2, TAG_FF, &address));
    TRY(take(m, call, 3, TAG_U32, &size));
    TRY(pay(m, call, 0, 0));
    int64_t l2 = (int64_t)l2_gas.limb[0], da = (int64_t)da_gas.limb[0];
    l2 = l2 < call->l2_gas ? l2 : call->l2_gas;
    da = da < call->da_gas ? da : call->da_gas;
    m->opening = (avm_opening){
        .address = address,
        .sender = call->address,
        .is_static = call->is_static || m->current.operation == OP_STATICCALL,
        .calldata = {.memory = call->memory, .start = m->address[4], .size = size.limb[0]},
        .l2_gas = l2,
        .da_gas = da,
        .l2_gas_limit = l2,
        .da_gas_limit = da,
    };
    call->l2_gas -= l2;
    call->da_gas -= da;
    call->pc = call->next_pc;
    forget_returned(call);
    return announce(m);
}

/* ---- internal calls -------------------------------------------------------------------------- */

avm_event push_internal_call(avm_machine *m, avm_call *call, uint32_t target)
{
    if (call->internal_count == call->internal_pages * INTERNAL_CALLS_PER_PAGE) {
        TRY(page_event(pool_take(&m->pool, 1)));
        call->internal_pages++;
    }
    if (call->internal_count == call->internal_room) {
        size_t room = call->internal_room ? 2 * call->internal_room : INTERNAL_CALLS_PER_PAGE;
        internal_call *internal_calls = realloc(call->internal_calls, room * sizeof *internal_calls);
        if (!internal_calls)
            return AVM_NO_MEMORY;
        call->internal_calls = internal_calls;
        call->internal_room = room;
    }
    call->internal_calls[call->internal_count++] = (internal_call){(uint32_t)call->pc, (uint32_t)call->next_pc};
    call->next_pc = target;
    return AVM_GO_ON;
}

/* ---- ending ---------------------------------------------------------------------------------- */

avm_event end_call(avm_machine *m, avm_call *call, int success)
{
    cell size;
    TRY(take(m, call, 0, TAG_U32, &size));
    TRY(pay(m, call, 0, 0));
    if (call->watch)
        watch_cost(m, call);
    m->ending = (avm_ending){
        .success = success,
        .output = {.memory = call->memory, .start = m->address[1], .size = size.limb[0]},
        .l2_gas = call->l2_gas,
        .da_gas = call->da_gas,
    };
    return AVM_LEAVE;
}

avm_event end_call_by_halt(avm_machine *m)
{
    avm_call *call = running_call(m);
    if (call->watch)
        watch_halt(m, call);
    m->ending = (avm_ending){.is_halt = 1};
    return AVM_LEAVE;
}

/* Everything but the memory. */
static void close_call(avm_machine *m, avm_call *call)
{
    forget_returned(call);
    free(call->internal_calls);
    free(call->watch);
    pool_give_back(&m->pool, (int64_t)call->internal_pages);
}

avm_event avm_left(avm_machine *m)
{
    avm_call ended = *running_call(m);
    close_call(m, &ended);
    m->call_count--;
    if (!m->call_count) {
        memory_free(ended.memory);
        m->ending.output = NO_DATA;
        return AVM_DONE;
    }
    avm_call *caller = running_call(m);
    if (m->is_watched) /* the limits of a nested call are what it was given */
        watch_nested(caller, ended.l2_gas_limit - m->ending.l2_gas, ended.da_gas_limit - m->ending.da_gas);
    caller->l2_gas += m->ending.l2_gas;
    caller->da_gas += m->ending.da_gas;
    caller->nested_succeeded = m->ending.success;
    caller->returned = m->ending.output;
    if (m->ending.is_halt)
        memory_free(ended.memory);
    else
        caller->returned_memory = ended.memory;
    return AVM_GO_ON;
}

void avm_stop(avm_machine *m)
{
    while (m->call_count) {
        avm_call *call = running_call(m);
        close_call(m, call);
        memory_free(call->memory);
        m->call_count--;
    }
    free(m->calls);
    m->calls = NULL;
    m->call_room = 0;
    forget_question(m);
    pool_clear(&m->pool);
}
