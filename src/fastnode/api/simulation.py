"""Simulating transactions."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.mempool.pool import NOT_READY
from fastnode.values.choices import BOOLEAN

if TYPE_CHECKING:
    from fastnode.protocol.tx import Tx
    from fastnode.public_execution.service import Simulation

__all__ = ["methods"]


class SimulationMethods:
    """``simulation`` None: the method says that the node is not ready."""

    def __init__(self, simulation: Simulation | None) -> None:
        self._simulation = simulation

    def decode(self, context: Context, value: dict[str, Any], skip_fee_enforcement: bool | None) -> tuple[Tx, bool]:
        """Begins to hash, so that transactions that wait for their turn are hashed together meanwhile."""
        if self._simulation is None:
            raise ServerError(NOT_READY)
        return decode_tx(context, value), bool(skip_fee_enforcement)

    def simulate(self, context: Context, tx: Tx, skip_fee_enforcement: bool) -> bytes:
        assert self._simulation is not None
        return self._simulation.simulate(
            tx, context.view, skip_fee_enforcement=skip_fee_enforcement, asker=context.allowance.party
        )


def methods(simulation: Simulation | None, threads: Executor | None = None) -> list[Method]:
    """node_simulatePublicCalls over the node's simulations, in ``threads`` (None: in those of all requests)."""
    handlers = SimulationMethods(simulation)
    return [
        Method(
            name="node_simulatePublicCalls",
            summary="Run the public part of a transaction on the newest state without including it.",
            prepare=handlers.decode,
            handler=handlers.simulate,
            in_thread=True,
            waits=True,
            threads=threads,
            **common(
                "PublicSimulationOutput", Parameter("tx", TX), Parameter("skipFeeEnforcement", BOOLEAN, optional=True)
            ),
        ),
    ]
