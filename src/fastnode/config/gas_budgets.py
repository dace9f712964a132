"""Gas that one block of a checkpoint may use, and the most blocks of a checkpoint.

derived   ceil(checkpoint limit / most blocks * multiplier), at most the checkpoint limit
explicit  what the operator set, at most the checkpoint limit
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Self

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["CHECKPOINT_DA_GAS_MAX", "BlockBudget", "block_gas", "blocks_per_checkpoint_max", "exact"]

#: Data gas of the six blobs of a checkpoint, 4096 fields each.
CHECKPOINT_DA_GAS_MAX: Final = 786_432

# Parts of a slot, in seconds, that no block can be built in.
_INITIALIZATION_S: Final = Fraction(1)
_ASSEMBLY_S: Final = Fraction(1)
_PROPAGATION_S: Final = Fraction(2)
_PUBLISHING_S: Final = Fraction(12)
#: On an L1 with slots below this, everything is quicker and there are no peers to wait for.
_SHORT_L1_SLOT_S: Final = 8
_SHORT_INITIALIZATION_S: Final = Fraction(1, 2)


def block_gas(checkpoint_limit: int, *, blocks_max: int, multiplier: float, explicit: int | None) -> int:
    """The gas budget of one block, in one dimension.

    >>> block_gas(200_000_000, blocks_max=6, multiplier=2, explicit=None)
    66666667
    """
    if explicit is not None:
        return min(explicit, checkpoint_limit)
    share = Fraction(checkpoint_limit, blocks_max) * exact(multiplier)
    return min(math.ceil(share), checkpoint_limit)


def exact(multiplier: float) -> Fraction:
    """The multiplier as it was written: 1.2 is twelve tenths."""
    return Fraction(Decimal(repr(multiplier)))


def blocks_per_checkpoint_max(
    *,
    slot_duration_s: int,
    l1_slot_duration_s: int,
    block_duration_ms: int | None,
    publishing_time_s: int | None = None,
) -> int:
    """Number of blocks that fit in a slot beside what else has to happen in it; one if blocks have no duration."""
    if block_duration_ms is None:
        return 1
    block = Fraction(block_duration_ms, 1000)
    publishing = _PUBLISHING_S if publishing_time_s is None else Fraction(publishing_time_s)
    initialization, assembly, propagation = _INITIALIZATION_S, _ASSEMBLY_S, _PROPAGATION_S
    if l1_slot_duration_s < _SHORT_L1_SLOT_S:
        initialization, assembly, propagation = _SHORT_INITIALIZATION_S, _SHORT_INITIALIZATION_S, Fraction(0)
    free = slot_duration_s - initialization - block - (assembly + 2 * propagation + publishing)
    return max(1, math.floor(free / block))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockBudget:
    """Gas that one block may use on a network, by the settings of its builder."""

    blocks_max: int
    l2_gas: int
    da_gas: int

    @classmethod
    def of(cls, settings: Settings, *, slot_duration_s: int, l1_slot_duration_s: int, mana_limit: int) -> Self:
        """``mana_limit``: L2 gas of a checkpoint, as L1 has it."""
        blocks_max = blocks_per_checkpoint_max(
            slot_duration_s=slot_duration_s,
            l1_slot_duration_s=l1_slot_duration_s,
            block_duration_ms=settings.block_duration_ms,
            publishing_time_s=settings.l1_publishing_time,
        )
        if settings.max_blocks_per_checkpoint is not None:
            blocks_max = min(blocks_max, settings.max_blocks_per_checkpoint)
        multiplier = settings.per_block_allocation_multiplier
        return cls(
            blocks_max=blocks_max,
            l2_gas=block_gas(
                mana_limit, blocks_max=blocks_max, multiplier=multiplier, explicit=settings.max_l2_block_gas
            ),
            da_gas=block_gas(
                CHECKPOINT_DA_GAS_MAX, blocks_max=blocks_max, multiplier=multiplier, explicit=settings.max_da_block_gas
            ),
        )
