"""Giving transactions to other nodes: at once, later, or before they enter the pool.

    offer   it is in the pool: handed on now, or when a node answers again; a refusal takes it out of the pool
    ask     it is not in the pool, because this node cannot judge it: what the other node says is the answer
    flush   what waits in the pool for a node that answers; what the others cannot decide does not hold it up

The process that decides about the pool does it (:class:`PoolHandover`); other processes of a node leave it to that one
(pool_replica.py).  Whether a transaction was handed on is part of its entry in the pool, so a restart does not send it
again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, Protocol, final

from fastnode.errors import Refused, UpstreamUndecided
from fastnode.mempool.pool import TxPool

__all__ = ["NOT_HANDED_ON", "NO_UPSTREAM", "Given", "Handover", "PoolHandover", "TxSink", "Undecided", "untaken_reason"]

#: Transactions on their way at a time, so that a slow node does not take all threads of the server: those that are
#: in the pool wait there for their turn, those that another node must judge are refused when there are more.
OFFERS_MAX: Final = 4
ASKED_MAX: Final = 12

#: Undecided transactions that end a pass.
UNDECIDED_MAX: Final = 3

#: For how long a transaction may wait for another node that takes it before its receipt says so.
UNTAKEN_S: Final = 30.0

_BUSY: Final = {"code": "BUSY"}
NOT_HANDED_ON: Final = "transactions wait here until another node answers: none takes them now"
NO_UPSTREAM: Final = "No upstream answers at the moment; try again later"


class Given(Enum):
    """Fate of a transaction at other nodes."""

    #: No node answers.
    UNTAKEN = auto()
    TAKEN = auto()
    #: None took it, as it is there already: in a block that this node may not have seen, or waiting for one.
    KNOWN = auto()


class TxSink(Protocol):
    """Other nodes that take transactions."""

    def forward(self, tx_json: bytes, is_wanted: Callable[[], bool] = lambda: True, /) -> bool:
        """True if a node took it; False: none answers now.  May block; called in worker threads.

        ``is_wanted`` is asked after a wait: when nobody needs it any more, it goes to nobody, and False is returned.
        Refused, with the other node's code and data, when it refuses; UpstreamUndecided when that is not its last
        word.
        """


class Handover(Protocol):
    """Interface of whatever gives a mempool's transactions to other nodes.  Usable from any thread."""

    @property
    def trouble(self) -> str | None:
        """Reason why transactions that other nodes should have wait in the pool; None if there is none."""

    @property
    def has_waiting(self) -> bool:
        """True if :meth:`flush` has anything to do."""

    def waiting_reason(self, tx_hash: bytes) -> str | None:
        """That no other node has taken a transaction of the pool, once that is worth a word."""

    def offer(self, tx_hash: bytes, tx_json: bytes) -> None:
        """Refused when the other node refuses; the transaction has left the pool then."""

    def ask(self, tx_json: bytes) -> None:
        """Return once another node has taken it.  Refused with its verdict; Refused when none answers."""

    def flush(self) -> None:
        """Hand on what waits, oldest first, until no node answers; no-op while another thread does."""


class Undecided:
    """Transactions of which other nodes did not say whether they have them.  They come after all others, a few in a
    pass: each may cost the time of an answer that does not come.  For one thread at a time."""

    def __init__(self) -> None:
        self._hashes: dict[bytes, None] = {}
        self._in_this_pass = 0

    def begin(self, waiting: Iterable[bytes]) -> list[bytes]:
        """The order of a pass over what waits."""
        waiting = list(waiting)
        kept = set(waiting)
        self._hashes = {tx_hash: None for tx_hash in self._hashes if tx_hash in kept}
        self._in_this_pass = 0
        return [tx_hash for tx_hash in waiting if tx_hash not in self._hashes] + list(self._hashes)

    def note(self, tx_hash: bytes) -> bool:
        """It is undecided, and the last one of the next pass; False if the pass is to end."""
        self._hashes.pop(tx_hash, None)
        self._hashes[tx_hash] = None
        self._in_this_pass += 1
        return self._in_this_pass < UNDECIDED_MAX


def untaken_reason(pool: TxPool, tx_hash: bytes, untaken_s: float = UNTAKEN_S) -> str | None:
    """That no other node has taken a transaction for ``untaken_s``; None before, and when one has."""
    since = pool.unforwarded_since(tx_hash)
    if since is None or (waited := time.monotonic() - since) < untaken_s:
        return None
    return f"No other node has taken it for {int(waited)} s; it waits in this node's pool"


@final
class PoolHandover:
    """The :class:`Handover` of one pool, to one sink."""

    def __init__(self, pool: TxPool, sink: TxSink, *, untaken_s: float = UNTAKEN_S) -> None:
        self._pool = pool
        self._sink = sink
        self._untaken_s = untaken_s
        self._offers = threading.BoundedSemaphore(OFFERS_MAX)
        self._asked = threading.BoundedSemaphore(ASKED_MAX)
        self._flushing = threading.Lock()
        #: For the thread that flushes.
        self._undecided = Undecided()
        #: Transactions of the pool that a thread is handing on.
        self._on_their_way: set[bytes] = set()
        self._way_lock = threading.Lock()
        #: Reason why the newest attempt to hand on what waits in the pool failed; None if it did not.
        self._failure: str | None = None

    @property
    def trouble(self) -> str | None:
        return self._failure if self._failure is not None and self.has_waiting else None

    @property
    def has_waiting(self) -> bool:
        return self._pool.has_unforwarded

    def waiting_reason(self, tx_hash: bytes) -> str | None:
        return untaken_reason(self._pool, tx_hash, self._untaken_s)

    def offer(self, tx_hash: bytes, tx_json: bytes) -> None:
        if not self._offers.acquire(blocking=False):
            return  # it stays unforwarded, and the next flush takes it along
        try:
            self._hand_on(tx_hash, tx_json)
        except UpstreamUndecided as error:
            self._failure = str(error)  # it stays, and is asked about again
        finally:
            self._offers.release()

    def ask(self, tx_json: bytes) -> None:
        if not self._asked.acquire(blocking=False):
            raise Refused(f"{ASKED_MAX} transactions are on their way to other nodes; try again later", data=_BUSY)
        try:
            if not self._sink.forward(tx_json):
                raise Refused(NO_UPSTREAM, data={"code": "NO_UPSTREAM"})
        except UpstreamUndecided as error:
            raise Refused(NO_UPSTREAM, data={"code": "NO_UPSTREAM"}) from error
        finally:
            self._asked.release()

    def flush(self) -> None:
        if not self._flushing.acquire(blocking=False):
            return
        try:
            for tx_hash in self._undecided.begin(self._pool.unforwarded_hashes()):
                tx_json = self._pool.tx_json(tx_hash)
                if tx_json is not None and not self._try(tx_hash, tx_json):
                    return
        finally:
            self._flushing.release()

    def _try(self, tx_hash: bytes, tx_json: bytes) -> bool:
        try:
            return self._hand_on(tx_hash, tx_json)
        except Refused:
            return True  # the pool's log has the reason; the others may do better
        except UpstreamUndecided as error:
            self._failure = str(error)
            return self._undecided.note(tx_hash)

    def _hand_on(self, tx_hash: bytes, tx_json: bytes) -> bool:
        """False when no node answers.  A client's thread and a flush may come to one transaction at the same time, and
        one that is refused, taken or evicted meanwhile need not go out: then there is nothing to do."""
        with self._way_lock:
            if tx_hash in self._on_their_way or self._pool.unforwarded_since(tx_hash) is None:
                return True
            self._on_their_way.add(tx_hash)
        try:
            return self._give(tx_hash, tx_json)
        finally:
            with self._way_lock:
                self._on_their_way.discard(tx_hash)

    def _give(self, tx_hash: bytes, tx_json: bytes) -> bool:
        def is_wanted() -> bool:
            return self._pool.waits_for_block(tx_hash)

        try:
            is_taken = self._sink.forward(tx_json, is_wanted)
        except Refused as error:
            self._failure = None
            self._pool.drop(tx_hash, f"refused upstream: {error.message}")
            raise
        except UpstreamUndecided:
            raise
        except Exception as error:
            self._failure = f"transactions are not handed on: {type(error).__name__}"
            raise
        if not is_taken and not is_wanted():
            return True
        self._failure = None if is_taken else NOT_HANDED_ON
        if is_taken:
            self._pool.mark_forwarded(tx_hash)
        return is_taken
