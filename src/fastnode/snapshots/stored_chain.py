"""Chain that a data directory holds already: needed to decide whether a snapshot is restored."""

from __future__ import annotations

from pathlib import Path

from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.records import dataclass
from fastnode.snapshots.contents import newest_l1_block
from fastnode.snapshots.index import Network

__all__ = ["StoredChain", "stored_chain"]


@dataclass(frozen=True, slots=True)
class StoredChain:
    network: Network
    block_number: int
    #: The L1 block of the newest complete checkpoint; 0 if there is none.
    l1_block_number: int


def stored_chain(directory: Path) -> StoredChain | None:
    """The chain in the locked data directory, None if there is none; DataDirectoryError for a broken database."""
    if not (directory / ARCHIVER_DIRECTORY / "CURRENT").is_file():
        return None
    with ArchiverStore.open(directory, create=False) as store:
        if not store.has_chain:
            return None
        with store.open_view() as view:
            return StoredChain(Network.of(store.chain), view.tip_number, newest_l1_block(view))
