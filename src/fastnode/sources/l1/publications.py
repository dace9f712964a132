"""Check that what another node says of published checkpoints is what L1 has: their attestations, beside its events.

    event with the checkpoint's number and archive root, near the block that is named: a reorg may have moved it
      its hash is that of the attestations in their canonical form    they are L1's
      it is another one      the call data of its transaction tell, as they may be in a form that is not canonical
    no such event            it is not on L1 yet, or not where the node says

An archive root does not cover attestations, and who serves others than L1 has would let honest proposers be accused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fastnode.archiver.source import PublicationClaim, PublicationOnL1
from fastnode.errors import DecodeError, FastnodeError, NotOnL1, UpstreamFault, UpstreamUnavailable
from fastnode.protocol.checkpoint import CommitteeAttestation, L1PublishedData, packed_attestations
from fastnode.protocol.ethereum import recover_signer
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint
from fastnode.sources.l1.inbox import REORG_BLOCKS
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.proposals import (
    CHECKPOINT_PROPOSED,
    Proposal,
    ProposalLog,
    ProposedCheckpoint,
    attestations_hash,
    proposal_log,
)
from fastnode.sources.l1.propose_calls import find_in_trace, find_in_transaction
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["PublicationCheck"]

#: Blocks of L1 between two claims from which on they are looked for with questions of their own.
_GAP_BLOCKS: Final = 1_000
_NO_ADDRESS: Final = bytes(20)


class PublicationCheck:
    """Usable from any thread."""

    def __init__(self, facts: RollupFacts) -> None:
        self._facts = facts
        self._logs = LogRanges(facts.rollup, CHECKPOINT_PROPOSED)

    def differences(
        self, endpoint: L1Endpoint, claims: Sequence[PublicationClaim], known: ProposalLog | None = None
    ) -> list[FastnodeError | None]:
        """Errors of the claims, NotOnL1 or UpstreamFault; None for a claim that is true.  ``known``: an event that was
        read before.  UpstreamError and DecodeError of the endpoint."""
        if known is not None and all(_is_of(claim, known) for claim in claims):
            return [None] * len(claims)
        events = self._events(endpoint, claims)
        return [self._difference(endpoint, claim, found) for claim, found in zip(claims, events, strict=True)]

    def publications(self, endpoint: L1Endpoint, claims: Sequence[PublicationClaim]) -> list[PublicationOnL1 | None]:
        """Publications that L1 has of the checkpoint of each claim, None where it has none or the call cannot be found.
        UpstreamError and DecodeError of the endpoint."""
        return [self._publication(endpoint, events) for events in self._events(endpoint, claims)]

    def _publication(self, endpoint: L1Endpoint, events: Sequence[ProposedCheckpoint]) -> PublicationOnL1 | None:
        if not events:
            return None
        event = events[-1]  # of a checkpoint that was pruned and came again, the one that is there
        proposal = self._proposal(endpoint, event)
        if isinstance(proposal, str):
            return None
        [answer] = endpoint.results([("eth_getBlockByHash", [hex_data(event.block_hash), False])])
        block = None if answer is None else L1Block.from_json(answer)
        if block is None or (block.hash, block.number) != (event.block_hash, event.block_number):
            raise UpstreamUnavailable(f"it does not give the block {hex_data(event.block_hash)} of an event of its own")
        place = L1PublishedData(block.number, block.timestamp, block.hash)
        return PublicationOnL1(place, tuple(proposal.attestations(self._facts.target_committee_size)))

    def _events(self, endpoint: L1Endpoint, claims: Sequence[PublicationClaim]) -> list[list[ProposedCheckpoint]]:
        """Events of the checkpoint of each claim near the block that it names, in the order of L1."""
        newest = endpoint.block("latest")
        if newest is None:
            raise UpstreamUnavailable("it does not give its newest block")
        wanted = {(claim.number, claim.archive_root) for claim in claims}
        events: dict[tuple[int, bytes], list[ProposedCheckpoint]] = {}
        # Providers refuse ranges that go beyond their newest block, and are not to suffer for what others claim.
        for first, last in _ranges(
            [claim.l1_block_number for claim in claims if claim.l1_block_number <= newest.number]
        ):
            for log in self._read(endpoint, first, min(last, newest.number)):
                key = (log.number, log.archive_root)
                if key in wanted:
                    events.setdefault(key, []).append(ProposedCheckpoint.from_log(log))
        return [
            [
                event
                for event in events.get((claim.number, claim.archive_root), ())
                if abs(event.block_number - claim.l1_block_number) <= REORG_BLOCKS
            ]
            for claim in claims
        ]

    def _read(self, endpoint: L1Endpoint, first: int, last: int) -> Iterator[ProposalLog]:
        for _, found in self._logs.read(endpoint, first, last):
            yield from (log for log in map(proposal_log, found) if log is not None)

    def _difference(
        self, endpoint: L1Endpoint, claim: PublicationClaim, events: Sequence[ProposedCheckpoint]
    ) -> FastnodeError | None:
        if not events:
            return NotOnL1(f"checkpoint {claim.number} was not proposed near L1 block {claim.l1_block_number}")
        given = _canonical_hash(claim.attestations)
        if any(event.attestations_hash == given for event in events):
            return None
        for event in events:
            proposal = self._proposal(endpoint, event)
            if isinstance(proposal, str):  # the endpoint cannot tell: no fault of it, nor of the other node
                return NotOnL1(f"the attestations to checkpoint {claim.number} cannot be compared: {proposal}")
            if self._has(proposal, claim.attestations):
                return None
        return UpstreamFault(f"checkpoint {claim.number} does not have the attestations that it has on L1")

    def _has(self, proposal: Proposal, attestations: Sequence[CommitteeAttestation]) -> bool:
        try:
            proposed = proposal.attestations(self._facts.target_committee_size)
        except DecodeError:
            return False
        digest = proposal.attested_digest
        return [_usual_form(item, digest) for item in attestations] == list(proposed)

    def _proposal(self, endpoint: L1Endpoint, event: ProposedCheckpoint) -> Proposal | str:
        """The call of ``propose``, or why it cannot be found."""
        [transaction] = endpoint.results([("eth_getTransactionByHash", [event.tx_hash])])
        domain = self._facts.signing_domain
        return find_in_transaction(transaction, domain, event) or find_in_trace(endpoint, domain, event)


def _ranges(blocks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last block of L1 of each question; a reorg may have brought an event nearby meanwhile."""
    numbers = sorted(set(blocks))
    first = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] - number > _GAP_BLOCKS:
            yield max(0, numbers[first] - REORG_BLOCKS), number + REORG_BLOCKS
            first = place + 1


def _is_of(claim: PublicationClaim, log: ProposalLog) -> bool:
    """True if the event is the claim's."""
    try:
        event = ProposedCheckpoint.from_log(log)
    except DecodeError:
        return False
    is_same = (event.number, event.archive_root) == (claim.number, claim.archive_root)
    return is_same and event.attestations_hash == _canonical_hash(claim.attestations)


def _canonical_hash(attestations: Sequence[CommitteeAttestation]) -> bytes | None:
    """None where they have no canonical form: members that signed are known by their signatures alone."""
    if any(item.address != _NO_ADDRESS and any(item.signature) for item in attestations):
        return None
    return attestations_hash(*packed_attestations(attestations))


def _usual_form(attestation: CommitteeAttestation, digest: bytes) -> CommitteeAttestation:
    """Nodes may write the address beside the signature that tells it."""
    address, signature = attestation.address, attestation.signature
    if any(signature) and address != _NO_ADDRESS and recover_signer(digest, signature) == address:
        return CommitteeAttestation(_NO_ADDRESS, signature)
    return attestation
