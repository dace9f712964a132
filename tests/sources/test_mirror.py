"""Copying the pending transactions of the followed node."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fastnode.errors import Refused
from fastnode.mempool.mirror import PAGE_TXS, PendingTxMirror
from fastnode.protocol.releases import FOUR


class Now:
    def submit(self, work: Any, *arguments: Any) -> None:
        work(*arguments)


class OtherPool:
    """Another node's pending transactions, page by page."""

    name = "upstream"

    def __init__(self, txs: list[Any]) -> None:
        self.txs = txs
        self.pages = 0

    def call(self, method: str, *parameters: Any) -> Any:
        if method == "node_getPendingTxCount":
            return len(self.txs)
        self.pages += 1
        limit, *after = parameters
        start = 1 + [tx["txHash"] for tx in self.txs].index(after[0]) if after else 0
        return self.txs[start : start + limit]


class OwnPool:
    release = FOUR

    def __init__(self, refusing: bool) -> None:
        self.pool = self
        self.received: list[str] = []
        self.asked = 0
        self._refusing = refusing

    def state_of(self, tx_hash: bytes) -> object:
        return True if "0x" + tx_hash.hex() in self.received else None

    def receive(self, tx: Any, _view: Any) -> None:
        self.asked += 1
        if self._refusing:
            raise Refused("Invalid tx: Existing nullifier")
        self.received.append("0x" + tx.hash.hex())


@pytest.fixture(scope="module")
def txs(data_directory: Path) -> list[Any]:
    """Recorded transactions; more than a page of them."""
    with gzip.open(data_directory / "txs_recorded.jsonl.gz") as lines:
        records = [json.loads(line) for line in lines]
    found = [record.get("tx", record) for record in records]
    return [tx for tx in found if isinstance(tx, dict) and "data" in tx]


def mirror(own: OwnPool) -> PendingTxMirror:
    return PendingTxMirror(own, lambda: object(), Now())  # type: ignore[arg-type, return-value]


def test_every_pending_transaction_is_taken_once(txs: list[Any]) -> None:
    assert base64.b64decode(txs[0]["data"])
    own, other = OwnPool(refusing=False), OtherPool(txs[:3])
    copier = mirror(own)
    for _ in range(2):
        copier._rounds._next_at = 0.0
        copier.on_pass(other)  # type: ignore[arg-type]
    assert own.received == [tx["txHash"] for tx in txs[:3]]
    assert own.asked == 3


def test_what_was_refused_is_not_looked_at_again(txs: list[Any]) -> None:
    own, other = OwnPool(refusing=True), OtherPool(txs[:2])
    copier = mirror(own)
    for _ in range(2):
        copier._rounds._next_at = 0.0
        copier.on_pass(other)  # type: ignore[arg-type]
    assert own.asked == 2


def test_pages_follow_each_other(txs: list[Any]) -> None:
    many = [dict(tx) for tx in (txs * (2 * PAGE_TXS))[: PAGE_TXS + 2]]
    for index, tx in enumerate(many):
        tx["txHash"] = f"0x{index:064x}"
    own, other = OwnPool(refusing=False), OtherPool(many)
    own.received = [tx["txHash"] for tx in many]
    mirror(own).on_pass(other)  # type: ignore[arg-type]
    assert other.pages == 2
    assert own.asked == 0


def test_the_other_node_is_asked_now_and_then_only(txs: list[Any]) -> None:
    own, other = OwnPool(refusing=False), OtherPool(txs[:1])
    copier = mirror(own)
    for _ in range(5):
        copier.on_pass(other)  # type: ignore[arg-type]
    assert other.pages == 1
