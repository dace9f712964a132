"""Transactions that the fleet has acknowledged, this node found valid, and no upstream is known to have.

The node that hands on goes through them too, whatever its pool thinks of them: a pool may have no room, or prefer a
rival, while the node that took one from a client keeps it and waits.  The upstream decides then, and all are told.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Final

from fastnode.bus.connection import Bus
from fastnode.bus.packing import read_tx
from fastnode.bus.subjects import Subjects
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.service import Mempool
from fastnode.mempool.validation import UNKNOWN_ANCHOR

__all__ = ["Entrusted"]

#: The oldest are left out beyond this number.
ENTRUSTED_MAX: Final = 10_000


class Entrusted:
    """Usable from any thread.  Contents stay on the bus."""

    def __init__(self, bus: Bus, subjects: Subjects, mempool: Mempool) -> None:
        self._bus = bus
        self._subjects = subjects
        self._mempool = mempool
        #: By hash: what the pool looks at, and the digest of the message that was found valid.
        self._kept: OrderedDict[bytes, tuple[PoolEntry, bytes]] = OrderedDict()

    def keep(self, entry: PoolEntry, data: bytes) -> None:
        """``data``: the message on the bus."""
        self._kept[entry.hash] = entry, _digest(data)
        while len(self._kept) > ENTRUSTED_MAX:
            self._kept.popitem(last=False)

    def forget(self, tx_hash: bytes) -> None:
        """An upstream has it, or has refused it."""
        self._kept.pop(tx_hash, None)

    def outside_pool(self) -> list[bytes]:
        """Transactions that are not in the pool, and that a block can take, in the order in which they came."""
        pool = self._mempool.pool
        found = []
        for tx_hash, (entry, _) in list(self._kept.items()):
            if pool.is_waiting(tx_hash):
                continue
            obstacle = pool.obstacle_to(entry)
            if obstacle is None:
                found.append(tx_hash)
            elif obstacle != UNKNOWN_ANCHOR:  # a block that was taken back may come again
                self.forget(tx_hash)
        return found

    def is_possible(self, tx_hash: bytes) -> bool:
        """True for one that is kept, and that a block can take."""
        kept = self._kept.get(tx_hash)
        return kept is not None and self._mempool.pool.obstacle_to(kept[0]) is None

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        """The transaction as it was found valid; None where the bus has another one, or none.  UpstreamUnavailable."""
        kept = self._kept.get(tx_hash)
        message = self._bus.last(self._subjects.tx_stream, self._subjects.tx(tx_hash))
        if kept is None or message is None or _digest(message.data) != kept[1]:
            return None  # another one that was stored is read, and judged, in its turn
        return read_tx(tx_hash, message.data, self._mempool.pool.release).to_json_bytes()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
