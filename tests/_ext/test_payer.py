"""Payment for the calls that the reader of simple requests answers."""

from __future__ import annotations

from typing import Any

from tests._ext.test_simple_request import ASKED, everything_read, make_reader
from tests.serving.sockets import post

from fastnode.kernels import payer

ANSWER = b'HEAD 35 END {"jsonrpc":"2.0","id":1,"result":7}'
NUMBER = b'{"jsonrpc":"2.0","id":1,"method":"node_getBlockNumber"}'


class Client:
    """May spend ``budget``; a call costs 1."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.asked: list[str] = []

    def pay(self, method: str) -> bool:
        self.asked.append(method)
        if self.budget < 1.0:
            return False
        self.budget -= 1.0
        return True


class Clients:
    """By the header ``Who``; those who name nobody are left to the strict path."""

    def __init__(self, budget: float = 100.0) -> None:
        self.version = 1
        self.heads: list[bytes] = []
        self.clients = {b"alice": Client(budget), b"bob": Client(budget)}

    def identify(self, head: bytes) -> tuple[Client, bytes] | None:
        self.heads.append(head)
        for name, client in self.clients.items():
            if b"Who: " + name in head:
                return client, head
        return None


def paid_reader(clients: Clients, left_out: frozenset[str] = frozenset(), body_bytes_max: int = 1000) -> Any:
    reader = make_reader()
    reader.payer = payer.Payer(clients.identify, clients, left_out, body_bytes_max)
    return reader


def test_each_call_is_charged_to_who_asked() -> None:
    clients = Clients()
    data = post(ASKED, "Who: alice") * 2 + post(ASKED, "Who: bob")
    answers, position, count, *_ = everything_read(paid_reader(clients), data)
    assert (answers, position, count) == (ANSWER * 3, len(data), 3)
    assert [client.budget for client in clients.clients.values()] == [98.0, 99.0]


def test_a_request_of_nobody_is_left_as_it_came() -> None:
    known = post(ASKED, "Who: bob")
    answers, position, count, *_ = everything_read(paid_reader(Clients()), known + post(ASKED, "Who: carol"))
    assert (answers, position, count) == (ANSWER, len(known), 1)


def test_a_call_that_its_client_may_not_make_is_left_and_not_charged() -> None:
    clients = Clients(budget=1.0)
    asked = post(ASKED, "Who: alice")
    answers, position, *_ = everything_read(paid_reader(clients), asked * 3)
    assert (answers, position) == (ANSWER, len(asked))
    assert clients.clients[b"alice"].budget == 0.0


def test_a_batch_is_charged_call_by_call_as_it_is_answered() -> None:
    """Its last call has no budget left, so it is handed over with two outcomes, to those who refuse that one call."""
    clients = Clients(budget=2.0)
    reader = paid_reader(clients)
    assert everything_read(reader, post(b"[%b,%b,%b]" % (ASKED, NUMBER, ASKED), "Who: alice"))[:3] == (None, 0, 0)
    client = clients.clients[b"alice"]
    assert client.asked == ["node_getVersion", "node_getBlockNumber", "node_getVersion"]
    assert client.budget == 0.0
    assert reader.payer.client is client
    assert [reader.outcomes.is_charged(index) for index in range(3)] == [True, True, False]
    assert reader.outcomes.next_pending() == 2


def test_a_request_that_is_left_to_others_has_cost_nothing() -> None:
    clients = Clients()
    reader = paid_reader(clients)
    broken = b'{"id":1,"method":"node_getVersion","params":[nul]}'
    for body in (b"[%b,%b]" % (ASKED, broken), broken):
        assert everything_read(reader, post(body, "Who: alice")) == (None, 0, 0, 0)
    assert clients.clients[b"alice"].asked == []


def test_a_method_that_is_left_out_is_neither_answered_nor_charged() -> None:
    clients = Clients()
    reader = paid_reader(clients, frozenset({"node_getVersion"}))
    assert everything_read(reader, post(ASKED, "Who: alice"))[:3] == (None, 0, 0)
    assert clients.clients[b"alice"].asked == []


def test_a_long_body_is_left_and_not_charged() -> None:
    clients = Clients()
    reader = paid_reader(clients, body_bytes_max=len(ASKED))
    data = post(ASKED, "Who: alice")
    answers, position, *_ = everything_read(reader, data + post(ASKED + b" ", "Who: alice"))
    assert (answers, position) == (ANSWER, len(data))
    assert clients.clients[b"alice"].asked == ["node_getVersion"]


def test_who_sent_a_head_is_asked_once_until_the_rules_change() -> None:
    clients = Clients()
    reader = paid_reader(clients)
    data = post(ASKED, "Who: alice")
    for _ in range(5):
        assert everything_read(reader, data)[0] == ANSWER
    assert len(clients.heads) == 1
    clients.version += 1
    clients.clients[b"alice"] = Client(0.0)
    assert everything_read(reader, data)[0] is None
    assert len(clients.heads) == 2


def test_new_rules_hold_for_the_last_head_too_when_another_was_left_meanwhile() -> None:
    clients = Clients()
    reader, asked = paid_reader(clients), post(ASKED, "Who: alice")
    everything_read(reader, asked)
    clients.version += 1
    clients.clients = {b"alice": Client(5.0)}
    everything_read(reader, post(ASKED, "Who: carol"))
    everything_read(reader, asked)
    assert clients.clients[b"alice"].budget == 4.0


def test_only_some_heads_of_a_connection_are_remembered() -> None:
    clients = Clients(budget=2000.0)
    reader = paid_reader(clients)
    for number in range(1000):
        assert everything_read(reader, post(ASKED, "Who: alice", f"X-Number: {number}"))[0] == ANSWER
    assert len(clients.heads) == 1000
    assert everything_read(reader, post(ASKED, "Who: alice", "X-Number: 999"))[0] == ANSWER
    assert len(clients.heads) == 1000
    assert everything_read(reader, post(ASKED, "Who: alice", "X-Number: 1"))[0] == ANSWER
    assert len(clients.heads) == 1001
