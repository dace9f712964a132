"""What a node that has joined its network takes for the time of the chain."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from fastnode.app.joined import _chain_time


def views_at(timestamp: int | None) -> Any:
    """Of a chain whose newest block has this time; None: it has no blocks."""
    info = None if timestamp is None else SimpleNamespace(timestamp=timestamp)
    chain = SimpleNamespace(tip_number=5, block_info=lambda number: info if number == 5 else None)
    return SimpleNamespace(newest=SimpleNamespace(chain=chain))


def opened(**parts: Any) -> Any:
    return SimpleNamespace(**({"l1": None, "following": None} | parts))


def test_where_no_block_can_come_it_is_never_before_the_newest_block() -> None:
    tomorrow = int(time.time()) + 86_400
    assert _chain_time(opened(), views_at(tomorrow), None)() == tomorrow
    assert time.time() - 60 < _chain_time(opened(), views_at(1), None)() < time.time() + 60
    assert time.time() - 60 < _chain_time(opened(), views_at(None), None)() < time.time() + 60
    stopped: Any = SimpleNamespace(newest=None)
    assert time.time() - 60 < _chain_time(opened(), stopped, None)() < time.time() + 60


def test_it_follows_the_chain_as_that_grows() -> None:
    views = views_at(1)
    now = _chain_time(opened(), views, None)
    tomorrow = int(time.time()) + 86_400
    views.newest = views_at(tomorrow).newest
    assert now() == tomorrow


def test_a_chain_that_is_followed_has_the_time_of_the_clock_or_of_l1() -> None:
    tomorrow = views_at(int(time.time()) + 86_400)
    assert _chain_time(opened(following=object()), tomorrow, None) is time.time
    l1 = SimpleNamespace(now=lambda: 7.0)
    assert _chain_time(opened(following=object(), l1=l1), tomorrow, None)() == 7.0
    local: Any = SimpleNamespace(pool_time=lambda: 9.0)
    assert _chain_time(opened(), tomorrow, local)() == 9.0
