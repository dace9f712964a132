"""Puts transactions of this node's pool on the bus: clients' at once, and any that waits here and is not there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.handing_on import REFUSED, TAKEN, HandingOn
from fastnode.bus.packing import packed_tx
from fastnode.bus.subjects import Subjects
from fastnode.errors import Refused, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.mempool.service import Mempool

__all__ = ["UNSHARED_S", "Sharing"]

logger = logging.getLogger("fastnode.bus")

#: Seconds a client waits for the bus to store its transaction: a cluster that elects a leader takes a few.
SHARE_S: Final = 8.0
RETRY_S: Final = 0.2
TX_BYTES_MAX: Final = 1000 << 10
#: Seconds after which one that no other node has taken is looked for on the bus, and looked for again, and how many at
#: a time.
UNSHARED_S: Final = 20.0
UNSHARED_MAX: Final = 64


class Sharing:
    """``share`` from any thread, the rest from the one that reads transactions of the fleet."""

    def __init__(self, bus: Bus, subjects: Subjects, mempool: Mempool, handing_on: HandingOn) -> None:
        self._bus = bus
        self._subjects = subjects
        self._mempool = mempool
        self._handing_on = handing_on
        #: Transactions of the pool that were looked for on the bus, and when.
        self._looked_for: dict[bytes, float] = {}

    def share(
        self, tx_hash: bytes, tx_json: bytes, is_stopping: Callable[[], bool], *, may_be_there: bool = False
    ) -> bytes:
        """The message, once the bus has it.

        Refused when it does not take it in time, and it has left the pool then unless it ``may_be_there``: other nodes
        may have it.
        """
        data = packed_tx(tx_json)
        if len(data) > TX_BYTES_MAX:
            self._mempool.pool.drop(tx_hash, "too large for the bus")
            raise Refused(
                f"The transaction takes {len(data)} bytes, more than the {TX_BYTES_MAX} that nodes share",
                data={"code": "TX_TOO_LARGE"},
            )
        deadline = self._bus.clock.monotonic() + SHARE_S
        while True:
            try:
                self._store(tx_hash, data)
                return data
            except UpstreamUnavailable as error:
                if self._bus.clock.monotonic() >= deadline or is_stopping() or not self._bus.is_connected:
                    if not may_be_there:
                        self._mempool.pool.drop(tx_hash, "the bus does not take it")
                    logger.warning("transaction not shared", extra=log_facts(reason=str(error)))
                    raise Refused(
                        "The nodes of this fleet cannot be told of the transaction now; try again later",
                        data={"code": "BUS_UNAVAILABLE"},
                    ) from error
            time.sleep(RETRY_S)

    def share_again(self) -> None:
        """A new stream, a start, or a bus that was away: the others must have what waits here."""
        there = self._bus.subjects(self._subjects.tx_stream, f"{self._subjects.tx_stream}.tx.*")
        for tx_hash in self._mempool.pool.pending_hashes():
            if self._subjects.tx(tx_hash) not in there:
                self._share_one(tx_hash)

    def share_missing(self, now: float) -> None:
        """Share what has waited here for long, if it is not on the bus: its client was told that the disk refuses it,
        and the pool has kept it, or the node ended before it was shared."""
        pool = self._mempool.pool
        waiting = {tx_hash: pool.unforwarded_since(tx_hash) or now for tx_hash in pool.unforwarded_hashes()}
        self._looked_for = {tx_hash: at for tx_hash, at in self._looked_for.items() if tx_hash in waiting}
        due = [each for each, since in waiting.items() if now - self._looked_for.get(each, since) >= UNSHARED_S]
        due = due[:UNSHARED_MAX]
        there = self._bus.lasts(self._subjects.tx_stream, [self._subjects.tx(each) for each in due]) if due else []
        for tx_hash, message in zip(due, there, strict=True):
            if message is None:
                self._share_one(tx_hash)
            self._looked_for[tx_hash] = now

    def _share_one(self, tx_hash: bytes) -> None:
        tx_json = self._mempool.pool.tx_json(tx_hash)
        if tx_json is not None:
            self._bus.publish(Outgoing(self._subjects.tx(tx_hash), packed_tx(tx_json), expected=0))

    def _store(self, tx_hash: bytes, data: bytes) -> None:
        subject = self._subjects.tx(tx_hash)
        if self._bus.publish(Outgoing(subject, data, expected=0)) is not None:
            return
        # It is there: a client repeats itself, tries once more what was refused, or what lies there is something else.
        there = self._bus.last(self._subjects.tx_stream, subject)
        hand = self._handing_on.hand_of(tx_hash)
        is_refused = hand is not None and hand[1].get("state") == REFUSED
        if there is not None and (is_refused or there.data != data):
            self._bus.publish(Outgoing(subject, data, expected=there.sequence))
        elif hand is not None and hand[1].get("state") == TAKEN:  # read before the transaction was in the pool
            self._mempool.pool.mark_forwarded(tx_hash)
