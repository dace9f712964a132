"""The options of the command line are those of the settings table, under every name."""

from __future__ import annotations

import re
from collections import Counter

import click
import pytest
from click.testing import CliRunner
from tests.config.examples import examples

from fastnode.cli.app import root
from fastnode.cli.options import with_settings
from fastnode.config.everyday import EVERYDAY
from fastnode.config.idle_settings import KEPT
from fastnode.config.resolve import Resolved
from fastnode.config.settings import START, Setting, Settings, rows
from fastnode.values.choices import Boolean

#: What the command has received.
RECEIVED: list[Resolved[Settings]] = []


@click.command()
@with_settings(START)
def command(resolved: Resolved[Settings]) -> None:
    RECEIVED.append(resolved)


def resolved_from(*arguments: str) -> Resolved[Settings]:
    """What a command with the options of ``start`` receives."""
    command.main(list(arguments), standalone_mode=False)
    return RECEIVED.pop()


START_ROWS = [setting for setting in rows(Settings) if START in setting.commands]


@pytest.mark.parametrize("setting", START_ROWS, ids=lambda setting: setting.name)
def test_every_setting_can_be_given_by_each_of_its_flags(setting: Setting) -> None:
    for flag in (setting.flag, *setting.other_flags):
        if isinstance(setting.kind, Boolean):
            resolved = resolved_from(flag)
            assert getattr(resolved.values, setting.attribute) is True
        else:
            value = examples(setting)[0]
            resolved = resolved_from(f"{flag}={value}")
            assert getattr(resolved.values, setting.attribute) == setting.kind.from_text(value)
        assert resolved.origins[setting.name].layer == "flag"


@pytest.mark.parametrize(
    "setting", [row for row in START_ROWS if isinstance(row.kind, Boolean)], ids=lambda setting: setting.name
)
def test_every_switch_can_be_turned_off(setting: Setting) -> None:
    resolved = resolved_from(f"--no-{setting.name}")
    assert getattr(resolved.values, setting.attribute) is False
    assert resolved.origins[setting.name].layer == "flag"


def test_what_is_not_given_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in rows(Settings):
        for name in setting.environment:
            monkeypatch.delenv(name, raising=False)
    assert resolved_from().values == Settings()


def test_no_two_settings_share_a_name() -> None:
    flags = [flag for setting in rows(Settings) for flag in (setting.flag, *setting.other_flags)]
    names = [name for setting in rows(Settings) for name in setting.environment]
    assert len(flags) == len(set(flags))
    assert len(names) == len(set(names))


def test_every_setting_is_taken_by_a_command() -> None:
    def all_options(command: click.Command) -> set[str]:
        own = {name for parameter in command.params for name in parameter.opts}
        return own.union(*(all_options(sub) for sub in getattr(command, "commands", {}).values()))

    known = all_options(root)
    for setting in rows(Settings):
        assert {setting.flag, *setting.other_flags} <= known


#: The flags and environment names of the service specification, with the settings that they are.
SPECIFIED = {
    "port": ("--port", "SVC_PORT"),
    "admin-port": ("--admin-port", "SVC_ADMIN_PORT"),
    "api-prefix": ("--api-prefix", "API_PREFIX"),
    "rpc-max-batch-size": ("--rpcMaxBatchSize", "RPC_MAX_BATCH_SIZE"),
    "rpc-max-body-size": ("--rpcMaxBodySize", "RPC_MAX_BODY_SIZE"),
    "rpc-simulate-public-max-gas-limit": ("RPC_SIMULATE_PUBLIC_MAX_GAS_LIMIT",),
    "rpc-simulate-public-max-debug-log-memory-reads": ("RPC_SIMULATE_PUBLIC_MAX_DEBUG_LOG_MEMORY_READS",),
    "world-state-checkpoint-history": (
        "--world-state-checkpoint-history",
        "WS_NUM_HISTORIC_CHECKPOINTS",
        "WS_NUM_HISTORIC_BLOCKS",
    ),
    "archiver-max-logs": ("--archiver.maxLogs", "ARCHIVER_MAX_LOGS"),
    "p2p-enabled": ("P2P_ENABLED",),
    "p2p-max-pending-tx-count": ("--p2p.maxPendingTxCount", "P2P_MAX_PENDING_TX_COUNT"),
    "p2p-min-tx-pool-age-ms": ("P2P_MIN_TX_POOL_AGE_MS",),
    "sentinel-enabled": ("SENTINEL_ENABLED",),
    "sentinel-history-length-in-epochs": ("SENTINEL_HISTORY_LENGTH_IN_EPOCHS",),
    "sentinel-historic-proven-performance-length-in-epochs": ("SENTINEL_HISTORIC_PROVEN_PERFORMANCE_LENGTH_IN_EPOCHS",),
    "slashing-round-size-in-epochs": ("SVC_SLASHING_ROUND_SIZE_IN_EPOCHS",),
    "slashing-offset-in-rounds": ("SVC_SLASHING_OFFSET_IN_ROUNDS",),
    "data-directory": ("--data-directory", "DATA_DIRECTORY"),
    "admin-api-key-hash": ("--admin-api-key-hash", "SVC_ADMIN_API_KEY_HASH"),
    "disable-admin-api-key": ("--disable-admin-api-key", "SVC_DISABLE_ADMIN_API_KEY"),
    "reset-admin-api-key": ("--reset-admin-api-key", "SVC_RESET_ADMIN_API_KEY"),
    "p2p-rpc-price-bump-percentage": ("P2P_RPC_PRICE_BUMP_PERCENTAGE",),
    "initial-eth-per-fee-asset": ("--initialEthPerFeeAsset", "SVC_INITIAL_ETH_PER_FEE_ASSET"),
    "max-l2-block-gas": ("--maxL2BlockGas", "SEQ_MAX_L2_BLOCK_GAS"),
    "max-da-block-gas": ("--maxDABlockGas", "SEQ_MAX_DA_BLOCK_GAS"),
    "per-block-allocation-multiplier": ("--perBlockAllocationMultiplier", "SEQ_PER_BLOCK_ALLOCATION_MULTIPLIER"),
    "max-txs-per-checkpoint": ("--maxTxsPerCheckpoint", "SEQ_MAX_TX_PER_CHECKPOINT"),
    "validate-max-l2-block-gas": ("--validateMaxL2BlockGas", "VALIDATOR_MAX_L2_BLOCK_GAS"),
    "validate-max-da-block-gas": ("--validateMaxDABlockGas", "VALIDATOR_MAX_DA_BLOCK_GAS"),
    "validate-max-txs-per-block": ("--validateMaxTxsPerBlock", "VALIDATOR_MAX_TX_PER_BLOCK"),
    "validate-max-txs-per-checkpoint": ("--validateMaxTxsPerCheckpoint", "VALIDATOR_MAX_TX_PER_CHECKPOINT"),
    "tx-public-setup-allow-list-extend": ("--txPublicSetupAllowListExtend", "TX_PUBLIC_SETUP_ALLOWLIST"),
    "validator-ha-signing-enabled": ("VALIDATOR_HA_SIGNING_ENABLED",),
    "validator-ha-database-url": ("VALIDATOR_HA_DATABASE_URL",),
    "validator-ha-node-id": ("VALIDATOR_HA_NODE_ID",),
    "blob-file-store-urls": ("BLOB_FILE_STORE_URLS",),
    "blob-file-store-upload-url": ("BLOB_FILE_STORE_UPLOAD_URL",),
    "blob-archive-api-url": ("BLOB_ARCHIVE_API_URL",),
    "bot-min-fee-padding": ("--bot.minFeePadding", "BOT_MIN_FEE_PADDING"),
    "seq-polling-interval-ms": ("SEQ_POLLING_INTERVAL_MS",),
    "l1-publishing-time": ("SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT",),
    "prover-node": ("--prover-node",),
    "key-store-directory": ("KEY_STORE_DIRECTORY",),
    "sync-mode": ("--sync-mode", "SYNC_MODE"),
    "snapshots-urls": ("--snapshots-urls", "SYNC_SNAPSHOTS_URLS", "SYNC_SNAPSHOTS_URL"),
    "registry-address": ("--registry-address", "REGISTRY_CONTRACT_ADDRESS"),
    "rollup-version": ("--rollup-version", "ROLLUP_VERSION"),
    "l1-chain-id": ("--l1-chain-id", "L1_CHAIN_ID"),
    "network": ("--network", "NETWORK"),
}


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_setting_has_the_names_of_the_service_specification(name: str) -> None:
    setting = next(setting for setting in rows(Settings) if setting.name == name)
    assert set(SPECIFIED[name]) <= {setting.flag, *setting.other_flags, *setting.environment}


def test_the_defaults_are_those_of_the_service_specification() -> None:
    values = Settings()
    assert values.initial_eth_per_fee_asset == 10_000_000
    assert values.per_block_allocation_multiplier == 2
    assert values.p2p_rpc_price_bump_percentage == 10
    assert (values.slash_duplicate_proposal_penalty, values.slash_duplicate_attestation_penalty) == (0, 0)
    assert (values.slashing_round_size_in_epochs, values.slashing_offset_in_rounds) == (4, 2)
    assert values.rpc_simulate_public_max_gas_limit == 130_800_000
    assert values.rpc_simulate_public_max_debug_log_memory_reads == 125_000
    assert (values.sentinel_history_length_in_epochs, values.p2p_min_tx_pool_age_ms) == (24, 2000)
    unset = ("max_l2_block_gas", "max_da_block_gas", "max_txs_per_checkpoint", "validate_max_l2_block_gas")
    assert all(getattr(values, name) is None for name in (*unset, "validate_max_txs_per_checkpoint"))


def help_of_start(*flags: str) -> str:
    done = CliRunner().invoke(root, ["start", *flags])
    assert done.exit_code == 0
    return done.output


def flags_in(text: str) -> set[str]:
    """Flags of the settings of ``start`` that a help lists."""
    names = [line.strip().split("  ")[0] for line in text.splitlines() if line[:3] == "  -"]
    return {setting.flag for setting in START_ROWS} & set(re.findall(r"--[a-z0-9-]+", " ".join(names)))


def test_the_help_of_start_shows_the_settings_that_people_use_and_names_the_groups_of_the_others() -> None:
    short = help_of_start("-h")
    assert short == help_of_start("--help")
    assert flags_in(short) == {f"--{name}" for name in EVERYDAY}
    assert not EVERYDAY & set(KEPT)
    plain = " ".join(short.split())
    assert f"the settings that people use, of {len(START_ROWS)}. --help-all shows every one" in plain
    for group, count in Counter(setting.section for setting in START_ROWS).items():
        assert f"{group.lower().replace(' ', '-')} ({count})" in plain


def test_the_whole_help_of_start_lists_every_setting_by_section() -> None:
    whole = help_of_start("--help-all")
    headings = [line.rstrip(":") for line in whole.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *dict.fromkeys(setting.section for setting in START_ROWS)]
    assert flags_in(whole) == {setting.flag for setting in START_ROWS}
    names = "SVC_ACVM_WORKING_DIRECTORY, ACVM_WORKING_DIRECTORY"
    assert f"[no effect: needs circuits of its own, which this node does not have; env: {names}]" in " ".join(
        whole.split()
    )


@pytest.mark.parametrize("group", dict.fromkeys(setting.section for setting in START_ROWS))
def test_the_settings_of_one_group_are_shown_by_its_name(group: str) -> None:
    shown = help_of_start("--help-group", group)
    assert flags_in(shown) == {setting.flag for setting in START_ROWS if setting.section == group}
    assert shown == help_of_start("--help-group", group.lower().replace(" ", "-"))


def test_a_part_of_a_groups_name_is_enough_where_one_group_has_it() -> None:
    assert help_of_start("--help-group", "snap") == help_of_start("--help-group", "snapshots")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("weather", "'weather' is none of network, chain-data, "),
        ("net", "'net' is several of network, rollup-network, local-network, peer-to-peer-network"),
    ],
)
def test_a_group_that_is_not_there_is_refused_with_those_that_are(name: str, told: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        root.main(["start", "--help-group", name], standalone_mode=False)
    assert told in refused.value.message
