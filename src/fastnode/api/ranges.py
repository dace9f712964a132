"""Ranges of blocks and of checkpoints: their limits, and what methods for them take."""

from __future__ import annotations

from typing import Any, Final

from fastnode.jsonrpc.methods import Parameter, Signature, is_above
from fastnode.values.numbers import Integer
from fastnode.values.value_type import ValueType

__all__ = ["FIRST", "LIMIT", "is_long_range", "range_signatures"]

#: Blocks or checkpoints in one answer.
RANGE_LENGTH_MAX: Final = 50
#: A range of more than this is read in a thread: each block may hold hundreds of kilobytes.
RANGE_LENGTH_ON_LOOP_MAX: Final = 2

FIRST: Final = Integer(name="number", minimum=1, accepts_text=True)
LIMIT: Final = Integer(name="number", minimum=1, maximum=RANGE_LENGTH_MAX)


is_long_range: Final = is_above(RANGE_LENGTH_ON_LOOP_MAX, argument=1)


def range_signatures(release: str, first_name: str, development: str, options: ValueType) -> dict[str, Any]:
    """A method for consecutive records, as both sets have it; ``first_name`` is that of the release set."""
    limit = Parameter("limit", LIMIT)
    return {
        "release": Signature(f"{release}[]", (Parameter(first_name, FIRST), limit)),
        "development": Signature(
            f"{development}[]", (Parameter("from", FIRST), limit, Parameter("options", options, optional=True))
        ),
    }
