"""The error of an attached L1 that is away, apart from it: a network without one need not load what talks to L1."""

from __future__ import annotations

from fastnode.errors import Refused

__all__ = ["L1AwayError"]


class L1AwayError(Refused):
    """L1 does not answer: what a checkpoint must contain is not known now."""
