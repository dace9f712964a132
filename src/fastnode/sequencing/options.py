"""Options of a sequencer, from the settings of the node and what an operator changes while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from fastnode.building.acceptance import AcceptanceLimits
from fastnode.building.budget import BlockOptions, BuildingLimits
from fastnode.kernels import encode
from fastnode.records import dataclass
from fastnode.sequencing.timetable import Timetable

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.settings import Settings

__all__ = ["SequencerOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerOptions:
    """``coinbase`` and ``fee_recipient`` None: those that belong to the validator's key."""

    limits: BuildingLimits
    timetable: Timetable
    acceptance: AcceptanceLimits = AcceptanceLimits()
    coinbase: bytes | None = None
    fee_recipient: bytes | None = None
    may_be_empty: bool = False
    poll_s: float = 0.5
    pool_age_s: float = 2.0
    #: Share of checkpoints that are left unpublished, in percent.
    skip_percent: float = 0.0
    #: Peers get the transactions of a block with it.
    shares_txs: bool = False
    #: Checkpoints are built and judged; nothing is signed, told or sent.
    is_fisherman: bool = False
    #: Blocks without which a checkpoint is not published.
    blocks_min: int = 1
    #: An invalid checkpoint on L1 is taken back along with a proposal.
    invalidates: bool = True

    @classmethod
    def of(
        cls,
        settings: Settings,
        chain: ChainInfo,
        options: BlockOptions | None = None,
        *,
        blocks_min: int | None = None,
        invalidates: bool = True,
    ) -> Self:
        constants = chain.l1_constants
        l1_slot_s = settings.ethereum_slot_duration or int(constants.get("ethereumSlotDuration", chain.slot_duration))
        timetable = Timetable.of(settings, slot_s=chain.slot_duration, l1_slot_s=l1_slot_s, chain_id=chain.l1_chain_id)
        limits = BuildingLimits.of(
            # As many blocks share the gas of a checkpoint as have their time in a slot.
            replace(settings, l1_publishing_time=int(timetable.publishing_s)),
            slot_duration_s=chain.slot_duration,
            l1_slot_duration_s=l1_slot_s,
            mana_limit=int(constants["rollupManaLimit"]),
            options=options,
        )
        return cls(
            limits=replace(limits, blocks_per_checkpoint=timetable.blocks_max),
            timetable=timetable,
            acceptance=AcceptanceLimits.of(settings),
            coinbase=None if settings.coinbase is None else encode.from_hex(settings.coinbase),
            fee_recipient=None if settings.fee_recipient is None else encode.from_hex(settings.fee_recipient),
            may_be_empty=settings.build_checkpoint_if_empty,
            poll_s=settings.seq_polling_interval_ms / 1000,
            pool_age_s=settings.p2p_min_tx_pool_age_ms / 1000,
            skip_percent=settings.skip_checkpoint_publish_percent,
            shares_txs=settings.publish_txs_with_proposals,
            is_fisherman=settings.fisherman_mode,
            blocks_min=blocks_min or 1,
            invalidates=invalidates,
        )
