"""Transactions of the fleet: what one node takes all take, and one of those that have an upstream hands it on.

    a client sends one        checked here, into the pool here, stored on the bus; then the client is answered
    every node                reads the stream of transactions in its order, checks them, takes them into its pool
    the holder of the lease   says on the bus that it hands one on (the claim), hands it on, says what came of it
    every node                drops what was refused, and marks what was taken

A claim names the one that it replaces, so a transaction has one at a time; another node replaces it only when its
owner is dead.  What was read is known by its place in the stream: after a gap or a restart reading goes on there.
After a loss of the connection it goes on a few minutes before that, and what waits here and is not on the bus is put
there again: servers that lost power have lost the end of what they took, and give its places to others.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from fastnode.bus.connection import Bus, Message, StreamSetup
from fastnode.bus.handing_on import READ_TRIES, REFUSED, TAKEN, UNSYNCED_S, HandingOn
from fastnode.bus.members import Members, bucket_of
from fastnode.bus.packing import read_tx, unpacked_tx
from fastnode.bus.passed_by import PassedBy
from fastnode.bus.questions import Questions
from fastnode.bus.sharing import Sharing
from fastnode.bus.subjects import Subjects, read_versioned
from fastnode.errors import DatabaseError, FastnodeError, Refused, UpstreamError, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.loop import Loop, Setbacks
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.handover import TxSink
from fastnode.mempool.pool import NOT_READY, Added
from fastnode.mempool.rules import TxRejected
from fastnode.mempool.service import Mempool
from fastnode.mempool.store import REASON_LENGTH_MAX
from fastnode.mempool.validation import UNKNOWN_ANCHOR
from fastnode.protocol.tx import Tx
from fastnode.records import dataclass
from fastnode.view import View

__all__ = ["SharedTxs", "Standing"]

logger = logging.getLogger("fastnode.bus")

POLL_S: Final = 1.0
#: Time between two looks at the stream, in seconds.
LOOK_S: Final = 1.0
#: Receipts about which the bus is asked at a time, and for how long one waits for its turn.
QUESTIONS_MAX: Final = 4
QUESTION_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A transaction that the fleet knows: whether it is on its way to this node's pool, and what is to say of it."""

    is_pending: bool
    reason: str


class Takes(Protocol):
    """Builder of blocks on this node."""

    def __call__(self, tx: Tx, tx_json: bytes) -> None: ...


class SharedTxs:
    """``sink``: other nodes that take transactions; None: this node hands none on.  ``on_accepted`` is told of those
    that other nodes of the fleet have taken."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        mempool: Mempool,
        view: Callable[[], View | None],
        members: Members,
        *,
        session: str,
        sink: TxSink | None = None,
        on_accepted: Takes | None = None,
    ) -> None:
        self._bus = bus
        self._subjects = subjects
        self._mempool = mempool
        self._view = view
        self._on_accepted = on_accepted
        #: ``shared`` by clients here, ``received`` from others, ``handed_on``, ``refused``.
        self.counts: Counter[str] = Counter()
        self.handing_on = HandingOn(bus, subjects, mempool, members, self.counts, session=session, sink=sink)
        self._sharing = Sharing(bus, subjects, mempool, self.handing_on)
        self._next = 1
        self._created: str | None = None
        self._connection: int | None = None
        #: Times, and places from which reading went on then; the first is the newest that is old enough.
        self._read_at: deque[tuple[float, int]] = deque([(0.0, 1)])
        self._next_look_at = 0.0
        self._is_listening = False
        self._passed_by = PassedBy()
        self._reader = Loop(
            "fastnode-txs", self._read_on, what="transactions of the fleet are not read", clock=bus.clock
        )
        self._questions = Questions(self._ask_standing, QUESTIONS_MAX, QUESTION_S)
        #: Reason why transactions of other nodes do not come; None while they do.
        self._read_trouble: str | None = None
        self._left_out = Setbacks("a message of the fleet is left out")

    def start(self) -> None:
        self._bus.on_connected(self._look_again)
        self._reader.start()
        self.handing_on.start()

    def close(self) -> None:
        self._reader.interrupt()
        self.handing_on.close()
        self._reader.close()

    @property
    def _hands_on(self) -> bool:
        return self.handing_on.has_sink

    @property
    def _is_stopping(self) -> bool:
        return self._reader.is_stopping

    def troubles(self) -> dict[str, str | None]:
        return {
            "sharedTransactions": self._reader.trouble or self._read_trouble,
            "forwarding": self.handing_on.trouble,
        }

    def _look_again(self) -> None:
        self._next_look_at = 0.0
        self._reader.wake()

    # ---- from clients ----------------------------------------------------------------------------

    def share(self, tx: Tx, tx_json: bytes) -> None:
        """Returns when the bus has it; Refused, and it has left the pool, when it does not take it in time."""
        data = self._sharing.share(tx.hash, tx_json, lambda: self._is_stopping)
        self.counts["shared"] += 1
        self._entrust(tx, data)

    def share_repeated(self, tx: Tx, tx_json: bytes) -> None:
        """As :meth:`share`, of one that a client sends once more: it stays in the pool."""
        self._sharing.share(tx.hash, tx_json, lambda: self._is_stopping, may_be_there=True)

    # ---- questions -------------------------------------------------------------------------------

    def standing_of(self, tx_hash: bytes) -> Standing | None:
        """Standing in the fleet of a transaction that is not in this node's pool; None: no node of it has taken it.

        Asks the bus, which takes a moment.  UpstreamUnavailable when it does not answer, or too many ask at once;
        Refused while the pool takes nothing.
        """
        return self._questions.answer(tx_hash)

    def _ask_standing(self, tx_hash: bytes) -> Standing | None:
        message = self._bus.last(self._subjects.tx_stream, self._subjects.tx(tx_hash))
        hand = None if message is None else self.handing_on.hand_of(tx_hash)
        if message is None:
            return None
        if hand is not None and hand[1].get("state") == REFUSED and hand[0] > message.sequence:
            return Standing(is_pending=False, reason=f"refused upstream: {hand[1].get('reason')}"[:REASON_LENGTH_MAX])
        if message.sequence >= self._next or self._passed_by.is_kept(tx_hash):
            return Standing(is_pending=True, reason="Another node of this fleet has taken it; it is on its way here")
        is_taken = hand is not None and hand[1].get("state") == TAKEN
        return self._standing_elsewhere(tx_hash, message.data, is_taken=is_taken)

    def _standing_elsewhere(self, tx_hash: bytes, data: bytes, *, is_taken: bool) -> Standing:
        """Standing of one that was read, and this node's pool did not take: others' pools have it, or an upstream."""
        pool = self._mempool.pool
        try:
            obstacle = pool.obstacle_to(PoolEntry.of(read_tx(tx_hash, data, pool.release), pool.release))
        except Refused:  # the pool is not open yet, or any more
            raise
        except (FastnodeError, ValueError, zlib.error):
            return Standing(is_pending=False, reason="a message of the fleet makes no sense")
        view = self._view()
        is_in_chain = view is not None and view.chain.tx_location(tx_hash) is not None
        # Wherever it was taken the block that it is built on may be there still.
        if obstacle is None or is_in_chain or (is_taken and obstacle == UNKNOWN_ANCHOR):
            place = "handed it on" if is_taken else "taken it"
            return Standing(is_pending=True, reason=f"A node of this fleet has {place}; it is not in this node's pool")
        return Standing(is_pending=False, reason=f"a node of this fleet had taken it: {obstacle}")

    # ---- from the bus ----------------------------------------------------------------------------

    def _read_on(self) -> float:
        try:
            while self._read_some() and not self._is_stopping:
                pass
            self._read_trouble = None
        except UpstreamError as error:
            self._read_trouble = str(error)
            self._next_look_at = 0.0
        except DatabaseError as error:
            self._read_trouble = str(error)
        return POLL_S

    def _read_some(self) -> bool:
        """Read some messages; True if there were any."""
        now = self._bus.clock.monotonic()
        if now >= self._next_look_at:
            self._look_at_stream()
            self._sharing.share_missing(now)
            self._next_look_at = now + LOOK_S
        view = self._view()
        if view is None:
            return False
        self._try_again()
        self._read_due(view)
        messages = self._bus.since(self._subjects.tx_stream, self._next, self._subjects.all_txs)
        for message in messages:
            self._take(message)
            self._next = message.sequence + 1
        return bool(messages)

    def _look_at_stream(self) -> None:
        subjects, connection = self._subjects, self._bus.connection_number
        state = self._bus.state(subjects.tx_stream)
        if state is None:
            self._bus.set_up(
                StreamSetup(
                    name=subjects.tx_stream,
                    subjects=(subjects.all_txs,),
                    live=(subjects.all_txs, f"{subjects.live_txs}.>"),
                    live_headers_only=True,
                    age_s=self._bus.options.tx_s,
                )
            )
            self._bus.set_up(bucket_of(subjects))
            state = self._bus.state(subjects.tx_stream) or {}
        created, last = state.get("created"), int(state.get("last_seq") or 0)
        if created != self._created:
            self._read_again_from(1)
        elif connection != self._connection or last < self._next - 1:
            begin = self._read_at[0][1]
            self._read_again_from(begin if begin <= last + 1 else 1)
        self._created, self._connection = created, connection
        self._note_place()
        if not self._is_listening:
            self._bus.listen(f"{subjects.live_txs}.>", lambda *_: self._reader.wake())
            self._is_listening = True

    def _read_again_from(self, place: int) -> None:
        """Read once more what was read in the last :data:`UNSYNCED_S`."""
        self._sharing.share_again()
        self.handing_on.say_again()
        self._next = place
        self._read_at = deque([(0.0, place)])

    def _note_place(self) -> None:
        now = self._bus.clock.monotonic()
        if self._read_at[-1][1] != self._next:
            self._read_at.append((now, self._next))
        while len(self._read_at) > 1 and now - self._read_at[1][0] >= UNSYNCED_S:
            self._read_at.popleft()

    def _take(self, message: Message) -> None:
        for _ in range(READ_TRIES):
            try:
                self._take_once(message)
                return
            except (UpstreamUnavailable, DatabaseError):  # it is no fault of the message, which waits for its turn
                raise
            except (FastnodeError, ValueError, zlib.error) as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._left_out.note(error)
                return
            again = self._bus.last(self._subjects.tx_stream, message.subject)
            if again is None:  # another one took its place, and has gone too
                return
            message = again
        text = message.subject.rpartition(".")[2]
        logger.warning("a message of the fleet makes no sense", extra=log_facts(tx=text[:64], reason=reason))

    def _take_once(self, message: Message) -> None:
        kind, _, text = message.subject[len(self._subjects.tx_stream) + 1 :].partition(".")
        tx_hash = bytes.fromhex(text)
        if kind == "tx":
            self._take_tx(tx_hash, message.data)
        elif kind == "hand":
            self.handing_on.heed(tx_hash, read_versioned(message.data, "what came of a transaction"))

    def _take_tx(self, tx_hash: bytes, data: bytes) -> None:
        view = self._view()
        pool = self._mempool.pool
        if view is None or pool.is_waiting(tx_hash):
            self.handing_on.wake()
            return
        location = view.chain.tx_location(tx_hash)
        if location is not None:
            self._passed_by.note(tx_hash, location.block_number, view.chain)
            return
        tx = read_tx(tx_hash, data, view.chain.chain.release)
        try:
            outcome = self._mempool.receive(tx, view, forwarded=not self._hands_on)
        except TxRejected as error:
            logger.info("transaction of the fleet not taken", extra=log_facts(tx=tx_hash.hex(), reason=error.message))
            self._entrust(tx, data)
            return
        except Refused as error:
            if UNKNOWN_ANCHOR in error.message or error.message == NOT_READY:
                self._passed_by.keep(tx, data, self._bus.clock.monotonic())
                return
            logger.info("transaction of the fleet not taken", extra=log_facts(tx=tx_hash.hex(), reason=error.message))
            return
        if outcome is Added.ACCEPTED:
            self.counts["received"] += 1
            if self._on_accepted is not None:
                self._on_accepted(tx, unpacked_tx(data))
        if outcome is not Added.IGNORED:
            self._entrust(tx, data)
        elif pool.departure_of(tx_hash) == UNKNOWN_ANCHOR:  # its view is older than the one here
            self._passed_by.keep(tx, data, self._bus.clock.monotonic())

    def _entrust(self, tx: Tx, data: bytes) -> None:
        """One that is valid is handed on, also if the pool has no place for it, now or later."""
        if self._hands_on:
            self.handing_on.entrusted.keep(PoolEntry.of(tx, self._mempool.pool.release), data)
        self.handing_on.wake()

    def _try_again(self) -> None:
        for tx_hash, data in self._passed_by.kept(self._bus.clock.monotonic()):
            self._take_again(tx_hash, data)

    def _read_due(self, view: View) -> None:
        for tx_hash in self._passed_by.due(view.chain):
            message = self._bus.last(self._subjects.tx_stream, self._subjects.tx(tx_hash))
            if message is not None:
                self._take(message)
                self._heed_if_waiting(tx_hash)
            self._passed_by.read(tx_hash)

    def _take_again(self, tx_hash: bytes, data: bytes) -> None:
        """UpstreamError where the bus does not say what became of it, DatabaseError where this node cannot keep it:
        it is tried again."""
        try:
            self._take_tx(tx_hash, data)
        except DatabaseError:
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._left_out.note(error)
            self._passed_by.let_go(tx_hash)
            return
        if self._heed_if_waiting(tx_hash):
            self._passed_by.let_go(tx_hash)

    def _heed_if_waiting(self, tx_hash: bytes) -> bool:
        """Records that came meanwhile were read when it was not in the pool."""
        is_waiting = self._mempool.pool.is_waiting(tx_hash)
        if is_waiting:
            self.handing_on.heed(tx_hash, self.handing_on.standing_hand(tx_hash)[1])
        return is_waiting
