"""Simulations as a node offers them: run here, or by another node that an operator or a followed chain names.

simulation = Simulation.of(settings, clock, minimum_fees, upstream)
methods = api.simulation.methods(simulation)
simulation.close()                                   # before the chain's databases
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from fastnode.errors import Refused, SettingError
from fastnode.mempool.simulation import NO_SIMULATOR, PublicSimulator, UpstreamSimulator
from fastnode.mempool.validation import consistency_reason
from fastnode.protocol.tx import Tx
from fastnode.public_execution.answers import Require, any_size
from fastnode.public_execution.simulation import Asker, LocalSimulator, SimulationOptions
from fastnode.public_execution.tracer import Tracer

if TYPE_CHECKING:
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.config.settings import Settings
    from fastnode.log_index.function_names import FunctionNames
    from fastnode.mempool.clock import SlotClock
    from fastnode.mempool.known_txs import FoundTx
    from fastnode.protocol.header import GasFees
    from fastnode.public_execution.overrides import Overrides
    from fastnode.view import View

__all__ = ["Simulation"]

logger = logging.getLogger(__name__)

#: Limit for both kinds of gas of one transaction together: 20 times what a transaction may have.
GAS_LIMIT_MAX: Final = 130_800_000

_NO_OVERRIDES: Final = (
    "overrides (parameter 3) are not applied: this node does not run simulations itself, and another one may not know "
    "them; the operator may set --simulate-public-calls local"
)


class Simulation:
    """``local`` runs transactions here; without it ``other`` is asked, and without both nothing is simulated.

    ``gas_limit_max``: the most L2 gas that a transaction and its teardown may ask for together.
    """

    def __init__(
        self,
        local: LocalSimulator | None = None,
        other: PublicSimulator | None = None,
        *,
        gas_limit_max: int = GAS_LIMIT_MAX,
    ) -> None:
        self._local = local
        self._other = other
        self._gas_limit_max = gas_limit_max

    @classmethod
    def of(
        cls,
        settings: Settings,
        clock: SlotClock,
        minimum_fees: Callable[[View], GasFees],
        upstream: PublicSimulator | None = None,
        names: FunctionNames | None = None,
        artifacts: ArtifactStore | None = None,
    ) -> Self:
        """As the settings ask.  ``upstream``: asked if no other URL is set.  SettingError for an invalid URL."""
        url = settings.public_simulator_url
        if url is not None and not url.startswith(("http://", "https://")):
            raise SettingError(f"--public-simulator-url {url!r} is no http:// or https:// URL")
        gas_limit_max = settings.rpc_simulate_public_max_gas_limit
        if settings.simulate_public_calls != "local":
            other = upstream if url is None else UpstreamSimulator(url)
            return cls(other=other, gas_limit_max=gas_limit_max)
        if url is not None:
            logger.warning("--public-simulator-url is not asked without --simulate-public-calls upstream")
        options = SimulationOptions(
            debug_log_memory_reads_max=settings.rpc_simulate_public_max_debug_log_memory_reads,
            timeout_s=settings.rpc_simulate_timeout_ms / 1000,
        )
        return cls(LocalSimulator(clock, minimum_fees, options, names, artifacts), gas_limit_max=gas_limit_max)

    def close(self) -> None:
        if self._local is not None:
            self._local.close()

    @property
    def is_local(self) -> bool:
        """True if transactions are run here, which keeps a processor busy."""
        return self._local is not None

    def tracer(self, find: Callable[[bytes], FoundTx | None], artifacts: ArtifactStore | None = None) -> Tracer | None:
        """Traces over the simulations of this node; None where another one runs them."""
        return None if self._local is None else Tracer(self._local, find, artifacts)

    def check_gas(self, tx: Tx) -> None:
        """Refused for more gas than a simulation may ask for."""
        self._check_total_gas(tx)

    def simulate(
        self,
        tx: Tx,
        view: View,
        *,
        skip_fee_enforcement: bool,
        overrides: Overrides | None = None,
        asker: Asker | None = None,
        require: Require = any_size,
    ) -> bytes:
        """PublicSimulationOutput as JSON; Refused when the transaction cannot be simulated.  What runs here ends
        when ``asker`` goes; ``require`` is called with the size of its answer before that grows."""
        self._check_total_gas(tx)
        if self._local is not None:
            return self._local.simulate(
                tx,
                view,
                skip_fee_enforcement=skip_fee_enforcement,
                overrides=overrides,
                asker=asker,
                require=require,
            )
        if overrides is not None:
            raise Refused(_NO_OVERRIDES, data={"code": "NO_OVERRIDES"})
        # Another simulator checks nothing of this.
        reason = consistency_reason(tx)
        if reason is not None:
            raise Refused(f"Invalid tx: {reason}", data={"code": "INVALID_TX", "reasons": [reason]})
        if self._other is None:
            raise Refused(NO_SIMULATOR)
        return self._other.simulate(tx, skip_fee_enforcement=skip_fee_enforcement)

    def _check_total_gas(self, tx: Tx) -> None:
        """Gas limits above any block's are allowed, for estimates, but not above the operator's."""
        gas, teardown = tx.data.gas_limits.l2_gas, tx.data.teardown_gas_limits.l2_gas
        if gas + teardown > self._gas_limit_max:
            raise Refused(
                f"Transaction total gas limit {gas + teardown} ({gas} + {teardown}) exceeds maximum gas limit "
                f"{self._gas_limit_max} for simulation"
            )
