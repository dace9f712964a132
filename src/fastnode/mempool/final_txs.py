"""Transactions that stay after they are final: blocks have their effects, but not what was asked for.

Which ones is an operator's choice, by number or by size; the oldest go first.  Their contents stay where they are in
the pool's database, and an index beside them says in which order they came (``store.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from fastnode.mempool.store import Change, KeptRow, json_key, kept_key

__all__ = ["KEEP_NONE", "KeepLimit", "KeptTxs"]


class KeepLimit(NamedTuple):
    """The most that are kept, or the most bytes of them; None: not limited so."""

    txs: int | None = None
    bytes: int | None = None


KEEP_NONE = KeepLimit(txs=0)


class KeptTxs:
    """The order in which they came.  Callers hold the pool's lock, and write the changes."""

    def __init__(self, limit: KeepLimit, rows: Iterable[KeptRow]) -> None:
        self._limit = limit
        self._rows = deque(rows)
        self._bytes = sum(row.size for row in self._rows)

    @property
    def keeps_any(self) -> bool:
        return self._limit != KEEP_NONE

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """Bytes of their contents."""
        return self._bytes

    def add(self, tx_hash: bytes, size: int) -> list[Change]:
        """Keep a transaction, whose content is in the database and stays there."""
        number = self._rows[-1].number + 1 if self._rows else 0
        row = KeptRow(number, tx_hash, size)
        self._rows.append(row)
        self._bytes += size
        return [(kept_key(number), row.encode()), *self.prune()]

    def prune(self) -> list[Change]:
        """Let go of the oldest until the limit is kept."""
        changes: list[Change] = []
        while self._rows and self._is_above_limit():
            row = self._rows.popleft()
            self._bytes -= row.size
            changes += [(kept_key(row.number), None), (json_key(row.tx_hash), None)]
        return changes

    def _is_above_limit(self) -> bool:
        txs, size = self._limit
        return (txs is not None and len(self._rows) > txs) or (size is not None and self._bytes > size)
