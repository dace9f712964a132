"""Peers that are remembered from one start to the next, in ``p2p-peers`` in the data directory.

One line each: a node record (``enr:..``), or ``HOST:PORT`` and a peer id for who was dialled without one.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from fastnode.files import replace_file
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.node.options import StaticPeer

__all__ = ["PEERS_FILE", "KnownPeers"]

logger = logging.getLogger(__name__)

#: In the data directory.
PEERS_FILE: Final = "p2p-peers"

_PEERS_MAX: Final = 200
_FILE_BYTES_MAX: Final = 256 << 10


class KnownPeers:
    """``folder`` None: nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / PEERS_FILE
        self._written = ""

    def load(self) -> tuple[list[NodeRecord], list[StaticPeer]]:
        """Records and dialled peers in the file; lines that make no sense are left out."""
        records: list[NodeRecord] = []
        dialled: list[StaticPeer] = []
        if self._file is None:
            return records, dialled
        try:
            with self._file.open(encoding="ascii") as opened:
                text = opened.read(_FILE_BYTES_MAX)
        except FileNotFoundError:
            return records, dialled
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be read: %s", self._file, error)
            return records, dialled
        for line in text.splitlines()[:_PEERS_MAX]:
            try:
                if line.startswith("enr:"):
                    records.append(NodeRecord.from_text(line))
                else:
                    dialled.append(_dialled(line))
            except ValueError as error:
                logger.warning("%s: a line is left out: %s", self._file, error)
        return records, dialled

    def save(self, records: Iterable[NodeRecord], dialled: Iterable[StaticPeer]) -> None:
        """Write peers to the file, only the first if they are too many; no-op if they are the same as before."""
        if self._file is None:
            return
        lines = itertools.chain(
            (record.to_text() for record in records),
            (f"{peer.host}:{peer.port} {peer.peer_id}" for peer in dialled),
        )
        text = "".join(f"{line}\n" for line in itertools.islice(lines, _PEERS_MAX))
        if text == self._written:
            return
        try:
            replace_file(self._file, text.encode("ascii"))
            self._written = text
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._file, error)


def _dialled(line: str) -> StaticPeer:
    address, _, peer_id = line.partition(" ")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536 or not peer_id.isalnum():
        raise ValueError(f"{line[:80]!r} is no peer")
    return StaticPeer(host, int(port), peer_id)
