from libc.stdint cimport uint8_t, uint64_t


cdef extern from "text.h" nogil:
    enum:
        TEXT_FIELD_BYTES
        TEXT_FIELD_HEX_DIGITS
        TEXT_DECIMAL_DIGITS_MAX
        TEXT_NUMBER_DIGITS_MAX
    const uint8_t *TEXT_MODULUS
    bint text_field_is_canonical(const uint8_t *field)
    void text_write_hex(const uint8_t *data, size_t size, uint8_t *out)
    bint text_read_hex(const uint8_t *digits, size_t size, uint8_t *out)
    bint text_read_padded_hex(const uint8_t *digits, size_t count, uint8_t *field)
    bint text_is_hex(const uint8_t *digits, size_t count)
    size_t text_write_decimal(const uint8_t *field, uint8_t *out)
    void text_read_decimal(const uint8_t *digits, size_t count, uint8_t *out)
    uint8_t *text_put(uint8_t *out, const void *text, size_t length)
    uint8_t *text_put_literal(uint8_t *out, const char *text)
    uint8_t *text_put_hex(uint8_t *out, const uint8_t *data, size_t size)
    uint8_t *text_put_number(uint8_t *out, uint64_t number)


# Characters that stay where they are: borrowed from a str or bytes that the caller holds.
cdef struct Text:
    const uint8_t *start    # NULL for a str with characters that no encoding here uses
    size_t length
