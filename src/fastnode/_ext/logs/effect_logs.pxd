from libc.stdint cimport uint8_t, uint64_t


cdef extern from "effect_logs.h" nogil:
    enum:
        LOG_PRIVATE
        LOG_PUBLIC
        LOG_QUOTED_BYTES
    ctypedef struct effect_text:
        pass
    ctypedef struct effect_log:
        const uint8_t *contract
        const uint8_t *fields
        size_t all
    ctypedef struct log_cursor:
        const uint8_t *at
        size_t index
    int effect_read(const uint8_t *text, size_t length, effect_text *effect)
    void log_begin(log_cursor *cursor, const effect_text *effect, int kind)
    int log_find(log_cursor *cursor, const effect_text *effect, int kind, size_t index, effect_log *log)
    size_t log_fields_length(const effect_log *log)
    uint8_t *log_put_fields(uint8_t *out, const effect_log *log)
    size_t log_scoped_length(const effect_text *effect, const effect_log *log, uint64_t block, uint64_t timestamp)
    uint8_t *log_put_scoped(
        uint8_t *out, const effect_text *effect, const effect_log *log, uint64_t block, uint64_t timestamp
    )
    size_t log_public_length(const effect_log *log, uint64_t block, uint64_t tx_index, uint64_t log_index)
    uint8_t *log_put_public(
        uint8_t *out, const effect_text *effect, const effect_log *log, const uint8_t *block_hash, uint64_t block,
        uint64_t tx_index, uint64_t log_index
    )


cdef class LoggedEffect:
    cdef:
        bytes text          # what the places below are in
        effect_text places
        log_cursor cursor

    cdef int _find(self, int kind, size_t index, effect_log *log) except -1


cdef bytes page_text(object get, bint is_public, const uint8_t *entries, Py_ssize_t size)
