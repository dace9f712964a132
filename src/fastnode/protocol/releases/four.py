"""Release 4.x: the node versions from 4.1.2 to 4.4.0, which speak one protocol and differ in names.

Nodes of trees are hashed without a separator.  Receipts of versions below 4.3 say which part of a transaction reverted.
"""

from __future__ import annotations

from typing import Final

from fastnode.protocol.releases.release import Release, shipped_record

__all__ = ["FOUR"]

FOUR: Final = Release.from_record(shipped_record("4"))
