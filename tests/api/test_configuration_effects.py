"""Effects of nodeAdmin_setConfig on a node with transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.test_txs import EXTENSION, FRESH, Node, recordings
from tests.api.test_txs import make_node as make_node

from fastnode.app.ground.effects import configuration_of, connect_blocks, connect_mempool, connect_polling
from fastnode.config.configuration import ConfigPatch, NodeConfiguration
from fastnode.config.settings import Settings


def configured(node: Node) -> Callable[..., None]:
    """``setConfig`` of the node, with keys as keywords."""
    builder = Settings(local_network=True)
    configuration = configuration_of(builder, allow_list_extension=EXTENSION, real_proofs=False)
    connect_mempool(configuration, node.mempool)
    connect_blocks(configuration, builder, lambda _settings, _options: None)

    def set_config(**keys: Any) -> None:
        configuration.change(ConfigPatch().from_json(keys))

    return set_config


def reasons(node: Node) -> set[str]:
    """Reasons why recorded transactions are not valid, but for those whose fee is too low by now."""
    found = set()
    for tx_hash in FRESH:
        found.update(node.call("node_isValidTx", recordings()[tx_hash]["tx"])["result"].get("reason", ()))
    return found - {"Insufficient fee per gas"}


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    node = make_node()
    for tx_hash in FRESH:
        node.send(tx_hash)
    assert node.mempool.pool.pending_count > 1
    assert reasons(node) == set()
    return node


def test_a_smaller_pool_keeps_the_best_transactions(node: Node) -> None:
    best = node.mempool.pool.pending_hashes(limit=1)
    configured(node)(maxPendingTxCount=1)
    assert node.mempool.pool.pending_hashes() == best


def test_transactions_can_be_turned_off_and_on(node: Node) -> None:
    set_config = configured(node)
    set_config(disableTransactions=True)
    assert reasons(node) == {"Transactions are not permitted"}
    set_config(disableTransactions=False)
    assert reasons(node) == set()


@pytest.mark.parametrize("key", ["validateMaxL2BlockGas", "validateMaxDABlockGas"])
def test_a_validators_limit_never_touches_the_pool(node: Node, key: str) -> None:
    """It is about the blocks of others; what waits here stays, and more may come."""
    waiting = node.mempool.pool.pending_hashes()
    configured(node)(**{key: 100})
    assert reasons(node) == set()
    assert node.mempool.pool.pending_hashes() == waiting


def test_proofs_can_be_asked_for_and_not_asked_for(node: Node) -> None:
    set_config = configured(node)
    set_config(realProofs=True)
    assert len(reasons(node)) == 1
    set_config(realProofs=False)
    assert reasons(node) == set()


def test_an_allow_list_replaces_the_extension(node: Node) -> None:
    set_config = configured(node)
    set_config(txPublicSetupAllowListExtend=[])
    allowed = node.mempool.validator.rules.setup_allow_list
    assert not set(EXTENSION) & set(allowed)
    assert len(allowed) == 3
    set_config(txPublicSetupAllowListExtend=[element.to_json() for element in EXTENSION], maxPendingTxCount=999)
    assert set(EXTENSION) <= set(node.mempool.validator.rules.setup_allow_list)


def test_the_poll_interval_is_passed_on_in_seconds() -> None:
    configuration = NodeConfiguration(Settings(upstream_url=("http://127.0.0.1:1",)))
    intervals: list[float] = []
    connect_polling(configuration, intervals.append)
    configuration.change(ConfigPatch().from_json({"archiverPollingIntervalMS": 250}))
    assert intervals == [0.25]
