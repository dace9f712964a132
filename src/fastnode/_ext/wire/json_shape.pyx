# The shape of a JSON text, and the texts of its ids.  The stub (json_shape.pyi) says what everything does.

from json import loads

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

# Classes of bytes outside texts.
cdef enum:
    OTHER = 0
    QUOTE = 1
    OPENER = 2
    CLOSER = 3
    COMMA = 4

cdef unsigned char[256] CLASSES


cdef void _fill_classes() noexcept:
    CLASSES[c'"'] = QUOTE
    CLASSES[c"["] = CLASSES[c"{"] = OPENER
    CLASSES[c"]"] = CLASSES[c"}"] = CLOSER
    CLASSES[c","] = COMMA


_fill_classes()


def measure(bytes text not None, *, Py_ssize_t depth_max, Py_ssize_t containers_max, Py_ssize_t values_max):
    cdef const char *at = PyBytes_AS_STRING(text)
    cdef const char *end = at + PyBytes_GET_SIZE(text)
    cdef Py_ssize_t depth = 0, deepest = 0, containers = 0, commas = 0
    cdef unsigned char kind
    with nogil:
        while at < end:
            kind = CLASSES[<unsigned char>at[0]]
            if kind != OTHER:
                if kind == QUOTE:
                    at = _end_of_text(at + 1, end)
                elif kind == OPENER:
                    depth += 1
                    containers += 1
                    if depth > deepest:
                        deepest = depth
                    if depth > depth_max or containers > containers_max:
                        break
                elif kind == CLOSER:
                    depth -= 1
                else:
                    commas += 1
                    if commas + containers >= values_max:
                        break
            at += 1
    return deepest, containers, commas + containers + 1


cdef const char *_end_of_text(const char *at, const char *end) noexcept nogil:
    """At the quotation mark that ends a text that begins at ``at``; ``end`` if none does."""
    cdef const char *quote = NULL
    cdef const char *escape
    while at < end:
        if quote < at:  # each byte is looked at once for either character
            quote = <const char *>memchr(at, c'"', end - at)
            if quote == NULL:
                return end
        escape = <const char *>memchr(at, c"\\", quote - at)
        if escape == NULL:
            return quote
        at = escape + 2
    return end


# ---- ids --------------------------------------------------------------------------------------


def find_ids(bytes text not None):
    cdef const char *at = PyBytes_AS_STRING(text)
    cdef const char *end = at + PyBytes_GET_SIZE(text)
    cdef list ids = []
    if end - at >= 3 and memcmp(at, b"\xef\xbb\xbf", 3) == 0:
        at += 3
    at = _skip_blanks(at, end)
    if at == end or at[0] != c"[":
        _read_element(at, end, ids)
        return ids
    at = _skip_blanks(at + 1, end)
    while at < end and at[0] != c"]" and at[0] != c"}":  # the second ends what is no JSON
        at = _skip_blanks(_read_element(at, end, ids), end)
        if at < end and at[0] == c",":
            at = _skip_blanks(at + 1, end)
    return ids


cdef const char *_read_element(const char *at, const char *end, list ids) except NULL:
    """Behind a value, whose id is noted: that of its last member with the name."""
    cdef const char *name
    cdef const char *value
    cdef bytes found = b"null"
    cdef bint is_id
    if at == end or at[0] != c"{":
        ids.append(found)
        return _skip_value(at, end)
    at = _skip_blanks(at + 1, end)
    while at < end and at[0] != c"}":
        name = at
        at = _skip_value(at, end)
        is_id = _is_id(name, at)
        value = _skip_blanks(_skip_blanks(at, end) + 1, end)
        if value >= end:
            break
        at = _skip_value(value, end)
        if is_id:
            found = value[:at - value]
        at = _skip_blanks(at, end)
        if at < end and at[0] == c",":
            at = _skip_blanks(at + 1, end)
    ids.append(found)
    return at + 1 if at < end else end


cdef bint _is_id(const char *name, const char *end) except -1:
    """Of a member's name with its quotation marks."""
    if end - name == 4:
        return memcmp(name, b'"id"', 4) == 0
    # A letter may be written as an escape.
    if end - name > 14 or memchr(name, c"\\", end - name) == NULL:
        return False
    return loads(name[:end - name]) == "id"


cdef const char *_skip_blanks(const char *at, const char *end) noexcept nogil:
    while at < end and (at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
        at += 1
    return at


cdef const char *_skip_value(const char *at, const char *end) noexcept nogil:
    """Behind a value of a text that is JSON."""
    cdef Py_ssize_t depth = 0
    cdef unsigned char kind
    while at < end:
        kind = CLASSES[<unsigned char>at[0]]
        if kind == QUOTE:
            at = _end_of_text(at + 1, end)
            if depth == 0:
                return at + 1 if at < end else end
        elif kind == OPENER:
            depth += 1
        elif kind == CLOSER:
            if depth == 0:
                return at
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0 and (kind == COMMA or at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
            return at
        at += 1
    return end
