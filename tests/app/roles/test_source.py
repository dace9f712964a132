"""The source of new blocks: what it takes for the time of the chain, and who takes transactions."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from fastnode.app.stages.source import ChainWithL1, FollowedChain, LocalChain, Source
from fastnode.config.settings import Settings
from fastnode.protocol.releases import FOUR


def views_at(timestamp: int | None) -> Any:
    """Of a chain whose newest block has this time; None: it has no blocks."""
    info = None if timestamp is None else SimpleNamespace(timestamp=timestamp)
    chain = SimpleNamespace(tip_number=5, block_info=lambda number: info if number == 5 else None)
    return SimpleNamespace(newest=SimpleNamespace(chain=chain))


def opened(**settings: Any) -> Any:
    store = SimpleNamespace(chain=SimpleNamespace(release=FOUR))
    return SimpleNamespace(settings=Settings(**settings), data=SimpleNamespace(store=store))


def origins(**parts: Any) -> Any:
    """Follows other nodes, of which none is named; L1 is not read."""
    given: dict[str, Any] = dict.fromkeys(("l1", "simulator", "questions", "exchange_times", "bus"))
    given |= {"nodes": SimpleNamespace(all=[]), "upstreams": SimpleNamespace(all=[])}
    given |= {"fees": lambda: None, "tx_sink": "sink"}
    return SimpleNamespace(**(given | parts))


def test_where_no_block_can_come_it_is_never_before_the_newest_block() -> None:
    tomorrow = int(time.time()) + 86_400
    assert Source(views_at(tomorrow)).now() == tomorrow
    assert time.time() - 60 < Source(views_at(1)).now() < time.time() + 60
    assert time.time() - 60 < Source(views_at(None)).now() < time.time() + 60
    stopped: Any = SimpleNamespace(newest=None)
    assert time.time() - 60 < Source(stopped).now() < time.time() + 60


def test_it_follows_the_chain_as_that_grows() -> None:
    views = views_at(1)
    now = Source(views).now
    tomorrow = int(time.time()) + 86_400
    views.newest = views_at(tomorrow).newest
    assert now() == tomorrow


def test_a_chain_that_is_followed_has_the_time_of_the_clock_or_of_l1() -> None:
    tomorrow = views_at(int(time.time()) + 86_400)
    start = time.time()
    assert start <= FollowedChain(tomorrow, opened(), origins()).now() <= time.time()
    l1: Any = SimpleNamespace(now=lambda: 7.0, outbox_roots=None, message_index=None)
    assert ChainWithL1(tomorrow, opened(), origins(), l1).now() == 7.0
    local: Any = SimpleNamespace(pool_time=lambda: 9.0, fees=None, forward=None)
    assert LocalChain(tomorrow, opened(), local).now() == 9.0


def test_who_builds_blocks_hands_transactions_to_other_nodes_only_if_some_are_named() -> None:
    builder = opened(sequencer=True)
    assert FollowedChain(views_at(1), builder, origins()).sink is None
    assert FollowedChain(views_at(1), builder, origins(nodes=SimpleNamespace(all=[1]))).sink == "sink"
    assert FollowedChain(views_at(1), opened(), origins()).sink == "sink"
