"""A fisherman's slot: a checkpoint is built as its proposer could, and L1 is asked whether it would take it.

Nothing is signed, stored, told to peers or sent.  The checkpoint has one block, of what waits when the slot begins: the
next one would have to stand on a block that nobody has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode.errors import CallReverted, SlotLost
from fastnode.publishing.multicall import Call
from fastnode.publishing.propose import NO_ATTESTATIONS, Attestations, ProposeCall

if TYPE_CHECKING:
    from fastnode.publishing.simulation import Simulator
    from fastnode.sequencing.drafting import Drafted
    from fastnode.sequencing.turns import Turn

__all__ = ["require_taken"]

#: Says the contract of a checkpoint in which all is right but the signatures, which only its proposer can make.
_UNSIGNED: Final = "ValidatorSelection__MissingProposerSignature"
_NO_SIGNATURE: Final = bytes(64) + b"\x1b"
_NO_ADDRESS: Final = bytes(20)


def require_taken(drafted: Drafted, turn: Turn, simulator: Simulator, rollup: bytes, at: int) -> None:
    """SlotLost unless L1 would take the checkpoint, signed by its proposer, in a block of the time ``at``."""
    checkpoint = drafted.published.checkpoint
    call = ProposeCall(
        header=checkpoint.header,
        archive_root=checkpoint.archive.root,
        proposer_signature=_NO_SIGNATURE,
        commitments=tuple(drafted.draft.commitments),
        attestations=Attestations.of(turn.committee, {}) if turn.committee else NO_ATTESTATIONS,
        signers=(),
        fee_asset_price_modifier=checkpoint.fee_asset_price_modifier,
    )
    what = f"checkpoint {drafted.draft.number} of slot {turn.slot}"
    try:
        simulator.simulate(Call(rollup, call.call_data()), turn.proposer or _NO_ADDRESS, at, what=what)
    except CallReverted as error:
        if turn.proposer is None or error.name != _UNSIGNED:
            raise SlotLost(str(error)) from error
