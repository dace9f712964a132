"""Content codings: inflating request bodies within a limit, choosing one for an answer.

gzip and deflate (which is zlib's format, RFC 9110, section 8.4.1.2) are understood both ways.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final, Literal, TypeAlias

__all__ = ["BodyTooLarge", "Coding", "choose_coding", "inflate", "is_known_coding"]

Coding: TypeAlias = Literal["gzip", "deflate"]

#: ``wbits`` of zlib that make and read each format.
_WINDOW_BITS: Final[dict[str, int]] = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": 15}
#: What a client prefers when it names several with the same weight.
_PREFERENCE: Final[tuple[Coding, ...]] = ("gzip", "deflate")
#: Fields repeat; the answers of these JSON texts shrink to a third at the fastest level already.
COMPRESSION_LEVEL: Final = 1


class BodyTooLarge(Exception):  # noqa: N818 - a verdict, not a fault
    """The body inflates to more than the limit."""


def is_known_coding(name: str) -> bool:
    return name in _WINDOW_BITS


def inflate(data: bytes, coding: str, *, bytes_max: int) -> bytes:
    """The content of a body sent as ``coding``.

    Stops as soon as the content exceeds ``bytes_max`` and raises :class:`BodyTooLarge`, whatever the
    size it claims.  Raises ValueError for damaged data and for anything behind it.
    """
    content = bytearray()
    rest = data
    while rest:  # a gzip file may consist of several members
        inflater = zlib.decompressobj(wbits=_WINDOW_BITS[coding])
        try:
            content += inflater.decompress(rest, bytes_max + 1 - len(content))
        except zlib.error as error:
            raise ValueError(f"damaged {coding} data: {error}") from None
        if len(content) > bytes_max:
            raise BodyTooLarge
        if not inflater.eof:
            raise ValueError(f"damaged {coding} data: it ends too early")
        rest = inflater.unused_data
        if rest and coding == "deflate":
            raise ValueError("damaged deflate data: something follows it")
    return bytes(content)


@lru_cache(maxsize=256)
def choose_coding(accept_encoding: bytes) -> Coding | None:
    """The coding for an answer to a request with this Accept-Encoding, or None for the plain form."""
    weights: dict[str, float] = {}
    for item in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    best: Coding | None = None
    best_weight = 0.0
    for coding in _PREFERENCE:
        weight = weights.get(coding, weights.get("*", 0.0))
        if weight > best_weight:
            best, best_weight = coding, weight
    return best


def _weight(parameters: str) -> float:
    """``q=0.5`` as 0.5; without it 1; unreadable 0, which asks for nothing."""
    key, separator, value = parameters.strip().partition("=")
    if not separator or key.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0
