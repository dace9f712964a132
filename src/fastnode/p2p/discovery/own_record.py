"""This node's record: made when it starts, and anew when what it says changes; its sequence number only grows.

It is kept in ``p2p-record`` in the data directory.  Without that file the number begins with the time, so that it is
larger than before even when the directory is new and the key is not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastnode.files import replace_file
from fastnode.log import log_facts
from fastnode.p2p.discovery.enr import NodeRecord, make_record
from fastnode.p2p.transport.identity import Identity

__all__ = ["RECORD_FILE", "OwnRecord"]

logger = logging.getLogger(__name__)

#: In the data directory.
RECORD_FILE: Final = "p2p-record"


class OwnRecord:
    """``folder`` None: nothing is kept."""

    def __init__(
        self,
        identity: Identity,
        version: str,
        *,
        ip: str | None,
        port: int,
        client: str,
        folder: Path | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._identity = identity
        self._version = version
        self._port = port
        self._client = client
        self._file = None if folder is None else folder / RECORD_FILE
        kept = self._load()
        sequence = int(now()) if kept is None else kept.sequence
        ip = ip or (None if kept is None else kept.ip)
        self.record = self._make(sequence, ip)
        if kept is None or kept.values != self.record.values:
            if kept is not None:
                self.record = self._make(kept.sequence + 1, ip)
            self._save()

    def moved(self, ip: str) -> bool:
        """The node is at this address; whether that is new."""
        if ip == self.record.ip:
            return False
        self.record = self._make(self.record.sequence + 1, ip)
        self._save()
        logger.info("this node's record says another address", extra=log_facts(address=ip))
        return True

    def _make(self, sequence: int, ip: str | None) -> NodeRecord:
        return make_record(
            self._identity, self._version, sequence=sequence, ip=ip, port=self._port, client=self._client
        )

    def _load(self) -> NodeRecord | None:
        if self._file is None:
            return None
        try:
            record = NodeRecord.from_text(self._file.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s cannot be used, and is made anew: %s", self._file, error)
            return None
        return record if record.values["secp256k1"] == self._identity.compressed else None

    def _save(self) -> None:
        if self._file is None:
            return
        try:
            replace_file(self._file, self.record.to_text().encode("ascii"))
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._file, error)
