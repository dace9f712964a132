"""Taking back a checkpoint that its committee does not stand behind: with the next proposal, or alone if there is none.

Such a checkpoint stays pending on L1, and no follower builds on it.  The next proposer takes it back in the
transaction of its own; when that does not happen, members of the committee do so after a while, then everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import SlotLost, UpstreamError
from fastnode.log import log_facts
from fastnode.protocol.ethereum import recover_signer
from fastnode.publishing.propose import Attestations, InvalidateCall
from fastnode.records import dataclass
from fastnode.sequencing.attestations import own_members
from fastnode.sequencing.turns import Turn, pending_override
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES
from fastnode.sources.l1.proposals import EventPlace, Proposal
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.source import InvalidCheckpoint
from fastnode.sources.l1.state import L1State

if TYPE_CHECKING:
    from fastnode.sequencing.l1_publication import KeyDoor, L1Publication
    from fastnode.sources.l1.service import L1Reader

__all__ = ["Invalidation", "InvalidationTimes", "bad_member"]

logger = logging.getLogger("fastnode.sequencer")

_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidationTimes:
    """Seconds after the L1 block of the checkpoint from which members of the committee, and others, take it back."""

    member_s: float = 144.0
    other_s: float = 432.0


class Invalidation:
    """Used by the proposer's thread.  ``invalid`` gives the checkpoint on L1 that is not to be stored."""

    def __init__(
        self, reader: L1Reader, invalid: Callable[[], InvalidCheckpoint | None], times: InvalidationTimes
    ) -> None:
        self._reader = reader
        self._invalid = invalid
        self._times = times
        self._taken_back: EventPlace | None = None

    def reconfigure(self, *, member_s: float, other_s: float) -> None:
        self._times = replace(self._times, member_s=member_s, other_s=other_s)

    @property
    def newest(self) -> InvalidCheckpoint | None:
        return self._invalid()

    def clear(self) -> None:
        """It has been replaced."""
        self._taken_back = None

    def call(self, facts: RollupFacts, state: L1State) -> InvalidateCall | None:
        """Call that takes the checkpoint back; None when there is none, or the next proposal prunes it anyhow."""
        invalid = self._invalid()
        if invalid is None or state.can_prune:
            return None
        time = facts.start_of_slot(invalid.proposal.header.slot_number)
        committee: tuple[bytes, ...] = self._reader.run(
            lambda endpoint: endpoint.read(facts.rollup, contracts.COMMITTEE_AT, time)
        )[0]
        proposal = invalid.proposal
        attestations = Attestations(proposal.signature_indices, proposal.signatures_or_addresses)
        return InvalidateCall(
            number=invalid.number,
            attestations=attestations,
            committee=committee,
            bad=bad_member(proposal, committee),
        )

    def override(self, facts: RollupFacts, state: L1State) -> dict[str, Any] | None:
        """State of L1 as it will be without the checkpoint."""
        invalid = self._invalid()
        if invalid is None or state.can_prune:
            return None
        return pending_override(facts, invalid.number - 1, state.proven)

    def fall_back(self, facts: RollupFacts, turn: Turn, now: float, door: KeyDoor, publisher: L1Publication) -> None:
        """Take it back alone when its time has come; what fails is tried again in the next slot."""
        invalid = self._invalid()
        if invalid is None or invalid.event == self._taken_back:
            return
        wait_s = self._times.member_s if own_members(turn, door) else self._times.other_s
        if now - invalid.block.timestamp < wait_s:
            return
        try:
            _, state = self._reader.seen()
            call = self.call(facts, state)
            if call is not None:
                publisher.invalidate(call)
                self._taken_back = invalid.event
                logger.info("took back a checkpoint that is not valid", extra=log_facts(checkpoint=invalid.number))
        except (SlotLost, UpstreamError) as error:
            shown = log_facts(checkpoint=invalid.number, reason=str(error))
            logger.warning("a checkpoint that is not valid could not be taken back", extra=shown)


def bad_member(proposal: Proposal, committee: tuple[bytes, ...]) -> int | None:
    """The place of the first wrong entry; None when all are right, so that there are too few of them."""
    digest = proposal.attested_digest
    for place, (attestation, member) in enumerate(zip(proposal.attestations(len(committee)), committee, strict=True)):
        is_signed = attestation.address == _NO_ADDRESS
        address = recover_signer(digest, attestation.signature) if is_signed else attestation.address
        if address != member:
            return place
    return None
