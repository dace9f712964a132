"""Many calls of contracts in one, through the Multicall3 contract, which most chains have at the same address.

    aggregate3((target, may it fail, call data)[])  ->  (success, answer)[]

Providers count a call of it as one, whereas they count each call of a JSON-RPC batch.  The answers are one state
besides: all are of the same block, whose number, time and parent the contract tells as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import DecodeError
from fastnode.protocol.ethereum import keccak_256
from fastnode.records import dataclass
from fastnode.sources.l1.abi import WORD_BYTES, Argument, Function, Kind, hex_data, quantity
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.proposals import call_data_of, read_bytes_at, word_at
from fastnode.sources.l1.propose_calls import MULTICALL3

__all__ = ["BLOCK_HASH", "BLOCK_NUMBER", "BLOCK_TIMESTAMP", "PARENT_HASH", "Read", "read_together"]

BLOCK_HASH: Final = Function("getBlockHash(uint256)", Kind.BYTES32)
BLOCK_NUMBER: Final = Function("getBlockNumber()", Kind.NUMBER)
BLOCK_TIMESTAMP: Final = Function("getCurrentBlockTimestamp()", Kind.NUMBER)
PARENT_HASH: Final = Function("getLastBlockHash()", Kind.BYTES32)
_AGGREGATE3: Final = keccak_256(b"aggregate3((address,bool,bytes)[])")[:4]
_TUPLE_HEAD_WORDS: Final = 3  # target, whether it may fail, offset of the call data
_NO_CODE: Final = "0x"


@dataclass(frozen=True, slots=True)
class Read:
    """One call; of the Multicall3 contract itself if no other is named."""

    function: Function
    arguments: tuple[Argument, ...] = ()
    contract: bytes = MULTICALL3


def read_together(
    endpoint: L1Endpoint, reads: Sequence[Read], block: str | int = "latest"
) -> list[tuple[Any, ...] | None] | None:
    """The outputs of each, None where it reverts or there is no code, all at one block; None if the chain has no
    Multicall3 there.

    UpstreamError, DecodeError.
    """
    call = {"to": hex_data(MULTICALL3), "data": hex_data(_encode(reads))}
    answer = endpoint.results([("eth_call", [call, quantity(block) if isinstance(block, int) else block])])[0]
    if answer == _NO_CODE:
        return None
    return _decode(call_data_of(answer), reads)


def _encode(reads: Sequence[Read]) -> bytes:
    tuples = []
    for read in reads:
        data = call_data_of(read.function.encode(*read.arguments))
        head = (int.from_bytes(read.contract, "big"), True, _TUPLE_HEAD_WORDS * WORD_BYTES, len(data))
        tuples.append(b"".join(map(_word, head)) + data + bytes(-len(data) % WORD_BYTES))
    offsets, at = [], WORD_BYTES * len(tuples)
    for item in tuples:
        offsets.append(_word(at))
        at += len(item)
    return _AGGREGATE3 + _word(WORD_BYTES) + _word(len(tuples)) + b"".join(offsets) + b"".join(tuples)


def _decode(data: bytes, reads: Sequence[Read]) -> list[tuple[Any, ...] | None]:
    start = min(word_at(data, 0), len(data))
    if word_at(data, start) != len(reads):
        raise DecodeError(f"Multicall3 gave {word_at(data, start)} answers to {len(reads)} calls")
    first = start + WORD_BYTES
    found: list[tuple[Any, ...] | None] = []
    for place, read in enumerate(reads):
        at = first + min(word_at(data, first + place * WORD_BYTES), len(data))
        answer = read_bytes_at(data, at, 1)
        is_answered = word_at(data, at) == 1 and answer != b""
        found.append(read.function.decode(hex_data(answer)) if is_answered else None)
    return found


def _word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "big")
