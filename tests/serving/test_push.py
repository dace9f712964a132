"""GET /events over WebSocket: subscriptions, where they go on, and who is refused or cut off."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs
from tests.serving.push_client import Follower, PushClient, push_client
from tests.serving.sockets import Connection, RunningServer, port_of, request, wait_until
from websockets.exceptions import InvalidStatus

from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.serving import feeds
from fastnode.serving import push as pushing
from fastnode.serving.event_streams import EventStreams
from fastnode.serving.push import SUBSCRIPTIONS_MAX, Push
from fastnode.serving.seen_blocks import SeenBlocks
from fastnode.testing import RunningNetwork, local_network
from fastnode.view import View


@pytest.fixture
def client(network: RunningNetwork) -> Iterator[PushClient]:
    with push_client(port_of(network)) as client:
        yield client


def numbers(client: PushClient) -> list[int]:
    return [told["data"]["number"] for told in client.told if told["event"] == "block"]


# ---- subscriptions -----------------------------------------------------------------------------------


def test_blocks_and_tips_are_told_as_they_come(network: RunningNetwork, client: PushClient) -> None:
    answer = client.subscribe("blocks")
    assert answer["cursor"].startswith(f"{network.block_number}-")
    client.subscribe("tips")
    assert client.wait_for("tips")["data"] == network.call("node_getL2Tips")
    number = network.mine(2)
    told = client.wait_for("block", lambda block: block["number"] == number)
    assert told["data"]["hash"] == network.call("node_getBlock", number)["hash"]
    assert told["subscription"] == answer["subscription"] == "blocks"
    client.wait_for("tips", lambda tips: tips["proposed"]["number"] == number)
    assert numbers(client) == [number - 1, number]


def test_a_transaction_is_told_when_it_is_pending_and_when_it_is_in_a_block(
    network: RunningNetwork, client: PushClient
) -> None:
    header, version = network.call("node_getBlockHeader", "latest"), network.call("node_getVersion")
    tx = for_chain(next(iter(made_txs(1))), header, version)
    network.call("evm_setAutomine", False)
    client.subscribe("txs")
    client.subscribe("receipts", txHashes=[hash_of(tx), "0x" + 64 * "0"])
    network.call("node_sendTx", tx)
    assert client.wait_for("txs")["data"] == [{"txHash": hash_of(tx), "status": "pending"}]
    network.mine()
    told = [client.wait_for("txs"), client.wait_for("txs")]
    network.call("evm_setAutomine", True)
    assert {each["subscription"].partition("-")[0] for each in told} == {"txs", "receipts"}
    receipt = network.call("node_getTxReceipt", hash_of(tx))
    assert [each["data"][0]["blockHash"] for each in told] == [receipt["blockHash"]] * 2
    with push_client(port_of(network)) as late:
        late.subscribe("receipts", txHashes=[hash_of(tx)])
        [told_late] = late.wait_for("txs")["data"]
        assert told_late["txHash"] == hash_of(tx)


def test_blocks_that_are_taken_back_are_named_before_those_in_their_place(
    network: RunningNetwork, client: PushClient
) -> None:
    client.subscribe("blocks")
    client.subscribe("reorgs")
    tip = network.mine(3)
    client.wait_for("block", lambda block: block["number"] == tip)
    network.call("fastnode_reorg", 2)
    client.wait_for("block", lambda block: block["number"] == tip)
    events = [(told["subscription"], told["event"]) for told in client.told]
    assert events == [
        *[("blocks", "block")] * 3,
        ("blocks", "pruned"),
        ("reorgs", "pruned"),
        *[("blocks", "block")] * 2,
    ]
    assert client.told[3]["data"] == {"fromBlock": tip - 1, "toBlock": tip}
    assert client.told[3]["cursor"].startswith(f"{tip - 2}-")


def test_a_subscription_that_has_ended_is_told_nothing(network: RunningNetwork, client: PushClient) -> None:
    client.subscribe("blocks")
    client.subscribe("reorgs")
    assert client.call("unsubscribe", ["blocks"])["result"] is True
    assert client.call("unsubscribe", {"subscription": "blocks"})["result"] is False
    network.mine(2)
    client.subscribe("tips")
    client.wait_for("tips")
    assert numbers(client) == []


# ---- going on where one was --------------------------------------------------------------------------


def test_a_client_that_comes_again_is_told_each_block_once_over_reorgs_and_lost_memory(
    network: RunningNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded = random.Random(42)
    follower = Follower(network.block_number + 1)
    client = PushClient(port_of(network))
    follower.subscribe(client)
    for _ in range(2000 if os.environ.get("FASTNODE_LONG") else 40):
        step = seeded.random()
        if step < 0.5:
            network.mine(seeded.randint(1, 3))
        elif step < 0.75 and network.block_number - follower.first > 4:
            network.call("fastnode_reorg", seeded.randint(1, 3))
        for told in client.told[:]:
            follower.take(told)
        client.told.clear()
        if seeded.random() < 0.6:
            client.socket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.socket.socket.close()
            if seeded.random() < 0.5:  # as a process that begins anew, which remembers no block that was taken back
                monkeypatch.setattr(SeenBlocks, "kept_below", lambda *_: None)
            else:
                monkeypatch.undo()
            client = PushClient(port_of(network))
            follower.subscribe(client)
        for _ in range(seeded.randint(0, 3)):
            if follower.next_number + len(client.told) <= network.block_number:
                client.read()
    number = network.mine()
    client.wait_for("block", lambda block: block["number"] == number)
    for told in client.told:
        follower.take(told)
    chain = range(follower.first, number + 1)
    assert follower.blocks == [network.call("node_getBlock", each)["hash"] for each in chain]
    assert follower.pruned > 0
    client.close()


# ---- a chain that stands still -----------------------------------------------------------------------


@pytest.fixture
def push(running: RunningServer, view: View) -> Push:
    """The sample chain; transactions become pending when a test says so."""

    async def make() -> Push:
        server = running.server
        events = EventStreams(lambda: view, clients_max=10, budget=server.budget, traffic=server.traffic)
        made = Push(
            lambda: view,
            has_room=events.has_room,
            subscriptions_max=120,
            budget=server.budget,
            traffic=server.traffic,
            artifacts=ArtifactStore(None),
        )
        events.other_count = lambda: made.client_count
        server.set_events(events, made)
        return made

    return running.run(make())


@pytest.fixture
def still(running: RunningServer, push: Push) -> Iterator[PushClient]:
    with push_client(running.server.port) as client:
        yield client


def test_logs_are_told_by_contract_and_tag_and_tags(
    still: PushClient, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PIECE_BYTES", 1000)
    chain = view.chain
    blocks = [orjson.loads(chain.body_json(number) or b"")["txEffects"] for number in range(1, chain.tip_number + 1)]
    public = [log for effects in blocks for effect in effects for log in effect["publicLogs"]]
    private = [log["fields"][0] for effects in blocks for effect in effects for log in effect["privateLogs"]]
    one = Counter((log["contractAddress"], log["fields"][0]) for log in public).most_common(1)[0][0]
    filters: list[dict[str, Any]] = [{}, {"contractAddress": one[0]}, {"tag": one[1]}]
    filters.append({"contractAddress": one[0], "tag": one[1]})
    for wanted in filters:
        name = still.subscribe("publicLogs", **wanted, **{"from": 1})["subscription"]
        expected = [
            log["fields"]
            for log in public
            if wanted.get("contractAddress") in (None, log["contractAddress"])
            and wanted.get("tag") in (None, log["fields"][0])
        ]
        assert expected
        assert [log["log"]["fields"] for log in items_of(still, name, len(expected))] == expected
    tags = [tag for tag, _ in Counter(private).most_common(20)]
    name = still.subscribe("privateLogs", tags=tags, **{"from": 1})["subscription"]
    found = [log["logData"][0] for log in items_of(still, name, sum(private.count(tag) for tag in tags))]
    assert Counter(found) == Counter(tag for tag in private if tag in tags)


def test_logs_have_names_for_who_wants_them(still: PushClient, view: View) -> None:
    plain = still.subscribe("publicLogs", **{"from": 1})["subscription"]
    named = still.subscribe("publicLogs", names=True, **{"from": 1})["subscription"]
    assert still.call("subscribe", {"topic": "publicLogs", "names": 1})["error"]["code"] == -32602
    count = sum(
        len(effect["publicLogs"])
        for number in range(1, view.chain.tip_number + 1)
        for effect in orjson.loads(view.chain.body_json(number) or b"")["txEffects"]
    )
    without, found = items_of(still, plain, count), items_of(still, named, count)
    naming = Naming(ArtifactStore(None), view.chain)
    assert found == [naming.log_record(log) for log in without]
    assert any("contractName" in log for log in found)
    assert not any("contractName" in log for log in without)


def items_of(client: PushClient, name: str, count: int) -> list[Any]:
    """The first ``count`` things in the events of a subscription, and no more."""
    while sum(len(told["data"]) for told in client.told if told["subscription"] == name) < count:
        client.read()
    items = [item for told in client.told if told["subscription"] == name for item in told["data"]]
    assert len(items) == count
    return items


def test_a_block_in_several_messages_goes_on_behind_each_of_them(
    running: RunningServer, push: Push, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PIECE_BYTES", 1)
    with push_client(running.server.port) as client:
        client.subscribe("txs", **{"from": 1})
        hashes = [tx for number in range(1, view.chain.tip_number + 1) for tx in view.chain.tx_hashes(number) or []]
        whole = items_of(client, "txs", len(hashes))
        cursors = [told["cursor"] for told in client.told]
    assert any("." in cursor for cursor in cursors)
    for place in range(0, len(cursors), 7):
        with push_client(running.server.port) as again:
            again.subscribe("txs", **{"from": cursors[place]})
            assert items_of(again, "txs", len(whole) - place - 1) == whole[place + 1 :]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({}, "topic must be one of blocks, tips"),
        ({"topic": ["blocks"]}, "topic must be one of"),
        ({"topic": "blocks", "tag": "0x1"}, "it takes from"),
        ({"topic": "receipts"}, "txHashes must be an array of 1 to 100"),
        ({"topic": "receipts", "txHashes": ["0x1"]}, "txHashes"),
        ({"topic": "privateLogs", "tags": [f"0x{number:x}" for number in range(101)]}, "tags must be an array"),
        ({"topic": "publicLogs", "contractAddress": 7}, "contractAddress"),
        ({"topic": "blocks", "from": "7"}, "from: must be a block number, a cursor"),
        ({"topic": "blocks", "from": []}, "from: must be"),
        ({"topic": "blocks", "from": 4_000_000_000}, "from: must be a block from 0 to"),
        ({"topic": "blocks", "from": True}, "from: must be"),
        ({"topic": "blocks", "from": "1-0000000000000000"}, "not of this chain"),
        ({"topic": "blocks", "from": ["1-0000000000000000"] * 129}, "1 to 128 cursors"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(still: PushClient, wanted: dict[str, Any], words: str) -> None:
    error = still.call("subscribe", wanted)["error"]
    assert error["code"] == -32602
    assert words in error["message"]
    both = still.call("resume", {"subscriptions": [{"topic": "blocks"}, wanted]})["error"]
    assert both["code"] == -32602
    assert still.call("subscribe", ["blocks"])["result"]["subscription"] == "blocks"  # none of both was made


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"id":1}', -32600),
        ('{"id":{},"method":"subscribe"}', -32600),
        ('{"id":"%s","method":"subscribe"}' % ("i" * 200), -32600),
        ('{"id":1,"method":"node_getBlock"}', -32601),
        ('{"id":1,"method":"unsubscribe"}', -32602),
        ('{"id":1,"method":"resume","params":[7]}', -32602),
        ('{"id":1,"method":"resume","params":{"subscriptions":[],"form":7}}', -32602),
        ('{"id":1,"method":"unsubscribe","params":{"subscription":"1","all":true}}', -32602),
        ("[" * 5000, -32700),
    ],
)
def test_what_is_no_call_is_answered_with_an_error(still: PushClient, text: str, code: int) -> None:
    still.socket.send(text)
    assert still.read()["error"]["code"] == code
    assert still.subscribe("blocks")


def test_a_cursor_that_is_ahead_waits_for_the_chain(still: PushClient, push: Push) -> None:
    still.subscribe("blocks", **{"from": "4000000000-0123456789abcdef"})
    still.subscribe("reorgs")
    assert [each for each in still.told if each["event"] == "block"] == []


def test_subscriptions_are_bounded_for_a_client_and_for_all(running: RunningServer, push: Push) -> None:
    with push_client(running.server.port) as first, push_client(running.server.port) as second:
        for number in range(SUBSCRIPTIONS_MAX):
            first.subscribe("publicLogs", tag=hex(number))
        error = first.call("subscribe", ["blocks"])["error"]
        assert f"the limit is {SUBSCRIPTIONS_MAX} on a connection" in error["message"]
        wanted = [{"topic": "publicLogs", "tag": hex(number)} for number in range(21)]
        error = second.call("resume", {"subscriptions": wanted})["error"]
        assert "--rpc-max-event-subscriptions" in error["message"]
        assert second.call("resume", wanted[:20])["result"]
        assert push.subscription_count == 120
    wait_until(lambda: push.client_count == 0 and push.subscription_count == 0)
    assert running.server.budget.used_bytes == 0


def test_a_client_that_does_not_keep_up_is_told_where_it_was(running: RunningServer, push: Push) -> None:
    with running.connect(receive_buffer=2048) as stuck, push_client(running.server.port) as client:
        stuck.send(upgrade())
        assert stuck.read().status == 101
        stuck.send(frame(b'{"id":1,"method":"subscribe","params":["txs"]}'))
        client.subscribe("txs")
        wait_until(lambda: push.subscription_count == 2)
        said = 0
        while not push.dropped["slow"]:
            for number in range(said, said + 500):
                push.on_pending(number.to_bytes(32, "big"))
            said += 500
            client.wait_for("txs", lambda data, last=said - 1: int(data[-1]["txHash"], 16) == last)
        assert sum(len(told["data"]) for told in client.told) == said
        last_words, data = b"slow: too little was taken; go on from 106-", b""
        # A read may end anywhere, also where a message ends.
        while last_words not in data and (more := stuck.socket.recv(65536)):
            data = (data + more)[-200:]
        assert last_words in data
    wait_until(lambda: push.client_count == 0)
    assert running.server.budget.used_bytes == 0


def test_a_client_that_answers_no_ping_is_dropped(
    running: RunningServer, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = Push._beat

    async def beat_when_answered(push: Push) -> None:
        """A client that is only late here is not taken for a silent one."""
        while push._clients and not any(client.has_answered for client in push._clients):
            await asyncio.sleep(0.001)
        await beat(push)

    monkeypatch.setattr(Push, "_beat", beat_when_answered)
    monkeypatch.setattr(pushing, "HEARTBEAT_S", 0.05)
    with running.connect() as silent, push_client(running.server.port) as client:
        silent.send(upgrade())
        assert silent.read().status == 101
        client.subscribe("blocks")
        wait_until(lambda: push.dropped["silent"] == 1)
        assert client.read()["method"] == "position"
    wait_until(lambda: push.client_count == 0)


def test_a_stop_is_said(running: RunningServer, still: PushClient) -> None:
    still.subscribe("blocks")
    running.request_stop()
    assert still.close_code() == (1001, "the server stops; go on with another one")


# ---- who is refused ------------------------------------------------------------------------------------


def upgrade(*lines: str, key: str = "AAAAAAAAAAAAAAAAAAAAAA==", version: int = 13) -> bytes:
    own = [f"Sec-WebSocket-Key: {key}", f"Sec-WebSocket-Version: {version}"]
    head = ["GET /events HTTP/1.1", "Host: node", "Connection: Upgrade", "Upgrade: websocket", *own, *lines, "", ""]
    return "\r\n".join(head).encode()


def frame(payload: bytes, first: int = 0x81) -> bytes:
    """As a client sends it, with a mask that changes nothing."""
    size = bytes((0x80 | len(payload),)) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes((first,)) + size + bytes(4) + payload


def read_frames(connection: Connection, count: int) -> list[bytes]:
    """Messages of the server."""
    messages = []
    for _ in range(count):
        first, size = connection.read_bytes(2)
        assert first == 0x81
        if size == 126:
            size = int.from_bytes(connection.read_bytes(2), "big")
        messages.append(connection.read_bytes(size))
    return messages


def test_a_handshake_that_is_none_is_refused_and_the_connection_kept(running: RunningServer, push: Push) -> None:
    with running.connect() as connection:
        answer = connection.ask(upgrade(version=8))
        assert (answer.status, answer.headers["sec-websocket-version"]) == (426, "13")
        assert connection.ask(upgrade(key="short")).status == 400
        assert connection.ask(request("GET", "/livez")).status == 200
        answer = connection.ask(upgrade("Sec-WebSocket-Extensions: permessage-deflate"))
        assert (answer.status, answer.headers["connection"]) == (101, "Upgrade")
        assert answer.headers["sec-websocket-accept"] == "ICX+Yqv66kxgM0FcWaLWlFLwTAI="
        assert "sec-websocket-extensions" not in answer.headers


@pytest.mark.parametrize(
    ("handshake", "reason"),
    [
        (upgrade().replace(b"HTTP/1.1", b"HTTP/1.0"), b"must be HTTP/1.1"),
        (upgrade().replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"n: Up", b"n: keep-alive, Up"), b"must be HTTP/1.1"),
        (upgrade().replace(b"Connection: Upgrade", b"Connection: close, Upgrade"), b"Connection: close"),
        (upgrade("Connection: close"), b"Connection: close"),
        (upgrade().replace(b"Connection: Upgrade", b"Connection: keep-alive"), b"Connection: Upgrade"),
        (upgrade().replace(b"Connection: Upgrade\r\n", b""), b"Connection: Upgrade"),
        (upgrade().replace(b"Connection: Upgrade", b"Connection: Upgraded"), b"Connection: Upgrade"),
        (upgrade("Content-Length: 2") + b"{}", b"a body"),
        (upgrade("Transfer-Encoding: chunked") + b"0\r\n\r\n", b"a body"),
    ],
)
def test_a_request_that_may_not_change_the_protocol_is_refused(
    running: RunningServer, push: Push, handshake: bytes, reason: bytes
) -> None:
    with running.connect() as connection:
        answer = connection.ask(handshake)
        assert answer.status == 400
        assert reason in answer.body


def test_the_words_of_the_handshake_may_be_parts_of_lists(running: RunningServer, push: Push) -> None:
    with running.connect() as connection:
        lists = upgrade().replace(b": Upgrade", b": keep-alive, UPGRADE").replace(b": websocket", b": other, WebSocket")
        assert connection.ask(lists).status == 101


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_bytes_that_arrive_with_the_handshake_are_the_first_frames(
    running: RunningServer, push: Push, pieces: int
) -> None:
    calls = [orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "none"}) for number in range(20)]
    data = request("GET", "/livez") + upgrade() + b"".join(map(frame, calls))
    size = len(data) // pieces + 1
    with running.connect() as connection:
        for start in range(0, len(data), size):
            connection.send(data[start : start + size])
        assert connection.read().status == 200
        assert connection.read().status == 101
        answers = read_frames(connection, len(calls))
    assert [orjson.loads(answer)["id"] for answer in answers] == list(range(20))


def test_what_follows_a_handshake_that_is_refused_is_the_next_request(running: RunningServer, push: Push) -> None:
    with running.connect() as connection:
        connection.send(upgrade(version=8) + request("GET", "/livez") + upgrade(key="short") + request("GET", "/none"))
        assert [connection.read().status for _ in range(4)] == [426, 200, 400, 404]


def test_clients_of_both_kinds_share_one_limit(running: RunningServer, push: Push) -> None:
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(push_client(running.server.port))
        with running.connect() as connection:
            assert connection.ask(upgrade()).status == 503
            assert connection.ask(request("GET", "/events")).status == 503


def test_keys_budgets_and_origins_hold_for_websockets_too(tmp_path: Path) -> None:
    rules = tmp_path / "limits.toml"
    digest = hashlib.sha256(b"partner").hexdigest()
    rules.write_text(
        'requires-key = true\n[cors]\norigins = ["https://wallet.example"]\n[keys]\nin-path = true\n'
        f'[keys.partner]\nsha256 = "{digest}"\nrate = 0.001\nburst = 60\n'
    )
    with local_network("--seed=test", f"--rpc-limits={rules}", in_process=True) as network:
        port = port_of(network)
        for options, status in (({}, 401), ({"path": "/v1/partner/events", "origin": "https://other.example"}, 403)):
            with pytest.raises(InvalidStatus) as refused, push_client(port, **options):
                pass
            assert refused.value.response.status_code == status
        with push_client(port, path="/v1/partner/events", origin="https://wallet.example") as client:
            client.subscribe("tips")
            answers = [client.call("unsubscribe", ["blocks"]) for _ in range(61)]
            error = answers[-1]["error"]
            assert (error["code"], error["data"]["code"]) == (-32005, "RATE_LIMITED")
            assert answers[0]["result"] is False


# ---- frames --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(b"{}", 0x82), 1003),
        (frame(b"\xff\xfe"), 1007),
        (frame(b"{}", 0xC1), 1002),  # compressed, which was not agreed on
        (frame(b"{}", 0x83), 1002),
        (frame(b"x", 0x80), 1002),
        (b"\x81\x02{}", 1002),  # not masked
        (frame(b"x" * 16_000, 0x01) + frame(b"x" * 1000, 0x80), 1009),
        (b"\x81\xff" + (1 << 40).to_bytes(8, "big") + bytes(4) + b"x" * 20_000, 1009),
        (frame(b"x", 0x01) + frame(b"", 0x00) * 70, 1008),
        (frame(b"", 0x89) * 600, 1008),
        (frame(b"x" * 126, 0x89), 1002),
        (frame(b"\x03", 0x88), 1002),
    ],
)
def test_frames_that_may_not_be_end_the_connection_with_a_code(
    running: RunningServer, push: Push, data: bytes, code: int
) -> None:
    with running.connect() as connection:
        connection.send(upgrade())
        assert connection.read().status == 101
        connection.send(data)
        read = b""
        while more := connection.socket.recv(65536):
            read += more
        assert code.to_bytes(2, "big") in read[-130:], read[-130:]
    wait_until(lambda: push.client_count == 0)
    assert running.server.budget.used_bytes == 0


def test_no_frames_of_a_seeded_generator_disturb_anybody(
    running: RunningServer, push: Push, still: PushClient, caplog: pytest.LogCaptureFixture
) -> None:
    seeded = random.Random(7)
    still.subscribe("txs")
    calls = [b'{"id":1,"method":"subscribe","params":["%b"]}' % topic.encode() for topic in feeds.TOPICS]
    calls += [b'{"method":"resume","params":[{"topic":"blocks","from":1}]}', b"{}", b"\xe2\x82", b""]
    for _ in range(200 * (50 if os.environ.get("FASTNODE_LONG") else 1)):
        with running.connect() as connection:
            connection.send(upgrade())
            assert connection.read().status == 101
            data = b"".join(hostile(seeded, seeded.choice(calls)) for _ in range(seeded.randint(1, 12)))
            with suppress(OSError):
                for start in range(0, len(data), step := seeded.choice([1, 7, 100, 5000])):
                    connection.send(data[start : start + step])
                    if start > 40 * step:
                        break
            if seeded.random() < 0.5:
                connection.reset()
    push.on_pending(bytes(32))
    still.wait_for("txs", lambda data: data[0]["txHash"] == "0x" + 64 * "0")
    still.close()
    wait_until(lambda: push.client_count == 0)
    assert running.server.budget.used_bytes == 0
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def hostile(seeded: random.Random, payload: bytes) -> bytes:
    """A frame that is right, or wrong somewhere."""
    made = bytearray(
        frame(payload, seeded.choice([0x81, 0x81, 0x81, 0x01, 0x80, 0x00, 0x89, 0x8A, 0x88, 0x82, 0xC1, 0x8F]))
    )
    for _ in range(seeded.choice([0, 0, 0, 1, 3])):
        made[seeded.randrange(len(made))] = seeded.randrange(256)
    return bytes(made[: seeded.randrange(len(made))] if seeded.random() < 0.1 else made)
