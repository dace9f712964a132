"""Simulating transactions: here, or by another node that runs them for this one."""

from __future__ import annotations

from typing import Any

from fastnode.api.txs import TX, decode_tx
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Call, Method, Parameter, common
from fastnode.jsonrpc.parameters import BOOLEAN
from fastnode.mempool.pool import NOT_READY
from fastnode.mempool.service import Mempool
from fastnode.mempool.simulation import NO_SIMULATOR
from fastnode.mempool.validation import consistency_reason
from fastnode.protocol.tx import Tx
from fastnode.public_execution.simulation import LocalSimulator

__all__ = ["methods"]


class SimulationMethods:
    """``local`` None: simulations are handed on."""

    def __init__(self, mempool: Mempool | None, local: LocalSimulator | None) -> None:
        self._mempool = mempool
        self._local = local

    def simulate(self, call: Call, value: dict[str, Any], skip_fee_enforcement: bool | None) -> bytes:
        if self._mempool is None:
            raise ServerError(NOT_READY)
        tx = decode_tx(value)
        self._check_total_gas(self._mempool, tx)
        if self._local is not None:
            return self._local.simulate(tx, call.view, skip_fee_enforcement=bool(skip_fee_enforcement))
        return self._hand_on(self._mempool, tx, skip_fee_enforcement=bool(skip_fee_enforcement))

    def _hand_on(self, mempool: Mempool, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        """Checks what another simulator takes for granted."""
        reason = consistency_reason(tx)
        if reason is not None:
            raise ServerError(f"Invalid tx: {reason}", data={"code": "INVALID_TX", "reasons": [reason]})
        if mempool.simulator is None:
            raise ServerError(NO_SIMULATOR)
        return mempool.simulator.simulate(tx, skip_fee_enforcement=skip_fee_enforcement)

    def _check_total_gas(self, mempool: Mempool, tx: Tx) -> None:
        """Gas limits above any block's are allowed, for estimates, but not above the operator's."""
        gas, teardown = tx.data.gas_limits.l2_gas, tx.data.teardown_gas_limits.l2_gas
        maximum = mempool.options.rpc_simulate_public_max_gas_limit
        if gas + teardown > maximum:
            raise ServerError(
                f"Transaction total gas limit {gas + teardown} ({gas} + {teardown}) exceeds maximum gas limit "
                f"{maximum} for simulation"
            )


def methods(mempool: Mempool | None, local: LocalSimulator | None = None) -> list[Method]:
    """``local`` answers if there is one, else the mempool's simulator, which asks another node."""
    return [
        Method(
            name="node_simulatePublicCalls",
            summary="Run the public part of a transaction on the newest state without including it.",
            handler=SimulationMethods(mempool, local).simulate,
            in_thread=True,
            threads=None if local is None else local.threads,
            **common(
                "PublicSimulationOutput", Parameter("tx", TX), Parameter("skipFeeEnforcement", BOOLEAN, optional=True)
            ),
        ),
    ]
