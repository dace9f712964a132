"""Checkpoints: the unit that is published on L1.

Checkpoint header, 316 bytes (348 from 5.x on), big-endian::

      0  lastArchiveRoot    32
     32  blockHeadersHash   32
     64  blobsHash          32
     96  inHash             32   (from 6.x on inboxRollingHash)
    128  epochOutHash       32
    160  slotNumber         32   (a uint256 on L1)
    192  timestamp          u64
    200  coinbase           20
    220  feeRecipient       32
    252  feePerDaGas        u128
    268  feePerL2Gas        u128
    284  totalManaUsed      32
    316  accumulatedFees    32   (from 5.x on)

Its hash, the "checkpoint hash" of the tips, is ``sha256_to_field`` of these bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self, cast

from fastnode.protocol.block import L2Block
from fastnode.protocol.constants import BLOCKS_PER_CHECKPOINT_MAX, COMMITTEE_MEMBERS_MAX
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, as_record, hex_text, read_bytes
from fastnode.protocol.hashing import poseidon2_unbalanced_root, sha256_to_field
from fastnode.protocol.header import SNAPSHOT, AppendOnlyTreeSnapshot, GasFees
from fastnode.protocol.inbox_hash import rolled_inbox
from fastnode.protocol.messages import in_hash
from fastnode.protocol.records import (
    ETH_ADDRESS,
    FIELD,
    Record,
    data,
    decimal,
    field_number,
    many,
    member,
    number,
    of,
    optional,
    record,
)
from fastnode.protocol.releases import Release

SIGNATURE_BYTES: Final = 65
#: In JSON v is a number without a zero before it: of those who have not signed it has one digit.
_SHORT_SIGNATURE_CHARACTERS: Final = len("0x") + 2 * SIGNATURE_BYTES - 1
_TWO_DIGITS: Final = 0x10
#: feeAssetPriceModifier is an int256 on L1.
PRICE_MODIFIER_BITS: Final = 255


@record
class CheckpointHeader(Record):
    """The header of a checkpoint, of which L1 stores the hash."""

    last_archive_root: bytes = member(FIELD, "Root of the archive before the checkpoint.")
    block_headers_hash: bytes = member(FIELD, "Root over the hashes of its blocks.")
    blobs_hash: bytes = member(FIELD)
    in_hash: bytes = member(FIELD, "Root over the messages from L1 that it inserts.")
    epoch_out_hash: bytes = member(FIELD, "Root over the messages to L1 of the epoch up to it.")
    slot_number: int = member(number(width=FIELD_BYTES))
    timestamp: int = member(decimal(), "Seconds since 1970.")
    coinbase: bytes = member(ETH_ADDRESS, "L1 address that is paid.")
    fee_recipient: bytes = member(FIELD, "L2 address that receives the fees.")
    gas_fees: GasFees = member(of(GasFees))
    total_mana_used: int = member(field_number())
    accumulated_fees: int | None = optional(field_number(), "Fees of its blocks, from release 5.x on.", default=None)

    in_hash_name: ClassVar = "inHash"

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        """Read a header of any release.  DecodeError begins with the path of the member that is wrong."""
        found = as_record(value, path)
        form = RollingCheckpointHeader if RollingCheckpointHeader.in_hash_name in found else CheckpointHeader
        return cast("Self", form(*[read(found, key, path) for read, key in form._readers]))

    @classmethod
    def docs(cls) -> dict[str, str]:
        """The words about members of the headers of all releases."""
        return {row.json: row.doc for row in (*RollingCheckpointHeader.MEMBERS, *CheckpointHeader.MEMBERS) if row.doc}

    @classmethod
    def type_text(cls) -> str:
        """The headers of all releases in the language of schemas."""
        (rolling,) = [row for row in RollingCheckpointHeader.IN_JSON if row.name == "in_hash"]
        members = []
        for row in CheckpointHeader.IN_JSON:
            both = [each.type_text.replace(":", "?:", 1) for each in (row, rolling)]
            members += both if row.name == rolling.name else [row.type_text]
        return f"{{{', '.join(members)}}}"

    def hash(self) -> bytes:
        """The checkpoint hash (32 bytes, first byte zero)."""
        return sha256_to_field(self.to_buffer())


@record
class RollingCheckpointHeader(CheckpointHeader):
    """The header of a checkpoint from release 6.x on."""

    in_hash: bytes = member(
        FIELD, "Rolling hash of the Inbox after the last message that it inserts.", json="inboxRollingHash"
    )

    in_hash_name: ClassVar = "inboxRollingHash"


CHECKPOINT_HEADER: Final = of(CheckpointHeader)


def header_type(release: Release) -> type[CheckpointHeader]:
    """Return the class of a release's checkpoint headers."""
    return CheckpointHeader if release.inbox_form is None else RollingCheckpointHeader


def header_in_hash(release: Release, messages: Sequence[bytes], before: bytes = ZERO_FIELD) -> bytes:
    """Return ``in_hash`` of the header of a checkpoint that inserts these L1-to-L2 messages.

    ``before``: that of the checkpoint before, where the release has a rolling hash; 0 for the first checkpoint.
    """
    return in_hash(messages) if release.inbox_form is None else rolled_inbox(before, messages, release.inbox_form)


def block_headers_hash(block_hashes: Sequence[bytes], separator: bytes = b"") -> bytes:
    """``blockHeadersHash`` of a checkpoint from the hashes of its blocks, in order.

    ``separator``: that of the release; empty: it has none.
    """
    return poseidon2_unbalanced_root(block_hashes, separator)


def accumulated_fees(blocks: Sequence[L2Block], release: Release) -> int | None:
    """``accumulatedFees`` of a checkpoint of these blocks; None: its release does not count them."""
    return sum(block.header.total_fees for block in blocks) if release.counts_fees else None


@record
class Checkpoint(Record):
    """A run of blocks of one slot."""

    archive: AppendOnlyTreeSnapshot = member(SNAPSHOT, "Archive tree after the last of its blocks.")
    header: CheckpointHeader = member(CHECKPOINT_HEADER)
    blocks: tuple[L2Block, ...] = member(many(L2Block, BLOCKS_PER_CHECKPOINT_MAX))
    number: int = member(number())
    fee_asset_price_modifier: int = member(decimal(PRICE_MODIFIER_BITS, signed=True))

    @property
    def total_mana_used(self) -> int:
        """Value that ``totalManaUsed`` of the checkpoint's header must have: the sum over the blocks."""
        return sum(block.header.total_mana_used for block in self.blocks)


@record
class L1PublishedData(Record):
    """The L1 block that carries the checkpoint."""

    block_number: int = member(decimal())
    timestamp: int = member(decimal(), "Seconds since 1970.")
    block_hash: bytes = member(data(FIELD_BYTES, "Fr"), "Hash of a block of L1, not a field element.")


def _read_signature(record: dict[str, Any], key: str, path: str) -> bytes:
    text = record.get(key)
    if isinstance(text, str) and len(text) == _SHORT_SIGNATURE_CHARACTERS:
        record = record | {key: f"{text[:-1]}0{text[-1]}"}
    return read_bytes(record, key, path, SIGNATURE_BYTES)


def _write_signature(signature: bytes) -> str:
    text = hex_text(signature)
    return text[:-2] + text[-1] if signature[-1] < _TWO_DIGITS else text


_SIGNATURE: Final = data(SIGNATURE_BYTES, "Signature")._replace(read=_read_signature, write=_write_signature)


@record
class CommitteeAttestation(Record):
    """One committee member."""

    address: bytes = member(ETH_ADDRESS)
    signature: bytes = member(_SIGNATURE, "r 32, s 32, v 1; all zero when it did not sign.")


@record
class PublishedCheckpoint(Record):
    """A checkpoint with its place on L1 and its attestations."""

    checkpoint: Checkpoint = member(of(Checkpoint))
    l1: L1PublishedData = member(of(L1PublishedData))
    attestations: tuple[CommitteeAttestation, ...] = member(many(CommitteeAttestation, COMMITTEE_MEMBERS_MAX))


def packed_attestations(attestations: Sequence[CommitteeAttestation]) -> tuple[bytes, bytes]:
    """Signature indices, and signatures or addresses, as they are proposed on L1; in the committee's order."""
    indices, parts = bytearray(-(-len(attestations) // 8)), []
    for place, attestation in enumerate(attestations):
        signature = attestation.signature
        if not any(signature):
            parts.append(attestation.address)
            continue
        indices[place // 8] |= 0x80 >> place % 8
        parts.append(signature[SIGNATURE_BYTES - 1 :] + signature[: SIGNATURE_BYTES - 1])
    return bytes(indices), b"".join(parts)
