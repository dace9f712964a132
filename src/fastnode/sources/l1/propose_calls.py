"""Where in a transaction a checkpoint was proposed.

A proposer calls the rollup itself, through Multicall3, through a contract that passes calls on, or in any other way
that ends in the rollup.  In this order:

    the call itself             to the rollup
    Multicall3 ``aggregate3``   each call to the rollup in it, also with a call that failed
    ``multicall``               of the proposer contract in use on mainnet, with one of the two above inside
    a trace                     ``trace_transaction``, else ``debug_traceTransaction``, without what was reverted

What counts is decided by the event alone: both of its hashes must match, and one call must be left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from fastnode.errors import DecodeError, UpstreamFault, UpstreamRejection
from fastnode.protocol.ethereum import keccak_256
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.proposals import (
    PROPOSE_SELECTOR,
    Proposal,
    ProposedCheckpoint,
    call_data_of,
    read_bytes_at,
    word_at,
)

__all__ = ["MULTICALL3", "find_in_trace", "find_in_transaction", "is_unknown_method"]

_SELECTOR_BYTES: Final = 4
MULTICALL3: Final = bytes.fromhex("ca11bde05977b3631167028862be2a173976ca11")
_AGGREGATE3: Final = keccak_256(b"aggregate3((address,bool,bytes)[])")[:_SELECTOR_BYTES]
_AGGREGATE3_BYTES_WORD: Final = 2  # target, whether it may fail, call data
_PROPOSER_MULTICALL: Final = keccak_256(b"multicall((address,address,bytes,uint256,uint256)[])")[:_SELECTOR_BYTES]
_PROPOSER_TARGET_WORD: Final = 1  # proposer, target, call data, value, gas limit
_PROPOSER_BYTES_WORD: Final = 2
#: Calls of one multicall that are looked at.
_CALLS_MAX: Final = 256
_METHOD_NOT_FOUND_WORDS: Final = ("not found", "not supported", "does not exist", "not available", "unsupported")
_METHOD_NOT_FOUND_CODES: Final = frozenset({-32601, -32004})


def find_in_transaction(transaction: Any, rollup: bytes, proposed: ProposedCheckpoint) -> Proposal | None:
    """The call that the event tells of, from what ``eth_getTransactionByHash`` gave; None if only a trace can tell.

    DecodeError for what is no transaction.
    """
    if not isinstance(transaction, dict):
        raise DecodeError(f"the transaction {proposed.tx_hash} of checkpoint {proposed.number} is not there")
    target = call_data_of(transaction.get("to") or "0x")
    data = call_data_of(transaction.get("input"))
    return _the_one(_calls(target, data, rollup), proposed)


def find_in_trace(endpoint: L1Endpoint, rollup: bytes, proposed: ProposedCheckpoint) -> Proposal | str:
    """The call that the event tells of, or why there is none."""
    calls = _trace_transaction(endpoint, rollup, proposed.tx_hash)
    if calls is None:
        calls = _debug_trace(endpoint, rollup, proposed.tx_hash)
    if calls is None:
        return (
            f"the proposal of checkpoint {proposed.number} is nested in transaction {proposed.tx_hash}: "
            f"give an L1 node that traces transactions (--ethereum-debug-hosts)"
        )
    found = _the_one(calls, proposed)
    if found is None:
        return f"the trace of {proposed.tx_hash} has no single proposal with the hashes of checkpoint {proposed.number}"
    return found


def _the_one(calls: Iterable[bytes], proposed: ProposedCheckpoint) -> Proposal | None:
    """Calls with the same content are one: whichever was carried out, it proposed this."""
    found: dict[tuple[bytes, bytes, bytes], Proposal] = {}
    for data in calls:
        try:
            proposal = Proposal.from_call_data(data)
        except DecodeError:
            continue
        if proposal.is_of(proposed):
            key = (proposal.payload_digest, proposal.signature_indices, proposal.signatures_or_addresses)
            found[key] = proposal
    return next(iter(found.values())) if len(found) == 1 else None


# ---- call data ----------------------------------------------------------------------------------


def _calls(target: bytes, data: bytes, rollup: bytes) -> Iterator[bytes]:
    """Call data of every call of ``propose`` that the transaction shows."""
    if target == rollup:
        yield data
    elif target == MULTICALL3:
        yield from _in_multicall(data, rollup)
    elif data[:_SELECTOR_BYTES] == _PROPOSER_MULTICALL:
        for inner_target, inner in _parts(data, _PROPOSER_TARGET_WORD, _PROPOSER_BYTES_WORD):
            if inner_target == rollup:
                yield inner
            elif inner_target == MULTICALL3:
                yield from _in_multicall(inner, rollup)


def _in_multicall(data: bytes, rollup: bytes) -> Iterator[bytes]:
    if data[:_SELECTOR_BYTES] == _AGGREGATE3:
        for target, inner in _parts(data, 0, _AGGREGATE3_BYTES_WORD):
            if target == rollup and inner[:_SELECTOR_BYTES] == PROPOSE_SELECTOR:
                yield inner


def _parts(data: bytes, target_word: int, bytes_word: int) -> Iterator[tuple[bytes, bytes]]:
    """(target, call data) of the elements of an array of tuples, the one argument of a call."""
    arguments = data[_SELECTOR_BYTES:]
    try:
        start = min(word_at(arguments, 0), len(arguments))
        count = word_at(arguments, start)
        first = start + WORD_BYTES
        for place in range(min(count, _CALLS_MAX)):
            at = first + min(word_at(arguments, first + place * WORD_BYTES), len(arguments))
            target = word_at(arguments, at + target_word * WORD_BYTES)
            if target >> 8 * ADDRESS_BYTES == 0:
                yield target.to_bytes(ADDRESS_BYTES, "big"), read_bytes_at(arguments, at, bytes_word)
    except DecodeError:
        return


# ---- traces ---------------------------------------------------------------------------------------


def _trace_transaction(endpoint: L1Endpoint, rollup: bytes, tx_hash: str) -> list[bytes] | None:
    """None if the endpoint has no such method."""
    answer = endpoint.answers([("trace_transaction", [tx_hash])])[0]
    if _is_unknown_method(answer):
        return None
    if not isinstance(answer, list):
        raise UpstreamFault("trace_transaction gave no list")
    steps = [step for step in answer if isinstance(step, dict)]
    failed = [_place(step) for step in steps if step.get("error")]
    calls = []
    for step in steps:
        place, action = _place(step), step.get("action")
        is_undone = any(place[: len(above)] == above for above in failed)
        if is_undone or step.get("type") != "call" or not isinstance(action, dict):
            continue
        if action.get("callType") == "call" and _is_to(action.get("to"), rollup):
            calls.append(call_data_of(action.get("input")))
    return calls


def _place(step: dict[str, Any]) -> list[Any]:
    place = step.get("traceAddress")
    return place if isinstance(place, list) else []


def _debug_trace(endpoint: L1Endpoint, rollup: bytes, tx_hash: str) -> list[bytes] | None:
    """None if the endpoint has no such method."""
    answer = endpoint.answers([("debug_traceTransaction", [tx_hash, {"tracer": "callTracer"}])])[0]
    if _is_unknown_method(answer):
        return None
    calls: list[bytes] = []
    waiting: list[Any] = [answer]
    while waiting:
        call = waiting.pop()
        if not isinstance(call, dict) or call.get("error"):
            continue
        if call.get("type") == "CALL" and _is_to(call.get("to"), rollup):
            calls.append(call_data_of(call.get("input")))
        inner = call.get("calls")
        waiting += inner if isinstance(inner, list) else []
    return calls


def _is_to(address: object, rollup: bytes) -> bool:
    return isinstance(address, str) and address.lower() == hex_data(rollup)


def _is_unknown_method(answer: Any) -> bool:
    """Raises every other rejection."""
    if not isinstance(answer, UpstreamRejection):
        return False
    if is_unknown_method(answer):
        return True
    raise answer


def is_unknown_method(rejection: UpstreamRejection) -> bool:
    """Whether an endpoint says that it has no such method; providers say it in many ways."""
    text = rejection.message.lower()
    # That a transaction is not there says that the method is.
    is_of_method = "transaction" not in text.replace("debug_tracetransaction", "").replace("trace_transaction", "")
    return rejection.code in _METHOD_NOT_FOUND_CODES or (
        is_of_method and any(words in text for words in _METHOD_NOT_FOUND_WORDS)
    )
