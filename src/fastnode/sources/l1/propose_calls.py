"""Search in a transaction for the call that proposed a checkpoint.

A proposer calls the rollup itself, through Multicall3, through a contract that passes calls on, or in any other way
that ends in the rollup.  In this order:

    the call itself             to the rollup
    Multicall3 ``aggregate3``   each call to the rollup in it, also with a call that failed
    ``multicall``               of the proposer contract in use on mainnet, each call to the rollup in it
                                (the two may hold each other, to any depth)
    a trace                     ``trace_transaction``, else ``debug_traceTransaction``, without what was reverted

What counts is decided by the event alone: both of its hashes must match.  Calls are read where they are, each place
once, and no more than so many bytes of them in all: offsets may point anywhere, also thousands of them to one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from fastnode.errors import DecodeError, UpstreamFault, UpstreamRejection
from fastnode.protocol.ethereum import SigningDomain, keccak_256
from fastnode.sources.l1.abi import ADDRESS_BYTES, WORD_BYTES, hex_data
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.proposals import (
    Proposal,
    ProposedCheckpoint,
    bytes_place_at,
    call_data_of,
    digest_of_call,
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
#: Bytes of call data of one transaction that are read in all; those of the largest on L1 fit in many times over.
_BYTES_READ_MAX: Final = 32 << 20
#: Bytes that an element of an array of calls counts for: few of them are read, but each element takes its time.
_ELEMENT_BYTES: Final = 512
_CALL_BYTES_MIN: Final = _SELECTOR_BYTES + 20 * WORD_BYTES
_METHOD_NOT_FOUND_WORDS: Final = ("not found", "not supported", "does not exist", "not available", "unsupported")
_METHOD_NOT_FOUND_CODES: Final = frozenset({-32601, -32004})


def find_in_transaction(transaction: Any, domain: SigningDomain, proposed: ProposedCheckpoint) -> Proposal | None:
    """The call that the event tells of, from what ``eth_getTransactionByHash`` gave; None if only a trace can tell.

    DecodeError for what is no transaction.
    """
    if not isinstance(transaction, dict):
        raise DecodeError(f"the transaction {proposed.tx_hash} of checkpoint {proposed.number} is not there")
    target = call_data_of(transaction.get("to") or "0x")
    data = call_data_of(transaction.get("input"))
    return _Search(proposed, domain).in_input(target, memoryview(data), domain.rollup)


def find_in_trace(endpoint: L1Endpoint, domain: SigningDomain, proposed: ProposedCheckpoint) -> Proposal | str:
    """The call that the event tells of, or why there is none."""
    calls = _trace_transaction(endpoint, domain.rollup, proposed.tx_hash)
    if calls is None:
        calls = _debug_trace(endpoint, domain.rollup, proposed.tx_hash)
    if calls is None:
        return (
            f"the proposal of checkpoint {proposed.number} is nested in transaction {proposed.tx_hash}: "
            f"give an L1 node that traces transactions (--ethereum-debug-hosts)"
        )
    found = next(filter(None, map(_Search(proposed, domain).take, calls)), None)
    if found is None:
        return f"the trace of {proposed.tx_hash} has no single proposal with the hashes of checkpoint {proposed.number}"
    return found


class _Search:
    """For the call that an event commits to.  Of several it takes the first: with the same hashes they are one."""

    def __init__(self, proposed: ProposedCheckpoint, domain: SigningDomain) -> None:
        self._proposed = proposed
        self._domain = domain
        self._bytes_left = _BYTES_READ_MAX

    def take(self, data: bytes | memoryview) -> Proposal | None:
        """The proposal in the call data of ``propose``, if it is the one."""
        # Nothing more is read of a call with another first argument, nor are attestations to something else.
        if data[_SELECTOR_BYTES : _SELECTOR_BYTES + WORD_BYTES] != self._proposed.archive_root:
            return None
        self._bytes_left -= _CALL_BYTES_MIN
        try:
            if digest_of_call(data, self._domain) != self._proposed.payload_digest:
                return None
            self._bytes_left -= len(data)
            proposal = Proposal.from_call_data(data, self._domain)
        except DecodeError:
            return None
        return proposal if proposal.is_of(self._proposed) else None

    def in_input(self, target: bytes, data: memoryview, rollup: bytes) -> Proposal | None:
        """Among the calls that the input of a transaction shows, until as much was read as may be."""
        waiting = deque([(target, 0, len(data))])
        seen = set(waiting)
        while waiting and self._bytes_left > 0:
            target, start, end = waiting.popleft()
            call = data[start:end]
            selector = call[:_SELECTOR_BYTES]
            if target == rollup:
                found = self.take(call)
                if found is not None:
                    return found
                continue
            words = None
            if target == MULTICALL3 and selector == _AGGREGATE3:
                words = (0, _AGGREGATE3_BYTES_WORD)
            elif selector == _PROPOSER_MULTICALL:
                words = (_PROPOSER_TARGET_WORD, _PROPOSER_BYTES_WORD)
            if words is None:
                continue
            first = start + _SELECTOR_BYTES
            for inner, inner_start, inner_end in self._parts(call[_SELECTOR_BYTES:], *words):
                place = (inner, first + inner_start, first + inner_end)
                if place not in seen:
                    seen.add(place)
                    waiting.append(place)
        return None

    def _parts(self, arguments: memoryview, target_word: int, bytes_word: int) -> Iterator[tuple[bytes, int, int]]:
        """(target, where its call data begin and end) of the elements of an array of tuples, the one argument of a
        call.
        """
        try:
            array = min(word_at(arguments, 0), len(arguments))
            first = array + WORD_BYTES
            for place in range(word_at(arguments, array)):
                self._bytes_left -= _ELEMENT_BYTES
                if self._bytes_left <= 0:
                    return
                at = first + min(word_at(arguments, first + place * WORD_BYTES), len(arguments))
                target = word_at(arguments, at + target_word * WORD_BYTES)
                if target >> 8 * ADDRESS_BYTES == 0:
                    yield target.to_bytes(ADDRESS_BYTES, "big"), *bytes_place_at(arguments, at, bytes_word)
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
    """True if an endpoint says that it has no such method; providers say it in many ways."""
    text = rejection.message.lower()
    # That a transaction is not there says that the method is.
    is_of_method = "transaction" not in text.replace("debug_tracetransaction", "").replace("trace_transaction", "")
    return rejection.code in _METHOD_NOT_FOUND_CODES or (
        is_of_method and any(words in text for words in _METHOD_NOT_FOUND_WORDS)
    )
