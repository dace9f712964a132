"""Settings that make no sense together stop the start with one line."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings
from fastnode.errors import SettingError

#: A sequencer that shares its keys with others.
SIGNS = {
    "sequencer": True,
    "l1_rpc_urls": ("http://127.0.0.1:1",),
    "blob_file_store_urls": ("https://127.0.0.1/blobs",),
    "validator_ha_signing_enabled": True,
}


def test_the_defaults_make_sense() -> None:
    check_settings(Settings())


@pytest.mark.parametrize(
    "settings",
    [
        {"port": 0, "admin_port": 0, "metrics_port": 0},
        {"host": "10.0.0.1", "admin_port": 8080},
        {"l1_clock_port": 8080},
        {"p2p_port": 8080},
    ],
)
def test_servers_on_other_addresses_and_servers_that_are_off_may_have_one_port(settings: dict[str, Any]) -> None:
    check_settings(Settings(**settings))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"prover_node": True}, "--prover-node: proofs are sent to L1, so the chain must be read there"),
        ({"sequencer": True}, "--sequencer: checkpoints are published on L1, so the chain must be read there"),
        ({"sequencer": True, "local_network": True}, "--sequencer: a local network builds its own blocks"),
        ({"validator_ha_signing_enabled": True}, "VALIDATOR_HA_SIGNING_ENABLED: nothing in this node signs"),
        (SIGNS | {"validator_ha_node_id": "a"}, "VALIDATOR_HA_SIGNING_ENABLED: redundant validators need VALIDATOR_HA"),
        (
            SIGNS | {"validator_ha_database_url": "postgresql://host/name"},
            "VALIDATOR_HA_SIGNING_ENABLED: redundant validators need VALIDATOR_HA_NODE_ID too",
        ),
        ({"validator_ha_database_url": "mysql://host"}, "--validator-ha-database-url: each location begins with"),
        ({"validator_ha_pool_min": 11}, "VALIDATOR_HA_POOL_MIN is above VALIDATOR_HA_POOL_MAX"),
        (
            {"slash_min_penalty_percentage": 3},
            "SLASH_MIN_PENALTY_PERCENTAGE is above SLASH_MAX_PENALTY_PERCENTAGE",
        ),
        ({"port": 9464}, "--port and --metrics-port are both 9464"),
        ({"host": "0.0.0.0", "admin_port": 8080}, "--port and --admin-port are both 8080"),
        ({"explorer_port": 8080}, "--port and --explorer-port are both 8080"),
        ({"local_network": True, "l1_clock_port": 8880}, "--admin-port and --l1-clock-port are both 8880"),
        ({"local_network": True, "mining": False, "block_time_s": 1.5}, "--block-time 1.5 builds blocks by itself"),
        ({"network": "alpha"}, "--network alpha: give the network's configuration with --network-config"),
    ],
)
def test_a_contradiction_is_named(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingError) as failure:
        check_settings(Settings(**settings))
    assert str(failure.value).startswith(line)
