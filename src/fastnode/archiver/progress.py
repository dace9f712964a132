"""Work of ingestion since the start, and its costs: plain numbers, read by the reports.

Written by the ingesting thread alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["PHASES", "IngestionProgress"]

#: Phases of a block, in order: its hashes are checked, its trees are worked out, its answers are rendered,
#: it is written, and its trees are.
PHASES: Final = ("verify", "state", "render", "write", "write_state")


class IngestionProgress:
    __slots__ = ("blocks", "deepest_undo", "seconds", "txs", "undone_blocks", "undos")

    def __init__(self) -> None:
        self.blocks = 0
        self.txs = 0
        self.undos = 0
        self.undone_blocks = 0
        #: Blocks of the largest undo.
        self.deepest_undo = 0
        #: Seconds by phase.
        self.seconds = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - begun

    def add_undo(self, blocks: int) -> None:
        self.undos += 1
        self.undone_blocks += blocks
        self.deepest_undo = max(self.deepest_undo, blocks)
