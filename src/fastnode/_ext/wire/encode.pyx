"""Text forms of bytes and field elements."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from fastnode._ext.wire.base64 cimport (
    text_base64_length, text_base64_size, text_read_base64, text_write_base64, text_write_base64_narrow,
)


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)


__all__ = [
    "MODULUS",
    "field_from_int",
    "field_from_text",
    "field_to_decimal",
    "from_base64",
    "from_hex",
    "quoted_fields",
    "to_base64",
    "to_base64_narrow",
    "to_hex",
]

MODULUS = int.from_bytes((<const char *>TEXT_MODULUS)[:TEXT_FIELD_BYTES], "big")

cdef object MODULUS_INT = MODULUS

cdef enum:
    PREFIX_LENGTH = 2           # 0x
    QUOTED_FIELD_LENGTH = 69    # two quotes, the prefix, 64 digits, and the comma or bracket after it

# A decimal text with more significant digits than the modulus has is not converted at all.
cdef size_t MODULUS_DIGITS = len(str(MODULUS))


# ---- hex ----------------------------------------------------------------------------------------

def to_hex(data):
    cdef const uint8_t *source = bytes_of(data, "data")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, PREFIX_LENGTH + 2 * size)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(text)
    out[0] = c"0"
    out[1] = c"x"
    text_write_hex(source, size, out + PREFIX_LENGTH)
    return text


def from_hex(text):
    cdef Text digits = text_of(text)
    if has_prefix(digits):
        digits = without_prefix(digits)
    if digits.start is NULL or not text_is_hex(digits.start, digits.length):
        raise ValueError("not a hex string")
    if digits.length % 2:
        raise ValueError("odd number of hex digits")
    cdef bytes data = PyBytes_FromStringAndSize(NULL, digits.length // 2)
    text_read_hex(digits.start, digits.length // 2, <uint8_t *>PyBytes_AS_STRING(data))
    return data


def quoted_fields(data):
    cdef const uint8_t *field = bytes_of(data, "data")
    cdef Py_ssize_t count = PyBytes_GET_SIZE(data) // TEXT_FIELD_BYTES
    if count * TEXT_FIELD_BYTES != PyBytes_GET_SIZE(data):
        raise ValueError(f"data must be a multiple of {TEXT_FIELD_BYTES} bytes long, not {PyBytes_GET_SIZE(data)}")
    if count == 0:
        return b"[]"
    cdef bytes text = PyBytes_FromStringAndSize(NULL, 1 + count * QUOTED_FIELD_LENGTH)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(text)
    cdef Py_ssize_t i
    out[0] = c"["
    out += 1
    for i in range(count):
        memcpy(out, b'"0x', 3)
        text_write_hex(field, TEXT_FIELD_BYTES, out + 3)
        memcpy(out + 3 + TEXT_FIELD_HEX_DIGITS, b'",', 2)
        field += TEXT_FIELD_BYTES
        out += QUOTED_FIELD_LENGTH
    (out - 1)[0] = c"]"
    return text


# ---- field elements -----------------------------------------------------------------------------

def field_from_text(text):
    cdef Text given = text_of(text)
    if has_prefix(given):
        return field_from_hex_digits(without_prefix(given))
    if given.start is not NULL and given.length == 0:
        raise ValueError("empty string")
    if given.start is NULL or not is_decimal(given):
        raise ValueError("neither a hex string with 0x in front nor a decimal number")
    while given.length and given.start[0] == c"0":
        given.start += 1
        given.length -= 1
    if given.length > MODULUS_DIGITS:
        raise ValueError("not below the field modulus")
    cdef bytes field = PyBytes_FromStringAndSize(NULL, TEXT_FIELD_BYTES)
    text_read_decimal(given.start, given.length, <uint8_t *>PyBytes_AS_STRING(field))
    return canonical(field)


cdef bytes field_from_hex_digits(Text digits):
    cdef bytes field = PyBytes_FromStringAndSize(NULL, TEXT_FIELD_BYTES)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(field)
    # Fast path: nearly every request has all 64 digits; they are read in place.
    if digits.length == TEXT_FIELD_HEX_DIGITS and text_read_hex(digits.start, TEXT_FIELD_BYTES, out):
        return canonical(field)
    if digits.length == 0:
        raise ValueError("no digits after 0x")
    if not text_is_hex(digits.start, digits.length):
        raise ValueError("not a hex string")
    if digits.length > TEXT_FIELD_HEX_DIGITS:
        raise ValueError(f"more than {TEXT_FIELD_HEX_DIGITS} hex digits")
    text_read_padded_hex(digits.start, digits.length, out)
    return canonical(field)


def field_from_int(value):
    if not isinstance(value, int):
        raise TypeError(f"value must be int, not {type(value).__name__}")
    if value < 0:
        raise ValueError("negative")
    if value >= MODULUS_INT:
        raise ValueError("not below the field modulus")
    return value.to_bytes(TEXT_FIELD_BYTES, "big")


def field_to_decimal(value):
    cdef const uint8_t *field = bytes_of(value, "value")
    cdef uint8_t[TEXT_DECIMAL_DIGITS_MAX] digits
    if PyBytes_GET_SIZE(value) != TEXT_FIELD_BYTES:
        raise ValueError(f"value must be {TEXT_FIELD_BYTES} bytes long, not {PyBytes_GET_SIZE(value)}")
    return PyBytes_FromStringAndSize(<const char *>digits, text_write_decimal(field, digits))


cdef bytes canonical(bytes field):
    if not text_field_is_canonical(<const uint8_t *>PyBytes_AS_STRING(field)):
        raise ValueError("not below the field modulus")
    return field


# ---- base64 -------------------------------------------------------------------------------------

def to_base64(data):
    cdef const uint8_t *source = bytes_of(data, "data")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, text_base64_length(size))
    text_write_base64(source, size, <uint8_t *>PyBytes_AS_STRING(text))
    return text


def to_base64_narrow(data):
    cdef const uint8_t *source = bytes_of(data, "data")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, text_base64_length(size))
    text_write_base64_narrow(source, size, <uint8_t *>PyBytes_AS_STRING(text))
    return text


def from_base64(text):
    cdef Text given = text_of(text)
    cdef Py_ssize_t size = -1
    if given.start is not NULL:
        size = text_base64_size(given.start, given.length)
    if size < 0:
        raise ValueError("not padded base64 of the standard alphabet")
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    if not text_read_base64(given.start, size, <uint8_t *>PyBytes_AS_STRING(data)):
        raise ValueError("not padded base64 of the standard alphabet")
    return data


# ---- arguments ----------------------------------------------------------------------------------

cdef const uint8_t *bytes_of(data, str name) except NULL:
    if not isinstance(data, bytes):
        raise TypeError(f"{name} must be bytes, not {type(data).__name__}")
    return <const uint8_t *>PyBytes_AS_STRING(data)


cdef Text text_of(text) except *:
    cdef Text found
    cdef Py_ssize_t length = 0
    found.start = NULL
    found.length = 0
    if isinstance(text, bytes):
        found.start = <const uint8_t *>PyBytes_AS_STRING(text)
        found.length = PyBytes_GET_SIZE(text)
    elif not isinstance(text, str):
        raise TypeError(f"text must be str or bytes, not {type(text).__name__}")
    elif PyUnicode_IS_ASCII(text):
        found.start = <const uint8_t *>PyUnicode_AsUTF8AndSize(text, &length)
        found.length = length
    return found


cdef inline bint has_prefix(Text text) noexcept:
    return text.length >= PREFIX_LENGTH and text.start[0] == c"0" and text.start[1] == c"x"


cdef inline Text without_prefix(Text text) noexcept:
    text.start += PREFIX_LENGTH
    text.length -= PREFIX_LENGTH
    return text


cdef inline bint is_decimal(Text text) noexcept:
    cdef size_t i
    for i in range(text.length):
        if not c"0" <= text.start[i] <= c"9":
            return False
    return True
