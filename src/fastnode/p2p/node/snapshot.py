"""State of the network at one moment, for pages and metrics: values that other threads may read."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from fastnode.records import dataclass

__all__ = ["NetworkSnapshot", "PeerSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSnapshot:
    peer_id: str
    host: str
    port: int
    is_outbound: bool
    agent: str
    since_s: float
    score: float
    application_score: float
    #: None: it has not said.
    latest_block: int | None
    is_protected: bool
    bytes_in: int
    bytes_out: int
    held_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {
            "peerId": self.peer_id,
            "host": self.host,
            "port": self.port,
            "direction": "out" if self.is_outbound else "in",
            "agent": self.agent,
            "connectedForS": self.since_s,
            "score": self.score,
            "applicationScore": self.application_score,
            "latestBlock": self.latest_block,
            "protected": self.is_protected,
            "bytesIn": self.bytes_in,
            "bytesOut": self.bytes_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSnapshot:
    peer_id: str
    version: str
    port: int
    peers: tuple[PeerSnapshot, ...] = ()
    #: Peers by topic.
    mesh: dict[str, int] = field(default_factory=dict)
    #: Messages, by topic and by what became of them.
    gossip: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Requests, by direction, name and status.
    requests: dict[tuple[str, str, str], int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    #: Blocks of proposals, by what became of them.
    proposed_blocks: dict[str, int] = field(default_factory=dict)
    held_bytes: int = 0
    #: This node's record as text.
    enr: str | None = None
    #: Nodes that discovery knows; None: nothing is discovered.
    known_nodes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """For the status page and ``fastnode status``."""
        messages: dict[str, dict[str, int]] = {}
        for (topic, event), count in self.gossip.items():
            messages.setdefault(topic or "any", {})[event] = count
        return {
            "peerId": self.peer_id,
            "network": self.version,
            "port": self.port,
            "enr": self.enr,
            "peerCount": len(self.peers),
            "knownNodes": self.known_nodes,
            "peers": [peer.to_json() for peer in self.peers],
            "mesh": self.mesh,
            "messages": messages,
            "requests": {" ".join(key): count for key, count in self.requests.items()},
            "events": self.events,
            "proposedBlocks": self.proposed_blocks,
            "heldBytes": self.held_bytes,
        }
