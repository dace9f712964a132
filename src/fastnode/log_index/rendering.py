"""The JSON of logs, rendered once when their block is stored."""

from __future__ import annotations

import struct
from typing import Final

from fastnode.kernels import encode
from fastnode.protocol.constants import CONTRACT_CLASS_LOG_FIELDS
from fastnode.protocol.effects import ContractClassLog, PublicLog, TxEffect
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, ZERO_FIELD_TEXT

__all__ = ["TxLogRenderer", "first_logs", "join_pages", "logs_of_page", "read_class_log"]

#: Between two logs of a page.  Their members are strings, numbers and arrays of strings, so no log
#: holds this text itself.
_BETWEEN_LOGS: Final = b"},{"

_CLASS_LOG_HEAD: Final = struct.Struct(">HI")
_QUOTED_ZERO: Final = b'"%b"' % ZERO_FIELD_TEXT.encode()


class TxLogRenderer:
    """The logs of one transaction."""

    __slots__ = ("_id", "_scoped_end", "_scoped_start")

    def __init__(
        self, effect: TxEffect, *, block_number: int, block_hash: bytes, timestamp: int, tx_index: int
    ) -> None:
        tx_hash = encode.to_hex(effect.tx_hash)
        first_nullifier = effect.nullifiers[0] if effect.nullifiers else ZERO_FIELD
        self._scoped_start: bytes = b'{"txHash":"%b","blockNumber":%d,"blockTimestamp":"%d","logData":' % (
            tx_hash,
            block_number,
            timestamp,
        )
        self._scoped_end: bytes = b',"noteHashes":%b,"firstNullifier":"%b"}' % (
            encode.quoted_fields(b"".join(effect.note_hashes)),
            encode.to_hex(first_nullifier),
        )
        self._id: bytes = b'{"id":{"blockNumber":%d,"blockHash":"%b","txHash":"%b","txIndex":%d,"logIndex":' % (
            block_number,
            encode.to_hex(block_hash),
            tx_hash,
            tx_index,
        )

    def scoped(self, data: bytes) -> bytes:
        """TxScopedL2Log; ``data`` are the emitted fields, joined."""
        return b"".join((self._scoped_start, encode.quoted_fields(data), self._scoped_end))

    def public_log(self, log: PublicLog, log_index: int) -> bytes:
        """``{"id":LogId,"log":{contractAddress, fields}}``."""
        return b'%b%d},"log":{"contractAddress":"%b","fields":%b}}' % (
            self._id,
            log_index,
            encode.to_hex(log.contract_address),
            encode.quoted_fields(b"".join(log.fields)),
        )

    def class_log(self, log: ContractClassLog, log_index: int) -> bytes:
        """A class log record as drawn in ``layout.py``; :func:`read_class_log` gives its JSON."""
        first = b'%b%d},"log":{"contractAddress":"%b","fields":{"fields":%b' % (
            self._id,
            log_index,
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


# ---- pages ------------------------------------------------------------------------------------


def join_pages(page: bytes, logs: list[bytes]) -> bytes:
    """A page with more logs at its end; ``b""`` for no page yet."""
    added = b",".join(logs)
    return page[:-1] + b"," + added + b"]" if page else b"[" + added + b"]"


def logs_of_page(page: bytes) -> list[bytes]:
    """The logs of a page, each as JSON of its own."""
    logs = page[1:-1].split(_BETWEEN_LOGS)
    last = len(logs) - 1
    return [(b"{" if i else b"") + log + (b"}" if i < last else b"") for i, log in enumerate(logs)]


def first_logs(page: bytes, count: int) -> bytes:
    """The page cut to its first ``count`` logs, at least one."""
    logs = page[1:-1].split(_BETWEEN_LOGS, count)
    if len(logs) <= count:
        return page
    return b"[" + _BETWEEN_LOGS.join(logs[:count]) + b"}]"
