"""Handing simulations to another node: a real HTTP server that answers well, badly and not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.http_stand_in import HttpStandIn, answer
from tests.mempool.recorded import hashes, recorded_tx, recordings
from tests.ports import free_port

from fastnode.errors import Refused
from fastnode.mempool import simulation
from fastnode.mempool.simulation import UpstreamSimulator

FRESH = hashes("fresh")[0]


class Upstream(HttpStandIn):
    """Answers every POST with ``status`` and ``body``; keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b"{}"
        self.asked: list[dict[str, Any]] = []
        self.hold: threading.Event | None = None
        self.arrived = threading.Semaphore(0)
        super().__init__()

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.asked.append(json.loads(body))
        self.arrived.release()
        if self.hold is not None:
            self.hold.wait(20)
        answer(handler, self.body, self.status)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture
def simulate(upstream: Upstream) -> Iterator[Callable[..., bytes]]:
    simulator = UpstreamSimulator(upstream.url, timeout_s=20, calls_max=1)
    yield lambda **options: simulator.simulate(recorded_tx(FRESH), **({"skip_fee_enforcement": False} | options))
    simulator.close()


def test_the_question_is_passed_on_and_the_answer_back(upstream: Upstream, simulate: Callable[..., bytes]) -> None:
    upstream.body = b'{"jsonrpc":"2.0","id":0,"result":{"gasUsed":{"totalGas":{"daGas":1,"l2Gas":2}}}}'
    assert simulate(skip_fee_enforcement=True) == b'{"gasUsed":{"totalGas":{"daGas":1,"l2Gas":2}}}'
    (question,) = upstream.asked
    assert question["method"] == "node_simulatePublicCalls"
    assert question["params"] == [recordings()[FRESH]["tx"], True]


@pytest.mark.parametrize("status", [200, 400])
def test_their_error_is_the_answer_under_our_code(
    status: int, upstream: Upstream, simulate: Callable[..., bytes]
) -> None:
    upstream.status = status
    upstream.body = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32702,"message":"Transaction failed","data":{"a":1}}}'
    with pytest.raises(Refused) as caught:
        simulate()
    assert (caught.value.message, caught.value.data) == ("Transaction failed", {"a": 1})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "its answer is not JSON"),
        (b"[]", "left node_simulatePublicCalls without an answer"),
        (b"", "its answer is not JSON"),
        (b'{"id":0}', "no result"),
        (b'{"id":0,"error":"x"}', "x"),
        (b'{"id":0,"error":{"message":5}}', '"message":5'),
    ],
)
def test_nonsense_is_an_error(body: bytes, message: str, upstream: Upstream, simulate: Callable[..., bytes]) -> None:
    upstream.body = body
    with pytest.raises(Refused, match=message):
        simulate()


def test_a_huge_answer_is_not_read(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_ANSWER_BYTES_MAX", 1000)
    simulator = UpstreamSimulator(upstream.url)
    upstream.body = b'{"id":0,"result":"' + b"x" * 1000 + b'"}'
    with pytest.raises(Refused, match="exceeds 1000 bytes"):
        simulator.simulate(recorded_tx(FRESH), skip_fee_enforcement=False)


def test_a_refused_connection_is_an_error() -> None:
    port = free_port()
    with pytest.raises(Refused, match="cannot be reached"):
        UpstreamSimulator(f"http://127.0.0.1:{port}").simulate(recorded_tx(FRESH), skip_fee_enforcement=False)


def test_a_silent_node_is_not_waited_for_forever(upstream: Upstream) -> None:
    upstream.hold = threading.Event()
    simulator = UpstreamSimulator(upstream.url, timeout_s=0.2)
    with pytest.raises(Refused, match="cannot be reached"):
        simulator.simulate(recorded_tx(FRESH), skip_fee_enforcement=False)
    upstream.hold.set()


def test_only_so_many_are_asked_at_a_time(upstream: Upstream, simulate: Callable[..., bytes]) -> None:
    upstream.hold = threading.Event()
    upstream.body = b'{"id":0,"result":1}'
    first = threading.Thread(target=simulate)
    first.start()
    assert upstream.arrived.acquire(timeout=60)
    with pytest.raises(Refused, match="1 public simulations are running"):
        simulate()
    upstream.hold.set()
    first.join()
    assert simulate() == b"1"
