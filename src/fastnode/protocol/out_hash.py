"""Out hashes: what L1 needs to accept an L2-to-L1 message, and the witnesses for it.

Four trees stand on top of each other, all of SHA nodes (``sha256_to_field`` of both children)::

    epoch        balanced, 32 leaves, the missing ones zero
      checkpoint   unbalanced over its blocks,  zero leaves dropped
        block        unbalanced over its txs,   zero leaves dropped
          tx           unbalanced over its messages, nothing dropped

Unbalanced: the left subtree takes the largest power of two below the number of leaves.  Dropped: the shape
is that over *all* positions, but a node whose sibling subtree holds only zero leaves moves up and becomes its
parent, so paths get shorter where empty txs and blocks are near.  A tree of nothing but zeros has root zero.

A witness is one path through all four levels, lowest first.  Its leaf index joins the indices at each
level: the lowest level in the lowest bits, each taking as many bits as its path is long.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import OUT_HASH_TREE_HEIGHT
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import ZERO_FIELD
from fastnode.protocol.hashing import SHA_ZERO_NODES, sha256_padded_levels, sha256_padded_root, sha256_to_field
from fastnode.records import dataclass

#: Messages of an epoch as ``[checkpoint][block][tx][message]``, empty arrays included.
TxMessages = Sequence[bytes]
BlockMessages = Sequence[TxMessages]
CheckpointMessages = Sequence[BlockMessages]
EpochMessages = Sequence[CheckpointMessages]


@dataclass(frozen=True, slots=True)
class OutHashWitness:
    """Membership of one message: siblings lowest first, and the joined leaf index."""

    root: bytes
    leaf_index: int
    sibling_path: tuple[bytes, ...]

    @property
    def leaf_id(self) -> int:
        """The number under which L1 remembers the message as consumed."""
        return (1 << len(self.sibling_path)) + self.leaf_index

    def sibling_path_buffer(self) -> bytes:
        """count u32 | nodes, as the wire carries it in base64."""
        return len(self.sibling_path).to_bytes(4, "big") + b"".join(self.sibling_path)


# ---- roots --------------------------------------------------------------------------------------


def tx_out_hash(messages: TxMessages) -> bytes:
    """Out hash of a tx: zero without messages, the message itself when there is one."""
    return _root(messages) if messages else ZERO_FIELD


def block_out_hash(txs: BlockMessages) -> bytes:
    """Out hash of a block from its messages by tx."""
    return _compact_root([tx_out_hash(messages) for messages in txs])


def checkpoint_out_hash(blocks: CheckpointMessages) -> bytes:
    """Out hash of a checkpoint from its messages by block and tx; zero without messages."""
    return _compact_root([block_out_hash(txs) for txs in blocks])


def epoch_out_hash(checkpoint_out_hashes: Sequence[bytes]) -> bytes:
    """Out hash of an epoch from the out hashes of its first checkpoints; ValueError for more than 32.

    ``epochOutHash`` of a checkpoint header is this over the epoch's checkpoints up to and including it.
    """
    return sha256_padded_root(checkpoint_out_hashes, OUT_HASH_TREE_HEIGHT)


def messages_of_block(block: L2Block) -> list[tuple[bytes, ...]]:
    """The L2-to-L1 messages of a block by tx."""
    return messages_of_effects(block.body.tx_effects)


def messages_of_effects(effects: Sequence[TxEffect]) -> list[tuple[bytes, ...]]:
    return [effect.l2_to_l1_msgs for effect in effects]


# ---- witnesses ------------------------------------------------------------------------------------


def l2_to_l1_witness(
    epoch: EpochMessages, checkpoint_index: int, block_index: int, tx_index: int, message_index: int
) -> OutHashWitness:
    """The witness of ``epoch[checkpoint_index][block_index][tx_index][message_index]``.

    ``epoch`` may hold only the first checkpoints of the epoch (those that are proven); its root is then
    the out hash of these.  IndexError for a position that does not exist.
    """
    if min(checkpoint_index, block_index, tx_index, message_index) < 0:
        raise IndexError("positions count from zero")
    blocks = epoch[checkpoint_index]
    txs = blocks[block_index]
    messages = txs[tx_index]
    messages[message_index]  # IndexError here, before any hashing
    checkpoint_hashes = [checkpoint_out_hash(checkpoint) for checkpoint in epoch]
    legs = (
        _path(messages, message_index),
        _compact_path([tx_out_hash(tx) for tx in txs], tx_index),
        _compact_path([block_out_hash(block) for block in blocks], block_index),
        _epoch_path(checkpoint_hashes, checkpoint_index),
    )
    siblings: list[bytes] = []
    leaf_index = 0
    for index, path in legs:
        leaf_index |= index << len(siblings)
        siblings += path
    return OutHashWitness(epoch_out_hash(checkpoint_hashes), leaf_index, tuple(siblings))


# ---- trees ------------------------------------------------------------------------------------------
#
# Nodes are hashes, or None for a subtree that does not exist: all of its leaves were dropped.

_Leg = tuple[int, list[bytes]]


def _left_size(leaf_count: int) -> int:
    """Leaves of the left subtree: the largest power of two below ``leaf_count`` (>= 2)."""
    return 1 << (leaf_count - 1).bit_length() - 1


def _node(leaves: Sequence[bytes | None], start: int, end: int) -> bytes | None:
    if end - start == 1:
        return leaves[start]
    middle = start + _left_size(end - start)
    left, right = _node(leaves, start, middle), _node(leaves, middle, end)
    if left is None or right is None:
        return right if left is None else left
    return sha256_to_field(left + right)


def _walk(leaves: Sequence[bytes | None], index: int) -> _Leg:
    """Final index and path, lowest sibling first, of leaf ``index``."""
    start, end = 0, len(leaves)
    position = 0
    downward: list[bytes] = []
    while end - start > 1:
        middle = start + _left_size(end - start)
        goes_right = index >= middle
        sibling = _node(leaves, start, middle) if goes_right else _node(leaves, middle, end)
        start, end = (middle, end) if goes_right else (start, middle)
        if sibling is not None:
            downward.append(sibling)
            position = position << 1 | goes_right
    return position, downward[::-1]


def _without_zeros(leaves: Sequence[bytes]) -> list[bytes | None]:
    return [None if leaf == ZERO_FIELD else leaf for leaf in leaves]


def _root(leaves: Sequence[bytes]) -> bytes:
    return _node(leaves, 0, len(leaves)) or ZERO_FIELD


def _compact_root(leaves: Sequence[bytes]) -> bytes:
    return _node(_without_zeros(leaves), 0, len(leaves)) or ZERO_FIELD if leaves else ZERO_FIELD


def _path(leaves: Sequence[bytes], index: int) -> _Leg:
    return _walk(leaves, index)


def _compact_path(leaves: Sequence[bytes], index: int) -> _Leg:
    return _walk(_without_zeros(leaves), index)


def _epoch_path(leaves: Sequence[bytes], index: int) -> _Leg:
    path = []
    position = index
    for depth, nodes in enumerate(sha256_padded_levels(leaves, OUT_HASH_TREE_HEIGHT)[:-1]):
        sibling = position ^ 1
        path.append(nodes[sibling] if sibling < len(nodes) else SHA_ZERO_NODES[depth])
        position >>= 1
    return index, path
