"""The settings of the network the node is on, of the admin port, and of snapshots."""

from __future__ import annotations

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.protocol.constants import JSON_INTEGER_MAX
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Integer
from fastnode.values.texts import FileOrUrl, HexText, Text

__all__ = ["OperatorSettings"]

ROLLUP = "Rollup network"
ADMIN = "Admin interface"
SNAPSHOTS = "Snapshots"

_ADDRESS_BYTES = 20


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    network: str | None = setting(
        None,
        Text(metavar="NAME"),
        ROLLUP,
        "Network of the network configuration, if it has several; without one mainnet and testnet are known.",
        environment=("NETWORK",),
    )
    network_config: str | None = setting(
        None,
        FileOrUrl(),
        ROLLUP,
        "Network configuration (JSON): what nothing else gives; from a URL it is fetched at each start.",
        environment=("NETWORK_CONFIG_LOCATION",),
    )
    l1_chain_id: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        ROLLUP,
        "L1 chain that the rollup must be on, else the start stops. A new local network without L1 has this chain id.",
        environment=("L1_CHAIN_ID",),
        flags=("--l1ChainId", "--chain-id"),
    )
    rollup_version: int | None = setting(
        None,
        Integer(0, JSON_INTEGER_MAX),
        ROLLUP,
        "Version that the rollup must have, else the start stops.",
        environment=("ROLLUP_VERSION",),
    )
    registry_address: str | None = setting(
        None,
        HexText(_ADDRESS_BYTES),
        ROLLUP,
        "L1 address of the registry that must name the rollup, else the start stops.",
        environment=("REGISTRY_CONTRACT_ADDRESS",),
    )
    network_node_version: str | None = setting(
        None,
        Text(metavar="VERSION"),
        ROLLUP,
        "Release that nodes of the network run; the start warns of another one.",
    )

    # ---- admin interface ------------------------------------------------------------------

    admin_api_key_hash: str | None = setting(
        None,
        Text(metavar="HASH", meaning="the SHA-256 of a key as 64 lower-case hex digits"),
        ADMIN,
        "SHA-256 of the admin port's key.",
        needs=needs.ADMIN_KEY,
        secret=True,
    )
    disable_admin_api_key: bool = setting(
        False,
        Boolean(),
        ADMIN,
        "Let everybody who reaches the admin port use it.",
    )
    admin_names: tuple[str, ...] | None = setting(
        None,
        texts("NAME"),
        ADMIN,
        "Host names by which the admin port may be called without a key, besides addresses and localhost.",
        needs=needs.NO_ADMIN_KEY,
    )
    reset_admin_api_key: bool = setting(
        False,
        Boolean(),
        ADMIN,
        "Make a new key for the admin port; the old one is not good any more.",
        needs=needs.ADMIN_KEY_FILE,
    )

    upstream_admin_url: str | None = setting(
        None,
        Text(metavar="URL", meaning="the http:// or https:// URL of an admin port"),
        ADMIN,
        "Admin port of a node whose known offenses of validators are joined with the own ones.",
        secret=True,
    )
    upstream_admin_api_key: str | None = setting(
        None,
        Text(metavar="KEY"),
        ADMIN,
        "The key that this admin port asks for.",
        needs=needs.UPSTREAM_ADMIN,
        secret=True,
    )

    # ---- snapshots ------------------------------------------------------------------------

    sync_mode: str = setting(
        "snapshot",
        Choice(("full", "snapshot", "force-snapshot")),
        SNAPSHOTS,
        "How a start gets its chain: by blocks, from a snapshot if it has none, or in any case.",
        needs=needs.SNAPSHOT_LOCATION,
        environment=("SYNC_MODE",),
    )
    snapshots_urls: tuple[str, ...] | None = setting(
        None,
        texts("URL"),
        SNAPSHOTS,
        "Where snapshots are looked for.",
        needs=needs.PARTIAL_SYNC,
        environment=("SYNC_SNAPSHOTS_URLS", "SYNC_SNAPSHOTS_URL"),
        secret=True,
        packages=("obstore",),
    )
    snapshots_form: str = setting(
        "leaves",
        Choice(("leaves", "history")),
        SNAPSHOTS,
        "Snapshots that a start prefers: of leaves, which bring the state of one block; or only those with history.",
        needs=needs.SNAPSHOT_LOCATION,
    )
    snapshot_upload_form: str = setting(
        "history",
        Choice(("history", "leaves")),
        SNAPSHOTS,
        "Snapshots that nodeAdmin_startSnapshotUpload makes: with history, or of leaves.",
    )
    snapshot_upload_locations: tuple[str, ...] | None = setting(
        None,
        texts("URL"),
        SNAPSHOTS,
        "Where nodeAdmin_startSnapshotUpload may put snapshots, and below; default: below the data directory.",
        secret=True,
        packages=("obstore",),
    )
    snapshot_serve_port: int | None = setting(
        None,
        Integer(0, 65535),
        SNAPSHOTS,
        "Port on which other nodes read this node's snapshots of leaves, without a key, at the address of --host: of "
        "the first file:// of --snapshot-upload-locations, or else of leaves/ in the data directory; 0: any free one.",
    )
    snapshot_serve_mb_per_s: int = setting(
        16,
        Integer(1, 100_000),
        SNAPSHOTS,
        "Megabytes a second that all readers of --snapshot-serve-port get together.",
        needs=needs.LEAF_SERVING,
    )
