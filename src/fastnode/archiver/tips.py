"""Checks of the tips that a source names, and the tips after an undo."""

from __future__ import annotations

from fastnode.archiver.queries import GENESIS_TIP, ChainView, stored_info
from fastnode.archiver.records import StoredTips
from fastnode.archiver.verification import require
from fastnode.errors import BlockRejected
from fastnode.protocol.tips import BlockId, L2Tips, TipId

__all__ = ["require_tips", "tips_after_undo"]


def require_tips(view: ChainView, tips: L2Tips) -> None:
    """Each must name a stored block and checkpoint by their hashes, and they must be in order."""
    _require_known_block(view, "tips.proposed", tips.proposed)
    for name, tip in (
        ("checkpointed", tips.checkpointed),
        ("proven", tips.proven),
        ("finalized", tips.finalized),
    ):
        _require_known_tip(view, f"tips.{name}", tip)
    proven, finalized = tips.proven.checkpoint.number, tips.finalized.checkpoint.number
    _require_order("tips.proven", proven, "the checkpointed tip", tips.checkpointed.checkpoint.number)
    _require_order("tips.finalized", finalized, "the proven tip", proven)


def _require_known_block(view: ChainView, where: str, block: BlockId) -> None:
    info = view.block_info(block.number)
    if info is None:
        raise BlockRejected(f"{where}: block {block.number} is unknown, the newest is {view.tip_number}")
    # An empty chain's tips carry a constant in place of the real genesis hash.
    if block.number == 0 and block.hash == GENESIS_TIP.block.hash:
        return
    require(f"{where}: block {block.number}", "hash", block.hash, info.hash)


def _require_known_tip(view: ChainView, where: str, tip: TipId) -> None:
    _require_known_block(view, where, tip.block)
    number = tip.checkpoint.number
    if number == 0:
        require(where, "checkpoint.hash", tip.checkpoint.hash, GENESIS_TIP.checkpoint.hash)
        require(where, "block.number", tip.block.number, 0)
        return
    stored = view.checkpoint(number)
    if stored is None:
        newest = view.tips.checkpointed.checkpoint.number
        raise BlockRejected(f"{where}: checkpoint {number} is unknown, the newest is {newest}")
    require(f"{where}: checkpoint {number}", "hash", tip.checkpoint.hash, stored.header_hash)
    require(f"{where}: checkpoint {number}", "last block", tip.block.number, stored.last_block)


def _require_order(where: str, number: int, above: str, limit: int) -> None:
    if number > limit:
        raise BlockRejected(f"{where}: checkpoint {number} is above {above}, checkpoint {limit}")


def tips_after_undo(view: ChainView, block_number: int) -> StoredTips:
    tips = view.stored_tips()
    checkpointed = view.newest_complete_checkpoint(block_number)
    proven = tips.proven
    if proven > checkpointed:
        proven = _newest_known_root(view, checkpointed, tips.finalized)
    return StoredTips(block_number, checkpointed, proven, min(tips.finalized, proven))


def _newest_known_root(view: ChainView, checkpointed: int, finalized: int) -> int:
    """The newest checkpoint up to ``checkpointed`` that L1 has a root of messages at, as far as is known here.

    Everything up to there is proven, but the root on L1 is that of a later checkpoint of the epoch.  Known are the
    ends of whole epochs, and the final tip, which was a proven one.
    """
    if finalized == checkpointed or checkpointed == 0:
        return checkpointed
    stored = view.checkpoint(checkpointed)
    assert stored is not None  # the newest complete one
    epoch = stored_info(view, stored.start_block).slot_number // view.chain.epoch_duration
    of_epoch = view.checkpoint_numbers_of_epoch(epoch)
    if of_epoch.stop == checkpointed + 1 and view.checkpoint(of_epoch.stop) is not None:
        return checkpointed
    return max(of_epoch.start - 1, finalized if finalized <= checkpointed else 0)
