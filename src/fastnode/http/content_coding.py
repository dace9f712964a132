"""Content codings: inflating request bodies within a limit, choosing one for an answer.

gzip and deflate (which is zlib's format, RFC 9110, section 8.4.1) are understood both ways; answers are sent in zstd
(RFC 8878) too, where the package zstandard is installed.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

__all__ = [
    "MEMBERS_MAX",
    "RATIO_FREE_BYTES",
    "RATIO_MAX",
    "BodyTooLarge",
    "Coding",
    "Inflation",
    "choose_coding",
    "inflate",
    "is_known_coding",
]

Coding: TypeAlias = Literal["gzip", "zstd", "deflate"]

#: ``wbits`` of zlib that make and read each format.
_WINDOW_BITS: Final[dict[str, int]] = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": 15}
#: Order of preference among codings of the same weight: gzip first, because results are kept in it.
_PREFERENCE: Final[tuple[Coding, ...]] = (
    ("gzip", "deflate") if find_spec("zstandard") is None else ("gzip", "zstd", "deflate")
)
#: Members of a gzip body; clients send one.
MEMBERS_MAX: Final = 4
#: Limit for an inflated body in multiples of its size.  Calls that differ in their values reach 10, zlib itself 1,000.
RATIO_MAX: Final = 100
#: Up to this size the ratio does not count: a batch of equal calls is small and shrinks well.
RATIO_FREE_BYTES: Final = 64 * 1024


class BodyTooLarge(Exception):  # noqa: N818 - a verdict, not a fault
    """The body inflates to more than a limit, which the text names."""


def is_known_coding(name: str) -> bool:
    return name in _WINDOW_BITS


class Inflation:
    """A body sent as ``coding`` while it is inflated; ``content`` is what there is so far.

    Never makes more than ``bytes_max`` of content, nor more than the ratio allows, and one byte, for any size it
    claims.
    """

    def __init__(self, data: bytes, coding: str, *, bytes_max: int) -> None:
        self._rest = data
        self._coding = coding
        by_ratio = max(RATIO_FREE_BYTES, RATIO_MAX * len(data))
        self._is_bound_by_ratio = by_ratio < bytes_max
        #: The most that the content can have.
        self.bytes_max = min(bytes_max, by_ratio)
        self._content = bytearray()
        self._members = 0
        self._is_whole = not data
        self._inflater = zlib.decompressobj(wbits=_WINDOW_BITS[coding])

    @property
    def content(self) -> bytes:
        return bytes(self._content)

    def go_on(self, bytes_max: int) -> bool:
        """Inflate until the content has ``bytes_max`` bytes; whether it is whole.

        Raises :class:`BodyTooLarge`, or ValueError for damaged data, for more than MEMBERS_MAX members and for
        anything behind them.
        """
        wanted = min(bytes_max, self.bytes_max + 1)
        while not self._is_whole and len(self._content) < wanted:
            try:
                piece = self._inflater.decompress(self._rest, wanted - len(self._content))
            except zlib.error as error:
                raise ValueError(f"damaged {self._coding} data: {error}") from None
            self._content += piece
            if len(self._content) > self.bytes_max:
                raise BodyTooLarge(self._describe_excess())
            if self._inflater.eof:
                self._begin_next_member()
                continue
            self._rest = self._inflater.unconsumed_tail
            if not piece and not self._rest:
                raise ValueError(f"damaged {self._coding} data: it ends too early")
        return self._is_whole

    def _describe_excess(self) -> str:
        if self._is_bound_by_ratio:
            return f"the request body inflates to more than {RATIO_MAX} times its size, and {RATIO_FREE_BYTES} bytes"
        return f"the inflated request body exceeds the limit of {self.bytes_max} bytes"

    def _begin_next_member(self) -> None:
        """A gzip file may consist of several."""
        self._members += 1
        self._rest = self._inflater.unused_data
        if not self._rest:
            self._is_whole = True
            return
        if self._coding == "deflate":
            raise ValueError("damaged deflate data: something follows it")
        if self._members == MEMBERS_MAX:
            raise ValueError(f"the gzip data has more than {MEMBERS_MAX} members")
        self._inflater = zlib.decompressobj(wbits=_WINDOW_BITS[self._coding])


def inflate(data: bytes, coding: str, *, bytes_max: int) -> bytes:
    """The content of a body; as :meth:`Inflation.go_on`."""
    inflation = Inflation(data, coding, bytes_max=bytes_max)
    inflation.go_on(bytes_max + 1)
    return inflation.content


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
        # Clients of today write "*" for what all of them have always understood, which zstd is not.
        weight = weights.get(coding, weights.get("*", 0.0) if coding != "zstd" else 0.0)
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
