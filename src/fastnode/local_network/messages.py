"""Messages from L1 on a network without L1: they are sent by a call, and the next checkpoint takes them.

A message's hash depends on its place in the tree, so it is known only with the checkpoint that takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastnode.archiver.messages import first_index_after, has_compact_messages
from fastnode.local_network.kept_state import OpenMessage
from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGES_PER_BLOCK_MAX,
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    SEPARATOR_SECRET_HASH,
)
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.hashing import poseidon2_hash_with_separator, sha256_to_field
from fastnode.protocol.messages import L1ToL2Message

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo, ChainView

__all__ = ["fee_juice_deposit", "message_hash", "messages_of_checkpoint", "open_messages", "secret_hash_of"]

#: Selector of ``claim(bytes32,uint256)``, which the fee juice contract expects in a deposit.
_CLAIM_SELECTOR: Final = bytes.fromhex("63f44968")


def message_hash(chain: ChainInfo, message: OpenMessage, index: int) -> bytes:
    """The leaf of a message at this place."""
    return L1ToL2Message(
        sender=message.sender,
        sender_chain_id=chain.l1_chain_id,
        recipient=message.recipient,
        recipient_version=chain.rollup_version,
        content=message.content,
        secret_hash=message.secret_hash,
        index=index,
    ).hash()


def messages_max(chain: ChainView) -> int:
    """Return how many messages a checkpoint of one block can take."""
    return L1_TO_L2_MESSAGES_PER_BLOCK_MAX if has_compact_messages(chain) else L1_TO_L2_MESSAGES_PER_CHECKPOINT


def messages_of_checkpoint(
    chain: ChainView, messages: Sequence[OpenMessage], parent_block: int, checkpoint_number: int
) -> list[bytes]:
    """Return the hashes of as many of ``messages`` as the checkpoint after a stored block can take, in order."""
    first = first_index_after(chain, parent_block, checkpoint_number)
    taken = messages[: messages_max(chain)]
    return [message_hash(chain.chain, message, index) for index, message in enumerate(taken, first)]


def fee_juice_deposit(fee_juice: bytes, to: bytes, amount: int, secret_hash: bytes) -> OpenMessage:
    """Message of the portal on L1 for a deposit; its sender is the fee juice contract itself, not the portal."""
    content = sha256_to_field(_CLAIM_SELECTOR + to + amount.to_bytes(FIELD_BYTES, "big"))
    return OpenMessage(fee_juice[12:], fee_juice, content, secret_hash)


def secret_hash_of(secret: bytes) -> bytes:
    """Hash that a secret is known by until it is used."""
    return poseidon2_hash_with_separator(SEPARATOR_SECRET_HASH, [secret])


def open_messages(chain: ChainView, messages: list[OpenMessage]) -> list[OpenMessage]:
    """Messages in a state file that the newest checkpoint has not taken: a crash leaves the file as before that one."""
    newest = chain.tips.checkpointed.checkpoint.number
    stored = chain.checkpoint(newest)
    taken = chain.l1_to_l2_messages(newest) if stored is not None else []
    if stored is None or not taken:
        return messages
    is_older = taken == messages_of_checkpoint(chain, messages[: len(taken)], stored.start_block - 1, newest)
    return messages[len(taken) :] if is_older else messages
