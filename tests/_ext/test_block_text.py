"""Blocks and their transactions as JSON: the kernel, its twin, and the records that are put together from values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import block_text as twin
from fastnode.api import chain_records as records
from fastnode.archiver.layout import TRANSACTION, block_key, effect_key
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredTransaction
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


# ---- transactions --------------------------------------------------------------------------------

RESULTS = (b"success", b"app_logic_reverted", b"teardown_reverted", b"both_reverted")


def blocks_with(module: Any, transaction: StoredTransaction, tx_hash: bytes, effect: bytes | None, **tips: int) -> Any:
    values = {TRANSACTION + tx_hash: transaction.encode()}
    if effect is not None:
        values[effect_key(transaction.block_number, transaction.index_in_block)] = effect
    return module.Blocks(values.get, 9, results=RESULTS, **tips)


@given(numbers, numbers, st.integers(0, 3), hashes, hashes, texts, texts, st.tuples(*[st.integers(-1, 1)] * 3))
def test_a_mined_transaction_is_the_one_of_its_values(
    number: int, index: int, revert_code: int, block_hash: bytes, tx_hash: bytes, tail: bytes, effect: bytes,
    behind: tuple[int, int, int],
) -> None:  # fmt: skip
    transaction = StoredTransaction(number, index, revert_code, block_hash, tail)
    finalized, proven, checkpointed = sorted(min(max(number + each, 0), 2**32 - 1) for each in behind)
    reached = [
        name
        for name, tip in (("checkpointed", checkpointed), ("proven", proven), ("finalized", finalized))
        if number <= tip
    ]
    receipt = b'{"txHash":"0x%b","status":"%b","executionResult":"%b",%b' % (
        tx_hash.hex().encode(), (reached or ["proposed"])[-1].encode(), RESULTS[revert_code], tail,
    )  # fmt: skip
    indexed = b'{"l2BlockHash":"0x%b","l2BlockNumber":%d,"txIndexInBlock":%d,"data":%b}' % (
        block_hash.hex().encode(), number, index, effect,
    )  # fmt: skip
    for module in MODULES:
        blocks = blocks_with(
            module, transaction, tx_hash, effect, checkpointed=checkpointed, proven=proven, finalized=finalized
        )
        for _ in range(2):  # read, and kept
            assert module.mined(module.RECEIPT, tx_hash, blocks) == receipt
            assert module.mined(module.EFFECT, tx_hash, blocks) == indexed


@pytest.mark.parametrize("module", MODULES)
def test_a_transaction_that_no_block_has_is_asked_of_who_knows_the_others(module: Any) -> None:
    transaction = StoredTransaction(7, 0, 0, bytes(32), b"}")
    view = SimpleNamespace(chain=SimpleNamespace(blocks=blocks_with(module, transaction, b"m" * 32, b"effect")))
    asked: list[Any] = []

    def otherwise(*arguments: Any) -> bytes:
        asked.append(arguments)
        return b"otherwise"

    receipt = module.TxQuestion(module.RECEIPT, otherwise)
    assert receipt(view, b"m" * 32) == module.mined(module.RECEIPT, b"m" * 32, view.chain.blocks)
    assert asked == []
    assert receipt(view, b"u" * 32) == b"otherwise"
    assert asked == [(view, b"u" * 32)]
    effect = module.TxQuestion(module.EFFECT)
    assert effect(view, b"m" * 32) == module.mined(module.EFFECT, b"m" * 32, view.chain.blocks)
    assert effect(view, b"u" * 32) is module.mined(module.EFFECT, b"u" * 32, view.chain.blocks) is None


@pytest.mark.parametrize("module", MODULES)
def test_a_transaction_that_does_not_fit_is_refused(module: Any) -> None:
    tx_hash = b"m" * 32
    transaction = StoredTransaction(7, 1, 4, bytes(32), b"")
    blocks = blocks_with(module, transaction, tx_hash, None)
    with pytest.raises(ValueError, match="revert code 4"):
        module.mined(module.RECEIPT, tx_hash, blocks)
    with pytest.raises(LookupError, match="effect 1 of block 7"):
        module.mined(module.EFFECT, tx_hash, blocks)
    short = module.Blocks({TRANSACTION + tx_hash: transaction.encode()[:-1]}.get, 9)
    for form in (module.RECEIPT, module.EFFECT):
        with pytest.raises(ValueError, match="record of 40 bytes"):
            module.mined(form, tx_hash, short)
        for wrong in (b"", b"m" * 31, b"m" * 33):
            with pytest.raises(ValueError, match="hash of"):
                module.mined(form, wrong, blocks)
    for form in (-1, 2):
        with pytest.raises(ValueError, match="form"):
            module.mined(form, tx_hash, blocks)
        with pytest.raises(ValueError, match="form"):
            module.TxQuestion(form)
