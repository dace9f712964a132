"""What a node does in its fleet, put together: the bus, what it publishes and what it tells of itself.

fleet = Fleet(settings)                                  # connects in the background
fleet.join(...)                                          # once the chain is known
fleet.start()                                            # once the node serves
fleet.close()
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from fastnode.app.views import Views
from fastnode.bus.connection import Bus
from fastnode.bus.options import BusOptions
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.bus.upstream import BusUpstream
from fastnode.config.settings import Settings
from fastnode.fees.sources import FeeSource
from fastnode.protocol.fees import ManaUsage
from fastnode.snapshots.service import SnapshotUploads
from fastnode.view import View

__all__ = ["Fleet"]


class Fleet:
    """SettingError for settings of the bus that make no sense; ModuleNotFoundError without its package."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.bus = Bus(BusOptions.of(settings))
        #: Whether the chain comes from the bus.
        self.is_replica = not settings.bus_publish
        self._publisher: Publisher | None = None
        self._upstream: BusUpstream | None = None
        self._closing = threading.Lock()
        self.bus.start()

    def join(
        self,
        node_info: dict[str, Any],
        views: Views,
        *,
        fees: FeeSource,
        headers: Callable[[], list[tuple[str, str]]],
        uploads: SnapshotUploads,
        upstream: BusUpstream | None,
    ) -> None:
        """The chain is known.  ``headers``: what this node's answers say of its network."""
        subjects = Subjects.of(node_info)
        if upstream is not None:
            self._upstream = upstream
            views.subscribe(upstream.on_committed)
        if self.is_replica:
            return
        self._publisher = Publisher(
            self.bus,
            subjects,
            lambda: views.newest,
            terms=lambda view: {
                "fees": _fees_of(fees, view),
                "headers": {name.lower(): value for name, value in headers()},
            },
            snapshots=lambda: self._snapshots(uploads),
        )
        views.subscribe(self._publisher.on_committed)

    def _snapshots(self, uploads: SnapshotUploads) -> dict[str, Any] | None:
        locations = self._settings.snapshot_upload_locations
        return None if not locations else {"location": locations[0], "block": uploads.last_block}

    def start(self) -> None:
        """From now on tell the others."""
        if self._publisher is not None:
            self._publisher.start()

    def troubles(self) -> dict[str, str | None]:
        """What is wrong while the node goes on serving, None for nothing."""
        publisher = self._publisher
        return {"bus": self.bus.trouble or (None if publisher is None else publisher.trouble)}

    def close(self) -> None:
        """May be called more than once."""
        with self._closing:
            if self._publisher is not None:
                self._publisher.close()
            self.bus.close()


def _fees_of(fees: FeeSource, view: View) -> dict[str, Any]:
    predicted = {usage.value: fees.predicted(view, usage) for usage in ManaUsage}
    return {
        "current": fees.current(view).to_json(),
        "predicted": {str(usage): [each.to_json() for each in values] for usage, values in predicted.items() if values},
    }
