"""The answer to a simulation, PublicSimulationOutput, field by field as release 4.x gives it.

Where a function's name is registered, ``functionName`` stands beside its selector in stacks and debug logs; where the
artifact of its contract is, ``contractName`` too, and the text of the assertion that failed (``assertion``).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from fastnode.protocol.fields import field_texts, hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.public_execution.call_tree import CallRecord, selector_of
from fastnode.public_execution.host import DebugLogEntry
from fastnode.public_execution.results import ExecutedTx

if TYPE_CHECKING:
    from fastnode.artifacts.naming import Naming

__all__ = ["debug_log_json", "revert_reason_json", "simulation_json"]

_LEVELS: Final = ("silent", "fatal", "error", "warn", "info", "verbose", "debug", "trace")
#: ``function(address, selector)``: the registered name of a function, None if there is none.
FunctionName: TypeAlias = Callable[[bytes, bytes], "str | None"]

_PLACES_AT_ONCE: Final = 1024
#: The message for a failure that the record of calls does not reach.
_UNKNOWN_FAILURE: Final[dict[str, Any]] = {
    "originalMessage": "TX reverted",
    "functionErrorStack": [],
    "revertData": [],
}


def _unnamed(_address: bytes, _selector: bytes) -> None:
    return None


def simulation_json(executed: ExecutedTx, block: GlobalVariables, naming: Naming | None = None) -> bytes:
    """PublicSimulationOutput; ``block`` are the globals of the block that the transaction was simulated in."""
    answer: dict[str, Any] = {}
    function = _unnamed if naming is None else naming.function
    if executed.effect.revert_code:
        answer["revertReason"] = revert_reason_json(executed, naming)
    answer |= {
        "globalVariables": block.to_json(),
        "txEffect": executed.effect.to_json(),
        "publicReturnValues": [{"values": field_texts(output), "nested": []} for output in executed.app_outputs],
        "gasUsed": executed.gas.to_json(),
        "debugLogs": [debug_log_json(entry, function) for entry in executed.debug_logs],
    }
    return orjson.dumps(answer)


def revert_reason_json(executed: ExecutedTx, naming: Naming | None = None) -> dict[str, Any]:
    """SimulationError of a transaction that reverted, for orjson."""
    if executed.failure is None:
        return _UNKNOWN_FAILURE
    failed = executed.failure[-1]
    members = {
        "originalMessage": failed.message,
        "functionErrorStack": [_frame(record, naming) for record in executed.failure],
        "noirErrorStack": orjson.Fragment(_places_json(failed.pcs)),
        "revertData": field_texts(failed.output),
    }
    assertion = None if naming is None else naming.assertion(failed.address, failed.output)
    return members if assertion is None else members | {"assertion": assertion}


def _places_json(pcs: array[int]) -> bytes:
    """Places of failed calls.  A program that calls itself leaves millions of places; converting all of them at once
    would hold up every other thread, so it is done in pieces."""
    texts: dict[int, bytes] = {}  # they are mostly the same few
    places = bytearray()
    for start in range(0, len(pcs), _PLACES_AT_ONCE):
        piece = pcs[start : start + _PLACES_AT_ONCE]
        texts.update((pc, b',"0.%d"' % pc) for pc in set(piece).difference(texts))
        places += b"".join([texts[pc] for pc in piece])
    return b"[%b]" % bytes(places[1:])


def _frame(record: CallRecord, naming: Naming | None) -> dict[str, str]:
    """One call of an error stack."""
    frame = {"contractAddress": hex_text(record.address)}
    contract = None if naming is None else naming.contract(record.address)
    if contract is not None:
        frame["contractName"] = contract
    selector = selector_of(record.calldata)
    if selector is not None:
        frame["functionSelector"] = hex_text(selector)
    return frame | _name(record.address, selector, _unnamed if naming is None else naming.function)


def _name(address: bytes, selector: bytes | None, function: FunctionName) -> dict[str, str]:
    name = None if selector is None else function(address, selector)
    return {} if name is None else {"functionName": name}


def debug_log_json(entry: DebugLogEntry, function: FunctionName = _unnamed) -> dict[str, Any]:
    """DebugLog.  Bytes that are no UTF-8 become replacement characters; ``{0}`` in a message stays as it is."""
    return {
        "contractAddress": hex_text(entry.address),
        "level": _LEVELS[entry.level],
        "message": entry.message.decode("utf-8", "replace"),
        "fields": field_texts(entry.fields),
    } | _name(entry.address, entry.selector, function)
