"""The JSON of contract class logs, cut out of the effects of their transactions."""

from __future__ import annotations

from typing import Final

from fastnode.errors import DatabaseError
from fastnode.kernels import encode
from fastnode.log_index.layout import Position
from fastnode.protocol.constants import CONTRACT_CLASS_LOG_FIELDS

__all__ = ["class_log"]

#: Members of an effect's JSON, none of whose values can hold such a text.
_LOGS: Final = b'"contractClassLogs":['
_TX_HASH: Final = b'"txHash":'
#: Last member of a log.
_LENGTH: Final = b'"emittedLength":'
#: Bytes of a log up to that, at least: a quoted field and a comma each.
_FIELDS_BYTES: Final = CONTRACT_CLASS_LOG_FIELDS * 69
_HASH_CHARACTERS: Final = 68


def class_log(effect: bytes, position: Position, block_hash: bytes) -> bytes:
    """``{"id":LogId,"log":{contractAddress, fields:{fields}, emittedLength}}`` with all 3,023 fields.

    DatabaseError for an effect that has no such log.
    """
    block_number, tx_index, log_index = position
    try:
        begin = effect.index(_LOGS) + len(_LOGS)
        for _ in range(log_index):
            begin = _end_of_log(effect, begin) + 1
        end = _end_of_log(effect, begin)
        hash_begin = effect.index(_TX_HASH) + len(_TX_HASH)
    except ValueError:
        raise DatabaseError(
            f"an effect of block {block_number} lacks the class log {log_index}; run `fastnode db check`"
        ) from None
    head = b'{"id":{"blockNumber":%d,"blockHash":"%b","txHash":%b,"txIndex":%d,"logIndex":%d},"log":' % (
        block_number,
        encode.to_hex(block_hash),
        effect[hash_begin : hash_begin + _HASH_CHARACTERS],
        tx_index,
        log_index,
    )
    return b"".join((head, memoryview(effect)[begin:end], b"}"))


def _end_of_log(effect: bytes, begin: int) -> int:
    """Place behind the log that begins there; ValueError for none."""
    return effect.index(b"}", effect.index(_LENGTH, begin + _FIELDS_BYTES)) + 1
