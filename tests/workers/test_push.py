"""Push on a node that follows another one, with workers: every client is told every block once, whoever is killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.conftest import PATIENCE_S, NodeProcess
from tests.ports import free_port
from tests.serving.push_client import AsyncFollowing, Following
from tests.workers.nodes import Workers

from fastnode.testing import local_network

#: The system spreads them over the workers by their ports.
CLIENTS = 4


def test_a_follower_with_workers_tells_each_block_once_over_reorgs_and_kills(
    start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    seeded = random.Random(11)
    with local_network("--seed=test", in_process=True) as network:
        flags = (
            "--workers=2",
            f"--port={free_port()}",
            f"--upstream-url={network.url}",
            f"--data-directory={tmp_path / 'data'}",
        )
        workers = Workers(start_node(*flags))
        url = workers.node.url
        clients = [seeded.choice((Following, AsyncFollowing))(url, 1) for _ in range(CLIENTS)]
        try:
            for each in clients:
                each.start()
            tip = 0
            for whom in ("worker 1", "all"):
                tip = network.mine(seeded.randint(1, 3))
                if seeded.random() < 0.7:
                    clients[0].wait_for(tip)
                network.call("fastnode_reorg", seeded.randint(1, 2))
                if whom == "all":
                    workers.node.process.kill()
                    workers.node.process.wait(PATIENCE_S)
                    workers = Workers(start_node(*flags))
                else:
                    served = len(workers.lines("worker serves"))
                    workers.kill(whom)
                    workers.wait_for(served + 1)
                tip = network.mine()
                for each in clients:
                    each.wait_for(tip)
        finally:
            for each in clients:
                each.is_ending = True
            network.mine()
        for each in clients:
            each.join(PATIENCE_S)
            assert not each.is_alive()
        blocks = [block["hash"] for block in network.call("node_getBlocks", 1, tip)]
        assert all(each.follower.blocks[:tip] == blocks for each in clients)
        assert all(each.follower.pruned for each in clients)
