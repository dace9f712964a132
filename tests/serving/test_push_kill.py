"""Nodes that are killed while they push: who comes again is told every block once, over reorgs too."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S
from tests.serving.killed_nodes import Nodes
from tests.serving.push_client import Follower, PushClient
from websockets.exceptions import WebSocketException

from fastnode.errors import RpcError

ROUNDS = 1000 if os.environ.get("FASTNODE_LONG") else 4
#: Blocks that a reorg takes back at most.
DEPTH_MAX = 3


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    try:
        yield nodes
    finally:
        nodes.close()


@pytest.mark.timeout(7200)
def test_no_block_is_lost_or_told_twice_over_nodes_that_are_killed(nodes: Nodes) -> None:
    seeded = random.Random(4242)
    nodes.start()
    number = nodes.call("node_getBlockNumber")
    assert isinstance(number, int)
    follower = Follower(number + 1)
    for round_number in range(ROUNDS):
        client = PushClient(nodes.port)
        follower.subscribe(client)
        working = threading.Thread(target=work, args=(nodes, seeded.getrandbits(32), follower))
        working.start()
        killing = threading.Timer(seeded.uniform(0.0, 0.3), nodes.kill)
        with suppress(WebSocketException, OSError, TimeoutError):
            while True:
                message = client.read()
                if message.get("method") == "event":
                    follower.take(message["params"])
                    if killing.ident is None:  # in the middle of what happens
                        killing.start()
        with suppress(WebSocketException, OSError):
            client.close()
        for thread in (killing, working):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        nodes.start()
        if round_number % 20 == 19:
            print(round_number + 1, len(follower.blocks), follower.pruned, flush=True)
    client = PushClient(nodes.port)
    follower.subscribe(client)
    nodes.call("fastnode_mine", 1)
    tip = nodes.call("node_getBlockNumber")
    assert isinstance(tip, int)
    while follower.next_number <= tip:
        message = client.read()
        if message.get("method") == "event":
            follower.take(message["params"])
    client.close()
    for place in {0, *(seeded.randrange(len(follower.blocks)) for _ in range(50)), len(follower.blocks) - 1}:
        block = nodes.call("node_getBlock", follower.first + place)
        assert isinstance(block, dict)
        assert block["hash"] == follower.blocks[place]


def work(nodes: Nodes, seed: int, follower: Follower) -> None:
    """Blocks and reorgs, until the node is gone."""
    seeded = random.Random(seed)
    with suppress(Exception):
        while True:
            if seeded.random() < 0.7:
                nodes.call("fastnode_mine", seeded.randint(1, 3))
                continue
            depth = seeded.randint(1, DEPTH_MAX)
            if len(follower.blocks) > 2 * DEPTH_MAX:
                with suppress(RpcError):  # of what is final
                    nodes.call("fastnode_reorg", depth)
