"""Parts of a node that settings belong to: a setting whose part is off has no effect, and a start says so.

A row of the settings table names one of these (``needs=``), or a :func:`missing` part, which no node has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = [
    "ADMIN_KEY",
    "ADMIN_KEY_FILE",
    "ATTESTING",
    "BB_VERIFIER",
    "BUILDING",
    "BUS",
    "BUS_PUBLISHING",
    "COLLECTOR",
    "COMMAND_VERIFIER",
    "CONSENSUS_CLIENTS",
    "DERIVING",
    "DETECTION",
    "DISCOVERY",
    "FIRST_BLOCK",
    "FOLLOWED_NODE",
    "FOLLOWING",
    "HA_SIGNING",
    "INACTIVITY",
    "KEYS",
    "L1_READING",
    "LEAF_SERVING",
    "LEARNING_FROM_L1",
    "LOCAL_NETWORK",
    "LOCAL_SIMULATION",
    "METRICS",
    "METRICS_COLLECTOR",
    "METRICS_PORT",
    "NO_ADMIN_KEY",
    "OTHER_SIMULATOR",
    "PARTIAL_SYNC",
    "PEERS",
    "PEER_OFFENSES",
    "PROPOSALS",
    "PROVING",
    "SENTINEL",
    "SEQUENCER",
    "SHARED_LIMITS",
    "SIGNING",
    "SIMULATOR",
    "SNAPSHOT_LOCATION",
    "STANDBY",
    "UPSTREAM",
    "UPSTREAM_ADMIN",
    "WORKERS",
    "WRITING_TO_L1",
    "Need",
    "is_missing",
    "missing",
]


@dataclass(frozen=True, slots=True)
class Need:
    """``text``: what turns the part on, as the end of a sentence."""

    text: str
    is_met: Callable[[Settings], bool]


def missing(part: str) -> Need:
    """``part`` is one that no node of ours has."""
    return Need(part, _never)


def is_missing(need: Need | None) -> bool:
    return need is not None and need.is_met is _never


def _never(_settings: Settings) -> bool:
    return False


_DERIVING: Final = "--l1-rpc-urls and a place of blobs"

LOCAL_NETWORK: Final = Need("--local-network", lambda settings: settings.local_network)
WORKERS: Final = Need("--workers", lambda settings: settings.workers != 0)

# ---- where the chain comes from -------------------------------------------------------------------

UPSTREAM: Final = Need("--upstream-url", lambda settings: settings.upstream_url is not None)
FOLLOWED_NODE: Final = Need(
    "--upstream-url or --bus-url", lambda settings: settings.upstream_url is not None or settings.follows_bus
)
FIRST_BLOCK: Final = Need(
    f"--local-network, --upstream-url, --bus-url, or {_DERIVING}",
    lambda settings: settings.local_network or settings.follows,
)
FOLLOWING: Final = Need(f"--upstream-url, --bus-url, or {_DERIVING}", lambda settings: settings.follows)
L1_READING: Final = Need("--l1-rpc-urls", lambda settings: settings.l1_rpc_urls is not None)
DERIVING: Final = Need(_DERIVING, lambda settings: settings.derives_from_l1)
LEARNING_FROM_L1: Final = Need(
    f"a chain that is learned from L1 ({_DERIVING}): others say so themselves",
    lambda settings: settings.derives_from_l1,
)
STANDBY: Final = Need(
    f"{_DERIVING}, without --rollup-version",
    lambda settings: settings.derives_from_l1 and settings.rollup_version is None,
)
CONSENSUS_CLIENTS: Final = Need(
    "--l1-rpc-urls and --l1-consensus-host-urls",
    lambda settings: settings.l1_rpc_urls is not None and settings.l1_consensus_host_urls is not None,
)
SNAPSHOT_LOCATION: Final = Need(
    "--snapshots-urls or --bus-url",
    lambda settings: (
        not settings.local_network
        and (settings.sync_mode == "full" or settings.snapshots_urls is not None or settings.follows_bus)
    ),
)
LEAF_SERVING: Final = Need("--snapshot-serve-port", lambda settings: settings.snapshot_serve_port is not None)
PARTIAL_SYNC: Final = Need(
    "a --sync-mode that is not full, and no local network",
    lambda settings: settings.sync_mode != "full" and not settings.local_network,
)

# ---- the fleet and the peers ----------------------------------------------------------------------

BUS: Final = Need("--bus-url", lambda settings: settings.is_in_fleet)
BUS_PUBLISHING: Final = Need("--bus-url and --bus-publish", lambda settings: settings.bus_publish)
SHARED_LIMITS: Final = Need(
    "--bus-url and --rpc-limits", lambda settings: settings.is_in_fleet and settings.rpc_limits is not None
)
PEERS: Final = Need("--p2p-enabled", lambda settings: settings.p2p_enabled)
DISCOVERY: Final = Need(
    "--p2p-enabled without --p2p-discovery-disabled",
    lambda settings: settings.p2p_enabled and not settings.p2p_discovery_disabled,
)
PROPOSALS: Final = Need("--p2p-enabled and --l1-rpc-urls", lambda settings: settings.p2p_enabled and settings.reads_l1)

# ---- proposing and proving ------------------------------------------------------------------------

SEQUENCER: Final = Need("--sequencer", lambda settings: settings.sequencer)
ATTESTING: Final = Need("--sequencer and --p2p-enabled", lambda settings: settings.sequencer and settings.p2p_enabled)
SIGNING: Final = Need("--sequencer: without it keys are loaded, and sign nothing", lambda settings: settings.sequencer)
KEYS: Final = Need(
    "--sequencer or --prover-node: without one keys are loaded, and sign nothing",
    lambda settings: settings.sequencer or settings.prover_node,
)
HA_SIGNING: Final = Need(
    "VALIDATOR_HA_SIGNING_ENABLED", lambda settings: settings.sequencer and settings.validator_ha_signing_enabled
)
BUILDING: Final = Need("--local-network or --sequencer", lambda settings: settings.local_network or settings.sequencer)
PROVING: Final = Need("--prover-node", lambda settings: settings.prover_node)
WRITING_TO_L1: Final = Need("--sequencer or --prover-node", lambda settings: settings.sequencer or settings.prover_node)
DETECTION: Final = Need("--l1-rpc-urls or --sentinel-enabled", lambda settings: settings.detects_offenses)
SENTINEL: Final = Need("--sentinel-enabled", lambda settings: settings.sentinel_enabled)
INACTIVITY: Final = Need(
    "--sentinel-enabled or --sequencer", lambda settings: settings.sentinel_enabled or settings.sequencer
)
PEER_OFFENSES: Final = Need(
    "--p2p-enabled and --l1-rpc-urls, or --sequencer",
    lambda settings: settings.sequencer or (settings.p2p_enabled and settings.reads_l1 and settings.detects_offenses),
)
UPSTREAM_ADMIN: Final = Need("--upstream-admin-url", lambda settings: settings.upstream_admin_url is not None)

# ---- transactions ---------------------------------------------------------------------------------

COMMAND_VERIFIER: Final = Need("--proof-verifier-command", lambda settings: settings.proof_verifier_command is not None)
BB_VERIFIER: Final = Need(
    "bb as the verifier, so no --proof-verifier-command", lambda settings: settings.proof_verifier_command is None
)
LOCAL_SIMULATION: Final = Need(
    "--simulate-public-calls local", lambda settings: settings.simulate_public_calls == "local"
)
OTHER_SIMULATOR: Final = Need(
    "--simulate-public-calls upstream", lambda settings: settings.simulate_public_calls == "upstream"
)
SIMULATOR: Final = Need(
    "--public-simulator-url or --upstream-url",
    lambda settings: (
        settings.simulate_public_calls == "local"
        or settings.public_simulator_url is not None
        or settings.upstream_url is not None
    ),
)

# ---- the admin port and monitoring ----------------------------------------------------------------

ADMIN_KEY: Final = Need(
    "an admin port that asks for a key, so no --disable-admin-api-key",
    lambda settings: not settings.disable_admin_api_key,
)
ADMIN_KEY_FILE: Final = Need(
    "a key that is kept: --data-directory, and neither --admin-api-key-hash nor --disable-admin-api-key",
    lambda settings: (
        settings.data_directory is not None
        and settings.admin_api_key_hash is None
        and not settings.disable_admin_api_key
    ),
)
NO_ADMIN_KEY: Final = Need(
    "--disable-admin-api-key: only then callers are told apart by names",
    lambda settings: settings.disable_admin_api_key,
)
METRICS_PORT: Final = Need("a --metrics-port that is not 0", lambda settings: settings.metrics_port != 0)
METRICS: Final = Need(
    "a --metrics-port that is not 0, or --metrics-collector-url",
    lambda settings: settings.metrics_port != 0 or settings.metrics_collector_url is not None,
)
METRICS_COLLECTOR: Final = Need("--metrics-collector-url", lambda settings: settings.metrics_collector_url is not None)
COLLECTOR: Final = Need(
    "--traces-collector-url or --metrics-collector-url",
    lambda settings: settings.traces_collector_url is not None or settings.metrics_collector_url is not None,
)
