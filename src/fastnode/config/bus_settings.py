"""The settings of nodes that share blocks and transactions over a bus."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean, Choice
from fastnode.values.numbers import Integer
from fastnode.values.texts import FilePath, Text

__all__ = ["BusSettings"]

BUS = "Fleet"


@dataclass(frozen=True, kw_only=True)
class BusSettings:
    bus_url: tuple[str, ...] | None = setting(
        None,
        texts("URL", "nats:// or tls:// URLs, separated by commas"),
        BUS,
        "NATS servers with JetStream that carry blocks and transactions of a fleet; without --bus-publish the chain "
        "comes from there, verified.",
        secret=True,
        packages=("nats",),
        whole_release=True,
    )
    bus_publish: bool = setting(
        False,
        Boolean(),
        BUS,
        "Publish the chain of this node on the bus. Two publishers for availability do no harm.",
    )
    bus_name: str | None = setting(
        None,
        Text(metavar="NAME"),
        BUS,
        "Name of this node in the fleet; not set: of the host's name and the data directory.",
        needs=needs.BUS,
    )
    bus_credentials: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUS,
        "Credentials (.creds) for the bus. A user and password, or a token, go into the URL.",
        needs=needs.BUS,
    )
    bus_nkey: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUS,
        "File with the nkey seed that this node shows to the bus.",
        needs=needs.BUS,
    )
    bus_tls_ca: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUS,
        "Certificates of the authorities of the bus, in place of the system's.",
        needs=needs.BUS,
    )
    bus_tls_certificate: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUS,
        "Certificate that this node shows to the bus.",
        needs=needs.BUS,
    )
    bus_tls_key: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        BUS,
        "Private key of --bus-tls-certificate.",
        needs=needs.BUS,
    )
    bus_replicas: int = setting(
        1,
        Integer(1, 5),
        BUS,
        "Servers of the bus on which each stream is kept; 3 on a cluster.",
        needs=needs.BUS_PUBLISHING,
    )
    bus_retention: str = setting(
        "chain",
        Choice(("chain", "snapshot")),
        BUS,
        "What the stream keeps: the whole chain, or what comes after this node's newest snapshot.",
        needs=needs.BUS_PUBLISHING,
    )
    bus_max_mb: int = setting(
        0,
        Integer(0, 1 << 30),
        BUS,
        "Most that the stream of blocks takes on each server; 0: no limit.",
        needs=needs.BUS_PUBLISHING,
    )
    bus_leaves_mb: int = setting(
        0,
        Integer(0, 1 << 30),
        BUS,
        "Room that the bus sets aside for snapshots of leaves, two of each publisher, which "
        "nodeAdmin_startSnapshotUpload makes at bus://; 0: none are made.",
        needs=needs.BUS_PUBLISHING,
    )
    bus_tx_hours: int = setting(
        6,
        Integer(1, 24 * 30),
        BUS,
        "How long the bus keeps a transaction for nodes that are away.",
        needs=needs.BUS_PUBLISHING,
    )
    bus_share_limits: bool = setting(
        False,
        Boolean(),
        BUS,
        "Count what --rpc-limits grants a client over all nodes of the fleet, a second late.",
        needs=needs.SHARED_LIMITS,
    )

    @property
    def is_in_fleet(self) -> bool:
        return self.bus_url is not None

    @property
    def follows_bus(self) -> bool:
        """True if the chain comes from the bus."""
        return self.is_in_fleet and not self.bus_publish
