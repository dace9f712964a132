"""A contract between the account and what it calls, on networks that put one there.

Its ``forward(address,bytes)`` calls the target with the data, and fails when that does.

What takes a transaction back, or fills a gap of nonces, goes without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fastnode.publishing.encoding import address_word, arguments, byte_string, selector
from fastnode.publishing.fees import GAS_MAX
from fastnode.publishing.requests import Request
from fastnode.sources.l1.abi import WORD_BYTES

__all__ = ["forward_data", "forwarded"]

_FORWARD: Final = selector("forward(address,bytes)")
#: The call, and the words of call data that are not the inner ones.
_CALL_GAS: Final = 10_000
#: A 64th of what is left stays outside.
_INNER: Final = 63
#: Copying a word there and back, with the memory that it takes.
_WORD_GAS: Final = 6
_MEMORY_DIVISOR: Final = 512


def forward_data(target: bytes, data: bytes) -> bytes:
    """Call data for the contract."""
    return _FORWARD + arguments(address_word(target), (byte_string(data),))


def forwarded(request: Request, forwarder: bytes | None) -> Request:
    """The request by way of the contract at ``forwarder`` (20 bytes), with the gas that this takes; None: as it is."""
    if forwarder is None:
        return request
    count = -(-len(request.data) // WORD_BYTES)
    more = request.gas // _INNER + _CALL_GAS + _WORD_GAS * count + count * count // _MEMORY_DIVISOR
    data = forward_data(request.target, request.data)
    return replace(request, sent=(forwarder, data), gas=min(GAS_MAX, request.gas + more))
