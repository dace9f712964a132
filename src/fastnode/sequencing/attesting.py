"""The committee's word for a checkpoint: the signatures of those of its members whose keys are here.

L1 looks at the proposer's own signature only.  Followers look at all of them, and a checkpoint that lacks one is taken
back: so each is verified here before anything is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastnode.errors import SlotLost
from fastnode.ha.duty import DutyType
from fastnode.protocol.checkpoint import Checkpoint
from fastnode.protocol.ethereum import recover_signer, signed_digest
from fastnode.protocol.fields import hex_text
from fastnode.publishing import digests
from fastnode.publishing.propose import NO_ATTESTATIONS, Attestations, ProposeCall, trim_to_quorum
from fastnode.records import dataclass
from fastnode.sequencing.turns import Turn
from fastnode.sources.l1.attestation_check import quorum

if TYPE_CHECKING:
    from fastnode.sequencing.l1_publication import KeyDoor

__all__ = ["Attested", "attest", "own_members", "propose_call", "require_quorum_here"]


@dataclass(frozen=True, slots=True)
class Attested:
    """``signatures`` by member, exactly the quorum; empty where there is no committee."""

    signatures: dict[bytes, bytes]


def own_members(turn: Turn, door: KeyDoor) -> list[bytes]:
    """Members of the committee whose keys are here, in its order."""
    keys = set(door.attesters())
    return [member for member in turn.committee if member in keys]


def require_quorum_here(turn: Turn, door: KeyDoor) -> None:
    """SlotLost when too few of the committee's keys are here: attestations of others are not collected."""
    own, needed = len(own_members(turn, door)), quorum(len(turn.committee))
    if turn.committee and own < needed:
        raise SlotLost(
            f"{own} of the {len(turn.committee)} members of the committee have their keys here, {needed} must attest"
        )


def attest(turn: Turn, checkpoint: Checkpoint, door: KeyDoor) -> Attested:
    """Sign the proposal of the checkpoint, then attest to it with every key of the committee that is here.

    SlotLost, DutyError, HaDatabaseError, SigningError.
    """
    if turn.proposer is None:
        return Attested({})
    header, root, modifier = checkpoint.header, checkpoint.archive.root, checkpoint.fee_asset_price_modifier
    door.sign(
        turn.proposer,
        DutyType.CHECKPOINT_PROPOSAL,
        digests.checkpoint_proposal(header, root, modifier),
        slot=turn.slot,
        block_number=checkpoint.blocks[-1].number,
    )
    message = digests.attestation(header, root, modifier)
    members = own_members(turn, door)
    signatures = {member: door.sign(member, DutyType.ATTESTATION, message, slot=turn.slot) for member in members}
    _require_signed(message, signatures)
    try:
        return Attested(trim_to_quorum(turn.committee, signatures, turn.proposer, members))
    except ValueError as error:
        raise SlotLost(f"too few attestations: {error}") from None


def propose_call(
    turn: Turn,
    checkpoint: Checkpoint,
    commitments: Sequence[bytes],
    attested: Attested,
    door: KeyDoor,
    unsigned: bytes,
) -> ProposeCall:
    """The call of ``propose``.  ``unsigned``: in place of the proposer's signature where there is no committee."""
    attestations, signature = NO_ATTESTATIONS, unsigned
    signers: tuple[bytes, ...] = ()
    if turn.proposer is not None:
        attestations = Attestations.of(turn.committee, attested.signatures)
        signers = tuple(member for member in turn.committee if member in attested.signatures)
        message = digests.attestations_and_signers(attestations, signers)
        signature = door.sign(
            turn.proposer,
            DutyType.ATTESTATIONS_AND_SIGNERS,
            message,
            slot=turn.slot,
            block_number=checkpoint.number,
        )
        _require_signed(message, {turn.proposer: signature})
    return ProposeCall(
        header=checkpoint.header,
        archive_root=checkpoint.archive.root,
        proposer_signature=signature,
        commitments=tuple(commitments),
        attestations=attestations,
        signers=signers,
        fee_asset_price_modifier=checkpoint.fee_asset_price_modifier,
    )


def _require_signed(message: bytes, signatures: dict[bytes, bytes]) -> None:
    digest = signed_digest(message)
    for member, signature in signatures.items():
        if recover_signer(digest, signature) != member:
            raise SlotLost(f"the signer of {hex_text(member)} gave a signature that is not by this key")
