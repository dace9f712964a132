"""Results of executing one transaction, and its limits."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastnode.protocol.effects import TxEffect
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.call_tree import CallRecord
from fastnode.public_execution.host import DebugLogEntry
from fastnode.records import dataclass

__all__ = ["ExecutedTx", "ExecutionOptions", "GasReport"]


class GasReport(NamedTuple):
    """``billed`` is what is paid for: teardown counts with its limit, in ``total`` with what it used.  ``public`` is
    what the public calls used; as in release 4.x its counters wrap at 2^32."""

    total: Gas
    billed: Gas
    teardown: Gas
    public: Gas

    def to_json(self) -> dict[str, Any]:
        return {
            name: {"daGas": gas.da_gas, "l2Gas": gas.l2_gas}
            for name, gas in (
                ("totalGas", self.total),
                ("publicGas", self.public),
                ("teardownGas", self.teardown),
                ("billedGas", self.billed),
            )
        }


@dataclass(frozen=True, slots=True)
class ExecutedTx:
    """``app_outputs`` has what each call of the app logic returned or reverted with, joined fields.

    ``failure`` is the path of calls to what failed, outermost first; None when nothing did, or when the record of
    calls does not reach it.
    """

    effect: TxEffect
    gas: GasReport
    app_outputs: tuple[bytes, ...] = ()
    failure: tuple[CallRecord, ...] | None = None
    debug_logs: tuple[DebugLogEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """Limits of an execution.  Debug logs are collected in simulations and on networks without real proofs."""

    collect_debug_logs: bool = True
    debug_log_memory_reads_max: int = 125_000
    #: Bytes of memory of the calls of one transaction that are open at one time.  A transaction in a block cannot reach
    #: them with its gas: all nodes execute it to the same end.
    memory_bytes_max: int = 1 << 28
    #: The same of all executions of this process that have such a limit, beyond the first 16 MiB of each; 0: none.
    shared_memory_bytes_max: int = 0
