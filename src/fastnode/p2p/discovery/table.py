"""Nodes that discovery knows and has heard of lately, by their distance (Kademlia).

    distance    bits of (own id xor id): 1 to 256; each has a bucket of 16 nodes, the longest unheard-of first
    waiting     a full bucket remembers eight more, which take the places of those that no longer answer

Only nodes that have answered are entered, so others are told of living ones only.  As many as ten may be of one
address: the reference holds more of them against each other, too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator
from typing import Final

from fastnode.p2p.discovery.sessions import Contact
from fastnode.records import dataclass

__all__ = ["BUCKET_MAX", "Entry", "Table", "distance"]

BUCKET_MAX: Final = 16
_WAITING_MAX: Final = 8
_OF_ADDRESS_MAX: Final = 10
#: Questions in a row that a node may leave unanswered.
_FAILURES_MAX: Final = 2


def distance(first: bytes, second: bytes) -> int:
    return (int.from_bytes(first, "big") ^ int.from_bytes(second, "big")).bit_length()


@dataclass(slots=True)
class Entry:
    contact: Contact
    heard_at: float
    failures: int = 0


class _Bucket:
    def __init__(self) -> None:
        self.entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.waiting: OrderedDict[bytes, Contact] = OrderedDict()


class Table:
    """Times are of one monotonic clock, in s."""

    def __init__(self, own_id: bytes, *, limits_addresses: bool = True) -> None:
        self._own_id = own_id
        self._limits_addresses = limits_addresses
        self._buckets: dict[int, _Bucket] = {}
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return sum(len(bucket.entries) for bucket in self._buckets.values())

    def __iter__(self) -> Iterator[Contact]:
        for bucket in self._buckets.values():
            for entry in bucket.entries.values():
                yield entry.contact

    def find(self, node_id: bytes) -> Contact | None:
        bucket = self._buckets.get(distance(self._own_id, node_id))
        entry = None if bucket is None else bucket.entries.get(node_id)
        return None if entry is None else entry.contact

    def has_place(self, node_id: bytes) -> bool:
        """True if the table, or its waiting list, has a place for a node that is not in it yet."""
        bucket = self._buckets.get(distance(self._own_id, node_id))
        return bucket is None or len(bucket.entries) < BUCKET_MAX or len(bucket.waiting) < _WAITING_MAX

    def heard(self, contact: Contact, now: float) -> bool:
        """A node has answered; whether it is in the table now."""
        if contact.node_id == self._own_id:
            return False
        bucket = self._buckets.setdefault(distance(self._own_id, contact.node_id), _Bucket())
        entry = bucket.entries.get(contact.node_id)
        if entry is not None:
            if contact.record.sequence >= entry.contact.record.sequence:
                self._count(entry.contact, -1)
                entry.contact = contact
                self._count(contact, 1)
            entry.heard_at, entry.failures = now, 0
            bucket.entries.move_to_end(contact.node_id)
            return True
        if len(bucket.entries) >= BUCKET_MAX:
            bucket.waiting[contact.node_id] = contact
            bucket.waiting.move_to_end(contact.node_id)
            if len(bucket.waiting) > _WAITING_MAX:
                bucket.waiting.popitem(last=False)
            return False
        if self._limits_addresses and self._of_address[contact.address[0]] >= _OF_ADDRESS_MAX:
            return False
        bucket.entries[contact.node_id] = Entry(contact, now)
        self._count(contact, 1)
        return True

    def unheard(self, node_id: bytes) -> None:
        """A node has not answered: the second time in a row it loses its place."""
        bucket = self._buckets.get(distance(self._own_id, node_id))
        if bucket is None:
            return
        bucket.waiting.pop(node_id, None)
        entry = bucket.entries.get(node_id)
        if entry is None:
            return
        entry.failures += 1
        if entry.failures >= _FAILURES_MAX:
            del bucket.entries[node_id]
            self._count(entry.contact, -1)

    def take_waiting(self, node_id: bytes) -> Contact | None:
        """Waiting node that may have the place that ``node_id`` has lost, if it answers."""
        bucket = self._buckets.get(distance(self._own_id, node_id))
        if bucket is None or not bucket.waiting or len(bucket.entries) >= BUCKET_MAX:
            return None
        return bucket.waiting.popitem()[1]

    def stalest(self) -> Entry | None:
        """The node that was heard of longest ago."""
        entries = (next(iter(bucket.entries.values())) for bucket in self._buckets.values() if bucket.entries)
        return min(entries, key=lambda entry: entry.heard_at, default=None)

    def closest(self, target: bytes, count: int) -> list[Contact]:
        wanted = int.from_bytes(target, "big")
        return sorted(self, key=lambda contact: int.from_bytes(contact.node_id, "big") ^ wanted)[:count]

    def at_distances(self, distances: Collection[int], count: int) -> list[Contact]:
        """Contacts at each distance in turn, those heard of last first; at most ``count``."""
        found: list[Contact] = []
        for each in dict.fromkeys(distances):
            bucket = self._buckets.get(each)
            if bucket is not None:
                found += [entry.contact for entry in reversed(bucket.entries.values())]
            if len(found) >= count:
                break
        return found[:count]

    def _count(self, contact: Contact, change: int) -> None:
        self._of_address[contact.address[0]] += change
        if not self._of_address[contact.address[0]]:
            del self._of_address[contact.address[0]]
