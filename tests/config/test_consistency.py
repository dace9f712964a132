"""Settings that make no sense together stop the start with one line."""

from __future__ import annotations

from typing import Any

import pytest

from fastnode.config.consistency import check_settings
from fastnode.config.settings import Settings
from fastnode.errors import SettingError


def test_the_defaults_make_sense() -> None:
    check_settings(Settings())


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"prover_node": True}, "--prover-node: this node has no prover yet; leave the flag"),
        ({"validator_ha_signing_enabled": True}, "VALIDATOR_HA_SIGNING_ENABLED: nothing in this node signs"),
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
