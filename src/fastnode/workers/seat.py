"""Values that the supervisor gives each process that it forks."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastnode.records import dataclass
from fastnode.workers.shared_limits import SharedBuckets, SharedConnections

if TYPE_CHECKING:
    from fastnode.serving.server import HttpServer

__all__ = ["PrimarySeat", "WorkerSeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimarySeat:
    """``port`` is where the workers answer."""

    listener: socket.socket
    workers: int
    port: int
    #: True for the first primary of its supervisor: no worker has a copy yet.
    is_first: bool
    #: Id of the node, the same in all of its processes.
    instance: str

    def begin(self) -> None:
        """Others answer."""

    async def open(self, server: HttpServer, listen: Callable[[], Awaitable[None]]) -> None:
        """``server`` does not listen itself."""
        server.stand_for(self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSeat:
    """``listening`` is this worker's own socket of the public port; it stays open when the worker goes."""

    number: int
    of: int
    listening: socket.socket
    address: Path
    #: True for the first worker of its number: none has served before.
    is_first: bool
    #: True if another node answers until this one is ready.
    takes_over: bool
    instance: str
    #: Memory that all workers share.
    buckets: SharedBuckets
    connections: SharedConnections
