"""Blocks, checkpoints and transactions as JSON, in plain Python: the readable form of the block_text kernel.

The stub ``fastnode/_ext/wire/block_text.pyi`` says what everything does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

from fastnode._ext.storage import layouts
from fastnode.errors import BlockPruned

__all__ = ["EMPTY_ARCHIVE", "BlockQuestion", "Blocks", "Form", "TxQuestion", "block", "header", "mined"]

#: Text before a part, the part, and the option that asks for it.
Form: TypeAlias = tuple[tuple[bytes, int, str | None], ...]

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
_SEGMENTS_MAX: Final = 15
_NUMBER_BYTES: Final = 4
_MAX_U32: Final = 2**32 - 1


class Blocks:
    def __init__(
        self,
        get: Callable[[bytes], bytes | None],
        tip: int,
        *,
        checkpointed: int = 0,
        proven: int = 0,
        finalized: int = 0,
        oldest_body: int = 1,
        results: tuple[bytes, ...] = (),
    ) -> None:
        self.oldest_body = oldest_body
        self.get, self.tip, self.results = get, tip, results
        self._tips = {b"finalized": finalized, b"proven": proven, b"checkpointed": checkpointed}
        self._kept: dict[bytes, bytes] = {}

    def read(self, key: bytes) -> bytes | None:
        found = self._kept.get(key)
        if found is None:
            found = self.get(key)
            if found is not None and len(found) <= _KEPT_BYTES_MAX:
                if len(self._kept) >= _KEPT_MAX:
                    self._kept.clear()
                self._kept[key] = found
        return found

    def text(self, form: Form, number: int, options: Container[str] = ()) -> bytes | None:
        if not 0 <= number <= self.tip:
            return None
        return _block(_checked(form), number, self.get, options, self.oldest_body)

    def checkpoint(self, form: Form, block_form: Form, number: int, options: Container[str] = ()) -> bytes | None:
        _checked(form), _checked(block_form)
        return _checkpoint(form, block_form, number, self, options) if 1 <= number <= _MAX_U32 else None

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
        form: Form,
        find: Callable[..., int | None],
        *,
        named_form: Form | None = None,
    ) -> None:
        self._form, self._named_form = _checked(form), _checked(form if named_form is None else named_form)
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
            return _block(self._named_form, block, blocks.read, options, blocks.oldest_body)
        return _block(form, block, blocks.read, (), blocks.oldest_body)


def header(record: bytes) -> bytes:
    return _parts(record)[0]


def block(form: Form, number: int, get: Callable[[bytes], bytes | None], options: Container[str] = ()) -> bytes | None:
    return _block(_checked(form), number, get, options, 1)


def _checked(form: Form) -> Form:
    if not 0 < len(form) <= _SEGMENTS_MAX:
        raise ValueError(f"a form of {len(form)} segments")
    for segment in form:
        if len(segment) != 3 or type(segment[0]) is not bytes or not 0 <= segment[1] <= layouts.PART_LAST:
            raise ValueError(f"a form with the segment {segment!r}")
    bodies = sum(part in (layouts.PART_BODY, layouts.PART_BLOCKS) for _, part, _ in form)
    if bodies > 1:
        raise ValueError(f"a form with {bodies} bodies")
    return form


def _require_body(number: int, oldest_body: int) -> None:
    if 0 < number < oldest_body:
        raise BlockPruned(number, oldest_body)


def _block(
    form: Form, number: int, get: Callable[[bytes], bytes | None], options: Container[str], oldest_body: int
) -> bytes | None:
    record = get(_NUMBER_KEY.pack(b"b", number))
    if record is None:
        raise LookupError(f"no block {number}")
    header_json, archive_json = _parts(record)
    block_hash, _, checkpoint, index, _, _, tx_count, _ = _HEAD.unpack_from(record)
    known = {
        layouts.PART_NOTHING: b"",
        layouts.PART_HEADER: header_json,
        layouts.PART_ARCHIVE: archive_json,
        layouts.PART_SENT_ARCHIVE: archive_json if number else EMPTY_ARCHIVE,
        layouts.PART_BLOCK_HASH: b'"0x%b"' % block_hash.hex().encode(),
        layouts.PART_BLOCK_NUMBER: b"%d" % number,
        layouts.PART_CHECKPOINT_NUMBER: b"%d" % checkpoint,
        layouts.PART_INDEX_WITHIN_CHECKPOINT: b"%d" % index,
    }
    text = b""
    for before, part, option in form:
        if option is not None and option not in options:
            continue
        if part == layouts.PART_BODY:
            _require_body(number, oldest_body)
            known[part] = b'{"txEffects":[%b]}' % b",".join(_effect(number, tx, get) for tx in range(tx_count))
        elif layouts.PART_L1 <= part <= layouts.PART_KNOWN_ATTESTATIONS:
            found = _of_checkpoint(part, _read_checkpoint(checkpoint, get))
            if found is None:
                return None
            known[part] = found
        elif part not in known:
            raise ValueError(f"a form of a block with part {part}")
        text += before + known[part]
    return text


class _Checkpoint(NamedTuple):
    """The record of a checkpoint."""

    out_hash: bytes
    start_block: int
    block_count: int
    fee_asset_price_modifier: bytes
    header_json: bytes
    archive_json: bytes
    l1_json: bytes
    attestations_json: bytes


def _read_checkpoint(number: int, get: Callable[[bytes], bytes | None]) -> _Checkpoint | None:
    """None while it is not complete."""
    record = get(_NUMBER_KEY.pack(b"c", number)) if number else None
    if record is None:
        return None
    if len(record) < _CHECKPOINT_HEAD.size:
        raise ValueError(f"a checkpoint record of {len(record)} bytes")
    _, out_hash, start, count, _, modifier, *lengths = _CHECKPOINT_HEAD.unpack_from(record)
    ends = list(accumulate(lengths, initial=_CHECKPOINT_HEAD.size))
    if lengths[2] < 1 or ends[-1] > len(record):
        raise ValueError(f"a checkpoint record of {len(record)} bytes with fragments of {ends[-1]}")
    fragments = [record[first:end] for first, end in zip(ends, (*ends[1:], len(record)), strict=True)]
    return _Checkpoint(out_hash, start, count, modifier, *fragments)


def _of_checkpoint(part: int, found: _Checkpoint | None) -> bytes | None:
    if found is None:
        return {layouts.PART_KNOWN_L1: b'{"published":false}', layouts.PART_KNOWN_ATTESTATIONS: b"[]"}.get(part)
    if part == layouts.PART_KNOWN_L1:
        return b'{"published":true,' + found.l1_json[1:]  # without its own bracket
    return found.l1_json if part == layouts.PART_L1 else found.attestations_json


def _checkpoint(form: Form, block_form: Form, number: int, blocks: Blocks, options: Container[str]) -> bytes | None:
    found = _read_checkpoint(number, blocks.get)
    if found is None:
        return None
    known = {
        layouts.PART_NOTHING: b"",
        layouts.PART_HEADER: found.header_json,
        layouts.PART_ARCHIVE: found.archive_json,
        layouts.PART_CHECKPOINT_NUMBER: b"%d" % number,
        layouts.PART_OUT_HASH: b'"0x%b"' % found.out_hash.hex().encode(),
        layouts.PART_START_BLOCK: b"%d" % found.start_block,
        layouts.PART_BLOCK_COUNT: b"%d" % found.block_count,
        layouts.PART_FEE_ASSET_PRICE_MODIFIER: b'"%d"'
        % int.from_bytes(found.fee_asset_price_modifier, "big", signed=True),
        **{part: _of_checkpoint(part, found) for part in range(layouts.PART_L1, layouts.PART_KNOWN_ATTESTATIONS + 1)},
    }
    text = b""
    for before, part, option in form:
        if option is not None and option not in options:
            continue
        if part == layouts.PART_BLOCKS:
            known[part] = b"[%b]" % b",".join(_blocks_of(found, block_form, blocks, options))
        elif part not in known:
            raise ValueError(f"a form of a checkpoint with part {part}")
        text += before + (known[part] or b"")
    return text


def _blocks_of(checkpoint: _Checkpoint, form: Form, blocks: Blocks, options: Container[str]) -> Iterator[bytes]:
    for number in range(checkpoint.start_block, checkpoint.start_block + checkpoint.block_count):
        text = _block(form, number, blocks.get, options, blocks.oldest_body)
        if text is None:
            raise LookupError(f"no checkpoint of block {number}")
        yield text


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
    def __init__(self, form: Form, otherwise: Callable[[Any, bytes], bytes | None] | None = None) -> None:
        self._form, self._otherwise = _checked(form), otherwise

    def __call__(self, view: Any, tx_hash: bytes) -> bytes | None:
        found = mined(self._form, tx_hash, view.chain.blocks)
        return found if found is not None or self._otherwise is None else self._otherwise(view, tx_hash)


def mined(form: Form, tx_hash: bytes, blocks: Blocks) -> bytes | None:
    _checked(form)
    record = blocks.read(_hash_key(b"t", tx_hash))
    if record is None:
        return None
    if len(record) < _TX_HEAD.size:
        raise ValueError(f"a transaction record of {len(record)} bytes")
    number, index, revert_code, block_hash = _TX_HEAD.unpack_from(record)
    known = {
        layouts.PART_NOTHING: b"",
        layouts.PART_TX_HASH: b'"0x%b"' % tx_hash.hex().encode(),
        layouts.PART_BLOCK_HASH: b'"0x%b"' % block_hash.hex().encode(),
        layouts.PART_BLOCK_NUMBER: b"%d" % number,
        layouts.PART_TX_INDEX: b"%d" % index,
        layouts.PART_TX_STATUS: b'"%b"' % blocks.status(number),
        layouts.PART_STORED_RECEIPT: record[_TX_HEAD.size : -1],  # without its bracket
    }
    text = b""
    for before, part, _ in form:
        if part == layouts.PART_EFFECT:
            _require_body(number, blocks.oldest_body)
            known[part] = _effect(number, index, blocks.read)
        elif part == layouts.PART_EXECUTION_RESULT:
            if revert_code >= len(blocks.results):
                raise ValueError(f"a transaction record with revert code {revert_code}")
            known[part] = b'"%b"' % blocks.results[revert_code]
        elif part not in known:
            raise ValueError(f"a form of a transaction with part {part}")
        text += before + known[part]
    return text
