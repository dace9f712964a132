/* The loop of the public virtual machine, and the instructions that need nothing but the call's own registers and memory.
 *
 * Everywhere the order is: tags that are checked first, gas, everything else; nothing is written before a failure. */
#include "avm_machine.h"

#include <stdarg.h>
#include <stdio.h>

#define WORK_PER_TICK 1024 /* instructions between two looks at the limits of time */

const char *const TAG_NAMES[] = {"FIELD", "U1", "U8", "U16", "U32", "U64", "U128"};

#define MISMATCH "Mismatched tags: Cannot perform operation between different types: %s and %s"
#define NO_BITWISE_FIELDS "InvalidOperationTag: Bitwise operations not valid for FF"

/* ---- halts ----------------------------------------------------------------------------------- */

avm_event halt(avm_machine *m, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(m->text, sizeof m->text, format, values);
    va_end(values);
    return AVM_HALT;
}

avm_event out_of_gas(avm_machine *m, const avm_call *call, int64_t l2, int64_t da)
{
    long long l2_limit = call->l2_gas_limit, da_limit = call->da_gas_limit;
    return halt(m, "Out of gas: total L2 used %lld of %lld, total DA used %lld of %lld",
                l2_limit - (long long)call->l2_gas + (long long)l2, l2_limit,
                da_limit - (long long)call->da_gas + (long long)da, da_limit);
}

avm_event wrong_tag(avm_machine *m, int index, cell c, int wanted)
{
    return halt(m, "Input %d tag %s does not match expected tag %s", index, TAG_NAMES[cell_tag(c)], TAG_NAMES[wanted]);
}

/* ---- fetching and addressing ----------------------------------------------------------------- */

static avm_event fetching_error(avm_machine *m, const avm_program *program, unsigned long long pc, fetch_result result)
{
#define AT_PC "Instruction fetching error at pc %llu: "
    size_t size = program->size;
    switch (result) {
    case BAD_PLACE:
        return halt(m, AT_PC "Invalid program counter %llu, max is %zu", pc, pc, size - 1);
    case BAD_OPCODE: {
        unsigned opcode = program->bytecode[pc];
        return halt(m, AT_PC "Opcode %u (0x%x) value is not in the range of valid opcodes (at PC %llu).", pc, opcode,
                    opcode, pc);
    }
    case TRUNCATED:
        return halt(m, AT_PC "Instruction at PC %llu does not fit in bytecode (instruction size: %d, remaining: %zu)",
                    pc, pc, m->current.size, size - (size_t)pc);
    default:
        return halt(m, AT_PC "Tag check failed", pc);
    }
#undef AT_PC
}

INLINE avm_event fetch(avm_machine *m, const avm_call *call)
{
    avm_program *program = call->program;
    if (call->pc < program->size) {
        instruction_slot *slot = program->slots + call->pc;
        if (atomic_load_explicit(&slot->state, memory_order_acquire) == DECODED) {
            m->current = slot->decoded;
            return AVM_GO_ON;
        }
    }
    fetch_result result = program_decode(program, call->pc, &m->current);
    return result == FETCHED ? AVM_GO_ON : fetching_error(m, program, call->pc, result);
}

static avm_event resolve(avm_machine *m, const avm_call *call)
{
    const instruction *i = &m->current;
    uint64_t base = MEMORY_CELLS; /* not looked at yet: an operand before the first relative one may fail first */
    for (int k = 0; k < i->address_count; k++) {
        uint64_t address = i->address[k];
        if (i->relative >> k & 1) {
            if (base == MEMORY_CELLS) {
                cell c = read_cell(call, 0);
                if (cell_tag(c) != TAG_U32)
                    return halt(m, "Addressing error: Base address (mem[0]) is not a valid address (has tag %s)",
                                TAG_NAMES[cell_tag(c)]);
                base = c.limb[0];
            }
            address += base;
            if (address >= MEMORY_CELLS)
                return halt(m, "Addressing error: Relative address out of range. Base address %llu, relative offset %u",
                            (unsigned long long)base, i->address[k]);
        }
        if (i->indirect >> k & 1) {
            cell c = read_cell(call, address);
            if (cell_tag(c) != TAG_U32)
                return halt(m, "Addressing error: Address after indirection is not a valid address "
                               "(address U32(%llu)) has tag %s)",
                            (unsigned long long)address, TAG_NAMES[cell_tag(c)]);
            address = c.limb[0];
        }
        m->address[k] = (uint32_t)address;
    }
    return AVM_GO_ON;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static const uint8_t TAG_WIDTH[] = {0, 1, 8, 16, 32, 64, 128};

INLINE wide mask_of(int tag)
{
    return ~(wide)0 >> (128 - TAG_WIDTH[tag]);
}

INLINE cell integer_cut(int tag, wide value)
{
    return cell_integer(tag, value & mask_of(tag));
}

/* A value of 256 bits, of which an integer keeps the low ones, and which is below the modulus for FF. */
INLINE cell cut(int tag, element value)
{
    return tag == TAG_FF ? value : integer_cut(tag, (wide)value.limb[1] << 64 | value.limb[0]);
}

INLINE avm_event two_inputs(avm_machine *m, avm_call *call, int64_t more_gas, cell *a, cell *b)
{
    *a = read_cell(call, m->address[0]);
    *b = read_cell(call, m->address[1]);
    return pay(m, call, more_gas, 0);
}

static avm_event arithmetic_mismatch(avm_machine *m, cell a, cell b)
{
    static const char *const names[][2] = {{"add", "ADD"}, {"sub", "SUB"}, {"mul", "MUL"}};
    const char *const *name = names[m->current.operation - OP_ADD];
    if (m->current.operation == OP_SUB)
        return halt(m, "Alu sub operation failed");
    return halt(m, "Alu %s operation failed: ALU Exception: %s, " MISMATCH, name[0], name[1], TAG_NAMES[cell_tag(a)],
                TAG_NAMES[cell_tag(b)]);
}

INLINE avm_event arithmetic(avm_machine *m, avm_call *call, element (*of_fields)(element, element),
                            wide (*of_integers)(wide, wide))
{
    cell a, b;
    TRY(two_inputs(m, call, 0, &a, &b));
    if (__builtin_expect(cell_tag_word(a) != cell_tag_word(b), 0))
        return arithmetic_mismatch(m, a, b);
    cell result = cell_is_field(a) ? of_fields(a, b) : integer_cut(cell_tag(a), of_integers(cell_wide(a), cell_wide(b)));
    return write_cell(call, m->address[2], result);
}

INLINE wide wide_add(wide a, wide b) { return a + b; }
INLINE wide wide_subtract(wide a, wide b) { return a - b; }
INLINE wide wide_multiply(wide a, wide b) { return a * b; }

static avm_event divide(avm_machine *m, avm_call *call)
{
#define DIVISION "Alu div operation failed: ALU Exception: DIV, "
    cell a, b;
    TRY(two_inputs(m, call, 0, &a, &b));
    if (cell_is_field(a))
        return halt(m, DIVISION "Mismatched tags: Cannot perform integer division on a field element");
    if (cell_tag_word(a) != cell_tag_word(b))
        return halt(m, DIVISION MISMATCH, TAG_NAMES[cell_tag(a)], TAG_NAMES[cell_tag(b)]);
    if (!cell_wide(b))
        return halt(m, DIVISION "Division by zero: Dividing numeric value by zero");
    return write_cell(call, m->address[2], cell_integer(cell_tag(a), cell_wide(a) / cell_wide(b)));
#undef DIVISION
}

static avm_event divide_fields(avm_machine *m, avm_call *call)
{
    cell dividend, divisor;
    TRY(take(m, call, 0, TAG_FF, &dividend));
    TRY(take(m, call, 1, TAG_FF, &divisor));
    TRY(pay(m, call, 0, 0));
    if (field_is_zero(divisor))
        return halt(m, "Alu fdiv operation failed: ALU Exception: FDIV, Division by zero: "
                       "Dividing numeric value by zero");
    return write_cell(call, m->address[2], field_multiply(dividend, field_inverse(divisor)));
}

static avm_event comparison_mismatch(avm_machine *m)
{
    static const char *const names[][2] = {{"eq", "EQ"}, {"lt", "LT"}, {"lte", "LTE"}};
    const char *const *name = names[m->current.operation - OP_EQ];
    return halt(m, "Alu %s operation failed: ALU Exception: %s, Tag mismatch between operands.", name[0], name[1]);
}

INLINE avm_event comparison(avm_machine *m, avm_call *call, int (*holds)(element, element))
{
    cell a, b;
    TRY(two_inputs(m, call, 0, &a, &b));
    if (__builtin_expect(cell_tag_word(a) != cell_tag_word(b), 0))
        return comparison_mismatch(m);
    return write_cell(call, m->address[2], cell_integer(TAG_U1, (wide)holds(a, b)));
}

INLINE int is_less_or_equal(element a, element b) { return !field_less(b, a); }

/* ---- bits ------------------------------------------------------------------------------------ */

static const uint8_t TAG_BYTES[] = {0, 1, 1, 2, 4, 8, 16};

static avm_event bitwise_halt(avm_machine *m, cell a, cell b)
{
    static const char *const names[] = {"AND", "OR", "XOR"};
    const char *name = names[m->current.operation - OP_AND];
    const char *exception = m->current.operation == OP_AND ? "Exeception" : "Exception";
    if (cell_tag_word(a) != cell_tag_word(b))
        return halt(m, "Bitwise %s %s: Bitwise Exception: %s, " MISMATCH, name, exception, name,
                    TAG_NAMES[cell_tag(a)], TAG_NAMES[cell_tag(b)]);
    return halt(m, "Bitwise %s %s: Bitwise Exception: %s, " NO_BITWISE_FIELDS, name, exception, name);
}

INLINE avm_event bitwise(avm_machine *m, avm_call *call, wide (*compute)(wide, wide))
{
    cell a, b;
    int tag = cell_tag(read_cell(call, m->address[0]));
    TRY(two_inputs(m, call, m->current.immediate * TAG_BYTES[tag], &a, &b));
    if (__builtin_expect(cell_tag_word(a) != cell_tag_word(b) || tag == TAG_FF, 0))
        return bitwise_halt(m, a, b);
    return write_cell(call, m->address[2], cell_integer(tag, compute(cell_wide(a), cell_wide(b))));
}

INLINE wide wide_and(wide a, wide b) { return a & b; }
INLINE wide wide_or(wide a, wide b) { return a | b; }
INLINE wide wide_xor(wide a, wide b) { return a ^ b; }

static avm_event shift(avm_machine *m, avm_call *call)
{
    int is_left = m->current.operation == OP_SHL;
    const char *name = is_left ? "SHL" : "SHR";
    cell a, b;
    TRY(two_inputs(m, call, 0, &a, &b));
    if (cell_tag_word(a) != cell_tag_word(b))
        return halt(m, "%s Exception: ALU Exception: %s, " MISMATCH, name, name, TAG_NAMES[cell_tag(a)],
                    TAG_NAMES[cell_tag(b)]);
    if (cell_is_field(a))
        return halt(m, "%s Exception: ALU Exception: %s, " NO_BITWISE_FIELDS, name, name);
    int tag = cell_tag(a);
    wide value = 0;
    if (cell_wide(b) < TAG_WIDTH[tag])
        value = is_left ? cell_wide(a) << b.limb[0] : cell_wide(a) >> b.limb[0];
    return write_cell(call, m->address[2], integer_cut(tag, value));
}

static avm_event complement(avm_machine *m, avm_call *call)
{
    cell c = read_cell(call, m->address[0]);
    TRY(pay(m, call, 0, 0));
    if (cell_is_field(c))
        return halt(m, "Alu not operation failed: ALU Exception: NOT, "
                       "InvalidOperationTag: Can't do unary bitwise operations on an FF");
    return write_cell(call, m->address[1], integer_cut(cell_tag(c), ~cell_wide(c)));
}

/* ---- moving values --------------------------------------------------------------------------- */

INLINE avm_event cast(avm_machine *m, avm_call *call)
{
    cell c = read_cell(call, m->address[0]);
    TRY(pay(m, call, 0, 0));
    return write_cell(call, m->address[1], cut(m->current.tag, cell_value(c)));
}

INLINE avm_event move(avm_machine *m, avm_call *call)
{
    cell c = read_cell(call, m->address[0]);
    TRY(pay(m, call, 0, 0));
    return write_cell(call, m->address[1], c);
}

/* The immediate of SET, which is the end of the instruction. */
static element long_immediate(const instruction *i, const uint8_t *end)
{
    uint8_t bytes[FIELD_BYTES] = {0};
    memcpy(bytes + FIELD_BYTES - i->value_width, end - i->value_width, i->value_width);
    return field_reduce(field_load(bytes));
}

INLINE avm_event set(avm_machine *m, avm_call *call)
{
    const instruction *i = &m->current;
    TRY(pay(m, call, 0, 0));
    element value = {{i->immediate, 0, 0, 0}};
    if (i->value_width > 4)
        value = long_immediate(i, call->program->bytecode + call->next_pc);
    return write_cell(call, m->address[0], cut(i->tag, value));
}

/* ---- control --------------------------------------------------------------------------------- */

INLINE avm_event jump(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    call->next_pc = m->current.immediate;
    return AVM_GO_ON;
}

INLINE avm_event jump_if(avm_machine *m, avm_call *call)
{
    cell condition;
    TRY(take(m, call, 0, TAG_U1, &condition));
    TRY(pay(m, call, 0, 0));
    if (condition.limb[0])
        call->next_pc = m->current.immediate;
    return AVM_GO_ON;
}

static avm_event call_internally(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    return push_internal_call(m, call, m->current.immediate);
}

static avm_event return_internally(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    if (!call->internal_count)
        return halt(m, "Internal return failed: Internal call stack is empty. Cannot pop.");
    call->next_pc = call->internal_calls[--call->internal_count].return_pc;
    return AVM_GO_ON;
}

/* ---- surroundings that are at hand ----------------------------------------------------------- */

static avm_event get_environment(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    uint32_t variable = m->current.immediate;
    if (variable >= ENVIRONMENT_CELLS)
        return halt(m, "Invalid environment variable enum value");
    cell value = m->environment[variable];
    switch (variable) {
    case ENV_ADDRESS:
        value = call->address;
        break;
    case ENV_SENDER:
        value = call->sender;
        break;
    case ENV_IS_STATIC:
        value = cell_integer(TAG_U1, (wide)call->is_static);
        break;
    case ENV_L2_GAS_LEFT:
        value = cell_integer(TAG_U32, (wide)call->l2_gas);
        break;
    case ENV_DA_GAS_LEFT:
        value = cell_integer(TAG_U32, (wide)call->da_gas);
        break;
    }
    return write_cell(call, m->address[0], value);
}

static cell datum(const avm_data *data, uint64_t index)
{
    if (!data->memory)
        return field_load(data->fields + index * FIELD_BYTES);
    return cell_value(memory_read(data->memory, (uint32_t)(data->start + index)));
}

static avm_event copy_data(avm_machine *m, avm_call *call, const avm_data *data, const char *prefix)
{
    cell size_cell, start_cell;
    TRY(take(m, call, 0, TAG_U32, &size_cell));
    TRY(take(m, call, 1, TAG_U32, &start_cell));
    uint64_t size = size_cell.limb[0], start = start_cell.limb[0], destination = m->address[2];
    TRY(pay(m, call, m->current.immediate * (int64_t)size, 0));
    uint64_t end = start + size < data->size ? start + size : data->size;
    uint64_t read_end = data->start + end, write_end = destination + size;
    if (!call->program->rules.bounds_reads) {
        if (write_end > MEMORY_CELLS)
            return halt(m, "%s copy failed: Attempting to write out of bounds memory: write_addr_upper_bound = %llu",
                        prefix, (unsigned long long)write_end);
        if (read_end > MEMORY_CELLS) { /* zeros are behind the end */
            read_end = MEMORY_CELLS;
            end = read_end - data->start;
        }
    }
    if (read_end > MEMORY_CELLS || write_end > MEMORY_CELLS)
        return halt(m, "%s copy failed: Attempting to access out of bounds memory: read_addr_upper_bound = %llu "
                       "write_addr_upper_bound = %llu",
                    prefix, (unsigned long long)read_end, (unsigned long long)write_end);
    count_work(m, size);
    for (uint64_t i = 0; i < size; i++) {
        cell value = start + i < end ? datum(data, start + i) : (cell){{0, 0, 0, 0}};
        TRY(write_cell(call, destination + i, value));
    }
    return AVM_GO_ON;
}

static avm_event copy_success(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    return write_cell(call, m->address[0], cell_integer(TAG_U1, (wide)call->nested_succeeded));
}

static avm_event copy_size(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    return write_cell(call, m->address[0], cell_integer(TAG_U32, call->returned.size));
}

/* ---- loop ------------------------------------------------------------------------------------ */

INLINE avm_event execute(avm_machine *m, avm_call *call)
{
    switch ((operation)m->current.operation) {
    case OP_ADD: return arithmetic(m, call, field_add, wide_add);
    case OP_SUB: return arithmetic(m, call, field_subtract, wide_subtract);
    case OP_MUL: return arithmetic(m, call, field_multiply, wide_multiply);
    case OP_DIV: return divide(m, call);
    case OP_FDIV: return divide_fields(m, call);
    case OP_EQ: return comparison(m, call, field_equal);
    case OP_LT: return comparison(m, call, field_less);
    case OP_LTE: return comparison(m, call, is_less_or_equal);
    case OP_AND: return bitwise(m, call, wide_and);
    case OP_OR: return bitwise(m, call, wide_or);
    case OP_XOR: return bitwise(m, call, wide_xor);
    case OP_NOT: return complement(m, call);
    case OP_SHL:
    case OP_SHR: return shift(m, call);
    case OP_CAST: return cast(m, call);
    case OP_SET: return set(m, call);
    case OP_MOV: return move(m, call);
    case OP_JUMP: return jump(m, call);
    case OP_JUMPI: return jump_if(m, call);
    case OP_INTERNALCALL: return call_internally(m, call);
    case OP_INTERNALRETURN: return return_internally(m, call);
    case OP_GETENVVAR: return get_environment(m, call);
    case OP_CALLDATACOPY: return copy_data(m, call, &call->calldata, "cd");
    case OP_RETURNDATACOPY: return copy_data(m, call, &call->returned, "rd");
    case OP_SUCCESSCOPY: return copy_success(m, call);
    case OP_RETURNDATASIZE: return copy_size(m, call);
    case OP_CALL:
    case OP_STATICCALL: return begin_nested_call(m, call);
    case OP_RETURN: return end_call(m, call, 1);
    case OP_REVERT: return end_call(m, call, 0);
    case OP_POSEIDON2:
    case OP_SHA256COMPRESSION:
    case OP_KECCAKF1600:
    case OP_ECADD:
    case OP_TORADIXBE: return run_gadget(m, call);
    case OP_SLOAD:
    case OP_SSTORE:
    case OP_NOTEHASHEXISTS:
    case OP_EMITNOTEHASH:
    case OP_NULLIFIEREXISTS:
    case OP_EMITNULLIFIER:
    case OP_L1TOL2MSGEXISTS:
    case OP_GETCONTRACTINSTANCE:
    case OP_EMITPUBLICLOG:
    case OP_SENDL2TOL1MSG:
    case OP_DEBUGLOG: return run_host_operation(m, call);
    }
    return AVM_GO_ON;
}

static avm_event check_time(avm_machine *m)
{
    m->work = 0;
    if (atomic_load_explicit(&m->cancelled, memory_order_relaxed))
        return AVM_CANCELLED;
    return m->has_deadline && avm_now() >= m->deadline_ns ? AVM_TIME_LIMIT : AVM_GO_ON;
}

INLINE avm_event step(avm_machine *m, avm_call *call)
{
    if (__builtin_expect(++m->work >= WORK_PER_TICK, 0))
        TRY(check_time(m));
    TRY(fetch(m, call));
    call->next_pc = call->pc + m->current.size;
    TRY(resolve(m, call));
    return execute(m, call);
}

static avm_event watched_step(avm_machine *m, avm_call *call)
{
    if (++m->work >= WORK_PER_TICK)
        TRY(check_time(m));
    watch_cost(m, call);
    TRY(fetch(m, call));
    call->next_pc = call->pc + m->current.size;
    TRY(resolve(m, call));
    TRY(watch_step(m, call));
    return execute(m, call);
}

/* Until something other than the next instruction comes. */
static avm_event run_from(avm_machine *m, avm_call *call, avm_event event)
{
    while (event == AVM_GO_ON && m->is_watched) {
        call->pc = call->next_pc;
        event = watched_step(m, call);
    }
    while (event == AVM_GO_ON) {
        call->pc = call->next_pc;
        event = step(m, call);
    }
    return event == AVM_HALT ? end_call_by_halt(m) : event;
}

avm_event avm_run(avm_machine *m)
{
    avm_call *call = running_call(m);
    if (m->question.topic != ASK_NOTHING)
        return run_from(m, call, finish_host_operation(m, call));
    TRY(check_time(m));
    call->next_pc = call->pc;
    return run_from(m, call, AVM_GO_ON);
}

avm_event avm_refused(avm_machine *m)
{
    forget_question(m);
    return end_call_by_halt(m);
}
