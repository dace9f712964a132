"""Log tags: a filter over all known ones, and answers made of the pages of tags."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fastnode._ext.logs.effect_logs cimport page_text


cdef extern from "Python.h":
    bint PyUnicode_CheckExact(object value)
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void *PyUnicode_DATA(object text)


cdef enum:
    PAGE_BYTES = 4
    # Before the entries of a page; no JSON begins with it.
    ENTRIES_MARK = 1
    ANY_NUMBER = 0x7fffffff

cdef object PAGE_MAX = 0xFFFFFFFF

ENTRIES = bytes([ENTRIES_MARK])


@cython.final
cdef class TagFilter:
    def __cinit__(self, size):
        if size < 1:
            raise ValueError(f"a tag filter of {size} bytes")
        self.blocks = (size + TAG_BLOCK_BYTES - 1) // TAG_BLOCK_BYTES
        self.words = <uint64_t *>calloc(self.blocks, TAG_BLOCK_BYTES)
        if self.words is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.words)

    @classmethod
    def load(cls, bytes data not None):
        if len(data) == 0 or len(data) % TAG_BLOCK_BYTES:
            raise ValueError(f"{len(data)} bytes are no whole number of filter blocks")
        cdef TagFilter loaded = TagFilter(len(data))
        memcpy(loaded.words, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        return loaded

    @property
    def size(self):
        return self.blocks * TAG_BLOCK_BYTES

    def merge(self, bytes data not None):
        cdef uint64_t length = self.blocks * TAG_BLOCK_BYTES
        if <uint64_t>PyBytes_GET_SIZE(data) != length:
            raise ValueError(f"{len(data)} bytes do not fit a filter of {length}")
        cdef const uint8_t *source = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef uint8_t *target = <uint8_t *>self.words
        cdef uint64_t index
        for index in range(length):
            target[index] |= source[index]

    def add(self, bytes key not None):
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(key)
        cdef Py_ssize_t owner_length = _owner_length(key)
        cdef uint64_t state = tag_start(start if owner_length else NULL)
        return bool(tag_filter_add(self.words, self.blocks, state, start + owner_length))

    def may_contain(self, bytes key not None):
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(key)
        cdef Py_ssize_t owner_length = _owner_length(key)
        cdef uint64_t state = tag_start(start if owner_length else NULL)
        return bool(tag_filter_has(self.words, self.blocks, state, start + owner_length))

    def dump(self):
        return PyBytes_FromStringAndSize(<const char *>self.words, self.blocks * TAG_BLOCK_BYTES)


cdef Py_ssize_t _owner_length(bytes key) except -1:
    cdef Py_ssize_t length = PyBytes_GET_SIZE(key) - TAG_BYTES
    if length != 0 and length != TAG_BYTES:
        raise ValueError(f"a tag key of {PyBytes_GET_SIZE(key)} bytes")
    return length


def read_fields(list values not None, strict):
    cdef Py_ssize_t count = PyList_GET_SIZE(values)
    cdef bytes fields = PyBytes_FromStringAndSize(NULL, count * TAG_BYTES)
    cdef uint8_t *field = <uint8_t *>PyBytes_AS_STRING(fields)
    cdef Py_ssize_t index
    cdef object value
    for index in range(count):
        value = <object>PyList_GET_ITEM(values, index)
        # Fast path: text in the form that clients send is read in place.
        if not (
            PyUnicode_CheckExact(value)
            and PyUnicode_IS_COMPACT_ASCII(value)
            and PyUnicode_GET_LENGTH(value) == TAG_TEXT_LENGTH
            and tag_read_field(<const uint8_t *>PyUnicode_DATA(value), field)
        ):
            # `strict` runs Python code, which could shorten the list; the caller owns it and does not.
            _copy_field(strict(value, index), field)
        field += TAG_BYTES
    return fields


cdef int _copy_field(bytes value, uint8_t *field) except -1:
    if value is None or PyBytes_GET_SIZE(value) != TAG_BYTES:
        raise ValueError("a field has 32 bytes")
    memcpy(field, PyBytes_AS_STRING(value), TAG_BYTES)
    return 0


def count_known(TagFilter tag_filter, bytes owner not None, bytes tags not None):
    cdef Py_ssize_t count = PyBytes_GET_SIZE(tags) // TAG_BYTES
    cdef Py_ssize_t known = 0
    cdef Py_ssize_t index
    cdef const uint8_t *tag = <const uint8_t *>PyBytes_AS_STRING(tags)
    cdef uint64_t state
    if PyBytes_GET_SIZE(owner) not in (0, TAG_BYTES) or count * TAG_BYTES != PyBytes_GET_SIZE(tags):
        raise ValueError(f"tags of {PyBytes_GET_SIZE(tags)} bytes of an owner of {PyBytes_GET_SIZE(owner)} bytes")
    if tag_filter is None:
        return count
    state = tag_start(<const uint8_t *>PyBytes_AS_STRING(owner) if PyBytes_GET_SIZE(owner) else NULL)
    for index in range(count):
        known += tag_filter_has(tag_filter.words, tag_filter.blocks, state, tag)
        tag += TAG_BYTES
    return known


def answer(
    TagFilter tag_filter, bytes prefix not None, bytes owner not None, bytes tags not None, page, get, get_effect=None,
    Py_ssize_t found_max=ANY_NUMBER, require_bytes=None,
):
    cdef Py_ssize_t owner_length = PyBytes_GET_SIZE(owner)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(tags) // TAG_BYTES
    if owner_length != 0 and owner_length != TAG_BYTES:
        raise ValueError(f"a tag owner of {owner_length} bytes")
    if count * TAG_BYTES != PyBytes_GET_SIZE(tags):
        raise ValueError(f"tags of {PyBytes_GET_SIZE(tags)} bytes")
    if not 0 <= page <= PAGE_MAX:
        raise ValueError(f"page {page} of a tag")

    # Without a filter every tag may be known.
    cdef uint64_t state = tag_start(<const uint8_t *>PyBytes_AS_STRING(owner) if owner_length else NULL)
    cdef const uint8_t *tag = <const uint8_t *>PyBytes_AS_STRING(tags)
    cdef bytes head = prefix + owner
    cdef bytes tail = int(page).to_bytes(PAGE_BYTES, "big")
    cdef list pages = []
    cdef bytes page_json
    cdef Py_ssize_t length = 0
    cdef Py_ssize_t found = 0
    cdef Py_ssize_t index
    for index in range(count):
        page_json = None
        if tag_filter is None:
            page_json = get(_page_key(head, tag, tail))
        elif not tag_filter_has(tag_filter.words, tag_filter.blocks, state, tag):
            tag_filter.unknown_count += 1
        else:
            page_json = get(_page_key(head, tag, tail))
            if page_json is None:
                tag_filter.missed_count += 1
            else:
                tag_filter.found_count += 1
        if page_json is None:
            page_json = b"[]"
        else:
            found += 1
            if found > found_max:
                raise OverflowError(f"more than {found_max} tags have logs")
            if PyBytes_GET_SIZE(page_json) and <uint8_t>PyBytes_AS_STRING(page_json)[0] == ENTRIES_MARK:
                page_json = page_text(
                    get_effect, owner_length != 0, <const uint8_t *>PyBytes_AS_STRING(page_json) + 1,
                    PyBytes_GET_SIZE(page_json) - 1,
                )
            if require_bytes is not None:
                require_bytes(length + PyBytes_GET_SIZE(page_json) + 2 * count)
        pages.append(page_json)
        length += PyBytes_GET_SIZE(page_json)
        tag += TAG_BYTES
    return _json_array(pages, length)


cdef bytes _json_array(list elements, Py_ssize_t length):
    """One copy of each element; ``length`` is that of all together."""
    cdef Py_ssize_t count = PyList_GET_SIZE(elements)
    # Brackets, and a comma between every two.
    cdef bytes array = PyBytes_FromStringAndSize(NULL, length + 2 + (count - 1 if count else 0))
    cdef char *target = PyBytes_AS_STRING(array)
    cdef bytes element
    cdef Py_ssize_t index
    target[0] = b"["
    target += 1
    for index in range(count):
        if index:
            target[0] = b","
            target += 1
        element = <bytes>PyList_GET_ITEM(elements, index)
        memcpy(target, PyBytes_AS_STRING(element), PyBytes_GET_SIZE(element))
        target += PyBytes_GET_SIZE(element)
    target[0] = b"]"
    return array


cdef bytes _page_key(bytes head, const uint8_t *tag, bytes tail):
    cdef Py_ssize_t head_length = PyBytes_GET_SIZE(head)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, head_length + TAG_BYTES + PAGE_BYTES)
    cdef char *target = PyBytes_AS_STRING(key)
    memcpy(target, PyBytes_AS_STRING(head), head_length)
    memcpy(target + head_length, tag, TAG_BYTES)
    memcpy(target + head_length + TAG_BYTES, PyBytes_AS_STRING(tail), PAGE_BYTES)
    return key
