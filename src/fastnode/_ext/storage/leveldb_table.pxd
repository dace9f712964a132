from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "leveldb_table.h" nogil:
    enum:
        TABLE_WHOLE
        TABLE_NO_FOOTER
        TABLE_OUTSIDE
        TABLE_CHECKSUM
        TABLE_MALFORMED
        TABLE_COMPRESSED
        TABLE_OVERLAP
    void crc32c_prepare()
    uint32_t _crc32c "crc32c"(const uint8_t *data, size_t length)
    uint32_t _crc32c_portable "crc32c_portable"(const uint8_t *data, size_t length)
    int table_check(const uint8_t *file, size_t length, uint64_t *where)
