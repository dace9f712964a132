"""Settings without effect are told of, and the parts that they need are said: neither too much nor too little."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastnode.config import needs
from fastnode.config.config_keys import KEYS
from fastnode.config.idle_settings import KEPT, without_effect
from fastnode.config.needs import Need, is_missing
from fastnode.config.settings import Setting, Settings, rows

PACKAGE = Path(__file__).parents[2] / "src" / "fastnode"
#: Where settings are written down, and where they are only shown.
TABLES = {"settings.py", "building_settings.py", "operator_settings.py", "observability_settings.py"}
TABLES |= {"validator_settings.py", "config_keys.py", "idle_settings.py"}

CODE = "\n".join(path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")) if path.name not in TABLES)
RESOLVING = (PACKAGE / "config" / "resolve.py").read_text(encoding="utf-8")
#: The keys of nodeAdmin_getConfig behind which a setting stands.
NAMES = {key.setting.name: key.name for key in KEYS if key.setting is not None}


def is_used(row: Setting) -> bool:
    name = NAMES.get(row.name)
    by_attribute = re.search(rf"settings\.{row.attribute}\b", CODE) is not None
    return by_attribute or f'"{row.name}"' in RESOLVING or (name is not None and f'"{name}"' in CODE)


@pytest.mark.parametrize("row", rows(Settings), ids=lambda row: row.name)
def test_a_setting_is_used_or_listed_as_without_effect(row: Setting) -> None:
    assert is_used(row) is (row.name not in KEPT)


def test_the_list_names_settings() -> None:
    assert {row.name for row in rows(Settings)} >= KEPT.keys()


def test_what_a_setting_needs_depends_on_the_others() -> None:
    given = ["slash-inactivity-penalty", "port", "max-txs-per-block", "key-store-directory", "coinbase"]
    found = without_effect(Settings(), given)
    assert list(found.values()) == [
        ["coinbase", "max-txs-per-block"],
        ["key-store-directory"],
        ["slash-inactivity-penalty"],
    ]
    builder, signer, watch = found
    assert builder == "--local-network or --sequencer"
    assert builder not in without_effect(Settings(local_network=True), given)
    assert "sign" in signer
    assert watch == "--sentinel-enabled or --sequencer"
    assert watch not in without_effect(Settings(sentinel_enabled=True), given)


def test_whether_proofs_are_real_is_asked_where_a_chain_is_learned_from_l1() -> None:
    given = ["prover-real-proofs"]
    learned = Settings(l1_rpc_urls=("http://l1",), blob_file_store_urls=("file:///blobs",))
    assert without_effect(learned, given) == {}
    [(need, names)] = without_effect(Settings(), given).items()
    assert (names, need.startswith("a chain that is learned from L1")) == (given, True)


def test_every_setting_of_validators_and_offenses_does_something_or_is_named() -> None:
    sections = ("Validator", "High availability", "Slashing and statistics")
    #: The switches that bring the rest to life, or are refused.
    alive = {"validator-ha-signing-enabled", "sentinel-enabled"}
    names = {row.name for row in rows(Settings) if row.section in sections}
    named = {name for found in without_effect(Settings(), names).values() for name in found}
    assert names - named == alive


def test_a_start_warns_of_what_it_was_given_without_effect_and_says_what_it_would_need(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--chain-file", short_chain, "--max-txs-per-block=5", COINBASE="0x" + "12" * 20)
    node.wait_until_serving()
    line = node.wait_for_line("settings without effect here")
    assert (line["level"], line["names"]) == ("warning", "coinbase max-txs-per-block")
    assert line["need"] == "--local-network or --sequencer"


#: One setting of each part that was passed over without a word once, with the part.
OFF = {
    "--p2p-max-peers=7": "--p2p-enabled",
    "--bus-replicas=3": "--bus-url and --bus-publish",
    "--mirror-pending-txs": "--upstream-url",
    "--upstream-timeout-s=3": "--upstream-url or --bus-url",
    "--take-over-port": "--workers",
    "--simulate-public-calls=upstream": "--public-simulator-url or --upstream-url",
    "--sync-mode=force-snapshot": "--snapshots-urls or --bus-url",
    "--l1-timeout-s=3": "--l1-rpc-urls",
    "--otel-export-timeout-ms=500": "--traces-collector-url or --metrics-collector-url",
    "--reset-admin-api-key": needs.ADMIN_KEY_FILE.text,
}


def test_a_start_tells_of_every_setting_whose_part_is_off_and_of_names_that_are_nearly_settings(
    start_node: Callable[..., Any], short_chain: Path
) -> None:
    node = start_node("--chain-file", short_chain, *OFF, P2P_ENABLE="true", ETHEREUM_HOST="http://127.0.0.1:1")
    node.wait_until_serving()
    said = {
        entry["need"]: entry["names"] for entry in node.entries() if entry["message"].startswith("settings without")
    }
    assert said == {need: flag.removeprefix("--").partition("=")[0] for flag, need in OFF.items()}
    node.wait_for_line("P2P_ENABLE is set, and no setting is called so (did you mean P2P_ENABLED?)")
    node.wait_for_line("ETHEREUM_HOST is set, and no setting is called so (did you mean ETHEREUM_HOSTS?)")


#: Settings with which all parts run, or as many as may run together.
EVERYTHING_ON = (
    Settings(
        workers=2,
        upstream_url=("http://node",),
        bus_url=("nats://bus",),
        bus_publish=True,
        rpc_limits=Path("limits"),
        l1_rpc_urls=("http://l1",),
        l1_consensus_host_urls=("http://beacon",),
        snapshots_urls=("file:///snapshots",),
        snapshot_serve_port=0,
        p2p_enabled=True,
        sequencer=True,
        validator_ha_signing_enabled=True,
        prover_node=True,
        sentinel_enabled=True,
        upstream_admin_url="http://admin",
        proof_verifier_command="verify",
        data_directory=Path("data"),
        metrics_collector_url="http://collector",
    ),
    Settings(local_network=True, simulate_public_calls="upstream", disable_admin_api_key=True),
)


@pytest.mark.parametrize(
    "need", [need for need in vars(needs).values() if isinstance(need, Need)], ids=lambda n: n.text
)
def test_every_part_can_be_on_and_off_and_some_setting_or_key_belongs_to_it(need: Need) -> None:
    all_settings = (Settings(), Settings(metrics_port=0), *EVERYTHING_ON)
    assert {need.is_met(settings) for settings in all_settings} == {True, False}
    assert need in [row.needs for row in (*rows(Settings), *KEYS)]


#: Sections of which every setting but the one that turns the part on belongs to a part that may be off.
PARTS = {
    "Peer-to-peer network": {"p2p-enabled"},
    "Local network": {"local-network", "ready-fd", "print-json"},
    "Fleet": {"bus-url", "bus-publish"},
    "Publishing on L1": set(),
    "Block building": {"sequencer"},
    "L1": {"l1-rpc-urls"},
    "Blobs": set(),
    "Validator": set(),
    "High availability": {"validator-ha-signing-enabled"},
    "OpenTelemetry": {"traces-collector-url", "metrics-collector-url"},
}


def test_every_setting_of_a_part_that_may_be_off_names_what_it_needs() -> None:
    unnamed = {
        section: {row.name for row in rows(Settings) if row.section == section and row.needs is None}
        for section in PARTS
    }
    assert unnamed == PARTS


def test_nothing_is_said_of_settings_whose_parts_run() -> None:
    live = [row.name for row in rows(Settings) if not is_missing(row.needs)]
    silent = [
        set(live) - {name for found in without_effect(settings, live).values() for name in found}
        for settings in EVERYTHING_ON
    ]
    alternatives = {"bb-binary-path", "bb-num-ivc-verifiers", "bb-ivc-concurrency"}
    assert silent[0] | silent[1] >= set(live) - alternatives
