"""A whole node accuses of inactivity: only in epochs whose checkpoints are proven, and that it has watched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.sentinel.test_sentinel import address_of, signed
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import scripted_upstream

#: So many that one who is away is not among those who were not needed.
KEYS = [PrivateKey(bytes([number]) * 32) for number in range(1, 8)]
AWAY = 6
INACTIVE = "0x" + address_of(KEYS[AWAY]).hex()
SLOT_S = 360  # a node has eighteen minutes to start in epoch NOW
#: The epoch in which the tests are.
NOW = 20


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    """Three epochs with a checkpoint each, proven, that one of the committee did not sign."""
    with made_chain(tmp_path / "made") as chain:
        begin = int(time.time()) - (NOW * chain.epoch_slots + 1) * SLOT_S
        chain.chain_record["l1Constants"] |= {"l1GenesisTime": str(begin), "slotDuration": SLOT_S}
        for epoch in (NOW - 8, NOW - 7, NOW - 3):
            publish(chain, epoch)
        chain.proven = 3
        yield chain


def publish(chain: MadeChain, epoch: int) -> None:
    chain._chain._slot = epoch * chain.epoch_slots
    chain.checkpoint()
    unit = chain.units[-1]
    assert unit.published is not None
    unit.published = signed({"published": unit.published}, lambda _, member: member == AWAY, KEYS)["published"]


def wait_for(node: NodeProcess, chain: MadeChain) -> None:
    """Until the node has the chain's tips."""
    deadline, wanted = time.monotonic() + PATIENCE_S, (chain.checkpoint_count, chain.proven)
    while True:
        tips = node.call("node_getL2Tips")["result"]
        if tuple(tips[name]["checkpoint"]["number"] for name in ("checkpointed", "proven")) == wanted:
            return
        assert time.monotonic() < deadline, tips
        time.sleep(0.02)


def test_only_proven_epochs_that_the_node_has_watched_are_judged(
    tmp_path: Path, start_node: Callable[..., NodeProcess], chain: MadeChain
) -> None:
    def start() -> NodeProcess:
        node = start_node(
            *("--upstream-url", upstream.url, "--data-directory", tmp_path / "data", "--sentinel-enabled"),
            *("--slash-inactivity-consecutive-epoch-threshold=1", "--archiver-polling-interval-ms=10"),
            *("--slash-inactivity-penalty=7", "--slash-grace-period-l2-slots=0", "--slash-offense-expiration-rounds=0"),
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        )
        node.wait_until_serving()
        wait_for(node, chain)
        return node

    def accused(node: NodeProcess) -> list[tuple[str, int]]:
        offenses: list[dict[str, Any]] = node.call_admin("nodeAdmin_getSlashOffenses", "all")["result"]
        assert {offense["offenseType"] for offense in offenses} <= {3}
        return [(offense["validator"], int(offense["epochOrSlot"])) for offense in offenses]

    with scripted_upstream(chain) as upstream:
        node = start()
        assert accused(node) == [], "what was before this node watched is not its to judge"
        with upstream.lock:
            for epoch in (NOW + 1, NOW + 2):
                publish(chain, epoch)
        wait_for(node, chain)
        assert accused(node) == [], "an epoch that is not proven may have checkpoints that are not there yet"
        with upstream.lock:
            chain.proven = 5
        wait_for(node, chain)
        assert accused(node) == [(INACTIVE, NOW + 1)]
        assert node.stop() == 0
