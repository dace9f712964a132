"""Blocks and their transactions as JSON, in plain Python: the readable form of the block_text kernel.

The stub ``fastnode/_ext/wire/block_text.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container
from typing import Any, Final

__all__ = [
    "CHECKPOINTED",
    "DATA",
    "DEVELOPMENT",
    "EFFECT",
    "EMPTY_ARCHIVE",
    "HEADER",
    "JOINT",
    "RECEIPT",
    "RELEASE",
    "BlockQuestion",
    "Blocks",
    "TxQuestion",
    "block",
    "header",
    "mined",
]

RELEASE: Final = 0
JOINT: Final = 1
DEVELOPMENT: Final = 2
DATA: Final = 3
HEADER: Final = 4
CHECKPOINTED: Final = 5

RECEIPT: Final = 0
EFFECT: Final = 1

EMPTY_ARCHIVE: Final = b'{"root":"0x' + b"0" * 64 + b'","nextAvailableLeafIndex":0}'

#: Hash, archive root, checkpoint, index in it, slot, timestamp, transactions, length of the header.
_HEAD: Final = struct.Struct(">32s32sIIIQII")
#: Ends in the lengths of the first three of four fragments: header, archive, what L1 says; attestations.
_CHECKPOINT_HEAD: Final = struct.Struct(">32s32sIII32sIII")
_NUMBER_KEY: Final = struct.Struct(">cI")
#: Number and length of kept texts at most.
_KEPT_MAX: Final = 128
_KEPT_BYTES_MAX: Final = 8192
_EFFECT_KEY: Final = struct.Struct(">cII")
#: Block, index in it, revert code, block hash.
_TX_HEAD: Final = struct.Struct(">IIB32s")
_HASH_BYTES: Final = 32
_NUMBER_BYTES: Final = 4


class Blocks:
    def __init__(
        self,
        get: Callable[[bytes], bytes | None],
        tip: int,
        *,
        checkpointed: int = 0,
        proven: int = 0,
        finalized: int = 0,
        results: tuple[bytes, ...] = (),
    ) -> None:
        self._get, self.tip, self.results = get, tip, results
        self._tips = {b"finalized": finalized, b"proven": proven, b"checkpointed": checkpointed}
        self._kept: dict[bytes, bytes] = {}

    def read(self, key: bytes) -> bytes | None:
        found = self._kept.get(key)
        if found is None:
            found = self._get(key)
            if found is not None and len(found) <= _KEPT_BYTES_MAX:
                if len(self._kept) >= _KEPT_MAX:
                    self._kept.clear()
                self._kept[key] = found
        return found

    def text(self, form: int, number: int, options: Container[str] = ()) -> bytes | None:
        return _block(form, number, self._get, options) if 0 <= number <= self.tip else None

    def number_by_hash(self, block_hash: bytes) -> int | None:
        return self._number(_hash_key(b"H", block_hash))

    def number_by_archive(self, root: bytes) -> int | None:
        return self._number(_hash_key(b"A", root))

    def number_of(self, field: bytes) -> int | None:
        number = self.number_by_hash(field)
        return self.number_by_archive(field) if number is None else number

    def _number(self, key: bytes) -> int | None:
        found = self.read(key)
        if found is not None and len(found) != _NUMBER_BYTES:
            raise ValueError(f"a block number of {len(found)} bytes")
        return None if found is None else int.from_bytes(found, "big")

    def status(self, number: int) -> bytes:
        return next((name for name, tip in self._tips.items() if number <= tip), b"proposed")


class BlockQuestion:
    def __init__(
        self,
        form: int,
        find: Callable[..., int | None],
        *,
        named_form: int | None = None,
    ) -> None:
        self._form, self._named_form = form, form if named_form is None else named_form
        for each in (self._form, self._named_form):
            if each not in (RELEASE, JOINT, DEVELOPMENT, DATA, HEADER):
                raise ValueError(f"form {each} of a block")
        self._find = find

    def __call__(self, view: Any, block: Any = None, options: Container[str] | None = None) -> bytes | None:
        blocks, form = view.chain.blocks, self._form
        if type(block) is bytes:
            block = blocks.number_of(block)
        elif block is None:
            block = blocks.tip
        elif type(block) is not int:
            form = self._named_form if block.is_development_form else form
            block = self._find(view.chain, block)
        if block is None or not 0 <= block <= blocks.tip:
            return None
        if options is not None:
            return _block(DEVELOPMENT, block, blocks.read, options)
        if form != HEADER:
            return _block(form, block, blocks.read, ())
        record = blocks.read(_NUMBER_KEY.pack(b"b", block))
        if record is None:
            raise LookupError(f"no block {block}")
        return header(record)


def header(record: bytes) -> bytes:
    return _parts(record)[0]


def block(form: int, number: int, get: Callable[[bytes], bytes | None], options: Container[str] = ()) -> bytes | None:
    return _block(form, number, get, options)


def _block(form: int, number: int, get: Callable[[bytes], bytes | None], options: Container[str]) -> bytes | None:
    record = get(_NUMBER_KEY.pack(b"b", number))
    if record is None:
        raise LookupError(f"no block {number}")
    header_json, archive_json = _parts(record)
    block_hash, _, checkpoint, index, _, _, tx_count, _ = _HEAD.unpack_from(record)
    hash_text = block_hash.hex().encode()
    place = b'"checkpointNumber":%d,"indexWithinCheckpoint":%d' % (checkpoint, index)
    if form == CHECKPOINTED:
        found = _checkpoint(checkpoint, get)
        if found is None:
            return None
        text = _block(RELEASE, number, get, ())
        assert text is not None
        return b'{"checkpointNumber":%d,"block":%b,"l1":%b,"attestations":%b}' % (checkpoint, text, *found)
    if form in (RELEASE, JOINT):
        text = b'{"archive":%b,"header":%b,%b,%b' % (
            archive_json if number else EMPTY_ARCHIVE, header_json, _body(number, tx_count, get), place,
        )  # fmt: skip
        return text + b"}" if form == RELEASE else text + b',"hash":"0x%b","number":%d}' % (hash_text, number)
    if form == DEVELOPMENT:
        known = b'"hash":"0x%b",%b,"number":%d' % (hash_text, place, number)
        if "includeTransactions" in options:
            known += b"," + _body(number, tx_count, get)
        if "includeL1PublishInfo" in options or "includeAttestations" in options:
            known += _of_checkpoint(checkpoint, get, options)
    elif form == DATA:
        known = b'"blockHash":"0x%b",%b' % (hash_text, place)
    else:
        raise ValueError(f"form {form} of a block")
    return b'{"header":%b,"archive":%b,%b}' % (header_json, archive_json, known)


def _body(number: int, tx_count: int, get: Callable[[bytes], bytes | None]) -> bytes:
    return b'"body":{"txEffects":[%b]}' % b",".join(_effect(number, tx, get) for tx in range(tx_count))


def _checkpoint(number: int, get: Callable[[bytes], bytes | None]) -> tuple[bytes, bytes] | None:
    """L1's part of it, and its attestations; None while it is not complete."""
    record = get(_NUMBER_KEY.pack(b"c", number)) if number else None
    if record is None:
        return None
    if len(record) < _CHECKPOINT_HEAD.size:
        raise ValueError(f"a checkpoint record of {len(record)} bytes")
    *_, header_length, archive_length, length = _CHECKPOINT_HEAD.unpack_from(record)
    start = _CHECKPOINT_HEAD.size + header_length + archive_length
    if length < 1 or start + length > len(record):
        raise ValueError(f"a checkpoint record of {len(record)} bytes with fragments of {start + length}")
    return record[start : start + length], record[start + length :]


def _of_checkpoint(number: int, get: Callable[[bytes], bytes | None], options: Container[str]) -> bytes:
    found = _checkpoint(number, get)
    # L1's part is without its own bracket.
    l1, attestations = (b"false}", b"[]") if found is None else (b"true," + found[0][1:], found[1])
    text = b',"l1":{"published":' + l1 if "includeL1PublishInfo" in options else b""
    return text + b',"attestations":' + attestations if "includeAttestations" in options else text


def _parts(record: bytes) -> tuple[bytes, bytes]:
    if len(record) < _HEAD.size:
        raise ValueError(f"a block record of {len(record)} bytes")
    length = _HEAD.unpack_from(record)[-1]
    end = _HEAD.size + length
    if end > len(record):
        raise ValueError(f"a block record of {len(record)} bytes with a header of {length}")
    return record[_HEAD.size : end], record[end:]


def _effect(number: int, index: int, get: Callable[[bytes], bytes | None]) -> bytes:
    effect = get(_EFFECT_KEY.pack(b"e", number, index))
    if effect is None:
        raise LookupError(f"no effect {index} of block {number}")
    return effect


def _hash_key(letter: bytes, field: bytes) -> bytes:
    if len(field) != _HASH_BYTES:
        raise ValueError(f"a hash of {len(field)} bytes")
    return letter + field


class TxQuestion:
    def __init__(self, form: int, otherwise: Callable[[Any, bytes], bytes | None] | None = None) -> None:
        _require_tx_form(form)
        self._form, self._otherwise = form, otherwise

    def __call__(self, view: Any, tx_hash: bytes) -> bytes | None:
        found = mined(self._form, tx_hash, view.chain.blocks)
        return found if found is not None or self._otherwise is None else self._otherwise(view, tx_hash)


def _require_tx_form(form: int) -> None:
    if form not in (RECEIPT, EFFECT):
        raise ValueError(f"form {form} of a transaction")


def mined(form: int, tx_hash: bytes, blocks: Blocks) -> bytes | None:
    _require_tx_form(form)
    record = blocks.read(_hash_key(b"t", tx_hash))
    if record is None:
        return None
    if len(record) < _TX_HEAD.size:
        raise ValueError(f"a transaction record of {len(record)} bytes")
    number, index, revert_code, block_hash = _TX_HEAD.unpack_from(record)
    if form == EFFECT:
        return b'{"l2BlockHash":"0x%b","l2BlockNumber":%d,"txIndexInBlock":%d,"data":%b}' % (
            block_hash.hex().encode(), number, index, _effect(number, index, blocks.read),
        )  # fmt: skip
    if revert_code >= len(blocks.results):
        raise ValueError(f"a transaction record with revert code {revert_code}")
    return b'{"txHash":"0x%b","status":"%b","executionResult":"%b",%b' % (
        tx_hash.hex().encode(), blocks.status(number), blocks.results[revert_code], record[_TX_HEAD.size :],
    )  # fmt: skip
