"""``fastnode trace HASH``: what a transaction did, as a tree in the terminal or as stacks for flame graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, Final

import click

from fastnode.cli.node_calls import (
    ADMIN_KEY_ENVIRONMENT,
    ADMIN_URL_ENVIRONMENT,
    DEFAULT_ADMIN_URL,
    call,
    url_of,
)
from fastnode.cli.output import say
from fastnode.errors import StartError
from fastnode.log import printable
from fastnode.status_page.findings import fee_juice

__all__ = ["trace", "trace_lines"]

_METHOD: Final = "fastnode_traceTransaction"
#: Fields of calldata, logs and results in a line.
_FIELDS_SHOWN: Final = 4
#: Named arguments in a line, and characters of each.
_ARGUMENTS_SHOWN: Final = 8
_VALUE_LENGTH: Final = 60


@click.command(short_help="Show what a transaction did, call by call.")
@click.option(
    "--url",
    metavar="URL",
    help="Admin port of the node, or its public port where it has traces; http:// may be left out.  [env: "
    f"{ADMIN_URL_ENVIRONMENT}, else SVC_ADMIN_HOST and SVC_ADMIN_PORT; default: {DEFAULT_ADMIN_URL}]",
)
@click.option(
    "--api-key",
    metavar="KEY",
    help=f"Key of the admin port.  [env: {ADMIN_KEY_ENVIRONMENT}, which other users do not see]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    metavar="SECONDS",
    help="How long to wait.  [default: 60]",
)
@click.option("--folded", is_flag=True, help="Print L2 gas by function and operation, as flame graph tools read it.")
@click.option("--folded-da", is_flag=True, help="The same for DA gas.")
@click.option("--opcodes", is_flag=True, help="Print the first 1,000 instructions too.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer of fastnode_traceTransaction.")
@click.argument("tx_hash", metavar="HASH")
def trace(
    tx_hash: str,
    url: str | None,
    api_key: str | None,
    timeout: float,
    folded: bool,
    folded_da: bool,
    opcodes: bool,
    as_json: bool,
) -> int:
    """Show what the public calls of transaction HASH did: calls, storage, nullifiers, logs, gas, fees.

    The node executes it again at its place in its block, so it, or a node that it asks, must have kept
    the transaction (start --keep-txs). Private functions are not visible to a node.

    \b
    fastnode trace 0x0b0d...94d0
    fastnode trace 0x0b0d...94d0 --folded | flamegraph.pl > gas.svg
    """
    options = {"opcodes": opcodes, "gasProfile": folded or folded_da}
    key = api_key or os.environ.get(ADMIN_KEY_ENVIRONMENT)
    found = _ask(url_of(url, admin=True), tx_hash, options, key, timeout)
    if found is None:
        say(f"no transaction {tx_hash} is known", err=True)
        return 1
    if as_json:
        say(json.dumps(found, indent=2, ensure_ascii=False))
    elif "missing" in found:
        for line in _effect_lines(found):
            say(line)
        say(f"no calls: {found['missing']}", err=True)
        return 1
    elif folded or folded_da:
        for line in found["gasProfile"]["da" if folded_da else "l2"]:
            say(line)
    else:
        for line in trace_lines(found):
            say(line)
    return 0


def _ask(url: str, tx_hash: str, options: dict[str, bool], key: str | None, timeout: float) -> dict[str, Any] | None:
    headers = {"x-api-key": key} if key else {}
    answer = call(url, _METHOD, [tx_hash, options], headers, timeout)
    if "error" in answer:
        error = answer["error"]
        raise StartError(str(error.get("message", error)) if isinstance(error, dict) else str(error))
    result = answer.get("result")
    return result if isinstance(result, dict) else None


# ---- lines --------------------------------------------------------------------------------------


def trace_lines(found: dict[str, Any]) -> Iterator[str]:
    """The tree of calls, between what is known of the transaction and what it cost."""
    place = f"block {found['blockNumber']}" if found["status"] == "mined" else found["status"]
    yield f"transaction {found['txHash']}  {place}  {_outcome(found)}"
    for call_ in found["calls"]:
        yield f"{call_['phase']}: {_call(call_)}"
        yield from _entry_lines(call_, "")
    if not found["calls"]:
        yield "no public calls"
    if found["isTruncated"]:
        yield "... more calls and events than a trace has"
    yield from _gas_lines(found)
    if "steps" in found:
        yield from _step_lines(found["steps"])


def _outcome(found: dict[str, Any]) -> str:
    words = {0: "success", 1: "app logic reverted", 2: "teardown reverted", 3: "app logic and teardown reverted"}
    outcome = words.get(found["revertCode"], f"revert code {found['revertCode']}")
    reason = found.get("revertReason") or {}
    message = reason.get("originalMessage")
    return (f"{outcome}: {message}" if message else outcome) + _assertion(reason)


def _entry_lines(call_: dict[str, Any], indent: str) -> Iterator[str]:
    entries = call_["entries"]
    for index, entry in enumerate(entries):
        is_last = index == len(entries) - 1
        yield f"{indent}{'└─' if is_last else '├─'} {_call(entry) if entry['event'] == 'call' else _event(entry)}"
        if entry["event"] == "call":
            yield from _entry_lines(entry, indent + ("   " if is_last else "│  "))


def _call(call_: dict[str, Any]) -> str:
    function = call_.get("functionName") or call_["functionSelector"] or "(no function)"
    static = "static " if call_["isStaticCall"] else ""
    used = call_["gasUsed"]
    if call_["success"]:
        ending = f"-> {_value(call_['returnValue']) if 'returnValue' in call_ else _fields(call_['returnData'])}"
    else:
        ending = f"FAILED {call_['message']}".rstrip() + _assertion(call_)
    named = call_.get("arguments")
    arguments = _fields(call_["calldata"][1:]) if named is None else _arguments(named)
    contract = (
        f"{call_['contractName']} {call_['contractAddress']}" if "contractName" in call_ else call_["contractAddress"]
    )
    gas = f"[{used['l2Gas']:,} L2, {used['daGas']:,} DA gas]"
    return f"{static}call {contract} {function}{arguments} {ending}  {gas}"


def _assertion(found: dict[str, Any]) -> str:
    return f" (assertion: {printable(found['assertion'])})" if "assertion" in found else ""


def _arguments(named: list[dict[str, Any]]) -> str:
    shown = [f"{value['name']}={_value(value['value'])}" for value in named[:_ARGUMENTS_SHOWN]]
    return f"({', '.join(shown)}{', ...' if len(named) > _ARGUMENTS_SHOWN else ''})"


def _value(value: Any) -> str:
    """A decoded value in a line: what is long is cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.startswith("0x"):
        return _short(text)
    return printable(text if len(text) <= _VALUE_LENGTH else f"{text[:_VALUE_LENGTH]}..")


def _fields(fields: list[str]) -> str:
    shown = ", ".join(_short(field) for field in fields[:_FIELDS_SHOWN])
    return f"({shown}{', ...' if len(fields) > _FIELDS_SHOWN else ''})"


def _short(field: str) -> str:
    """A small number as such; of others the digits at both ends."""
    number = int(field, 16)
    return str(number) if number < 1 << 64 else f"{field[:8]}..{field[-4:]}"


def _event(entry: dict[str, Any]) -> str:
    shown = {name: value for name, value in entry.items() if name not in ("event", "pc")}
    if entry["event"] == "storageRead":
        return f"read {shown.get('slotName', shown['slot'])} of {shown['contractAddress']} = {shown['value']}"
    if entry["event"] == "storageWrite":
        return f"write {shown.get('slotName', shown['slot'])}: {shown['oldValue']} -> {shown['newValue']}"
    if "eventName" in shown:
        return f"event {shown['eventName']}{_arguments(shown.get('arguments', []))}"
    if "fields" in shown:
        message = f"{shown['message']} " if "message" in shown else ""
        return f"{entry['event']} {message}{_fields(shown['fields'])}"
    return f"{entry['event']} {', '.join(f'{name} {value}' for name, value in shown.items())}"


def _gas_lines(found: dict[str, Any]) -> Iterator[str]:
    for phase, used in found["gas"]["phases"].items():
        if used["l2Gas"] or used["daGas"]:
            yield f"{phase + ' gas':<14}{used['l2Gas']:>14,} L2 {used['daGas']:>14,} DA"
    billed = found["gas"]["billedGas"]
    yield f"{'billed gas':<14}{billed['l2Gas']:>14,} L2 {billed['daGas']:>14,} DA"
    fee = found["fee"]
    prices = int(fee["feePerL2Gas"]), int(fee["feePerDaGas"])
    yield f"{'gas prices':<14}{prices[0]:>14,} L2 {prices[1]:>14,} DA, in 10^-18 fee juice"
    yield f"fee {fee_juice(int(fee['transactionFee']))}, paid by {fee['payer']}"


def _step_lines(steps: dict[str, Any]) -> Iterator[str]:
    yield f"{steps['taken']:,} instructions, {len(steps['list']):,} from number {steps['first']:,}:"
    for step in steps["list"]:
        memory = " ".join(map(str, step["memory"]))
        gas = f"{step['l2Gas']:>9,} of {step['l2GasLeft']:>12,}"
        yield f"{step['call']:>5} {step['pc']:>8}  {step['operation']:<20}{gas}  {memory}"


def _effect_lines(found: dict[str, Any]) -> Iterator[str]:
    """Lines about the effect in its block of a transaction that nobody has kept."""
    effect = found["effect"]
    yield f"transaction {found['txHash']}  block {found['blockNumber']}"
    for name, what in (
        ("noteHashes", "note hashes"),
        ("nullifiers", "nullifiers"),
        ("l2ToL1Msgs", "messages to L1"),
        ("publicDataWrites", "public data writes"),
        ("privateLogs", "private logs"),
        ("publicLogs", "public logs"),
        ("contractClassLogs", "contract class logs"),
    ):
        if effect.get(name):
            yield f"  {len(effect[name])} {what}"
