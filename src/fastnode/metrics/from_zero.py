"""Counters that are there before anything is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = ["from_zero"]

K = TypeVar("K")


def from_zero(labels: Iterable[K], counts: Mapping[K, int]) -> dict[K, int]:
    """Counts, and 0 for the rest of the labels: the first time must not look like the begin of a series."""
    return dict.fromkeys(labels, 0) | dict(counts)
