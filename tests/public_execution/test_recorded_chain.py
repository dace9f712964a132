"""The transactions of the recorded chain, each block executed anew on the state before it."""

from __future__ import annotations

import pytest
from tests.mempool.recorded import recorded_tx

from fastnode.errors import Refused
from fastnode.kernels import USING_TWINS
from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import L1_TO_L2_MESSAGE_TREE_ID
from fastnode.protocol.fields import ZERO_FIELD, hex_text
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.view import View

#: The first blocks set the network up; what was sent for them is not recorded.
FIRST_RECORDED_BLOCK = 6
#: On the twins the hash of a transaction takes a third of a second.
STRIDE = 8 if USING_TWINS else 1


def txs_of(block: L2Block) -> list[Tx]:
    return [recorded_tx(hex_text(effect.tx_hash)) for effect in block.body.tx_effects]


def executor_of(view: View, block: L2Block) -> BlockExecutor:
    """On the state before ``block``, with the messages that its checkpoint brought if it is the first there."""
    assert view.state is not None
    before = ViewState(view, block.number - 1)
    end = block.header.state.l1_to_l2_message_tree.next_available_leaf_index
    messages = [
        view.state.append_only_leaf(L1_TO_L2_MESSAGE_TREE_ID, index, block.number)
        for index in range(before.message_count, end)
    ]
    return BlockExecutor(before, block.header.global_variables, l1_to_l2_messages=messages, programs=programs_of(FOUR))


def test_every_recorded_block_has_its_effects_and_its_mana(view: View) -> None:
    executed_count = 0
    for number in range(FIRST_RECORDED_BLOCK, view.chain.tip_number + 1, STRIDE):
        block = view.chain.load_block(number)
        assert block is not None
        executor = executor_of(view, block)
        executed = [executor.execute(ExecutableTx.of(tx)) for tx in txs_of(block)]
        for result, effect in zip(executed, block.body.tx_effects, strict=True):
            assert result.effect == effect, (number, hex_text(effect.tx_hash))
        assert sum(result.gas.billed.l2_gas for result in executed) == block.header.total_mana_used
        executed_count += len(executed)
    assert STRIDE > 1 or executed_count == 132


def test_a_state_has_the_leaves_of_its_block_and_no_later_ones(view: View) -> None:
    first, later = ViewState(view, 50), ViewState(view)
    added = range(first.note_hash_count, later.note_hash_count)
    assert any(later.note_hash(index) != ZERO_FIELD for index in added)
    assert all(first.note_hash(index) == ZERO_FIELD for index in added)
    assert [first.note_hash(index) for index in range(added.start)] == [
        later.note_hash(index) for index in range(added.start)
    ]
    assert later.message(later.message_count) == ZERO_FIELD


def test_a_view_without_its_trees_is_refused(view: View) -> None:
    with pytest.raises(Refused, match="world state is not loaded"):
        ViewState(View(view.chain))
