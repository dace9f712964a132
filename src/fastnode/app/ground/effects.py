"""Connections of configuration keys to the parts of the node that apply their changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from fastnode.config.allow_list import AllowedElement
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.gas_budgets import CHECKPOINT_DA_GAS_MAX
from fastnode.config.settings import Settings
from fastnode.mempool.service import Mempool

__all__ = [
    "BUILDING_KEYS",
    "configuration_of",
    "connect_building",
    "connect_mempool",
    "connect_offenses",
    "connect_polling",
]

_POOL_KEYS: Final = (
    "txPublicSetupAllowListExtend",
    "disableTransactions",
    "maxPendingTxCount",
)
#: Read by the watch for offenses whenever it looks.
_OFFENSE_KEYS: Final = (
    "slashInactivityPenalty",
    "slashProposeInvalidAttestationsPenalty",
    "slashAttestDescendantOfInvalidPenalty",
    "slashBroadcastedInvalidBlockPenalty",
    "slashDuplicateProposalPenalty",
    "slashDuplicateAttestationPenalty",
    "slashInactivityTargetPercentage",
    "slashInactivityConsecutiveEpochThreshold",
    "slashGracePeriodL2Slots",
    "slashOffenseExpirationRounds",
)
#: Keys of what builds blocks, and the settings of theirs.
BUILDING_KEYS: Final = {
    "maxTxsPerBlock": "max_txs_per_block",
    "maxTxsPerCheckpoint": "max_txs_per_checkpoint",
    "minTxsPerBlock": "min_txs_per_block",
    "maxL2BlockGas": "max_l2_block_gas",
    "maxDABlockGas": "max_da_block_gas",
    "perBlockAllocationMultiplier": "per_block_allocation_multiplier",
    "coinbase": "coinbase",
    "feeRecipient": "fee_recipient",
    "validateMaxL2BlockGas": "validate_max_l2_block_gas",
    "validateMaxDABlockGas": "validate_max_da_block_gas",
    "validateMaxTxsPerBlock": "validate_max_txs_per_block",
    "validateMaxTxsPerCheckpoint": "validate_max_txs_per_checkpoint",
}
logger = logging.getLogger("fastnode.app")

#: A key without a setting.
_VALID_TXS_MIN: Final = "minValidTxsPerBlock"
_PROOFS: Final = "realProofs"
_POLLING: Final = "archiverPollingIntervalMS"


def configuration_of(
    settings: Settings,
    *,
    allow_list_extension: tuple[AllowedElement, ...],
    real_proofs: bool,
    mana_limit: int | None = None,
) -> NodeConfiguration:
    """The configuration at the start; whether proofs are asked for is the network's business.

    ``mana_limit``: L2 gas of a checkpoint, None if it is not known.  A block's gas is capped at that of a checkpoint.
    """
    initial = {"txPublicSetupAllowListExtend": allow_list_extension or None, _PROOFS: real_proofs}
    limits = {"maxDABlockGas": CHECKPOINT_DA_GAS_MAX} | ({} if mana_limit is None else {"maxL2BlockGas": mana_limit})
    return NodeConfiguration(settings, initial, unset={_PROOFS: real_proofs}, limits=limits)


def connect_mempool(configuration: NodeConfiguration, mempool: Mempool) -> None:
    """The pool and its rules follow the configuration."""

    def reconfigure(new: NodeConfiguration, _changed: frozenset[str]) -> None:
        mempool.reconfigure(
            replace(
                mempool.options,
                setup_allow_list_extension=new["txPublicSetupAllowListExtend"] or (),
                transactions_disabled=new["disableTransactions"],
                p2p_max_pending_tx_count=new["maxPendingTxCount"],
            )
        )

    def require_proofs(new: NodeConfiguration, _changed: frozenset[str]) -> None:
        if not new[_PROOFS]:
            logger.warning("proofs of transactions are not checked any more: realProofs was set to false")
        mempool.require_proofs(new[_PROOFS])

    configuration.on_change(_POOL_KEYS, reconfigure)
    configuration.on_change((_PROOFS,), require_proofs)


def connect_building(
    configuration: NodeConfiguration, settings: Settings, apply: Callable[[Settings, int | None], None]
) -> None:
    """Let building and acceptance follow the configuration: ``apply`` gets the settings as they would be with it, and
    the fewest valid transactions of a block."""

    def change(new: NodeConfiguration, _changed: frozenset[str]) -> None:
        changed = replace(settings, **{attribute: new[key] for key, attribute in BUILDING_KEYS.items()})
        apply(changed, new[_VALID_TXS_MIN])

    configuration.on_change((*BUILDING_KEYS, _VALID_TXS_MIN), change)


def connect_polling(configuration: NodeConfiguration, set_interval: Callable[[float], None]) -> None:
    """``set_interval``: how many seconds the follower waits between two polls."""

    def change(new: NodeConfiguration, _changed: frozenset[str]) -> None:
        set_interval(new[_POLLING] / 1000)

    configuration.on_change((_POLLING,), change)


def connect_offenses(configuration: NodeConfiguration) -> None:
    """The watch for offenses reads the configuration each time: a change needs no more."""
    configuration.on_change(_OFFENSE_KEYS, lambda _new, _changed: None)
