"""Check that the committee of its epoch has attested to a checkpoint.

The rollup takes a checkpoint with any attestations and lets it be challenged later, so a follower looks for itself:
every member must be there, in the committee's order, by its signature or by its address, and floor(2n/3) + 1 of them
must have signed.  An epoch without a committee, or one in which the escape hatch is open, needs none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from fastnode.errors import DecodeError, UpstreamFault, UpstreamRejection
from fastnode.protocol.ethereum import keccak_256, recover_signer
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import ADDRESS_BYTES, hex_data
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, contract_call
from fastnode.sources.l1.proposals import Proposal
from fastnode.sources.l1.rollup import RollupFacts

__all__ = ["AttestationCheck", "quorum", "refusal_of"]

#: Committees that are kept; more than the epochs that can be under way at once.
EPOCHS_MAX: Final = 12
_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)
#: The one revert that says that there are too few validators for a committee.
_TOO_FEW_NAME: Final = "ValidatorSelection__InsufficientValidatorSetSize"
_TOO_FEW_SELECTOR: Final = hex_data(keccak_256(f"{_TOO_FEW_NAME}(uint256,uint256)".encode())[:4])


def quorum(committee_size: int) -> int:
    """Signatures that a checkpoint needs."""
    return committee_size * 2 // 3 + 1


def refusal_of(proposal: Proposal, committee: tuple[bytes, ...]) -> str | None:
    """Reason why the attestations of a proposal do not suffice; None if they do."""
    try:
        attestations = proposal.attestations(len(committee))
    except DecodeError as error:
        return str(error)
    if len(attestations) != len(committee):
        return f"it has {len(attestations)} attestations of a committee of {len(committee)}"
    digest = proposal.attested_digest
    signed = 0
    for place, (attestation, member) in enumerate(zip(attestations, committee, strict=True)):
        is_signed = attestation.address == _NO_ADDRESS
        address = recover_signer(digest, attestation.signature) if is_signed else attestation.address
        if address != member:
            who = "no address" if address is None else "0x" + address.hex()
            return f"attestation {place} is of {who}, the committee has 0x{member.hex()} there"
        signed += is_signed
    if signed < quorum(len(committee)):
        return f"{signed} of {len(committee)} have signed, {quorum(len(committee))} are needed"
    return None


class AttestationCheck:
    """Usable from any thread."""

    def __init__(self, facts: RollupFacts) -> None:
        self.facts = facts
        #: By epoch: the block at which it was asked for, and the committee.
        self._committees: OrderedDict[int, tuple[L1Block, tuple[bytes, ...]]] = OrderedDict()
        self._lock = threading.Lock()

    def refusal_of(self, endpoint: L1Endpoint, proposal: Proposal, head: L1Block) -> str | None:
        """Reason why the checkpoint is not to be stored; None if it is.  Committees are asked for at block ``head``."""
        facts = self.facts
        if facts.target_committee_size == 0:
            return None
        epoch = proposal.header.slot_number // facts.epoch_duration
        asked_at, committee = self._committee_of(endpoint, epoch, head)
        reason = refusal_of(proposal, committee) if committee else None
        if reason is not None and asked_at != head:
            # Nothing is refused for what a provider said once, before.
            with self._lock:
                self._committees.pop(epoch, None)
            _, committee = self._committee_of(endpoint, epoch, head)
            reason = refusal_of(proposal, committee) if committee else None
        if reason is not None and self._is_hatch_open(endpoint, epoch, head):
            return None
        return reason

    def _committee_of(self, endpoint: L1Endpoint, epoch: int, head: L1Block) -> tuple[L1Block, tuple[bytes, ...]]:
        """And the block at which it was asked for.  Empty where there is none; the next call asks again."""
        with self._lock:
            known = self._committees.get(epoch)
        if known is not None:
            return known
        facts = self.facts
        time = facts.start_of_slot(epoch * facts.epoch_duration)
        call = contract_call(facts.rollup, contracts.COMMITTEE_AT, time, block=head.number)
        answer = endpoint.answers([call])[0]
        if isinstance(answer, UpstreamRejection):
            if _has_too_few_validators(answer):
                return head, ()
            raise UpstreamFault(f"it does not give the committee of epoch {epoch}: {answer}")
        committee: tuple[bytes, ...] = contracts.COMMITTEE_AT.decode(answer)[0]
        if committee:
            with self._lock:
                self._committees[epoch] = (head, committee)
                while len(self._committees) > EPOCHS_MAX:
                    self._committees.popitem(last=False)
        return head, committee

    def _is_hatch_open(self, endpoint: L1Endpoint, epoch: int, head: L1Block) -> bool:
        """True if the escape hatch is open; what cannot be decided counts as closed."""
        try:
            hatch = endpoint.read(self.facts.rollup, contracts.ESCAPE_HATCH, block=head.number)[0]
            if hatch == _NO_ADDRESS:
                return False
            return bool(endpoint.read(hatch, contracts.IS_HATCH_OPEN, epoch, block=head.number)[0])
        except (UpstreamRejection, DecodeError):
            return False


def _has_too_few_validators(rejection: UpstreamRejection) -> bool:
    text = f"{rejection.message} {rejection.data}"
    return _TOO_FEW_NAME in text or _TOO_FEW_SELECTOR in text
