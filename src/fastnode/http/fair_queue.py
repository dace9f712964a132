"""Who comes next when many wait: the party that will have used least when it is done.

Fair queueing in two levels: among addresses, and among the connections of one.  So a client gets no more by opening
many connections, and clients that share an address, such as all of a proxy, share its turns as fairly.

Each party and each address has a clock of what it has used.  What it asks for is stamped with that clock, and served in
the order of the stamp and what a turn of the party needs, as far as its turns until now tell (virtual finishing times:
Demers, Keshav, Shenker 1989).  The queue has a clock too, which shows what a party would have used that had waited all
the time (virtual time: Parekh, Gallager 1993).  Who comes after a rest is set to it, so that rest is no credit; and who
has used more while nobody had to wait is not put behind it by more than a bound.  One whose turns are short passes all
whose turns are long, however many they are, as long as it uses no more than they do.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from fastnode.kernels import loop_time

__all__ = ["DEBT_NS_MAX", "GROUPS_MAX", "FairQueue", "Groups"]

#: Addresses whose use is remembered, connected or not.
GROUPS_MAX: Final = 8192
#: How long one who has used more, while nobody had to wait, waits for that at most: the clock goes on by as much as
#: each of those that wait gets.  More, if that is little: what one turn of it takes.
DEBT_NS_MAX: Final = 2_000_000

Item = TypeVar("Item")


class Groups:
    """The use of each network, of those that came last.  Not safe for use by several threads at a time."""

    def __init__(self) -> None:
        self._by_network: OrderedDict[bytes, loop_time.Share] = OrderedDict()

    def join(self, share: loop_time.Share, network: bytes | None) -> None:
        """Let a party that is new count for its network; None: it has none, and is alone."""
        if network is None:
            return
        share.group = self._by_network.setdefault(network, loop_time.Share())
        self._by_network.move_to_end(network)
        if len(self._by_network) > GROUPS_MAX:
            self._by_network.popitem(last=False)


class _Waiting(Generic[Item]):
    """What waits for one group."""

    __slots__ = ("counts", "heap", "place")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, loop_time.Share, Item]] = []
        #: Of its members, how much waits for each.
        self.counts: dict[loop_time.Share, int] = {}
        #: Its newest entry in the queue of groups; older ones count no more.
        self.place = -1


class FairQueue(Generic[Item]):
    """Not safe for use by several threads at a time.

    groups:   (use + turn, number, group) ...               the group that will have used least
    of each:  (stamp + turn, number, share, item) ...       and of it the member
    """

    def __init__(self) -> None:
        self._groups: list[tuple[int, int, loop_time.Share]] = []
        self._waiting: dict[loop_time.Share, _Waiting[Item]] = {}
        self._number = 0  # keeps the order of arrival among equals
        self._length = 0
        self._now_ns = 0  # the clock of the groups; each group's members have one in its served_ns

    def __len__(self) -> int:
        return self._length

    def push(self, share: loop_time.Share, item: Item, expected_ns: int = 0) -> None:
        """``expected_ns`` is charged at once, so that the items of one party do not all have the same stamp; to its
        group it is charged by :meth:`pop`."""
        group = share.group
        if group is None:
            group = share.group = loop_time.Share()
            group.used_ns = share.used_ns
        waiting = self._waiting.get(group)
        if waiting is None:
            waiting = self._waiting[group] = _Waiting()
            _set_to(group, self._now_ns, max(share.turn_ns, DEBT_NS_MAX // len(self._waiting)))
        count = waiting.counts.get(share, 0)
        if count == 0:
            _set_to(share, group.served_ns, max(share.turn_ns, DEBT_NS_MAX // (len(waiting.counts) + 1)))
        waiting.counts[share] = count + 1
        self._number += 1
        self._length += 1
        heapq.heappush(waiting.heap, (share.used_ns + share.turn_ns, self._number, share, item))
        share.used_ns += expected_ns
        if waiting.heap[0][1] == self._number:  # it is the group's next
            self._place(group, waiting)

    def _place(self, group: loop_time.Share, waiting: _Waiting[Item]) -> None:
        """Queue a group with what its next member needs."""
        self._number += 1
        waiting.place = self._number
        heapq.heappush(self._groups, (group.used_ns + waiting.heap[0][2].turn_ns, self._number, group))

    def pop(self, expected_ns: int = 0) -> tuple[loop_time.Share, Item]:
        """IndexError if there is none."""
        while True:
            key, place, group = self._groups[0]
            waiting = self._waiting.get(group)
            if waiting is None or waiting.place != place:
                heapq.heappop(self._groups)
            elif key < (used := group.used_ns + waiting.heap[0][2].turn_ns):  # it has had turns since
                heapq.heapreplace(self._groups, (used, place, group))
            else:
                break
        heapq.heappop(self._groups)
        _, _, share, item = heapq.heappop(waiting.heap)
        self._length -= 1
        group.used_ns += expected_ns
        if waiting.counts[share] == 1:
            del waiting.counts[share]
        else:
            waiting.counts[share] -= 1
        if waiting.heap:
            self._place(group, waiting)
        else:
            del self._waiting[group]
        return share, item

    def advance(self, share: loop_time.Share, elapsed_ns: int) -> None:
        """Note that a party which was given a turn has used it: each of those that wait could have had its part."""
        group = share.group
        assert group is not None, "it has never waited"
        waiting = self._waiting.get(group)
        members = 1 if waiting is None else len(waiting.counts) + (share not in waiting.counts)
        group.served_ns += elapsed_ns // members
        self._now_ns += elapsed_ns // (len(self._waiting) + (waiting is None))


def _set_to(share: loop_time.Share, now_ns: int, debt_ns_max: int) -> None:
    share.used_ns = min(max(share.used_ns, now_ns), now_ns + debt_ns_max)
