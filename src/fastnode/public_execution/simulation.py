"""Simulating a transaction on the newest state: what ``node_simulatePublicCalls`` answers.

Nothing is validated: neither proof nor rules of the pool count, and calldata is taken by the hash that is claimed for
it.  So a wallet can try what it has not proven yet.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.errors import (
    DecodeError,
    ExecutionCancelled,
    ExecutionLimitExceeded,
    Refused,
    ResponseTooLarge,
    TxExecutionError,
    ValueRefused,
)
from fastnode.log import log_facts
from fastnode.log_index.function_names import FunctionNames
from fastnode.protocol.fields import ZERO_FIELD, hex_text
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.public_execution.answers import Require, any_size, simulation_json
from fastnode.public_execution.executor import BlockExecutor, programs_of
from fastnode.public_execution.overrides import OverriddenState, Overrides
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions
from fastnode.public_execution.state import BaseState, ViewState
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastnode.mempool.clock import SlotClock
    from fastnode.public_execution.tracing import Trace
    from fastnode.view import View

__all__ = ["ADMITTED_MAX", "RUNNING_MAX", "TRACING_MAX", "Asker", "LocalSimulator", "SimulationOptions"]

logger = logging.getLogger(__name__)

#: Simulations that should run at the same time: each may need much memory, and they hardly wait for anything but cores.
RUNNING_MAX: Final = max(4, 2 * (os.cpu_count() or 1))
#: The same of traces: each is work for the interpreter from its first step to its last.
TRACING_MAX: Final = 1
#: Memory of all programs that run for clients, beyond 16 MiB for each: one alone may need so much.
SHARED_MEMORY_BYTES_MAX: Final = 256 << 20
#: JSON of one simulation: debug logs may have more than a node is to render.
ANSWER_BYTES_MAX: Final = 40 << 20
#: Simulations, or traces, that should run or wait for their turn.
ADMITTED_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """``timeout_s``: so long one simulation may take."""

    debug_log_memory_reads_max: int = 125_000
    timeout_s: float = 5.0


class Asker(Protocol):
    """A client that waits for a simulation, and may go before it is done."""

    def call_at_end(self, stop: Callable[[], None]) -> None:
        """``stop`` is called when it goes; at once if it has gone."""

    def forget_end(self, stop: Callable[[], None]) -> None: ...


class LocalSimulator:
    """Usable from any thread, many at a time.  ``close`` ends what is running.

    ``fees`` gives what a block built now would charge at least; ``names`` those of functions, and ``artifacts`` those
    of contracts too, for stacks, debug logs and assertions.
    """

    def __init__(
        self,
        clock: SlotClock,
        fees: Callable[[View], GasFees],
        options: SimulationOptions | None = None,
        names: FunctionNames | None = None,
        artifacts: ArtifactStore | None = None,
    ) -> None:
        options = options or SimulationOptions()
        self._clock = clock
        self._fees = fees
        self._names = FunctionNames() if names is None else names  # an empty one is false
        self._artifacts = artifacts or ArtifactStore(None)
        self._timeout_s = options.timeout_s
        self._execution = ExecutionOptions(
            debug_log_memory_reads_max=options.debug_log_memory_reads_max,
            shared_memory_bytes_max=SHARED_MEMORY_BYTES_MAX,
        )
        self._running: set[BlockExecutor] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """Simulations under way end with an error, and so does each later one."""
        with self._lock:
            self._is_closed = True
            for executor in self._running:
                executor.cancel()

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
        """PublicSimulationOutput as JSON.  It ends with ExecutionCancelled when ``asker`` goes.  ``require`` is called
        with the size of the answer before it grows.

        Refused when no block could include the transaction, with the reason of release 4.x, or when the
        simulation needs more than it may use here; ValueRefused for what is no transaction at all.
        """
        try:
            executable = ExecutableTx.of(tx, accepts_overlong_logs=True)
        except DecodeError as error:
            raise ValueRefused(f"Invalid params: tx (parameter 1) is no transaction: {error}") from None
        block = self.next_block(view)
        programs = programs_of(view.chain.chain.release)
        base = self._base_state(tx, view)
        if overrides is not None:
            base = OverriddenState(base, overrides)
        executor = BlockExecutor(base, block, options=self._execution, programs=programs)
        executed = self.execute(executor, executable, skip_fee_enforcement=skip_fee_enforcement, asker=asker)
        naming = Naming(self._artifacts, view.chain, self._names.name_of, registered_only=True)
        return simulation_json(executed, block, naming, _limited(require))

    def execute(
        self,
        executor: BlockExecutor,
        tx: ExecutableTx,
        *,
        skip_fee_enforcement: bool = False,
        asker: Asker | None = None,
        trace: Trace | None = None,
        deadline: float | None = None,
    ) -> ExecutedTx:
        """Run a transaction within the limits of a simulation; errors as for :meth:`simulate`."""
        with self._counted(executor), _until_gone(asker, executor):
            deadline = self.deadline() if deadline is None else deadline
            try:
                return executor.execute(tx, skip_fee_enforcement=skip_fee_enforcement, deadline=deadline, trace=trace)
            except TxExecutionError as error:
                raise Refused(str(error), data={"code": "SIMULATION_FAILED"}) from None
            except ExecutionLimitExceeded as error:
                logger.info("simulation given up", extra=log_facts(tx=hex_text(tx.tx_hash), reason=error.message))
                raise
            finally:
                if trace is not None:
                    trace.detach()

    def deadline(self) -> float:
        """When a simulation, or a trace with its answer, that begins now must have ended, by ``time.monotonic``."""
        return time.monotonic() + self._timeout_s

    @property
    def options(self) -> ExecutionOptions:
        """Limits of one execution."""
        return self._execution

    @property
    def names(self) -> FunctionNames:
        """Registered names of functions."""
        return self._names

    def next_block(self, view: View) -> GlobalVariables:
        """The globals of the block that is simulated: the next one, with no coinbase, at the lowest price.

        It is not in a slot before the newest block's, however far the chain's time is ahead of the clock.
        """
        chain = view.chain.chain
        newest = view.chain.block_info(view.chain.tip_number)
        assert newest is not None
        slot = max(self._clock.next_slot(), newest.slot_number)
        return GlobalVariables(
            chain_id=chain.l1_chain_id,
            version=chain.rollup_version,
            block_number=view.chain.tip_number + 1,
            slot_number=slot,
            timestamp=self._clock.genesis_time + slot * self._clock.slot_duration,
            coinbase=bytes(20),
            fee_recipient=ZERO_FIELD,
            gas_fees=self._fees(view),
        )

    def _base_state(self, _tx: Tx, view: View) -> BaseState:
        return ViewState(view)

    @contextmanager
    def _counted(self, executor: BlockExecutor) -> Iterator[None]:
        """Kept for :meth:`close`."""
        with self._lock:
            if self._is_closed:
                raise ExecutionCancelled
            self._running.add(executor)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(executor)


def _limited(require: Require) -> Require:
    def require_limited(size: int) -> None:
        if size > ANSWER_BYTES_MAX:
            raise ResponseTooLarge(ANSWER_BYTES_MAX)
        require(size)

    return require_limited


@contextmanager
def _until_gone(asker: Asker | None, executor: BlockExecutor) -> Iterator[None]:
    """A running simulation is cancelled when nobody waits for it any more."""
    if asker is None:
        yield
        return
    asker.call_at_end(executor.cancel)
    try:
        yield
    finally:
        asker.forget_end(executor.cancel)
