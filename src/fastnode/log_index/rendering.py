"""The JSON of contract class logs, rendered once when their block is stored."""

from __future__ import annotations

import struct
from typing import Final

from fastnode.kernels import encode
from fastnode.log_index.layout import Position
from fastnode.protocol.constants import CONTRACT_CLASS_LOG_FIELDS
from fastnode.protocol.effects import ContractClassLog
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD_TEXT

__all__ = ["class_log_record", "read_class_log"]

_CLASS_LOG_HEAD: Final = struct.Struct(">HI")
_QUOTED_ZERO: Final = b'"%b"' % ZERO_FIELD_TEXT.encode()


def class_log_record(log: ContractClassLog, position: Position, block_hash: bytes, tx_hash: bytes) -> bytes:
    """A class log record as drawn in ``layout.py``; :func:`read_class_log` gives its JSON."""
    block_number, tx_index, log_index = position
    first = b'{"id":{"blockNumber":%d,"blockHash":"%b","txHash":"%b","txIndex":%d,"logIndex":%d}' % (
        block_number,
        encode.to_hex(block_hash),
        encode.to_hex(tx_hash),
        tx_index,
        log_index,
    )
    first += b',"log":{"contractAddress":"%b","fields":{"fields":%b' % (
        encode.to_hex(log.contract_address),
        encode.quoted_fields(log.fields)[:-1],
    )
    second = b']},"emittedLength":%d}}' % log.emitted_length
    cut = CONTRACT_CLASS_LOG_FIELDS - len(log.fields) // FIELD_BYTES
    return _CLASS_LOG_HEAD.pack(cut, len(first)) + first + second


def read_class_log(record: bytes) -> bytes:
    """``{"id":LogId,"log":{contractAddress, fields:{fields}, emittedLength}}`` with all 3,023 fields."""
    cut, first_length = _CLASS_LOG_HEAD.unpack_from(record)
    first_end = _CLASS_LOG_HEAD.size + first_length
    first, second = record[_CLASS_LOG_HEAD.size : first_end], record[first_end:]
    zeros = b",".join([_QUOTED_ZERO] * cut)
    separator = b"," if cut and not first.endswith(b"[") else b""
    return b"".join((first, separator, zeros, second))
