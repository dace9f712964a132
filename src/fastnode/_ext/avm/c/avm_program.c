#include "avm_program.h"

#include <stdlib.h>
#include <string.h>

#include "avm_memory.h"

/* ---- layouts --------------------------------------------------------------------------------- */

typedef struct {
    uint8_t operation, address_count, address_width, mode_width;
    uint8_t immediates; /* bytes of them */
    uint8_t has_tag;    /* as the first byte of the immediates */
    uint8_t da_gas;
    uint32_t l2_gas;
} layout;

#define WIDE(op, count, gas, da, immediates) {op, count, 2, 1, immediates, 0, da, gas}
#define NARROW(op, count, gas, immediates) {op, count, 1, 1, immediates, 0, 0, gas}
#define PAIR(op, count, gas) NARROW(op, count, gas, 0), WIDE(op, count, gas, 0, 0)
#define NO_ADDRESS(op, gas, immediates) {op, 0, 0, 0, immediates, 0, 0, gas}
#define LONG_MODE(op, count, gas) {op, count, 2, 2, 0, 0, 0, gas}
#define SETTING(width, value_width) {OP_SET, 1, width, 1, 1 + (value_width), 1, 0, 27}

static const layout LAYOUTS[] = {
    PAIR(OP_ADD, 3, 12),
    PAIR(OP_SUB, 3, 12),
    PAIR(OP_MUL, 3, 27),
    PAIR(OP_DIV, 3, 27),
    PAIR(OP_FDIV, 3, 225),
    PAIR(OP_EQ, 3, 12),
    PAIR(OP_LT, 3, 42),
    PAIR(OP_LTE, 3, 42),
    PAIR(OP_AND, 3, 12),
    PAIR(OP_OR, 3, 12),
    PAIR(OP_XOR, 3, 12),
    PAIR(OP_NOT, 2, 12),
    PAIR(OP_SHL, 3, 18),
    PAIR(OP_SHR, 3, 18),
    {OP_CAST, 2, 1, 1, 1, 1, 0, 27},
    {OP_CAST, 2, 2, 1, 1, 1, 0, 27},
    WIDE(OP_GETENVVAR, 1, 12, 0, 1),
    WIDE(OP_CALLDATACOPY, 3, 18, 0, 0),
    WIDE(OP_SUCCESSCOPY, 1, 12, 0, 0),
    WIDE(OP_RETURNDATASIZE, 1, 12, 0, 0),
    WIDE(OP_RETURNDATACOPY, 3, 18, 0, 0),
    NO_ADDRESS(OP_JUMP, 9, 4),
    WIDE(OP_JUMPI, 1, 9, 0, 4),
    NO_ADDRESS(OP_INTERNALCALL, 9, 4),
    NO_ADDRESS(OP_INTERNALRETURN, 9, 0),
    SETTING(1, 1),
    SETTING(2, 2),
    SETTING(2, 4),
    SETTING(2, 8),
    SETTING(2, 16),
    SETTING(2, 32),
    PAIR(OP_MOV, 2, 12),
    WIDE(OP_SLOAD, 3, 1290, 0, 0),
    WIDE(OP_SSTORE, 2, 33140, 0, 0),
    WIDE(OP_NOTEHASHEXISTS, 3, 504, 0, 0),
    WIDE(OP_EMITNOTEHASH, 1, 19275, 32, 0),
    WIDE(OP_NULLIFIEREXISTS, 2, 903, 0, 0),
    WIDE(OP_EMITNULLIFIER, 1, 30800, 32, 0),
    WIDE(OP_L1TOL2MSGEXISTS, 3, 540, 0, 0),
    WIDE(OP_GETCONTRACTINSTANCE, 2, 6108, 0, 1),
    WIDE(OP_EMITPUBLICLOG, 2, 15, 64, 0),
    WIDE(OP_SENDL2TOL1MSG, 2, 5239, 32, 0),
    LONG_MODE(OP_CALL, 5, 9936),
    LONG_MODE(OP_STATICCALL, 5, 9936),
    WIDE(OP_RETURN, 2, 9, 0, 0),
    PAIR(OP_REVERT, 2, 9),
    WIDE(OP_DEBUGLOG, 4, 9, 0, 2),
    WIDE(OP_POSEIDON2, 2, 360, 0, 0),
    WIDE(OP_SHA256COMPRESSION, 3, 12288, 0, 0),
    WIDE(OP_KECCAKF1600, 2, 58176, 0, 0),
    LONG_MODE(OP_ECADD, 7, 270),
    LONG_MODE(OP_TORADIXBE, 5, 24),
};

#define LAYOUT_COUNT (sizeof LAYOUTS / sizeof *LAYOUTS)
_Static_assert(LAYOUT_COUNT == 68, "opcodes go from 0 to 67");

/* ---- program --------------------------------------------------------------------------------- */

avm_program *avm_program_new(const uint8_t *bytecode, size_t size, avm_rules rules)
{
    avm_program *program = malloc(sizeof *program);
    instruction_slot *slots = calloc(size ? size : 1, sizeof *slots);
    if (!program || !slots) {
        free(program);
        free(slots);
        return NULL;
    }
    *program = (avm_program){bytecode, size, slots, rules};
    return program;
}

void avm_program_free(avm_program *program)
{
    if (program)
        free(program->slots);
    free(program);
}

/* ---- decoding -------------------------------------------------------------------------------- */

#define ADDRESSING_GAS 3
/* Bits of seven operands are charged, whether the instruction has them or not. */
#define INDIRECT_BITS 0x1555
#define RELATIVE_BITS 0x2AAA

static uint32_t read_number(const uint8_t *bytes, int width)
{
    uint32_t value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | bytes[i];
    return value;
}

static void decode_addressing(instruction *out, uint32_t mode)
{
    uint32_t relative = mode & RELATIVE_BITS;
    out->l2_gas += ADDRESSING_GAS * (uint32_t)__builtin_popcount(mode & (INDIRECT_BITS | RELATIVE_BITS));
    out->l2_gas += relative ? ADDRESSING_GAS : 0;
    for (int i = 0; i < out->address_count; i++) {
        out->indirect |= (uint8_t)((mode >> 2 * i & 1) << i);
        out->relative |= (uint8_t)((mode >> (2 * i + 1) & 1) << i);
    }
}

static void decode_immediates(instruction *out, const layout *form, const uint8_t *bytes)
{
    int width = form->immediates - form->has_tag;
    if (form->has_tag)
        out->tag = bytes[0];
    if (form->immediates && width <= 4)
        out->immediate = read_number(bytes + form->has_tag, width);
    if (form->operation == OP_SET)
        out->value_width = (uint8_t)width;
}

/* What the rules of the program say about an instruction. */
static void apply_rules(instruction *out, const avm_rules *rules)
{
    switch (out->operation) {
    case OP_ECADD:
        out->l2_gas = rules->point_gas;
        if (!rules->point_flags) {
            out->address_count = POINTS_WITHOUT_FLAGS;
            out->size -= 2 * (OPERANDS_MAX - POINTS_WITHOUT_FLAGS);
        }
        break;
    case OP_CALLDATACOPY:
    case OP_RETURNDATACOPY:
        out->immediate = rules->copy_gas;
        break;
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        out->immediate = rules->bitwise_gas;
        break;
    }
}

static void publish(instruction_slot *slot, const instruction *decoded)
{
    uint8_t expected = NOT_DECODED;
    if (!atomic_compare_exchange_strong(&slot->state, &expected, BEING_DECODED))
        return;
    slot->decoded = *decoded;
    atomic_store_explicit(&slot->state, DECODED, memory_order_release);
}

fetch_result program_decode(avm_program *program, uint64_t pc, instruction *out)
{
    if (pc >= program->size)
        return BAD_PLACE;
    const uint8_t *at = program->bytecode + pc;
    if (at[0] >= LAYOUT_COUNT)
        return BAD_OPCODE;
    const layout *form = &LAYOUTS[at[0]];
    *out = (instruction){
        .operation = form->operation,
        .size = (uint8_t)(1 + form->mode_width + form->address_count * form->address_width + form->immediates),
        .address_count = form->address_count,
        .da_gas = form->da_gas,
        .l2_gas = form->l2_gas,
    };
    apply_rules(out, &program->rules);
    if (out->size > program->size - pc)
        return TRUNCATED;
    const uint8_t *operands = at + 1 + form->mode_width;
    const uint8_t *immediates = operands + out->address_count * form->address_width;
    if (form->has_tag && immediates[0] > TAG_U128)
        return BAD_TAG;
    decode_addressing(out, read_number(at + 1, form->mode_width));
    for (int i = 0; i < out->address_count; i++)
        out->address[i] = (uint16_t)read_number(operands + i * form->address_width, form->address_width);
    decode_immediates(out, form, immediates);
    publish(&program->slots[pc], out);
    return FETCHED;
}
