"""Records that a block source hands to ingestion.

A source first says which chain it has (:class:`ChainRecord`, :class:`GenesisRecord`), then yields
records in chain order.  Ingestion does not know where they come from, and believes nothing: a
record is a claim that is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from fastnode.errors import DecodeError, FastnodeError
from fastnode.protocol import releases
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    PRICE_MODIFIER_BITS,
    CheckpointHeader,
    CommitteeAttestation,
    L1PublishedData,
    PublishedCheckpoint,
)
from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_CHECKPOINT
from fastnode.protocol.fields import (
    as_record,
    element_path,
    fields_from_texts,
    read_decimal,
    read_field,
    read_fields,
    read_list,
    read_number,
    read_record,
    split_fields,
)
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FOUR, Release
from fastnode.protocol.tips import L2Tips
from fastnode.records import dataclass

if TYPE_CHECKING:
    pass

__all__ = [
    "BlockRecord",
    "ChainRecord",
    "CheckpointAuthority",
    "CheckpointRecord",
    "GenesisRecord",
    "L1Tips",
    "MessageSource",
    "MovedRecord",
    "Publication",
    "PublicationClaim",
    "Record",
    "TipsRecord",
    "UndoRecord",
]

#: l1Constants that the node computes with; each must be there.
REQUIRED_L1_CONSTANTS = ("epochDuration", "slotDuration", "l1GenesisTime")
REQUIRED_NODE_INFO = ("l1ChainId", "rollupVersion")
#: Addresses by their names in nodeInfo.
NODE_INFO_ADDRESSES = ("l1ContractAddresses", "protocolContractAddresses")


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """Identity of the chain, in the words of the node it was taken from.

    ``min_fees`` is that node's last answer to ``node_getCurrentMinFees``, or None.  ``rollup_release`` is the release
    that the roots of the rollup name, or None where only the node version does.
    """

    node_info: dict[str, Any]
    l1_constants: dict[str, Any]
    min_fees: dict[str, Any] | None = None
    rollup_release: Release | None = None

    def __post_init__(self) -> None:
        check_node_info(self.node_info)
        for key in REQUIRED_L1_CONSTANTS:
            _check_natural(self.l1_constants.get(key), f"l1Constants.{key}")
        for key in ("epochDuration", "slotDuration"):
            if int(self.l1_constants[key]) == 0:
                raise DecodeError(f"l1Constants.{key}: must not be 0")

    @property
    def release(self) -> Release:
        """The release of the rollup, else of the node version; 4.x for a version that belongs to none, as files of old
        chains have."""
        if self.rollup_release is not None:
            return self.rollup_release
        return releases.of_version(str(self.node_info.get("nodeVersion", ""))) or FOUR

    @classmethod
    def from_json(cls, value: object) -> ChainRecord:
        record = as_record(value, "")
        fees = record.get("minFees")
        return cls(
            read_record(record, "nodeInfo", ""),
            read_record(record, "l1Constants", ""),
            None if fees is None else as_record(fees, "minFees"),
        )

    def to_json(self) -> dict[str, Any]:
        return {"nodeInfo": self.node_info, "l1Constants": self.l1_constants, "minFees": self.min_fees}


def check_node_info(info: dict[str, Any]) -> None:
    """DecodeError names the member that is missing, or is nothing that a node can compute with."""
    for key in REQUIRED_NODE_INFO:
        _check_natural(info.get(key), f"nodeInfo.{key}")
    for key in NODE_INFO_ADDRESSES:
        named = as_record(info.get(key), f"nodeInfo.{key}")
        for name, address in named.items():
            if not isinstance(address, str):
                raise DecodeError(f"nodeInfo.{key}.{name}: expected an address, got {address!r}")


def _check_natural(value: object, path: str) -> None:
    """A non-negative integer, as a number or as decimal digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 78:
        return
    if type(value) is int and value >= 0:
        return
    raise DecodeError(f"{path}: expected a non-negative integer, got {value!r}")


@dataclass(frozen=True, slots=True)
class GenesisRecord:
    """Block 0 and everything that exists before block 1.

    ``raw`` is the record as it was read: what is stored and exported, unknown keys included.
    """

    header: BlockHeader
    block_hash: bytes
    archive_root: bytes
    prefilled_public_data: tuple[tuple[bytes, bytes], ...]  # (leaf slot, value)
    contract_classes: tuple[tuple[bytes, dict[str, Any]], ...]  # (class id, ContractClassPublic)
    contract_instances: tuple[tuple[bytes, dict[str, Any]], ...]  # (address, ContractInstanceWithAddress)
    raw: dict[str, Any]

    @classmethod
    def from_json(cls, value: object) -> GenesisRecord:
        record = as_record(value, "")
        return cls(
            header=BlockHeader.from_json(read_record(record, "header", ""), "header"),
            block_hash=read_field(record, "blockHash", ""),
            archive_root=read_field(record, "archiveRoot", ""),
            prefilled_public_data=tuple(
                (read_field(pair, "slot", path), read_field(pair, "value", path))
                for pair, path in _items(record, "prefilledPublicData")
            ),
            contract_classes=tuple(
                (read_field(item, "id", path), item) for item, path in _items(record, "contractClasses")
            ),
            contract_instances=tuple(
                (read_field(item, "address", path), item) for item, path in _items(record, "contractInstances")
            ),
            raw={key: item for key, item in record.items() if key != "kind"},
        )

    def to_json(self) -> dict[str, Any]:
        return self.raw


def _items(record: dict[str, Any], key: str) -> Iterator[tuple[dict[str, Any], str]]:
    for index, item in enumerate(read_list(record, key, "")):
        path = element_path("", key, index)
        yield as_record(item, path), path


class CheckpointRecord:
    """One published checkpoint and the L1->L2 messages it inserts.

    Decoded in two steps: the headers are enough to see that a checkpoint is known already, and cost a
    hundredth of the bodies.
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self._published = read_record(raw, "published", "")
        self._checkpoint = read_record(self._published, "checkpoint", "published")
        self.number = read_number(self._checkpoint, "number", "checkpoint")
        texts = read_list(raw, "l1ToL2Messages", "")
        self.l1_to_l2_messages = split_fields(fields_from_texts(texts, "l1ToL2Messages"))

    @classmethod
    def of(cls, published: PublishedCheckpoint, messages: tuple[bytes, ...]) -> CheckpointRecord:
        """From a checkpoint that is decoded already."""
        record = cls.__new__(cls)
        checkpoint = published.checkpoint
        record._published = {
            "l1": published.l1.to_json(),
            "attestations": [item.to_json() for item in published.attestations],
        }
        record._checkpoint = {
            "blocks": list(checkpoint.blocks),
            "feeAssetPriceModifier": str(checkpoint.fee_asset_price_modifier),
        }
        record.number = checkpoint.number
        record.l1_to_l2_messages = messages
        record.header = checkpoint.header
        record.block_headers = tuple(block.header for block in checkpoint.blocks)
        record.published = published
        return record

    @cached_property
    def header(self) -> CheckpointHeader:
        return CheckpointHeader.from_json(read_record(self._checkpoint, "header", "checkpoint"), "checkpoint.header")

    @cached_property
    def block_headers(self) -> tuple[BlockHeader, ...]:
        blocks = read_list(self._checkpoint, "blocks", "checkpoint")
        return tuple(
            BlockHeader.from_json(as_record(block, path).get("header"), f"{path}.header")
            for index, block in enumerate(blocks)
            for path in [element_path("checkpoint", "blocks", index)]
        )

    @property
    def block_count(self) -> int:
        return len(read_list(self._checkpoint, "blocks", "checkpoint"))

    @property
    def publication_json(self) -> tuple[bytes, bytes]:
        """``l1`` and ``attestations`` as compact JSON in the record's own key order."""
        l1 = read_record(self._published, "l1", "published")
        return orjson.dumps(l1), orjson.dumps(read_list(self._published, "attestations", "published"))

    @property
    def fee_asset_price_modifier(self) -> int:
        return read_decimal(
            self._checkpoint, "feeAssetPriceModifier", "checkpoint", bits=PRICE_MODIFIER_BITS, signed=True
        )

    @cached_property
    def published(self) -> PublishedCheckpoint:
        return PublishedCheckpoint.from_json(self._published)


class BlockRecord:
    """A proposed block: one that follows the last checkpoint.

    ``l1_to_l2_messages`` (optional key ``l1ToL2Messages``) matters for the first block of a checkpoint.
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self._block = read_record(raw, "block", "")
        self.l1_to_l2_messages = (
            split_fields(read_fields(raw, "l1ToL2Messages", "", maximum=L1_TO_L2_MESSAGES_PER_CHECKPOINT))
            if "l1ToL2Messages" in raw
            else ()
        )

    @cached_property
    def header(self) -> BlockHeader:
        return BlockHeader.from_json(read_record(self._block, "header", "block"), "block.header")

    @cached_property
    def block(self) -> L2Block:
        return L2Block.from_json(self._block, "block")


@dataclass(frozen=True, slots=True)
class TipsRecord:
    """The four tips as the source sees them."""

    tips: L2Tips


@dataclass(frozen=True, slots=True)
class UndoRecord:
    """A reorg: every block above ``block_number`` is gone; ``is_below_final``: also some that were final."""

    block_number: int
    is_below_final: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    """The block of L1 that has a checkpoint now, and the attestations that it has there."""

    number: int
    header_hash: bytes
    l1: L1PublishedData
    attestations: tuple[CommitteeAttestation, ...]


@dataclass(frozen=True, slots=True)
class MovedRecord:
    """A reorg of L1 has brought stored checkpoints into other blocks of it; in the order of their numbers."""

    publications: tuple[Publication, ...]


Record = CheckpointRecord | BlockRecord | TipsRecord | UndoRecord | MovedRecord


class MessageSource(Protocol):
    """A place that L1->L2 messages come from: L1 itself, a node that keeps them."""

    @property
    def name(self) -> str: ...

    def messages_of(self, checkpoint_number: int) -> Sequence[bytes] | None:
        """The messages that a checkpoint inserts, without padding; None if they are not known (yet).

        May block for its own time-outs; called from worker threads.  The answer is a claim like all others.
        """
        ...


class L1Tips(Protocol):
    """Proven and final tips according to L1; goes before what another node says."""

    def newest(self) -> tuple[int, int] | None:
        """Numbers of the newest proven and of the newest finalized checkpoint; None before L1 has answered.

        Answers at once, from what is known; may be called from any thread.
        """
        ...


@dataclass(frozen=True, slots=True)
class PublicationClaim:
    """A checkpoint that another node says is on L1: its archive root, the block of L1, and its attestations there."""

    number: int
    archive_root: bytes
    l1_block_number: int
    attestations: tuple[CommitteeAttestation, ...]


class PublicationOnL1(NamedTuple):
    """The block of L1 that has a checkpoint, and the attestations that it has there."""

    l1: L1PublishedData
    attestations: tuple[CommitteeAttestation, ...]


class CheckpointAuthority(Protocol):
    """Knows which checkpoints there are: L1."""

    def archive_roots(self, numbers: Sequence[int]) -> Sequence[bytes] | None:
        """Root of the archive after each of these checkpoints, zero where there is none; None if it is not known now.

        May block for its own time-outs; called from worker threads.
        """
        ...

    def differences(self, claims: Sequence[PublicationClaim]) -> Sequence[FastnodeError | None] | None:
        """For each claim why it is not to be stored, None where it is true; None if it is not known now.  The archive
        roots are those that the authority has.

        May block for its own time-outs; called from worker threads.
        """
        ...

    def publications(self, claims: Sequence[PublicationClaim]) -> Sequence[PublicationOnL1 | None] | None:
        """For each claim what the authority has of the checkpoint, None where it has none or cannot tell; None if it is
        not known now.  May block for its own time-outs.
        """
        ...
