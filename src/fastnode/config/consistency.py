"""Combinations of settings that are refused although each value is allowed."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Final

from fastnode.config.l1_settings import A_PLACE_OF_BLOBS
from fastnode.config.network_config import recorded_network
from fastnode.config.settings import Settings, rows
from fastnode.errors import SettingError
from fastnode.extras import advice_if_missing
from fastnode.values.urls import host_of

__all__ = ["check_settings"]

#: Addresses that stand for all of this machine.
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})
#: Without --rpc-limits and --network-config, whose readers say more.
_READ_AT_START: Final = frozenset({"chain-file", "genesis", "load-state"})
_WRITTEN_AT_EXIT: Final = frozenset({"dump-state", "state"})
_SCHEMES: Final = {
    "snapshots-urls": ("file:///", "http://", "https://", "s3://", "gs://"),
    "snapshot-upload-locations": ("file:///", "s3://", "gs://"),
    "blob-file-store-urls": ("file:///", "http://", "https://", "s3://", "gs://"),
    "blob-file-store-upload-url": ("file:///", "s3://", "gs://"),
    "validator-ha-database-url": ("postgresql://", "postgres://"),
}


def check_settings(settings: Settings) -> None:
    """SettingError with one line that says what to change."""
    if settings.local_network:
        _check_local_network(settings)
        if settings.sequencer:
            raise SettingError("--sequencer: a local network builds its own blocks; leave one of both out")
    elif settings.sequencer and not settings.derives_from_l1:
        raise SettingError(
            "--sequencer: checkpoints are published on L1, so the chain must be read there: give --l1-rpc-urls and "
            + A_PLACE_OF_BLOBS
        )
    elif settings.prover_node and not settings.derives_from_l1:
        raise SettingError(
            "--prover-node: proofs are sent to L1, so the chain must be read there: give --l1-rpc-urls and "
            + A_PLACE_OF_BLOBS
        )
    _check_ports(settings)
    if settings.bus_publish and not settings.is_in_fleet:
        raise SettingError("--bus-publish: say where the bus is with --bus-url")
    _check_redundancy(settings)
    if settings.slash_min_penalty_percentage > settings.slash_max_penalty_percentage:
        raise SettingError("SLASH_MIN_PENALTY_PERCENTAGE is above SLASH_MAX_PENALTY_PERCENTAGE")
    if settings.workers and settings.local_network:
        raise SettingError("--workers: a local network is one process; leave one of --workers and --local-network out")
    if settings.workers and settings.bus_share_limits:
        raise SettingError("--bus-share-limits counts what one process grants: leave it out, or --workers")
    if settings.network is not None and settings.network_config is None:
        _check_named_network(settings, settings.network)
    _check_packages(settings)
    _check_files(settings)
    _check_locations(settings)


def _check_ports(settings: Settings) -> None:
    """Check that no two servers of this node listen on one port of one address."""
    servers: list[tuple[str, int | None, str]] = [
        ("--port", settings.port, settings.host),
        ("--admin-port", settings.admin_port, settings.admin_host),
        ("--metrics-port", settings.metrics_port, settings.metrics_host),
        ("--explorer-port", settings.explorer_port, settings.host),
        ("--l1-clock-port", settings.l1_clock_port if settings.local_network else None, settings.host),
        ("--snapshot-serve-port", settings.snapshot_serve_port, settings.host),
        ("--p2p-port", settings.p2p_port if settings.p2p_enabled else None, settings.p2p_listen_addr),
    ]
    for (flag, port, host), (other_flag, other_port, other_host) in combinations(servers, 2):
        if port and port == other_port and (host == other_host or {host, other_host} & _EVERY_ADDRESS):
            raise SettingError(f"{flag} and {other_flag} are both {port}: choose another one for one of them")


def _check_named_network(settings: Settings, name: str) -> None:
    """Check that a network that is given by its name alone can be found."""
    if not recorded_network(name):
        raise SettingError(f"--network {name}: give the network's configuration with --network-config")
    if not settings.derives_from_l1:
        raise SettingError(f"--network {name}: its chain is read from L1: give --l1-rpc-urls and {A_PLACE_OF_BLOBS}")


def _check_redundancy(settings: Settings) -> None:
    if settings.validator_ha_signing_enabled and not settings.sequencer:
        raise SettingError(
            "VALIDATOR_HA_SIGNING_ENABLED: nothing in this node signs without --sequencer, so there is nothing to "
            "agree on with other nodes; leave it out (a signer of your own takes its locks with fastnode.ha.duties)"
        )
    if settings.validator_ha_signing_enabled:
        needed = {
            "VALIDATOR_HA_DATABASE_URL": settings.validator_ha_database_url,
            "VALIDATOR_HA_NODE_ID": settings.validator_ha_node_id,
        }
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise SettingError(f"VALIDATOR_HA_SIGNING_ENABLED: redundant validators need {' and '.join(missing)} too")
    if settings.validator_ha_pool_min > settings.validator_ha_pool_max:
        raise SettingError("VALIDATOR_HA_POOL_MIN is above VALIDATOR_HA_POOL_MAX")


def _check_packages(settings: Settings) -> None:
    for row in rows(Settings):
        if not getattr(settings, row.attribute) or not (row.needs is None or row.needs.is_met(settings)):
            continue
        for package in row.packages:
            advice = advice_if_missing(package)
            if advice is not None:
                raise SettingError(f"{row.flag}: {advice}")


def _check_files(settings: Settings) -> None:
    """Check the files that a start reads, and the folders of those that it writes at its end."""
    for row in rows(Settings):
        path = getattr(settings, row.attribute)
        if row.name in _READ_AT_START and path is not None and not path.is_file():
            raise SettingError(f"{row.flag} {path}: {'it is no file' if path.exists() else 'there is no such file'}")
        if row.name in _WRITTEN_AT_EXIT and path is not None and not path.resolve().parent.is_dir():
            raise SettingError(f"{row.flag} {path}: there is no directory {path.resolve().parent}")


def _check_locations(settings: Settings) -> None:
    for row in rows(Settings):
        schemes = _SCHEMES.get(row.name)
        value = getattr(settings, row.attribute)
        if schemes is None or value is None:
            continue
        for text in (value,) if isinstance(value, str) else value:
            if not text.startswith(schemes):
                raise SettingError(f"{row.flag}: each location begins with one of {', '.join(schemes)}")
            if not text.startswith("file:") and not host_of(text):
                raise SettingError(f"{row.flag}: a location has a host or a bucket behind {text.partition('//')[0]}//")


def _check_local_network(settings: Settings) -> None:
    if settings.keep_blocks:
        raise SettingError("--keep-blocks: a local network goes back to any of its blocks; leave it out")
    if settings.upstream_url is not None:
        raise SettingError("--local-network builds its own chain: leave --upstream-url out, or --local-network")
    if settings.follows_bus:
        raise SettingError("--local-network builds its own chain: give --bus-publish too, or leave --bus-url out")
    sources = {
        "--chain-file": settings.chain_file,
        "--load-state": settings.load_state,
        "--state": settings.state,
        "--fork-from": settings.fork_from,
    }
    given = [name for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise SettingError(f"{' and '.join(given)}: a local network begins with one chain, so give one of them")
    fork = settings.fork_from
    if fork is not None and ":" not in fork and not Path(fork).exists():
        raise SettingError(f"--fork-from {fork}: there is no such file or directory, and it is no URL")
    if settings.block_time_s is not None and not settings.mining:
        raise SettingError(
            f"--block-time {settings.block_time_s:g} builds blocks by itself, --no-mining only when asked to: "
            "leave one of them out"
        )
    if settings.fork_block_number is not None and settings.fork_from is None:
        raise SettingError("--fork-block-number needs --fork-from")
