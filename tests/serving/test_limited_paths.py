"""Budgets on the fast path and on the strict path: the same answers, and the same left in every bucket."""

from __future__ import annotations

import asyncio
import hashlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.effort import tries
from tests.serving import two_paths
from tests.serving.sockets import post
from tests.serving.two_paths import METHODS, Side, random_pieces

from fastnode.http.connection import HttpConnection
from fastnode.http.messages import ResponseWriter
from fastnode.jsonrpc import rate_limits
from fastnode.jsonrpc.methods import MethodTable
from fastnode.jsonrpc.rate_limit_rules import RateLimitRules, read_rate_limit_rules
from fastnode.jsonrpc.rate_limits import BYTES_PER_COST, Client, RateLimits
from fastnode.serving.rate_limit_gate import ClientsRequests, RateLimitGate
from fastnode.view import View

RANDOM_INPUTS = tries(1_500, 30_000)
INPUTS_PER_PAIR = 300
RULES = f"""
[address]
rate = 40
burst = 60
[keys]
in-path = true
[keys.partner]
sha256 = "{hashlib.sha256(b"partner").hexdigest()}"
rate = 20
burst = 50
deny = ["node_getL2Tips"]
[costs]
node_getVersion = 3
test_inThread = 7
test_fail = 0
[methods]
deny = ["node_getNodeInfo"]
[proxies]
trusted = ["10.0.0.1"]
"""
SENDERS = [
    b"x-api-key: partner",
    b"X-API-KEY:partner",
    b"x-api-key: wrong",
    b"x-aztec-api-key: partner",
    b"Authorization: Bearer partner",
    b"X-Forwarded-For: 1.2.3.4, 10.0.0.1",
    b"x-forwarded-for: nonsense",
    b"x-api-key : partner",
    b"x-api-key: partner\r\nx-api-key: partner",
    b"x-api-key-id: 5",
    b'X: "method":"node_getVersion"',
]


class LimitedSide(Side):
    """A server without a socket whose clients have budgets; ``pays`` False: the strict path for everything."""

    def __init__(self, view: View | None, rules: RateLimitRules, *, pays: bool) -> None:
        super().__init__(view, ResponseWriter(65.0), MethodTable(METHODS), is_fast=True, omits_absent=False)
        self.clients = RateLimits(rules, clock=self.clock.time)
        self.gate = RateLimitGate(self.application, self.clients)
        self.identified = 0
        self._identify = self.gate._identify
        self.gate._identify = self._count if pays else lambda peer, head: None  # type: ignore[method-assign]

    def _count(self, peer: str, head: bytes) -> tuple[Client, bytes] | None:
        found = self._identify(peer, head)
        self.identified += found is not None
        return found

    def connect(self) -> HttpConnection:
        assert self._fast is not None
        loop: Any = self.clock
        super().connect()  # makes the wire
        requests, payer = ClientsRequests(self.gate, "10.0.0.1"), self.gate.payer_at("10.0.0.1")
        self.connection = HttpConnection(self, loop, None, application=requests, scanner=self._fast, payer=payer)
        self.wire.protocol = self.connection
        self.connection.connection_made(self.wire)  # type: ignore[arg-type]
        return self.connection

    def left(self) -> dict[str, float]:
        """Content of the buckets that are not full."""
        clients = [*self.clients._addresses.values(), *(client for _, client in self.clients._keys.values())]
        left = {}
        for client in clients:
            assert client._bucket is not None
            client._bucket.take(0, self.clock.now)
            if client._bucket.tokens < client._bucket.burst:
                left[client.name] = round(client._bucket.tokens, 6)
        return left

    def used(self) -> dict[str, tuple[int, float, int]]:
        return {key: (usage.calls, usage.cost, usage.refused) for key, usage in self.clients.usage.items()}

    def all_seen(self) -> dict[str, Any]:
        return self.seen() | {"left": self.left(), "used": self.used()}


class LimitedPaths:
    def __init__(self, view: View | None, rules: RateLimitRules) -> None:
        while True:  # until both have the same Date
            self.fast, self.strict = (LimitedSide(view, rules, pays=pays) for pays in (True, False))
            if self.fast.writer.keeping == self.strict.writer.keeping:
                break

    async def compare(self, pieces: list[bytes]) -> bytes:
        sides = (self.fast, self.strict)
        for side in sides:
            side.connect()
        for piece in pieces:
            for side in sides:
                side.clock.now += 0.25
                side.connection.data_received(piece)
                await side.settle()
                while side.wire.waiting:
                    side.wire.take()
                    await side.settle()
            assert self.fast.all_seen() == self.strict.all_seen(), pieces
            if self.strict.wire.is_closed:
                break
        for side in sides:
            side.connection.connection_lost(None)
        return bytes(self.strict.wire.sent)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RateLimitRules:
    monkeypatch.setattr(rate_limits, "REFUSAL_DELAY_S", 0)
    (tmp_path / "limits.toml").write_text(RULES)
    return read_rate_limit_rules(tmp_path / "limits.toml", [method.name for method in METHODS])


TARGETS = [
    b"/v1/partner",
    b"/v1/partner/",
    b"/v1/wrong",
    b"/v1/",
    b"/v1/part%6eer",
    b"/v1/partner/x",
    b"/v1/partner?x=1",
]


def with_senders(rng: random.Random, pieces: list[bytes]) -> list[bytes]:
    if rng.random() < 0.3:
        return pieces
    if rng.random() < 0.3:
        line = b"POST " + rng.choice(TARGETS) + b" HTTP/1.1"
        return [piece.replace(b"POST / HTTP/1.1", line, rng.choice([1, -1])) for piece in pieces]
    return [piece.replace(b"Host: a", b"Host: a\r\n" + rng.choice(SENDERS), rng.choice([1, -1])) for piece in pieces]


def test_both_paths_charge_the_same_for_random_streams(
    view: View, rules: RateLimitRules, loop_runner: asyncio.Runner
) -> None:
    identified = 0

    async def compare(seed: int) -> None:
        nonlocal identified
        paths = LimitedPaths(view, rules)
        rng = random.Random(seed)
        for _ in range(INPUTS_PER_PAIR):
            await paths.compare(with_senders(rng, random_pieces(rng)))
        identified += paths.fast.identified

    for seed in range(RANDOM_INPUTS // INPUTS_PER_PAIR):
        loop_runner.run(compare(seed))
    assert identified > RANDOM_INPUTS / 10


CHEAP = b'{"method":"node_getBlockNumber","params":[],"id":1}'


@pytest.mark.parametrize(
    "stream",
    [
        [post(CHEAP)],
        [post(CHEAP) * 3],
        [post(CHEAP)[:30], post(CHEAP)[30:]],
        [post(CHEAP)[:-5], post(CHEAP)[-5:] + post(CHEAP)],
        [post(b'{"params":["\\"method\\":\\"test_fail\\""],"method":"node_getVersion","id":1}')],
        [post(b'{"params":[{"method":"test_fail"}],"method":"node_getVersion","id":1}')],
        [post(b'{"method":"test_fail","\\u006dethod":"node_getVersion","id":1}')],
        [post(b'{"\\u006dethod":"node_getVersion","id":1}', 'X: "method":"test_fail"')],
        [post(b'{"method":"test_inThread","params":[3],"id":1}') + b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"],
        [post(b'{"method":"node_getL2Tips","id":1}', "x-api-key: partner")],
        [post(b'{"method":"node_getNodeInfo","id":1}')],
        [post(b'{"method":"node_getVersion"}')],
        [post(b"[%b]" % b",".join([CHEAP] * 4))],
        [post(b"[%b]" % CHEAP, target="/v1/partner")],
        [post(b'[%b,{"method":"node_getL2Tips","id":1}]' % CHEAP, "x-api-key: partner")],
        [post(b'[%b,{"method":"test_fail","params":[],"id":1},%b]' % (CHEAP, CHEAP))],
        [post(b'[{"method":"test_inThread","params":[3],"id":1},{"method":"node_getVersion","id":2}]') * 5],
        [post(b'{"method":"node_getVersion","params":[1}],"id":1}'), post(CHEAP)],
        [post(CHEAP, "x-api-key: partner") + post(CHEAP) + post(CHEAP, "x-aztec-api-key: partner")],
        [b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n"],
    ],
)
def test_both_paths_charge_the_same_for(
    view: View, rules: RateLimitRules, loop_runner: asyncio.Runner, stream: list[bytes]
) -> None:
    paths = LimitedPaths(view, rules)
    for _ in range(25):  # into the refusals
        loop_runner.run(paths.compare(stream))


@pytest.mark.parametrize("size", [BYTES_PER_COST - 1, BYTES_PER_COST, 3 * BYTES_PER_COST])
def test_both_paths_charge_the_same_for_reading_a_body(
    view: View, rules: RateLimitRules, loop_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(two_paths, "LIMITS", replace(two_paths.LIMITS, body_bytes_max=size))
    paths = LimitedPaths(view, rules)
    for _ in range(25):
        loop_runner.run(paths.compare([post(CHEAP.ljust(size))]))
    assert paths.fast.identified == 25
