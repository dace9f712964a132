"""Numbers of the blocks and checkpoints that callers name, in one view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.api.chain_parameters import (
    BlockName,
    BlockReferenceKind,
)
from fastnode.errors import ServerError, UnknownBlock
from fastnode.protocol.fields import hex_text

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.view import View

__all__ = ["block_of_tip", "checkpoint_of_tip", "find_block", "reference_block"]


def find_block(chain: ChainView, reference: BlockName) -> int | None:
    """The number of the block meant, or None if the chain has no such block."""
    if isinstance(reference, int):
        return reference if reference <= chain.blocks.tip else None
    if isinstance(reference, bytes):
        return chain.blocks.number_of(reference)
    kind, value = reference.kind, reference.value
    if kind is BlockReferenceKind.NUMBER:
        return value if value <= chain.blocks.tip else None
    if kind is BlockReferenceKind.TIP:
        return block_of_tip(chain, value)
    if kind is BlockReferenceKind.HASH:
        return chain.blocks.number_by_hash(value)
    return chain.blocks.number_by_archive(value)


def reference_block(view: View, reference: BlockName) -> int:
    """Number of the block a parameter means; ServerError naming the block when this chain does not have it.

    A number is passed on as it is: the state itself says whether it is too new or too old.
    """
    if isinstance(reference, int):
        return reference
    kind, value = (
        (BlockReferenceKind.HASH, reference) if isinstance(reference, bytes) else (reference.kind, reference.value)
    )
    if kind is BlockReferenceKind.NUMBER:
        return int(value)
    number = find_block(view.chain, reference)
    if number is None:
        named = "Block with archive" if kind is BlockReferenceKind.ARCHIVE else "Block hash"
        message = (
            f"{named} {hex_text(value)} not found: no such block on the chain of this node. "
            "If it was there before, a reorg has replaced it."
        )
        raise UnknownBlock(message, value) if kind is BlockReferenceKind.HASH else ServerError(message)
    return number


def block_of_tip(chain: ChainView, tip: str) -> int:
    """The block of ``proposed``, ``checkpointed``, ``proven`` or ``finalized``; 0 if nothing is there yet."""
    if tip == "proposed":
        return chain.blocks.tip
    number: int = getattr(chain.tips, tip).block.number
    return number


def checkpoint_of_tip(chain: ChainView, tip: str) -> int:
    """The last checkpoint of a tip; ``proposed`` is that of ``checkpointed``, because only complete ones count."""
    name = "checkpointed" if tip == "proposed" else tip
    number: int = getattr(chain.tips, name).checkpoint.number
    return number
