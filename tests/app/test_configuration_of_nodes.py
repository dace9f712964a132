"""Each key of nodeAdmin_setConfig, on each kind of node that runs without an L1: it acts, or it is refused by name.

Proposers and followers of L1: tests/sequencing/test_live_configuration.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.config.changes import check_keys
from tests.conftest import NodeProcess

from fastnode.config.settings import Settings

Start = Callable[..., NodeProcess]


@pytest.mark.parametrize(
    ("flags", "values", "live"),
    [
        pytest.param((), {}, {"maxPendingTxCount", "realProofs"}, id="a stored chain"),
        pytest.param(
            ("--sentinel-enabled",),
            {"sentinel_enabled": True},
            {"slashInactivityPenalty", "slashGracePeriodL2Slots"},
            id="statistics of validators",
        ),
        pytest.param(
            ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-port=0"),
            {"p2p_enabled": True},
            {"disableTransactions"},
            id="peers",
        ),
    ],
)
def test_each_key_of_a_node_that_serves_a_chain_acts_or_is_refused(
    start_node: Start, short_chain: Path, flags: tuple[str, ...], values: dict[str, bool], live: set[str]
) -> None:
    node = start_node("--chain-file", short_chain, "--disable-admin-api-key", *flags).wait_until_serving()
    found = check_keys(node, Settings(**values))
    assert {name for name in live if found[name] is not None} == set()
    assert found["minTxsPerBlock"] == "has no effect on this node: it needs --local-network or --sequencer"
    assert found["slashPrunePenalty"] is not None
    assert node.stop() == 0


def test_each_key_of_a_follower_acts_or_is_refused(start_node: Start, short_chain: Path, tmp_path: Path) -> None:
    other = start_node("--chain-file", short_chain).wait_until_serving()
    node = start_node(
        *("--upstream-url", other.url, "--data-directory", tmp_path / "follower", "--disable-admin-api-key"),
    ).wait_until_serving()
    found = check_keys(node, Settings(upstream_url=(other.url,)))
    assert found["archiverPollingIntervalMS"] is None
    assert found["disabledValidators"] == "has no effect on this node: it needs --sequencer"


def test_each_key_of_a_local_network_acts_or_is_refused(start_node: Start) -> None:
    node = start_node("--local-network", "--seed=keys", "--no-mining", "--disable-admin-api-key").wait_until_serving()
    found = check_keys(node, Settings(local_network=True))
    assert found["minValidTxsPerBlock"] is found["coinbase"] is found["redistributeCheckpointBudget"] is None
    assert found["buildCheckpointIfEmpty"] == "has no effect on this node: it needs --sequencer"
    assert node.stop() == 0
