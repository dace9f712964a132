"""Counts of workers, and the sums of them: in place of a server's own where the node is reported on.

A worker sends everything it has counted since it began.  The primary keeps the newest of each, and what those that have
gone had counted, so that no sum goes back.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Self

from fastnode.http.meters import BATCH_BOUNDS, DURATION_BOUNDS_NS
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.serving.server import RpcServer

__all__ = ["Counters", "Totals", "counters_of"]

#: Numbers that end with their process.
_OF_NOW: Final = ("in_flight", "event_clients", "push_clients", "push_subscriptions")
_BUCKETS = len(DURATION_BOUNDS_NS) + 1


def _no_batches() -> list[int]:
    return [0] * (len(BATCH_BOUNDS) + 1)


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counts of one worker, or of several.  Only called methods are there, by name, None for all unknown ones."""

    #: Calls per bucket, the last one above all bounds, and their nanoseconds.
    histograms: dict[str | None, tuple[list[int], int]] = field(default_factory=dict)
    #: By code.
    errors: dict[str | None, Counter[int]] = field(default_factory=dict)
    batch_counts: list[int] = field(default_factory=_no_batches)
    #: Refusals by limit.
    rejected: Counter[str] = field(default_factory=Counter)
    #: Transactions refused, by code.
    rejections: Counter[str] = field(default_factory=Counter)
    #: Proofs judged, by verdict.
    verdicts: Counter[Any] = field(default_factory=Counter)
    #: Calls, cost and refusals by API key.
    usage: dict[str, tuple[int, float, int]] = field(default_factory=dict)
    #: Events that were sent, by name, and clients of events that were cut off, by reason.
    events: Counter[str] = field(default_factory=Counter)
    event_clients_dropped: Counter[str] = field(default_factory=Counter)
    #: The same over WebSocket: messages by topic.
    pushed: Counter[str] = field(default_factory=Counter)
    push_clients_dropped: Counter[str] = field(default_factory=Counter)
    #: Plain numbers by name.
    numbers: Counter[str] = field(default_factory=Counter)

    @classmethod
    def sum_of(cls, parts: Iterable[Counters]) -> Self:
        total = cls()
        for part in parts:
            total.add(part)
        return total

    def add(self, other: Counters) -> None:
        for name, (counts, sum_ns) in other.histograms.items():
            before, before_ns = self.histograms.get(name, ([0] * _BUCKETS, 0))
            added = [have + more for have, more in zip(before, counts, strict=True)]
            self.histograms[name] = added, before_ns + sum_ns
        for name, errors in other.errors.items():
            self.errors.setdefault(name, Counter()).update(errors)
        self.batch_counts = [have + more for have, more in zip(self.batch_counts, other.batch_counts, strict=True)]
        for key, (calls, cost, refused) in other.usage.items():
            have = self.usage.get(key, (0, 0.0, 0))
            self.usage[key] = have[0] + calls, have[1] + cost, have[2] + refused
        for ours, theirs in (
            (self.rejected, other.rejected),
            (self.rejections, other.rejections),
            (self.verdicts, other.verdicts),
            (self.events, other.events),
            (self.event_clients_dropped, other.event_clients_dropped),
            (self.pushed, other.pushed),
            (self.push_clients_dropped, other.push_clients_dropped),
            (self.numbers, other.numbers),
        ):
            ours.update(theirs)


def counters_of(server: RpcServer, rejections: Mapping[str, int], verdicts: Mapping[Any, int]) -> Counters:
    """Everything that a worker has counted."""
    counters = Counters(
        rejected=Counter(server.traffic.rejected), rejections=Counter(rejections), verdicts=Counter(verdicts)
    )
    meters = server.engine.meters
    if meters is not None:
        for name in (*meters.names, None):
            histogram = meters.calls.histogram(name)
            if any(histogram[0]):
                counters.histograms[name] = histogram
            errors = meters.calls.errors(name)
            if errors:
                counters.errors[name] = Counter(errors)
        counters.batch_counts = list(meters.batch_counts)
        counters.numbers["batch_calls"] = meters.batch_calls
        counters.numbers["in_flight"] = meters.in_flight
    kept = server.cached_responses
    counters.numbers.update(
        accepted=server.accepted_count,
        turned_away=server.turned_away_count,
        received=server.traffic.received_bytes,
        sent=server.traffic.sent_bytes,
        faults=server.engine.internal_fault_count,
        hits=kept.hit_count,
        misses=kept.miss_count,
    )
    if server.events is not None:
        counters.numbers["event_clients"] = server.events.client_count
        counters.events.update(server.events.sent)
        counters.event_clients_dropped.update(server.events.dropped)
    if server.push is not None:
        counters.numbers["push_clients"] = server.push.client_count
        counters.numbers["push_subscriptions"] = server.push.subscription_count
        counters.pushed.update(server.push.sent)
        counters.push_clients_dropped.update(server.push.dropped)
    limits = server.rate_limits
    if limits is not None:
        counters.usage = {key: (usage.calls, usage.cost, usage.refused) for key, usage in limits.usage.items()}
    return counters


class _Calls:
    """In place of a CallMeter."""

    def __init__(self, total: Counters) -> None:
        self._total = total

    def histogram(self, name: str | None) -> tuple[list[int], int]:
        return self._total.histograms.get(name, ([0] * _BUCKETS, 0))

    def errors(self, name: str | None) -> dict[int, int]:
        return dict(self._total.errors.get(name, {}))


class Totals:
    """The public server as the reports of a node ask about it: the sums over all workers.

    ``own`` is the server of the primary, on whose port the workers answer.
    """

    def __init__(self, own: RpcServer) -> None:
        self._own = own
        self._lock = threading.Lock()
        self._newest: dict[int, tuple[int, Counters]] = {}
        self._gone = Counters()
        #: By number of the worker, those that are connected: connections and bytes of kept answers.
        self.present: dict[int, tuple[int, int]] = {}

    def note(self, number: int, pid: int, counters: Counters) -> Counters | None:
        """Note what worker ``number`` has counted; returns what it had counted before, None for a new process."""
        with self._lock:
            before = self._newest.get(number)
            if before is not None and before[0] != pid:
                for of_now in _OF_NOW:  # nothing of a process that has ended is
                    before[1].numbers.pop(of_now, None)
                self._gone.add(before[1])
                before = None
            self._newest[number] = pid, counters
            return None if before is None else before[1]

    @property
    def counters(self) -> Counters:
        with self._lock:
            return Counters.sum_of([self._gone, *(counters for _, counters in self._newest.values())])

    # ---- as of a server ----------------------------------------------------------------------

    @property
    def port(self) -> int:
        return self._own.port

    @property
    def engine(self) -> Any:
        total, own = self.counters, self._own.engine
        meters = None
        if own.meters is not None:
            meters = SimpleNamespace(
                names=own.meters.names,
                calls=_Calls(total),
                batch_counts=total.batch_counts,
                batch_calls=total.numbers["batch_calls"],
                in_flight=total.numbers["in_flight"],
            )
        return SimpleNamespace(table=own.table, meters=meters, internal_fault_count=total.numbers["faults"])

    @property
    def traffic(self) -> Any:
        total = self.counters
        return SimpleNamespace(
            received_bytes=total.numbers["received"], sent_bytes=total.numbers["sent"], rejected=total.rejected
        )

    @property
    def connection_count(self) -> int:
        return sum(connections for connections, _ in self.present.values())

    @property
    def accepted_count(self) -> int:
        return self.counters.numbers["accepted"]

    @property
    def turned_away_count(self) -> int:
        return self.counters.numbers["turned_away"]

    @property
    def cached_responses(self) -> Any:
        numbers = self.counters.numbers
        kept_bytes = sum(kept for _, kept in self.present.values())
        return SimpleNamespace(hit_count=numbers["hits"], miss_count=numbers["misses"], kept_bytes=kept_bytes)

    @property
    def events(self) -> Any:
        total = self.counters
        return SimpleNamespace(
            client_count=total.numbers["event_clients"], sent=total.events, dropped=total.event_clients_dropped
        )

    @property
    def push(self) -> Any:
        total = self.counters
        return SimpleNamespace(
            client_count=total.numbers["push_clients"],
            subscription_count=total.numbers["push_subscriptions"],
            sent=total.pushed,
            dropped=total.push_clients_dropped,
        )

    @property
    def rate_limits(self) -> Any:
        own = self._own.rate_limits
        if own is None:
            return None
        usage = {
            key: SimpleNamespace(calls=calls, cost=cost, refused=refused)
            for key, (calls, cost, refused) in self.counters.usage.items()
        }
        return SimpleNamespace(usage=usage, address_count=own.address_count)
