"""Leaves of this node for others: its snapshots are served on a port of their own, to nodes that begin with them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from fastnode.app.ground.part import Part
from fastnode.errors import SnapshotError
from fastnode.log import log_facts
from fastnode.serving.server import bind_failure
from fastnode.snapshots.index import Network
from fastnode.snapshots.serving import LeafServer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastnode.app.stages.core import Core
    from fastnode.serving.server import RpcServer
    from fastnode.snapshots.leaf_index import LeafSnapshot

__all__ = ["LeafSharing"]

logger = logging.getLogger("fastnode.app")

#: Folder of the data directory that is served where no other one is named.
LEAVES_DIRECTORY: Final = "leaves"
_FILE: Final = "file://"


class LeafSharing(Part):
    def __init__(self, core: Core) -> None:
        settings, data = core.foundation.settings, core.foundation.data
        assert settings.snapshot_serve_port is not None
        named = (text for text in settings.snapshot_upload_locations or () if text.startswith(_FILE))
        folder = next(map(_path_of, named), data.directory.path / LEAVES_DIRECTORY)
        self._network = Network.of(data.store.chain)
        self._host, self._port = settings.host, settings.snapshot_serve_port
        rate = settings.snapshot_serve_mb_per_s * 1e6
        self._server = LeafServer(folder, host=self._host, port=self._port, bytes_per_s=rate)

    def start(self, public: RpcServer) -> None:
        try:
            self._server.start()
        except OSError as error:
            raise bind_failure(error, self._host, self._port, "snapshot-serve-") from error
        extra = log_facts(host=self._host, port=self._server.port, folder=self._server.folder)
        logger.info("leaves for other nodes", extra=extra)

    def stop(self) -> None:
        self._server.close()

    def troubles(self) -> Mapping[str, str | None]:
        return {"leaves": self._newest()[1]}

    def states(self) -> Mapping[str, str]:
        newest, _ = self._newest()
        what = "none made yet" if newest is None else f"up to block {newest.l2_block_number}"
        return {"leaves": f"{what}; port {self._server.port}, {self._server.reader_count} readers"}

    def describe(self) -> Mapping[str, Any]:
        (newest, _), counts = self._newest(), self._server.counts
        told: dict[str, Any] = {
            "port": self._server.port,
            "block": None if newest is None else newest.l2_block_number,
            "stateBlock": None if newest is None else newest.state_block_number,
            "bytes": None if newest is None else newest.bytes,
            "readers": self._server.reader_count,
            "requests": counts["requests"],
            "sent": counts["bytes"],
            "refused": counts["refused"],
        }
        return {"leaves": told}

    def _newest(self) -> tuple[LeafSnapshot | None, str | None]:
        """The newest snapshot, and what is wrong with the index."""
        try:
            return self._server.newest(self._network), None
        except SnapshotError as error:
            return None, str(error)


def _path_of(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))
