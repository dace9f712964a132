"""When what happens in a slot of a proposer.

    build start      slot start - one slot of L1: what is sent then can be in the first L1 block of the slot
    | init | block 1 | block 2 | ... | assemble | proposals out, attestations back | publishing | next build start

Blocks end early enough for the whole of ``publishing``.  Attestations that come later are waited for longer: until what
is sent can just be in the last L1 block of the slot, whose time is the next build start.

All times are seconds after the build start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Self

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["Timetable"]

#: An L1 with shorter slots is a test network: everything is quicker there.
_SHORT_L1_SLOT_S: Final = 8
#: The shortest time in which a block can be built.
_SHORTEST_BLOCK_S: Final = 2.0
_SHORTEST_BLOCK_ON_SHORT_S: Final = 1.0
#: Signing, simulating and sending a checkpoint, and its way to who builds the next L1 block.
_SENDING_S: Final = 4.0
_STEP_S: Final = 1.0
_STEP_ON_SHORT_S: Final = 0.5
#: Seconds that publishing takes on a development chain, and its chain id.
_DEVELOPMENT_PUBLISHING_S: Final = 1.0
_DEVELOPMENT_CHAIN: Final = 31_337


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """``block_s`` None: one block takes half of the time that is left when it begins."""

    slot_s: float
    publishing_s: float
    #: From the last attestation to the L1 block that has the checkpoint; None: ``publishing_s``.
    sending_s: float | None = None
    propagation_s: float = 2.0
    #: Looking around at the begin, and putting the checkpoint together at the end; each takes so long.
    step_s: float = _STEP_S
    shortest_block_s: float = _SHORTEST_BLOCK_S
    block_s: float | None = None
    #: False: nothing is given up for being late.
    is_enforced: bool = True

    @classmethod
    def of(cls, settings: Settings, *, slot_s: int, l1_slot_s: int, chain_id: int) -> Self:
        usual_s = _DEVELOPMENT_PUBLISHING_S if chain_id == _DEVELOPMENT_CHAIN else float(l1_slot_s)
        publishing = settings.l1_publishing_time
        is_short = l1_slot_s < _SHORT_L1_SLOT_S
        block = None if settings.block_duration_ms is None else settings.block_duration_ms / 1000
        shortest = _SHORTEST_BLOCK_ON_SHORT_S if is_short else _SHORTEST_BLOCK_S
        return cls(
            slot_s=slot_s,
            publishing_s=usual_s if publishing is None else float(publishing),
            sending_s=min(usual_s, _SENDING_S) if publishing is None else None,
            propagation_s=0.0 if is_short else settings.attestation_propagation_time,
            step_s=_STEP_ON_SHORT_S if is_short else _STEP_S,
            shortest_block_s=shortest if block is None else min(shortest, block),
            block_s=block,
            is_enforced=settings.enforce_time_table,
        )

    @property
    def end_s(self) -> float:
        """After the last block: assembling, the way to the committee and back, publishing."""
        return self.step_s + 2 * self.propagation_s + self.publishing_s

    @property
    def latest_start_s(self) -> float:
        """Begun later than this there is no time for a block and for validators to check it."""
        return self.slot_s - (self.step_s + 2 * self.shortest_block_s + self.end_s)

    @property
    def blocks_max(self) -> int:
        """Blocks that have their time in a slot; at least one."""
        if self.block_s is None:
            return 1
        return max(1, math.floor((self.slot_s - self.step_s - self.block_s - self.end_s) / self.block_s))

    def block_ends_s(self, index: int, elapsed_s: float) -> float:
        """When the block of this index must be complete, if it is begun at ``elapsed_s``."""
        if self.block_s is None:
            return elapsed_s + max(self.shortest_block_s, (self.slot_s - self.end_s - elapsed_s) / 2)
        return max(self.step_s + (index + 1) * self.block_s, elapsed_s + min(self.shortest_block_s, self.block_s))

    @property
    def attestations_end_s(self) -> float:
        """Attestations that come later are of no use: no L1 block of the slot would have the checkpoint."""
        return self.slot_s - (self.publishing_s if self.sending_s is None else self.sending_s)

    def is_too_late(self, elapsed_s: float) -> bool:
        """True if a slot that is first looked at now is given up."""
        return self.is_enforced and elapsed_s > max(0.0, self.latest_start_s)
