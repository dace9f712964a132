"""Nodes of L1 that take a transaction and give no answer: it is watched, outbid, and named if it is mined after all."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from coincurve import PrivateKey
from tests.http_stand_in import HttpStandIn, answer_json

from fastnode.kernels import encode
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol import rlp
from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.account import WatchLimits
from fastnode.publishing.envelope import SignedTransaction, Transaction
from fastnode.publishing.kept import KeptTransactions
from fastnode.publishing.multicall import Call
from fastnode.publishing.publisher import L1Publisher
from fastnode.publishing.requests import Outcome, OutcomeKind, Request, Success
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Client

SOON_S = 60.0
CHAIN_ID = 31337
SENDER, ROLLUP = b"\x11" * 20, b"\x22" * 20
GENESIS = 1_800_000_000
FIRST_NONCE = 7


class Door:
    """Signs with one key."""

    def sign_transaction(self, _address: bytes, transaction: Transaction) -> SignedTransaction:
        return transaction.sign(lambda digest: PrivateKey(b"\7" * 32).sign_recoverable(digest, hasher=None))


class Chain:
    """An account on L1: what was mined, and the time."""

    def __init__(self) -> None:
        self.now = GENESIS
        self.nonce = FIRST_NONCE
        self.receipts: dict[str, dict[str, Any]] = {}
        self.nodes: list[Node] = []

    def mine(self, node: Node) -> str:
        """The transaction of the account that is next in a node's pool."""
        tx_hash, _ = node.pool.pop(self.nonce)
        log = {"address": hex_data(ROLLUP), "topics": ["0x01"]}
        self.receipts[tx_hash] = {
            "transactionHash": tx_hash,
            "status": "0x1",
            "blockNumber": "0x2",
            "gasUsed": "0x1",
            "effectiveGasPrice": "0x1",
            "logs": [log],
        }
        self.nonce += 1
        for each in self.nodes:
            each.pool = {nonce: held for nonce, held in each.pool.items() if nonce >= self.nonce}
        return tx_hash


class Node:
    """A node of L1 with a pool of its own.  ``falls_silent``: it gives no answers from its next transaction on."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        chain.nodes.append(self)
        self.falls_silent = self.is_silent = False
        self.refusal: str | None = None
        #: Hash and price by nonce.
        self.pool: dict[int, tuple[str, int]] = {}

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        calls = json.loads(body)
        answers = [self._answer(call) for call in (calls if isinstance(calls, list) else [calls])]
        if self.is_silent:
            handler.close_connection = True
        else:
            answer_json(handler, answers if isinstance(calls, list) else answers[0])

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        head = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            return head | {"result": getattr(self, call["method"])(*call["params"])}
        except ValueError as error:
            return head | {"error": {"code": -32000, "message": str(error)}}

    def eth_chainId(self) -> str:  # noqa: N802 - names of L1's methods
        return hex(CHAIN_ID)

    def eth_blobBaseFee(self) -> str:  # noqa: N802
        return "0x1"

    def eth_maxPriorityFeePerGas(self) -> str:  # noqa: N802
        return hex(1000)

    def eth_feeHistory(self, *_: Any) -> None:  # noqa: N802
        return None

    def eth_getBlockByNumber(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        return {
            "number": "0x1",
            "hash": "0x" + "01" * 32,
            "parentHash": "0x" + "00" * 32,
            "timestamp": hex(self.chain.now),
            "baseFeePerGas": hex(1000),
            "transactions": [],
        }

    def eth_getTransactionCount(self, _address: str, tag: str) -> str:  # noqa: N802
        nonce = self.chain.nonce
        while tag == "pending" and nonce in self.pool:
            nonce += 1
        return hex(nonce)

    def eth_getTransactionByHash(self, tx_hash: str) -> dict[str, Any] | None:  # noqa: N802
        is_known = tx_hash in self.chain.receipts or any(held == tx_hash for held, _ in self.pool.values())
        return {} if is_known else None

    def eth_getTransactionReceipt(self, tx_hash: str) -> dict[str, Any] | None:  # noqa: N802
        return self.chain.receipts.get(tx_hash)

    def eth_sendRawTransaction(self, text: str) -> str:  # noqa: N802
        raw = encode.from_hex(text)
        fields: Any = rlp.decode(raw[1:], items_max=100, depth_max=4)
        nonce, fee = int.from_bytes(fields[1], "big"), int.from_bytes(fields[3], "big")
        if self.refusal is not None:
            raise ValueError(self.refusal)
        if nonce < self.chain.nonce:
            raise ValueError("nonce too low")
        if nonce in self.pool and fee < self.pool[nonce][1] * 11 // 10:
            raise ValueError("replacement transaction underpriced")
        self.is_silent = self.falls_silent
        tx_hash = hex_data(keccak_256(raw))
        self.pool[nonce] = (tx_hash, fee)
        return tx_hash


class Parts:
    """An account with two nodes; the first one is preferred."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self.chain = Chain()
        self.first, self.second = Node(self.chain), Node(self.chain)
        urls = [stack.enter_context(HttpStandIn(node.respond)).url for node in (self.first, self.second)]
        self.network = stack.enter_context(Network())
        patience = Patience(unavailable_s=0.01, unavailable_max_s=0.01, aside_s=0.01, aside_max_s=0.01)
        self.client = L1Client(urls, self.network, limits=ClientLimits(request_time_s=SOON_S), patience=patience)
        self.directory = directory
        self.threads = stack.enter_context(ThreadPoolExecutor(2))
        self._stack = stack
        self.publisher = self.open()

    def open(self) -> L1Publisher:
        """As after a start of the node."""
        made = L1Publisher(
            SENDER,
            self.client,
            Door(),  # type: ignore[arg-type]
            CHAIN_ID,
            limits=WatchLimits(check_interval_s=0.01),
            kept=KeptTransactions(self.directory),
        )
        self._stack.callback(made.close)
        return made

    def publish(self, what: str) -> Future[Outcome]:
        request = Request(
            what=what,
            calls=(Call(ROLLUP, what.encode()),),
            success=Success(ROLLUP, ("0x01",)),
            gas=100_000,
            give_up_at=self.chain.now + 60,
            is_direct=True,
        )
        return self.threads.submit(self.publisher.publish, request)

    def give_one_up(self) -> None:
        """The first node has a transaction that it gave no answer to, and the second does not take it."""
        self.first.falls_silent = True
        self.second.refusal = "insufficient funds for gas"
        outcome = self.publish("checkpoint 1")
        wait_for(lambda: self.first.pool, "the silent node to have it")
        self.chain.now += 60
        assert outcome.result(SOON_S).kind is OutcomeKind.GIVEN_UP
        self.second.refusal = None


def wait_for(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited for {what}"
        threading.Event().wait(0.005)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with ExitStack() as stack:
        yield Parts(stack, tmp_path)


def test_what_one_node_refuses_is_watched_while_another_gave_no_answer(parts: Parts) -> None:
    parts.first.falls_silent = True
    parts.second.refusal = "insufficient funds for gas"
    outcome = parts.publish("checkpoint 1")
    wait_for(lambda: parts.first.pool, "the silent node to have it")
    mined = parts.chain.mine(parts.first)
    assert (outcome.result(SOON_S).kind, outcome.result().tx_hash) == (OutcomeKind.PUBLISHED, mined)


def test_what_every_node_refuses_is_not_sent(parts: Parts) -> None:
    parts.first.refusal = parts.second.refusal = "insufficient funds for gas"
    outcome = parts.publish("checkpoint 1").result(SOON_S)
    assert outcome.kind is OutcomeKind.NOT_SENT
    assert parts.publisher.abandoned == ()
    assert list(parts.directory.iterdir()) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_the_next_transaction_outbids_one_that_was_given_up(parts: Parts, restarts: bool) -> None:
    parts.give_one_up()
    _, before = parts.first.pool[FIRST_NONCE]
    if restarts:
        parts.publisher.close()
        parts.publisher = parts.open()
        assert parts.publisher.resume() == 0
    (abandoned,) = parts.publisher.abandoned
    assert (abandoned.what, abandoned.nonce) == ("checkpoint 1", FIRST_NONCE)
    outcome = parts.publish("checkpoint 2")
    wait_for(lambda: parts.second.pool, "the next one")
    assert parts.second.pool[FIRST_NONCE][1] >= before * 11 // 10
    # Blocks are made by all nodes: it replaces the other one where that is.
    mined = parts.chain.mine(parts.second)
    assert (outcome.result(SOON_S).kind, outcome.result().tx_hash) == (OutcomeKind.PUBLISHED, mined)
    assert parts.publisher.abandoned == ()
    assert list(parts.directory.iterdir()) == []


def test_a_request_is_sent_again_when_an_abandoned_transaction_was_mined_in_its_place(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.give_one_up()
    outcome = parts.publish("checkpoint 2")
    wait_for(lambda: parts.second.pool, "the next one")
    with caplog.at_level(logging.WARNING):
        late = parts.chain.mine(parts.first)
        wait_for(lambda: FIRST_NONCE + 1 in parts.second.pool, "it to be sent again")
    mined = parts.chain.mine(parts.second)
    assert (outcome.result(SOON_S).kind, outcome.result().tx_hash) == (OutcomeKind.PUBLISHED, mined)
    (line,) = [record for record in caplog.records if record.message == "an earlier transaction was mined in its place"]
    assert f"{late} (checkpoint 1)" in str(vars(line))
    assert list(parts.directory.iterdir()) == []


def test_an_abandoned_transaction_that_was_mined_frees_its_nonce(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.give_one_up()
    late = parts.chain.mine(parts.first)
    with caplog.at_level(logging.INFO):
        outcome = parts.publish("checkpoint 2")
        wait_for(lambda: FIRST_NONCE + 1 in parts.second.pool, "the next one")
    parts.chain.mine(parts.second)
    assert outcome.result(SOON_S).kind is OutcomeKind.PUBLISHED
    (line,) = [record for record in caplog.records if record.message == "nonce of an abandoned transaction was used"]
    assert late in str(vars(line))


def test_a_refused_transaction_leaves_the_abandoned_one_as_it_was(parts: Parts) -> None:
    parts.give_one_up()
    parts.first.is_silent = False
    parts.first.refusal = parts.second.refusal = "insufficient funds for gas"
    wait_for(lambda: parts.publish("checkpoint 2").result(SOON_S).kind is OutcomeKind.NOT_SENT, "a refusal of both")
    parts.publisher.close()
    parts.publisher = parts.open()
    assert parts.publisher.resume() == 0
    (abandoned,) = parts.publisher.abandoned
    assert abandoned.what == "checkpoint 1"


def test_a_nonce_that_a_forgotten_transaction_has_is_outbid(parts: Parts) -> None:
    """As after the loss of the data directory: no record says what is in the pool."""
    parts.give_one_up()
    parts.publisher.close()
    for file in parts.directory.iterdir():
        file.unlink()
    parts.publisher = parts.open()
    parts.publisher.resume()
    parts.first.is_silent = parts.first.falls_silent = False
    held, before = parts.first.pool.pop(FIRST_NONCE)
    parts.first.pool[FIRST_NONCE] = (held, before * 2)
    # The pending nonce of a node that is behind.
    parts.first.eth_getTransactionCount = lambda _address, _tag: hex(parts.chain.nonce)  # type: ignore[method-assign]
    parts.second.eth_getTransactionCount = parts.first.eth_getTransactionCount  # type: ignore[method-assign]
    outcome = parts.publish("checkpoint 2")
    wait_for(lambda: parts.first.pool[FIRST_NONCE][0] != held, "it to be outbid")
    parts.chain.mine(parts.first)
    assert outcome.result(SOON_S).kind is OutcomeKind.PUBLISHED
