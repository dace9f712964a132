"""Counts that a server keeps as it works: plain numbers, read by the reports.

Everything is written on the event loop; a reader in another thread sees whole numbers, though not all of one moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from fastnode.kernels import call_meter

__all__ = ["BATCH_BOUNDS", "DURATION_BOUNDS_NS", "LIMITS", "LIMITS_BY_STATUS", "OTHER", "CallMeters", "Traffic"]

#: Name under which calls of unknown methods are counted.
OTHER: Final = "other"

_US: Final = 1_000
_MS: Final = 1_000_000
_S: Final = 1_000_000_000

#: Upper bounds of the buckets for the time of a call: most take microseconds.
DURATION_BOUNDS_NS: Final = (
    *(number * _US for number in (10, 25, 50, 100, 250, 500)),
    *(number * _MS for number in (1, 2, 5, 10, 25, 50, 100, 250, 500)),
    *(number * _S for number in (1, 2, 5, 10)),
)
#: Upper bounds of the buckets for the calls of a batch.
BATCH_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

#: Limit that a request is refused for, by HTTP status.
LIMITS_BY_STATUS: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "body_size",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "head_size",
    HTTPStatus.REQUEST_URI_TOO_LONG: "head_size",
    HTTPStatus.REQUEST_TIMEOUT: "request_time",
    HTTPStatus.SERVICE_UNAVAILABLE: "connections",
    HTTPStatus.TOO_MANY_REQUESTS: "rate",
}
#: Every limit that a request, or a connection, may be refused or cut off for.
LIMITS: Final = (
    *dict.fromkeys(LIMITS_BY_STATUS.values()),
    "batch_size",
    "event_clients",
    "event_subscriptions",
    "key",
    "memory",
    "method",
    "response_size",
    "unsent_size",
)


class CallMeters:
    """The calls of one engine: time and errors by method, and the sizes of batches."""

    __slots__ = ("batch_calls", "batch_counts", "calls", "in_flight", "names")

    def __init__(self, names: Iterable[str], aliases: Mapping[str, str] | None = None) -> None:
        """``aliases`` are other names, each of one of ``names``, under which it is counted."""
        self.names = tuple(names)
        self.calls = call_meter.CallMeter(self.names, DURATION_BOUNDS_NS)
        for alias, name in (aliases or {}).items():
            self.calls.add_alias(alias, name)
        #: Batches per bucket of BATCH_BOUNDS, the last one above all of them.
        self.batch_counts = [0] * (len(BATCH_BOUNDS) + 1)
        #: Calls of all batches together.
        self.batch_calls = 0
        #: Calls that are being answered off the event loop: in a thread, or waiting for a block.
        self.in_flight = 0

    def add_batch(self, calls: int) -> None:
        self.batch_counts[bisect_left(BATCH_BOUNDS, calls)] += 1
        self.batch_calls += calls


#: Bytes and refusals of one port.
Traffic = call_meter.Traffic
