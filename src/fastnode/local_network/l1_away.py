"""The error of an attached L1 that does not answer, in a module that a network without L1 can load cheaply."""

from __future__ import annotations

from fastnode.errors import Refused

__all__ = ["L1AwayError"]


class L1AwayError(Refused):
    """L1 does not answer: what a checkpoint must contain is not known now."""
