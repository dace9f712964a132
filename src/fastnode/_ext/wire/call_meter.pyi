"""Counts and times of calls, cheap enough to be kept for every one of them."""

from collections import Counter
from collections.abc import Sequence
from typing import final

@final
class Traffic:
    """Bytes of the bodies and heads of a port, as they came and went, and its refusals."""

    received_bytes: int
    sent_bytes: int
    @property
    def rejected(self) -> Counter[str]:
        """Requests refused, by the name of the limit that they are above."""

class CallMeter:
    """A histogram of durations and a count of errors by code, for each of ``names`` and for all other names together.

    ``bounds_ns`` are the upper bounds of the histograms' buckets, rising, each one inside its bucket (ValueError
    otherwise).  ``names`` must be different.
    """

    def __init__(self, names: Sequence[str], bounds_ns: Sequence[int]) -> None: ...
    def add_alias(self, alias: str, name: str) -> None:
        """Count calls under another name together with those of ``name``.

        KeyError for a name that is not known, ValueError for an alias that is.
        """

    def finish(self, name: object, started_ns: int, error_code: int | None) -> None:
        """A call that began at ``started_ns`` is done; a ``name`` that is not known counts as another one."""

    def reject(self, name: object, error_code: int) -> None:
        """Count an error of a call whose time says nothing."""

    def histogram(self, name: str | None) -> tuple[list[int], int]:
        """Calls per bucket, the last one above all bounds, and their nanoseconds together; None: other names.

        KeyError for a name that is not known.
        """

    def errors(self, name: str | None) -> dict[int, int]:
        """Errors by code; None: other names.  KeyError for a name that is not known."""
