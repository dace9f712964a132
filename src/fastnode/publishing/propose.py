"""The calls that a proposer and a prover make on the rollup contract: plain functions of what goes into them.

    propose((archive, (price modifier), header), attestations, signers, (v, r, s), blob input)
    attestations    (bytes signature indices, bytes signatures or addresses), in the committee's order
    blob input      count 1 | commitment 48 ..., in the order of the transaction's blobs

Signatures are 65 bytes, r 32 | s 32 | v 1, as everywhere in this package; attestations have v in front.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fastnode.protocol.checkpoint import CheckpointHeader, RollingCheckpointHeader
from fastnode.protocol.constants import BLOBS_PER_CHECKPOINT_MAX
from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.fields import ZERO_FIELD, hex_text
from fastnode.protocol.kzg import COMMITMENT_BYTES
from fastnode.publishing.encoding import (
    address_word,
    addresses,
    arguments,
    byte_string,
    selector,
    signed_word,
    word,
    words,
)
from fastnode.records import dataclass
from fastnode.sources.l1.abi import ADDRESS_BYTES
from fastnode.sources.l1.attestation_check import quorum
from fastnode.sources.l1.proposals import PROPOSE_SELECTOR, PROPOSE_WITH_FEES_SELECTOR

__all__ = [
    "NO_ATTESTATIONS",
    "Attestations",
    "EpochProof",
    "InvalidateCall",
    "ProposeCall",
    "trim_to_quorum",
]

_SIGNATURE_BYTES: Final = 65
#: Entries of the list of fees: two words for each checkpoint that an epoch can have.
_FEE_WORDS: Final = 64

_INVALIDATE_BAD: Final = selector("invalidateBadAttestation(uint256,(bytes,bytes),address[],uint256)")
_INVALIDATE_TOO_FEW: Final = selector("invalidateInsufficientAttestations(uint256,(bytes,bytes),address[])")
_HEADER: Final = (
    "(bytes32,bytes32,bytes32,bytes32,bytes32,uint256,uint256,address,bytes32,(uint128,uint128),uint256,uint256)"
)
_ROOTS: Final = "bytes32,bytes32,bytes32"
_REST: Final = "(bytes,bytes),bytes,bytes"
_SUBMIT_PROOF: Final = selector(f"submitEpochRootProof((uint256,uint256,({_ROOTS},address),bytes32[],{_REST}))")
#: From release 5.x on.
_SUBMIT_PROOF_OF_HEADERS: Final = selector(
    f"submitEpochRootProof((uint256,uint256,({_ROOTS},address),{_HEADER}[],{_REST}))"
)
#: From release 6.x on: with the Inbox's rolling hashes, and fees of checkpoints that were proven before.
_SUBMIT_PROOF_OF_INBOX: Final = selector(
    "submitEpochRootProof("
    f"(uint256,uint256,({_ROOTS},bytes32,bytes32,address),(address,uint256)[],{_HEADER}[],{_REST}))"
)


@dataclass(frozen=True, slots=True)
class Attestations:
    """``signature_indices``: one bit per member, the highest first; ``signatures_or_addresses``: v 1 | r 32 | s 32 of a
    member whose bit is set, else its address 20.  Both empty where there is no committee."""

    signature_indices: bytes = b""
    signatures_or_addresses: bytes = b""

    @classmethod
    def of(cls, committee: Sequence[bytes], signatures: Mapping[bytes, bytes]) -> Attestations:
        """``signatures`` by the addresses of those who signed; ValueError for a stranger's or one of a wrong length."""
        strangers = [address for address in signatures if address not in committee]
        if strangers:
            raise ValueError(f"{hex_text(strangers[0])} is not in the committee")
        indices, data = bytearray(-(-len(committee) // 8)), []
        for place, member in enumerate(committee):
            signature = signatures.get(member)
            if signature is None:
                data.append(member)
                continue
            if len(signature) != _SIGNATURE_BYTES:
                raise ValueError(f"a signature has {_SIGNATURE_BYTES} bytes")
            indices[place // 8] |= 0x80 >> place % 8
            data.append(signature[64:] + signature[:64])
        return cls(bytes(indices), b"".join(data))

    def encode(self) -> bytes:
        """As an argument."""
        return arguments((byte_string(self.signature_indices),), (byte_string(self.signatures_or_addresses),))

    def hash(self) -> bytes:
        """Hash of them in the event of the proposal (32 bytes)."""
        return keccak_256(arguments((self.encode(),)))


NO_ATTESTATIONS: Final = Attestations()


def trim_to_quorum(
    committee: Sequence[bytes], signatures: Mapping[bytes, bytes], proposer: bytes, own: Collection[bytes] = ()
) -> dict[bytes, bytes]:
    """Exactly as many signatures as L1 wants to see: the proposer's first, then those of ``own`` members, then others.

    ValueError when there are too few, or the proposer's is missing.
    """
    needed = quorum(len(committee))
    signed = [member for member in committee if member in signatures]
    if proposer not in signed:
        raise ValueError(f"the proposer {hex_text(proposer)} has not signed")
    if len(signed) < needed:
        raise ValueError(f"{len(signed)} of {len(committee)} have signed, {needed} are needed")
    signed.sort(key=lambda member: (member != proposer, member not in own))  # stable: else the committee's order
    return {member: signatures[member] for member in signed[:needed]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeCall:
    """``signers``: addresses of those who signed, in the committee's order.  ``proposer_signature`` is over
    ``digests.attestations_and_signers``; without a committee it is the publisher's, and is not looked at."""

    header: CheckpointHeader
    archive_root: bytes
    proposer_signature: bytes
    commitments: tuple[bytes, ...]
    attestations: Attestations = NO_ATTESTATIONS
    signers: tuple[bytes, ...] = ()
    fee_asset_price_modifier: int = 0

    def __post_init__(self) -> None:
        if not 1 <= len(self.commitments) <= BLOBS_PER_CHECKPOINT_MAX:
            raise ValueError(f"a checkpoint has 1 to {BLOBS_PER_CHECKPOINT_MAX} blobs, not {len(self.commitments)}")
        if any(len(commitment) != COMMITMENT_BYTES for commitment in self.commitments):
            raise ValueError(f"a commitment has {COMMITMENT_BYTES} bytes")
        if len(self.proposer_signature) != _SIGNATURE_BYTES:
            raise ValueError(f"a signature has {_SIGNATURE_BYTES} bytes")

    @property
    def blob_input(self) -> bytes:
        return bytes([len(self.commitments)]) + b"".join(self.commitments)

    def call_data(self) -> bytes:
        """With the selector, 0x85b98fd8, or from release 5.x on 0x72636df9."""
        signature = self.proposer_signature
        counts_fees = self.header.accumulated_fees is not None
        return (PROPOSE_WITH_FEES_SELECTOR if counts_fees else PROPOSE_SELECTOR) + arguments(
            self.archive_root,
            signed_word(self.fee_asset_price_modifier),
            _header_words(self.header),
            (self.attestations.encode(),),
            (addresses(self.signers),),
            word(signature[64]) + signature[:64],
            (byte_string(self.blob_input),),
        )


def _header_words(header: CheckpointHeader) -> bytes:
    fees = header.gas_fees
    return b"".join(
        (
            header.last_archive_root,
            header.block_headers_hash,
            header.blobs_hash,
            header.in_hash,
            header.epoch_out_hash,
            word(header.slot_number),
            word(header.timestamp),
            address_word(header.coinbase),
            header.fee_recipient,
            word(fees.fee_per_da_gas),
            word(fees.fee_per_l2_gas),
            word(header.total_mana_used),
            b"" if header.accumulated_fees is None else word(header.accumulated_fees),
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidateCall:
    """Take back checkpoint ``number``, which was proposed with ``attestations``: the one at place ``bad`` of the
    committee is wrong, or, if that is None, they are too few."""

    number: int
    attestations: Attestations
    committee: tuple[bytes, ...]
    bad: int | None = None

    def call_data(self) -> bytes:
        encoded, committee = (self.attestations.encode(),), (addresses(self.committee),)
        if self.bad is None:
            return _INVALIDATE_TOO_FEW + arguments(word(self.number), encoded, committee)
        return _INVALIDATE_BAD + arguments(word(self.number), encoded, committee, word(self.bad))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochProof:
    """A proof of the checkpoints ``start`` to ``end``, all of one epoch.

    ``fees``: coinbase (20 bytes) and sum of fees of each of them; ``headers``: theirs, in the releases whose headers
    count fees, else none; ``previous_inbox``: the Inbox's rolling hash before them, in the releases that have one;
    ``attestations``: those of ``end``; ``blob_inputs``: versioned hash | z | y | commitment | proof of the batched
    blob, 192 bytes.
    """

    start: int
    end: int
    previous_archive: bytes
    end_archive: bytes
    out_hash: bytes
    prover_id: bytes
    fees: tuple[tuple[bytes, int], ...]
    blob_inputs: bytes
    headers: tuple[CheckpointHeader, ...] = ()
    previous_inbox: bytes = ZERO_FIELD
    attestations: Attestations = NO_ATTESTATIONS
    proof: bytes = b""

    def __post_init__(self) -> None:
        if len(self.fees) != self.end - self.start + 1 or not 1 <= len(self.fees) <= _FEE_WORDS // 2:
            raise ValueError(f"checkpoints {self.start} to {self.end} with {len(self.fees)} fees")
        if self.headers and len(self.headers) != len(self.fees):
            raise ValueError(f"checkpoints {self.start} to {self.end} with {len(self.headers)} headers")
        if len(self.prover_id) != ADDRESS_BYTES:
            raise ValueError(f"an address has {ADDRESS_BYTES} bytes")

    def call_data(self) -> bytes:
        """In the form of the headers' release, with the selector: 0xd8ea4277 in 4.x, 0x069d1525 in 5.x."""
        inbox = b""
        members: list[tuple[bytes]] = []
        if not self.headers:
            form = _SUBMIT_PROOF
            fees = [part for recipient, fee in self.fees for part in (int.from_bytes(recipient, "big"), fee)]
            members.append((words(fees + [0] * (_FEE_WORDS - len(fees))),))
        else:
            form = _SUBMIT_PROOF_OF_HEADERS
            if isinstance(self.headers[-1], RollingCheckpointHeader):
                form, inbox = _SUBMIT_PROOF_OF_INBOX, self.previous_inbox + self.headers[-1].in_hash
                # Checkpoints that were proven before may be named by their fees alone; whole headers do as well.
                members.append((word(0),))
            members.append((word(len(self.headers)) + b"".join(map(_header_words, self.headers)),))
        content = arguments(
            word(self.start) + word(self.end),
            self.previous_archive + self.end_archive + self.out_hash + inbox + address_word(self.prover_id),
            *members,
            (self.attestations.encode(),),
            (byte_string(self.blob_inputs),),
            (byte_string(self.proof),),
        )
        return form + arguments((content,))
