from libc.stdint cimport int64_t, uint8_t


cdef extern from "stored_text.h" nogil:
    enum:
        STORED_MARK
        STORED_WORDS_MAX
        STORED_HEAD_BYTES_MAX
        STORED_TEXT_BYTES_MAX
    ctypedef struct stored_word:
        const uint8_t *text
        size_t length
    ctypedef struct stored_words:
        stored_word *word
        size_t count
    void stored_order(stored_words *words)
    size_t stored_pack(const stored_words *words, const uint8_t *text, size_t length, uint8_t *out)
    int64_t stored_read_head(const uint8_t **packed, const uint8_t *end)
    bint stored_unpack(
        const stored_words *words, const uint8_t *packed, const uint8_t *end, uint8_t *out, size_t length
    )


cdef bytes unpacked(bytes stored)
