"""Rows sorted by number in little memory: sorted runs in a file, merged when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from fastnode.world_state.layout import HASH_BYTES
from fastnode.world_state.stored_nodes import Array

__all__ = ["SortedHashes"]

#: Rows that are sorted in memory at a time: 40 MB.
_RUN_ROWS: Final = 1 << 20


class SortedHashes:
    """Hashes of leaves, given in any order, taken by ascending index.  ``file`` is made, and used until it is closed.

    A run in the file: its indexes as u64, then its hashes.
    """

    def __init__(self, file: Path, *, run_rows: int = _RUN_ROWS) -> None:
        self._file = file
        self._run_rows = run_rows
        self._waiting: list[tuple[Array, Array]] = []
        self._waiting_rows = 0
        self._written_bytes = 0
        #: Indexes and hashes of each run, and how many rows of it are taken.
        self._runs: list[tuple[Array, Array]] = []
        self._taken: list[int] = []
        file.write_bytes(b"")

    def add(self, indexes: Array, hashes: Array) -> None:
        """Rows: a number and 32 bytes each."""
        self._waiting.append((indexes, hashes))
        self._waiting_rows += len(indexes)
        if self._waiting_rows >= self._run_rows:
            self._end_run()

    def _end_run(self) -> None:
        indexes = np.concatenate([indexes for indexes, _ in self._waiting])
        hashes = np.concatenate([hashes for _, hashes in self._waiting])
        order = np.argsort(indexes, kind="stable")
        with self._file.open("ab") as file:
            file.write(indexes[order].astype(np.uint64).tobytes())
            file.write(hashes[order].tobytes())
        count, begin = len(indexes), self._written_bytes
        middle = begin + 8 * count
        self._written_bytes = middle + HASH_BYTES * count
        self._runs.append(
            (
                np.memmap(self._file, np.uint64, "r", begin, (count,)),
                np.memmap(self._file, np.uint8, "r", middle, (count, HASH_BYTES)),
            )
        )
        self._taken.append(0)
        self._waiting, self._waiting_rows = [], 0

    def ranges(self, range_bits: int) -> Iterator[tuple[int, Array, Array]]:
        """For each range of 2^``range_bits`` indexes that has rows: its number, indexes in order, hashes.

        ValueError for an index that comes twice.
        """
        if self._waiting_rows:
            self._end_run()
        while True:
            ahead = [int(run[0][at]) for run, at in zip(self._runs, self._taken, strict=True) if at < len(run[0])]
            if not ahead:
                return
            number = min(ahead) >> range_bits
            indexes, hashes = self._take(np.uint64((number + 1) << range_bits))
            if (indexes[1:] == indexes[:-1]).any():
                raise ValueError(f"leaf {int(indexes[1:][indexes[1:] == indexes[:-1]][0])} comes twice")
            yield number, indexes, hashes

    def _take(self, end: np.uint64) -> tuple[Array, Array]:
        indexes, hashes = [], []
        for number, (run, rows) in enumerate(self._runs):
            begin = self._taken[number]
            stop = int(np.searchsorted(run, end))
            indexes.append(np.array(run[begin:stop]))
            hashes.append(np.array(rows[begin:stop]))
            self._taken[number] = stop
        joined = np.concatenate(indexes)
        order = np.argsort(joined, kind="stable")
        return joined[order], np.concatenate(hashes)[order]

    def close(self) -> None:
        """Remove the file."""
        self._runs, self._waiting = [], []
        self._file.unlink(missing_ok=True)
