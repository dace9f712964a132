"""Every checksum of a LevelDB table."""

crc32c_prepare()

cdef dict FAULTS = {
    TABLE_NO_FOOTER: "there is no footer at byte {}",
    TABLE_OUTSIDE: "a block at byte {} is said to lie outside of the file",
    TABLE_CHECKSUM: "the checksum of the block at byte {} is wrong",
    TABLE_MALFORMED: "the index at byte {} makes no sense",
    TABLE_COMPRESSED: "the index at byte {} is compressed",
}


def crc32c(const uint8_t[::1] data not None):
    return _crc32c(&data[0] if data.shape[0] else NULL, data.shape[0])


def crc32c_portable(const uint8_t[::1] data not None):
    return _crc32c_portable(&data[0] if data.shape[0] else NULL, data.shape[0])


def fault_of(const uint8_t[::1] table not None):
    cdef uint64_t where = 0
    cdef int fault
    cdef const uint8_t *start = &table[0] if table.shape[0] else NULL
    cdef size_t length = table.shape[0]
    with nogil:
        fault = table_check(start, length, &where)
    return None if fault == TABLE_WHOLE else FAULTS[fault].format(where)
