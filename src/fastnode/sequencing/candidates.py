"""The transactions that a block is built of: what the pool has pending, the best first, and long enough."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.protocol.tx import Tx

if TYPE_CHECKING:
    from fastnode.mempool.pool import TxPool

__all__ = ["Candidates"]

#: Transactions that are kept decoded from their arrival to their block.
DECODED_MAX: Final = 256
#: Transactions that are remembered before the pool is asked which of them it still has.
SEEN_MIN: Final = 1_024


class Candidates:
    """``on_accepted`` from any thread, the rest from the one that builds."""

    def __init__(self, pool: TxPool, *, age_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._clock = clock
        #: For how long a transaction must have been known, so that other nodes know it too.
        self.age_s = age_s
        #: Called when one has come.
        self.on_arrival: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._decoded: OrderedDict[bytes, Tx] = OrderedDict()
        #: When each was known first, also of those that are in a block: L1 may not take it.
        self._seen: dict[bytes, float] = {}
        self._seen_max = SEEN_MIN

    def on_accepted(self, tx: Tx, _tx_json: bytes) -> None:
        """A client's transaction is in the pool."""
        with self._lock:
            self._decoded[tx.hash] = tx
            self._seen.setdefault(tx.hash, self._clock())
            if len(self._decoded) > DECODED_MAX:
                self._decoded.popitem(last=False)
        self.on_arrival()

    def notice(self) -> None:
        """From now on those that the pool has pending are known."""
        self.count()

    def count(self) -> int:
        """Number of transactions that could be tried now."""
        if self.age_s <= 0:
            return self._pool.pending_count
        return len(self._old_enough(self._pool.pending_hashes()))

    def txs(self, limit: int) -> Iterator[Tx]:
        """The best of them, decoded one by one."""
        for tx_hash in self._old_enough(self._pool.pending_hashes())[:limit]:
            with self._lock:
                tx = self._decoded.get(tx_hash)
            if tx is None:
                tx_json = self._pool.tx_json(tx_hash)
                tx = None if tx_json is None else Tx.from_json(orjson.loads(tx_json), self._pool.release)
            if tx is not None:
                yield tx

    def _old_enough(self, hashes: list[bytes]) -> list[bytes]:
        if self.age_s <= 0:
            return hashes
        now = self._clock()
        with self._lock:
            # Transactions that did not come from a client are as old as the first look at them.
            old = [tx_hash for tx_hash in hashes if now - self._seen.setdefault(tx_hash, now) >= self.age_s]
            if len(self._seen) > self._seen_max:
                self._seen = {tx_hash: at for tx_hash, at in self._seen.items() if self._pool.is_waiting(tx_hash)}
                self._seen_max = max(SEEN_MIN, 2 * len(self._seen))
            return old
