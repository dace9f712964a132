# Parameters in the form that clients write them.  The stub (usual_params.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

from fastnode._ext.wire.encode cimport (
    TEXT_FIELD_BYTES, TEXT_FIELD_HEX_DIGITS, text_field_is_canonical, text_read_hex, text_read_padded_hex,
)

cdef enum:
    NUMBER_DIGITS_MAX = 9
    HASH_TEXT_BYTES = 68        # quotes, the prefix, 64 digits

cdef const char *LATEST = b'"latest"'
cdef enum:
    LATEST_BYTES = 8


def read(bytes shape not None, bytes text not None, tip, Py_ssize_t items_max):
    cdef const char *at = PyBytes_AS_STRING(text)
    cdef tuple values = read_params(shape, at, at + PyBytes_GET_SIZE(text), None, tip, items_max)
    return None if values is None else values[1:]


cdef tuple read_params(
    bytes shape, const char *at, const char *end, object first, object tip, Py_ssize_t items_max
):
    cdef const char *letters = PyBytes_AS_STRING(shape)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(shape)
    cdef Py_ssize_t required = count
    cdef Py_ssize_t index
    cdef const char *rest
    cdef tuple values
    cdef object value
    for index in range(count):
        if letters[index] == c"|":
            required = index
    if required < count:
        count -= 1
    at = skip_blanks(at, end)
    if at == end or at[0] != c"[":
        return None
    values = PyTuple_New(count + 1)
    Py_INCREF(first)
    PyTuple_SET_ITEM(values, 0, first)
    if required == 0:
        rest = skip_blanks(at + 1, end)
        if rest != end and rest[0] == c"]":     # every parameter is left out
            _fill(values, 1, count + 1)
            return values if skip_blanks(rest + 1, end) == end else None
        if count == 0:
            return None
    for index in range(count):
        at = skip_blanks(at + 1, end)
        value = None if at == end else _read_value(letters[index + (index >= required)], &at, end, tip, items_max)
        Py_INCREF(value)
        PyTuple_SET_ITEM(values, index + 1, value)
        at = skip_blanks(at, end)
        if value is None or at == end:
            _fill(values, index + 2, count + 1)
            return None
        if at[0] == c"]" and index + 1 >= required:
            _fill(values, index + 2, count + 1)
            break
        if at[0] != c"," or index + 1 == count:
            _fill(values, index + 2, count + 1)
            return None
    return values if skip_blanks(at + 1, end) == end else None


cdef object _read_value(char letter, const char **place, const char *end, object tip, Py_ssize_t items_max):
    if letter == c"b":
        return _read_block(place, end, tip)
    if letter == c"f":
        return _read_field(place, end)
    if letter == c"h":
        return _read_hash(place, end)
    if letter == c"n":
        return _read_number(place, end)
    if letter == c"t":
        return _read_fields(place, end, items_max)
    return None


cdef _fill(tuple values, Py_ssize_t start, Py_ssize_t end):
    """Nothing for the rest; a tuple that is given up must be whole too."""
    cdef Py_ssize_t index
    for index in range(start, end):
        Py_INCREF(None)
        PyTuple_SET_ITEM(values, index, None)


cdef object _read_block(const char **place, const char *end, object tip):
    cdef const char *at = place[0]
    if at[0] == c'"':
        if end - at >= LATEST_BYTES and memcmp(at, LATEST, LATEST_BYTES) == 0:
            place[0] = at + LATEST_BYTES
            return tip
        return _read_hash(place, end)
    return _read_number(place, end)


cdef object _read_number(const char **place, const char *end):
    cdef const char *at = place[0]
    cdef const char *first = at
    cdef long number = 0
    while at < end and c"0" <= at[0] <= c"9":
        number = number * 10 + (at[0] - c"0")
        at += 1
        if at - first > NUMBER_DIGITS_MAX:
            return None
    if at == first or (first[0] == c"0" and at - first > 1):
        return None
    place[0] = at
    return number


cdef object _read_hash(const char **place, const char *end):
    """``0x`` and all 64 digits."""
    cdef const char *at = place[0]
    cdef bytes field
    if end - at < HASH_TEXT_BYTES or memcmp(at, b'"0x', 3) != 0 or at[HASH_TEXT_BYTES - 1] != c'"':
        return None
    field = PyBytes_FromStringAndSize(NULL, TEXT_FIELD_BYTES)
    if not _read_digits(at + 3, <uint8_t *>PyBytes_AS_STRING(field)):
        return None
    place[0] = at + HASH_TEXT_BYTES
    return field


cdef object _read_field(const char **place, const char *end):
    """``0x`` and 1 to 64 digits."""
    cdef const char *at = place[0]
    cdef const char *first
    cdef Py_ssize_t length
    cdef uint8_t *out
    # Fast path: nearly every field has all its digits, which need not be counted.
    cdef bytes field = _read_hash(place, end)
    if field is not None:
        return field
    if end - at < 3 or memcmp(at, b'"0x', 3) != 0:
        return None
    first = at = at + 3
    while at < end and at[0] != c'"' and at - first <= TEXT_FIELD_HEX_DIGITS:
        at += 1
    length = at - first
    if at == end or at[0] != c'"' or length == 0 or length > TEXT_FIELD_HEX_DIGITS:
        return None
    field = PyBytes_FromStringAndSize(NULL, TEXT_FIELD_BYTES)
    out = <uint8_t *>PyBytes_AS_STRING(field)
    if not text_read_padded_hex(<const uint8_t *>first, length, out) or not text_field_is_canonical(out):
        return None
    place[0] = at + 1
    return field


cdef object _read_fields(const char **place, const char *end, Py_ssize_t items_max):
    """An array of fields with all their digits, joined."""
    cdef const char *at = place[0]
    cdef const char *first
    cdef bytes fields
    cdef uint8_t *field
    cdef Py_ssize_t count = 0
    if at[0] != c"[":
        return None
    first = skip_blanks(at + 1, end)
    if first < end and first[0] == c"]":
        place[0] = first + 1
        return b""
    # No more than these fit into the text, so that a long list of few does not take memory.
    items_max = min(items_max, (end - at) // HASH_TEXT_BYTES)
    fields = PyBytes_FromStringAndSize(NULL, items_max * TEXT_FIELD_BYTES)
    field = <uint8_t *>PyBytes_AS_STRING(fields)
    while True:
        at = skip_blanks(at + 1, end)
        if count == items_max or end - at < HASH_TEXT_BYTES or memcmp(at, b'"0x', 3) != 0:
            return None
        if at[HASH_TEXT_BYTES - 1] != c'"' or not _read_digits(at + 3, field):
            return None
        count += 1
        field += TEXT_FIELD_BYTES
        at = skip_blanks(at + HASH_TEXT_BYTES, end)
        if at == end:
            return None
        if at[0] == c"]":
            break
        if at[0] != c",":
            return None
    place[0] = at + 1
    return fields if count == items_max else fields[:count * TEXT_FIELD_BYTES]


cdef inline bint _read_digits(const char *digits, uint8_t *field) noexcept:
    return text_read_hex(<const uint8_t *>digits, TEXT_FIELD_BYTES, field) and text_field_is_canonical(field)
