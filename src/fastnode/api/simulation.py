"""Simulating transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Call, Method, Parameter, common
from fastnode.jsonrpc.parameters import BOOLEAN
from fastnode.mempool.pool import NOT_READY

if TYPE_CHECKING:
    from fastnode.public_execution.service import Simulation

__all__ = ["methods"]


class SimulationMethods:
    """``simulation`` None: the method says that the node is not ready."""

    def __init__(self, simulation: Simulation | None) -> None:
        self._simulation = simulation

    def simulate(self, call: Call, value: dict[str, Any], skip_fee_enforcement: bool | None) -> bytes:
        if self._simulation is None:
            raise ServerError(NOT_READY)
        return self._simulation.simulate(decode_tx(value), call.view, skip_fee_enforcement=bool(skip_fee_enforcement))


def methods(simulation: Simulation | None) -> list[Method]:
    """node_simulatePublicCalls over the node's simulations."""
    return [
        Method(
            name="node_simulatePublicCalls",
            summary="Run the public part of a transaction on the newest state without including it.",
            handler=SimulationMethods(simulation).simulate,
            in_thread=True,
            threads=None if simulation is None else simulation.threads,
            **common(
                "PublicSimulationOutput", Parameter("tx", TX), Parameter("skipFeeEnforcement", BOOLEAN, optional=True)
            ),
        ),
    ]
