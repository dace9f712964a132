/* Instructions of the public virtual machine that need the host.
 *
 * Each is a first part up to its question, and what is left to do with the answer.  The machine keeps the instruction and its
 * resolved addresses in between, and memory cannot change. */
#include "avm_machine.h"

#include <stdlib.h>

#define STORAGE_COLD_DA_GAS 64
#define NOTE_HASH_LEAVES (UINT64_C(1) << 42)
#define MESSAGE_LEAVES (UINT64_C(1) << 36)
#define LOG_L2_GAS_PER_FIELD 3
#define LOG_DA_GAS_PER_FIELD 32
#define DEBUG_LEVEL_MAX 7
/* Level and number of fields are read too. */
#define DEBUG_LOG_OWN_CELLS 2

#define LOG_PREFIX "EmitPublicLog Exception: Error in EmitPublicLog: "
#define STATIC_CALL ": Static call cannot update the state. "

/* ---- questions ------------------------------------------------------------------------------- */

static avm_event ask(avm_machine *m, const avm_call *call, avm_topic topic)
{
    m->question.topic = topic;
    field_store(call->address, m->question.address);
    return AVM_ASK;
}

static void put_field(avm_machine *m, int index, cell value)
{
    field_store(value, m->question.field[index]);
}

static avm_event take_two_fields(avm_machine *m, const avm_call *call, cell *first, cell *second)
{
    TRY(take(m, call, 0, TAG_FF, first));
    return take(m, call, 1, TAG_FF, second);
}

/* ---- state ----------------------------------------------------------------------------------- */

static avm_event load_storage(avm_machine *m, avm_call *call)
{
    cell slot, address;
    TRY(take_two_fields(m, call, &slot, &address));
    TRY(pay(m, call, 0, 0));
    put_field(m, 0, slot);
    ask(m, call, ASK_READ_STORAGE);
    field_store(address, m->question.address);
    return AVM_ASK;
}

static avm_event store_storage(avm_machine *m, avm_call *call)
{
    cell value, slot;
    TRY(take_two_fields(m, call, &value, &slot));
    put_field(m, 0, slot);
    put_field(m, 1, value);
    return ask(m, call, ASK_IS_COLD);
}

static avm_event store_storage_known(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, m->reply.flag ? STORAGE_COLD_DA_GAS : 0));
    if (call->is_static)
        return halt(m, "SSTORE" STATIC_CALL "Cannot write to storage in static context");
    return ask(m, call, ASK_WRITE_STORAGE);
}

static avm_event look_for_leaf(avm_machine *m, avm_call *call, avm_topic topic, uint64_t leaves)
{
    cell leaf, index;
    TRY(take(m, call, 0, TAG_FF, &leaf));
    TRY(take(m, call, 1, TAG_U64, &index));
    TRY(pay(m, call, 0, 0));
    if (index.limb[0] >= leaves)
        return write_cell(call, m->address[2], cell_integer(TAG_U1, 0));
    put_field(m, 0, leaf);
    m->question.number = index.limb[0];
    return ask(m, call, topic);
}

static avm_event look_for_nullifier(avm_machine *m, avm_call *call)
{
    cell nullifier;
    TRY(take(m, call, 0, TAG_FF, &nullifier));
    TRY(pay(m, call, 0, 0));
    put_field(m, 0, nullifier);
    return ask(m, call, ASK_NULLIFIER_EXISTS);
}

static avm_event look_for_instance(avm_machine *m, avm_call *call)
{
#define PREFIX "GetContractInstance Exception: Error in GetContractInstance: "
    cell address;
    TRY(take(m, call, 0, TAG_FF, &address));
    TRY(pay(m, call, 0, 0));
    if (m->address[1] + UINT64_C(1) >= MEMORY_CELLS)
        return halt(m, PREFIX "Write dst out of range: 0x%08x", m->address[1]);
    if (m->current.immediate >= call->program->rules.members)
        return halt(m, PREFIX "Invalid member enum: %u", m->current.immediate);
    put_field(m, 0, address);
    m->question.number = m->current.immediate;
    return ask(m, call, ASK_INSTANCE_MEMBER);
#undef PREFIX
}

static avm_event write_instance(avm_machine *m, avm_call *call)
{
    cell member = m->reply.flag ? field_load(m->reply.field) : (cell){{0, 0, 0, 0}};
    TRY(write_cell(call, m->address[1], cell_integer(TAG_U1, (wide)m->reply.flag)));
    return write_cell(call, m->address[1] + UINT64_C(1), member);
}

/* ---- side effects ---------------------------------------------------------------------------- */

static avm_event emit_note_hash(avm_machine *m, avm_call *call)
{
    cell note_hash;
    TRY(take(m, call, 0, TAG_FF, &note_hash));
    TRY(pay(m, call, 0, 0));
    if (call->is_static)
        return halt(m, "EMITNOTEHASH" STATIC_CALL "Cannot emit note hash in static context");
    put_field(m, 0, note_hash);
    return ask(m, call, ASK_EMIT_NOTE_HASH);
}

static avm_event emit_nullifier(avm_machine *m, avm_call *call)
{
    cell nullifier;
    TRY(take(m, call, 0, TAG_FF, &nullifier));
    TRY(pay(m, call, 0, 0));
    if (call->is_static)
        return halt(m, "EMITNULLIFIER" STATIC_CALL "Cannot emit nullifier in static context");
    put_field(m, 0, nullifier);
    return ask(m, call, ASK_EMIT_NULLIFIER);
}

static avm_event send_message(avm_machine *m, avm_call *call)
{
    cell recipient, content;
    TRY(take_two_fields(m, call, &recipient, &content));
    TRY(pay(m, call, 0, 0));
    if (recipient.limb[3] || recipient.limb[2] >> 32)
        return halt(m, "SENDL2TOL1MSG: Recipient address is too large");
    if (call->is_static)
        return halt(m, "SENDL2TOL1MSG" STATIC_CALL "Cannot send L2 to L1 message in static context");
    put_field(m, 0, recipient);
    put_field(m, 1, content);
    return ask(m, call, ASK_SEND_MESSAGE);
}

/* ---- logs ------------------------------------------------------------------------------------ */

void forget_question(avm_machine *m)
{
    m->question.topic = ASK_NOTHING;
    free(m->question.bytes);
    m->question.bytes = NULL;
}

/* For whole fields from `size` of its bytes on. */
static avm_event make_room(avm_machine *m, uint64_t size, uint64_t fields)
{
    if (fields > (SIZE_MAX - size) / FIELD_BYTES)
        return AVM_NO_MEMORY;
    m->question.size = (size_t)(size + fields * FIELD_BYTES);
    m->question.bytes = malloc(m->question.size ? m->question.size : 1);
    return m->question.bytes ? AVM_GO_ON : AVM_NO_MEMORY;
}

static avm_event emit_log(avm_machine *m, avm_call *call)
{
    cell size;
    TRY(take(m, call, 0, TAG_U32, &size));
    int64_t count = (int64_t)size.limb[0];
    TRY(pay(m, call, LOG_L2_GAS_PER_FIELD * count, LOG_DA_GAS_PER_FIELD * count));
    if (m->address[1] + size.limb[0] > MEMORY_CELLS)
        return halt(m, LOG_PREFIX "Memory out of bounds");
    m->question.number = size.limb[0];
    return ask(m, call, ASK_ROOM_FOR_LOG);
}

static avm_event emit_log_with_room(avm_machine *m, avm_call *call)
{
    uint64_t size = m->question.number;
    if (!m->reply.flag)
        return halt(m, LOG_PREFIX "Too many logs");
    TRY(make_room(m, 0, size));
    for (uint64_t i = 0; i < size; i++) {
        cell c = read_cell(call, m->address[1] + i);
        if (!cell_is_field(c)) {
            forget_question(m);
            return halt(m, LOG_PREFIX "Tag mismatch");
        }
        field_store(c, m->question.bytes + i * FIELD_BYTES);
    }
    if (call->is_static) {
        forget_question(m);
        return halt(m, LOG_PREFIX "Static call cannot update the state.");
    }
    return ask(m, call, ASK_EMIT_LOG);
}

/* ---- debug logs ------------------------------------------------------------------------------ */

/* Bytes for the 39 digits of 128 bits, or for the 64 of 256 bits after 0x. */
#define NUMBER_TEXT_BYTES 68

/* Text of a cell's value: decimal, and for FF and U128 hexadecimal. */
static const char *value_text(cell c, char buffer[NUMBER_TEXT_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    char *at = buffer + NUMBER_TEXT_BYTES;
    *--at = 0;
    if (!cell_is_field(c)) {
        wide rest = cell_wide(c);
        const int is_hex = cell_tag(c) == TAG_U128, base = is_hex ? 16 : 10;
        do {
            *--at = digits[(int)(rest % base)];
            rest /= base;
        } while (rest);
        if (is_hex) {
            *--at = 'x';
            *--at = '0';
        }
        return at;
    }
    int last = LIMBS * 16 - 1;
    while (last > 0 && !(c.limb[last / 16] >> last % 16 * 4 & 15))
        last--;
    for (int i = 0; i <= last; i++)
        *--at = digits[c.limb[i / 16] >> i % 16 * 4 & 15];
    *--at = 'x';
    *--at = '0';
    return at;
}

/* A wrong tag here is a fault of the whole transaction. */
static avm_event take_plain(avm_machine *m, const avm_call *call, int index, int tag, uint64_t *out)
{
    cell c = read_cell(call, m->address[index]);
    *out = c.limb[0];
    if (cell_tag(c) == tag)
        return AVM_GO_ON;
    char buffer[NUMBER_TEXT_BYTES];
    halt(m, "CastException: TaggedValue::as(): type mismatch. Wanted type %d but got %s(%s)", tag,
         TAG_NAMES[cell_tag(c)], value_text(c, buffer));
    return AVM_TX_ERROR;
}

static avm_event log_for_debugging(avm_machine *m, avm_call *call)
{
    TRY(pay(m, call, 0, 0));
    if (!m->collect_debug_logs)
        return AVM_GO_ON;
    uint64_t level, count;
    TRY(take_plain(m, call, 0, TAG_U8, &level));
    TRY(take_plain(m, call, 3, TAG_U32, &count));
    m->question.number = DEBUG_LOG_OWN_CELLS + m->current.immediate + count;
    return ask(m, call, ASK_COUNT_DEBUG_LOG);
}

/* Addresses wrap around.  The level is looked at after the number of cells. */
static avm_event write_debug_log(avm_machine *m, avm_call *call)
{
    uint64_t level = read_cell(call, m->address[0]).limb[0];
    if (level > DEBUG_LEVEL_MAX) {
        halt(m, "Invalid debug log level: %u", (unsigned)level);
        return AVM_TX_ERROR;
    }
    size_t message_size = m->current.immediate;
    uint64_t count = read_cell(call, m->address[3]).limb[0];
    TRY(make_room(m, message_size, count));
    uint8_t *out = m->question.bytes;
    for (size_t i = 0; i < message_size; i++)
        *out++ = (uint8_t)read_cell(call, m->address[1] + i).limb[0];
    for (uint64_t i = 0; i < count; i++, out += FIELD_BYTES)
        field_store(cell_value(read_cell(call, m->address[2] + i)), out);
    m->question.message_size = message_size;
    m->question.number = level;
    return ask(m, call, ASK_DEBUG_LOG);
}

/* ---- both parts ------------------------------------------------------------------------------ */

avm_event run_host_operation(avm_machine *m, avm_call *call)
{
    switch (m->current.operation) {
    case OP_SLOAD: return load_storage(m, call);
    case OP_SSTORE: return store_storage(m, call);
    case OP_NOTEHASHEXISTS: return look_for_leaf(m, call, ASK_NOTE_HASH_EXISTS, NOTE_HASH_LEAVES);
    case OP_L1TOL2MSGEXISTS: return look_for_leaf(m, call, ASK_MESSAGE_EXISTS, MESSAGE_LEAVES);
    case OP_NULLIFIEREXISTS: return look_for_nullifier(m, call);
    case OP_GETCONTRACTINSTANCE: return look_for_instance(m, call);
    case OP_EMITNOTEHASH: return emit_note_hash(m, call);
    case OP_EMITNULLIFIER: return emit_nullifier(m, call);
    case OP_SENDL2TOL1MSG: return send_message(m, call);
    case OP_EMITPUBLICLOG: return emit_log(m, call);
    default: return log_for_debugging(m, call);
    }
}

avm_event finish_host_operation(avm_machine *m, avm_call *call)
{
    avm_topic topic = m->question.topic;
    forget_question(m);
    switch (topic) {
    case ASK_READ_STORAGE: return write_cell(call, m->address[2], field_load(m->reply.field));
    case ASK_IS_COLD: return store_storage_known(m, call);
    case ASK_NOTE_HASH_EXISTS:
    case ASK_MESSAGE_EXISTS: return write_cell(call, m->address[2], cell_integer(TAG_U1, (wide)m->reply.flag));
    case ASK_NULLIFIER_EXISTS: return write_cell(call, m->address[1], cell_integer(TAG_U1, (wide)m->reply.flag));
    case ASK_INSTANCE_MEMBER: return write_instance(m, call);
    case ASK_ROOM_FOR_LOG: return emit_log_with_room(m, call);
    case ASK_COUNT_DEBUG_LOG: return write_debug_log(m, call);
    default: return AVM_GO_ON;
    }
}
