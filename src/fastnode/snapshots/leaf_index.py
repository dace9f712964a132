"""Snapshots of leaves at a location: index, list of the parts of each, and what each must be.

    <location>/fastnode-<L1 chain id>-<rollup version>-<rollup address>/
      leaves.json                                                  index, newest snapshot first
      leaves-<YYYYMMDDHHMMSS, UTC>-<hash of the newest block>.json list of the parts of a snapshot
      parts/<SHA-256>                                              parts; one that several snapshots have is there once

    leaves.json  {"l1ChainId", "rollupVersion", "rollupAddress",
                  "snapshots": [{"l1BlockNumber", "l2BlockHash", "l2BlockNumber",
                                 "stateBlockHash", "stateBlockNumber", "timestamp" (milliseconds),
                                 "schemaVersion" (of the chain database), "bytes" (of all parts),
                                 "list": {"bytes", "sha256"},
                                 "checksum": SHA-256 of the network and of all the above}]}
    the list     {"archiver": [{"name", "bytes", "sha256"}],       the files of the chain database
                  "trees": [[{"bytes", "sha256"}]]}                leaves of the trees 0 to 3, each part whole rows;
                                                                   those of the archive are the hashes of the blocks

What is read here was written by others: no name leads out of a folder, and every number is bounded before it is used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import orjson

from fastnode.archiver.layout import SCHEMA_VERSION as ARCHIVER_SCHEMA
from fastnode.errors import SnapshotError
from fastnode.records import dataclass
from fastnode.snapshots.archive import ArchiveFacts
from fastnode.snapshots.index import Network, checksum_of, index_bytes, read_entries
from fastnode.storage.database_files import DATABASE_FILE
from fastnode.world_state.layout import LEAF_ROW_BYTES
from fastnode.world_state.trees import ARCHIVE, TREES

__all__ = [
    "LEAF_INDEX_FILE",
    "LIST_BYTES_MAX",
    "PART_ROWS",
    "SHIPPED",
    "LeafIndex",
    "LeafSnapshot",
    "PartList",
    "facts_of",
    "part_name",
]

LEAF_INDEX_FILE: Final = "leaves.json"
#: A list of a hundred thousand parts.
LIST_BYTES_MAX: Final = 16 << 20
#: Snapshots in an index.
_SNAPSHOTS_MAX: Final = 10_000
#: More than any disk has.
_BYTES_MAX: Final = 1 << 50
#: Leaves in a part: 5 to 9 MB.
PART_ROWS: Final = 1 << 17
#: The trees whose leaves are in parts.
SHIPPED: Final = tuple(tree for tree in TREES if tree is not ARCHIVE)

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HASH: Final = re.compile(r"0x[0-9a-f]{64}", re.ASCII)


def part_name(facts: ArchiveFacts) -> str:
    """Name of a part below the folder of its network."""
    return f"parts/{facts.sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSnapshot:
    """One entry of an index: the chain up to a block, and the leaves after a block of it, from which the rest of the
    state is caught up."""

    l1_block_number: int
    l2_block_hash: str
    l2_block_number: int
    state_block_hash: str
    state_block_number: int
    timestamp_ms: int
    #: Schema of the chain database.
    schema: int
    bytes: int
    parts: ArchiveFacts

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def is_usable(self) -> bool:
        """True if this fastnode reads a chain database of the schema."""
        return 1 <= self.schema <= ARCHIVER_SCHEMA

    @property
    def list_name(self) -> str:
        return f"leaves-{self.time:%Y%m%d%H%M%S}-{self.l2_block_hash}.json"

    def to_json(self, network: Network) -> dict[str, Any]:
        content = {
            "l1BlockNumber": self.l1_block_number,
            "l2BlockHash": self.l2_block_hash,
            "l2BlockNumber": self.l2_block_number,
            "stateBlockHash": self.state_block_hash,
            "stateBlockNumber": self.state_block_number,
            "timestamp": self.timestamp_ms,
            "schemaVersion": self.schema,
            "bytes": self.bytes,
            "list": {"bytes": self.parts.bytes, "sha256": self.parts.sha256},
        }
        return content | {"checksum": checksum_of(network, content)}

    @classmethod
    def from_json(cls, value: Any, network: Network) -> Self:
        """SnapshotError unless it is, to the last bit, what :meth:`to_json` made for this network."""
        try:
            content = {key: item for key, item in value.items() if key != "checksum"}
            if value["checksum"] != checksum_of(network, content):
                raise SnapshotError("the index is damaged: the checksum of an entry is wrong")
            snapshot = cls(
                l1_block_number=_count(value["l1BlockNumber"]),
                l2_block_hash=_matching(_HASH, value["l2BlockHash"]),
                l2_block_number=_count(value["l2BlockNumber"]),
                state_block_hash=_matching(_HASH, value["stateBlockHash"]),
                state_block_number=_count(value["stateBlockNumber"]),
                timestamp_ms=_count(value["timestamp"]),
                schema=_count(value["schemaVersion"]),
                bytes=_count(value["bytes"]),
                parts=_facts(value["list"], LIST_BYTES_MAX),
            )
            _ = snapshot.list_name
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError) as error:
            raise SnapshotError(f"the index is damaged: {error or type(error).__name__} in an entry") from error
        return snapshot


@dataclass(frozen=True, slots=True)
class PartList:
    """The parts of a snapshot: files of the chain database by name, leaves by tree id."""

    files: Mapping[str, ArchiveFacts]
    leaves: Sequence[Sequence[ArchiveFacts]]

    def __iter__(self) -> Iterator[ArchiveFacts]:
        yield from self.files.values()
        for parts in self.leaves:
            yield from parts

    @property
    def leaf_bytes(self) -> int:
        return sum(facts.bytes for parts in self.leaves for facts in parts)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(facts.bytes for facts in self)

    def to_bytes(self) -> bytes:
        files = [{"name": name, **_facts_json(facts)} for name, facts in self.files.items()]
        trees = [[_facts_json(facts) for facts in parts] for parts in self.leaves]
        return orjson.dumps({"archiver": files, "trees": trees})

    @classmethod
    def from_bytes(cls, text: bytes) -> Self:
        """SnapshotError for what :meth:`to_bytes` never makes."""
        try:
            value = orjson.loads(text)
            files = {_matching(DATABASE_FILE, item["name"]): _facts(item, _BYTES_MAX) for item in value["archiver"]}
            if len(files) != len(value["archiver"]):
                raise ValueError("a file that comes twice")
            leaves = tuple(
                tuple(_facts(item, PART_ROWS * LEAF_ROW_BYTES[tree.id]) for item in parts)
                for tree, parts in zip(SHIPPED, value["trees"], strict=True)
            )
            for tree, parts in zip(SHIPPED, leaves, strict=True):
                if len({facts.sha256 for facts in parts}) != len(parts):
                    raise ValueError(f"a part of the {tree.name} that comes twice")
                if any(facts.bytes % LEAF_ROW_BYTES[tree.id] for facts in parts):
                    raise ValueError(f"a part of the {tree.name} that cuts a leaf")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SnapshotError(f"the list of its parts has {error or type(error).__name__}") from error
        return cls(files, leaves)


@dataclass(frozen=True, slots=True)
class LeafIndex:
    """The snapshots of leaves of a network at a location, newest first."""

    network: Network
    snapshots: tuple[LeafSnapshot, ...] = ()

    def with_snapshot(self, snapshot: LeafSnapshot) -> Self:
        return type(self)(self.network, (snapshot, *self.snapshots))

    def newest(self, count: int | None) -> Self:
        """So many of them; None: all."""
        return type(self)(self.network, self.snapshots[:count])

    def to_bytes(self) -> bytes:
        return index_bytes(self.network, [snapshot.to_json(self.network) for snapshot in self.snapshots])

    @classmethod
    def from_bytes(cls, text: bytes, network: Network) -> Self:
        """SnapshotError: damaged, or of another network than ``network``."""
        entries = read_entries(text, network, " of leaves")
        if len(entries) > _SNAPSHOTS_MAX:
            raise SnapshotError(f"the index of leaves has more than {_SNAPSHOTS_MAX} snapshots")
        return cls(network, tuple(LeafSnapshot.from_json(item, network) for item in entries))


def facts_of(content: bytes) -> ArchiveFacts:
    return ArchiveFacts(len(content), hashlib.sha256(content).hexdigest())


def _facts_json(facts: ArchiveFacts) -> dict[str, Any]:
    return {"bytes": facts.bytes, "sha256": facts.sha256}


def _facts(value: Any, bytes_max: int) -> ArchiveFacts:
    count = _count(value["bytes"])
    if count > bytes_max:
        raise ValueError(f"a part of {count} bytes, more than {bytes_max}")
    return ArchiveFacts(count, _matching(_SHA256, value["sha256"]))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _BYTES_MAX:
        raise ValueError("a number that makes no sense")
    return value


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise ValueError("a name or a hash that makes no sense")
    return value
