"""Tells the service manager that started the process (systemd, Type=notify) how far it is."""

from __future__ import annotations

import logging
import os
import socket
from typing import Final

from fastnode.log import log_facts

__all__ = ["READY", "STOPPING", "notify"]

logger = logging.getLogger("fastnode.app")

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the socket that ``NOTIFY_SOCKET`` names; nothing where there is none."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # Linux: a name that is no file
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode("ascii"), address)
    except OSError as error:
        logger.warning("the service manager is not told", extra=log_facts(state=state, reason=error.strerror))
