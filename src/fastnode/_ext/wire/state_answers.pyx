# Answers from the indexed trees of one view.  The stub (state_answers.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from fastnode._ext.hash.poseidon2 cimport hash_fields_c, hash_runs_c
from fastnode._ext.numbers cimport read_number
from fastnode._ext.storage.layouts cimport INDEX_BYTES, LEAF_CHANGED, LEAF_VALUE, PLACE_BYTES, TAIL_BYTES, TAIL_INSERTED
from fastnode._ext.trees.append_tree cimport AppendNodes
from fastnode._ext.trees.indexed_tree cimport IndexedNodes
from fastnode._ext.trees.leaf_cache cimport BEFORE_RECORD, KeptLeaf, LeafCache
from fastnode._ext.trees.tree_nodes cimport HASH_BYTES, LEVELS_PER_TILE
from fastnode._ext.wire.block_text cimport Blocks
from fastnode._ext.wire.encode cimport text_put_hex, text_put_literal
from fastnode._ext.wire.witness_text cimport (
    index_of, leaf_key, low_record, membership_text, message_text, stored_at, unchanged_witness, value_bytes_of,
)

cdef enum:
    HASHED_BYTES = 96       # separator, contract, slot
    VALUE_TEXT_BYTES = 68   # quotes, the prefix, 64 digits
    PLACES_MAX = 16777216
    LEARNT_MAX = 32             # at a time
    HASHED_FIELDS = 3
    LEARNT_HASHED_BYTES = 3072  # written out, because a debug build cannot compute in an enum
    LEARNT_BYTES = 1024
    EDGES_MAX = 64              # that are kept

cdef uint64_t HASH_FACTOR = 0x9e3779b97f4a7c15

STORAGE = 0
PUBLIC_DATA_WITNESS = 1
NULLIFIER_WITNESS = 2
LOW_NULLIFIER_WITNESS = 3
NOTE_HASH_WITNESS = 4
MESSAGE_WITNESS = 5
BLOCK_HASH_WITNESS = 6

cdef enum:
    C_STORAGE = 0
    C_PUBLIC_DATA_WITNESS = 1
    C_NULLIFIER_WITNESS = 2
    C_LOW_NULLIFIER_WITNESS = 3
    C_NOTE_HASH_WITNESS = 4
    C_MESSAGE_WITNESS = 5
    C_BLOCK_HASH_WITNESS = 6

cdef bytes ZERO = b'"0x' + b"0" * 64 + b'"'


# ---- slots ----------------------------------------------------------------------------------------

@cython.final
cdef class LeafSlots:
    def __cinit__(self, uint64_t places, bytes separator not None):
        if not 1 <= places <= PLACES_MAX or places & (places - 1):
            raise ValueError(f"{places} places are no power of two up to {PLACES_MAX}")
        memcpy(self._separator, _field(separator), SLOT_BYTES)
        self._mask = places - 1
        self._places = <KnownSlot *>calloc(places, sizeof(KnownSlot))
        if self._places is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._places)

    def find(self, bytes contract not None, bytes slot not None):
        return PyBytes_FromStringAndSize(<const char *>self.find_c(contract, slot), SLOT_BYTES)

    cdef const uint8_t *find_c(self, bytes contract, bytes slot) except NULL:
        cdef uint8_t[HASHED_BYTES] hashed
        cdef uint8_t[SLOT_BYTES] leaf_slot
        cdef const uint8_t *of_contract = _field(contract)
        cdef const uint8_t *of_slot = _field(slot)
        cdef KnownSlot *place = self._place_of(of_contract, of_slot)
        if _holds(place, of_contract, of_slot):
            return place.leaf_slot
        self._write_hashed(hashed, of_contract, of_slot)
        if hash_fields_c(hashed, HASHED_FIELDS, leaf_slot) != 0:
            raise ValueError("a contract or a slot is not below the field modulus")
        _fill(place, hashed, leaf_slot)
        return place.leaf_slot

    def knows(self, bytes contract not None, bytes slot not None):
        return _holds(self._place_of(_field(contract), _field(slot)), _field(contract), _field(slot))

    def learn(self, list pairs not None):
        cdef uint8_t[LEARNT_HASHED_BYTES] hashed
        cdef uint8_t[LEARNT_BYTES] leaf_slots
        cdef const uint8_t *contract
        cdef const uint8_t *slot
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t index
        for pair in pairs:
            contract, slot = _field(<bytes?>pair[0]), _field(<bytes?>pair[1])
            if _holds(self._place_of(contract, slot), contract, slot):
                continue
            self._write_hashed(hashed + count * HASHED_BYTES, contract, slot)
            count += 1
            if count == LEARNT_MAX:
                break
        if count == 0:
            return
        if hash_runs_c(hashed, HASHED_FIELDS, count, leaf_slots) != 0:
            raise ValueError("a contract or a slot is not below the field modulus")
        for index in range(count):
            contract = hashed + index * HASHED_BYTES + SLOT_BYTES
            _fill(
                self._place_of(contract, contract + SLOT_BYTES), contract - SLOT_BYTES, leaf_slots + index * SLOT_BYTES
            )

    @cython.overflowcheck(False)    # modulo 2^64
    cdef KnownSlot *_place_of(self, const uint8_t *contract, const uint8_t *slot) noexcept:
        # As numbers: the slots of a contract often differ in their last byte alone, which has to come to the upper bits.
        cdef uint64_t first = read_number(contract + SLOT_BYTES - 8, 8)
        cdef uint64_t second = read_number(slot + SLOT_BYTES - 8, 8)
        return &self._places[(first * HASH_FACTOR + second) * HASH_FACTOR >> 40 & self._mask]

    cdef void _write_hashed(self, uint8_t *hashed, const uint8_t *contract, const uint8_t *slot) noexcept:
        memcpy(hashed, self._separator, SLOT_BYTES)
        memcpy(hashed + SLOT_BYTES, contract, SLOT_BYTES)
        memcpy(hashed + 2 * SLOT_BYTES, slot, SLOT_BYTES)


cdef inline bint _holds(const KnownSlot *place, const uint8_t *contract, const uint8_t *slot) noexcept:
    return (
        place.is_used
        and memcmp(place.slot, slot, SLOT_BYTES) == 0
        and memcmp(place.contract, contract, SLOT_BYTES) == 0
    )


cdef void _fill(KnownSlot *place, const uint8_t *hashed, const uint8_t *leaf_slot) noexcept:
    memcpy(place.contract, hashed + SLOT_BYTES, SLOT_BYTES)
    memcpy(place.slot, hashed + 2 * SLOT_BYTES, SLOT_BYTES)
    memcpy(place.leaf_slot, leaf_slot, SLOT_BYTES)
    place.is_used = True


cdef const uint8_t *_field(bytes field) except NULL:
    if PyBytes_GET_SIZE(field) != SLOT_BYTES:
        raise ValueError(f"a field of {PyBytes_GET_SIZE(field)} bytes")
    return <const uint8_t *>PyBytes_AS_STRING(field)


# ---- answers --------------------------------------------------------------------------------------

@cython.final
cdef class TreeAnswers:
    def __init__(
        self, IndexedNodes nodes not None, LeafCache leaves not None, int tree, bytes leaf_prefix not None,
        bytes tile_prefix not None,
    ):
        self.nodes = nodes
        self.leaves = leaves
        self.tree = tree
        self.leaf_prefix = leaf_prefix
        self.tile_prefix = tile_prefix


@cython.final
cdef class AppendAnswers:
    def __init__(
        self, AppendNodes nodes not None, int tree, bytes place_prefix not None, bytes tile_prefix not None,
        bytes edge_prefix not None,
    ):
        self.nodes = nodes
        self.tree = tree
        self.place_prefix = place_prefix
        self.tile_prefix = tile_prefix
        self.edge_prefix = edge_prefix


@cython.final
cdef class StateAnswers:
    def __init__(
        self, *, TreeAnswers nullifiers not None, TreeAnswers public_data not None, AppendAnswers note_hashes not None,
        AppendAnswers messages not None, AppendAnswers archive not None, LeafSlots slots not None, get, iterators,
        make_iterator, dict records not None, uint32_t oldest, int64_t memory_limit,
    ):
        self.nullifiers = nullifiers
        self.public_data = public_data
        self.note_hashes = note_hashes
        self.messages = messages
        self.archive = archive
        self._edges = {}
        self.slots = slots
        self.get = get
        self.iterators = iterators
        self.make_iterator = make_iterator
        self.records = records
        self._block = records       # no block
        self.oldest = oldest
        self.memory_limit = memory_limit
        self._nullifiers_at = nullifiers.leaves.generation
        self._public_data_at = public_data.leaves.generation

    def low_nullifier_witness(self, bytes nullifier not None, block):
        return self.low_witness_c(self.nullifiers, nullifier, block)

    def nullifier_witness(self, bytes nullifier not None, block):
        return self.own_witness_c(self.nullifiers, nullifier, block)

    def public_data_witness(self, bytes leaf_slot not None, block):
        return self.low_witness_c(self.public_data, leaf_slot, block)

    def note_hash_witness(self, bytes note_hash not None, block):
        return self.place_witness_c(C_NOTE_HASH_WITNESS, note_hash, block)

    def message_witness(self, bytes message not None, block):
        return self.place_witness_c(C_MESSAGE_WITNESS, message, block)

    def block_hash_witness(self, bytes block_hash not None, block):
        return self.place_witness_c(C_BLOCK_HASH_WITNESS, block_hash, block)

    def storage(self, bytes contract not None, bytes slot not None, block):
        return self.storage_c(contract, slot, block)

    cdef bint _has_record(self, object block) except -1:
        """Whether a block can be asked about; its sizes are there then."""
        # Fast path. If: it is the block of the last question, such as the tip.  Then: its record is not looked for.
        if block is not self._block:
            record = self.records.get(block)
            if record is None:
                return False
            self._sizes, self._block = record.sizes, block
        return True

    cdef int64_t size_of(self, TreeAnswers tree, object block) except -2:
        """Leaves of a tree after a block; -1 if it is not known, or cannot be asked about here."""
        cdef int64_t number
        if not self._has_record(block):
            return -1
        number = block
        return -1 if number < self.oldest or number > self.memory_limit else self._sizes[tree.tree]

    cdef uint64_t _generation(self, TreeAnswers tree) noexcept:
        return self._nullifiers_at if tree is self.nullifiers else self._public_data_at

    cdef bint _find_low(self, TreeAnswers tree, const uint8_t *key, KeptLeaf *leaf) except -1:
        """The leaf with the greatest key <= ``key``, if there is one."""
        cdef uint64_t generation = self._generation(tree)
        cdef const KeptLeaf *kept = NULL
        cdef bytes record
        if generation == tree.leaves.generation:
            kept = tree.leaves.low_leaf(key)
        if kept is not NULL:
            memcpy(leaf, kept, BEFORE_RECORD + kept.length)
            return True
        record = low_record(self.iterators, self.make_iterator, tree.leaf_prefix, key, leaf.key)
        if record is None:
            return False
        _read_record(leaf, record)
        tree.leaves.put_leaf(key, leaf, generation)
        return True

    cdef bint _find_own(self, TreeAnswers tree, const uint8_t *key, int64_t size, KeptLeaf *leaf) except -1:
        """The leaf with this key, if there is one."""
        cdef uint64_t generation = self._generation(tree)
        cdef const KeptLeaf *kept
        cdef bytes record
        if generation == tree.leaves.generation:
            kept = tree.leaves.low_leaf(key)
            if kept is not NULL:
                if memcmp(kept.key, key, HASH_BYTES) != 0:
                    return False
                memcpy(leaf, kept, BEFORE_RECORD + kept.length)
                return True
            # Where the whole tree has room, the leaf below one that is not there is worth finding: it answers for all
            # keys up to the next one.
            if tree.leaves.has_room_for(size):
                return self._find_low(tree, key, leaf) and memcmp(leaf.key, key, HASH_BYTES) == 0
        record = self.get(leaf_key(tree.leaf_prefix, key))
        if record is None:
            return False
        memcpy(leaf.key, key, HASH_BYTES)
        _read_record(leaf, record)
        tree.leaves.put_leaf(key, leaf, generation)
        return True

    cdef bytes _witness(self, TreeAnswers tree, const KeptLeaf *leaf, object block, int64_t size):
        cdef uint64_t generation = self._generation(tree)
        cdef Py_ssize_t value_bytes = leaf.length - LEAF_VALUE - TAIL_BYTES
        cdef uint64_t tile_index = index_of(leaf.record, value_bytes) >> LEVELS_PER_TILE
        cdef bytes tile = None
        cdef bytes witness
        if generation == tree.leaves.generation:
            tile = tree.leaves.tile_at(tile_index)
        if tile is None:
            tile = stored_at(tree.tile_prefix, tile_index, self.get)
            tree.leaves.put_tile(tile_index, tile, generation)
        witness = unchanged_witness(tree.nodes, leaf.key, leaf.record, value_bytes, block, size, tile)
        return witness if block <= self.memory_limit else None  # an undo may have begun meanwhile

    cdef bytes low_witness_c(self, TreeAnswers tree, bytes key, object block):
        cdef int64_t size = self.size_of(tree, block)
        cdef KeptLeaf leaf
        if size < 0 or not self._find_low(tree, _field(key), &leaf):
            return None
        return self._witness(tree, &leaf, block, size)

    cdef bytes own_witness_c(self, TreeAnswers tree, bytes key, object block):
        cdef int64_t size = self.size_of(tree, block)
        cdef const uint8_t *of_key = _field(key)
        cdef KeptLeaf leaf
        if size < 0:
            return None
        if not self._find_own(tree, of_key, size, &leaf) or _inserted(&leaf) > <uint64_t>block:
            return b""
        return self._witness(tree, &leaf, block, size)

    cdef bytes place_witness_c(self, int kind, bytes leaf, object block):
        cdef AppendAnswers tree = self.note_hashes if kind == C_NOTE_HASH_WITNESS else self.messages
        cdef list missing = []
        cdef uint64_t index
        cdef int64_t number
        cdef int64_t size
        cdef bytes place
        cdef bytes path
        _field(leaf)
        if not self._has_record(block):
            return None
        number = block
        if number < self.oldest or number > self.memory_limit:
            return None
        if kind == C_BLOCK_HASH_WITNESS:
            tree = self.archive
            size = number       # the archive that the block's header names has the blocks before it
            if size == 0:
                return None
        else:
            size = self._sizes[tree.tree]
        place = self.get(tree.place_prefix + leaf)
        if place is None:
            return b""
        if PyBytes_GET_SIZE(place) != PLACE_BYTES:
            raise ValueError(f"a place of {PyBytes_GET_SIZE(place)} bytes")
        index = read_number(<const uint8_t *>PyBytes_AS_STRING(place), INDEX_BYTES)
        if index >= <uint64_t>size:
            return b""
        path = tree.nodes.path(
            index, size, stored_at(tree.tile_prefix, index >> LEVELS_PER_TILE, self.get), self._edge(tree, size), missing
        )
        if missing or number > self.memory_limit:   # an undo may have begun meanwhile
            return None
        return message_text(index, path) if kind == C_MESSAGE_WITNESS else membership_text(index, path)

    cdef bytes _edge(self, AppendAnswers tree, int64_t size):
        """Of the tree with so many leaves: nearly all questions are about the newest one."""
        cdef object name = (tree.tree, size)
        cdef object edge = self._edges.get(name)
        if edge is None:
            edge = stored_at(tree.edge_prefix, size, self.get)
            if len(self._edges) >= EDGES_MAX:
                self._edges.clear()
            self._edges[name] = edge
        return <bytes>edge

    cdef bytes storage_c(self, bytes contract, bytes slot, object block):
        cdef uint8_t[VALUE_TEXT_BYTES] text
        cdef KeptLeaf leaf
        cdef int64_t size = -1
        cdef int64_t number
        if not self._has_record(block):
            return None
        number = block
        if number < self.oldest:
            return None
        if number <= self.memory_limit:
            size = self._sizes[self.public_data.tree]
        if not self._find_own(self.public_data, self.slots.find_c(contract, slot), size, &leaf):
            return ZERO
        if leaf.length != LEAF_VALUE + SLOT_BYTES + TAIL_BYTES:
            raise ValueError(f"a leaf record of {leaf.length} bytes in the public data tree")
        if _inserted(&leaf) > <uint64_t>number:
            return ZERO
        if read_number(leaf.record + LEAF_CHANGED, 4) > <uint64_t>number:
            return None
        text_put_literal(text_put_hex(text_put_literal(text, b'"0x'), leaf.record + LEAF_VALUE, SLOT_BYTES), b'"')
        return PyBytes_FromStringAndSize(<const char *>text, VALUE_TEXT_BYTES)


cdef int _read_record(KeptLeaf *leaf, bytes record) except -1:
    leaf.length = <uint8_t>(LEAF_VALUE + value_bytes_of(record) + TAIL_BYTES)
    memcpy(leaf.record, PyBytes_AS_STRING(record), leaf.length)
    return 0


cdef uint64_t _inserted(const KeptLeaf *leaf) noexcept:
    return read_number(leaf.record + leaf.length - TAIL_BYTES + TAIL_INSERTED, 4)


# ---- questions ------------------------------------------------------------------------------------

@cython.final
cdef class StateQuestion:
    def __init__(self, int kind, otherwise, *, find=None):
        if not C_STORAGE <= kind <= C_BLOCK_HASH_WITNESS:
            raise ValueError(f"question {kind}")
        self.kind = kind
        self.otherwise = otherwise
        self.find = find

    def __call__(self, view, block, bytes first not None, bytes second=None):
        cdef object state
        cdef StateAnswers answers
        cdef bytes found = None
        cdef object number = block
        if type(block) is bytes:
            number = (<Blocks?>view.chain.blocks).number_of_c(block)
        elif type(block) is not int and self.find is not None:
            number = self.find(view, block)
        if type(number) is int:
            state = view.state
            if state is not None:
                answers = <StateAnswers?>state.answers
                if self.kind == C_STORAGE:
                    if second is None:
                        raise TypeError("a slot is missing")
                    found = answers.storage_c(first, second, number)
                elif self.kind == C_PUBLIC_DATA_WITNESS:
                    found = answers.low_witness_c(answers.public_data, first, number)
                elif self.kind == C_NULLIFIER_WITNESS:
                    found = answers.own_witness_c(answers.nullifiers, first, number)
                elif self.kind == C_LOW_NULLIFIER_WITNESS:
                    found = answers.low_witness_c(answers.nullifiers, first, number)
                else:
                    found = answers.place_witness_c(self.kind, first, number)
        if found is None:
            return self.otherwise(view, block, first) if second is None else self.otherwise(view, block, first, second)
        return found if PyBytes_GET_SIZE(found) else None

    @property
    def prepare(self):
        return self._learn if self.kind == C_STORAGE else None

    def _learn(self, list calls not None):
        cdef object state = calls[0][0].state if calls else None
        cdef StateAnswers answers
        if state is not None:
            answers = <StateAnswers?>state.answers
            answers.slots.learn([call[2:] for call in calls])
