/* Instructions of the public virtual machine that compute over many cells. */
#include "avm_gadgets.h"
#include "avm_machine.h"

#define POSEIDON2_LANES 4
#define POINT_CELLS 3
#define LIMB_GAS 3
/* What a radix that cannot be is charged. */
#define LIMBS_OF_HUGE_RADIX 32

INLINE int leaves_memory(uint64_t start, uint64_t size)
{
    return start + size > MEMORY_CELLS;
}

static avm_event poseidon2(avm_machine *m, avm_call *call)
{
#define PREFIX "Poseidon2 permutation failed: Poseidon2Exception: "
    uint64_t source = m->address[0], destination = m->address[1];
    TRY(pay(m, call, 0, 0));
    if (leaves_memory(source, POSEIDON2_LANES))
        return halt(m, PREFIX "Read address out of range");
    if (leaves_memory(destination, POSEIDON2_LANES))
        return halt(m, PREFIX "Write address out of range");
    uint8_t state[POSEIDON2_LANES * FIELD_BYTES];
    for (int i = 0; i < POSEIDON2_LANES; i++) {
        cell c = read_cell(call, source + (uint64_t)i);
        if (!cell_is_field(c))
            return halt(m, PREFIX "An input tag is not FF");
        field_store(c, state + i * FIELD_BYTES);
    }
    m->permute(state, state);
    for (int i = 0; i < POSEIDON2_LANES; i++)
        TRY(write_cell(call, destination + (uint64_t)i, field_load(state + i * FIELD_BYTES)));
    return AVM_GO_ON;
#undef PREFIX
}

/* Integers of one tag, up to 64 bits; the index of the first cell with another tag, or `count`. */
INLINE uint32_t read_integers(const avm_call *call, uint64_t start, uint32_t count, int tag, uint64_t *out)
{
    for (uint32_t i = 0; i < count; i++) {
        cell c = read_cell(call, start + i);
        if (cell_tag(c) != tag)
            return i;
        out[i] = c.limb[0];
    }
    return count;
}

static avm_event sha256(avm_machine *m, avm_call *call)
{
#define PREFIX "Sha256 Compression failed: Sha256CompressionException: "
    uint64_t destination = m->address[0], state_at = m->address[1], block_at = m->address[2];
    TRY(pay(m, call, 0, 0));
    if (leaves_memory(destination, SHA_STATE) || leaves_memory(state_at, SHA_STATE)
        || leaves_memory(block_at, SHA_BLOCK))
        return halt(m, PREFIX "Memory address out of range for sha256 compression.");
    uint64_t words[SHA_BLOCK];
    uint32_t state[SHA_STATE], block[SHA_BLOCK];
    if (read_integers(call, state_at, SHA_STATE, TAG_U32, words) != SHA_STATE)
        return halt(m, PREFIX "Invalid tag for sha256 state values.");
    for (int i = 0; i < SHA_STATE; i++)
        state[i] = (uint32_t)words[i];
    if (read_integers(call, block_at, SHA_BLOCK, TAG_U32, words) != SHA_BLOCK)
        return halt(m, PREFIX "Invalid tag for sha256 input values.");
    for (int i = 0; i < SHA_BLOCK; i++)
        block[i] = (uint32_t)words[i];
    sha256_compress(state, block);
    for (int i = 0; i < SHA_STATE; i++)
        TRY(write_cell(call, destination + (uint64_t)i, cell_integer(TAG_U32, state[i])));
    return AVM_GO_ON;
#undef PREFIX
}

static avm_event keccak(avm_machine *m, avm_call *call)
{
#define PREFIX "Keccak permutation failed: Error in KeccakF1600 permutation: "
    uint64_t destination = m->address[0], source = m->address[1];
    TRY(pay(m, call, 0, 0));
    if (leaves_memory(source, KECCAK_LANES))
        return halt(m, PREFIX "Read slice out of range: %u", m->address[1]);
    if (leaves_memory(destination, KECCAK_LANES))
        return halt(m, PREFIX "Write slice out of range: %u", m->address[0]);
    uint64_t lanes[KECCAK_LANES];
    uint32_t good = read_integers(call, source, KECCAK_LANES, TAG_U64, lanes);
    if (good != KECCAK_LANES)
        return halt(m, PREFIX "Read slice tag invalid - addr: %u tag: %d", m->address[1] + good,
                    cell_tag(read_cell(call, source + good)));
    keccak_f1600(lanes);
    for (int i = 0; i < KECCAK_LANES; i++)
        TRY(write_cell(call, destination + (uint64_t)i, cell_integer(TAG_U64, lanes[i])));
    return AVM_GO_ON;
#undef PREFIX
}

/* A point of `cells` coordinates: with a third one that says whether it is infinity, or (0, 0) for that. */
static avm_event take_point(avm_machine *m, const avm_call *call, int first, int cells, curve_point *out)
{
    cell is_infinity;
    TRY(take(m, call, first, TAG_FF, &out->x));
    TRY(take(m, call, first + 1, TAG_FF, &out->y));
    if (cells < POINT_CELLS) {
        out->is_infinity = field_is_zero(out->x) && field_is_zero(out->y);
        return AVM_GO_ON;
    }
    TRY(take(m, call, first + 2, TAG_U1, &is_infinity));
    out->is_infinity = is_infinity.limb[0] != 0;
    return AVM_GO_ON;
}

static avm_event add_points(avm_machine *m, avm_call *call)
{
#define PREFIX "Embedded curve add failed: EccException: Add failed: "
    int cells = m->current.address_count / 2;
    curve_point left, right;
    TRY(take_point(m, call, 0, cells, &left));
    TRY(take_point(m, call, cells, cells, &right));
    TRY(pay(m, call, 0, 0));
    uint64_t destination = m->address[2 * cells];
    if (leaves_memory(destination, (uint64_t)cells))
        return halt(m, PREFIX "dst address out of range");
    if (!curve_holds(&left) || !curve_holds(&right))
        return halt(m, PREFIX "One of the points is not on the curve");
    curve_point sum = curve_add(&left, &right);
    TRY(write_cell(call, destination, sum.x));
    TRY(write_cell(call, destination + 1, sum.y));
    if (cells < POINT_CELLS)
        return AVM_GO_ON;
    return write_cell(call, destination + 2, cell_integer(TAG_U1, (wide)sum.is_infinity));
#undef PREFIX
}

static avm_event to_radix(avm_machine *m, avm_call *call)
{
#define PREFIX "ToRadixBe gadget failed: ToRadix Exception: "
    cell value, radix_cell, limbs_cell, bits;
    TRY(take(m, call, 0, TAG_FF, &value));
    TRY(take(m, call, 1, TAG_U32, &radix_cell));
    TRY(take(m, call, 2, TAG_U32, &limbs_cell));
    TRY(take(m, call, 3, TAG_U1, &bits));
    uint32_t radix = (uint32_t)radix_cell.limb[0];
    uint64_t limbs = limbs_cell.limb[0], destination = m->address[4];
    uint64_t least = radix <= RADIX_MAX ? digit_count(radix) : LIMBS_OF_HUGE_RADIX;
    TRY(pay(m, call, LIMB_GAS * (int64_t)(limbs > least ? limbs : least), 0));
    if (leaves_memory(destination, limbs) || radix < 2 || radix > RADIX_MAX || (!limbs && !field_is_zero(value))
        || (bits.limb[0] && radix != 2))
        return halt(m, PREFIX "Invalid parameters for ToRadix");
    uint8_t digits[DIGITS_MAX];
    uint64_t count = digits_of(value, radix, digits);
    if (count > limbs)
        return halt(m, PREFIX "Truncation error");
    int tag = bits.limb[0] ? TAG_U1 : TAG_U8;
    count_work(m, limbs);
    for (uint64_t i = 0; i < limbs; i++) {
        uint64_t place = limbs - 1 - i; /* of the digit, from the least significant one */
        TRY(write_cell(call, destination + i, cell_integer(tag, place < count ? digits[place] : 0)));
    }
    return AVM_GO_ON;
#undef PREFIX
}

avm_event run_gadget(avm_machine *m, avm_call *call)
{
    switch (m->current.operation) {
    case OP_POSEIDON2: return poseidon2(m, call);
    case OP_SHA256COMPRESSION: return sha256(m, call);
    case OP_KECCAKF1600: return keccak(m, call);
    case OP_ECADD: return add_points(m, call);
    default: return to_radix(m, call);
    }
}
