"""Headers and blob fields that are put together from rows are those of the blocks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.parquet.conftest import load

from fastnode.archiver.queries import stored_block
from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.parquet.blob_fields import block_fields, headers_of
from fastnode.parquet.columns import stripes
from fastnode.parquet.files import plain
from fastnode.parquet.tables import TABLES
from fastnode.protocol.blobs import block_blob_fields

SHAPES = [
    ChainShape(blocks=7, txs=3, vary=True, nullifiers=5, writes=4, private_logs=4, public_logs=3, l2_to_l1=2),
    ChainShape(blocks=5, txs=4, wallets=True, blocks_per_checkpoint=2),
    ChainShape(blocks=3, txs=1, nullifiers=1, note_hashes=0, writes=0, private_logs=0, public_logs=0),
]


@pytest.fixture(scope="module", params=range(len(SHAPES)))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainData]:
    folder = tmp_path_factory.mktemp("made")
    write_synthetic_chain(folder / "chain.jsonl", SHAPES[request.param])
    with load(folder / "data", folder / "chain.jsonl") as opened:
        yield opened


def compare(data: ChainData, first: int, last: int, stripe_bytes: int) -> int:
    """Blocks of a chain with what their rows give; the number of stripes."""
    count = 0
    with data.store.open_view() as view:
        start = first
        for stop, tables in stripes(view, TABLES, first, last, stripe_bytes=stripe_bytes):
            rows = {name: plain(table) for name, table in tables.items()}
            blocks = [stored_block(view, number) for number in range(start, stop + 1)]
            headers = headers_of(rows["blocks"])
            assert headers == [block.header for block in blocks]
            assert block_fields(view, rows, headers) == [block_blob_fields(block) for block in blocks]
            start, count = stop + 1, count + 1
    assert start == last + 1
    return count


def test_rows_of_the_recorded_chain_give_what_its_blocks_published(data: ChainData) -> None:
    assert compare(data, 1, 106, 1 << 24) == 1
    assert compare(data, 40, 90, 50_000) > 3


def test_rows_of_any_shape_give_what_the_blocks_published(made: ChainData) -> None:
    with made.store.open_view() as view:
        last = view.tip_number
    assert compare(made, 1, last, 1 << 24) == 1
    assert compare(made, 2, last, 1) == last - 1


def test_a_counter_that_its_marker_cannot_hold_is_refused(made: ChainData) -> None:
    with made.store.open_view() as view:
        [(_, tables)] = stripes(view, TABLES, 1, 1)
        rows = {name: plain(table) for name, table in tables.items()}
        transactions = rows["transactions"]
        place = transactions.schema.get_field_index("revert_code")
        field = transactions.schema.field(place)
        rows["transactions"] = transactions.set_column(place, field, [[256] * len(transactions)])
        with pytest.raises(ValueError, match="256 does not fit 8 bits of a blob marker"):
            block_fields(view, rows, headers_of(rows["blocks"]))
