"""JSON that is stored in fewer bytes, and read as the very same text."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc

MARK = bytes([STORED_MARK])

WORDS = (
    b'{"revertCode":0,"txHash":',
    b'{"revertCode":',
    b'"transactionFee":',
    b'"noteHashes":[],',
    b'"noteHashes":[',
    b'],"nullifiers":[',
    b'"nullifiers":[',
    b'],"l2ToL1Msgs":[],"publicDataWrites":[{"leafSlot":',
    b'],"l2ToL1Msgs":[],"publicDataWrites":[]',
    b'],"l2ToL1Msgs":[',
    b'],"publicDataWrites":[',
    b'"value":',
    b'},{"leafSlot":',
    b'{"leafSlot":',
    b'}],"privateLogs":[]',
    b'}],"privateLogs":[{"fields":[',
    b',"privateLogs":[]',
    b',"privateLogs":[{"fields":[',
    b'],"privateLogs":[',
    b'],"emittedLength":',
    b'},{"fields":[',
    b'}],"publicLogs":[]',
    b'}],"publicLogs":[{"contractAddress":',
    b',"publicLogs":[]',
    b',"publicLogs":[{"contractAddress":',
    b'],"publicLogs":[',
    b'{"contractAddress":',
    b'"fields":[',
    b']},{"contractAddress":',
    b'},{"contractAddress":',
    b']}],"contractClassLogs":[]}',
    b',"contractClassLogs":[]}',
    b']}],"contractClassLogs":[',
    b'"contractClassLogs":[',
    b'"fields":{"fields":[',
    b'[{"txHash":',
    b'},{"txHash":',
    b'"blockNumber":',
    b',"blockTimestamp":"',
    b'","logData":[',
    b'],"noteHashes":[],"firstNullifier":',
    b'],"noteHashes":[',
    b'],"firstNullifier":',
    b'}]',
    b'{"id":{"blockNumber":',
    b',"blockHash":',
    b'"txHash":',
    b'"txIndex":',
    b',"logIndex":',
    b'},"log":{"contractAddress":',
    b']}}',
    b']}',
    b'],[',
    b'","blockHash":',
    b',"epochNumber":',
    b'","',
    b'{"lastArchive":{"root":',
    b'"nextAvailableLeafIndex":',
    b'},"state":{"l1ToL2MessageTree":{"root":',
    b'},"partial":{"noteHashTree":{"root":',
    b'},"nullifierTree":{"root":',
    b'},"publicDataTree":{"root":',
    b'}}},"spongeBlobHash":',
    b'"globalVariables":{"chainId":',
    b'"version":',
    b'"slotNumber":',
    b'"timestamp":"',
    b'","coinbase":"0x',
    b'","feeRecipient":',
    b'"gasFees":{"feePerDaGas":"',
    b'","feePerL2Gas":"',
    b'"}},"totalFees":',
    b'"totalManaUsed":',
    b'{"root":',
    b'{"lastArchiveRoot":',
    b'"blockHeadersHash":',
    b'"blobsHash":',
    b'"inHash":',
    b'"epochOutHash":',
    b'"},"totalManaUsed":',
    b'{"blockNumber":"',
    b',"timestamp":"',
    b'","timestamp":"',
    b'{"signature":"0x',
    b'","address":"0x',
    b'},{"address":"0x',
    b'[{"address":"0x',
    b'","signature":"0x',
    b'"feePerDaGas":"',
    b'"feePerL2Gas":"',
)

cdef stored_words KNOWN

assert len(WORDS) <= STORED_WORDS_MAX
KNOWN.count = len(WORDS)
for _place in range(len(WORDS)):
    KNOWN.word[_place].text = <const uint8_t *>PyBytes_AS_STRING(<bytes?>WORDS[_place])
    KNOWN.word[_place].length = PyBytes_GET_SIZE(<bytes>WORDS[_place])
stored_order(&KNOWN)


def pack(bytes text not None):
    cdef Py_ssize_t length = PyBytes_GET_SIZE(text)
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(text)
    cdef uint8_t *out
    cdef size_t packed
    if length > <Py_ssize_t>STORED_TEXT_BYTES_MAX:
        raise ValueError(f"a text of {length} bytes")
    out = <uint8_t *>PyMem_Malloc(STORED_HEAD_BYTES_MAX + 3 * length)
    if out is NULL:
        raise MemoryError
    try:
        packed = stored_pack(&KNOWN, start, length, out)
        if packed >= <size_t>length and (length == 0 or start[0] != STORED_MARK):
            return text
        return PyBytes_FromStringAndSize(<const char *>out, packed)
    finally:
        PyMem_Free(out)


def unpack(bytes stored not None):
    return unpacked(stored)


cdef bytes unpacked(bytes stored):
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(stored)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(stored)
    cdef int64_t length
    cdef bytes text
    if at == end or at[0] != STORED_MARK:
        return stored
    length = stored_read_head(&at, end)
    # A byte gives one field at most.
    if length < 0 or length > 69 * (end - at):
        raise ValueError(f"a packed text of {PyBytes_GET_SIZE(stored)} bytes with a length that it cannot have")
    text = PyBytes_FromStringAndSize(NULL, length)
    if not stored_unpack(&KNOWN, at, end, <uint8_t *>PyBytes_AS_STRING(text), length):
        raise ValueError(f"a packed text of {PyBytes_GET_SIZE(stored)} bytes that does not have {length}")
    return text
