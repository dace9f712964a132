"""GET /events: what clients are told of a chain that grows, loses blocks and has transactions."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tests.local_network.local_chain import for_chain
from tests.mempool.made import hash_of, made_txs
from tests.serving.event_client import EventClient, event_client, is_gone
from tests.serving.sockets import Connection, RunningServer, port_of, request, wait_until

from fastnode.serving import event_streams, events
from fastnode.serving.event_streams import QUERY_BYTES_MAX, EventStreams
from fastnode.testing import RunningNetwork, local_network
from fastnode.view import View


def numbers(client: EventClient, name: str = "block") -> list[int]:
    return [told.data["number"] for told in client.told if told.name == name]


# ---- what is told ----------------------------------------------------------------------------------


def test_a_client_is_told_where_the_tips_are_and_then_of_each_block(network: RunningNetwork) -> None:
    with event_client(port_of(network)) as client:
        assert "Content-Type: text/event-stream" in client.head
        tips = client.wait_for("tips")
        assert tips.data == network.call("node_getL2Tips")
        assert tips.at.startswith(f"{network.block_number}-")
        number = network.mine(2)
        client.wait_for("block", lambda block: block["number"] == number)
        assert numbers(client) == [number - 1, number]
        told = client.told[-1].data
        header = network.call("node_getBlockHeader", number)
        assert told["hash"] == network.call("node_getBlock", number)["hash"]
        assert told["slotNumber"] == int(header["globalVariables"]["slotNumber"], 16)
        assert told["timestamp"] == int(header["globalVariables"]["timestamp"])
        assert client.wait_for("tips").data["proposed"] == {"number": number, "hash": told["hash"]}


def test_a_transaction_is_told_when_it_is_pending_and_when_it_is_in_a_block(network: RunningNetwork) -> None:
    header, version = network.call("node_getBlockHeader", "latest"), network.call("node_getVersion")
    tx = for_chain(next(iter(made_txs(1))), header, version)
    network.call("evm_setAutomine", False)
    with event_client(port_of(network), "tx") as client:
        network.call("node_sendTx", tx)
        assert client.wait_for("tx").data == {"txHash": hash_of(tx), "status": "pending"}
        number = network.mine()
        told = client.wait_for("tx")
        assert (told.data["txHash"], told.data["blockNumber"]) == (hash_of(tx), number)
        assert told.data["executionResult"] == "success"
        assert told.at.startswith(f"{number}-")
    network.call("evm_setAutomine", True)


def test_a_client_is_told_only_of_the_types_that_it_asks_for(network: RunningNetwork) -> None:
    with event_client(port_of(network), "tips") as tips, event_client(port_of(network), "block,tx") as blocks:
        number = network.mine(2)
        tips.wait_for("tips", lambda data: data["proposed"]["number"] == number)
        blocks.wait_for("block", lambda block: block["number"] == number)
        assert {told.name for told in tips.told} == {"tips"}
        assert {told.name for told in blocks.told} == {"block"}


def test_blocks_that_are_taken_back_are_named_before_those_in_their_place(network: RunningNetwork) -> None:
    network.mine(3)
    with event_client(port_of(network), "block") as client:
        tip = network.mine()
        network.call("fastnode_reorg", 2)
        assert client.wait_for("pruned").data == {"fromBlock": tip - 1, "toBlock": tip}
        client.wait_for("block", lambda block: block["number"] == tip)
        assert numbers(client) == [tip, tip - 1, tip]


# ---- going on where one was ------------------------------------------------------------------------


def test_a_client_that_comes_again_is_told_what_it_has_missed(network: RunningNetwork) -> None:
    with event_client(port_of(network), "block") as client:
        number = network.mine()
        client.wait_for("block")
    network.mine(3)
    with event_client(port_of(network), "block", client.id) as again:
        again.wait_for("block", lambda block: block["number"] == number + 3)
        assert numbers(again) == [number + 1, number + 2, number + 3]
        assert again.told_within(0.1) == []


def test_a_client_that_was_at_a_block_taken_back_is_told_from_where_the_chain_went_on(network: RunningNetwork) -> None:
    with event_client(port_of(network), "block") as stays:
        tip = network.mine(2)
        was = stays.wait_for("block", lambda block: block["number"] == tip)
        network.call("fastnode_reorg", 2)
        stays.wait_for("block", lambda block: block["number"] == tip)
        with event_client(port_of(network), "block", was.at) as again:
            assert again.wait_for("pruned").data == {"fromBlock": tip - 1, "toBlock": tip}
            again.wait_for("block", lambda block: block["number"] == tip)
            assert [told.data for told in again.told[1:]] == [told.data for told in stays.told[-2:]]
    # Nobody is there who remembers it: what is final is known to stand.
    with event_client(port_of(network), "block", was.at) as again:
        finalized = network.call("node_getL2Tips")["finalized"]["block"]["number"]
        assert again.wait_for("pruned").data == {"fromBlock": finalized + 1, "toBlock": tip}
        again.wait_for("block", lambda block: block["number"] == tip)
        assert numbers(again) == list(range(finalized + 1, tip + 1))


@pytest.mark.parametrize("last_id", ["", "nonsense", "7", "1-0000000000000000", "4000000000-0123456789abcdef"])
def test_an_id_that_says_nothing_is_that_of_a_client_that_was_never_there(
    network: RunningNetwork, last_id: str
) -> None:
    with event_client(port_of(network), "block", last_id) as client:
        number = network.mine()
        assert client.wait_for("block").data["number"] == number
        assert len(client.told) == 1


def test_more_blocks_than_are_told_one_by_one_are_a_gap(
    network: RunningNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BLOCKS_MAX", 2)
    with event_client(port_of(network), "tx,block") as client:
        client.read()
        at, number = client.id, network.block_number
    network.mine(5)
    with event_client(port_of(network), "block", at) as again:
        assert again.wait_for("gap").data == {"fromBlock": number + 1, "toBlock": number + 3}
        again.wait_for("block", lambda block: block["number"] == number + 5)
        assert numbers(again) == [number + 4, number + 5]


def test_heartbeats_say_where_a_client_is_to_which_nothing_is_told(
    network: RunningNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "HEARTBEAT_S", 0.1)
    with event_client(port_of(network), "tx") as client:
        number = network.mine()
        while not client.id.startswith(f"{number}-"):
            assert client.read() is None
        assert client.heartbeats > 0


# ---- who is dropped, and who is refused --------------------------------------------------------------


@pytest.fixture
def streams(running: RunningServer, view: View) -> EventStreams:
    """A chain that stands still; transactions become pending when a test says so."""

    async def make() -> EventStreams:
        made = EventStreams(lambda: view, clients_max=10, budget=running.server.budget, traffic=running.server.traffic)
        running.server.set_events(made)
        return made

    return running.run(make())


def test_a_client_that_does_not_keep_up_is_dropped_and_others_do_not_notice(
    running: RunningServer, streams: EventStreams
) -> None:
    with (
        running.connect(receive_buffer=2048) as stuck,
        event_client(running.server.port, "tx") as client,
    ):
        stuck.send(request("GET", "/events?types=tx"))
        wait_until(lambda: streams.client_count == 2)
        said = 0
        while not streams.dropped["slow"]:
            for number in range(said, said + 500):
                streams.on_pending(number.to_bytes(32, "big"))
            said += 500
            client.wait_for("tx", lambda data, last=said - 1: int(data["txHash"], 16) == last)
        assert [int(told.data["txHash"], 16) for told in client.told] == [*range(said)]
    wait_until(lambda: streams.client_count == 0)
    assert running.server.budget.used_bytes == 0
    assert streams.sent["tx"] > said


def test_a_client_that_takes_nothing_between_heartbeats_is_dropped(
    running: RunningServer, streams: EventStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "HEARTBEAT_S", 0.1)
    with (
        running.connect(receive_buffer=2048) as stuck,
        event_client(running.server.port, "tips") as client,
    ):
        stuck.send(request("GET", "/events?types=tx"))
        wait_until(lambda: streams.client_count == 2)
        for number in range(300):  # less than is too much
            streams.on_pending(number.to_bytes(32, "big"))
        while not streams.dropped["stuck"]:
            client.read()
        while client.heartbeats < 2:  # those that were said meanwhile
            client.read()
    wait_until(lambda: streams.client_count == 0)


@pytest.mark.parametrize("types", ["", "blocks", "block,", "block;tx", "block,tips,tx,all"])
def test_a_type_that_there_is_not_is_refused(network: RunningNetwork, types: str) -> None:
    with Connection(port_of(network)) as connection:
        answer = connection.ask(request("GET", f"/events?types={types}"))
        assert (answer.status, answer.headers["connection"]) == (400, "keep-alive")
        assert b"block,tips,tx" in answer.body


def test_more_parameters_than_there_can_be_are_not_taken_apart(network: RunningNetwork) -> None:
    with Connection(port_of(network)) as connection:
        target = "/events?types=block" + "&a" * QUERY_BYTES_MAX
        answer = connection.ask(request("GET", target))
        assert (answer.status, answer.headers["connection"]) == (400, "keep-alive")
        assert str(QUERY_BYTES_MAX).encode() in answer.body
        assert connection.ask(request("GET", "/livez")).status == 200


def test_other_verbs_than_get_are_refused(network: RunningNetwork) -> None:
    with Connection(port_of(network)) as connection:
        answer = connection.ask(request("POST", "/events"))
        assert (answer.status, answer.headers["allow"]) == (405, "GET")


def test_requests_behind_the_one_for_events_are_not_answered(network: RunningNetwork) -> None:
    with Connection(port_of(network)) as connection:
        connection.send(request("GET", "/status") + request("GET", "/events?types=block") + request("GET", "/livez"))
        assert connection.read().status == 200
        assert b"text/event-stream" in connection._read_until(b"\r\n\r\n")
        assert connection._read_until(b"\n\n").startswith(b"retry: ")
        network.mine()
        assert connection._read_until(b"\n\n").startswith(b"id: ")


def test_clients_that_have_gone_are_forgotten_and_their_memory_is_given_back() -> None:
    with local_network("--seed=test", "--rpc-max-event-clients=2", in_process=True) as network:
        port = port_of(network)
        with event_client(port), event_client(port) as second:
            with Connection(port) as third:
                answer = third.ask(request("GET", "/events"))
                assert (answer.status, answer.headers["retry-after"]) == (503, "10")
            second.connection.reset()

            def has_place() -> bool:
                with event_client(port) as client:
                    return " 200 " in client.head

            wait_until(has_place)


def test_a_stop_ends_the_events() -> None:
    with local_network("--seed=test", in_process=True) as network:
        client = EventClient(port_of(network))
        client.wait_for("tips")
    assert is_gone(client.connection.socket)
    client.close()


def test_keys_and_budgets_hold_for_events_too(tmp_path: Path) -> None:
    rules = tmp_path / "limits.toml"
    digest = hashlib.sha256(b"partner").hexdigest()
    rules.write_text(
        f'requires-key = true\n[keys]\nin-path = true\n[keys.partner]\nsha256 = "{digest}"\nrate = 0.001\nburst = 500\n'
    )
    with local_network("--seed=test", f"--rpc-limits={rules}", in_process=True) as network:
        port = port_of(network)
        with Connection(port) as connection:
            assert connection.ask(request("GET", "/events")).status == 401
        with event_client(port, "tips", None, "x-api-key: partner") as client:
            assert client.wait_for("tips").data["proposed"]["number"] > 0
        with Connection(port) as connection:  # as a page has to, whose EventSource sends no headers
            connection.send(request("GET", "/v1/partner/events?types=tips"))
            assert b"text/event-stream" in connection._read_until(b"\r\n\r\n")
