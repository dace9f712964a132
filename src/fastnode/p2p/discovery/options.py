"""Options for finding peers: the settings BOOTSTRAP_NODES and what belongs to them, read and checked."""

from __future__ import annotations

from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.records import dataclass

__all__ = ["DiscoveryOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """Options for finding peers (BOOTSTRAP_NODES and what belongs to it)."""

    bootnodes: tuple[NodeRecord, ...] = ()
    #: Others that are asked as well: trusted and preferred peers.
    seeds: tuple[NodeRecord, ...] = ()
    #: Other peers are not told of them.
    private: tuple[NodeRecord, ...] = ()
    #: A bootstrap node must be of this network, too.
    checks_bootnode_version: bool = False
    #: Bootstrap nodes are dialled as others are.
    dials_bootnodes: bool = False
    #: Interval of lookups for more, in s.
    look_s: float = 30.0
