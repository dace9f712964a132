"""Index of the snapshots at a location, and what each must be.

    <location>/fastnode-<L1 chain id>-<rollup version>-<rollup address>/
      index.json                                                   newest snapshot first
      archiver-<YYYYMMDDHHMMSS, UTC>-<hash of the newest block>.tar
      world-state-<YYYYMMDDHHMMSS, UTC>-<hash of the newest block>.tar

    {"l1ChainId", "rollupVersion", "rollupAddress",
     "snapshots": [{"l1BlockNumber", "l2BlockHash", "l2BlockNumber", "timestamp" (milliseconds),
                    "schemaVersions": {"archiver", "worldState"},
                    "dataUrls": {"archiver", "world-state"},
                    "files": {"archiver": {"name", "bytes", "sha256"}, "world-state": ...},
                    "checksum": SHA-256 of the network and of all the above}]}

An archive is looked for beside the index, by its name: a folder may be copied elsewhere, and an index cannot send its
reader to another machine.  ``dataUrls`` is for people.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self

import orjson

from fastnode.archiver.layout import SCHEMA_VERSION as ARCHIVER_SCHEMA
from fastnode.archiver.queries import ChainInfo
from fastnode.errors import SnapshotError
from fastnode.records import dataclass
from fastnode.snapshots.archive import ArchiveFacts
from fastnode.world_state.layout import SCHEMA_VERSION as WORLD_STATE_SCHEMA

__all__ = [
    "ARCHIVER_KEY",
    "INDEX_FILE",
    "KEYS",
    "OUR_SCHEMAS",
    "WORLD_STATE_KEY",
    "Index",
    "Network",
    "Snapshot",
    "can_read",
    "checksum_of",
    "index_bytes",
    "read_entries",
]

INDEX_FILE: Final = "index.json"
#: An index of years of daily snapshots is smaller.
INDEX_BYTES_MAX: Final = 16 << 20

ARCHIVER_KEY: Final = "archiver"
WORLD_STATE_KEY: Final = "world-state"
#: The databases of a snapshot.
KEYS: Final = (ARCHIVER_KEY, WORLD_STATE_KEY)

OUR_SCHEMAS: Final = {"archiver": ARCHIVER_SCHEMA, "worldState": WORLD_STATE_SCHEMA}


def can_read(schemas: Mapping[str, int], ours: Mapping[str, int] = OUR_SCHEMAS) -> bool:
    """True if this fastnode reads databases of these schemas: its own, and older ones, which it brings up to date."""
    return schemas.keys() == ours.keys() and all(1 <= schemas[name] <= newest for name, newest in ours.items())


_FOLDER: Final = re.compile(r"fastnode-([0-9]{1,20})-([0-9]{1,20})-(0x[0-9a-f]{40})", re.ASCII)
_FILE_NAME: Final = re.compile(r"[a-z-]{1,20}-[0-9]{14}-0x[0-9a-f]{64}\.tar", re.ASCII)


@dataclass(frozen=True, slots=True)
class Network:
    """Chain that a snapshot is of."""

    l1_chain_id: int
    rollup_version: int
    rollup_address: str  # 0x and lower-case hex

    @classmethod
    def of(cls, chain: ChainInfo) -> Self:
        return cls.from_node_info(chain.node_info)

    @classmethod
    def from_node_info(cls, node_info: Mapping[str, Any]) -> Self:
        address = str(node_info["l1ContractAddresses"]["rollupAddress"]).lower()
        return cls(int(node_info["l1ChainId"]), int(node_info["rollupVersion"]), address)

    @classmethod
    def of_folder(cls, name: str) -> Self | None:
        """The network whose snapshots a folder of this name holds; None for any other name."""
        match = _FOLDER.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]), match[3])

    @property
    def folder(self) -> str:
        return f"fastnode-{self.l1_chain_id}-{self.rollup_version}-{self.rollup_address}"

    def to_json(self) -> dict[str, Any]:
        return {
            "l1ChainId": self.l1_chain_id,
            "rollupVersion": self.rollup_version,
            "rollupAddress": self.rollup_address,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One entry of an index.  ``files`` gives each database's archive."""

    l1_block_number: int
    l2_block_hash: str
    l2_block_number: int
    timestamp_ms: int
    schemas: Mapping[str, int]
    files: Mapping[str, ArchiveFacts]
    data_urls: Mapping[str, str]

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def bytes(self) -> int:
        return sum(facts.bytes for facts in self.files.values())

    def file_name(self, key: str) -> str:
        return f"{key}-{self.time:%Y%m%d%H%M%S}-{self.l2_block_hash}.tar"

    def to_json(self, network: Network) -> dict[str, Any]:
        content = {
            "l1BlockNumber": self.l1_block_number,
            "l2BlockHash": self.l2_block_hash,
            "l2BlockNumber": self.l2_block_number,
            "timestamp": self.timestamp_ms,
            "schemaVersions": dict(self.schemas),
            "dataUrls": dict(self.data_urls),
            "files": {
                key: {"name": self.file_name(key), "bytes": facts.bytes, "sha256": facts.sha256}
                for key, facts in self.files.items()
            },
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
                l1_block_number=int(value["l1BlockNumber"]),
                l2_block_hash=str(value["l2BlockHash"]),
                l2_block_number=int(value["l2BlockNumber"]),
                timestamp_ms=int(value["timestamp"]),
                schemas={str(key): int(version) for key, version in value["schemaVersions"].items()},
                files={key: ArchiveFacts(int(item["bytes"]), item["sha256"]) for key, item in value["files"].items()},
                data_urls={str(key): str(url) for key, url in value["dataUrls"].items()},
            )
            names = [snapshot.file_name(key) for key in KEYS]
            if set(snapshot.files) != set(KEYS) or not all(_FILE_NAME.fullmatch(name) for name in names):
                raise SnapshotError("the index names other files than those of a snapshot")
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, OSError) as error:
            raise SnapshotError(f"the index is damaged: {type(error).__name__} in an entry") from error
        return snapshot


def checksum_of(network: Network, content: Mapping[str, Any]) -> str:
    """Checksum of an entry of an index."""
    text = orjson.dumps([network.to_json(), content], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True, slots=True)
class Index:
    """The snapshots of a network at a location, newest first."""

    network: Network
    snapshots: tuple[Snapshot, ...] = ()

    def with_snapshot(self, snapshot: Snapshot) -> Self:
        return type(self)(self.network, (snapshot, *self.snapshots))

    def to_bytes(self) -> bytes:
        return index_bytes(self.network, [snapshot.to_json(self.network) for snapshot in self.snapshots])

    @classmethod
    def from_bytes(cls, text: bytes, network: Network) -> Self:
        """SnapshotError: damaged, or of another network than ``network``."""
        entries = read_entries(text, network)
        return cls(network, tuple(Snapshot.from_json(item, network) for item in entries))


def index_bytes(network: Network, entries: list[Any]) -> bytes:
    """An index: the network, and an entry for each of its snapshots."""
    return orjson.dumps(network.to_json() | {"snapshots": entries}, option=orjson.OPT_INDENT_2)


def read_entries(text: bytes, network: Network, kind: str = "") -> list[Any]:
    """Entries of an index; SnapshotError: damaged, or of another network.  ``kind``: " of leaves", for messages."""
    try:
        value = orjson.loads(text)
        found = {key: value[key] for key in network.to_json()}
        entries = list(value["snapshots"])
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise SnapshotError(f"the index{kind} is damaged: {type(error).__name__}") from error
    if found != network.to_json():
        theirs = ", ".join(f"{key} {item}" for key, item in found.items())
        ours = ", ".join(f"{key} {item}" for key, item in network.to_json().items())
        raise SnapshotError(f"the snapshots{kind} are of another network ({theirs}) than wanted ({ours})")
    return entries
