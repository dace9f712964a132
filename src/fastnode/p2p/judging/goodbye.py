"""Reasons to leave a peer: the one byte of a goodbye."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Goodbye"]


class Goodbye(IntEnum):
    SHUTDOWN = 1
    MAX_PEERS = 2
    LOW_SCORE = 3
    BANNED = 4
    WRONG_NETWORK = 5
    UNKNOWN = 6

    @classmethod
    def read(cls, data: bytes) -> Goodbye:
        """Anything else is ``UNKNOWN``."""
        return next((reason for reason in cls if data == bytes([reason])), cls.UNKNOWN)
