"""Values with a head: what is encoded is decoded, and neither loses a fragment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fastnode.archiver.records import (
    BlockInfo,
    StoredBlock,
    StoredCheckpoint,
    StoredTips,
    StoredTransaction,
    decode_block_info,
)

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
field = st.binary(min_size=32, max_size=32)
fragment = st.binary(max_size=80)

infos = st.builds(
    BlockInfo,
    number=u32,
    hash=field,
    archive_root=field,
    checkpoint_number=u32,
    index_within_checkpoint=u32,
    slot_number=u32,
    timestamp=u64,
    tx_count=u32,
)


@given(st.builds(StoredBlock, infos, fragment, fragment))
def test_a_block_record_survives_encoding(block: StoredBlock) -> None:
    encoded = block.encode()
    assert StoredBlock.decode(block.info.number, encoded) == block
    assert decode_block_info(block.info.number, encoded) == block.info


@given(
    st.builds(
        StoredCheckpoint,
        number=u32,
        header_hash=field,
        out_hash=field,
        start_block=u32,
        block_count=u32,
        slot_number=u32,
        fee_asset_price_modifier=st.integers(-(2**255), 2**255 - 1),
        header_json=fragment,
        archive_json=fragment,
        l1_json=fragment,
        attestations_json=fragment,
    )
)
def test_a_checkpoint_record_survives_encoding(checkpoint: StoredCheckpoint) -> None:
    assert StoredCheckpoint.decode(checkpoint.number, checkpoint.encode()) == checkpoint


@given(st.builds(StoredTransaction, u32, u32, st.integers(0, 255), field, fragment))
def test_a_transaction_record_survives_encoding(transaction: StoredTransaction) -> None:
    assert StoredTransaction.decode(transaction.encode()) == transaction


@given(st.builds(StoredTips, u32, u32, u32, u32))
def test_tips_survive_encoding(tips: StoredTips) -> None:
    assert StoredTips.decode(tips.encode()) == tips


def test_the_last_block_of_a_checkpoint_follows_from_its_first() -> None:
    checkpoint = StoredCheckpoint(3, b"", b"", 10, 4, 0, 0, b"", b"", b"", b"")
    assert checkpoint.last_block == 13
