"""Subscriptions of the clients: each event once and in order, whatever happens to the node; and what is no node."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.conftest import PATIENCE_S
from tests.http_stand_in import HttpStandIn, answer
from tests.ports import free_port
from tests.serving.killed_nodes import Nodes
from tests.serving.push_client import AsyncFollowing, Following
from websockets.sync.server import Server, ServerConnection, serve

from fastnode import AsyncClient, Client
from fastnode.client import Event
from fastnode.errors import CallRejected, NoAnswer
from fastnode.testing import RunningNetwork, local_network

KILLS = 2


@pytest.fixture(scope="module")
def network() -> Iterator[RunningNetwork]:
    with local_network("--seed=test", in_process=True) as network:
        yield network


def numbers(events: list[Event]) -> list[int]:
    return [event.data["number"] for event in events]


def some(subscription: Iterator[Event], count: int) -> list[Event]:
    return [next(subscription) for _ in range(count)]


# ---- a node --------------------------------------------------------------------------------------------


def test_events_come_from_now_on_from_a_block_on_or_behind_a_cursor(network: RunningNetwork) -> None:
    tip = network.mine(3)
    client = Client(network.url)
    with client.subscribe("blocks") as newest, client.subscribe("blocks", from_block=1) as all_blocks:
        network.mine(2)
        told = some(newest, 2)
        assert numbers(told) == [tip + 1, tip + 2]
        assert {event.event for event in told} == {"block"}
        assert numbers(some(all_blocks, tip)) == [*range(1, tip + 1)]
        with client.subscribe("blocks", cursors=all_blocks.cursors) as following:
            assert numbers(some(following, 2)) == [tip + 1, tip + 2]
            assert following.cursors[0] == told[-1].cursor
    with client.subscribe("tips") as tips:
        assert next(tips).data == network.call("node_getL2Tips")
    client.close()


def test_a_subscription_that_is_closed_by_another_thread_ends_its_loop(network: RunningNetwork) -> None:
    subscription = Client(network.url).subscribe("blocks")
    ended = threading.Event()

    def read() -> None:
        for _ in subscription:
            pass
        ended.set()

    reading = threading.Thread(target=read)
    reading.start()
    subscription.close()
    assert ended.wait(PATIENCE_S)
    reading.join(PATIENCE_S)


def test_asyncio_has_the_same_events_and_errors(network: RunningNetwork) -> None:
    tip = network.mine(2)

    async def run() -> None:
        async with AsyncClient(network.url) as node:
            async with await node.subscribe("blocks", from_block=1) as subscription:
                told = [await anext(subscription) for _ in range(tip)]
            assert numbers(told) == [*range(1, tip + 1)]
            assert [event async for event in subscription] == []
            with pytest.raises(CallRejected, match="blocks has no"):
                await node.subscribe("blocks", tags=[bytes(32)])

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_parameters_that_make_no_sense_are_refused_by_name(network: RunningNetwork) -> None:
    client = Client(network.url)
    for wanted in ({"tag": "0xzz"}, {"tags": [bytes(32)]}, {"from_block": 10**6}):
        with pytest.raises(CallRejected) as refused:
            client.subscribe("publicLogs", **wanted)  # type: ignore[arg-type]
        assert refused.value.code == -32602
    with pytest.raises(CallRejected, match="from"):
        client.subscribe("blocks", cursors=["no cursor"])


# ---- nodes that are killed -----------------------------------------------------------------------------


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


def test_a_node_that_is_killed_under_both_clients_loses_no_block_and_doubles_none(nodes: Nodes) -> None:
    seeded = random.Random(7)
    clients = [kind(nodes.url, 1) for kind in (Following, AsyncFollowing)]
    for each in clients:
        each.start()
    tip = 0
    for _ in range(KILLS):
        tip = mined(nodes, seeded.randint(1, 5))
        if seeded.random() < 0.7:  # some are taken back while nobody listens, or while somebody does
            clients[0].wait_for(tip)
        nodes.call("fastnode_reorg", seeded.randint(1, 2))
        nodes.kill()
        nodes.start()
        tip = mined(nodes, 1)
    for each in clients:
        each.wait_for(tip)
        each.is_ending = True
    mined(nodes, 1)
    for each in clients:
        each.join(PATIENCE_S)
        assert not each.is_alive()
    blocks = [block["hash"] for block in nodes.call("node_getBlocks", 1, tip)]  # type: ignore[attr-defined]
    assert [each.follower.blocks[:tip] for each in clients] == [blocks, blocks]


def mined(nodes: Nodes, count: int) -> int:
    nodes.call("fastnode_mine", count)
    tip = nodes.call("node_getBlockNumber")
    assert isinstance(tip, int)
    return tip


# ---- what is no node -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 301, 401, 403, 404])
def test_a_server_that_has_no_events_is_named(status: int) -> None:
    def respond(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        answer(handler, b"none", status)

    with HttpStandIn(respond) as server:
        with pytest.raises(NoAnswer):
            Client(server.url, retries=0).subscribe("blocks")
        with pytest.raises(NoAnswer):
            asyncio.run(subscribed(server.url))
    with pytest.raises(NoAnswer):
        Client(f"http://127.0.0.1:{free_port()}", retries=0).subscribe("blocks")


async def subscribed(url: str) -> None:
    async with AsyncClient(url, retries=0) as node:
        await node.subscribe("blocks")


class Scripted:
    """A server of WebSockets that says, on one connection after the other, what the test says."""

    def __init__(self, *scripts: Callable[[ServerConnection, dict[str, Any]], None]) -> None:
        self.asked: list[dict[str, Any]] = []
        left = [*scripts]

        def handle(connection: ServerConnection) -> None:
            call = orjson.loads(connection.recv(PATIENCE_S))
            self.asked.append(call["params"])
            if left:
                left.pop(0)(connection, call)

        self.server: Server = serve(handle, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join(PATIENCE_S)


def said(connection: ServerConnection, call: dict[str, Any], *cursors: str, begin: str = "7-aa") -> None:
    result = {"subscription": "blocks", "cursor": begin}
    connection.send(orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).decode())
    for cursor in cursors:
        params = {"subscription": "blocks", "event": "block", "cursor": cursor, "data": {"number": int(cursor[:1])}}
        connection.send(orjson.dumps({"jsonrpc": "2.0", "method": "event", "params": params}).decode())


def test_a_connection_that_ends_before_the_first_event_goes_on_from_where_it_began() -> None:
    server = Scripted(said, lambda connection, call: said(connection, call, "8-bb"))
    with Client(server.url).subscribe("blocks") as subscription:
        assert next(subscription).cursor == "8-bb"
    server.close()
    assert server.asked == [{"topic": "blocks"}, {"topic": "blocks", "from": ["7-aa"]}]


def test_a_connection_that_breaks_in_garbage_goes_on_behind_the_newest_event() -> None:
    def garbage(connection: ServerConnection, call: dict[str, Any]) -> None:
        said(connection, call, "8-bb")
        connection.send("[no event")

    def position(connection: ServerConnection, call: dict[str, Any]) -> None:
        said(connection, call)
        connection.send('{"method":"position","params":{"cursor":"9-cc"}}')
        connection.socket.close()

    server = Scripted(garbage, position, lambda connection, call: said(connection, call, "9-dd"))
    with Client(server.url).subscribe("blocks", from_block=8) as subscription:
        assert [event.cursor for event in some(subscription, 2)] == ["8-bb", "9-dd"]
    server.close()
    assert [params["from"] for params in server.asked] == [8, ["8-bb", "7-aa"], ["9-cc", "8-bb", "7-aa"]]


def test_cursors_of_another_chain_end_the_loop_with_the_reason() -> None:
    def refuse(connection: ServerConnection, call: dict[str, Any]) -> None:
        said(connection, call)
        connection.close(1008, "the cursor 8-bb is not of this chain")

    server = Scripted(refuse)
    with (
        Client(server.url).subscribe("blocks", cursors=["8-bb"]) as subscription,
        pytest.raises(CallRejected, match="not of this chain"),
    ):
        next(subscription)
    server.close()


def test_receipts_are_asked_for_again_until_the_first_has_come() -> None:
    server = Scripted(said, lambda connection, call: said(connection, call, "8-bb"), said, said)
    with Client(server.url).subscribe("receipts", tx_hashes=[bytes(32)]) as subscription:
        next(subscription)
    server.close()
    wanted = {"topic": "receipts", "txHashes": ["0x" + 64 * "0"]}
    assert server.asked[:2] == [wanted, wanted]
