"""An RPC server that simulates the reference's own scenarios: a process of its own for bench_public_execution.py.

The real server, engine, method and simulator; only the state is that of a scenario before the transaction in question
instead of a chain's.  Prints the port it listens on.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.simulation_scenarios import SCENARIOS, calldata_key, state_before
from tests.public_execution.memory_state import MemoryState

from fastnode.api.simulation import methods
from fastnode.http.limits import Limits
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import MethodTable
from fastnode.mempool.service import Mempool
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.simulation import LocalSimulator
from fastnode.public_execution.state import BaseState
from fastnode.serving.server import RpcServer
from fastnode.view import View


class ScenarioSimulator(LocalSimulator):
    """Simulates each transaction on the state that its scenario has before it."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None), lambda _: GasFees(0, 0))
        self._states: dict[bytes, MemoryState] = {}
        for scenario in SCENARIOS.values():
            step, state, self._block = state_before(scenario)
            self._states[calldata_key(step)] = state

    def next_block(self, view: View) -> GlobalVariables:
        return self._block

    def _base_state(self, tx: Tx, view: View) -> BaseState:
        return self._states[tx.calldata[0].hash]


class Options:
    rpc_simulate_public_max_gas_limit = 1 << 62


class NoChain:
    """All that the fast path asks of one."""

    tip_number = 0


class NoMempool:
    """All that the method asks of one."""

    options = Options()
    simulator = None


async def main() -> None:
    table = MethodTable(methods(cast(Mempool, NoMempool()), ScenarioSimulator()))
    view = View(cast(Any, NoChain()))
    server = RpcServer(Engine(table, lambda: view, limits=Limits()), host="127.0.0.1", port=0)
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.setswitchinterval(1e-4)  # as the node does
    uvloop.run(main())
