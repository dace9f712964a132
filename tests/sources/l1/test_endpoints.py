"""Nodes of L1 that answer, refuse, stall and lie."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.sources.l1.scripted_l1 import ScriptedL1, scripted_l1
from tests.sources.scripted_upstream import RejectionError

from fastnode.errors import UpstreamError, UpstreamRateLimited, UpstreamUnavailable
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint, block_call
from fastnode.sources.l1.log_ranges import LogRanges

NODE_INFO = {
    "l1ChainId": 31337,
    "rollupVersion": 7,
    "l1ContractAddresses": {
        name: "0x" + f"{place:040x}"
        for place, name in enumerate(
            ("registryAddress", "rollupAddress", "inboxAddress", "outboxAddress", "feeJuicePortalAddress"), 1
        )
    },
}
CONSTANTS = {
    "l1StartBlock": "3",
    "l1GenesisTime": "1700000000",
    "slotDuration": 36,
    "epochDuration": 4,
    "genesisArchiveRoot": "0x" + "07".rjust(64, "0"),
    "rollupManaLimit": 200_000_000,
}
QUICK = Patience(unavailable_s=0.02, unavailable_max_s=0.1, aside_s=0.2, aside_max_s=0.2, retry_after_max_s=0.3)


@contextlib.contextmanager
def _l1() -> Iterator[ScriptedL1]:
    with scripted_l1(NODE_INFO, CONSTANTS) as l1:
        yield l1


@pytest.fixture
def first() -> Iterator[ScriptedL1]:
    with _l1() as l1:
        yield l1


@pytest.fixture
def second() -> Iterator[ScriptedL1]:
    with _l1() as l1:
        l1.mine(10)
        yield l1


def _client(
    network: Network, *nodes: ScriptedL1, patience: Patience = QUICK, request_time_s: float = PATIENCE_S
) -> L1Client:
    limits = ClientLimits(request_time_s=request_time_s)
    return L1Client([node.url for node in nodes], network, limits=limits, patience=patience)


def _height(endpoint: L1Endpoint) -> int:
    block = endpoint.block("latest")
    assert block is not None
    return block.number


def test_the_first_node_that_answers_is_asked(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    client = _client(network, first, second)
    assert client.run(_height) == 3
    assert "eth_getBlockByNumber" not in second.requests
    first.stop()
    assert client.run(_height) == 13
    assert "cannot connect" in client.reasons()


def test_a_node_that_is_back_is_asked_again(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    client = _client(network, first, second)
    first.stop()
    assert client.run(_height) == 13
    first.start()
    deadline = time.monotonic() + 60
    while client.run(_height) != 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert client.reasons() == ""


def test_work_is_begun_anew_with_the_next_node(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    """Two nodes may be at different blocks: nothing is put together from both."""

    def work(endpoint: L1Endpoint) -> tuple[int, int]:
        height = _height(endpoint)
        if endpoint is client.all[0]:
            first.stop()
        return height, _height(endpoint)

    client = _client(network, first, second)
    assert client.run(work) == (13, 13)


def test_without_any_node_the_reasons_are_told(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    client = _client(network, first, second)
    first.stop()
    second.stop()
    with pytest.raises(
        UpstreamUnavailable,
        match=r"L1 node 1 is unavailable: cannot connect.*; L1 node 2 is unavailable: cannot connect",
    ):
        client.run(_height)


def test_a_node_of_another_chain_is_not_believed(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    client = _client(network, first, second)
    client.expected_chain_id = 31337
    first.chain_id = 1
    assert client.run(_height) == 13
    assert "it is a node of chain 1, the rollup is on 31337" in client.reasons()


def test_a_batch_that_is_too_large_is_cut(network: Network, first: ScriptedL1) -> None:
    first.mine(100)
    first.limits.batch = 7
    blocks = _client(network, first).run(lambda endpoint: endpoint.results([block_call(n) for n in range(60)]))
    assert [int(block["number"], 16) for block in blocks] == list(range(60))


def _rejecting(code: int, message: str) -> Callable[[str, list[Any], Any], Any]:
    def tamper(_method: str, _parameters: list[Any], _result: Any) -> Any:
        raise RejectionError(code, message)

    return tamper


@pytest.mark.parametrize(
    ("code", "message"),
    [(429, "slow down"), (-32005, "daily request count exceeded, request rate limited: rate limit"), (-32016, "x")],
)
def test_a_node_that_limits_requests_is_left_alone_for_a_while(
    network: Network, first: ScriptedL1, second: ScriptedL1, code: int, message: str
) -> None:
    client = _client(network, first, second)
    first.tamper = _rejecting(code, message)
    assert client.run(_height) == 13
    with pytest.raises(UpstreamUnavailable, match=re.escape(message)):
        client.all[0].block("latest")
    assert "it limits requests" in client.reasons()


def test_log_queries_as_large_as_granted_ones_stay_so_large_when_calls_are_limited(
    network: Network, first: ScriptedL1
) -> None:
    """The provider refuses too many blocks and too many calls by the same code and the same words."""
    first.mine(200)
    spans: list[int] = []
    blocks_max, too_fast = 50, {3, 5, 6}

    def refuse(method: str, parameters: list[Any], result: Any) -> Any:
        if method == "eth_getLogs":
            spans.append(int(parameters[0]["toBlock"], 16) - int(parameters[0]["fromBlock"], 16) + 1)
            if spans[-1] > blocks_max or len(spans) in too_fast:
                raise RejectionError(-32005, "limit exceeded")
        return result

    def read(to_block: int = 200) -> int:
        return [last for last, _ in LogRanges(bytes(20), "0x01").read(endpoint, 1, to_block)][-1]

    first.tamper = refuse
    endpoint = _client(network, first).all[0]
    assert read() == 200
    assert spans[:7] == [200, 100, 50, 25, 25, 25, 25]
    blocks_max = 5
    with pytest.raises(UpstreamRateLimited):
        read(30)
    assert read(30) == 30
    assert endpoint.provider_limits.log_blocks in (3, 4, 5)


def test_retry_after_is_obeyed(network: Network, first: ScriptedL1) -> None:
    def busy(handler: Any, _body: bytes) -> bool:
        handler.reply(b"{}", 429, Retry_After="1")
        return True

    first.disturb = busy
    client = _client(network, first)
    begun = time.monotonic()
    with pytest.raises(UpstreamUnavailable, match="HTTP status 429"):
        client.run(_height)
    assert begun + 0.3 < client.all[0].health.usable_at <= time.monotonic() + 0.3


def test_a_node_that_stalls_is_given_up(network: Network, first: ScriptedL1, second: ScriptedL1) -> None:
    def stall(_handler: Any, _body: bytes) -> bool:
        time.sleep(2)
        return True

    first.disturb = stall
    client = _client(network, first, second, request_time_s=1.0)
    heights: list[int] = []
    deadline = time.monotonic() + 60
    while not heights:
        assert time.monotonic() < deadline
        with contextlib.suppress(UpstreamUnavailable):  # held up for a second, the other one is not in time either
            heights.append(client.run(_height))
    assert heights == [13]
    while "unavailable" not in client.reasons():  # it is given up in the background
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "L1 node 1 is unavailable: no complete answer within 1 s" in client.reasons()


@pytest.mark.parametrize(
    "block", [None, {}, {"number": "5"}, {"number": "0x5", "hash": "0x00", "parentHash": "0x", "timestamp": "0x1"}, []]
)
def test_a_block_that_is_none_puts_the_node_aside(
    network: Network, first: ScriptedL1, second: ScriptedL1, block: object
) -> None:
    first.tamper = lambda method, _parameters, result: block if method == "eth_getBlockByNumber" else result
    client = _client(network, first, second)

    def work(endpoint: L1Endpoint) -> int:
        found = endpoint.block("latest")
        if found is None:
            raise UpstreamUnavailable("no block")
        return found.number

    assert client.run(work) == 13
    assert client.all[0].describe()["ok"] is False


def test_a_pause_is_never_longer_than_its_maximum(network: Network, first: ScriptedL1) -> None:
    client = _client(network, first)
    first.stop()
    for _ in range(40):
        client.all[0].health.usable_at = 0.0  # its pause is over
        client.all[0].on_error(UpstreamUnavailable("away"))
    assert client.seconds_until_usable() <= QUICK.unavailable_max_s * 1.5
    with pytest.raises(UpstreamError):
        client.run(_height)
