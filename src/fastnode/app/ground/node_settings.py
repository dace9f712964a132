"""Limits, keys, the network and the budget of a block, derived from the settings."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.config.gas_budgets import BlockBudget
from fastnode.config.settings import Settings, rows
from fastnode.errors import SettingError
from fastnode.http.allowance import MIB, MemoryBudget, default_budget
from fastnode.http.limits import Limits
from fastnode.log import log_facts
from fastnode.protocol import releases
from fastnode.protocol.releases import Release
from fastnode.serving.api_key import AdminKey, choose_admin_key
from fastnode.values.counts import AUTO

if TYPE_CHECKING:
    from fastnode.world_state.view import WorldStateView

__all__ = [
    "admin_key_of",
    "budget_of",
    "check_network",
    "check_release",
    "limits_of",
    "log_block_budget",
    "log_bodies",
    "log_history",
    "memory_budget_of",
    "unknown_release",
    "untried_parts",
    "worker_count",
]

logger = logging.getLogger("fastnode.app.node")


def check_network(settings: Settings, chain: ChainInfo) -> None:
    """StartError if the chain is not on the network that the settings name."""
    addresses = chain.node_info.get("l1ContractAddresses", {})
    for name, wanted, actual in (
        ("l1-chain-id", settings.l1_chain_id, chain.node_info.get("l1ChainId")),
        ("rollup-version", settings.rollup_version, chain.node_info.get("rollupVersion")),
        ("registry-address", settings.registry_address, addresses.get("registryAddress")),
    ):
        if wanted is not None and str(wanted) != str(actual).lower():
            raise SettingError(
                f"the chain is on another network: {name} is to be {wanted}, but the chain's is {actual}"
            )
    version = settings.network_node_version
    if version is not None and chain.node_version and _release(version) != _release(chain.node_version):
        extra = log_facts(network=version, chain=chain.node_version)
        logger.warning("the network's configuration names another release than that of the chain", extra=extra)


#: Memory of the requests of one address in addition to the largest answer.
_ADDRESS_SPARE_BYTES: Final = 32 * MIB
#: Differences of a local network of a release whose test accounts are not known.
_NO_ACCOUNTS: Final = "the accounts and contracts of its test networks are not known: give fee juice with --prefund"


def untried_parts(settings: Settings, release: Release) -> dict[str, str]:
    """Warnings, by the part of the node, that it deals with nodes of a release that no published one was tried with."""
    found: dict[str, str] = {}
    if release.limitation is None:
        return found
    how = "by its public source: no published node of it was tried"
    if settings.untried_upstreams and settings.upstream_url:
        found["upstreams"] = f"nodes of release {release.name} are followed, and handed transactions, {how}"
    if settings.untried_peers and settings.p2p_enabled:
        found["peers"] = f"nodes of release {release.name} are peers, {how}"
    return found


def check_release(settings: Settings, chain: ChainInfo) -> None:
    """SettingError for what a node cannot do on a chain of its release; says what else it does not."""
    release = chain.release
    if release.limitation is None:
        return
    for row in rows(Settings):
        if row.whole_release and getattr(settings, row.attribute):
            if not row.untried:
                raise SettingError(f"{row.flag}: {release.limitation}")
            if not getattr(settings, row.untried):
                flag = f"--{row.untried.replace('_', '-')}"
                raise SettingError(f"{row.flag}: {release.limitation}; {flag} takes it as far as it is known")
    untried = untried_parts(settings, release)
    what, reason = "the chain is of a release that is followed from L1 alone", release.limitation
    if settings.local_network:
        what, reason = "the network is of a release that no published wallet was tried with", _NO_ACCOUNTS
    elif untried:
        what = "the chain is of a release that no published node was tried with"
        reason = "; ".join(untried.values())
    logger.warning(what, extra=log_facts(release=release.name, reason=reason))


def unknown_release(chain: ChainInfo) -> dict[str, str]:
    """The warning, by its name in /status, that no record has the release of a chain, as that of a file; else empty."""
    version = chain.node_version
    if releases.of_version(version) is not None:
        return {}
    known = ", ".join(one.name for one in releases.known())
    reason = (
        f"the chain is of {f'node version {version}' if version else 'an unnamed node version'}, which belongs to no "
        f"known release ({known}): it is served by the rules of {chain.release.name}. Use a newer fastnode, or import "
        f"it again with --release-record FILE"
    )
    logger.warning("the release of the chain has no record", extra=log_facts(reason=reason))
    return {"release": reason}


def _release(version: str) -> list[str]:
    """Take the part that makes a difference: "4.2" of "v4.2.0"."""
    return version.removeprefix("v").split(".")[:2]


def log_block_budget(settings: Settings, chain: ChainInfo) -> None:
    """Say what a block may use, if L1's limits are known."""
    constants = chain.l1_constants
    if not {"slotDuration", "ethereumSlotDuration", "rollupManaLimit"} <= constants.keys():
        return
    if settings.sequencer:
        from fastnode.sequencing.options import SequencerOptions

        limits = SequencerOptions.of(
            settings, chain
        ).limits  # what its timetable leaves, which has allowances of its own
        gas, blocks_max = limits.block_gas, limits.blocks_per_checkpoint
        facts = log_facts(l2_gas=gas.l2_gas, da_gas=gas.da_gas, blocks_max=blocks_max)
    else:
        budget = BlockBudget.of(
            settings,
            slot_duration_s=int(constants["slotDuration"]),
            l1_slot_duration_s=int(constants["ethereumSlotDuration"]),
            mana_limit=int(constants["rollupManaLimit"]),
        )
        facts = log_facts(l2_gas=budget.l2_gas, da_gas=budget.da_gas, blocks_max=budget.blocks_max)
    logger.info("budget of a block", extra=facts)


def log_bodies(settings: Settings, chain: ChainView) -> None:
    """Say from which block on bodies are kept, if not all are: what is pruned does not come back."""
    if settings.keep_blocks or chain.oldest_body > 1:
        kept = f"of {settings.keep_blocks} final blocks" if settings.keep_blocks else "all from there on"
        logger.info("bodies of blocks", extra=log_facts(oldest_block=chain.oldest_body, kept=kept))
        if not settings.keep_blocks:
            reason = "pruned before, by another --keep-blocks or where a snapshot was made; only a new sync has them"
            logger.warning("not all blocks have bodies", extra=log_facts(oldest_block=chain.oldest_body, reason=reason))


def log_history(settings: Settings, state: WorldStateView, *, is_followed: bool, runs_follow: bool) -> None:
    """Say from which block on the state can be asked for, and what is faster to who begins to follow a chain."""
    checkpoints = settings.world_state_checkpoint_history
    facts: dict[str, object] = {"oldest_block": state.oldest}
    facts["kept"] = f"{checkpoints} checkpoints" if checkpoints > 0 else "all blocks from there on"
    if settings.world_state_history_from == "sync":
        facts["begins"] = "where the first catch-up leads" if runs_follow else "here"
    elif state.tip.number == 0 and is_followed:
        facts["faster"] = "--world-state-history-from sync, without the state at blocks that are final by now"
    logger.info("history of the state", extra=log_facts(**facts))


def admin_key_of(settings: Settings) -> AdminKey:
    """The key of the admin port; StartError when there is none."""
    return choose_admin_key(
        disabled=settings.disable_admin_api_key,
        digest_text=settings.admin_api_key_hash,
        reset=settings.reset_admin_api_key,
        data_directory=settings.data_directory,
    )


def limits_of(settings: Settings) -> Limits:
    """The RPC limits that settings ask for."""
    return Limits(
        body_bytes_max=settings.rpc_max_body_size,
        batch_calls_max=settings.rpc_max_batch_size,
        response_bytes_max=settings.rpc_max_response_size,
        head_time_s=settings.rpc_header_timeout_s,
        body_time_s=settings.rpc_body_timeout_s,
        idle_time_s=settings.rpc_keep_alive_s,
        write_time_s=settings.rpc_write_timeout_s,
        connections_max=settings.rpc_max_connections,
        connections_per_address_max=settings.rpc_max_connections_per_address,
        # Slow clients take no more than half of the budget from all others; and one answer must find room.
        unsent_bytes_max=max(
            min(settings.rpc_max_unsent_size, memory_budget_of(settings) // 2), settings.rpc_max_response_size
        ),
    )


def worker_count(settings: Settings) -> int:
    """Processes that answer on the public port; 0: the node's own."""
    if settings.workers == AUTO:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(settings.workers)


def budget_of(settings: Settings) -> MemoryBudget:
    """The memory budget of all requests of this process."""
    per_address = settings.rpc_memory_budget_per_address
    if per_address is None:
        per_address = settings.rpc_max_response_size + _ADDRESS_SPARE_BYTES
    return MemoryBudget(memory_budget_of(settings), per_address or None)


def memory_budget_of(settings: Settings) -> int:
    """Bytes that requests may take; SettingError if the largest request and its answer would not find room."""
    budget = settings.rpc_memory_budget or default_budget()
    needed = 2 * settings.rpc_max_response_size + 2 * settings.rpc_max_body_size
    if settings.rpc_memory_budget is not None and budget < needed:
        raise SettingError(
            f"rpc-memory-budget: {budget} bytes are too few for one request: it may need {needed}, twice the sizes "
            f"of --rpc-max-response-size ({settings.rpc_max_response_size}) and --rpc-max-body-size "
            f"({settings.rpc_max_body_size})"
        )
    return max(budget, needed)
