"""Settings that earlier releases had and this one does not, and what took their place.

An environment name of this kind is not read: the start says so and goes on.  A flag or a key of
the settings file is an error.  (Service specification, "Breaking changes from v3.x to v4.0.0".)
"""

from __future__ import annotations

from fastnode.records import dataclass

__all__ = ["RENAMED", "Renamed", "advice_for_environment", "advice_for_flag"]


@dataclass(frozen=True, slots=True)
class Renamed:
    """Old names (None where there was none) and what to use now, as the end of a sentence."""

    environment: str | None
    flag: str | None
    environment_advice: str
    flag_advice: str


def _replaced(environment: str | None, flag: str | None, new_environment: str, new_flag: str | None = None) -> Renamed:
    return Renamed(environment, flag, f"use {new_environment}", f"use {new_flag or new_environment}")


_BLOCK_SIZE_ADVICE = (
    "it was removed, as blocks are limited by blob fields and gas; "
    "use --maxL2BlockGas (SEQ_MAX_L2_BLOCK_GAS) and --maxDABlockGas (SEQ_MAX_DA_BLOCK_GAS)"
)

RENAMED: tuple[Renamed, ...] = (
    _replaced("BOT_BASE_FEE_PADDING", "--bot.baseFeePadding", "BOT_MIN_FEE_PADDING", "--bot.minFeePadding"),
    _replaced("SEQ_TX_POLLING_INTERVAL_MS", None, "SEQ_POLLING_INTERVAL_MS"),
    _replaced("SEQ_MAX_L1_TX_INCLUSION_TIME_INTO_SLOT", None, "SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT"),
    _replaced("SEQ_MAX_TX_PER_BLOCK", None, "SEQ_MAX_TX_PER_CHECKPOINT"),
    Renamed("SEQ_MAX_BLOCK_SIZE_IN_BYTES", "--maxBlockSizeInBytes", _BLOCK_SIZE_ADVICE, _BLOCK_SIZE_ADVICE),
    _replaced("SVC_RPC_HOLDOFF_MS", "--rpc-holdoff-ms", "SVC_RPC_BLOCK_WAIT_MS", "--rpc-block-wait-ms"),
    Renamed(
        None,
        "--txPublicSetupAllowList",
        "",
        "use --txPublicSetupAllowListExtend, which extends the defaults and wants a selector in every entry",
    ),
)


def advice_for_environment(name: str) -> str | None:
    """Advice on what replaces the environment name, or None if it never was a setting."""
    return next((row.environment_advice for row in RENAMED if row.environment == name), None)


def advice_for_flag(flag: str) -> str | None:
    """Advice on what replaces the flag (with its dashes), or None if it never was one."""
    return next((row.flag_advice for row in RENAMED if row.flag == flag), None)
