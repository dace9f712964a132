"""L1-to-L2 messages of blocks and checkpoints, by the rule of the chain's release.

Up to 5.x the first block of a checkpoint appends all messages of the checkpoint, and message i of checkpoint n has the
index 1,024 * (n - 1) + i.  From 6.x on a message has the number of those before it as its index, and each block appends
its own: the sizes of the message tree in the headers say which.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.errors import BlockRejected
from fastnode.protocol.block import L2Block
from fastnode.protocol.fields import ZERO_FIELD
from fastnode.protocol.messages import checkpoint_of_message_index, first_message_index

__all__ = [
    "checkpoint_of_index",
    "first_index_after",
    "has_compact_messages",
    "in_hash_before",
    "message_count",
    "messages_by_block",
    "messages_of_stored_block",
]


def has_compact_messages(view: ChainView) -> bool:
    """Return True if each block of the chain appends its own messages."""
    return view.chain.release.trees.has_compact_messages


def message_count(view: ChainView, block_number: int) -> int:
    """Return the size of the message tree after a stored block, from its header."""
    header = orjson.loads(view.header_json(block_number) or b"{}")
    return int(header["state"]["l1ToL2MessageTree"]["nextAvailableLeafIndex"])


def first_index_after(view: ChainView, block_number: int, checkpoint_number: int) -> int:
    """Return the index of the first message that may follow ``block_number``, in the checkpoint of this number."""
    if has_compact_messages(view):
        return message_count(view, block_number)
    return first_message_index(checkpoint_number)


def messages_of_stored_block(view: ChainView, block_number: int) -> Sequence[bytes]:
    """Return the messages that a stored block appends."""
    info = view.block_info(block_number)
    assert info is not None
    if not has_compact_messages(view):
        return view.l1_to_l2_messages(info.checkpoint_number) if info.index_within_checkpoint == 0 else ()
    first = message_count(view, block_number - info.index_within_checkpoint - 1)
    begin, end = message_count(view, block_number - 1) - first, message_count(view, block_number) - first
    return view.l1_to_l2_messages(info.checkpoint_number)[begin:end]


def messages_by_block(view: ChainView, blocks: Sequence[L2Block], messages: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return the messages of a checkpoint shared out to its blocks, whose parent is stored.

    BlockRejected when the sizes in the headers do not take them all, in order.
    """
    if not has_compact_messages(view):
        return [messages if block.index_within_checkpoint == 0 else () for block in blocks]
    first = before = message_count(view, blocks[0].number - 1)
    shared: list[Sequence[bytes]] = []
    for block in blocks:
        after = block.header.state.l1_to_l2_message_tree.next_available_leaf_index
        if not before <= after <= first + len(messages):
            raise BlockRejected(
                f"block {block.number}: the size of the L1->L2 message tree is {after}, expected from {before} to "
                f"{first + len(messages)}"
            )
        shared.append(messages[before - first : after - first])
        before = after
    if before != first + len(messages):
        raise BlockRejected(
            f"checkpoint {blocks[0].checkpoint_number}: its blocks take {before - first} L1->L2 messages, "
            f"expected {len(messages)}"
        )
    return shared


def checkpoint_of_index(view: ChainView, index: int) -> int:
    """Return the number of the checkpoint that inserts the message of this leaf index: a stored one, or the next."""
    if not has_compact_messages(view):
        return checkpoint_of_message_index(index)
    low, high = 1, view.tips.checkpointed.checkpoint.number + 1
    while low < high:
        middle = (low + high) // 2
        stored = view.checkpoint(middle)
        assert stored is not None
        if message_count(view, stored.last_block) > index:
            high = middle
        else:
            low = middle + 1
    return low


def in_hash_before(view: ChainView, checkpoint_number: int) -> bytes:
    """Return the Inbox's rolling hash after the checkpoint before this one.

    It is 0 before the first, and in releases whose headers have none.
    """
    if not has_compact_messages(view):
        return ZERO_FIELD
    parent = view.checkpoint(checkpoint_number - 1)
    if parent is None:
        return ZERO_FIELD
    return bytes.fromhex(orjson.loads(parent.header_json)["inboxRollingHash"][2:])
