"""Messages of gossip as they are written, and what is agreed on about them.

    RPC        1 subscription {1 wanted, 2 topic} | 2 message {2 data, 4 topic} | 3 control
    control    1 ihave {1 topic, 2 ids} | 2 iwant {1 ids} | 3 graft {1 topic} | 4 prune {1 topic, 3 back-off in s}

Read they are by the peer_frames kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.transport.encoding import protobuf
from fastnode.records import dataclass

__all__ = [
    "PRUNE_BACKOFF_S",
    "GossipOptions",
    "Incoming",
    "control",
    "graft",
    "ihave",
    "iwant",
    "message",
    "prune",
    "subscriptions",
]

_SUBSCRIPTION, _MESSAGE, _CONTROL = 1, 2, 3
_IHAVE, _IWANT, _GRAFT, _PRUNE = 1, 2, 3, 4

#: Time for which a pruned peer must not come back, in seconds.
PRUNE_BACKOFF_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipOptions:
    """The settings P2P_GOSSIPSUB_*."""

    degree: int = 8
    degree_low: int = 4
    degree_high: int = 12
    degree_lazy: int = 8
    heartbeat_s: float = 0.7
    cache_windows: int = 6
    gossiped_windows: int = 3
    seen_ttl_s: float = 1200
    seen_count_max: int = 100_000
    flood_publish: bool = False


class Incoming(NamedTuple):
    """A message that is not judged yet.  ``data`` is uncompressed."""

    topic: Topic
    message_id: bytes
    data: bytes
    peer: str


def subscriptions(names: Iterable[str]) -> bytes:
    return protobuf(*((_SUBSCRIPTION, protobuf((1, 1), (2, name))) for name in names))


def message(name: str, sent: bytes) -> bytes:
    """``sent``: compressed data."""
    return protobuf((_MESSAGE, protobuf((2, sent), (4, name))))


def control(*parts: tuple[int, bytes]) -> bytes:
    return protobuf((_CONTROL, protobuf(*parts)))


def ihave(name: str, ids: Iterable[bytes]) -> tuple[int, bytes]:
    return _IHAVE, protobuf((1, name), *((2, identity) for identity in ids))


def iwant(ids: Iterable[bytes]) -> tuple[int, bytes]:
    return _IWANT, protobuf(*((1, identity) for identity in ids))


def graft(name: str) -> tuple[int, bytes]:
    return _GRAFT, protobuf((1, name))


def prune(name: str) -> tuple[int, bytes]:
    return _PRUNE, protobuf((1, name), (3, PRUNE_BACKOFF_S))
