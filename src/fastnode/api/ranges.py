"""Ranges of blocks and of checkpoints: their limits, and the arrays that answer them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from fastnode.jsonrpc.methods import Context, Parameter, Signature
from fastnode.values.numbers import Integer
from fastnode.values.value_type import ValueType

__all__ = ["FIRST", "LIMIT", "array", "is_long_range", "range_signatures"]

#: Blocks or checkpoints in one answer.
RANGE_LENGTH_MAX: Final = 50
#: A range of more than this is read in a thread: each block may hold hundreds of kilobytes.
RANGE_LENGTH_ON_LOOP_MAX: Final = 2

FIRST: Final = Integer(name="number", minimum=1, accepts_text=True)
LIMIT: Final = Integer(name="number", minimum=1, maximum=RANGE_LENGTH_MAX)


def array(context: Context, items: Iterable[bytes]) -> bytes:
    """A JSON array; stops as soon as it exceeds what this response may still hold."""
    collected: list[bytes] = []
    size = 2
    for item in items:
        size += len(item) + 1
        context.require_bytes(size)
        collected += (b"," if collected else b"[", item)
    # One copy, without the interpreter if it is long.
    return b"".join((*collected, b"]")) if collected else b"[]"


def is_long_range(arguments: Sequence[Any]) -> bool:
    limit: int = arguments[1]
    return limit > RANGE_LENGTH_ON_LOOP_MAX


def range_signatures(release: str, first_name: str, development: str, options: ValueType) -> dict[str, Any]:
    """What a method for consecutive records takes and gives in both sets; ``first_name`` is that of the release set."""
    limit = Parameter("limit", LIMIT)
    return {
        "release": Signature(f"{release}[]", (Parameter(first_name, FIRST), limit)),
        "development": Signature(
            f"{development}[]", (Parameter("from", FIRST), limit, Parameter("options", options, optional=True))
        ),
    }
