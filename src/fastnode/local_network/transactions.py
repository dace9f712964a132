"""Notes on transactions of a local network beside their effects: public calls, debug logs, why they failed or were
dropped.

Kept in memory, for the newest transactions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import orjson

from fastnode.protocol.fields import FIELD_BYTES, field_texts, hex_text
from fastnode.public_execution.answers import debug_log_json, revert_reason_json
from fastnode.public_execution.call_tree import selector_of
from fastnode.public_execution.results import ExecutedTx

if TYPE_CHECKING:
    from fastnode.protocol.tx import Tx

__all__ = ["TransactionNotes"]

_T = TypeVar("_T")

#: Transactions that are remembered, for each kind of note.
KEPT_MAX: Final = 10_000
#: Arguments of a call that are remembered.
ARGUMENTS_MAX: Final = 32


class _Newest(Generic[_T]):
    """Values by hash; the oldest make room."""

    def __init__(self) -> None:
        self._values: OrderedDict[bytes, _T] = OrderedDict()

    def put(self, tx_hash: bytes, value: _T) -> None:
        self._values[tx_hash] = value
        if len(self._values) > KEPT_MAX:
            self._values.popitem(last=False)

    def get(self, tx_hash: bytes) -> _T | None:
        return self._values.get(tx_hash)

    def forget(self, tx_hash: bytes) -> None:
        self._values.pop(tx_hash, None)


def _public_calls(tx: Tx) -> Iterator[dict[str, Any]]:
    calldata = {entry.hash: entry.values for entry in tx.calldata}
    data = tx.data
    teardown = () if data.teardown_call is None else (data.teardown_call,)
    for phase, calls in (("setup", data.setup_calls), ("app", data.app_calls), ("teardown", teardown)):
        for call in calls:
            values = calldata.get(call.calldata_hash, b"")
            selector = selector_of(values)
            yield {
                "phase": phase,
                "contractAddress": hex_text(call.contract_address),
                "functionSelector": None if selector is None else hex_text(selector),
                "msgSender": hex_text(call.msg_sender),
                "isStaticCall": bool(call.is_static_call),
                "args": field_texts(values[FIELD_BYTES : (1 + ARGUMENTS_MAX) * FIELD_BYTES]),
            }


class TransactionNotes:
    """Written by the thread that builds blocks, read by any."""

    def __init__(self) -> None:
        self._debug_logs: _Newest[bytes] = _Newest()
        self._failures: _Newest[bytes] = _Newest()
        self._calls: _Newest[bytes] = _Newest()
        self._drops: _Newest[str] = _Newest()

    def on_executed(self, tx: Tx, executed: ExecutedTx) -> None:
        """It is in a block."""
        tx_hash = executed.effect.tx_hash
        self._drops.forget(tx_hash)
        if tx.data.is_public:
            self._calls.put(tx_hash, orjson.dumps(list(_public_calls(tx))))
        if executed.debug_logs:
            logs = [debug_log_json(entry) for entry in executed.debug_logs]
            self._debug_logs.put(tx_hash, orjson.dumps(logs))
        if executed.effect.revert_code:
            self._failures.put(tx_hash, orjson.dumps(revert_reason_json(executed)))

    def on_dropped(self, tx_hash: bytes, reason: str) -> None:
        self._drops.put(tx_hash, reason)

    def debug_logs_json(self, tx_hash: bytes) -> bytes | None:
        """DebugLog[] of its public functions; None if there were none."""
        return self._debug_logs.get(tx_hash)

    def failure_json(self, tx_hash: bytes) -> bytes | None:
        """SimulationError, with the stack of calls, of one that reverted."""
        return self._failures.get(tx_hash)

    def calls_json(self, tx_hash: bytes) -> bytes | None:
        """Its public calls in the order in which they ran: phase, contract, selector, sender, arguments; None if it has
        none."""
        return self._calls.get(tx_hash)

    def dropped_reason(self, tx_hash: bytes) -> str | None:
        """Reason why no block took the transaction."""
        return self._drops.get(tx_hash)
