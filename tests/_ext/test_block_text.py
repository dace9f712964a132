"""Blocks as JSON: the kernel, its twin, and the records that are put together from values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import block_text as twin
from fastnode.api import chain_records as records
from fastnode.archiver.layout import block_key, effect_key
from fastnode.archiver.records import BlockInfo, StoredBlock
from fastnode.kernels import block_text as kernel

MODULES = [kernel, twin]
hashes = st.binary(min_size=32, max_size=32)
numbers = st.integers(0, 2**32 - 1)
texts = st.binary(max_size=400)


class Chain:
    """What the records ask of a view."""

    def __init__(self, number: int, effects: list[bytes]) -> None:
        self.values: dict[bytes, bytes] = {effect_key(number, index): effect for index, effect in enumerate(effects)}
        self._effects = effects

    def body_of(self, info: BlockInfo) -> bytes:
        return b'{"txEffects":[' + b",".join(self._effects) + b"]}"


@given(numbers, hashes, hashes, numbers, numbers, numbers, st.integers(0, 2**64 - 1), texts, texts, st.lists(texts))
def test_a_block_is_the_one_of_its_values(
    number: int, block_hash: bytes, root: bytes, checkpoint: int, index: int, slot: int, timestamp: int, header: bytes,
    archive: bytes, effects: list[bytes],
) -> None:  # fmt: skip
    info = BlockInfo(number, block_hash, root, checkpoint, index, slot, timestamp, len(effects))
    block = StoredBlock(info, header, archive)
    chain: Any = Chain(number, effects)
    record = chain.values[block_key(number)] = block.encode()
    for module in MODULES:
        assert module.header(record) == header
        assert module.block(module.RELEASE, number, chain.values.get) == records.release_block(chain, block)
        assert module.block(module.JOINT, number, chain.values.get) == records.joint_block(chain, block)
        development = records.development_block(chain, block, frozenset(), None)
        assert module.block(module.DEVELOPMENT, number, chain.values.get) == development
        data = b'{"header":%b,"archive":%b,"blockHash":"0x%b","checkpointNumber":%d,"indexWithinCheckpoint":%d}' % (
            header, archive, block_hash.hex().encode(), checkpoint, index,
        )  # fmt: skip
        assert module.block(module.DATA, number, chain.values.get) == data


@pytest.mark.parametrize("module", MODULES)
def test_what_does_not_fit_is_refused(module: Any) -> None:
    info = BlockInfo(7, bytes(32), bytes(32), 1, 2, 3, 4, 1)
    record = StoredBlock(info, b"header", b"").encode()
    for damaged in (b"", record[:91], record[:-1]):
        with pytest.raises(ValueError, match="block record"):
            module.header(damaged)
        with pytest.raises(ValueError, match="block record"):
            module.block(module.RELEASE, 7, {block_key(7): damaged}.get)
    with pytest.raises(ValueError, match="form"):
        module.block(4, 7, {block_key(7): record}.get)
    with pytest.raises(LookupError, match="no block 7"):
        module.block(module.RELEASE, 7, {block_key(6): record}.get)
    with pytest.raises(LookupError, match="effect 0 of block 7"):
        module.block(module.RELEASE, 7, {block_key(7): record}.get)


@pytest.mark.parametrize("module", MODULES)
def test_a_question_reads_the_blocks_of_its_view(module: Any) -> None:
    chain = Chain(7, [])
    block = StoredBlock(BlockInfo(7, bytes(32), bytes(32), 1, 2, 3, 4, 0), b"header", b"archive")
    chain.values[block_key(7)] = block.encode()
    blocks = module.Blocks(chain.values.get, 8)
    assert blocks.tip == 8
    view = SimpleNamespace(chain=SimpleNamespace(blocks=blocks))
    asked: list[Any] = []

    def otherwise(*arguments: Any) -> bytes:
        asked.append(arguments)
        return b"otherwise"

    for form in (module.RELEASE, module.JOINT, module.DEVELOPMENT, module.DATA):
        assert module.BlockQuestion(form, otherwise)(view, 7) == module.block(form, 7, chain.values.get)
    header = module.BlockQuestion(module.HEADER, otherwise)
    assert header(view, 7) == b"header"
    assert header(view, 9) is header(view, -1) is header(view, 1 << 70) is None
    assert asked == []
    assert header(view) == header(view, "tip") == header(view, True) == header(view, 7, frozenset()) == b"otherwise"
    assert asked == [(view, None), (view, "tip"), (view, True), (view, 7, frozenset())]
    for form in (module.RELEASE, module.HEADER):
        with pytest.raises(LookupError, match="no block 8"):
            module.BlockQuestion(form, otherwise)(view, 8)
    for form in (-1, 5):
        with pytest.raises(ValueError, match="form"):
            module.BlockQuestion(form, otherwise)


@pytest.mark.parametrize("module", MODULES)
def test_what_was_read_last_is_kept_within_bounds(module: Any) -> None:
    chain = Chain(0, [])
    for number in range(300):
        info = BlockInfo(number, bytes(32), bytes(32), 1, 2, 3, 4, 0)
        chain.values[block_key(number)] = StoredBlock(
            info, b"%d" % number, b"x" * (9000 if number == 299 else 9)
        ).encode()
    read: list[bytes] = []

    def get(key: bytes) -> bytes | None:
        read.append(key)
        return chain.values.get(key)

    view = SimpleNamespace(chain=SimpleNamespace(blocks=module.Blocks(get, 400)))
    header = module.BlockQuestion(module.HEADER, get)
    for _ in range(2):
        assert [header(view, number) for number in range(100)] == [b"%d" % number for number in range(100)]
    assert module.BlockQuestion(module.DATA, get)(view, 7) == module.block(module.DATA, 7, chain.values.get)
    assert len(read) == 100
    for _ in range(2):
        assert header(view, 299) == b"299"  # too long
        with pytest.raises(LookupError):
            header(view, 300)
    assert len(read) == 104
    assert [header(view, number) for number in range(299)] == [b"%d" % number for number in range(299)]
    assert header(view, 0) == b"0"
    assert read.count(block_key(0)) == 2  # others have taken its place
