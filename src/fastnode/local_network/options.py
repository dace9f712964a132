"""Options of a local network for building blocks, from the settings of the node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fastnode.building.acceptance import AcceptanceLimits
from fastnode.building.budget import BlockOptions, BuildingLimits
from fastnode.kernels import encode
from fastnode.local_network.fees import ETH_PER_FEE_ASSET
from fastnode.local_network.genesis import MANA_LIMIT
from fastnode.local_network.mining import COINBASE
from fastnode.protocol.fields import ZERO_FIELD
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.settings import Settings

__all__ = ["Fork", "LocalNetworkOptions", "allowed_sources", "options_of"]


class Fork(NamedTuple):
    """Chain that a reset network begins with; None in both: what its process began with."""

    source: str | None
    block_number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNetworkOptions:
    """Options for building blocks, unless changed while the network runs.

    ``interval_s`` None: no block without a reason.  ``finality_lag`` in checkpoints.  ``eth_per_fee_asset``: of a new
    network, in 1e-12 ETH.
    """

    limits: BuildingLimits
    automine: bool = True
    interval_s: float | None = None
    finality_lag: int = 2
    manual_proving: bool = False
    coinbase: bytes = COINBASE
    fee_recipient: bytes = ZERO_FIELD
    eth_per_fee_asset: int = ETH_PER_FEE_ASSET
    #: Limits for checkpoints that others built.
    acceptance: AcceptanceLimits = AcceptanceLimits()
    #: Takes the chain, as a chain file, when the node stops.
    dump_file: Path | None = None
    #: Sources that a reset may copy from.
    fork_sources: tuple[str, ...] = ()


def allowed_sources(settings: Settings) -> tuple[str, ...]:
    """Sources that a reset may copy from: those that the operator has named."""
    named = (*(() if settings.fork_from is None else (settings.fork_from,)), *(settings.fork_sources or ()))
    return tuple(dict.fromkeys(named))


def options_of(settings: Settings, chain: ChainInfo, options: BlockOptions | None = None) -> LocalNetworkOptions:
    """From the settings, from what the chain's rollup allows, and from what only the configuration has."""
    constants = chain.l1_constants
    limits = BuildingLimits.of(
        settings,
        slot_duration_s=chain.slot_duration,
        l1_slot_duration_s=int(constants.get("ethereumSlotDuration", chain.slot_duration)),
        mana_limit=int(constants.get("rollupManaLimit", MANA_LIMIT)),
        options=options,
    )
    coinbase, fee_recipient = settings.coinbase, settings.fee_recipient
    return LocalNetworkOptions(
        limits=limits,
        automine=settings.mining and settings.block_time_s is None,
        interval_s=settings.block_time_s,
        finality_lag=settings.finality_lag,
        manual_proving=settings.manual_proving,
        coinbase=COINBASE if coinbase is None else encode.from_hex(coinbase),
        fee_recipient=ZERO_FIELD if fee_recipient is None else encode.from_hex(fee_recipient),
        eth_per_fee_asset=settings.initial_eth_per_fee_asset,
        acceptance=AcceptanceLimits.of(settings),
        dump_file=settings.dump_state or settings.state,
        fork_sources=allowed_sources(settings),
    )
