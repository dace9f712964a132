"""Order of those that wait: next is the party that will have used least when it is done.

Fair queueing in two levels: among addresses, and among the connections of one.  So a client gets no more by opening
many connections, and clients that share an address, such as all of a proxy, share its turns as fairly.

Each party and each address has a clock of what it has used.  What it asks for is stamped with that clock, and served in
the order of the stamp and what a turn of the party needs, as far as its turns until now tell (virtual finishing times:
Demers, Keshav, Shenker 1989).  The queue's own clock is the stamp of what was served last (start-time fair queueing:
Goyal, Vin, Cheng 1996).  Who comes after a rest is set to it less one short turn, so that rest is no other credit; and
who has used more while none had to wait is not put behind it by more than a bound.  One whose turns are short passes
all whose turns are long, however many they are, as long as it uses no more than they do.  Now and then the one that has
waited longest comes next, so that none waits for ever for those that have just come.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from fastnode.kernels import loop_time

__all__ = ["DEBT_NS_MAX", "GROUPS_MAX", "FairQueue", "Groups"]

#: Addresses whose use is remembered, connected or not.
GROUPS_MAX: Final = 8192
#: Longest wait of a party that has used more while none had to wait: the clock goes on by as much as
#: each of those that wait gets.  More, if that is little: what one turn of it takes.
DEBT_NS_MAX: Final = 2_000_000
#: Head start of a party that comes after a rest: a turn, if it is as short as this.
CREDIT_NS_MAX: Final = 100_000
#: One turn of so many is for the address that has had none for longest.
OLDEST_EVERY: Final = 8

Item = TypeVar("Item")


class Groups:
    """The use of each network, of those that came last.  Not safe for use by several threads at a time."""

    def __init__(self) -> None:
        #: Each group has the use of all its members, and a party for its new connections.
        self._by_network: OrderedDict[bytes, tuple[loop_time.Share, loop_time.Share]] = OrderedDict()

    def join(self, share: loop_time.Share, network: bytes | None) -> None:
        """Let a party that is new count for its network; None: it has none, and is alone.

        Until it has had a turn it is taken to need what turns of its network need.
        """
        if network is None:
            return
        share.group = self._of(network)[0]
        share.turn_ns = share.group.turn_ns

    def door(self, network: bytes | None, turn_ns: int) -> loop_time.Share:
        """The party that all new connections of a network are together, however many, with turns that take as much: so
        those that have a connection do not come after all that want one."""
        share = loop_time.Share() if network is None else self._of(network)[1]
        share.turn_ns = turn_ns
        return share

    def _of(self, network: bytes) -> tuple[loop_time.Share, loop_time.Share]:
        found = self._by_network.get(network)
        if found is None:
            found = self._by_network[network] = (loop_time.Share(), loop_time.Share())
            found[1].group = found[0]
            if len(self._by_network) > GROUPS_MAX:
                self._by_network.popitem(last=False)
        else:
            self._by_network.move_to_end(network)
        return found


class _Waiting(Generic[Item]):
    """The waiting entries of one group."""

    __slots__ = ("counts", "heap", "place")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, loop_time.Share, Item]] = []
        #: Number of waiting entries for each member.
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
        self._pops = 0
        self._period = 0  # a time without a break during which some wait

    def __len__(self) -> int:
        return self._length

    def push(self, share: loop_time.Share, item: Item, expected_ns: int = 0) -> None:
        """``expected_ns`` is charged at once, so that the items of one party do not all have the same stamp; to its
        group it is charged by :meth:`pop`."""
        group = share.group
        if group is None:
            group = share.group = loop_time.Share()
            group.used_ns = share.used_ns
        if self._length == 0:
            self._period += 1
        waiting = self._waiting.get(group)
        if waiting is None:
            waiting = self._waiting[group] = _Waiting()
            self._enter(group, self._now_ns, share.turn_ns, len(self._waiting))
        count = waiting.counts.get(share, 0)
        if count == 0:
            self._enter(share, group.served_ns, share.turn_ns, len(waiting.counts) + 1)
        waiting.counts[share] = count + 1
        self._number += 1
        self._length += 1
        heapq.heappush(waiting.heap, (share.used_ns + share.turn_ns, self._number, share, item))
        share.used_ns += expected_ns
        if waiting.heap[0][1] == self._number:  # it is the group's next
            self._place(group, waiting)

    def _enter(self, share: loop_time.Share, now_ns: int, turn_ns: int, waiting_count: int) -> None:
        """Set the clock of one that begins to wait, beside others; what it has used since they wait is its own."""
        used_ns = max(share.used_ns, now_ns - min(turn_ns, CREDIT_NS_MAX))
        if share.period != self._period:
            share.period = self._period
            used_ns = min(used_ns, now_ns + max(turn_ns, DEBT_NS_MAX // waiting_count))
        share.used_ns = used_ns

    def _place(self, group: loop_time.Share, waiting: _Waiting[Item]) -> None:
        """Queue a group with what its next member needs."""
        self._number += 1
        waiting.place = self._number
        heapq.heappush(self._groups, (group.used_ns + waiting.heap[0][2].turn_ns, self._number, group))

    def pop(self, expected_ns: int = 0) -> tuple[loop_time.Share, Item]:
        """IndexError if there is none."""
        self._pops += 1
        if self._pops % OLDEST_EVERY == 0 and self._waiting:
            group = next(iter(self._waiting))
        else:
            group = self._first()
            self._now_ns = max(self._now_ns, group.used_ns)
        waiting = self._waiting.pop(group)
        stamp, _, share, item = heapq.heappop(waiting.heap)
        group.served_ns = max(group.served_ns, stamp - share.turn_ns)
        self._length -= 1
        group.used_ns += expected_ns
        if waiting.counts[share] == 1:
            del waiting.counts[share]
        else:
            waiting.counts[share] -= 1
        if waiting.heap:
            self._waiting[group] = waiting  # behind the others
            self._place(group, waiting)
        return share, item

    def _first(self) -> loop_time.Share:
        while True:
            key, place, group = self._groups[0]
            waiting = self._waiting.get(group)
            if waiting is None or waiting.place != place:
                heapq.heappop(self._groups)
            elif key < (used := group.used_ns + waiting.heap[0][2].turn_ns):  # it has had turns since
                heapq.heapreplace(self._groups, (used, place, group))
            else:
                heapq.heappop(self._groups)
                return group
