"""The sample chain that comes with the package: served when no chain is stored and none is given.

It is a recording.  No block follows its last one, so a transaction would never be included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["NO_BLOCKS", "SampleMarks"]

#: The answer to a transaction.
NO_BLOCKS: Final = "this node serves a sample chain and makes no blocks"


class SampleMarks:
    """Two files in the data directory, so that another chain is never mixed with the sample or mistaken for it.

    ``sample-chain`` says that the stored chain is the sample; ``sample-chain.unfinished`` is there from its first block
    to its last, so that a start that was cut short is taken up again.
    """

    def __init__(self, directory: Path) -> None:
        self._sample = directory / "sample-chain"
        self._unfinished = directory / "sample-chain.unfinished"

    @property
    def is_sample(self) -> bool:
        return self._sample.exists() or self.is_unfinished

    @property
    def is_unfinished(self) -> bool:
        return self._unfinished.exists()

    def begin(self) -> None:
        self._sample.touch()
        self._unfinished.touch()

    def finish(self) -> None:
        """All of the sample is stored; no-op for another chain."""
        self._unfinished.unlink(missing_ok=True)
