"""A bus that has lost the end of what it acknowledged, as servers do whose power fails, gets it again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.bus.conftest import Fleet, PublishingNode
from tests.bus.nats import NatsServer
from tests.bus.test_following import grow
from tests.bus.test_transactions import TakingUpstream, hash_of, pending, tx_of, until
from tests.bus.test_transactions import network as network
from tests.conftest import NodeProcess
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.connection import Bus
from fastnode.bus.options import BusOptions
from fastnode.bus.upstream import BusUpstream
from fastnode.outgoing.network import Network

StartNode = Callable[..., Any]


@contextmanager
def lost(server: NatsServer) -> Any:
    """The server forgets what happens meanwhile."""
    store, kept = server.directory / "store", server.directory / "kept"
    server.stop()
    shutil.copytree(store, kept)
    server.start()
    yield
    server.stop(signal.SIGKILL)
    shutil.rmtree(store)
    kept.rename(store)
    server.start()


def wait_until_published(publishing: PublishingNode, chain: MadeChain) -> None:
    publishing.node.wait_for(chain)
    until(lambda: publishing.publisher.describe() == {"publishedBlock": chain.tip, "reason": None})


def test_what_a_publisher_published_and_the_bus_lost_is_published_again(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer
) -> None:
    publishing = fleet.publisher(upstream)
    wait_until_published(publishing, chain)
    with lost(server):
        grow(chain, upstream, 3)
        wait_until_published(publishing, chain)
    until(lambda: publishing.bus.connection_number >= 2 and publishing.bus.is_connected)
    replica = fleet.replica()
    replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()


def takes(node: NodeProcess, number: int) -> bool:
    return "error" not in node.call("node_sendTx", tx_of(number))


def test_transactions_after_such_a_loss_reach_nodes_that_had_read_on(
    tmp_path: Path, server: NatsServer, network: TakingUpstream, start_node: StartNode
) -> None:
    flags = ("--bus-url", server.url, "--bus-name")
    source = ("--upstream-url", network.upstream.url, "--bus-publish")
    one = start_node("--data-directory", tmp_path / "one", *flags, "one", *source).wait_until_serving()
    two = start_node("--data-directory", tmp_path / "two", *flags, "two").wait_until_serving()
    until(lambda: all(node.call("node_isReady")["result"] for node in (one, two)))
    with lost(server):
        for number in range(1, 4):
            until(partial(takes, one, number))
        until(lambda: [pending(node) for node in (one, two)] == [3, 3])
        until(lambda: all(network.taken[hash_of(tx_of(number))] for number in range(1, 4)))
    until(partial(takes, one, 4))
    until(lambda: [pending(node) for node in (one, two)] == [4, 4])
    three = start_node("--data-directory", tmp_path / "three", *flags, "three").wait_until_serving()
    until(lambda: pending(three) == 4)


def test_a_bus_that_is_connected_again_is_asked_at_once_but_for_one_that_gave_what_is_wrong() -> None:
    bus = Bus(BusOptions(urls=("nats://nowhere:1",), name="one"))
    with Network() as network:
        upstream = BusUpstream(bus, network)
        for refuse, rests in ((upstream.health.on_unavailable, False), (upstream.health.put_aside, True)):
            refuse("it was away")
            assert upstream.health.is_resting
            bus._connected()
            assert upstream.health.is_resting is rests
    bus._loop.close()
