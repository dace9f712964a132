"""How far tests search: in everyday runs, and in those that may take hours (``FASTNODE_LONG=1``)."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["IS_LONG", "tries"]

IS_LONG: Final = os.environ.get("FASTNODE_LONG") == "1"


def tries(everyday: int, long: int) -> int:
    """So many kills, examples, rounds."""
    return long if IS_LONG else everyday
