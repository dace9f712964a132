"""Messages between L1 and L2.

Both kinds are hashed with ``sha256_to_field``, but over different packings::

    L1 -> L2   sender 32 (20 bytes, left padded) | L1 chain id 32 | recipient 32 | rollup version 32
               | content 32 | secret hash 32 | index 32
    L2 -> L1   sender 32 | rollup version 32 | recipient 20 (not padded) | L1 chain id 32 | content 32

An L1 -> L2 message has one index for its whole life: its leaf index in the message tree, 1,024 places per
checkpoint counted from checkpoint 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_CHECKPOINT
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.hashing import sha256_padded_root, sha256_to_field
from fastnode.records import dataclass

#: 2 ** 10 = 1,024 messages of a checkpoint.
IN_HASH_TREE_HEIGHT: Final = 10


def _word(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


@dataclass(frozen=True, slots=True)
class L1ToL2Message:
    """A message from L1.  ``sender`` is a 20-byte L1 address, ``recipient`` a 32-byte L2 address."""

    sender: bytes
    sender_chain_id: int
    recipient: bytes
    recipient_version: int
    content: bytes
    secret_hash: bytes
    index: int

    def hash(self) -> bytes:
        """The leaf of the message in the L1-to-L2 message tree."""
        return sha256_to_field(
            b"".join(
                (
                    self.sender.rjust(FIELD_BYTES, b"\0"),
                    _word(self.sender_chain_id),
                    self.recipient,
                    _word(self.recipient_version),
                    self.content,
                    self.secret_hash,
                    _word(self.index),
                )
            )
        )


@dataclass(frozen=True, slots=True)
class L2ToL1Message:
    """A message to L1.  ``sender`` is a 32-byte L2 address, ``recipient`` a 20-byte L1 address."""

    sender: bytes
    rollup_version: int
    recipient: bytes
    chain_id: int
    content: bytes

    def hash(self) -> bytes:
        """Entry of a tx effect's ``l2ToL1Msgs``, and the leaf of the out hash tree."""
        return sha256_to_field(
            b"".join((self.sender, _word(self.rollup_version), self.recipient, _word(self.chain_id), self.content))
        )


def in_hash(messages: Sequence[bytes]) -> bytes:
    """``inHash`` of a checkpoint from its L1-to-L2 message hashes, in index order and without padding.

    ValueError for more than 1,024.
    """
    return sha256_padded_root(messages, IN_HASH_TREE_HEIGHT)


def first_message_index(checkpoint_number: int) -> int:
    """Leaf index of the first L1-to-L2 message of a checkpoint (numbered from 1)."""
    return (checkpoint_number - 1) * L1_TO_L2_MESSAGES_PER_CHECKPOINT


def checkpoint_of_message_index(index: int) -> int:
    """The checkpoint that consumes the L1-to-L2 message with this leaf index."""
    return index // L1_TO_L2_MESSAGES_PER_CHECKPOINT + 1
