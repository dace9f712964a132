"""Settings that make no sense together stop the start with one line."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings
from fastnode.errors import SettingError

HA = {"validator_ha_signing_enabled": True, "validator_ha_database_url": "postgresql://x", "validator_ha_node_id": "a"}


def test_the_defaults_make_sense() -> None:
    check_settings(Settings())


def test_high_availability_with_a_database_and_a_name_makes_sense() -> None:
    check_settings(Settings(**HA))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"prover_node": True}, "--prover-node: this node has no prover yet; leave the flag"),
        (HA | {"validator_ha_database_url": None}, "VALIDATOR_HA_SIGNING_ENABLED needs VALIDATOR_HA_DATABASE_URL"),
        (HA | {"validator_ha_node_id": None}, "VALIDATOR_HA_SIGNING_ENABLED needs VALIDATOR_HA_NODE_ID"),
        ({"validator_ha_pool_min": 11}, "VALIDATOR_HA_POOL_MIN is above VALIDATOR_HA_POOL_MAX"),
        (
            {"slash_min_penalty_percentage": 3},
            "SLASH_MIN_PENALTY_PERCENTAGE is above SLASH_MAX_PENALTY_PERCENTAGE",
        ),
        ({"network": "alpha"}, "--network alpha: give the network's configuration with --network-config"),
    ],
)
def test_a_contradiction_is_named(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingError) as failure:
        check_settings(Settings(**settings))
    assert str(failure.value).startswith(line)
