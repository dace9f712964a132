/* Notes on a watched execution, and steps as JSON. */
#include "avm_machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define STEPS_AT_FIRST 256
/* {"call":,"pc":,"operation":"","l2GasLeft":,"daGasLeft":,"l2Gas":,"daGas":,"memory":[]}, with its numbers */
#define STEP_JSON_BYTES 384

const char *const OPERATION_NAMES[OPERATIONS] = {
    "ADD", "SUB", "MUL", "DIV", "FDIV", "EQ", "LT", "LTE", "AND", "OR", "XOR", "NOT", "SHL", "SHR", "CAST", "GETENVVAR",
    "CALLDATACOPY", "SUCCESSCOPY", "RETURNDATASIZE", "RETURNDATACOPY", "JUMP", "JUMPI", "INTERNALCALL", "INTERNALRETURN",
    "SET", "MOV", "SLOAD", "SSTORE", "NOTEHASHEXISTS", "EMITNOTEHASH", "NULLIFIEREXISTS", "EMITNULLIFIER",
    "L1TOL2MSGEXISTS", "GETCONTRACTINSTANCE", "EMITPUBLICLOG", "SENDL2TOL1MSG", "CALL", "STATICCALL", "RETURN", "REVERT",
    "DEBUGLOG", "POSEIDON2", "SHA256COMPRESSION", "KECCAKF1600", "ECADD", "TORADIXBE",
};

/* ---- while it runs ------------------------------------------------------------------------------ */

int watch_call(avm_machine *m, avm_call *call)
{
    call->watch = calloc(1, sizeof *call->watch);
    if (!call->watch)
        return 0;
    call->watch->call = m->steps.calls++;
    call->watch->step = SIZE_MAX;
    return 1;
}

/* Place for one more step; NULL outside the window, or with `*is_out_of_memory`. */
static avm_step *next_step(step_record *record, int *is_out_of_memory)
{
    uint64_t number = record->taken++;
    if (number < record->first || record->count >= record->room)
        return NULL;
    if (record->count == record->capacity) {
        size_t capacity = record->capacity ? 2 * record->capacity : STEPS_AT_FIRST;
        avm_step *steps = realloc(record->steps, capacity * sizeof *steps);
        *is_out_of_memory = !steps;
        if (!steps)
            return NULL;
        record->steps = steps;
        record->capacity = capacity;
    }
    return record->steps + record->count++;
}

avm_event watch_step(avm_machine *m, avm_call *call)
{
    call_watch *watch = call->watch;
    watch->pc = (uint32_t)call->pc;
    watch->operation = m->current.operation;
    watch->is_metering = 1;
    watch->l2_gas = call->l2_gas;
    watch->da_gas = call->da_gas;
    watch->nested_l2_gas = watch->nested_da_gas = 0;
    int is_out_of_memory = 0;
    avm_step *step = next_step(&m->steps, &is_out_of_memory);
    watch->step = step ? m->steps.count - 1 : SIZE_MAX;
    if (step) {
        *step = (avm_step){
            .call = watch->call,
            .l2_gas = call->l2_gas,
            .da_gas = call->da_gas,
            .pc = watch->pc,
            .operation = m->current.operation,
            .address_count = m->current.address_count,
        };
        memcpy(step->address, m->address, sizeof step->address);
    }
    return is_out_of_memory ? AVM_NO_MEMORY : AVM_GO_ON;
}

void watch_cost(avm_machine *m, avm_call *call)
{
    call_watch *watch = call->watch;
    if (!watch->is_metering)
        return;
    watch->is_metering = 0;
    int64_t l2 = watch->l2_gas - call->l2_gas - watch->nested_l2_gas;
    int64_t da = watch->da_gas - call->da_gas - watch->nested_da_gas;
    gas_meter *meter = watch->meters + watch->operation;
    meter->count++;
    meter->l2_gas += l2;
    meter->da_gas += da;
    if (watch->step != SIZE_MAX) {
        m->steps.steps[watch->step].l2_cost = l2;
        m->steps.steps[watch->step].da_cost = da;
    }
}

void watch_halt(avm_machine *m, avm_call *call)
{
    watch_cost(m, call);
    call->watch->lost = (gas_meter){.count = 1, .l2_gas = call->l2_gas, .da_gas = call->da_gas};
}

void watch_nested(avm_call *caller, int64_t l2_gas, int64_t da_gas)
{
    caller->watch->nested_l2_gas += l2_gas;
    caller->watch->nested_da_gas += da_gas;
}

/* ---- as JSON ------------------------------------------------------------------------------------ */

size_t steps_json_room(const step_record *record)
{
    return record->count * STEP_JSON_BYTES;
}

size_t steps_json(const step_record *record, char *out)
{
    char *end = out;
    for (size_t i = 0; i < record->count; i++) {
        const avm_step *step = record->steps + i;
        end += sprintf(end, "%s{\"call\":%" PRIu64 ",\"pc\":%" PRIu32 ",\"operation\":\"%s\",\"l2GasLeft\":%" PRId64
                            ",\"daGasLeft\":%" PRId64 ",\"l2Gas\":%" PRId64 ",\"daGas\":%" PRId64 ",\"memory\":[",
                       i ? "," : "", step->call, step->pc, OPERATION_NAMES[step->operation], step->l2_gas, step->da_gas,
                       step->l2_cost, step->da_cost);
        for (int k = 0; k < step->address_count; k++)
            end += sprintf(end, "%s%" PRIu32, k ? "," : "", step->address[k]);
        end += sprintf(end, "]}");
    }
    return (size_t)(end - out);
}

void steps_free(step_record *record)
{
    free(record->steps);
    record->steps = NULL;
    record->count = record->capacity = 0;
}
