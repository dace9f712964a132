"""The committee's word for a checkpoint: signatures with the keys that are here, and those that peers send.

L1 looks at the proposer's own signature only.  Followers look at all of them, and a checkpoint that lacks one is taken
back: so each is verified here before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastnode.errors import DutyAlreadySigned, DutyError, SlotLost
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
    from fastnode.sequencing.attestation_pool import AttestationPool
    from fastnode.sequencing.gossip import ValidatorGossip
    from fastnode.sequencing.l1_publication import KeyDoor

__all__ = [
    "Attested",
    "PeerAttestations",
    "attest",
    "own_attestations",
    "own_members",
    "propose_call",
    "require_quorum_here",
]


@dataclass(frozen=True, slots=True)
class PeerAttestations:
    """Sources of the attestations of others."""

    gossip: ValidatorGossip
    pool: AttestationPool
    #: Interval at which a wait for attestations checks the time, and those that have come, in seconds.
    look_s: Callable[[], float] = lambda: 0.25


@dataclass(frozen=True, slots=True)
class Attested:
    """``signatures`` by member, exactly the quorum; empty where there is no committee."""

    signatures: dict[bytes, bytes]


def own_members(turn: Turn, door: KeyDoor) -> list[bytes]:
    """Members of the committee whose keys are here, in its order."""
    keys = set(door.attesters())
    return [member for member in turn.committee if member in keys]


def require_quorum_here(turn: Turn, door: KeyDoor) -> None:
    """SlotLost when too few of the committee's keys are here and no peer can send the attestations of others."""
    own, needed = len(own_members(turn, door)), quorum(len(turn.committee))
    if turn.committee and own < needed:
        raise SlotLost(
            f"{own} of the {len(turn.committee)} members of the committee have their keys here, {needed} must attest; "
            "attestations of others come with --p2p-enabled"
        )


def own_attestations(slot: int, members: Sequence[bytes], message: bytes, door: KeyDoor) -> dict[bytes, bytes]:
    """Signatures of ``members`` whose keys are here, by member.  One that another node signs with does without this
    one's: its signature of the same message is as good, of another message it is none.

    HaDatabaseError, SigningError.
    """
    signatures = {}
    for member in members:
        try:
            signatures[member] = door.sign(member, DutyType.ATTESTATION, message, slot=slot)
        except DutyAlreadySigned as error:
            signatures[member] = error.signature
        except DutyError:
            continue
    _require_signed(message, signatures)
    return signatures


def attest(
    turn: Turn,
    checkpoint: Checkpoint,
    door: KeyDoor,
    peers: PeerAttestations | None = None,
    may_wait: Callable[[], bool] = lambda: False,
) -> Attested:
    """Sign the proposal of the checkpoint, attest to it with every key of the committee that is here, and wait for
    peers while those are too few and ``may_wait`` says that there is time.

    SlotLost, DutyError, HaDatabaseError, SigningError.
    """
    if turn.proposer is None:
        return Attested({})
    header, root, modifier = checkpoint.header, checkpoint.archive.root, checkpoint.fee_asset_price_modifier
    proposed = door.sign(
        turn.proposer,
        DutyType.CHECKPOINT_PROPOSAL,
        digests.checkpoint_proposal(header, root, modifier),
        slot=turn.slot,
        block_number=checkpoint.blocks[-1].number,
    )
    message = digests.attestation(header, root, modifier)
    members = own_members(turn, door)
    signatures = own_attestations(turn.slot, members, message, door)
    if peers is not None:
        # After the own ones: a node that shares the keys would take their locks otherwise.
        proposal = peers.gossip.tell_checkpoint(checkpoint, proposed)
        for signature in signatures.values():
            peers.gossip.tell_attestation(proposal, signature)
        signatures = _wait_for_others(turn, message, signatures, peers, may_wait)
    try:
        return Attested(trim_to_quorum(turn.committee, signatures, turn.proposer, members))
    except ValueError as error:
        silent = [hex_text(member) for member in turn.committee if member not in signatures]
        raise SlotLost(f"too few attestations: {error}; none came of {', '.join(silent)}") from None


def _wait_for_others(
    turn: Turn, message: bytes, own: dict[bytes, bytes], peers: PeerAttestations, may_wait: Callable[[], bool]
) -> dict[bytes, bytes]:
    """With those of other members as they come, until they are enough."""
    needed = quorum(len(turn.committee))
    while True:
        others = {member: signature for member, signature in peers.pool.of(message).items() if member in turn.committee}
        signatures = others | own
        if len(signatures) >= needed or not may_wait():
            _require_signed(message, signatures)
            return signatures
        peers.pool.wait(peers.look_s())


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
