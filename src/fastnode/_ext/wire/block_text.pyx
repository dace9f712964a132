# Blocks, checkpoints and transactions as JSON.  The stub (block_text.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stdint cimport UINT32_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport strlen

from fastnode._ext.storage.layouts cimport (
    BLOCK_CHECKPOINT_NUMBER, BLOCK_HASH, BLOCK_HEADER_LENGTH, BLOCK_HEAD_BYTES, BLOCK_INDEX_WITHIN_CHECKPOINT,
    BLOCK_LETTER, BLOCK_TX_COUNT, BY_ARCHIVE_LETTER, BY_HASH_LETTER, CHECKPOINT_BLOCK_COUNT,
    CHECKPOINT_FEE_ASSET_PRICE_MODIFIER, CHECKPOINT_FRAGMENT_LENGTHS, CHECKPOINT_HEAD_BYTES, CHECKPOINT_LETTER,
    CHECKPOINT_OUT_HASH, CHECKPOINT_START_BLOCK, EFFECT_KEY_BYTES, EFFECT_LETTER, HASH_BYTES, HASH_KEY_BYTES,
    NUMBER_BYTES, NUMBER_KEY_BYTES, PART_ARCHIVE, PART_ATTESTATIONS, PART_BLOCKS, PART_BLOCK_COUNT, PART_BLOCK_HASH,
    PART_BLOCK_NUMBER, PART_BODY, PART_CHECKPOINT_NUMBER, PART_EFFECT, PART_EXECUTION_RESULT,
    PART_FEE_ASSET_PRICE_MODIFIER, PART_HEADER, PART_INDEX_WITHIN_CHECKPOINT, PART_KNOWN_ATTESTATIONS, PART_KNOWN_L1,
    PART_L1, PART_LAST, PART_NOTHING, PART_OUT_HASH, PART_SENT_ARCHIVE, PART_START_BLOCK, PART_STORED_RECEIPT,
    PART_TX_HASH, PART_TX_INDEX, PART_TX_STATUS, TX_BLOCK, TX_BLOCK_HASH, TX_HEAD_BYTES, TX_INDEX, TX_LETTER,
    TX_REVERT_CODE,
)
from fastnode._ext.wire.encode cimport text_put, text_put_hex, text_put_literal, text_put_number
from fastnode._ext.numbers cimport read_number, write_number

from fastnode.errors import BlockPruned

cdef enum:
    # Number and length of kept texts at most: 1 MB.
    KEPT_MAX = 128
    KEPT_BYTES_MAX = 8192
    # Parts of a text, and segments of a form, at most.
    PARTS_MAX = 64
    SEGMENTS_MAX = 15  # each of at most four parts
    # Texts of the numbers and hashes of a form, 72 for each.
    SCALARS_BYTES_MAX = 1080

EMPTY_ARCHIVE = b'{"root":"0x' + b"0" * 64 + b'","nextAvailableLeafIndex":0}'
cdef bytes EMPTY_ARCHIVE_TEXT = EMPTY_ARCHIVE


# A text that lives as long as what it is a part of.
cdef struct Part:
    const uint8_t *start
    Py_ssize_t length


# Fragments of a checkpoint's record: header, archive, L1's part, attestations.
cdef struct Fragments:
    Part[4] each


# Parts of a text, in order; with effects, or blocks, behind the first ``before`` parts.
cdef struct Parts:
    Part[PARTS_MAX] each
    int count
    int before


@cython.final
cdef class Blocks:
    def __init__(
        self, get, uint32_t tip, *, uint32_t checkpointed=0, uint32_t proven=0, uint32_t finalized=0,
        uint32_t oldest_body=1, tuple results not None=(),
    ):
        self.get = get
        self.oldest_body = oldest_body
        self.tip = tip
        self.checkpointed, self.proven, self.finalized = checkpointed, proven, finalized
        self.results = results
        self.kept = {}

    cdef bytes read(self, bytes key):
        cdef object found = self.kept.get(key)
        if found is None:
            found = self.get(key)
            if found is not None and PyBytes_GET_SIZE(<bytes?>found) <= KEPT_BYTES_MAX:
                if len(self.kept) >= KEPT_MAX:
                    self.kept.clear()
                self.kept[key] = found
        return <bytes>found

    def text(self, tuple form not None, number, options=()):
        cdef int64_t place = self._place_of(number)
        return None if place < 0 else _block(_checked(form), <uint32_t>place, self.get, options, self.oldest_body)

    def checkpoint(self, tuple form not None, tuple block_form not None, number, options=()):
        cdef int overflow = 0
        cdef int64_t place = PyLong_AsLongLongAndOverflow(number, &overflow)
        if overflow or not 1 <= place <= UINT32_MAX:
            return None
        return _checkpoint_text(_checked(form), _checked(block_form), <uint32_t>place, self, options)

    cdef int64_t _place_of(self, object number) except -2:
        """The number of a block, or -1 for a number that no block has."""
        cdef int overflow = 0
        cdef int64_t place = PyLong_AsLongLongAndOverflow(number, &overflow)
        return place if not overflow and 0 <= place <= self.tip else -1

    def number_by_hash(self, bytes block_hash not None):
        return self._number(_hash_key(BY_HASH_LETTER, block_hash))

    def number_by_archive(self, bytes root not None):
        return self._number(_hash_key(BY_ARCHIVE_LETTER, root))

    def number_of(self, bytes field not None):
        return self.number_of_c(field)

    cdef object number_of_c(self, bytes field):
        cdef object number = self._number(_hash_key(BY_HASH_LETTER, field))
        return self._number(_hash_key(BY_ARCHIVE_LETTER, field)) if number is None else number

    cdef object _number(self, bytes key):
        cdef bytes found = self.read(key)
        if found is None:
            return None
        if PyBytes_GET_SIZE(found) != NUMBER_BYTES:
            raise ValueError(f"a block number of {PyBytes_GET_SIZE(found)} bytes")
        return read_number(<const uint8_t *>PyBytes_AS_STRING(found), NUMBER_BYTES)


cdef inline bytes _read(object source, bytes key):
    """Of blocks, or of a function."""
    return (<Blocks>source).read(key) if type(source) is Blocks else source(key)


@cython.final
cdef class BlockQuestion:
    def __init__(self, tuple form not None, find, *, tuple named_form=None):
        self.form = _checked(form)
        self.named_form = form if named_form is None else _checked(named_form)
        self.find = find

    def __call__(self, view, block=None, options=None):
        cdef Blocks blocks
        cdef int64_t number
        cdef tuple form = self.form
        blocks = <Blocks?>view.chain.blocks
        if type(block) is bytes:
            block = blocks.number_of_c(block)
        elif block is None:
            block = blocks.tip
        elif type(block) is not int:
            form = self.named_form if block.is_development_form else form
            block = self.find(view.chain, block)
        number = -1 if block is None else blocks._place_of(block)
        if number < 0:
            return None
        if options is not None:
            return _block(self.named_form, <uint32_t>number, blocks, options, blocks.oldest_body)
        return _block(form, <uint32_t>number, blocks, (), blocks.oldest_body)


def header(bytes record not None):
    return _header_text(record)


cdef inline bytes _header_text(bytes record):
    cdef Part json = _header(record)
    return PyBytes_FromStringAndSize(<const char *>json.start, json.length)


def block(tuple form not None, uint32_t number, get, options=()):
    return _block(_checked(form), number, get, options, 1)


cdef tuple _checked(tuple form):
    """The same form, which the kernel reads without asking again."""
    cdef tuple segment
    cdef int part
    cdef int bodies = 0
    if not 0 < len(form) <= SEGMENTS_MAX:
        raise ValueError(f"a form of {len(form)} segments")
    for segment in form:
        part = segment[1]
        bodies += part == PART_BODY or part == PART_BLOCKS
        if len(segment) != 3 or type(segment[0]) is not bytes or not PART_NOTHING <= part <= PART_LAST:
            raise ValueError(f"a form with the segment {segment!r}")
    if bodies > 1:
        raise ValueError(f"a form with {bodies} bodies")
    return form


cdef inline int _begin(Parts *parts, tuple segment):
    """Add the text before a part, and give the part."""
    _add_bytes(parts, <bytes>segment[0])
    return <int>segment[1]


cdef inline int _require_body(uint32_t number, uint32_t oldest_body) except -1:
    if 0 < number < oldest_body:
        raise BlockPruned(number, oldest_body)
    return 0


cdef bytes _block(tuple form, uint32_t number, object source, object options, uint32_t oldest_body):
    cdef bytes record = _read(source, _number_key(BLOCK_LETTER, number))
    cdef bytes checkpoint = None
    cdef const uint8_t *head
    cdef list effects = None
    cdef tuple segment
    cdef Part json
    cdef Part archive
    cdef Parts parts
    cdef uint8_t[SCALARS_BYTES_MAX] scalars
    cdef uint8_t *at = scalars
    cdef uint8_t *end
    cdef int part
    if record is None:
        raise LookupError(f"no block {number}")
    json = _header(record)
    archive.start = json.start + json.length
    archive.length = PyBytes_GET_SIZE(record) - BLOCK_HEAD_BYTES - json.length
    head = <const uint8_t *>PyBytes_AS_STRING(record)
    parts.count = 0
    for segment in form:
        if segment[2] is not None and segment[2] not in options:
            continue
        part = _begin(&parts, segment)
        if part == PART_HEADER:
            _add(&parts, json.start, json.length)
        elif part == PART_SENT_ARCHIVE and number == 0:
            _add_bytes(&parts, EMPTY_ARCHIVE_TEXT)
        elif part == PART_ARCHIVE or part == PART_SENT_ARCHIVE:
            _add(&parts, archive.start, archive.length)
        elif part == PART_BODY:
            _require_body(number, oldest_body)
            effects = _effects(number, read_number(head + BLOCK_TX_COUNT, 4), source)
            _add_literal(&parts, b'{"txEffects":[')
            parts.before = parts.count
            _add_literal(&parts, b"]}")
        elif PART_L1 <= part <= PART_KNOWN_ATTESTATIONS:
            if checkpoint is None:
                checkpoint = _checkpoint(read_number(head + BLOCK_CHECKPOINT_NUMBER, 4), source)
            if checkpoint is None and part <= PART_ATTESTATIONS:
                return None
            _add_of_checkpoint(&parts, part, checkpoint)
        elif part != PART_NOTHING:
            end = _scalar(at, part, number, head)
            _add(&parts, at, end - at)
            at = end
    return _joined(&parts, effects)


cdef uint8_t *_scalar(uint8_t *at, int part, uint32_t number, const uint8_t *head) except NULL:
    """A number or hash that a block knows of itself."""
    if part == PART_BLOCK_HASH:
        return _put_hash(at, head + BLOCK_HASH)
    if part == PART_BLOCK_NUMBER:
        return text_put_number(at, number)
    if part == PART_CHECKPOINT_NUMBER:
        return text_put_number(at, read_number(head + BLOCK_CHECKPOINT_NUMBER, 4))
    if part == PART_INDEX_WITHIN_CHECKPOINT:
        return text_put_number(at, read_number(head + BLOCK_INDEX_WITHIN_CHECKPOINT, 4))
    raise ValueError(f"a form of a block with part {part}")


cdef inline uint8_t *_put_hash(uint8_t *at, const uint8_t *hash) noexcept:
    at = text_put_literal(at, b'"0x')
    at = text_put_hex(at, hash, HASH_BYTES)
    return text_put_literal(at, b'"')


cdef bytes _checkpoint(uint32_t number, object source):
    """Its record, None while it is not complete."""
    cdef bytes record = _read(source, _number_key(CHECKPOINT_LETTER, number)) if number else None
    if record is not None and PyBytes_GET_SIZE(record) < CHECKPOINT_HEAD_BYTES:
        raise ValueError(f"a checkpoint record of {PyBytes_GET_SIZE(record)} bytes")
    return record


cdef Fragments _fragments(bytes record) except *:
    cdef const uint8_t *head = <const uint8_t *>PyBytes_AS_STRING(record)
    cdef int64_t size = PyBytes_GET_SIZE(record)
    cdef int64_t start = CHECKPOINT_HEAD_BYTES
    cdef Fragments found
    cdef int index
    for index in range(3):
        found.each[index].start = head + start
        found.each[index].length = <int64_t>read_number(head + CHECKPOINT_FRAGMENT_LENGTHS + 4 * index, 4)
        start += found.each[index].length
    if found.each[2].length < 1 or start > size:
        raise ValueError(f"a checkpoint record of {size} bytes with fragments of {start}")
    found.each[3].start = head + start
    found.each[3].length = size - start
    return found


cdef int _add_of_checkpoint(Parts *parts, int part, bytes record) except -1:
    """A fragment of a checkpoint's record, which lives as long as the parts; None: it is not complete."""
    cdef Fragments found
    cdef int place = 0 if part == PART_HEADER else 1 if part == PART_ARCHIVE else 2 if part == PART_L1 else 3
    if record is None:
        _add_literal(parts, b'{"published":false}' if part == PART_KNOWN_L1 else b"[]")
        return 0
    found = _fragments(record)
    if part == PART_KNOWN_L1:
        _add_literal(parts, b'{"published":true,')
        _add(parts, found.each[2].start + 1, found.each[2].length - 1)  # without its bracket
    else:
        _add(parts, found.each[place].start, found.each[place].length)
    return 0


cdef bytes _checkpoint_text(tuple form, tuple block_form, uint32_t number, Blocks blocks, object options):
    cdef bytes record = _checkpoint(number, blocks.get)
    cdef const uint8_t *head
    cdef list inner = None
    cdef bytes modifier = None  # lives as long as the parts
    cdef tuple segment
    cdef uint8_t[SCALARS_BYTES_MAX] scalars
    cdef uint8_t *at = scalars
    cdef uint8_t *start
    cdef Parts parts
    cdef int part
    if record is None:
        return None
    head = <const uint8_t *>PyBytes_AS_STRING(record)
    parts.count = 0
    for segment in form:
        if segment[2] is not None and segment[2] not in options:
            continue
        part = _begin(&parts, segment)
        start = at
        if part == PART_HEADER or part == PART_ARCHIVE or PART_L1 <= part <= PART_KNOWN_ATTESTATIONS:
            _add_of_checkpoint(&parts, part, record)
        elif part == PART_BLOCKS:
            inner = _blocks_of(head, block_form, blocks, options)
            _add_literal(&parts, b"[")
            parts.before = parts.count
            _add_literal(&parts, b"]")
        elif part == PART_CHECKPOINT_NUMBER:
            at = text_put_number(at, number)
        elif part == PART_OUT_HASH:
            at = _put_hash(at, head + CHECKPOINT_OUT_HASH)
        elif part == PART_START_BLOCK:
            at = text_put_number(at, read_number(head + CHECKPOINT_START_BLOCK, 4))
        elif part == PART_BLOCK_COUNT:
            at = text_put_number(at, read_number(head + CHECKPOINT_BLOCK_COUNT, 4))
        elif part == PART_FEE_ASSET_PRICE_MODIFIER:
            if modifier is None:
                modifier = _price_modifier(record)
            _add_bytes(&parts, modifier)
        elif part != PART_NOTHING:
            raise ValueError(f"a form of a checkpoint with part {part}")
        if at != start:
            _add(&parts, start, at - start)
    return _joined(&parts, inner)


cdef list _blocks_of(const uint8_t *checkpoint, tuple form, Blocks blocks, object options):
    cdef uint32_t first = <uint32_t>read_number(checkpoint + CHECKPOINT_START_BLOCK, 4)
    cdef uint32_t count = <uint32_t>read_number(checkpoint + CHECKPOINT_BLOCK_COUNT, 4)
    cdef list texts = []
    cdef bytes text
    cdef uint32_t index
    for index in range(count):
        text = _block(form, first + index, blocks.get, options, blocks.oldest_body)
        if text is None:
            raise LookupError(f"no checkpoint of block {first + index}")
        texts.append(text)
    return texts


cdef bytes _price_modifier(bytes record):
    cdef bytes value = record[CHECKPOINT_FEE_ASSET_PRICE_MODIFIER : CHECKPOINT_FRAGMENT_LENGTHS]
    return b'"%d"' % int.from_bytes(value, "big", signed=True)


cdef inline void _add(Parts *parts, const uint8_t *start, Py_ssize_t length) noexcept:
    parts.each[parts.count].start = start
    parts.each[parts.count].length = length
    parts.count += 1


cdef inline void _add_literal(Parts *parts, const char *text) noexcept:
    _add(parts, <const uint8_t *>text, strlen(text))


cdef inline void _add_bytes(Parts *parts, bytes text) noexcept:
    _add(parts, <const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef bytes _joined(const Parts *parts, list effects):
    cdef Py_ssize_t length = 0 if effects is None else max(len(effects) - 1, 0)
    cdef Py_ssize_t index
    cdef bytes effect
    cdef bytes text
    cdef uint8_t *at
    cdef int place
    for place in range(parts.count):
        length += parts.each[place].length
    if effects is not None:
        for effect in effects:
            length += PyBytes_GET_SIZE(effect)
    text = PyBytes_FromStringAndSize(NULL, length)
    at = <uint8_t *>PyBytes_AS_STRING(text)
    for place in range(parts.count):
        if effects is not None and place == parts.before:
            for index in range(len(effects)):
                if index:
                    at = text_put_literal(at, b",")
                effect = <bytes>effects[index]
                at = text_put(at, PyBytes_AS_STRING(effect), PyBytes_GET_SIZE(effect))
        at = text_put(at, parts.each[place].start, parts.each[place].length)
    return text


cdef Part _header(bytes record) except *:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(record)
    cdef Part json
    if size < BLOCK_HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes")
    json.start = start + BLOCK_HEAD_BYTES
    json.length = read_number(start + BLOCK_HEADER_LENGTH, 4)
    if json.length > size - BLOCK_HEAD_BYTES:
        raise ValueError(f"a block record of {size} bytes with a header of {json.length}")
    return json


cdef list _effects(uint32_t number, uint32_t count, object source):
    cdef list effects = []
    cdef uint32_t index
    for index in range(count):
        effects.append(_effect(number, index, source))
    return effects


cdef bytes _effect(uint32_t number, uint32_t index, object source):
    cdef bytes effect = _read(source, _effect_key(number, index))
    if effect is None:
        raise LookupError(f"no effect {index} of block {number}")
    return effect


cdef bytes _number_key(uint8_t letter, uint32_t number):
    cdef uint8_t[NUMBER_KEY_BYTES] key
    key[0] = letter
    write_number(key + 1, number, 4)
    return PyBytes_FromStringAndSize(<const char *>key, NUMBER_KEY_BYTES)


cdef bytes _effect_key(uint32_t number, uint32_t index):
    cdef uint8_t[EFFECT_KEY_BYTES] key
    key[0] = EFFECT_LETTER
    write_number(key + 1, number, 4)
    write_number(key + 5, index, 4)
    return PyBytes_FromStringAndSize(<const char *>key, EFFECT_KEY_BYTES)


cdef bytes _hash_key(uint8_t letter, bytes field):
    cdef uint8_t[HASH_KEY_BYTES] key
    if PyBytes_GET_SIZE(field) != HASH_BYTES:
        raise ValueError(f"a hash of {PyBytes_GET_SIZE(field)} bytes")
    key[0] = letter
    text_put(key + 1, PyBytes_AS_STRING(field), HASH_BYTES)
    return PyBytes_FromStringAndSize(<const char *>key, HASH_KEY_BYTES)


# ---- transactions ----------------------------------------------------------------------------------

@cython.final
cdef class TxQuestion:
    def __init__(self, tuple form not None, otherwise=None):
        self.form = _checked(form)
        self.otherwise = otherwise

    def __call__(self, view, bytes tx_hash not None):
        cdef bytes found = _mined(self.form, tx_hash, <Blocks?>view.chain.blocks)
        return found if found is not None or self.otherwise is None else self.otherwise(view, tx_hash)


def mined(tuple form not None, bytes tx_hash not None, Blocks blocks not None):
    return _mined(_checked(form), tx_hash, blocks)


cdef bytes _mined(tuple form, bytes tx_hash, Blocks blocks):
    cdef bytes record = blocks.read(_hash_key(TX_LETTER, tx_hash))
    cdef const uint8_t *head
    cdef uint32_t number
    cdef uint32_t index
    cdef bytes effect  # lives as long as the parts
    cdef tuple segment
    cdef uint8_t[SCALARS_BYTES_MAX] scalars
    cdef uint8_t *at = scalars
    cdef uint8_t *start
    cdef Parts parts
    cdef int part
    if record is None:
        return None
    if PyBytes_GET_SIZE(record) < TX_HEAD_BYTES:
        raise ValueError(f"a transaction record of {PyBytes_GET_SIZE(record)} bytes")
    head = <const uint8_t *>PyBytes_AS_STRING(record)
    number = <uint32_t>read_number(head + TX_BLOCK, 4)
    index = <uint32_t>read_number(head + TX_INDEX, 4)
    parts.count = 0
    for segment in form:
        part = _begin(&parts, segment)
        start = at
        if part == PART_TX_HASH:
            at = _put_hash(at, <const uint8_t *>PyBytes_AS_STRING(tx_hash))
        elif part == PART_BLOCK_HASH:
            at = _put_hash(at, head + TX_BLOCK_HASH)
        elif part == PART_BLOCK_NUMBER:
            at = text_put_number(at, number)
        elif part == PART_TX_INDEX:
            at = text_put_number(at, index)
        elif part == PART_TX_STATUS:
            _add_literal(&parts, _status(number, blocks))
        elif part == PART_EXECUTION_RESULT:
            _add_result(&parts, head[TX_REVERT_CODE], blocks.results)
        elif part == PART_EFFECT:
            _require_body(number, blocks.oldest_body)
            effect = _effect(number, index, blocks)
            _add_bytes(&parts, effect)
        elif part == PART_STORED_RECEIPT:
            # Without the bracket at its end.
            _add(&parts, head + TX_HEAD_BYTES, max(PyBytes_GET_SIZE(record) - TX_HEAD_BYTES - 1, 0))
        elif part != PART_NOTHING:
            raise ValueError(f"a form of a transaction with part {part}")
        if at != start:
            _add(&parts, start, at - start)
    return _joined(&parts, None)


cdef inline const char *_status(uint32_t number, Blocks blocks) noexcept:
    if number <= blocks.finalized:
        return b'"finalized"'
    if number <= blocks.proven:
        return b'"proven"'
    return b'"checkpointed"' if number <= blocks.checkpointed else b'"proposed"'


cdef int _add_result(Parts *parts, uint8_t revert_code, tuple results) except -1:
    if revert_code >= len(results):
        raise ValueError(f"a transaction record with revert code {revert_code}")
    _add_literal(parts, b'"')
    _add_bytes(parts, <bytes?>results[revert_code])
    _add_literal(parts, b'"')
    return 0
