"""Ports of this machine that stay free until a test uses them."""

from __future__ import annotations

import random
import socket
from pathlib import Path

#: From which Linux takes the ports of sockets that name none; other systems have higher ones.
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT = 10_000

#: Not the generator that tests seed: two of them would try the same ports.
_dice = random.SystemRandom()


def free_port() -> int:
    """A port on which nothing listens, neither TCP nor UDP.

    The system gives it to nobody who does not ask for it.  One that it had chosen could be that of a connection of
    another test before it is used, or between a stop and a start.
    """
    above = int(_RANGE_FILE.read_text().split()[0]) if _RANGE_FILE.exists() else 32_768
    while True:
        port = _dice.randrange(_FIRST_PORT, above) if above > _FIRST_PORT else 0
        with (
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            try:
                stream.bind(("127.0.0.1", port))
                port = stream.getsockname()[1]
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(port)


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)
