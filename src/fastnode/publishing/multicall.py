"""Several calls in one transaction, by Multicall3: what fails does not undo the others.

A call that fails leaves the transaction's status at 1: whether it did what it should is told by its event alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.publishing.encoding import address_word, arguments, byte_string, selector, word
from fastnode.records import dataclass
from fastnode.sources.l1.abi import WORD_BYTES

__all__ = ["Call", "bundle"]

_AGGREGATE3: Final = selector("aggregate3((address,bool,bytes)[])")
_MAY_FAIL: Final = word(1)


@dataclass(frozen=True, slots=True)
class Call:
    """``gas``: what it may take beyond what was simulated, part of the transaction's limit."""

    target: bytes
    data: bytes
    gas: int = 0


def bundle(calls: Sequence[Call]) -> bytes:
    """Call data of Multicall3, for the calls in order."""
    parts = [arguments(address_word(call.target), _MAY_FAIL, (byte_string(call.data),)) for call in calls]
    places, at = [], WORD_BYTES * len(parts)
    for part in parts:
        places.append(word(at))
        at += len(part)
    return _AGGREGATE3 + arguments((word(len(parts)) + b"".join(places) + b"".join(parts),))
