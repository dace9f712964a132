"""The answer to a simulation, PublicSimulationOutput, field by field as release 4.x gives it.

Where a function's name is registered, ``functionName`` stands beside its selector in stacks and debug logs; where the
artifact of its contract is, ``contractName`` too, and the text of the assertion that failed (``assertion``).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from fastnode.protocol.fields import FIELD_BYTES, field_texts, hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.public_execution.call_tree import PLACES_MAX, CallRecord, selector_of
from fastnode.public_execution.host import DebugLogEntry
from fastnode.public_execution.results import ExecutedTx

if TYPE_CHECKING:
    from fastnode.artifacts.naming import Naming

__all__ = ["Require", "any_size", "debug_log_json", "revert_reason_json", "simulation_json"]

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


#: Called with a number of bytes; raises ResponseTooLarge or NodeBusy if an answer may not have so many.
Require: TypeAlias = Callable[[int], None]

#: JSON: of a place, of a debug log without its message and fields, of a field; and debug logs, or bytes of them, that
#: are rendered at a time.
_PLACE_BYTES: Final = 64
_LOG_BYTES: Final = 160
_FIELD_TEXT: Final = 69
_LOGS_AT_ONCE: Final = 256
_PIECE_BYTES: Final = 1 << 20


def any_size(_size: int) -> None:
    pass


def _unnamed(_address: bytes, _selector: bytes) -> None:
    return None


def simulation_json(
    executed: ExecutedTx, block: GlobalVariables, naming: Naming | None = None, require: Require = any_size
) -> bytes:
    """PublicSimulationOutput; ``block`` are the globals of the block that the transaction was simulated in.

    ``require`` is called with the size that it has so far, before more is rendered."""
    answer: dict[str, Any] = {}
    function = _unnamed if naming is None else naming.function
    if executed.effect.revert_code:
        if executed.failure is not None and executed.failure[-1].has_more_places:
            require(_PLACE_BYTES * PLACES_MAX)
        answer["revertReason"] = revert_reason_json(executed, naming)
    answer |= {
        "globalVariables": block.to_json(),
        "txEffect": executed.effect.to_json(),
        "publicReturnValues": [{"values": field_texts(output), "nested": []} for output in executed.app_outputs],
        "gasUsed": executed.gas.to_json(),
    }
    pieces = [orjson.dumps(answer)[:-1], b',"debugLogs":[']
    pieces += _debug_logs_json(executed.debug_logs, function, len(pieces[0]), require)
    pieces.append(b"]}")
    return b"".join(pieces)


def _debug_logs_json(
    logs: Sequence[DebugLogEntry], function: FunctionName, size: int, require: Require
) -> Iterator[bytes]:
    """The elements of their array, some at a time: as objects they take several times their JSON."""
    some: list[dict[str, Any]] = []
    pending = 0
    comma = b""
    for entry in logs:
        pending += _LOG_BYTES + len(entry.message) + _FIELD_TEXT * (len(entry.fields) // FIELD_BYTES)
        some.append(log := debug_log_json(entry, function))
        pending += len(log.get("functionName", ""))
        if len(some) < _LOGS_AT_ONCE and pending < _PIECE_BYTES:
            continue
        require(size + pending)
        text = orjson.dumps(some)[1:-1]
        size += len(text)
        require(size)
        yield comma
        yield text
        some, pending, comma = [], 0, b","
    if some:
        yield comma
        yield orjson.dumps(some)[1:-1]


def revert_reason_json(
    executed: ExecutedTx, naming: Naming | None = None, *, places_max: int = PLACES_MAX
) -> dict[str, Any]:
    """SimulationError of a transaction that reverted, for orjson; with the last ``places_max`` places."""
    if executed.failure is None:
        return _UNKNOWN_FAILURE
    failed = executed.failure[-1]
    members = {
        "originalMessage": failed.message,
        "functionErrorStack": [_frame(record, naming) for record in executed.failure],
        "noirErrorStack": orjson.Fragment(_places_json(failed.pcs[-places_max:])),
        "revertData": field_texts(failed.output),
    }
    assertion = None if naming is None else naming.assertion(failed.address, failed.output)
    return members if assertion is None else members | {"assertion": assertion}


def _places_json(pcs: array[int]) -> bytes:
    """Places of failed calls.  A program that calls itself leaves a million places; converting all of them at once
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
