"""Blocks and their transactions as JSON: the kernel, its twin, and the records that are put together from values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import block_text as twin
from fastnode.archiver import forms
from fastnode.archiver.layout import (
    BLOCK_BY_ARCHIVE,
    BLOCK_BY_HASH,
    TRANSACTION,
    block_key,
    checkpoint_key,
    effect_key,
    encode_number,
)
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredCheckpoint, StoredTransaction
from fastnode.errors import BlockPruned
from fastnode.kernels import block_text as kernel
from fastnode.kernels import layouts

MODULES = [kernel, twin]
EMPTY_ARCHIVE = b'{"root":"0x' + b"0" * 64 + b'","nextAvailableLeafIndex":0}'
#: The last one is known, but not of a block.
BENT_FORMS: list[Any] = [
    (),
    ((b"{", -1, None),),
    ((b"{", layouts.PART_LAST + 1, None),),
    (("{", 0, None),),
    ((b"{", 0),),
    ((b"{", 0, None),) * 16,
    ((b"", layouts.PART_BODY, None),) * 2,
    ((b"{", layouts.PART_TX_HASH, None),),
]
hashes = st.binary(min_size=32, max_size=32)
numbers = st.integers(0, 2**32 - 1)
texts = st.binary(max_size=400)


def values_with(number: int, effects: list[bytes]) -> dict[bytes, bytes]:
    """Entries of a block in a chain database, without its record."""
    return {effect_key(number, index): effect for index, effect in enumerate(effects)}


@given(numbers, hashes, hashes, numbers, numbers, numbers, st.integers(0, 2**64 - 1), texts, texts, st.lists(texts))
def test_a_block_is_the_one_of_its_values(
    number: int, block_hash: bytes, root: bytes, checkpoint: int, index: int, slot: int, timestamp: int, header: bytes,
    archive: bytes, effects: list[bytes],
) -> None:  # fmt: skip
    info = BlockInfo(number, block_hash, root, checkpoint, index, slot, timestamp, len(effects))
    values = values_with(number, effects)
    record = values[block_key(number)] = StoredBlock(info, header, archive).encode()
    named = b'"hash":"0x%b"' % block_hash.hex().encode()
    place = b'"checkpointNumber":%d,"indexWithinCheckpoint":%d' % (checkpoint, index)
    of_release = b'"archive":%b,"header":%b,"body":{"txEffects":[%b]},%b' % (
        archive if number else EMPTY_ARCHIVE, header, b",".join(effects), place,
    )  # fmt: skip
    data = b'"header":%b,"archive":%b' % (header, archive)
    for module in MODULES:
        assert module.header(record) == header
        assert module.block(forms.L2_BLOCK, number, values.get) == b"{%b}" % of_release
        assert module.block(forms.JOINT_BLOCK, number, values.get) == b'{%b,%b,"number":%d}' % (
            of_release,
            named,
            number,
        )
        of_development = b'{%b,%b,%b,"number":%d}' % (data, named, place, number)
        assert module.block(forms.BLOCK_RESPONSE, number, values.get) == of_development
        assert module.block(forms.BLOCK_DATA, number, values.get) == b'{%b,"blockHash":"0x%b",%b}' % (
            data, block_hash.hex().encode(), place,
        )  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_what_does_not_fit_is_refused(module: Any) -> None:
    info = BlockInfo(7, bytes(32), bytes(32), 1, 2, 3, 4, 1)
    record = StoredBlock(info, b"header", b"").encode()
    for damaged in (b"", record[:91], record[:-1]):
        with pytest.raises(ValueError, match="block record"):
            module.header(damaged)
        with pytest.raises(ValueError, match="block record"):
            module.block(forms.L2_BLOCK, 7, {block_key(7): damaged}.get)
    for wrong in BENT_FORMS:
        with pytest.raises(ValueError, match="form"):
            module.block(wrong, 7, {block_key(7): record}.get)
    with pytest.raises(LookupError, match="no block 7"):
        module.block(forms.L2_BLOCK, 7, {block_key(6): record}.get)
    with pytest.raises(LookupError, match="effect 0 of block 7"):
        module.block(forms.L2_BLOCK, 7, {block_key(7): record}.get)


HASH, ROOT = b"h" * 32, b"r" * 32


def view_of_block_7(module: Any, tip: int = 8) -> tuple[SimpleNamespace, dict[bytes, bytes]]:
    block = StoredBlock(BlockInfo(7, HASH, ROOT, 1, 2, 3, 4, 0), b"header", b"archive")
    values = {block_key(7): block.encode(), BLOCK_BY_HASH + HASH: encode_number(7)}
    values[BLOCK_BY_ARCHIVE + ROOT] = encode_number(7)
    return SimpleNamespace(chain=SimpleNamespace(blocks=module.Blocks(values.get, tip))), values


@pytest.mark.parametrize("module", MODULES)
def test_a_question_reads_the_blocks_of_its_view(module: Any) -> None:
    view, values = view_of_block_7(module)
    assert view.chain.blocks.tip == 8

    def never(*_: Any) -> None:
        raise AssertionError

    for form in (forms.L2_BLOCK, forms.JOINT_BLOCK, forms.BLOCK_RESPONSE, forms.BLOCK_DATA):
        expected = module.block(form, 7, values.get)
        question = module.BlockQuestion(form, never, named_form=forms.BLOCK_HEADER)
        assert question(view, 7) == question(view, HASH) == question(view, ROOT) == expected
        assert question(view, b"x" * 32) is None
    header = module.BlockQuestion(forms.BLOCK_HEADER, never)
    assert header(view, 7) == b"header"
    assert header(view, 9) is header(view, -1) is header(view, 1 << 70) is None
    for form in (forms.L2_BLOCK, forms.BLOCK_HEADER):
        with pytest.raises(LookupError, match="no block 8"):
            module.BlockQuestion(form, never)(view, 8)
    with pytest.raises(ValueError, match="a hash of 31 bytes"):
        header(view, bytes(31))
    for form in BENT_FORMS[:-1]:
        with pytest.raises(ValueError, match="form"):
            module.BlockQuestion(form, never)
        with pytest.raises(ValueError, match="form"):
            module.BlockQuestion(forms.L2_BLOCK, never, named_form=form)


@pytest.mark.parametrize("module", MODULES)
def test_a_block_that_is_named_otherwise_is_asked_for(module: Any) -> None:
    view, values = view_of_block_7(module, tip=7)
    asked: list[Any] = []

    def find(chain: Any, block: Any) -> int | None:
        assert chain is view.chain
        asked.append(block)
        return block.number  # type: ignore[no-any-return]

    question = module.BlockQuestion(forms.L2_BLOCK, find, named_form=forms.BLOCK_DATA)
    named = SimpleNamespace(number=7, is_development_form=False)
    assert question(view, named) == module.block(forms.L2_BLOCK, 7, values.get)
    other = SimpleNamespace(number=7, is_development_form=True)
    assert question(view, other) == module.block(forms.BLOCK_DATA, 7, values.get)
    unknown = [SimpleNamespace(number=number, is_development_form=False) for number in (None, 8, -1, 1 << 70)]
    assert [question(view, each) for each in unknown] == [None] * 4
    assert asked == [named, other, *unknown]
    newest = module.BlockQuestion(forms.BLOCK_HEADER, find)
    assert newest(view) == newest(view, None) == b"header"
    options = frozenset({"includeTransactions"})
    with_options = module.block(forms.BLOCK_RESPONSE, 7, values.get, options)
    assert with_options != module.block(forms.BLOCK_RESPONSE, 7, values.get)
    question = module.BlockQuestion(forms.L2_BLOCK, find, named_form=forms.BLOCK_RESPONSE)
    for block in (7, HASH, named, other):
        assert question(view, block, options) == with_options
    assert question(view, 8, options) is None
    assert question(view, 7, None) == module.block(forms.L2_BLOCK, 7, values.get)


TRANSACTIONS, L1, ATTESTATIONS = "includeTransactions", "includeL1PublishInfo", "includeAttestations"


@given(
    texts,
    texts,
    st.binary(max_size=400),
    texts,
    st.lists(texts, max_size=3),
    st.sets(st.sampled_from((TRANSACTIONS, L1, ATTESTATIONS, "onlyCheckpointed"))),
    st.booleans(),
    numbers,
)
def test_options_add_to_the_one_form_that_has_them(
    header: bytes, archive: bytes, l1: bytes, attestations: bytes, effects: list[bytes], options: set[str],
    is_complete: bool, checkpoint: int,
) -> None:  # fmt: skip
    info = BlockInfo(7, bytes(32), bytes(32), checkpoint, 2, 3, 4, len(effects))
    values = {**values_with(7, effects), block_key(7): StoredBlock(info, b"header", b"archive").encode()}
    if is_complete and checkpoint:
        stored = StoredCheckpoint(
            checkpoint, bytes(32), bytes(32), 7, 1, 3, -1, header, archive, b"{" + l1, attestations
        )
        values[checkpoint_key(checkpoint)] = stored.encode()
        of_l1 = b'{"published":true,' + l1
    else:
        of_l1, attestations = b'{"published":false}', b"[]"
    added = b""
    if TRANSACTIONS in options:
        added += b',"body":{"txEffects":[%b]}' % b",".join(effects)
    if L1 in options:
        added += b',"l1":' + of_l1
    if ATTESTATIONS in options:
        added += b',"attestations":' + attestations
    for module in MODULES:
        plain = module.block(forms.BLOCK_RESPONSE, 7, values.get)
        assert module.block(forms.BLOCK_RESPONSE, 7, values.get, options) == plain[:-1] + added + b"}"
        blocks = module.Blocks(values.get, 7)
        assert blocks.text(forms.BLOCK_RESPONSE, 7, options) == plain[:-1] + added + b"}"
        for form in (forms.L2_BLOCK, forms.JOINT_BLOCK, forms.BLOCK_DATA, forms.CHECKPOINTED_BLOCK):
            assert module.block(form, 7, values.get, options) == module.block(form, 7, values.get)
        checkpointed = None
        if checkpoint_key(checkpoint) in values:
            block = module.block(forms.L2_BLOCK, 7, values.get)
            known = b'"l1":{%b,"attestations":%b' % (l1, attestations)
            checkpointed = b'{"checkpointNumber":%d,"block":%b,%b}' % (checkpoint, block, known)
        assert module.block(forms.CHECKPOINTED_BLOCK, 7, values.get) == checkpointed


@pytest.mark.parametrize("module", MODULES)
def test_a_damaged_checkpoint_is_told_when_it_is_needed(module: Any) -> None:
    block = StoredBlock(BlockInfo(7, HASH, ROOT, 5, 2, 3, 4, 0), b"header", b"archive").encode()
    whole = StoredCheckpoint(5, HASH, ROOT, 7, 1, 3, 0, b"header", b"archive", b"{}", b"").encode()
    empty = StoredCheckpoint(5, HASH, ROOT, 7, 1, 3, 0, b"header", b"archive", b"", b"[]").encode()
    for damaged in (b"", whole[:119], whole[:-1], empty):
        values = {block_key(7): block, checkpoint_key(5): damaged}
        for option in (L1, ATTESTATIONS):
            with pytest.raises(ValueError, match="checkpoint record"):
                module.block(forms.BLOCK_RESPONSE, 7, values.get, {option})
        with pytest.raises(ValueError, match="checkpoint record"):
            module.block(forms.CHECKPOINTED_BLOCK, 7, values.get)
        module.block(forms.BLOCK_RESPONSE, 7, values.get, {TRANSACTIONS})


CHECKPOINT_ROWS = {
    "number": layouts.PART_CHECKPOINT_NUMBER, "header": layouts.PART_HEADER, "archive": layouts.PART_ARCHIVE,
    "outHash": layouts.PART_OUT_HASH, "start": layouts.PART_START_BLOCK, "count": layouts.PART_BLOCK_COUNT,
    "modifier": layouts.PART_FEE_ASSET_PRICE_MODIFIER, "again": layouts.PART_FEE_ASSET_PRICE_MODIFIER,
    "blocks": layouts.PART_BLOCKS, "l1": layouts.PART_L1, "attestations": layouts.PART_KNOWN_ATTESTATIONS,
}  # fmt: skip
CHECKPOINT = forms.segments(forms.Row(name, "any", part) for name, part in CHECKPOINT_ROWS.items())
SHORT_CHECKPOINT = forms.segments(
    (
        forms.Row("number", "number", layouts.PART_CHECKPOINT_NUMBER),
        forms.Row("blocks", "any", layouts.PART_BLOCKS, "includeBlocks"),
        forms.Row("l1", "any", layouts.PART_KNOWN_L1, "includeL1PublishInfo"),
    )
)


@given(
    st.integers(1, 2**32 - 1), hashes, st.integers(0, 2**32 - 4), st.integers(0, 3), st.integers(-(2**255), 2**255 - 1),
    texts, texts, texts, texts, texts,
)  # fmt: skip
def test_a_checkpoint_is_the_one_of_its_values(
    number: int, out_hash: bytes, start: int, count: int, modifier: int, header: bytes, archive: bytes, l1: bytes,
    attestations: bytes, effect: bytes,
) -> None:  # fmt: skip
    stored = StoredCheckpoint(
        number, HASH, out_hash, start, count, 3, modifier, header, archive, b"{" + l1, attestations
    )
    values = {checkpoint_key(number): stored.encode()}
    for each in range(start, start + count):
        info = BlockInfo(each, HASH, ROOT, number, 2, 3, 4, 1)
        values[block_key(each)] = StoredBlock(info, header, archive).encode()
        values |= values_with(each, [effect])
    for module in MODULES:
        blocks = module.Blocks(values.get, 2**32 - 1)
        inner = [module.block(forms.L2_BLOCK, each, values.get) for each in range(start, start + count)]
        expected = (
            b'{"number":%d,"header":%b,"archive":%b,"outHash":"0x%b","start":%d,"count":%d,"modifier":"%d","again":"%d",'
            b'"blocks":[%b],"l1":{%b,"attestations":%b}'
        )
        assert blocks.checkpoint(CHECKPOINT, forms.L2_BLOCK, number) == expected % (
            number, header, archive, out_hash.hex().encode(), start, count, modifier, modifier, b",".join(inner), l1,
            attestations,
        )  # fmt: skip
        options = {"includeTransactions", "includeBlocks", "includeL1PublishInfo"}
        inner = [
            module.block(forms.BLOCK_IN_CHECKPOINT, each, values.get, options) for each in range(start, start + count)
        ]
        assert blocks.checkpoint(SHORT_CHECKPOINT, forms.BLOCK_IN_CHECKPOINT, number) == b'{"number":%d}' % number
        assert blocks.checkpoint(SHORT_CHECKPOINT, forms.BLOCK_IN_CHECKPOINT, number, options) == (
            b'{"number":%d,"blocks":[%b],"l1":{"published":true,%b}' % (number, b",".join(inner), l1)
        )


@pytest.mark.parametrize("module", MODULES)
def test_a_checkpoint_that_does_not_fit_is_refused(module: Any) -> None:
    whole = StoredCheckpoint(5, HASH, ROOT, 7, 1, 3, 0, b"header", b"archive", b"{}", b"").encode()
    block = StoredBlock(BlockInfo(7, HASH, ROOT, 6, 2, 3, 4, 1), b"header", b"archive").encode()
    values = {checkpoint_key(5): whole, block_key(7): block, effect_key(7, 0): b"{}"}
    blocks = module.Blocks(values.get, 7)
    with pytest.raises(BlockPruned):
        module.Blocks(values.get, 7, oldest_body=8).checkpoint(CHECKPOINT, forms.L2_BLOCK, 5)
    for number in (0, 4, 6, -1, 2**32, 1 << 70):
        assert blocks.checkpoint(CHECKPOINT, forms.L2_BLOCK, number) is None
    with pytest.raises(LookupError, match="no checkpoint of block 7"):  # that says it is in another one
        blocks.checkpoint(CHECKPOINT, forms.CHECKPOINTED_BLOCK, 5)
    for wrong in (*BENT_FORMS, ((b"", layouts.PART_BLOCKS, None),) * 2):
        with pytest.raises(ValueError, match="form"):
            blocks.checkpoint(wrong, forms.BLOCK_DATA, 5)
        with pytest.raises(ValueError, match="form"):
            blocks.checkpoint(CHECKPOINT, wrong, 5)
    del values[block_key(7)]
    with pytest.raises(LookupError, match="no block 7"):
        blocks.checkpoint(CHECKPOINT, forms.BLOCK_DATA, 5)
    for damaged in (b"", whole[:119], whole[:-1]):
        values[checkpoint_key(5)] = damaged
        with pytest.raises(ValueError, match="checkpoint record"):
            blocks.checkpoint(SHORT_CHECKPOINT, forms.BLOCK_DATA, 5, {"includeL1PublishInfo"})


@pytest.mark.parametrize("module", MODULES)
def test_blocks_are_found_by_their_hash_and_their_root(module: Any) -> None:
    view, values = view_of_block_7(module)
    blocks = view.chain.blocks
    assert blocks.number_by_hash(HASH) == blocks.number_by_archive(ROOT) == 7
    assert blocks.number_by_hash(ROOT) is blocks.number_by_archive(HASH) is blocks.number_of(b"x" * 32) is None
    assert blocks.number_of(HASH) == blocks.number_of(ROOT) == 7
    assert blocks.text(forms.BLOCK_DATA, 7) == module.block(forms.BLOCK_DATA, 7, values.get)
    assert (
        blocks.text(forms.BLOCK_DATA, 9)
        is blocks.text(forms.BLOCK_DATA, -1)
        is blocks.text(forms.BLOCK_DATA, 1 << 70)
        is None
    )
    with pytest.raises(LookupError, match="no block 8"):
        blocks.text(forms.BLOCK_DATA, 8)
    for ask in (blocks.number_by_hash, blocks.number_by_archive, blocks.number_of):
        with pytest.raises(ValueError, match="a hash of 33 bytes"):
            ask(bytes(33))
    values[BLOCK_BY_HASH + b"y" * 32] = b"12345"
    with pytest.raises(ValueError, match="a block number of 5 bytes"):
        blocks.number_by_hash(b"y" * 32)


@pytest.mark.parametrize("module", MODULES)
def test_what_was_read_last_is_kept_within_bounds(module: Any) -> None:
    values: dict[bytes, bytes] = {}
    for number in range(300):
        info = BlockInfo(number, bytes(32), bytes(32), 1, 2, 3, 4, 0)
        values[block_key(number)] = StoredBlock(info, b"%d" % number, b"x" * (9000 if number == 299 else 9)).encode()
    read: list[bytes] = []

    def get(key: bytes) -> bytes | None:
        read.append(key)
        return values.get(key)

    view = SimpleNamespace(chain=SimpleNamespace(blocks=module.Blocks(get, 400)))
    header = module.BlockQuestion(forms.BLOCK_HEADER, get)
    for _ in range(2):
        assert [header(view, number) for number in range(100)] == [b"%d" % number for number in range(100)]
    assert module.BlockQuestion(forms.BLOCK_DATA, get)(view, 7) == module.block(forms.BLOCK_DATA, 7, values.get)
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

#: A record of its own, so that a member more in receipts changes nothing here.
RECEIPT = forms.segments(
    (
        forms.Row("txHash", "Fr", layouts.PART_TX_HASH),
        forms.Row("status", "string", layouts.PART_TX_STATUS),
        forms.Row("executionResult", "string", layouts.PART_EXECUTION_RESULT),
        forms.Row("stored", "any", stored=lambda mined: b""),
        forms.Row("index", "number", layouts.PART_TX_INDEX),
    )
)
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
    transaction = StoredTransaction(number, index, revert_code, block_hash, tail + b"}")
    finalized, proven, checkpointed = sorted(min(max(number + each, 0), 2**32 - 1) for each in behind)
    reached = [
        name
        for name, tip in (("checkpointed", checkpointed), ("proven", proven), ("finalized", finalized))
        if number <= tip
    ]
    receipt = b'{"txHash":"0x%b","status":"%b","executionResult":"%b",%b,"index":%d}' % (
        tx_hash.hex().encode(), (reached or ["proposed"])[-1].encode(), RESULTS[revert_code], tail, index,
    )  # fmt: skip
    indexed = b'{"l2BlockHash":"0x%b","l2BlockNumber":%d,"txIndexInBlock":%d,"data":%b}' % (
        block_hash.hex().encode(), number, index, effect,
    )  # fmt: skip
    for module in MODULES:
        blocks = blocks_with(
            module, transaction, tx_hash, effect, checkpointed=checkpointed, proven=proven, finalized=finalized
        )
        for _ in range(2):  # read, and kept
            assert module.mined(RECEIPT, tx_hash, blocks) == receipt
            assert module.mined(forms.INDEXED_EFFECT, tx_hash, blocks) == indexed


@pytest.mark.parametrize("module", MODULES)
def test_a_transaction_that_no_block_has_is_asked_of_who_knows_the_others(module: Any) -> None:
    transaction = StoredTransaction(7, 0, 0, bytes(32), b"}")
    view = SimpleNamespace(chain=SimpleNamespace(blocks=blocks_with(module, transaction, b"m" * 32, b"effect")))
    asked: list[Any] = []

    def otherwise(*arguments: Any) -> bytes:
        asked.append(arguments)
        return b"otherwise"

    receipt = module.TxQuestion(RECEIPT, otherwise)
    assert receipt(view, b"m" * 32) == module.mined(RECEIPT, b"m" * 32, view.chain.blocks)
    assert asked == []
    assert receipt(view, b"u" * 32) == b"otherwise"
    assert asked == [(view, b"u" * 32)]
    effect = module.TxQuestion(forms.INDEXED_EFFECT)
    assert effect(view, b"m" * 32) == module.mined(forms.INDEXED_EFFECT, b"m" * 32, view.chain.blocks)
    assert effect(view, b"u" * 32) is module.mined(forms.INDEXED_EFFECT, b"u" * 32, view.chain.blocks) is None


@pytest.mark.parametrize("module", MODULES)
def test_a_transaction_that_does_not_fit_is_refused(module: Any) -> None:
    tx_hash = b"m" * 32
    transaction = StoredTransaction(7, 1, 4, bytes(32), b"")
    blocks = blocks_with(module, transaction, tx_hash, None)
    with pytest.raises(ValueError, match="revert code 4"):
        module.mined(RECEIPT, tx_hash, blocks)
    with pytest.raises(LookupError, match="effect 1 of block 7"):
        module.mined(forms.INDEXED_EFFECT, tx_hash, blocks)
    short = module.Blocks({TRANSACTION + tx_hash: transaction.encode()[:-1]}.get, 9)
    for form in (RECEIPT, forms.INDEXED_EFFECT):
        with pytest.raises(ValueError, match="record of 40 bytes"):
            module.mined(form, tx_hash, short)
        for wrong in (b"", b"m" * 31, b"m" * 33):
            with pytest.raises(ValueError, match="hash of"):
                module.mined(form, wrong, blocks)
    for form in (*BENT_FORMS[:-1], forms.L2_BLOCK):
        with pytest.raises(ValueError, match="form"):
            module.mined(form, tx_hash, blocks)
    for form in BENT_FORMS[:-1]:
        with pytest.raises(ValueError, match="form"):
            module.TxQuestion(form)
