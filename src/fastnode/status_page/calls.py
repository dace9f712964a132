"""Public calls of transactions, for people: as a local network tells them, and as a transaction asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import DecodeError
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import CallRequest
from fastnode.status_page.effects import named_values
from fastnode.status_page.findings import Fact, fee_juice, hex_of, time_of

if TYPE_CHECKING:
    from fastnode.artifacts.naming import Naming
    from fastnode.protocol.releases import Release

__all__ = ["contracts_and_keys", "facts_of_calls", "facts_of_failure", "facts_of_tx"]

_FIELD_BYTES: Final = 32
_SELECTOR_BYTES: Final = 4
_ARGUMENTS_SHOWN: Final = 8
#: A smaller argument is shown as a number.
_NUMBER_BITS: Final = 128


def facts_of_tx(
    record: dict[str, Any], release: Release, name_of: Callable[[bytes], str | None], naming: Naming | None = None
) -> list[Fact]:
    """Content of a transaction as wallets send it: who pays, how much at most, until when, and its public calls."""
    try:
        tx = Tx.from_json(record, release)
    except DecodeError:
        return []
    data = tx.data
    fees, gas = data.max_fees_per_gas, data.gas_limits
    most = fees.fee_per_da_gas * gas.da_gas + fees.fee_per_l2_gas * gas.l2_gas
    payer = hex_of(data.fee_payer)
    facts = [
        Fact("Fee payer", payer, payer if any(data.fee_payer) else None),
        Fact("Fee at most", fee_juice(most)),
        Fact("Expires", time_of(data.expiration_timestamp)),
        Fact("Nullifiers", str(len(data.nullifiers))),
        Fact("Private logs", str(len(data.private_logs))),
    ]
    calldata = {entry.hash: entry.values for entry in tx.calldata}
    for index, (phase, call) in enumerate(_phases(tx)):
        address = hex_of(call.contract_address)
        values = calldata.get(call.calldata_hash, b"")
        text = _named(naming, call.contract_address, values) or f"{_described(values, name_of)} of {address}"
        facts.append(Fact(f"Public call {index}, {phase}", text + (", static" if call.is_static_call else ""), address))
    return facts


def contracts_and_keys(record: dict[str, Any], release: Release) -> tuple[list[bytes], list[bytes]]:
    """Contracts that a transaction calls, and values that may be keys of their maps: who calls, and with what."""
    try:
        tx = Tx.from_json(record, release)
    except DecodeError:
        return [], []
    calldata = {entry.hash: entry.values for entry in tx.calldata}
    contracts, keys = [], [tx.data.fee_payer]
    for _, call in _phases(tx):
        contracts.append(call.contract_address)
        values = calldata.get(call.calldata_hash, b"")[_FIELD_BYTES : (1 + _ARGUMENTS_SHOWN) * _FIELD_BYTES]
        keys += [call.msg_sender, *(values[at : at + _FIELD_BYTES] for at in range(0, len(values), _FIELD_BYTES))]
    return contracts, keys


def _phases(tx: Tx) -> Iterator[tuple[str, CallRequest]]:
    data = tx.data
    yield from (("setup", call) for call in data.setup_calls)
    yield from (("app logic", call) for call in data.app_calls)
    if data.teardown_call is not None:
        yield "teardown", data.teardown_call


def _described(values: bytes, name_of: Callable[[bytes], str | None]) -> str:
    """``name(arguments)``: the first field is the selector of the function."""
    if not values:
        return "no function"
    selector = values[_FIELD_BYTES - _SELECTOR_BYTES : _FIELD_BYTES]
    fields = [values[at : at + _FIELD_BYTES] for at in range(_FIELD_BYTES, len(values), _FIELD_BYTES)]
    shown = [_argument(value) for value in fields[:_ARGUMENTS_SHOWN]]
    if len(fields) > _ARGUMENTS_SHOWN:
        shown.append(f"{len(fields) - _ARGUMENTS_SHOWN} more")
    return f"{name_of(selector) or hex_of(selector)}({', '.join(shown)})"


def _named(naming: Naming | None, address: bytes, values: bytes) -> str | None:
    """``name(argument: value) of Contract``; None unless all of that is known."""
    found = {} if naming is None else naming.of_call(address, values, b"", success=True)
    if not {"contractName", "functionName", "arguments"} <= found.keys():
        return None
    return f"{found['functionName']}({named_values(found['arguments'])}) of {found['contractName']}"


def _argument(value: bytes) -> str:
    number = int.from_bytes(value, "big")
    return str(number) if number.bit_length() <= _NUMBER_BITS else hex_of(value)


# ---- of a local network ----------------------------------------------------------------------------------


def facts_of_calls(calls: list[dict[str, Any]]) -> Iterator[Fact]:
    for index, call in enumerate(calls):
        yield Fact(f"Public call {index}, {call['phase']}", _call_text(call), call["contractAddress"])


def facts_of_failure(failure: dict[str, Any]) -> Iterator[Fact]:
    yield Fact("Reverted", str(failure.get("originalMessage", "")))
    # The first field names the message: its text is in the artifact of the contract, which a node does not have.
    for place, value in enumerate(failure.get("revertData") or ()):
        yield Fact(f"Revert data {place}", value)
    for depth, frame in enumerate(failure.get("functionErrorStack", ())):
        yield Fact(f"Revert stack {depth}", _call_text(frame), frame["contractAddress"])


def _call_text(frame: dict[str, Any]) -> str:
    """A function and its contract, with as much of the name as is known."""
    name = frame.get("functionName") or frame.get("functionSelector") or "no function"
    return f"{name} of {frame['contractAddress']}"
