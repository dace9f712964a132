# RLP.  The stub (rlp.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

__all__ = ["decode"]

cdef enum:
    STRING = 0x80        # a string of up to 55 bytes: this, plus its length
    LIST = 0xC0          # the same of a list
    SHORT_MAX = 55       # above it the length has a length
    LENGTH_BYTES_MAX = 4 # nothing here is larger


cdef int rlp_item_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, rlp_item *item) except -1:
    """Find the item at ``at``; ValueError if there is none that ends before ``end``."""
    cdef Py_ssize_t length, index
    cdef int length_bytes
    cdef uint8_t first
    if at >= end:
        raise ValueError("an item of RLP is missing")
    first = data[at]
    item.is_list = first >= LIST
    if first < STRING:
        item.start, item.end = at, at + 1
        return 0
    length = first - (LIST if item.is_list else STRING)
    at += 1
    if length > SHORT_MAX:
        length_bytes = <int>(length - SHORT_MAX)
        if length_bytes > LENGTH_BYTES_MAX or end - at < length_bytes or data[at] == 0:
            raise ValueError("no length of RLP")
        length = 0
        for index in range(length_bytes):
            length = (length << 8) | data[at + index]
        at += length_bytes
        if length <= SHORT_MAX:
            raise ValueError("a length of RLP is not in its shortest form")
    if length > end - at:
        raise ValueError("an item of RLP is longer than what is there")
    if length == 1 and not item.is_list and data[at] < STRING:
        raise ValueError("a byte of RLP is not in its shortest form")
    item.start, item.end = at, at + length
    return 0


def decode(bytes data not None, *, Py_ssize_t items_max, Py_ssize_t depth_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef rlp_item item
    cdef Py_ssize_t left = items_max
    rlp_item_at(start, 0, PyBytes_GET_SIZE(data), &item)
    if item.end != PyBytes_GET_SIZE(data):
        raise ValueError("something is behind an item of RLP")
    return _content(start, &item, &left, depth_max)


cdef object _content(const uint8_t *data, const rlp_item *item, Py_ssize_t *left, Py_ssize_t depth):
    cdef rlp_item inner
    cdef Py_ssize_t at = item.start
    cdef list found
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("more items of RLP than allowed")
    if not item.is_list:
        return PyBytes_FromStringAndSize(<const char *>data + item.start, item.end - item.start)
    if depth <= 0:
        raise ValueError("lists of RLP are deeper than allowed")
    found = []
    while at < item.end:
        rlp_item_at(data, at, item.end, &inner)
        found.append(_content(data, &inner, left, depth - 1))
        at = inner.end
    return found
