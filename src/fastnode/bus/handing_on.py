"""The hand of the fleet: the one node that hands a transaction on, and what came of it.

    FREE ── a node that holds the lease claims it ──► CLAIMED ── an upstream takes it ──► TAKEN
     ▲                                                 │   │
     ├── no upstream answers, or the claimer is dead ──┘   └── an upstream refuses it ──► REFUSED
     └── a client sends it once more ◄───────────────────────────────────────────────────────┘

Each is a record on the bus, which names the one that it replaces.  What could not be said is said before anything else,
and once more after servers may have lost it: a claim whose end was lost would stand for as long as its node lives.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.entrusted import Entrusted
from fastnode.bus.lease import Lease
from fastnode.bus.members import Members
from fastnode.bus.subjects import BUS_VERSION, Subjects, read_versioned
from fastnode.errors import FastnodeError, Refused, UpstreamError, UpstreamFault, UpstreamUndecided
from fastnode.log import log_facts
from fastnode.loop import Loop
from fastnode.mempool.handover import NOT_HANDED_ON, TxSink, Undecided
from fastnode.mempool.service import Mempool

__all__ = ["CLAIMED", "FREE", "REFUSED", "TAKEN", "HandingOn"]

logger = logging.getLogger("fastnode.bus")

#: Time between two requests for the lease, in seconds.
LOOK_S: Final = 1.0
#: A node whose upstream does not answer leaves the work to others for so long.
REST_S: Final = 5.0
#: Outcomes of so many seconds, and so many of them at most, are said once more: servers leave less unsynced.
UNSYNCED_S: Final = 150.0
SAID_MAX: Final = 2_000
#: A message that makes no sense is read so many times before it is left out: a line may have turned a bit over.
READ_TRIES: Final = 3

CLAIMED: Final = "claimed"
TAKEN: Final = "taken"
REFUSED: Final = "refused"
#: No node has it in hand (any more).
FREE: Final = "free"


class _Waiting(NamedTuple):
    """Transactions that are to be handed on, and where their contents are."""

    hashes: Callable[[], Sequence[bytes]]
    json_of: Callable[[bytes], bytes | None]
    is_wanted: Callable[[bytes], bool]
    undecided: Undecided


class HandingOn:
    """``sink``: other nodes that take transactions; None: this node hands none on.  ``counts`` gets ``handed_on`` and
    ``refused``."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        mempool: Mempool,
        members: Members,
        counts: Counter[str],
        *,
        session: str,
        sink: TxSink | None,
    ) -> None:
        self._bus = bus
        self._subjects = subjects
        self._mempool = mempool
        self._members = members
        self._counts = counts
        self._sink = sink
        self._by = {"by": bus.options.name, "session": session}
        self.lease = Lease(bus, subjects, "transactions")
        self.entrusted = Entrusted(bus, subjects, mempool)
        pool = mempool.pool
        self._waiting = (
            _Waiting(pool.unforwarded_hashes, pool.tx_json, pool.waits_for_block, Undecided()),
            _Waiting(self.entrusted.outside_pool, self.entrusted.tx_json, self.entrusted.is_possible, Undecided()),
        )
        #: Outcomes of transactions that are not said yet: the record, and the claim that it replaces, if that is known.
        self._unsaid: dict[bytes, tuple[dict[str, Any], int | None]] = {}
        #: Outcomes that were said not long ago, the oldest first, and when.
        self._said: OrderedDict[bytes, tuple[dict[str, Any], float]] = OrderedDict()
        self._may_be_lost = False
        self.loop = Loop("fastnode-hand-on", self._hand_on, what="transactions are not handed on", clock=bus.clock)
        self._trouble: str | None = None

    def invariant(self) -> None:
        """AssertionError unless what is to be said is an end of a claim of this node."""
        assert self._sink is not None or not self._unsaid
        for record, _ in list(self._unsaid.values()):
            assert record["state"] != CLAIMED
            assert self._is_own(record)

    def start(self) -> None:
        if self._sink is not None:
            self.loop.start()

    def close(self) -> None:
        self.loop.close()

    @property
    def has_sink(self) -> bool:
        """True on a node that hands on."""
        return self._sink is not None

    def wake(self) -> None:
        """There may be something to hand on."""
        self.loop.wake()

    def say_again(self) -> None:
        """Servers of the bus may have lost what was said last."""
        self._may_be_lost = True
        self.loop.wake()

    @property
    def trouble(self) -> str | None:
        """Reason why transactions are not handed on; None while they are."""
        return self.loop.trouble or self._trouble

    # ---- what the fleet says ---------------------------------------------------------------------

    def hand_of(self, tx_hash: bytes) -> tuple[int, dict[str, Any]] | None:
        """Place and record of what was said last of a transaction; None: nothing."""
        sequence = 0
        for _ in range(READ_TRIES):
            message = self._bus.last(self._subjects.tx_stream, self._subjects.hand(tx_hash))
            if message is None:
                return None
            try:
                return message.sequence, read_versioned(message.data, "a claim")
            except UpstreamFault:  # nobody's, or a line has turned a bit over
                sequence = message.sequence
        return sequence, {}

    def standing_hand(self, tx_hash: bytes) -> tuple[int, dict[str, Any]]:
        """As :meth:`hand_of`; the record is empty where nothing was said, or a client sent it again after a refusal."""
        sequence, hand = self.hand_of(tx_hash) or (0, {})
        if hand.get("state") == REFUSED and self._is_sent_again(tx_hash, sequence):
            return sequence, {}
        return sequence, hand

    def heed(self, tx_hash: bytes, hand: dict[str, Any]) -> None:
        """Do with the pool what a record on the bus says of a transaction."""
        state, pool = hand.get("state"), self._mempool.pool
        if state in (TAKEN, REFUSED):
            self.entrusted.forget(tx_hash)
        if state == TAKEN:
            pool.mark_forwarded(tx_hash)
        elif state == REFUSED and pool.is_waiting(tx_hash):
            self._counts["refused"] += 1
            pool.drop(tx_hash, f"refused upstream: {hand.get('reason')}")

    # ---- the loop --------------------------------------------------------------------------------

    def _hand_on(self) -> float:
        try:
            if self._may_be_lost:
                self._may_be_lost = False
                for tx_hash, (record, _) in self._said.items():
                    self._unsaid.setdefault(tx_hash, (record, None))
            self._say_what_is_unsaid()
            if self.lease.tick():
                self._hand_on_all()
            else:
                self._trouble = None
        except UpstreamError as error:
            self._trouble = str(error)
        return LOOK_S

    def _hand_on_all(self) -> None:
        self._trouble = None
        for waiting in self._waiting:
            for tx_hash in waiting.undecided.begin(waiting.hashes()):
                if self.loop.is_stopping or not self.lease.tick():
                    return
                tx_json = waiting.json_of(tx_hash)
                if tx_json is not None and not self._hand_on_one(tx_hash, tx_json, waiting):
                    self._trouble = self._trouble or NOT_HANDED_ON
                    self.lease.give_up(REST_S)
                    return

    def _hand_on_one(self, tx_hash: bytes, tx_json: bytes, waiting: _Waiting) -> bool:
        """False: upstreams do not answer, and others are not tried."""
        sequence, hand = self.standing_hand(tx_hash)
        if hand.get("state") in (TAKEN, REFUSED):
            self.heed(tx_hash, hand)
            return True
        if hand.get("state") == CLAIMED and not self._is_abandoned(hand):
            return True  # another node is at it
        self._unsaid[tx_hash] = (self._record(FREE), None)  # unless more is known
        claim = self._bus.publish(self._outgoing(tx_hash, self._record(CLAIMED), sequence))
        if claim is None:
            del self._unsaid[tx_hash]
            return True  # another node was first
        outcome, is_answered = self._forward(tx_hash, tx_json, waiting)
        self._unsaid[tx_hash] = (outcome, claim)
        self._say_what_is_unsaid()
        return is_answered

    def _is_sent_again(self, tx_hash: bytes, refused: int) -> bool:
        """True if a client has sent it since it was refused; ``refused``: place of the refusal in the stream."""
        message = self._bus.last(self._subjects.tx_stream, self._subjects.tx(tx_hash))
        return message is not None and message.sequence > refused

    def _forward(self, tx_hash: bytes, tx_json: bytes, waiting: _Waiting) -> tuple[dict[str, Any], bool]:
        """Outcome, and true if others may be tried.  The pool knows it at once, the fleet when it is said."""
        assert self._sink is not None
        if not self.lease.is_held:
            return self._record(FREE), True
        pool = self._mempool.pool
        try:
            is_taken = self._sink.forward(tx_json, lambda: waiting.is_wanted(tx_hash))
        except Refused as error:
            self.entrusted.forget(tx_hash)
            pool.drop(tx_hash, f"refused upstream: {error.message}")
            self._counts["refused"] += 1
            return self._record(REFUSED, reason=error.message, data=error.data), True
        except UpstreamUndecided as error:
            self._trouble = str(error)
            return self._record(FREE), waiting.undecided.note(tx_hash)
        except FastnodeError as error:
            logger.warning("transaction not handed on", extra=log_facts(reason=str(error)))
            return self._record(FREE), False
        if not is_taken:
            return self._record(FREE), not waiting.is_wanted(tx_hash)
        self.entrusted.forget(tx_hash)
        pool.mark_forwarded(tx_hash)
        self._counts["handed_on"] += 1
        return self._record(TAKEN), True

    def _say_what_is_unsaid(self) -> None:
        for tx_hash, (record, claim) in tuple(self._unsaid.items()):
            if claim is None:  # whether the claim was stored, or what was said of it is there, is not known
                claim = self._replaced_by(record, tx_hash)
            if claim is not None:
                self._bus.publish(self._outgoing(tx_hash, record, claim))
            del self._unsaid[tx_hash]
            self._note_said(tx_hash, record)

    def _replaced_by(self, record: dict[str, Any], tx_hash: bytes) -> int | None:
        """Place of the record that an outcome replaces: the claim of this node, and where the transaction was taken,
        also one that says nothing of that; None if it replaces none."""
        sequence, hand = self.hand_of(tx_hash) or (0, {})
        is_own_claim = hand.get("state") == CLAIMED and self._is_own(hand)
        is_taken_unsaid = record["state"] == TAKEN and hand.get("state") in (None, FREE)
        return sequence if is_own_claim or is_taken_unsaid else None

    def _note_said(self, tx_hash: bytes, record: dict[str, Any]) -> None:
        now = self._bus.clock.monotonic()
        if tx_hash not in self._said:
            self._said[tx_hash] = record, now
        elif self._said[tx_hash][0] is not record:
            self._said[tx_hash] = record, now
            self._said.move_to_end(tx_hash)
        while self._said and (len(self._said) > SAID_MAX or now - next(iter(self._said.values()))[1] > UNSYNCED_S):
            self._said.popitem(last=False)

    def _is_own(self, hand: dict[str, Any]) -> bool:
        return all(hand.get(key) == value for key, value in self._by.items())

    def _is_abandoned(self, claim: dict[str, Any]) -> bool:
        """True too for one of this node, which has nothing in hand when it asks: its end was lost."""
        return self._is_own(claim) or self._members.is_dead(str(claim.get("by")), claim.get("session"))

    def _record(self, state: str, **more: Any) -> dict[str, Any]:
        return {"version": BUS_VERSION, "state": state} | self._by | more

    def _outgoing(self, tx_hash: bytes, record: dict[str, Any], replaced: int) -> Outgoing:
        return Outgoing(self._subjects.hand(tx_hash), orjson.dumps(record), expected=replaced)
