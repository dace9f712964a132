"""Clients by the feeds that they listen to, and the frames of these that are kept for others.

subscribed ── from now on, or told of all that was missed ──► listening, in a group with all who do so to the same
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from fastnode.serving.feeds import Feed, Interest
from fastnode.serving.seen_blocks import Cursor

__all__ = ["Group", "KeptFrames", "Listeners"]

#: Bytes of a list of frames, beside theirs.
LIST_BYTES = 256

C = TypeVar("C")
#: Feed, hash and status of the block, and part.
Key = tuple[str, bytes, bytes, int]
Frames = list[tuple[Cursor, bytes]]


class Group(Generic[C]):
    """Clients that listen to the same feeds."""

    __slots__ = ("clients", "feeds")

    def __init__(self, feeds: tuple[Feed, ...]) -> None:
        self.feeds = feeds
        self.clients: dict[C, None] = {}


class Listeners(Generic[C]):
    """Belongs to the loop; :meth:`has` any thread may call."""

    def __init__(self) -> None:
        #: Feeds that somebody has subscribed to, and how many.
        self._feeds: dict[str, tuple[Feed, int]] = {}
        self._groups: dict[tuple[str, ...], Group[C]] = {}
        #: Feeds that live clients listen to, with their groups.
        self._listening: dict[Feed, dict[Group[C], None]] = {}
        self.interest = Interest()
        self.subscription_count = 0

    def invariant(self) -> None:
        """AssertionError unless each group is of somebody, and listens to feeds that are subscribed to."""
        assert self.subscription_count == sum(count for _, count in self._feeds.values())
        assert all(count > 0 for _, count in self._feeds.values())
        assert all(feed.name == name for name, (feed, _) in self._feeds.items())
        for names, group in self._groups.items():
            assert group.clients
            assert names == tuple(feed.name for feed in group.feeds)
            assert all(group in self._listening[feed] for feed in group.feeds)
        assert sum(map(len, self._listening.values())) == sum(len(group.feeds) for group in self._groups.values())

    @property
    def client_count(self) -> int:
        """Clients that are in a group."""
        return sum(len(group.clients) for group in self._groups.values())

    # ---- subscriptions -----------------------------------------------------------------------

    def feed(self, wanted: Feed) -> Feed:
        """The one feed of this name, for one subscription more."""
        feed, count = self._feeds.get(wanted.name, (wanted, 0))
        self._feeds[wanted.name] = feed, count + 1
        self.subscription_count += 1
        return feed

    def forget(self, feed: Feed) -> None:
        """One subscription less."""
        _, count = self._feeds.pop(feed.name)
        if count > 1:
            self._feeds[feed.name] = feed, count - 1
        self.subscription_count -= 1

    def has(self, name: str) -> bool:
        return name in self._feeds

    def named(self, name: str) -> Feed | None:
        """The feed of this name, if somebody has subscribed to it."""
        return self._feeds.get(name, (None, 0))[0]

    # ---- groups ------------------------------------------------------------------------------

    def groups(self) -> list[Group[C]]:
        return list(self._groups.values())

    def of(self, feed: Feed) -> list[Group[C]]:
        """Groups that listen to a feed."""
        return list(self._listening.get(feed, ()))

    def move(self, client: C, before: Group[C] | None, feeds: Iterable[Feed]) -> Group[C] | None:
        """Take a client from its group to that of who listens to these feeds; None: to none."""
        if before is not None:
            del before.clients[client]
            if not before.clients:
                self._end(before)
        listened = tuple(sorted(feeds, key=lambda feed: feed.name))
        if not listened:
            return None
        names = tuple(feed.name for feed in listened)
        group = self._groups.get(names)
        if group is None:
            group = self._groups[names] = Group(listened)
            for feed in listened:
                if feed not in self._listening:
                    self.interest.add(feed)
                self._listening.setdefault(feed, {})[group] = None
        group.clients[client] = None
        return group

    def _end(self, group: Group[C]) -> None:
        del self._groups[tuple(feed.name for feed in group.feeds)]
        for feed in group.feeds:
            groups = self._listening[feed]
            del groups[group]
            if not groups:
                del self._listening[feed]
                self.interest.remove(feed)


class KeptFrames:
    """Frames of the newest blocks that were read, at most ``bytes_max``."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._frames: dict[Key, Frames] = {}
        self._bytes = 0

    def invariant(self) -> None:
        """AssertionError unless the count of bytes is right, and within its limit."""
        assert self._bytes == sum(map(_size_of, self._frames.values())) <= self._bytes_max

    def get(self, key: Key) -> Frames | None:
        return self._frames.get(key)

    def put(self, key: Key, frames: Frames) -> None:
        before = self._frames.pop(key, None)
        self._bytes += _size_of(frames) - (0 if before is None else _size_of(before))
        self._frames[key] = frames
        while self._bytes > self._bytes_max:
            self._bytes -= _size_of(self._frames.pop(next(iter(self._frames))))


def _size_of(frames: Frames) -> int:
    return sum(len(text) for _, text in frames) + LIST_BYTES
