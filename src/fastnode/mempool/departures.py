"""Reasons for which transactions left the pool without a block: what a receipt says of a hash that was seen here.

They outlive the record of the transaction, which goes when the block is final before which it was deleted.  The newest
are kept; they lie in the pool's database (store.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from fastnode.mempool.store import Change, DepartedRow, departed_key

__all__ = ["DEPARTED_MAX", "DepartedTxs"]

#: Transactions whose reasons are kept.
DEPARTED_MAX: Final = 10_000


class DepartedTxs:
    """Reasons by hash, the oldest first.  Callers of what changes them hold the pool's lock, and write the changes."""

    def __init__(self, rows: Iterable[DepartedRow] = ()) -> None:
        ordered = sorted(rows, key=lambda row: row.number)
        self._reasons = OrderedDict((row.tx_hash, row.reason) for row in ordered)
        self._number = ordered[-1].number if ordered else 0

    def __len__(self) -> int:
        return len(self._reasons)

    def reason(self, tx_hash: bytes) -> str | None:
        return self._reasons.get(tx_hash)

    def note(self, tx_hash: bytes, reason: str) -> list[Change]:
        self._number += 1
        row = DepartedRow(self._number, tx_hash, reason).cut()
        self.repeat(row)
        changes: list[Change] = [(departed_key(tx_hash), row.encode())]
        while len(self._reasons) > DEPARTED_MAX:
            oldest, _ = self._reasons.popitem(last=False)
            changes.append((departed_key(oldest), None))
        return changes

    def repeat(self, row: DepartedRow) -> None:
        """A row that was written elsewhere."""
        self._reasons[row.tx_hash] = row.reason
        self._reasons.move_to_end(row.tx_hash)

    def forget(self, tx_hash: bytes) -> list[Change]:
        """It is back."""
        return [(departed_key(tx_hash), None)] if self._reasons.pop(tx_hash, None) is not None else []
