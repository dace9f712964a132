"""Connections of configuration keys to the parts of the node that apply their changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fastnode.config.allow_list import AllowedElement
from fastnode.config.config_keys import ALLOWED_CALLS, BLOCKS, KEYS_BY_NAME, POLLING, POOL, PROOFS
from fastnode.config.configuration import ConfigView, NodeConfiguration
from fastnode.config.gas_budgets import CHECKPOINT_DA_GAS_MAX
from fastnode.config.settings import Settings
from fastnode.mempool.service import Mempool

if TYPE_CHECKING:
    from fastnode.building.budget import BlockOptions

__all__ = ["configuration_of", "connect_blocks", "connect_mempool", "connect_polling", "settings_with"]

logger = logging.getLogger("fastnode.app")

_PROOFS: Final = "realProofs"


def configuration_of(
    settings: Settings,
    *,
    allow_list_extension: tuple[AllowedElement, ...],
    real_proofs: bool,
    mana_limit: int | None = None,
    l1_chain_id: int | None = None,
    slot_duration_s: int | None = None,
) -> NodeConfiguration:
    """The configuration at the start; whether proofs are asked for is the network's business.

    ``mana_limit``: L2 gas of a checkpoint, None if it is not known.  A block's gas is capped at that of a checkpoint.
    A block without a duration of its own takes the slot.
    """
    initial = {"txPublicSetupAllowListExtend": allow_list_extension or None, _PROOFS: real_proofs}
    limits = {"maxDABlockGas": CHECKPOINT_DA_GAS_MAX} | ({} if mana_limit is None else {"maxL2BlockGas": mana_limit})
    stand_ins = {
        "l1ChainId": l1_chain_id,
        "blockDurationMs": None if slot_duration_s is None else slot_duration_s * 1000,
    }
    return NodeConfiguration(settings, initial, unset={_PROOFS: real_proofs}, limits=limits, stand_ins=stand_ins)


def connect_mempool(configuration: NodeConfiguration, mempool: Mempool) -> None:
    """The pool and its rules follow the configuration."""

    def reconfigure(new: ConfigView, _changed: frozenset[str]) -> None:
        changed = replace(
            mempool.options,
            transactions_disabled=new["disableTransactions"],
            p2p_max_pending_tx_count=new["maxPendingTxCount"],
        )
        mempool.reconfigure(changed)

    def allow(new: ConfigView, _changed: frozenset[str]) -> None:
        extension = new["txPublicSetupAllowListExtend"] or ()
        mempool.reconfigure(replace(mempool.options, setup_allow_list_extension=extension))

    def require_proofs(new: ConfigView, _changed: frozenset[str]) -> None:
        if not new[_PROOFS]:
            logger.warning("proofs of transactions are not checked any more: realProofs was set to false")
        mempool.require_proofs(new[_PROOFS])

    configuration.attach(POOL, reconfigure)
    configuration.attach(ALLOWED_CALLS, allow)
    configuration.attach(PROOFS, require_proofs)


def connect_blocks(
    configuration: NodeConfiguration, settings: Settings, apply: Callable[[Settings, BlockOptions], None]
) -> None:
    """Building and acceptance follow the configuration: ``apply`` gets the settings with its values, and the values of
    keys without a setting."""

    def change(new: ConfigView, _changed: frozenset[str]) -> None:
        from fastnode.building.budget import BlockOptions  # on demand: only nodes that build blocks need it

        apply(settings_with(settings, new), BlockOptions.of(new))

    configuration.attach(BLOCKS, change)


def settings_with(settings: Settings, *views: ConfigView) -> Settings:
    """The settings with the current values of the keys of ``views``."""
    keys = {name: view for view in views for name in view.names}
    changed = {
        setting.attribute: view[name]
        for name, view in keys.items()
        if (setting := KEYS_BY_NAME[name].setting) is not None
    }
    return replace(settings, **changed)


def connect_polling(configuration: NodeConfiguration, set_interval: Callable[[float], None]) -> None:
    """``set_interval``: how many seconds the follower waits between two polls."""

    def change(new: ConfigView, _changed: frozenset[str]) -> None:
        set_interval(new["archiverPollingIntervalMS"] / 1000)

    configuration.attach(POLLING, change)
