/* Public bytecode and its decoded instructions.
 *
 * An instruction is one opcode byte, then its operands, big-endian and without gaps:
 *
 *     opcode 1 | addressing mode 0, 1 or 2 | address operands, all of 1 or all of 2 bytes | immediates
 *
 * Any place may be jumped to, so that each byte of the code has room for one decoded instruction.  Threads share a
 * program: the first thread decodes an instruction and publishes it. */
#ifndef FASTNODE_AVM_PROGRAM_H
#define FASTNODE_AVM_PROGRAM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define OPERANDS_MAX 7
/* Operands of ECADD when its points have no flags: two coordinates each, and where the sum goes. */
#define POINTS_WITHOUT_FLAGS 5

typedef enum {
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FDIV, OP_EQ, OP_LT, OP_LTE, OP_AND, OP_OR, OP_XOR, OP_NOT, OP_SHL, OP_SHR,
    OP_CAST, OP_GETENVVAR, OP_CALLDATACOPY, OP_SUCCESSCOPY, OP_RETURNDATASIZE, OP_RETURNDATACOPY, OP_JUMP, OP_JUMPI,
    OP_INTERNALCALL, OP_INTERNALRETURN, OP_SET, OP_MOV, OP_SLOAD, OP_SSTORE, OP_NOTEHASHEXISTS, OP_EMITNOTEHASH,
    OP_NULLIFIEREXISTS, OP_EMITNULLIFIER, OP_L1TOL2MSGEXISTS, OP_GETCONTRACTINSTANCE, OP_EMITPUBLICLOG,
    OP_SENDL2TOL1MSG, OP_CALL, OP_STATICCALL, OP_RETURN, OP_REVERT, OP_DEBUGLOG, OP_POSEIDON2, OP_SHA256COMPRESSION,
    OP_KECCAKF1600, OP_ECADD, OP_TORADIXBE
} operation;

#define OPERATIONS (OP_TORADIXBE + 1)

typedef struct {
    uint8_t operation;
    uint8_t size;
    uint8_t address_count;
    uint8_t relative, indirect; /* one bit for each address operand */
    uint8_t tag;
    uint8_t value_width; /* of the SET instructions; the value is the end of the instruction */
    uint8_t da_gas;
    uint16_t address[OPERANDS_MAX];
    uint32_t l2_gas; /* with that of addressing */
    uint32_t immediate; /* the other immediate, or the value of SET when it fits; of copies, the gas for each field */
} instruction;

typedef struct {
    instruction decoded;
    _Atomic uint8_t state; /* of type instruction_state */
} instruction_slot;

/* What differs between releases of the machine. */
typedef struct {
    uint32_t copy_gas;    /* L2 gas for each field that CALLDATACOPY or RETURNDATACOPY copies */
    uint32_t point_gas;   /* L2 gas of ECADD */
    uint32_t bitwise_gas; /* L2 gas of AND, OR and XOR for each byte of their operands */
    uint32_t members;     /* of an instance that GETCONTRACTINSTANCE knows */
    uint8_t point_flags;  /* whether points of ECADD have a cell that says that they are infinity; else (0, 0) is */
    uint8_t bounds_reads;    /* whether copies halt where they read beyond memory; else zeros are there */
} avm_rules;

typedef struct {
    const uint8_t *bytecode; /* not its own */
    size_t size;
    instruction_slot *slots; /* as many */
    avm_rules rules;
} avm_program;

/* NULL when the system has no memory left. */
avm_program *avm_program_new(const uint8_t *bytecode, size_t size, avm_rules rules);
void avm_program_free(avm_program *program);

typedef enum { FETCHED, BAD_PLACE, BAD_OPCODE, TRUNCATED, BAD_TAG } fetch_result;

/* Decode the instruction at pc, and publish it when that succeeds.  For TRUNCATED only `out->size` holds. */
fetch_result program_decode(avm_program *program, uint64_t pc, instruction *out);

enum instruction_state { NOT_DECODED, BEING_DECODED, DECODED };

#endif
