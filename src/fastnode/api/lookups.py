"""Numbers of the blocks and checkpoints that callers name, in one view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.api.chain_parameters import (
    BlockReference,
    BlockReferenceKind,
    CheckpointReference,
    CheckpointReferenceKind,
)

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["block_of_tip", "checkpoint_of_tip", "find_block", "find_checkpoint"]


def find_block(chain: ChainView, reference: BlockReference | int) -> int | None:
    """The number of the block meant, or None if the chain has no such block."""
    if isinstance(reference, int):
        return reference if reference <= chain.tip_number else None
    kind, value = reference.kind, reference.value
    if kind is BlockReferenceKind.NUMBER:
        return value if value <= chain.tip_number else None
    if kind is BlockReferenceKind.TIP:
        return block_of_tip(chain, value)
    if kind is BlockReferenceKind.HASH:
        number = chain.block_number_by_hash(value)
        # A bare field may be an archive root too; no two of these hashes are alike.
        return number if number is not None or reference.is_development_form else chain.block_number_by_archive(value)
    return chain.block_number_by_archive(value)


def block_of_tip(chain: ChainView, tip: str) -> int:
    """The block of ``proposed``, ``checkpointed``, ``proven`` or ``finalized``; 0 if nothing is there yet."""
    if tip == "proposed":
        return chain.tip_number
    number: int = getattr(chain.tips, tip).block.number
    return number


def find_checkpoint(chain: ChainView, reference: CheckpointReference) -> int | None:
    """The number of the checkpoint meant, or None if there is none; it need not be complete."""
    if reference.kind is CheckpointReferenceKind.NUMBER:
        return int(reference.value)
    if reference.kind is CheckpointReferenceKind.SLOT:
        return chain.checkpoint_number_by_slot(reference.value)
    return checkpoint_of_tip(chain, reference.value)


def checkpoint_of_tip(chain: ChainView, tip: str) -> int:
    """The last checkpoint of a tip; ``proposed`` is that of ``checkpointed``, because only complete ones count."""
    name = "checkpointed" if tip == "proposed" else tip
    number: int = getattr(chain.tips, name).checkpoint.number
    return number
