"""Combinations of settings that are refused although each value is allowed."""

from __future__ import annotations

from fastnode.config.settings import Settings
from fastnode.errors import SettingError

__all__ = ["check_settings"]


def check_settings(settings: Settings) -> None:
    """SettingError with one line that says what to change."""
    if settings.local_network:
        _check_local_network(settings)
        if settings.sequencer:
            raise SettingError("--sequencer: a local network builds its own blocks; leave one of both out")
    elif settings.sequencer and not settings.derives_from_l1:
        raise SettingError(
            "--sequencer: checkpoints are published on L1, so the chain must be read there: give --l1-rpc-urls and "
            "a place of blobs (--l1-consensus-host-urls, --blob-file-store-urls or --blob-archive-api-url)"
        )
    elif settings.prover_node and not settings.derives_from_l1:
        raise SettingError(
            "--prover-node: proofs are sent to L1, so the chain must be read there: give --l1-rpc-urls and a place of "
            "blobs (--l1-consensus-host-urls, --blob-file-store-urls or --blob-archive-api-url)"
        )
    if settings.bus_publish and settings.bus_url is None:
        raise SettingError("--bus-publish: say where the bus is with --bus-url")
    if settings.validator_ha_signing_enabled and not settings.sequencer:
        raise SettingError(
            "VALIDATOR_HA_SIGNING_ENABLED: nothing in this node signs without --sequencer, so there is nothing to "
            "agree on with other nodes; leave it out (a signer of your own takes its locks with fastnode.ha.duties)"
        )
    if settings.validator_ha_pool_min > settings.validator_ha_pool_max:
        raise SettingError("VALIDATOR_HA_POOL_MIN is above VALIDATOR_HA_POOL_MAX")
    if settings.slash_min_penalty_percentage > settings.slash_max_penalty_percentage:
        raise SettingError("SLASH_MIN_PENALTY_PERCENTAGE is above SLASH_MAX_PENALTY_PERCENTAGE")
    if settings.workers and settings.local_network:
        raise SettingError("--workers: a local network is one process; leave one of --workers and --local-network out")
    if settings.workers and settings.bus_share_limits:
        raise SettingError("--bus-share-limits counts what one process grants: leave it out, or --workers")
    if settings.network is not None and settings.network_config is None:
        raise SettingError(f"--network {settings.network}: give the network's configuration with --network-config")


def _check_local_network(settings: Settings) -> None:
    if settings.upstream_url is not None:
        raise SettingError("--local-network builds its own chain: leave --upstream-url out, or --local-network")
    if settings.bus_url is not None and not settings.bus_publish:
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
    if settings.fork_block_number is not None and settings.fork_from is None:
        raise SettingError("--fork-block-number needs --fork-from")
