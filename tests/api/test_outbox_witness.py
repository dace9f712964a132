"""Proofs of messages to L1, against the root that L1 has."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.api.test_chain import messages_of_proven_txs, root_of

from fastnode.api.chain import methods
from fastnode.errors import UpstreamUnavailable
from fastnode.view import View

NAME = "node_getL2ToL1MembershipWitness"
NONE_YET = bytes(32)


@pytest.fixture
def release(clients: dict[str, Any]) -> Any:
    return clients["release"]


@pytest.fixture
def ask(make_client: Callable[..., Any], view: View) -> Callable[..., Any]:
    """A client of a node that reads this root on L1, whatever the epoch."""

    def make(root: Callable[[int], Sequence[bytes]]) -> Any:
        return make_client(methods(outbox_roots=root), method_set="development", view=view)

    return make


def _transaction_of_a_short_epoch(release: Any) -> tuple[str, list[str], list[str]]:
    """(transaction, its messages, out hashes of its epoch's checkpoints), in an epoch whose root changes."""
    for tx_hash, epoch, messages in messages_of_proven_txs(release):
        checkpoints = release.result("node_getCheckpointsDataForEpoch", epoch)
        hashes = [item["header"]["epochOutHash"] for item in checkpoints]
        if len(set(hashes)) > 1 and messages:
            return tx_hash, messages, hashes
    raise AssertionError("the sample chain has no such epoch")


def test_the_proof_is_for_the_root_that_l1_has(ask: Callable[..., Any], release: Any) -> None:
    tx_hash, messages, hashes = _transaction_of_a_short_epoch(release)
    covered = 0
    for count, text in enumerate(hashes, 1):
        root = bytes.fromhex(text[2:])
        witness = ask(functools.partial(_always, root)).call(NAME, tx_hash, messages[0], 0).get("result")
        if witness is None:
            assert not covered, "a root of more checkpoints covers what a root of fewer does"
            continue
        covered += 1
        assert witness["root"] == text
        assert witness["numCheckpointsInEpoch"] <= count
        assert hashes[witness["numCheckpointsInEpoch"] - 1] == text
        assert root_of(messages[0], witness) == text
    assert covered


def _always(root: bytes, _epoch: int) -> list[bytes]:
    return [root]


def test_without_a_root_on_l1_there_is_no_witness(ask: Callable[..., Any], release: Any) -> None:
    tx_hash, messages, _ = _transaction_of_a_short_epoch(release)
    assert ask(lambda _: [NONE_YET]).call(NAME, tx_hash, messages[0], 0)["result"] is None


def test_a_root_that_is_none_of_the_chains_is_an_error_with_both(ask: Callable[..., Any], release: Any) -> None:
    tx_hash, messages, hashes = _transaction_of_a_short_epoch(release)
    error = ask(lambda _: [b"\7" * 32]).error(NAME, tx_hash, messages[0], 0)
    assert error["message"].startswith("Local epoch out-hash does not match Outbox at epoch ")
    assert error["message"].endswith(f"local={hashes[-1]} outbox=0x{'07' * 32}")


def test_while_l1_is_away_clients_are_told_to_come_back(ask: Callable[..., Any], release: Any) -> None:
    def away(_: int) -> list[bytes]:
        raise UpstreamUnavailable("L1 node 1: cannot connect")

    tx_hash, messages, _ = _transaction_of_a_short_epoch(release)
    error = ask(away).error(NAME, tx_hash, messages[0], 0)
    assert error == {
        "code": -32000,
        "message": "L1 does not answer at the moment; try again later",
        "data": {"code": "L1_UNAVAILABLE"},
    }


def test_l1_is_not_asked_about_unknown_transactions(ask: Callable[..., Any]) -> None:
    def unexpected(_: int) -> list[bytes]:
        raise AssertionError

    assert ask(unexpected).call(NAME, "0x" + "05" * 32, "0x" + "06".rjust(64, "0"))["result"] is None
