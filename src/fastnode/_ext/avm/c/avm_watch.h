/* Notes of a watched execution: the gas of each call by operation, and a window of its steps.
 *
 * A step is one instruction.  What it costs is known when the next one of its call begins or the call ends; gas that
 * calls made by it have used is theirs.  A halt takes all that its call has left: that is nobody's instruction. */
#ifndef FASTNODE_AVM_WATCH_H
#define FASTNODE_AVM_WATCH_H

#include "avm_program.h"

typedef struct {
    uint64_t count;
    int64_t l2_gas, da_gas;
} gas_meter;

/* Of one open call. */
typedef struct {
    uint64_t call; /* how many were entered before it */
    uint32_t pc;   /* of the instruction that is being executed */
    uint8_t operation;
    int is_metering;
    int64_t l2_gas, da_gas;               /* left before that instruction */
    int64_t nested_l2_gas, nested_da_gas; /* used by the calls that it has made */
    size_t step;                          /* its place among the recorded steps, SIZE_MAX when it has none */
    gas_meter meters[OPERATIONS], lost;
} call_watch;

typedef struct {
    uint64_t call;
    int64_t l2_gas, da_gas, l2_cost, da_cost;
    uint32_t pc;
    uint8_t operation, address_count;
    uint32_t address[OPERANDS_MAX];
} avm_step;

/* The steps number `first` to `first + room - 1`; `taken` counts all of them. */
typedef struct {
    uint64_t first, room, taken, calls;
    avm_step *steps;
    size_t count, capacity;
} step_record;

extern const char *const OPERATION_NAMES[OPERATIONS];

/* Bytes that the steps take as JSON at most. */
size_t steps_json_room(const step_record *record);
/* Writes them as the elements of an array; how many bytes. */
size_t steps_json(const step_record *record, char *out);
void steps_free(step_record *record);

#endif
