"""The readable form of ``fastnode._ext.logs.effect_logs``: same functions, same texts, no speed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from fastnode.errors import DatabaseError

PAGE_LOGS: Final = 10
ENTRY_BYTES: Final = 16

_TAG_BYTES: Final = 32
#: Block, tx index, log index, timestamp.
_ENTRY: Final = struct.Struct(">IHHQ")
_EFFECT_KEY: Final = struct.Struct(">cII")


class LoggedEffect:
    def __init__(self, text: bytes) -> None:
        try:
            self._effect: dict[str, Any] = json.loads(text)
            self._logs = {False: self._effect["privateLogs"], True: self._effect["publicLogs"]}
        except (ValueError, KeyError, TypeError):
            raise DatabaseError(f"an effect of {len(text)} bytes is none; run `fastnode db check`") from None

    def places_of(self, tag_key: bytes) -> list[int]:
        if len(tag_key) not in (_TAG_BYTES, 2 * _TAG_BYTES):
            raise ValueError(f"a tag key of {len(tag_key)} bytes")
        contract, tag = tag_key[:-_TAG_BYTES], _quoted(tag_key[-_TAG_BYTES:])
        return [
            index
            for index, log in enumerate(self._logs[bool(contract)])
            if log["fields"][:1] == [tag] and (not contract or log["contractAddress"] == _quoted(contract))
        ]

    def fields(self, is_public: bool, index: int) -> bytes:
        log = self._log(is_public, index)
        return _text(log["fields"] if is_public else log["fields"][: log["emittedLength"]])

    def public_log(self, index: int, block_hash: bytes, block: int, tx_index: int) -> bytes:
        if len(block_hash) != _TAG_BYTES:
            raise ValueError(f"a block hash of {len(block_hash)} bytes")
        place = {
            "blockNumber": block,
            "blockHash": _quoted(block_hash),
            "txHash": self._effect["txHash"],
            "txIndex": tx_index,
            "logIndex": index,
        }
        return _text({"id": place, "log": self._log(True, index)})

    def scoped(self, is_public: bool, index: int, block: int, timestamp: int) -> bytes:
        """TxScopedL2Log."""
        return _text(
            {
                "txHash": self._effect["txHash"],
                "blockNumber": block,
                "blockTimestamp": str(timestamp),
                "logData": json.loads(self.fields(is_public, index)),
                "noteHashes": self._effect["noteHashes"],
                "firstNullifier": (self._effect["nullifiers"] or [_quoted(bytes(_TAG_BYTES))])[0],
            }
        )

    def count(self, is_public: bool) -> int:
        return len(self._logs[is_public])

    def _log(self, is_public: bool, index: int) -> dict[str, Any]:
        logs: list[dict[str, Any]] = self._logs[is_public]
        if index >= len(logs):
            raise DatabaseError(f"an effect lacks the log {index}; run `fastnode db check`")
        return logs[index]


def page_json(get: Callable[[bytes], bytes | None], is_public: bool, entries: bytes) -> bytes:
    if len(entries) % ENTRY_BYTES or not 1 <= len(entries) // ENTRY_BYTES <= PAGE_LOGS:
        raise ValueError(f"a page of {len(entries)} bytes")
    logs = []
    for block, tx, index, timestamp in _ENTRY.iter_unpack(entries):
        text = get(_EFFECT_KEY.pack(b"e", block, tx))
        if text is None:
            raise DatabaseError(f"transaction {tx} of block {block} lacks its effect; run `fastnode db check`")
        effect = LoggedEffect(text)
        if index >= effect.count(is_public):
            raise DatabaseError(f"transaction {tx} of block {block} lacks the log {index}; run `fastnode db check`")
        logs.append(effect.scoped(is_public, index, block, timestamp))
    return b"[" + b",".join(logs) + b"]"


def _quoted(value: bytes) -> str:
    return "0x" + value.hex()


def _text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
