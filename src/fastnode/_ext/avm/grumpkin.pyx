# Multiples of points of the Grumpkin curve.  The stub (grumpkin.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

__all__ = ["multiply_and_add"]


def multiply_and_add(bytes scalar not None, bytes point not None, bytes addend not None):
    cdef uint8_t[GRUMPKIN_POINT_BYTES] total
    cdef const uint8_t *factor = <const uint8_t *>PyBytes_AS_STRING(scalar)
    cdef const uint8_t *base = <const uint8_t *>PyBytes_AS_STRING(point)
    cdef const uint8_t *added = <const uint8_t *>PyBytes_AS_STRING(addend)
    cdef bint has_coordinates
    if PyBytes_GET_SIZE(scalar) != GRUMPKIN_SCALAR_BYTES:
        raise ValueError(f"a scalar has {GRUMPKIN_SCALAR_BYTES} bytes, not {len(scalar)}")
    if PyBytes_GET_SIZE(point) != GRUMPKIN_POINT_BYTES or PyBytes_GET_SIZE(addend) != GRUMPKIN_POINT_BYTES:
        raise ValueError(f"a point has {GRUMPKIN_POINT_BYTES} bytes, not {len(point)} and {len(addend)}")
    with nogil:
        has_coordinates = grumpkin_multiply_and_add(factor, base, added, total)
    return total[:GRUMPKIN_POINT_BYTES] if has_coordinates else None
