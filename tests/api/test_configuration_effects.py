"""Effects of nodeAdmin_setConfig on a node with transactions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_txs import EXTENSION, FRESH, Node, recordings
from tests.api.test_txs import make_node as make_node

from fastnode.app.ground.effects import configuration_of, connect_mempool, connect_offenses, connect_polling
from fastnode.config.configuration import KEYS, ConfigPatch, NodeConfiguration
from fastnode.config.settings import Settings

ROOT = Path(__file__).parents[2]


def configured(node: Node) -> Callable[..., None]:
    """``setConfig`` of the node, with keys as keywords."""
    configuration = configuration_of(Settings(), allow_list_extension=EXTENSION, real_proofs=False)
    connect_mempool(configuration, node.mempool)

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
    configured(node)(txPublicSetupAllowListExtend=[])
    allowed = node.mempool.validator.rules.setup_allow_list
    assert not set(EXTENSION) & set(allowed)
    assert len(allowed) == 3
    configured(node)(txPublicSetupAllowListExtend=[element.to_json() for element in EXTENSION], maxPendingTxCount=999)
    assert set(EXTENSION) <= set(node.mempool.validator.rules.setup_allow_list)


def test_the_poll_interval_is_passed_on_in_seconds() -> None:
    configuration = NodeConfiguration(Settings())
    intervals: list[float] = []
    connect_polling(configuration, intervals.append)
    configuration.change(ConfigPatch().from_json({"archiverPollingIntervalMS": 250}))
    assert intervals == [0.25]


def test_a_penalty_has_no_effect_without_the_watch_for_offenses(caplog: pytest.LogCaptureFixture) -> None:
    for watched, line in (
        (False, "configuration kept for parts that do not run here"),
        (True, "configuration changed"),
    ):
        configuration = NodeConfiguration(Settings())
        if watched:
            connect_offenses(configuration)
        caplog.clear()
        with caplog.at_level("INFO"):
            configuration.change(ConfigPatch().from_json({"slashInactivityPenalty": "5"}))
        assert configuration["slashInactivityPenalty"] == 5
        assert caplog.messages == [line]


def test_the_page_about_settings_that_change_names_every_key_that_some_part_follows() -> None:
    """And no other, but for those that cannot change."""
    names = {key.name for key in KEYS}
    modules = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "fastnode" / "app").rglob("*.py")]
    followed = {
        word for text in modules if "configuration.on_change(" in text for word in re.findall(r'"(\w+)"', text)
    } & names
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("| keys | what a change does |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line)} & names
    fixed = {key.name for key in KEYS if key.is_fixed}
    assert named - fixed == followed - fixed
