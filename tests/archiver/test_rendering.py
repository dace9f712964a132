"""Stored JSON is what a plain encoder would write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fastnode.archiver.forms import Mined, render_stored_receipt
from fastnode.archiver.rendering import render, render_block_messages

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain


def test_headers_archives_and_effects_are_rendered_as_they_came(sample: SampleChain) -> None:
    for number in (1, 30, 92, 106):
        raw, block = sample.block_json(number), sample.block(number)
        assert render(block.header) == orjson.dumps(raw["header"])
        assert render(block.archive) == orjson.dumps(raw["archive"])
        for effect, raw_effect in zip(block.body.tx_effects, raw["body"]["txEffects"], strict=True):
            assert render(effect) == orjson.dumps(raw_effect)


def test_messages_are_grouped_by_transaction(sample: SampleChain) -> None:
    for number in range(1, 107):
        expected = [effect["l2ToL1Msgs"] for effect in sample.block_json(number)["body"]["txEffects"]]
        assert render_block_messages(sample.block(number).body.tx_effects) == orjson.dumps(expected)


@given(
    block_number=st.integers(0, 2**32 - 1),
    block_hash=st.binary(min_size=32, max_size=32),
    epoch_number=st.integers(0, 2**32 - 1),
)
def test_the_tail_of_a_receipt_closes_the_object(
    sample: SampleChain, block_number: int, block_hash: bytes, epoch_number: int
) -> None:
    effect = sample.block(2).body.tx_effects[0]
    tail = render_stored_receipt(Mined(effect, block_number, block_hash, epoch_number))
    assert orjson.loads(b"{" + tail) == {
        "transactionFee": str(effect.transaction_fee),
        "blockHash": "0x" + block_hash.hex(),
        "blockNumber": block_number,
        "epochNumber": epoch_number,
    }
