"""An account whose L1 refuses what it is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.http_stand_in import HttpStandIn, answer_json
from tests.publishing.test_kept import SENDER, in_flight

from fastnode.outgoing.network import Network
from fastnode.publishing.account import BUSY, AccountState, WatchLimits
from fastnode.publishing.envelope import SignedTransaction, Transaction
from fastnode.publishing.kept import InFlight, KeptTransactions
from fastnode.publishing.publisher import L1Publisher, Standing
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Client

PATIENCE_S = 60.0
BLOCK = {
    "number": "0x1",
    "hash": "0x" + "01" * 32,
    "parentHash": "0x" + "00" * 32,
    "timestamp": hex(1_800_000_000),
    "baseFeePerGas": "0x1",
    "transactions": [],
}


class Door:
    """Signs with one key."""

    def sign_transaction(self, _address: bytes, transaction: Transaction) -> SignedTransaction:
        return transaction.sign(lambda digest: PrivateKey(b"\7" * 32).sign_recoverable(digest, hasher=None))


class RefusingL1:
    """Has what :func:`in_flight` sent while ``is_known``, and takes nothing more."""

    def __init__(self, nonce: int) -> None:
        self.is_known = True
        self.refused = threading.Semaphore(0)
        hashes = {hex_data(attempt.hash()) for attempt in in_flight(nonce).attempts}
        self._answers: dict[str, Callable[[list[Any]], Any]] = {
            "eth_getBlockByNumber": lambda _: BLOCK,
            "eth_getTransactionCount": lambda params: hex(nonce + (params[1] == "pending" and self.is_known)),
            "eth_getTransactionByHash": lambda params: {} if self.is_known and params[0] in hashes else None,
            "eth_chainId": lambda _: hex(31337),
            "eth_blobBaseFee": lambda _: "0x1",
            "eth_maxPriorityFeePerGas": lambda _: "0x1",
            "eth_feeHistory": lambda _: None,
        }

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        calls = json.loads(body)
        answers = [self._answer(call) for call in (calls if isinstance(calls, list) else [calls])]
        answer_json(handler, answers if isinstance(calls, list) else answers[0])

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        head = {"jsonrpc": "2.0", "id": call["id"]}
        if call["method"] in self._answers:
            return head | {"result": self._answers[call["method"]](call["params"])}
        assert call["method"] == "eth_sendRawTransaction"
        self.refused.release()
        return head | {"error": {"code": -32000, "message": "no"}}


@pytest.fixture
def l1() -> RefusingL1:
    return RefusingL1(nonce=7)


@pytest.fixture
def publisher(tmp_path: Path, l1: RefusingL1) -> Iterator[L1Publisher]:
    """Watches a transaction with blobs that is too late for its slot."""
    kept = KeptTransactions(tmp_path)
    kept.put(in_flight(7))
    with Network() as network, HttpStandIn(l1.respond) as server:
        client = L1Client([server.url], network)
        limits = WatchLimits(check_interval_s=0.01)
        publisher = L1Publisher(SENDER, client, Door(), 31337, limits=limits, kept=kept)  # type: ignore[arg-type]
        yield publisher
        publisher.close()


def test_a_cancellation_that_l1_refuses_is_none_after_a_restart_either(
    tmp_path: Path, l1: RefusingL1, publisher: L1Publisher
) -> None:
    assert publisher.resume() == 1
    assert l1.refused.acquire(timeout=PATIENCE_S)
    publisher.close()
    (item,) = KeptTransactions(tmp_path).load(SENDER)
    assert not item.is_cancelled
    assert item.newest.transaction.data == b"call"


def test_a_call_that_l1_forgets_while_it_is_cancelled_is_watched_on(
    tmp_path: Path, l1: RefusingL1, publisher: L1Publisher
) -> None:
    """As a node that was killed at its cancellation has left it: the call goes with its own blobs."""
    item = in_flight(7)
    item.is_cancelled, item.cancelled_at = True, 1_800_000_000
    KeptTransactions(tmp_path).put(item)
    l1.is_known = False
    assert publisher.resume() == 1
    assert publisher.in_flight[0].cancellation is not None
    for _ in range(3):
        assert l1.refused.acquire(timeout=PATIENCE_S), "it is sent again and again"


def sent(item: InFlight) -> Standing:
    return Standing(state=AccountState.SENT, in_flight={item.nonce: item})


def test_an_account_is_not_busy_with_what_was_not_taken_when_all_else_has_ended() -> None:
    """A second transaction is being sent while the first one is decided, and then refused."""
    first, second = in_flight(7), in_flight(8)
    for end in (AccountState.MINED, AccountState.NOT_MINED):
        both = sent(first).having(second)
        one = both.without(first, end)
        one.invariant()
        assert one.state is AccountState.SENT
        none = one.without(second)
        none.invariant()
        assert none.state not in BUSY


def test_what_an_account_has_come_to_stays_when_something_else_is_not_taken() -> None:
    first = in_flight(7)
    mined = sent(first).without(first, AccountState.MINED)
    assert mined.state is AccountState.MINED
    second = in_flight(8)
    assert mined.having(second).without(second).state is AccountState.MINED


def test_an_account_does_not_come_from_one_state_into_one_that_cannot_follow() -> None:
    first, second, standing = in_flight(7), in_flight(8), sent(in_flight(7))
    for impossible in (
        lambda: sent(first).having(first),  # its nonce is in use
        lambda: sent(first).sent(second),  # it was not about to be sent
        lambda: sent(first).without(second, AccountState.MINED),
        lambda: sent(first).without(first, AccountState.SPEED_UP),  # what has ended is not watched
        lambda: sent(first).changed(first, AccountState.MINED),
        lambda: Standing().having(first).changed(first, AccountState.SPEED_UP),  # before it was sent
        lambda: standing.changed(first, AccountState.SPEED_UP),  # another one of its nonce
        lambda: Standing(in_flight={7: first, 8: second}).invariant(),  # two of which nothing is watched
        lambda: Standing(state=AccountState.SENT).invariant(),
    ):
        with pytest.raises(AssertionError):
            impossible()
