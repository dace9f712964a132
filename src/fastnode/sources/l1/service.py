"""L1 beside a followed chain: a thread that looks at each new L1 block, and what others ask of what it saw.

l1 = L1Reader(urls, network, options)
facts = l1.learn(wanted)               # waits; the rollup's constants, for a node that has nothing stored yet
l1.begin(wanted, stored chain)         # starts the thread
l1.messages_of(checkpoint)             # MessageSource
l1.newest()                            # L1Tips
l1.newest_fees()                       # what fees.l1 computes prices from
l1.close()

While L1 does not answer, what was seen last stays: it can only be behind.  The chain goes on with what the followed
node gives, and the status says so.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import PublicationClaim, PublicationOnL1
from fastnode.errors import DecodeError, FastnodeError, StartError, UpstreamError, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.canonical import CanonicalRollup, read_canonical
from fastnode.sources.l1.committees import Committees
from fastnode.sources.l1.endpoints import L1Block, L1Client, L1Endpoint
from fastnode.sources.l1.inbox import CompactInbox, Inbox
from fastnode.sources.l1.looks import Looks
from fastnode.sources.l1.observer import L1Observer
from fastnode.sources.l1.publications import PublicationCheck
from fastnode.sources.l1.questions import OptionalQuestions, Question
from fastnode.sources.l1.rollup import RollupFacts, Wanted, difference, read_facts
from fastnode.sources.l1.schedule import BlockSchedule
from fastnode.sources.l1.state import FeeState, L1State, archives_of, outbox_roots
from fastnode.sources.l1.terms import SlashingRounds, read_committee_size, read_slashing_rounds

__all__ = ["L1Options", "L1Reader"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two blocks of most L1 networks.
USUAL_SLOT_S: Final = 12
#: L1's newest block is at most so many slots old, unless blocks are missing.
CURRENT_SLOTS: Final = 4
#: Time a caller waits for messages from L1, in seconds.
MESSAGE_WAIT_S: Final = 5.0
#: A second question for the same messages within this time means that the first answer could not be used.
DOUBT_S: Final = 30.0
_DOUBTS_MAX: Final = 256
#: Epochs whose outbox roots are kept until the next L1 block.
ROOTS_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class L1Options:
    """Times in seconds; ``grace_s``: how long L1 may be silent before it counts as trouble.

    ``slot_duration``: of L1; None: that of the stored chain, else the usual one.
    """

    slot_duration: int | None = None
    #: Epochs whose committees are kept; 0: none are asked for.
    committee_epochs: int = 0
    poll_interval_s: float = 1.0
    #: Ask when the next block is due instead, where L1 has regular times.
    waits_for_blocks: bool = False
    drift_max_s: int = 300
    grace_s: float = 5.0
    first_answer_s: float = 60.0
    #: What the operator knows of the limits of providers; None: they are learned.
    calls_per_second: float | None = None
    batch_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """L1 is not read: the error of the last look, and since when looks have failed."""

    reason: str
    since: float


class L1Reader:
    """Usable from any thread, once ``begin`` or ``learn`` has been called.

        NEW ── L1 answers, and is that of the stored chain ──► READING ── a look fails ──► SILENT
         │                                                        ▲                          │
         └── it is of another chain ──► REFUSED, asked again      └── a look goes well ──────┘

    There is an observer from READING on; what it saw last stays while L1 is SILENT.
    """

    def __init__(
        self,
        urls: Sequence[str],
        network: Network,
        options: L1Options,
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        self.clock = clock
        self._client = L1Client(
            urls,
            network,
            limits=limits,
            patience=patience,
            calls_per_second=options.calls_per_second,
            batch_calls=options.batch_calls,
        )
        self._options = options
        self._wanted: Wanted | None = None
        self._facts: RollupFacts | None = None
        self._stored: Callable[[], ChainView] | None = None
        self._observer: L1Observer | None = None
        self._schedule = BlockSchedule(
            options.poll_interval_s, waits_for_blocks=options.waits_for_blocks, clock=clock.time
        )
        self._looks = Looks(clock)
        self._loop = Loop("fastnode-l1", self._turn, what="L1 is not read", clock=clock, on_error=self._looks.end)
        self._has_begun = False
        self._questions = OptionalQuestions()
        self._slashing: SlashingRounds | None = None
        #: Epoch of L1 in which each question of :meth:`_look_each_epoch` was answered last.
        self._answered_in: dict[Question, int] = {}
        #: New values that the last pass read, and that the next one must confirm.
        self._unconfirmed: dict[Question, object] = {}
        #: Whether the rollup is the canonical one.
        self.canonical = CanonicalRollup()
        #: Shown in the node's status; None: the last look went well.
        self._silence: Silence | None = Silence("L1 has not been asked yet", self.clock.monotonic())
        self._refusal: str | None = None
        #: Guards what is kept of others' questions.
        self._lock = threading.Lock()
        self._roots: dict[int, tuple[tuple[int, int], list[bytes]]] = {}  # by epoch: number and time of L1 block, roots
        self._asked: OrderedDict[int, float] = OrderedDict()
        self._publications: PublicationCheck | None = None
        self.committees = Committees(options.committee_epochs)
        #: Told of the last block that stays when what was not proven in time is given up; in the thread that ingests.
        self.on_pruned: Callable[[int], None] = lambda last_kept: None

    def invariant(self) -> None:
        """AssertionError unless what is read is of a rollup that is known, and not refused."""
        silence, observer = self._silence, self._observer
        assert observer is not None or silence is not None
        if observer is not None:
            assert self._facts is not None
            assert self._stored is not None
            assert self._refusal is None
        with self._lock:
            assert len(self._roots) <= ROOTS_MAX
            assert len(self._asked) <= _DOUBTS_MAX

    # ---- life ----------------------------------------------------------------------------------

    def learn(self, wanted: Wanted) -> RollupFacts:
        """Facts of the rollup from L1; waits for L1 to answer.  StartError if it does not, or has no such rollup."""
        self._expect(wanted)
        deadline = self.clock.monotonic() + self._options.first_answer_s
        while True:
            try:
                return self._learned()
            except UpstreamUnavailable as error:
                is_hopeless = all(endpoint.is_of_other_chain for endpoint in self._client.all)
                if is_hopeless or self.clock.monotonic() > deadline or self._looks.is_closed:
                    raise StartError(f"L1 cannot be read: {error}") from error
            self._looks.rest(self._client.seconds_until_usable())

    def learn_again(self, pause_s: float) -> RollupFacts:
        """As :meth:`learn`, after a pause: the registry may name another rollup by then."""
        assert self._wanted is not None
        self._looks.rest(pause_s)
        self._facts = None
        return self.learn(self._wanted)

    def constants(self, facts: RollupFacts) -> dict[str, Any]:
        """The facts as ``l1Constants`` of a chain; the length of L1's slots only if the operator gave it."""
        duration = self._options.slot_duration
        return facts.l1_constants() | ({} if duration is None else {"ethereumSlotDuration": duration})

    def try_learn(self, wanted: Wanted) -> RollupFacts | None:
        """As :meth:`learn`, but asks once; None when L1 does not answer now."""
        self._expect(wanted)
        try:
            return self._learned()
        except UpstreamUnavailable:
            return None

    def begin(self, stored: Callable[[], ChainView], *, in_thread: bool = True) -> None:
        """Start looking.  ``stored`` gives the newest view of the chain that is stored; not ``in_thread``: the caller
        looks itself (:meth:`look_once`)."""
        self._stored = stored
        if in_thread:
            self._has_begun = True
            self._loop.start()

    def interrupt(self) -> None:
        """End every wait for L1."""
        self._looks.close()
        self._loop.interrupt()
        if self._inbox is not None:
            self._inbox.close()

    def close(self) -> None:
        """After the network is closed, so that no question is under way.  May be called more than once."""
        self.interrupt()
        self._loop.close()

    def _expect(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._client.expected_chain_id = wanted.chain_id

    def _learned(self) -> RollupFacts:
        wanted = self._wanted
        assert wanted is not None
        if self._facts is None:
            self._facts = self._client.run(lambda endpoint: read_facts(endpoint, wanted))
        return self._facts

    # ---- what others ask -----------------------------------------------------------------------

    @property
    def name(self) -> str:
        return "L1"

    def messages_of(self, checkpoint_number: int) -> Sequence[bytes] | None:
        """The messages that a checkpoint inserts; None if L1 does not say (yet).

        A second question for the same checkpoint reads L1 again: the first answer did not fit, so L1 may have changed.
        """
        return self._ask_inbox(
            checkpoint_number,
            lambda inbox: inbox.messages_of(checkpoint_number),
            lambda inbox: inbox.is_complete(checkpoint_number),
        )

    def messages_between(self, first: int, end: int) -> Sequence[bytes] | None:
        """Return the messages of these indexes (``end`` is behind the last), in a release that counts them.

        None if L1 does not have them (yet); a second question reads L1 again, as in :meth:`messages_of`.
        """

        def known(inbox: Inbox) -> Sequence[bytes] | None:
            return inbox.messages_between(first, end) if isinstance(inbox, CompactInbox) else None

        def is_there(inbox: Inbox) -> bool:
            return isinstance(inbox, CompactInbox) and inbox.has_up_to(end)

        return self._ask_inbox(end, known, is_there)

    def message_index(self, message: bytes) -> int | None:
        """Return the leaf index of a message that the Inbox had when it was last read, in a release that counts them.

        None for another one.
        """
        inbox = self._inbox
        return inbox.index_of(message) if isinstance(inbox, CompactInbox) else None

    def _ask_inbox(
        self, key: int, known: Callable[[Inbox], Sequence[bytes] | None], is_there: Callable[[Inbox], bool]
    ) -> Sequence[bytes] | None:
        if not self._looks.has_ended_one:
            self._look_again()
        inbox = self._inbox
        if inbox is None:
            return None
        found = known(inbox)
        if self._is_doubted(key):
            self._look_again()
        elif found is not None:
            return found
        if self._silence is not None and inbox.progress is None:
            return known(inbox)
        self._looks.want()
        inbox.wait_until(lambda: is_there(inbox), MESSAGE_WAIT_S)
        return known(inbox)

    @property
    def newest_block_may_be_old(self) -> bool:
        """True for an L1 that may stand still, and be somewhere else in time."""
        return self._options.drift_max_s == 0

    def now(self) -> float:
        """The time of L1's newest block, or that of the clock on the wall if it is later.

        An L1 whose newest block may be as old as it is goes by a time of its own, unless it is silent: who lags behind
        others must not take them for hasty.
        """
        if self._state is None:
            return self.clock.time()
        newest = float(self.newest_timestamp)
        has_own_time = self.newest_block_may_be_old and self._silence is None
        return newest if has_own_time else max(newest, self.clock.time())

    def is_past(self, at: float) -> bool:
        """True if L1 has a later block than this time, by the local clock; never where L1 has a time of its own."""
        return not self.newest_block_may_be_old and self.clock.time() >= at + self.slot_duration

    @property
    def is_current(self) -> bool:
        """True if L1 answers, and its newest block is not older than it may be."""
        is_old = self.clock.time() - self.newest_timestamp > CURRENT_SLOTS * self.slot_duration
        return self._silence is None and (self.newest_block_may_be_old or not is_old)

    def seen(self) -> tuple[RollupFacts, L1State]:
        """The rollup, and what L1 said at the newest block that was looked at.  UpstreamUnavailable."""
        facts, state = self._facts, self._state
        if self._refusal is not None:
            raise UpstreamUnavailable(self._refusal)
        if state is None and self._has_begun:
            self._look_again()
            facts, state = self._facts, self._state
        if facts is None or state is None:
            raise UpstreamUnavailable("L1 has not answered yet" if self._silence is None else self._silence.reason)
        return facts, state

    @property
    def _state(self) -> L1State | None:
        return None if self._observer is None else self._observer.state

    @property
    def _inbox(self) -> Inbox | None:
        return None if self._observer is None else self._observer.inbox

    @property
    def newest_number(self) -> int:
        """Number of the newest block that was seen; the state of :meth:`seen` may be that of one before it, without
        news since."""
        return 0 if self._observer is None else self._observer.newest[0]

    @property
    def newest_timestamp(self) -> int:
        """Timestamp of the newest block that was seen; 0 before there is one."""
        return 0 if self._observer is None else self._observer.newest[1]

    @property
    def finalized(self) -> int | None:
        """The newest checkpoint that was proven at L1's final block, as far as it is known."""
        return None if self._observer is None else self._observer.finalized

    @property
    def client(self) -> L1Client:
        """For those who write to L1."""
        return self._client

    @property
    def endpoints(self) -> Sequence[L1Endpoint]:
        """In the order of preference."""
        return self._client.all

    def mana_limit(self, facts: RollupFacts) -> int:
        """L2 gas of one checkpoint, at the newest block; the rollup can only raise it."""
        fees = None if self._observer is None else self._observer.fees
        return facts.mana_limit if fees is None else max(facts.mana_limit, fees.facts.pricing.mana_limit)

    def run(self, work: Callable[[L1Endpoint], T]) -> T:
        """As that of the client: for what does not depend on the newest block."""
        return self._client.run(work)

    def ask(self, head: L1Block, work: Callable[[L1Endpoint], T]) -> T:
        """The result of ``work`` with an endpoint that has ``head``: answers of two forks are not mixed.

        UpstreamUnavailable.
        """
        state = self._state

        def pinned(endpoint: L1Endpoint) -> T:
            is_checked = state is not None and state.head == head and state.endpoint == endpoint.name
            if not is_checked and endpoint.block(head.number) != head:
                raise UpstreamUnavailable(f"it does not have block {head.number} that was looked at")
            return work(endpoint)

        return self._client.run(pinned)

    def newest(self) -> tuple[int, int] | None:
        """Newest proven and newest finalized checkpoint."""
        state = self._state
        if state is None:
            return None
        return state.proven, min(self.finalized or 0, state.proven)

    def archive_roots(self, numbers: Sequence[int]) -> list[bytes] | None:
        """Archive roots after checkpoints, zero for what L1 does not have; None when L1 does not answer."""
        facts = self._facts
        if facts is None or self._refusal is not None:
            return None
        try:
            return self._client.run(lambda endpoint: archives_of(endpoint, facts, list(numbers)))
        except UpstreamUnavailable:
            return None

    def differences(self, claims: Sequence[PublicationClaim]) -> list[FastnodeError | None] | None:
        """Errors of the claims, None for one that is true; None when L1 does not answer."""
        check, state = self._publication_check(), self._state
        if check is None:
            return None
        known = None if state is None else state.proposed
        try:
            return self._client.run(lambda endpoint: check.differences(endpoint, claims, known))
        except UpstreamUnavailable:
            return None

    def publications(self, claims: Sequence[PublicationClaim]) -> list[PublicationOnL1 | None] | None:
        """Publications that L1 has of the checkpoint of each claim; None when L1 does not answer."""
        check = self._publication_check()
        if check is None:
            return None
        try:
            return self._client.run(lambda endpoint: check.publications(endpoint, claims))
        except UpstreamUnavailable:
            return None

    def _publication_check(self) -> PublicationCheck | None:
        if self._facts is None or self._refusal is not None:
            return None
        if self._publications is None:
            self._publications = PublicationCheck(self._facts)
        return self._publications

    def outbox_roots(self, epoch: int) -> list[bytes]:
        """Roots of an epoch's messages to L1, zero for none: one, or one for each number of checkpoints that the epoch
        may have been proven by.  UpstreamUnavailable."""
        facts, observer = self._facts, self._observer
        if facts is None or observer is None or observer.state is None:
            raise UpstreamUnavailable("L1 has not answered yet")
        newest = observer.newest
        with self._lock:
            kept = self._roots.get(epoch)
        # Clients must not be able to spend what a provider grants.
        if kept is not None and kept[0] == newest:
            return kept[1]
        roots = self._client.run(lambda endpoint: outbox_roots(endpoint, facts, epoch))
        with self._lock:
            if len(self._roots) >= ROOTS_MAX:
                self._roots.clear()
            self._roots[epoch] = (newest, roots)
        return roots

    @property
    def trouble(self) -> str | None:
        """Reason why L1 is not read, for the operator; None while it is."""
        if self._refusal is not None or self._loop.trouble is not None:
            return self._refusal or self._loop.trouble
        now, observer = self.clock.monotonic(), self._observer
        silence = (None, 0.0) if self._silence is None else (self._silence.reason, self._silence.since)
        contradiction = (None, 0.0) if observer is None else (observer.contradiction, observer.contradicted_since)
        for reason, since in (silence, contradiction):
            if reason is not None and now - since >= self._options.grace_s:
                return reason
        return None

    def troubles(self) -> dict[str, str | None]:
        """Optional questions that are not answered, by name; None for the others."""
        return self._questions.troubles()

    def reasons(self) -> str:
        """The reason for each node of L1 that is not asked at the moment."""
        return self._client.reasons()

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        state, inbox, observer = self._state, self._inbox, self._observer
        newest = (None, None) if state is None or observer is None else observer.newest
        progress = None if inbox is None else inbox.progress
        return {
            "state": "degraded" if self.trouble is not None else "starting" if state is None else "reading",
            "reason": self.trouble,
            "block": newest[0],
            "blockTime": newest[1],
            "pendingCheckpoint": None if state is None else state.pending,
            "provenCheckpoint": None if state is None else state.proven,
            "finalizedCheckpoint": self.finalized,
            "messages": None if inbox is None else inbox.count,
            "messagesReadTo": None if progress is None else progress[0],
            "reorgs": 0 if inbox is None else inbox.reorg_count,
            "canonicalRollup": None if self.canonical.address is None else hex_data(self.canonical.address),
            "isCanonical": self.canonical.is_canonical,
            "queries": self._questions.describe(),
            "nodes": [endpoint.describe() for endpoint in self._client.all],
        }

    @property
    def slot_duration(self) -> int:
        if self._options.slot_duration is not None:
            return self._options.slot_duration
        constants = {} if self._stored is None else self._stored().chain.l1_constants
        return int(constants.get("ethereumSlotDuration", USUAL_SLOT_S))

    @property
    def facts(self) -> RollupFacts | None:
        """Facts of the rollup, replaced when the size of its committees changes; None before L1 has answered."""
        return self._facts

    def slashing_rounds(self) -> SlashingRounds | None:
        """None before L1 has answered, or when the rollup has no slasher."""
        return self._slashing

    def newest_fees(self) -> tuple[RollupFacts, FeeState] | None:
        """The rollup's constants and the newest state of its fees; None before L1 has answered."""
        observer = self._observer
        return (
            None if self._facts is None or observer is None or observer.fees is None else (self._facts, observer.fees)
        )

    def _is_doubted(self, checkpoint: int) -> bool:
        now = self.clock.monotonic()
        with self._lock:
            before = self._asked.pop(checkpoint, None)
            self._asked[checkpoint] = now
            if len(self._asked) > _DOUBTS_MAX:
                self._asked.popitem(last=False)
        return before is not None and now - before < DOUBT_S

    def doubt(self) -> None:
        """Have the newest block read anew, soon: what was seen of it is not so."""
        if self._observer is not None:
            self._observer.doubt()
        self._looks.want()

    def look_soon(self) -> None:
        """Something has been sent to L1: what becomes of it is waited for."""
        self._looks.want()

    # ---- the thread ----------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Wait for a look that begins after this call."""
        self._looks.wait_for_new(MESSAGE_WAIT_S)

    def _turn(self) -> float:
        if not self._looks.is_closed:
            self._looks.rest(self.look_once())
        return 0.0

    def look_once(self) -> float:
        """Read what is new; returns after how many seconds to look again."""
        self._looks.begin()
        try:
            self._look()
        except (UpstreamError, DecodeError, StartError) as error:
            self._note(str(error))
        else:
            self._note(None)
        self._looks.end()
        pause = self._options.poll_interval_s
        if self._silence is None:
            pause = self._schedule.seconds_until_next(self.slot_duration)
        return max(pause, self._client.seconds_until_usable())

    def _look(self) -> None:
        facts = self._learned()
        stored = self._stored
        assert stored is not None
        if self._observer is None:
            self._compare(facts, stored())
            self._observer = L1Observer(
                facts,
                stored,
                self.committees,
                self._schedule,
                drift_max_s=self._options.drift_max_s,
                clock=self.clock.time,
                # Only those that are known to answer: the look waits for no other.
                others=self._others,
                questions=self._questions,
            )
        self._client.run(self._look_with)

    def _look_with(self, endpoint: L1Endpoint) -> None:
        observer = self._observer
        assert observer is not None
        observer.look(endpoint, self.slot_duration)
        observer.refresh_committees(endpoint)
        self._look_each_epoch(endpoint, observer.newest[1])

    def _look_each_epoch(self, endpoint: L1Endpoint, timestamp: int) -> None:
        """Read what governance can change, once an epoch.

        A query that fails is repeated sooner.  A value other than the current one takes effect when the next pass reads
        it too: one false reply must not last for an epoch.
        """
        facts = self._learned()
        epoch, rollup = facts.epoch_at(timestamp), facts.rollup

        def ask(question: Question, read: Callable[[L1Endpoint], T], note: Callable[[T], None], current: T) -> None:
            if self._answered_in.get(question) == epoch:
                return
            found = self._questions.ask(question, endpoint, self._others(endpoint), lambda one: (read(one),))
            if found is None:
                return
            if found[0] != current and current is not None and self._unconfirmed.get(question) != found[0]:
                self._unconfirmed[question] = found[0]
                return
            self._unconfirmed.pop(question, None)
            note(found[0])
            self._answered_in[question] = epoch

        ask(Question.SLASHER, lambda one: read_slashing_rounds(one, rollup), self._note_rounds, self._slashing)
        ask(
            Question.COMMITTEE_SIZE,
            lambda one: read_committee_size(one, rollup),
            self._note_committee_size,
            facts.target_committee_size,
        )
        ask(
            Question.CANONICAL,
            lambda one: read_canonical(one, facts),
            lambda address: self.canonical.note(facts, address),
            self.canonical.address or (rollup if facts.registry else None),
        )

    def _note_rounds(self, rounds: SlashingRounds | None) -> None:
        self._slashing = rounds

    def _note_committee_size(self, size: int) -> None:
        facts = self._learned()
        before = facts.target_committee_size
        if size != before:
            logger.warning("rollup: committee size changed", extra=log_facts(before=before, size=size))
            self._facts = replace(facts, target_committee_size=size)
            self._publications = None  # it is of the facts before

    def _others(self, endpoint: L1Endpoint) -> Iterable[L1Endpoint]:
        return [other for other in self._client.healthy() if other is not endpoint]

    def _compare(self, facts: RollupFacts, view: ChainView) -> None:
        """StartError, for good, when L1 is not the one of the stored chain."""
        chain = view.chain
        constants = chain.l1_constants | {"genesisArchiveRoot": "0x" + chain.genesis_archive_root.hex()}
        self._refusal = difference(facts, chain.node_info, constants, "the stored chain")
        if self._refusal is not None:
            raise StartError(self._refusal)

    def _note(self, reason: str | None) -> None:
        before = self._silence
        if reason is None:
            self._silence = None
            if before is not None:
                head = None if self._state is None else self._state.head.number
                logger.info("L1 is read", extra=log_facts(block=head))
            return
        self._silence = Silence(reason, self.clock.monotonic() if before is None else before.since)
        if before is None and not self._looks.is_closed:
            logger.warning("L1 is not read", extra=log_facts(reason=reason))
