"""Snapshots of leaves on the bus of a fleet: each publisher has a folder of its own there, and its two newest stay.

A reader that is in the middle of one can end it while the next is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, Self

from fastnode.bus.connection import Bus
from fastnode.bus.folder import AWAY_S, BusFolder, folder_owners, pieces_of
from fastnode.bus.subjects import Subjects
from fastnode.errors import SnapshotError, UpstreamError
from fastnode.records import dataclass
from fastnode.snapshots.allowed_places import ON_BUS
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import LEAF_INDEX_FILE
from fastnode.snapshots.location import Location
from fastnode.snapshots.patience import INDEX_TIME_S, Check, in_time

__all__ = ["BusLocation", "bus_locations"]

#: Snapshots of a publisher that stay.
_KEPT: Final = 2
#: Beyond the time for which the bus may be away, in seconds.
_GRACE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class BusLocation(Location):
    """Folder of one publisher; its own location is for writing too."""

    store: BusFolder

    @classmethod
    def of(cls, bus: Bus, subjects: Subjects, publisher: str, check: Check | None = None) -> Self:
        told: dict[str, Any] = {} if check is None else {"check": check}
        patience_s = AWAY_S + _GRACE_S
        folder, text = BusFolder(bus, subjects, publisher), f"{ON_BUS}{publisher}"
        return cls(text, folder, text, is_read_only=False, index_s=patience_s, stall_s=patience_s, **told)

    @classmethod
    def to_fill(cls, bus: Bus, network: Network, bytes_max: int) -> Self:
        """The one of this node, in a stream that may have so many bytes.  SnapshotError when the bus refuses."""
        location = cls.of(bus, _subjects_of(network), bus.options.name)
        try:
            location.store.set_up(bytes_max)
        except UpstreamError as error:
            raise SnapshotError(f"{location.text}: {error}") from error
        return location

    @property
    def kept_max(self) -> int | None:
        return _KEPT

    def is_same_size(self, told: int, count: int) -> bool:
        return told == pieces_of(count)

    def ages(self, network: Network, folder: str) -> dict[str, tuple[int, float]]:
        """Pieces of each, and no age: what none of its snapshots names is of an attempt that has ended."""
        try:
            found = self.store.piece_counts(f"{network.folder}/{folder}")
        except UpstreamError as error:
            raise self._unreadable(f"the folder {folder}", error) from error
        return {name: (count, math.inf) for name, count in found.items()}

    def remove(self, network: Network, name: str) -> None:
        try:
            self.store.remove(f"{network.folder}/{name}")
        except UpstreamError as error:
            raise SnapshotError(f"{self.text}: {name} cannot be removed: {error}") from error

    def require_room(self, least: int, most: int) -> None:
        try:
            lacking = least - self.store.room()
        except UpstreamError as error:
            raise SnapshotError(f"{self.text}: {error}") from error
        if lacking > 0:
            raise SnapshotError(
                f"{self.text}: {(lacking >> 20) + 1} MiB more must be free on the bus (--bus-leaves-mb): it keeps two "
                "snapshots of each publisher"
            )

    def _stream(self, path: str) -> Any:
        return self.store.stream(path)

    def _put(self, path: str, content: bytes | Iterable[bytes], attributes: dict[str, str]) -> None:
        try:
            self.store.put(path, [content] if isinstance(content, bytes) else content)
        except UpstreamError as error:
            raise SnapshotError(f"{self.text}: {path} cannot be written: {error}") from error


def bus_locations(bus: Bus, network: Network, check: Check) -> list[BusLocation]:
    """Locations of all publishers that have snapshots of leaves of a network on the bus.  SnapshotError."""
    subjects = _subjects_of(network)
    find = partial(folder_owners, bus, subjects, f"{network.folder}/{LEAF_INDEX_FILE}")
    try:
        owners = in_time("the bus", find, check, limit_s=INDEX_TIME_S)
    except UpstreamError as error:
        raise SnapshotError(f"the bus does not say what snapshots it has: {error}") from error
    return [BusLocation.of(bus, subjects, owner, check) for owner in owners]


def _subjects_of(network: Network) -> Subjects:
    return Subjects.of({"l1ChainId": network.l1_chain_id, "rollupVersion": network.rollup_version})
