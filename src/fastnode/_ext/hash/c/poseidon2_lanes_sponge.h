/* Poseidon2 with vectors, LANES states side by side: rounds, bytes and the sponge.  See poseidon2_lanes_sums.h.
 *
 * HASH_LANES is the name of the function that comes out of it; ABSORB_LANES, if it is defined, that of another one,
 * which leaves fewer than LANES_WORTH_IT states to ABSORB_ONE. */
typedef struct {
    element lane[POSEIDON2_WIDTH];
} state;

/* ---- rounds ---------------------------------------------------------------------------------- */

/* x^5 for loose x up to 39; the result is below 5.6, loose. */
INLINE element power5(const vector_tables *k, element x)
{
    factor x1 = carried(x);
    factor x2 = carried(reduce(k, square(x1)));  /* 20.3 */
    factor x4 = carried(reduce(k, square(x2)));  /* 7.2 */
    return multiply(k, x1, x4);
}

/* The external matrix: rows 5 7 1 3, 4 6 1 1, 1 3 5 7, 1 1 4 6.  Bounds grow 16 times. */
INLINE void external_layer(state *s)
{
    element t0 = add(s->lane[0], s->lane[1]);
    element t1 = add(s->lane[2], s->lane[3]);
    element t2 = add(add(s->lane[1], s->lane[1]), t1);
    element t3 = add(add(s->lane[3], s->lane[3]), t0);
    element t1_twice = add(t1, t1);
    element t0_twice = add(t0, t0);
    element t4 = add(add(t1_twice, t1_twice), t3);
    element t5 = add(add(t0_twice, t0_twice), t2);
    s->lane[0] = add(t3, t5);
    s->lane[1] = t5;
    s->lane[2] = add(t2, t4);
    s->lane[3] = t4;
}

/* Lanes below 38 before and after: 16 * 2.33.  Limbs below 2^61 after: 16 * 19 * 2^52, see reduce. */
CODE static void full_rounds(
    const vector_tables *k, state *s, const uint64_t constants[][POSEIDON2_WIDTH][LIMBS], int rounds)
{
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            s->lane[i] = below_3(k, power5(k, add(s->lane[i], constant(constants[round][i]))));
        external_layer(s);
    }
}

/* What of a state is needed between partial rounds, newest first; carried. */
typedef struct {
    factor x[3], y[3];
} history;

/* Lanes below 38; history below 4. */
INLINE history enter_partial_rounds(const vector_tables *k, const state *s)
{
    history h;
    factor lane[POSEIDON2_WIDTH];
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        lane[i] = carried(s->lane[i]);
    product x = add_product(times_r(constant(k->enter_constant)), lane[0], constant_factor(k->enter_x));
    h.x[0] = carried(reduce(k, x));
    h.x[1] = h.x[2] = constant_factor(k->zero);
    for (int j = 0; j < 3; j++) {
        product t = no_product();
        for (int i = 0; i < POSEIDON2_WIDTH; i++)
            t = add_product(t, lane[i], constant_factor(k->enter_y[j][i]));
        h.y[j] = carried(reduce(k, t));
    }
    return h;
}

/* Lanes below 4. */
INLINE void leave_partial_rounds(const vector_tables *k, state *s, const history *h)
{
    s->lane[0] = multiply(k, h->x[0], constant_factor(k->leave_x));
    for (int i = 0; i < POSEIDON2_WIDTH - 1; i++) {
        product t = times_r(constant(k->leave_constant[i]));
        for (int j = 0; j < 3; j++) {
            t = add_product(t, h->y[j], constant_factor(k->leave_v[i][j]));
            t = add_product(t, h->x[j], constant_factor(k->leave_v[i][3 + j]));
        }
        s->lane[1 + i] = reduce(k, t);
    }
}

CODE static void partial_rounds(const vector_tables *k, state *s)
{
    history h = enter_partial_rounds(k, s);
    for (int round = 0; round < ROUNDS_PARTIAL; round++)
        partial_round(k, k->round_constants[round], h.y, h.x);
    leave_partial_rounds(k, s, &h);
}

/* Lanes below 2.33 with limbs below 2^57 before; 38 and 2^61 after. */
CODE static void permute(const vector_tables *k, state *s)
{
    external_layer(s);
    full_rounds(k, s, k->full_first, ROUNDS_FULL_FIRST);
    partial_rounds(k, s);
    full_rounds(k, s, k->full_last, ROUNDS_FULL_LAST);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* An element of each lane in 64-bit words, least significant first. */
typedef uint64_t words[WORDS][LANES];

/* Words of an element that is at `bytes`. */
static inline void load_words(words loaded, size_t lane, const uint8_t *bytes)
{
    for (int i = 0; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, bytes + 8 * (WORDS - 1 - i), sizeof word);
        loaded[i][lane] = __builtin_bswap64(word);
    }
}

/* Loose, below 2.3. */
INLINE element from_words(const vector_tables *k, words loaded)
{
    lanes word[WORDS];
    for (int i = 0; i < WORDS; i++)
        word[i] = load_lanes(loaded[i]);
    element e = {{
        word[0],
        either(shift_right(word[0], 52), shift_left(word[1], 12)),
        either(shift_right(word[1], 40), shift_left(word[2], 24)),
        either(shift_right(word[2], 28), shift_left(word[3], 36)),
        shift_right(word[3], 16),
    }};
    return multiply(k, low_limbs(e), constant_factor(k->r_squared));
}

/* The elements at bytes, bytes + stride, ... for `count` lanes, zero for the others; loose, below 2.3. */
CODE static element load_elements(const vector_tables *k, const uint8_t *bytes, size_t stride, size_t count)
{
    words loaded = {{0}};
    for (size_t lane = 0; lane < count; lane++)
        load_words(loaded, lane, bytes + lane * stride);
    return from_words(k, loaded);
}

/* a - p unless that is negative, for exact a; exact. */
INLINE element less_modulus(const vector_tables *k, element a)
{
    element difference;
    UNROLL for (int i = 0; i < LIMBS; i++)
        difference.limb[i] = minus(a.limb[i], everywhere(k->modulus[i]));
    difference = exact(k, difference);
    UNROLL for (int i = 0; i < LIMBS; i++)
        a.limb[i] = by_sign(difference.limb[LIMBS - 1], a.limb[i], difference.limb[i]);
    return a;
}

/* Loose, below 84 in Montgomery form, to 32 bytes for each of `count` lanes. */
CODE static void store_elements(const vector_tables *k, element e, uint8_t *bytes, size_t count)
{
    e = exact(k, multiply(k, carried(e), constant_factor(k->one))); /* below 2.3 */
    e = less_modulus(k, less_modulus(k, e));
    lanes word[WORDS] = {
        either(e.limb[0], shift_left(e.limb[1], 52)),
        either(shift_right(e.limb[1], 12), shift_left(e.limb[2], 40)),
        either(shift_right(e.limb[2], 24), shift_left(e.limb[3], 28)),
        either(shift_right(e.limb[3], 36), shift_left(e.limb[4], 16)),
    };
    words stored;
    for (int i = 0; i < WORDS; i++)
        store_lanes(stored[i], word[i]);
    for (size_t lane = 0; lane < count; lane++)
        for (int i = 0; i < WORDS; i++) {
            uint64_t reversed = __builtin_bswap64(stored[WORDS - 1 - i][lane]);
            memcpy(bytes + lane * POSEIDON2_FIELD_BYTES + 8 * i, &reversed, sizeof reversed);
        }
}

/* ---- sponge ---------------------------------------------------------------------------------- */

/* Hash `count` <= LANES inputs of `arity` elements each. */
CODE void HASH_LANES(const uint8_t *inputs, size_t arity, size_t count, uint8_t *out)
{
    const vector_tables *k = tables();
    const element zero = constant(k->zero);
    /* The capacity starts as arity * 2^64. */
    element capacity = zero;
    capacity.limb[1] = everywhere((uint64_t)arity << (64 - LIMB_BITS));
    state s = {{zero, zero, zero, multiply(k, low_limbs(capacity), constant_factor(k->r_squared))}};

    for (size_t done = 0; done < arity; done += POSEIDON2_RATE) {
        for (size_t i = 0; i < POSEIDON2_RATE && done + i < arity; i++) {
            const uint8_t *elements = inputs + (done + i) * POSEIDON2_FIELD_BYTES;
            element loaded = load_elements(k, elements, arity * POSEIDON2_FIELD_BYTES, count);
            s.lane[i] = add(s.lane[i], loaded);
        }
        /* After a permutation, and with 2.3 added, both the values and their limbs are too large for another one. */
        if (done > 0)
            for (int i = 0; i < POSEIDON2_WIDTH; i++)
                s.lane[i] = exact(k, below_3(k, below_7(k, s.lane[i])));
        permute(k, &s);
    }
    store_elements(k, s.lane[0], out, count);
}

#ifdef ABSORB_LANES

/* The states that are in the lanes, and what each of them has still to absorb. */
typedef struct {
    state sponge;
    uint8_t *bytes[LANES];
    const uint8_t *elements[LANES];
    size_t groups[LANES];
    size_t used;
} sponges;

/* States that wait for a lane. */
typedef struct {
    uint8_t *states;
    const uint8_t *elements;
    const size_t *groups;
    size_t count;
} queue;

/* Element i of what each lane points to; loose, below 2.3. */
CODE static element load_each(const vector_tables *k, const uint8_t *const bytes[LANES], size_t used, size_t i)
{
    words loaded = {{0}};
    for (size_t lane = 0; lane < used; lane++)
        load_words(loaded, lane, bytes[lane] + i * POSEIDON2_FIELD_BYTES);
    return from_words(k, loaded);
}

/* All lanes to the bytes that they came from. */
CODE static void store_states(const vector_tables *k, const sponges *s)
{
    uint8_t stored[LANES * POSEIDON2_FIELD_BYTES];
    for (size_t i = 0; i < POSEIDON2_WIDTH; i++) {
        store_elements(k, s->sponge.lane[i], stored, s->used);
        for (size_t lane = 0; lane < s->used; lane++)
            memcpy(s->bytes[lane] + i * POSEIDON2_FIELD_BYTES, stored + lane * POSEIDON2_FIELD_BYTES,
                   POSEIDON2_FIELD_BYTES);
    }
}

/* Give the lanes that are done to states that wait, and close up; zero lanes when nobody is left. */
CODE static void fill_lanes(const vector_tables *k, sponges *s, queue *waiting)
{
    store_states(k, s);
    size_t used = 0;
    for (size_t lane = 0; lane < LANES; lane++) {
        if (lane < s->used && s->groups[lane] > 0) {
            s->bytes[used] = s->bytes[lane];
            s->elements[used] = s->elements[lane];
            s->groups[used++] = s->groups[lane];
        }
    }
    for (; used < LANES && waiting->count > 0; waiting->count--) {
        s->bytes[used] = waiting->states;
        s->elements[used] = waiting->elements;
        s->groups[used] = *waiting->groups++;
        waiting->states += POSEIDON2_STATE_BYTES;
        waiting->elements += s->groups[used] * POSEIDON2_RATE * POSEIDON2_FIELD_BYTES;
        used += s->groups[used] > 0;
    }
    s->used = used;
    for (size_t i = 0; i < POSEIDON2_WIDTH; i++)
        s->sponge.lane[i] = load_each(k, (const uint8_t *const *)s->bytes, used, i);
}

/* One group in each lane. */
CODE static void absorb_group(const vector_tables *k, sponges *s)
{
    for (size_t i = 0; i < POSEIDON2_RATE; i++)
        s->sponge.lane[i] = add(s->sponge.lane[i], load_each(k, s->elements, s->used, i));
    /* See HASH_LANES; what was loaded as a state is below 4.6 here. */
    for (int i = 0; i < POSEIDON2_WIDTH; i++)
        s->sponge.lane[i] = exact(k, below_3(k, below_7(k, s->sponge.lane[i])));
    permute(k, &s->sponge);
    for (size_t lane = 0; lane < s->used; lane++) {
        s->elements[lane] += POSEIDON2_RATE * POSEIDON2_FIELD_BYTES;
        s->groups[lane]--;
    }
}

/* Absorb into `count` states, LANES of them at a time; a state that is done leaves its lane to the next one. */
CODE void ABSORB_LANES(uint8_t *states, const uint8_t *elements, const size_t *groups, size_t count)
{
    const vector_tables *k = tables();
    queue waiting = {states, elements, groups, count};
    sponges s = {.used = 0};
    for (;;) {
        fill_lanes(k, &s, &waiting);
        if (s.used < LANES_WORTH_IT)
            break;
        size_t shortest = s.groups[0];
        for (size_t lane = 1; lane < s.used; lane++)
            shortest = s.groups[lane] < shortest ? s.groups[lane] : shortest;
        for (; shortest > 0; shortest--)
            absorb_group(k, &s);
    }
    for (size_t lane = 0; lane < s.used; lane++)
        ABSORB_ONE(s.bytes[lane], s.elements[lane], s.groups[lane]);
}

#endif
