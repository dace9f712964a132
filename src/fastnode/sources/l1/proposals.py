"""A checkpoint as it is proposed on L1: the event of the rollup, and the call data that it commits to.

    CheckpointProposed(number, archive)             topics
        versioned hashes, payload digest, attestations hash                data

    propose((archive, price modifier, header), attestations, signers, signature, blob input)
        word 0         archive root                    14  offset of the attestations
             1         price modifier, signed          15  offset of the signers
             2 ..  6   last archive, block headers,    16  v, r, s of the proposer
                       blobs, in and out hash          19  offset of the blob input
             7 .. 13   slot, timestamp, coinbase, fee
                       recipient, two gas fees, mana
                       (from 5.x on fees in word 14; all behind it one word later)

    blob input     count 1 | that many commitments 48

    attestations   signature indices (bytes: one bit per member, the highest first), signatures or addresses (bytes:
                   v 1 | r 32 | s 32 of a member whose bit is set, else its address 20)

The payload digest covers archive, modifier and header, the attestations hash the attestations.  So call data that has
both is what was proposed, wherever in a transaction it was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from fastnode.errors import DecodeError
from fastnode.kernels import encode
from fastnode.protocol.checkpoint import CheckpointHeader, CommitteeAttestation, RollingCheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, attested_digest, keccak_256, payload_digest
from fastnode.protocol.fields import MODULUS, U32_BITS, U64_BITS, U128_BITS
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import COMMITMENT_BYTES
from fastnode.records import dataclass
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, from_quantity, hex_data, words_of

__all__ = [
    "CHECKPOINT_PROPOSED",
    "PROPOSE_SELECTOR",
    "PROPOSE_WITH_BUCKET_SELECTOR",
    "PROPOSE_WITH_FEES_SELECTOR",
    "EventPlace",
    "Proposal",
    "ProposalLog",
    "ProposedCheckpoint",
    "attestations_hash",
    "bytes_place_at",
    "call_data_of",
    "digest_of_call",
    "proposal_log",
    "read_bytes_at",
    "word_at",
]

_SELECTOR_BYTES: Final = 4
_EVENT_NAME: Final = "CheckpointProposed"
CHECKPOINT_PROPOSED: Final = hex_data(keccak_256(b"CheckpointProposed(uint256,bytes32,bytes32[],bytes32,bytes32)"))
PROPOSE_SELECTOR: Final = keccak_256(
    b"propose((bytes32,(int256),(bytes32,bytes32,bytes32,bytes32,bytes32,uint256,uint256,address,bytes32,"
    b"(uint128,uint128),uint256)),(bytes,bytes),address[],(uint8,bytes32,bytes32),bytes)"
)[:_SELECTOR_BYTES]
#: The same for headers with fees, from release 5.x on.
PROPOSE_WITH_FEES_SELECTOR: Final = keccak_256(
    b"propose((bytes32,(int256),(bytes32,bytes32,bytes32,bytes32,bytes32,uint256,uint256,address,bytes32,"
    b"(uint128,uint128),uint256,uint256)),(bytes,bytes),address[],(uint8,bytes32,bytes32),bytes)"
)[:_SELECTOR_BYTES]
#: The same with the hint of a bucket of the Inbox behind the header, from release 6.x on.
PROPOSE_WITH_BUCKET_SELECTOR: Final = keccak_256(
    b"propose((bytes32,(int256),(bytes32,bytes32,bytes32,bytes32,bytes32,uint256,uint256,address,bytes32,"
    b"(uint128,uint128),uint256,uint256),uint256),(bytes,bytes),address[],(uint8,bytes32,bytes32),bytes)"
)[:_SELECTOR_BYTES]
#: Words of a header without fees, and where it begins.
_HEADER_WORD: Final = 2
_HEADER_WORDS: Final = 12
#: Behind the header and the hint, up to the blob input.
_BLOB_INPUT_WORD: Final = 5


class _CallForm(NamedTuple):
    """Form of a ``propose`` call: words of its header, words of its arguments behind that, class of the header."""

    header_words: int
    hint_words: int
    header_type: type[CheckpointHeader]


_CALL_FORMS: Final[Mapping[bytes, _CallForm]] = {
    PROPOSE_SELECTOR: _CallForm(_HEADER_WORDS, 0, CheckpointHeader),
    PROPOSE_WITH_FEES_SELECTOR: _CallForm(_HEADER_WORDS + 1, 0, CheckpointHeader),
    PROPOSE_WITH_BUCKET_SELECTOR: _CallForm(_HEADER_WORDS + 1, 1, RollingCheckpointHeader),
}
_EVENT_HEAD_WORDS: Final = 4  # offset, payload digest, attestations hash, then the count of hashes
_NO_ADDRESS: Final = bytes(ADDRESS_BYTES)
_SIGNATURE_BYTES: Final = 65
_NO_SIGNATURE: Final = bytes(_SIGNATURE_BYTES)


@dataclass(frozen=True, slots=True)
class ProposalLog:
    """An event as far as it must be read to know whether it is of the chain; ``data``: the rest, as it came.

    Anybody's transaction may have brought it and taken it back at once, so nothing else is asked of it.
    """

    number: int
    archive_root: bytes
    block_number: int
    block_hash: bytes
    tx_hash: str
    log_index: int
    data: object

    @classmethod
    def from_log(cls, log: dict[str, Any]) -> ProposalLog:
        """DecodeError if it is no such log."""
        topics = log.get("topics")
        if not isinstance(topics, list) or len(topics) != 3 or topics[0] != CHECKPOINT_PROPOSED:
            raise DecodeError(f"{_EVENT_NAME}: a log of another event")
        number, archive, block_hash, tx_hash = (
            _one_word(value, name)
            for value, name in (
                (topics[1], _EVENT_NAME),
                (topics[2], _EVENT_NAME),
                (log.get("blockHash"), "log.blockHash"),
                (log.get("transactionHash"), "log.transactionHash"),
            )
        )
        return cls(
            number=int.from_bytes(number, "big"),
            archive_root=archive,
            block_number=from_quantity(log.get("blockNumber"), "log.blockNumber"),
            block_hash=block_hash,
            tx_hash=hex_data(tx_hash),
            log_index=from_quantity(log.get("logIndex"), "log.logIndex"),
            data=log.get("data"),
        )


class EventPlace(NamedTuple):
    """Place of an event on L1."""

    block_hash: bytes
    tx_hash: str
    log_index: int


@dataclass(frozen=True, slots=True)
class ProposedCheckpoint:
    """A whole event, and where on L1 it is."""

    number: int
    archive_root: bytes
    versioned_hashes: tuple[bytes, ...]
    payload_digest: bytes
    attestations_hash: bytes
    block_number: int
    block_hash: bytes
    tx_hash: str
    log_index: int

    @property
    def place(self) -> EventPlace:
        """Place that tells it from every other event: the same checkpoint may be proposed again and again."""
        return EventPlace(self.block_hash, self.tx_hash, self.log_index)

    @classmethod
    def from_log(cls, log: ProposalLog) -> ProposedCheckpoint:
        """DecodeError if its data are none of such an event."""
        words = words_of(log.data, _EVENT_NAME)
        count = int.from_bytes(words[3], "big") if len(words) >= _EVENT_HEAD_WORDS else -1
        if int.from_bytes(words[0] if words else b"", "big") != 3 * WORD_BYTES or count != len(words) - 4:
            raise DecodeError(f"{_EVENT_NAME}: a log of {len(words)} words")
        return cls(
            number=log.number,
            archive_root=log.archive_root,
            versioned_hashes=tuple(words[4:]),
            payload_digest=words[1],
            attestations_hash=words[2],
            block_number=log.block_number,
            block_hash=log.block_hash,
            tx_hash=log.tx_hash,
            log_index=log.log_index,
        )


def proposal_log(log: dict[str, Any]) -> ProposalLog | None:
    """None for a log that is none of a proposal: it is left out, and the checkpoint missed if there was one in it."""
    try:
        return ProposalLog.from_log(log)
    except DecodeError:
        return None


@dataclass(frozen=True)
class Proposal:
    """The arguments of a call of ``propose``, as far as the event commits to them, and the blob input beside them."""

    archive_root: bytes
    fee_asset_price_modifier: int
    header: CheckpointHeader
    signature_indices: bytes
    signatures_or_addresses: bytes
    #: The chain and the rollup, for which proposals of release 5.x are signed.
    domain: SigningDomain | None = None
    #: Commitments to its blobs, which nothing but their hashes confirms; none where they are in no form that L1 takes.
    commitments: tuple[bytes, ...] = ()

    @classmethod
    def from_call_data(cls, data: bytes | memoryview, domain: SigningDomain | None = None) -> Proposal:
        """From call data with its selector; DecodeError for anything that L1 would not have carried out.

        L1 takes roots that are not below the field modulus: see :meth:`check_fields`.
        """
        words, form = _head_words(data)
        arguments = data[_SELECTOR_BYTES:]
        behind = _HEADER_WORD + form.header_words + form.hint_words
        attestations = int.from_bytes(words[behind], "big")
        return cls(
            archive_root=words[0],
            fee_asset_price_modifier=int.from_bytes(words[1], "big", signed=True),
            header=_header(words, form),
            signature_indices=read_bytes_at(arguments, attestations, 0),
            signatures_or_addresses=read_bytes_at(arguments, attestations, 1),
            domain=domain,
            commitments=_commitments(arguments, behind + _BLOB_INPUT_WORD),
        )

    def check_fields(self) -> None:
        """DecodeError for what no checkpoint can have: a root that is not below the field modulus."""
        header = self.header
        roots = (header.last_archive_root, header.block_headers_hash, header.blobs_hash, header.in_hash)
        for value in (self.archive_root, *roots, header.epoch_out_hash, header.fee_recipient):
            if int.from_bytes(value, "big") >= MODULUS:
                raise DecodeError(f"propose: {hex_data(value)} is not below the field modulus")

    @cached_property
    def payload_digest(self) -> bytes:
        """Digest in the field of this name of the event; what a committee attests to."""
        return payload_digest(self.header, self.archive_root, self.fee_asset_price_modifier, self.domain)

    @property
    def attested_digest(self) -> bytes:
        """Digest that the members of the committee sign."""
        return attested_digest(self.header, self.payload_digest)

    @cached_property
    def attestations_hash(self) -> bytes:
        """Over the attestations in the one canonical form, from any form of the call data."""
        return attestations_hash(self.signature_indices, self.signatures_or_addresses)

    def is_of(self, proposed: ProposedCheckpoint) -> bool:
        """True if this is the proposal that the event tells of."""
        return (
            self.archive_root == proposed.archive_root
            and self.payload_digest == proposed.payload_digest
            and self.attestations_hash == proposed.attestations_hash
        )

    def attestations(self, committee_size: int) -> tuple[CommitteeAttestation, ...]:
        """One per member of a committee; members that signed are known by their signatures alone.  DecodeError."""
        data, at = self.signatures_or_addresses, 0
        found = []
        for member in range(committee_size if data else 0):
            byte, bit = divmod(member, 8)
            is_signed = byte < len(self.signature_indices) and self.signature_indices[byte] >> (7 - bit) & 1
            length = _SIGNATURE_BYTES if is_signed else ADDRESS_BYTES
            part = data[at : at + length]
            if len(part) != length:
                raise DecodeError(f"attestations: the data ends before member {member}")
            at += length
            if is_signed:
                found.append(CommitteeAttestation(_NO_ADDRESS, part[1:] + part[:1]))
            else:
                found.append(CommitteeAttestation(part, _NO_SIGNATURE))
        return tuple(found)


def digest_of_call(data: bytes | memoryview, domain: SigningDomain | None = None) -> bytes:
    """The payload digest of what call data of ``propose`` propose, from its head alone.  DecodeError."""
    words, form = _head_words(data)
    header, modifier = _header(words, form), int.from_bytes(words[1], "big", signed=True)
    return payload_digest(header, words[0], modifier, domain)


def attestations_hash(signature_indices: bytes, signatures_or_addresses: bytes) -> bytes:
    """Hash of attestations in an event (32 bytes)."""
    first = _encoded_bytes(signature_indices)
    offsets = _word(WORD_BYTES) + _word(2 * WORD_BYTES) + _word(2 * WORD_BYTES + len(first))
    return keccak_256(offsets + first + _encoded_bytes(signatures_or_addresses))


def _head_words(data: bytes | memoryview) -> tuple[list[bytes], _CallForm]:
    """Return the words before what arguments point to, and the form that the selector says."""
    form = _CALL_FORMS.get(bytes(data[:_SELECTOR_BYTES]))
    if form is None:
        raise DecodeError("propose: another function is called")
    length = (_HEADER_WORD + form.header_words + form.hint_words + _BLOB_INPUT_WORD + 1) * WORD_BYTES
    head = bytes(data[_SELECTOR_BYTES : _SELECTOR_BYTES + length])
    if len(head) < length:
        raise DecodeError(f"propose: {len(head)} bytes of arguments")
    return [head[at : at + WORD_BYTES] for at in range(0, len(head), WORD_BYTES)], form


def _commitments(arguments: bytes | memoryview, place: int) -> tuple[bytes, ...]:
    try:
        given = read_bytes_at(arguments, 0, place)
    except DecodeError:
        return ()
    if len(given) != 1 + int.from_bytes(given[:1], "big") * COMMITMENT_BYTES:
        return ()
    return tuple([given[at : at + COMMITMENT_BYTES] for at in range(1, len(given), COMMITMENT_BYTES)])


def _header(head: Sequence[bytes], form: _CallForm) -> CheckpointHeader:
    words = head[_HEADER_WORD:][: form.header_words]
    return form.header_type(
        last_archive_root=words[0],
        block_headers_hash=words[1],
        blobs_hash=words[2],
        in_hash=words[3],
        epoch_out_hash=words[4],
        slot_number=_number(words[5], U32_BITS, "slot"),
        timestamp=_number(words[6], U64_BITS, "timestamp"),
        coinbase=_number(words[7], 8 * ADDRESS_BYTES, "coinbase").to_bytes(ADDRESS_BYTES, "big"),
        fee_recipient=words[8],
        gas_fees=GasFees(_number(words[9], U128_BITS, "DA gas fee"), _number(words[10], U128_BITS, "L2 gas fee")),
        total_mana_used=_number(words[11], MODULUS.bit_length(), "mana"),
        accumulated_fees=_number(words[12], MODULUS.bit_length(), "fees") if len(words) > _HEADER_WORDS else None,
    )


def _one_word(value: object, name: str) -> bytes:
    words = words_of(value, name)
    if len(words) != 1:
        raise DecodeError(f"{name}: {len(words)} words instead of one")
    return words[0]


def _number(word: bytes, bits: int, name: str) -> int:
    value = int.from_bytes(word, "big")
    if value >> bits or value >= MODULUS:
        raise DecodeError(f"propose: the {name} {value} does not fit {bits} bits")
    return value


def _word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "big")


def _encoded_bytes(data: bytes) -> bytes:
    return _word(len(data)) + data + bytes(-len(data) % WORD_BYTES)


def word_at(data: bytes | memoryview, at: int) -> int:
    """The number in the word at a place.  DecodeError."""
    word = data[at : at + WORD_BYTES]
    if len(word) != WORD_BYTES:
        raise DecodeError(f"call data: no word at byte {at} of {len(data)}")
    return int.from_bytes(word, "big")


def read_bytes_at(data: bytes | memoryview, start: int, place: int) -> bytes:
    """The byte string whose offset is word ``place`` of the tuple that begins at ``start``.  DecodeError."""
    first, end = bytes_place_at(data, start, place)
    return bytes(data[first:end])


def bytes_place_at(data: bytes | memoryview, start: int, place: int) -> tuple[int, int]:
    """As :func:`read_bytes_at`: where the byte string begins and ends.  DecodeError."""
    if start > len(data):
        raise DecodeError(f"call data: nothing at byte {start} of {len(data)}")
    at = start + min(word_at(data, start + place * WORD_BYTES), len(data))
    length = word_at(data, at)
    first = at + WORD_BYTES
    if length > len(data) - first:
        raise DecodeError(f"call data: {length} bytes are said to be at byte {at}, {len(data) - first} are")
    return first, first + length


def call_data_of(value: object) -> bytes:
    """Bytes of hex data.  DecodeError."""
    try:
        return encode.from_hex(value) if isinstance(value, str) else _refuse()
    except ValueError:
        return _refuse()


def _refuse() -> bytes:
    raise DecodeError("call data: no hex data")
