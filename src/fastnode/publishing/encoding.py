"""Call data with arguments of any length, as the contracts' compiler writes them.

    static argument     word 32
    dynamic argument    word 32: where it begins, counted from the begin of the arguments that it is one of
    bytes               length word | content, filled up to words
    T[]                 count word | elements, as the arguments of a call

``sources/l1/abi.py`` has the functions whose arguments are single words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastnode.protocol.ethereum import keccak_256
from fastnode.sources.l1.abi import WORD_BYTES

__all__ = ["address_word", "addresses", "arguments", "byte_string", "selector", "signed_word", "word", "words"]

_SELECTOR_BYTES: Final = 4

#: One argument: a word or several (bytes), or what an offset stands for (a tuple of one).
Part = bytes | tuple[bytes]


def selector(signature: str) -> bytes:
    """Selector at the begin of call data (4 bytes)."""
    return keccak_256(signature.encode())[:_SELECTOR_BYTES]


def word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "big")


def signed_word(value: int) -> bytes:
    return value.to_bytes(WORD_BYTES, "big", signed=True)


def address_word(address: bytes) -> bytes:
    return address.rjust(WORD_BYTES, b"\0")


def words(values: Sequence[int]) -> bytes:
    """``uint256[]`` and what is like it."""
    return word(len(values)) + b"".join(map(word, values))


def addresses(values: Sequence[bytes]) -> bytes:
    """``address[]``."""
    return word(len(values)) + b"".join(map(address_word, values))


def byte_string(data: bytes) -> bytes:
    return word(len(data)) + data + bytes(-len(data) % WORD_BYTES)


def arguments(*parts: Part) -> bytes:
    """Arguments in order; one in a tuple is dynamic: its place goes where it stands, its content behind all others."""
    at = sum(WORD_BYTES if isinstance(part, tuple) else len(part) for part in parts)
    head, tail = [], []
    for part in parts:
        if isinstance(part, tuple):
            head.append(word(at))
            tail.append(part[0])
            at += len(part[0])
        else:
            head.append(part)
    return b"".join(head + tail)
