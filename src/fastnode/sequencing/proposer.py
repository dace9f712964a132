"""The sequencer: a thread that looks at each slot once, and proposes a checkpoint in those that are its own.

    slot of the next L1 block ── new? ── chain as L1 has it? ── whose? ── in time? ── would L1 take it?
        ── blocks, each stored as proposed ── every check of a follower ── attestations ── L1 ── its event: checkpointed

A slot that fails costs the slot: blocks that L1 does not have are taken back, their transactions wait again, and the
next slot builds on what L1 has.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fastnode.errors import (
    DatabaseError,
    DecodeError,
    DutyError,
    HaDatabaseError,
    SigningError,
    SlotLost,
    UpstreamError,
)
from fastnode.log import log_facts
from fastnode.loop import Loop
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.header import GasFees, GlobalVariables
from fastnode.records import dataclass
from fastnode.sequencing.attestations import PeerAttestations, attest, propose_call, require_quorum_here
from fastnode.sequencing.candidates import Candidates
from fastnode.sequencing.drafting import Drafted, Drafting
from fastnode.sequencing.fisherman import require_taken
from fastnode.sequencing.invalidation import Invalidation
from fastnode.sequencing.l1_time import L1Time
from fastnode.sequencing.options import SequencerOptions
from fastnode.sequencing.passed_slots import PassedSlots
from fastnode.sequencing.record import SlotOutcome, SlotRecord
from fastnode.sequencing.slot_guard import SlotGuard
from fastnode.sequencing.turns import Turn, is_hatch_open, read_minimum_fee, read_turn, require_turn
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.state import L1State

if TYPE_CHECKING:
    from fastnode.mempool.service import Mempool
    from fastnode.publishing.propose import ProposeCall
    from fastnode.sequencing.chain import ProposedChain
    from fastnode.sequencing.l1_publication import KeyDoor, L1Publication, Published
    from fastnode.sequencing.voting import Ballot, Vote, Voting
    from fastnode.sources.l1.service import L1Reader
    from fastnode.view import View

__all__ = ["Sequencer", "SequencerParts"]

logger = logging.getLogger("fastnode.sequencer")

_CHANCE: Final = random.Random()
#: Share of a slot of L1 after which its last block before ours is not waited for any more.
_MISSED_L1_BLOCK: Final = 0.5
#: The coinbase of what a fisherman builds where there is no committee: L1 refuses the address zero.
_SOMEBODY: Final = bytes(19) + b"\1"
#: The longest pause after what nobody expected, in seconds: slots are short.
_BROKEN_MAX_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencerParts:
    """Parts that a sequencer works with.  ``is_ready``: true if the chain is as new as its sources."""

    reader: L1Reader
    chain: ProposedChain
    mempool: Mempool
    candidates: Candidates
    door: KeyDoor
    publisher: L1Publication
    is_ready: Callable[[], bool]
    is_paused: Callable[[], bool]
    #: The checkpoint on L1 that is not to be stored, if there is one.
    invalidation: Invalidation
    guard: SlotGuard
    #: None: the node is not on the peer-to-peer network.
    peers: PeerAttestations | None = None
    #: None: it does not vote.
    voting: Voting | None = None
    #: Called once for each slot that is this node's.
    tidy: Callable[[], None] = lambda: None


class Sequencer:
    """``start`` it once, ``stop`` it; the rest from any thread."""

    def __init__(self, parts: SequencerParts, options: SequencerOptions) -> None:
        self._parts = parts
        self._options = options
        #: The newest slot that was looked at, or begun before a restart: what was signed then is not signed again.
        self._done = parts.guard.newest
        self._is_first = True
        #: The L1 block that has our newest checkpoint.
        self._published_in = 0
        self._published_slot = -1
        self._time: L1Time | None = None
        self.loop = Loop(
            "fastnode-sequencer",
            self._turn,
            what="slots are not looked at",
            clock=parts.reader.clock,
            longest_s=_BROKEN_MAX_S,
        )
        self.record = SlotRecord()
        self._passed = PassedSlots(parts.reader, parts.door.attesters, lambda: parts.chain.view().chain, self.record)
        #: Activity of the sequencer, or the reason for none.
        self.state = "starting"
        self._signing_trouble: str | None = None
        self._is_warm = False
        parts.candidates.on_arrival = self.loop.wake

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.loop.start()

    def stop(self) -> None:
        """Waits until what is being sent is known, or given up."""
        self.loop.interrupt()
        self._parts.chain.close()
        self.loop.close()

    @property
    def options(self) -> SequencerOptions:
        """Current options."""
        return self._options

    def reconfigure(self, change: Callable[[SequencerOptions], SequencerOptions]) -> None:
        """From the next slot on."""
        self._options = change(self._options)
        self._parts.candidates.age_s = self._options.pool_age_s
        self.loop.wake()

    # ---- what others look at -------------------------------------------------------------------

    def troubles(self) -> dict[str, str | None]:
        return {"sequencer": self.loop.trouble or self._signing_trouble or self.record.trouble}

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return {"state": self.state, **self.record.describe()}

    def is_published(self, slot: int) -> bool:
        """True if the newest checkpoint that L1 took from this node is of this slot."""
        return slot == self._published_slot

    def summary(self) -> str:
        counts = self.record.counts
        return f"{self.state}; {counts['proposed']} slots proposed, {counts['missed']} missed"

    # ---- the thread ----------------------------------------------------------------------------

    def _turn(self) -> float:
        if not self._is_warm:
            self._parts.publisher.warm_up()
            self._is_warm = True
        try:
            waiting = self._look()
        except (UpstreamError, DecodeError) as error:
            waiting = f"waits for L1: {error}"
        except (SlotLost, DatabaseError) as error:  # between slots: the chain rests, or the disk is full
            waiting = f"waits: {error}"
        if waiting is not None:
            self.state = waiting
        try:
            if waiting is not None:
                self._note_waiting(waiting)
            self._passed.record_oldest()
        except (UpstreamError, DecodeError, SlotLost, DatabaseError) as error:  # at the next turn
            logger.debug("passed slots not recorded", extra=log_facts(reason=str(error)))
        return self._options.poll_s

    def _look(self) -> str | None:
        """Attempt the current slot if it is new.  Returns the reason that no attempt can be made now."""
        parts = self._parts
        # Between slots too, or those that peers have sent would come of age in the middle of the next one.
        parts.candidates.notice()
        if parts.is_paused():
            return "paused"
        if not parts.is_ready():
            return "waits until the chain has caught up"
        newest_l1_block = parts.reader.newest_number  # before the state, which is not older then
        facts, state = parts.reader.seen()
        clock = self._clock()
        slot = facts.slot_at(clock.next_block())
        view = parts.chain.view()
        newest = view.chain.block_info(view.chain.tips.checkpointed.block.number)
        tip_slot = 0 if newest is None else newest.slot_number
        # One attempt: a second proposal for a slot is an offense, also when L1 has lost the first.
        if slot <= max(tip_slot, self._done):
            return None
        if not self._has_seen(facts, clock, slot):
            return "waits for L1, of which the newest blocks are missing" if clock.is_late else None
        parent = self._parent(view, state, newest_l1_block)
        if parent is None:
            return "waits until the chain is as new as L1"
        elapsed = clock.since(facts.start_of_slot(slot) - clock.l1_slot_s)
        is_first, self._is_first = self._is_first, False
        # Before the first look it is not known what passed; an L1 whose clock is moved has no blocks in between.
        if not is_first and clock.is_in_step and slot > self._done + 1 and not self._options.is_fisherman:
            self._passed.add(range(self._done + 1, slot))
        self._done = slot  # whatever becomes of it
        if is_first and self._options.timetable.is_too_late(elapsed):
            # It passes without this node, and was not its to miss.
            self.state = f"slot {slot} had begun before the start"
        else:
            self._slot(facts, state, slot, clock)
        return None

    def _note_waiting(self, reason: str) -> None:
        facts, _ = self._parts.reader.seen()
        slot = facts.slot_at(self._clock().next_block())
        if slot > self._done:
            self._passed.note_reason(slot, reason)

    def _clock(self) -> L1Time:
        if self._time is None:
            self._time = L1Time.of(self._parts.reader)
        return self._time

    def _has_seen(self, facts: RollupFacts, clock: L1Time, slot: int) -> bool:
        """True if L1 was seen up to the slot before."""
        begin = facts.start_of_slot(slot) - clock.l1_slot_s
        newest = self._parts.reader.newest_timestamp
        if newest >= begin:
            return True
        # L1 may miss its block.
        is_late = clock.since(begin) >= _MISSED_L1_BLOCK * clock.l1_slot_s
        return is_late and facts.slot_at(newest) >= slot - 1

    def _parent(self, view: View, state: L1State, newest_l1_block: int) -> int | None:
        """The checkpoint that the next one stands on; None while what L1 has is not stored."""
        if newest_l1_block < self._published_in:
            return None
        self._published_in = 0  # it was seen: a reorg of L1 may go behind it
        ours = view.chain.tips.checkpointed.checkpoint.number
        invalid = self._parts.invalidation.newest
        wanted = state.proven if state.can_prune else state.pending
        if invalid is not None and not state.can_prune:
            wanted = invalid.number - 1
        return ours if ours == wanted else None

    def _slot(self, facts: RollupFacts, state: L1State, slot: int, clock: L1Time) -> None:
        """One slot, to its end.  What goes wrong is noted, also what nobody expected."""
        begun = time.monotonic()
        attempt = _Attempt(self._parts, self._options, facts, state, slot, clock, self)
        try:
            outcome, reason, drafted = self._outcome_of(attempt, slot)
        except Exception as error:
            self._end(slot, self._lost(slot), f"{type(error).__name__}; the log has the cause", None, begun)
            raise
        self._end(slot, outcome, reason, drafted, begun)

    def _outcome_of(self, attempt: _Attempt, slot: int) -> tuple[SlotOutcome, str | None, Drafted | None]:
        drafted: Drafted | None = None
        try:
            outcome, drafted = attempt.run()
            if drafted is not None:
                self._published_in, self._published_slot = attempt.published_in, slot
            reason = attempt.reason
            self._signing_trouble = None
        except DutyError as error:
            outcome, reason = SlotOutcome.YIELDED, str(error)
            self._signing_trouble = None  # the database answers
        except (HaDatabaseError, SigningError) as error:
            outcome, reason = SlotOutcome.MISSED, str(error)
            self._signing_trouble = f"nothing is signed: {error}"
        except (SlotLost, DatabaseError, UpstreamError, DecodeError) as error:
            outcome, reason = self._lost(slot), str(error)
        attempt.vote_alone()
        return outcome, reason, drafted

    def _lost(self, slot: int) -> SlotOutcome:
        return SlotOutcome.YIELDED if self._parts.chain.is_taken(slot) else SlotOutcome.MISSED

    def _end(self, slot: int, outcome: SlotOutcome, reason: str | None, drafted: Drafted | None, begun: float) -> None:
        """Note what became of the slot, and take back its blocks if they will not be on L1."""
        seconds = time.monotonic() - begun
        checkpoint: int | None = None
        blocks = txs = 0
        if drafted is not None:
            checkpoint, blocks, txs = drafted.draft.number, len(drafted.draft.blocks), drafted.tx_count
        self.record.note(slot, outcome, reason, checkpoint=checkpoint, blocks=blocks, txs=txs, seconds=seconds)
        level = logging.WARNING if outcome is SlotOutcome.MISSED else logging.INFO
        shown = {"slot": slot, "outcome": str(outcome), "seconds": round(seconds, 3)}
        shown |= {"checkpoint": checkpoint, "blocks": blocks, "txs": txs} if checkpoint is not None else {}
        shown |= {"reason": reason} if reason is not None else {}
        if outcome not in (SlotOutcome.OTHERS, SlotOutcome.EMPTY):
            logger.log(level, "slot", extra=log_facts(**shown))
        self.state = f"slot {slot}: {outcome}" + (f", {reason}" if reason else "")
        if outcome in (SlotOutcome.MISSED, SlotOutcome.YIELDED) and not self.loop.is_stopping:
            self._parts.chain.without_own()


class _Attempt:
    """At one slot."""

    def __init__(
        self,
        parts: SequencerParts,
        options: SequencerOptions,
        facts: RollupFacts,
        state: L1State,
        slot: int,
        clock: L1Time,
        owner: Sequencer,
    ) -> None:
        self._parts = parts
        self._options = options
        self._facts = facts
        self._state = state
        self._slot = slot
        self._clock = clock
        self._owner = owner
        self._begin = facts.start_of_slot(slot) - clock.l1_slot_s
        #: Reason that there is no checkpoint where that is no failure.
        self.reason: str | None = None
        #: The L1 block that has the checkpoint.
        self.published_in = 0
        self._turn: Turn | None = None
        self._ballot: Ballot | None = None

    def vote_alone(self) -> None:
        """Cast the votes that went with no checkpoint."""
        voting = self._parts.voting
        if voting is not None and self._turn is not None and self._ballot is not None:
            voting.cast_alone(self._ballot, self._turn)

    def run(self) -> tuple[SlotOutcome, Drafted | None]:
        """SlotLost, DutyError, HaDatabaseError, SigningError, DatabaseError, UpstreamError, DecodeError: the slot is
        missed."""
        parts, options, facts = self._parts, self._options, self._facts
        self._owner.state = f"slot {self._slot}: looking whose it is"
        turn = parts.reader.run(lambda endpoint: read_turn(endpoint, facts, self._slot))
        if options.is_fisherman:
            return self._fish(turn)
        if turn.proposer is not None and turn.proposer not in parts.door.attesters():
            parts.invalidation.fall_back(facts, turn, self._clock.now(), parts.door, parts.publisher)
            self.reason = f"its proposer is {hex_text(turn.proposer)}"
            return SlotOutcome.OTHERS, None
        if not parts.door.attesters():
            self.reason = "every validator whose key is here is disabled (disabledValidators)"
            return SlotOutcome.OTHERS, None
        self._turn = turn
        if parts.voting is not None:
            self._ballot = parts.voting.begin(facts, turn, self._clock.next_block())
        if parts.reader.run(lambda endpoint: is_hatch_open(endpoint, facts, self._slot)):
            self.reason = "the escape hatch is open: only its proposer may propose"
            return SlotOutcome.OTHERS, None
        if parts.peers is None:
            require_quorum_here(turn, parts.door)
        elif parts.chain.is_taken(self._slot):
            self.reason = "another node of its proposer was sooner"
            return SlotOutcome.YIELDED, None
        if options.timetable.is_too_late(elapsed := self._elapsed()):
            raise SlotLost(f"it was looked at {elapsed:.1f} s after its begin, too late for a block")
        parts.tidy()
        parts.mempool.pool.release_before(self._slot)
        parts.publisher.ready(turn.proposer)
        parent = parts.chain.without_proposed()
        invalidate = parts.invalidation.call(facts, self._state) if options.invalidates else None
        override = parts.invalidation.override(facts, self._state)
        number = parent.chain.tips.checkpointed.checkpoint.number + 1
        archive = _archive_of(parent)
        parts.reader.run(
            lambda endpoint: require_turn(
                endpoint,
                facts,
                turn,
                at=self._clock.next_block(),
                archive=archive,
                checkpoint=number,
                override=override,
            )
        )
        fee = parts.reader.run(lambda endpoint: read_minimum_fee(endpoint, facts, turn, override))
        messages = parts.reader.messages_of(number)
        if messages is None:
            raise SlotLost(f"L1 does not say yet which messages checkpoint {number} takes")
        parts.guard.enter(self._slot, self._clock.since(self._begin))
        drafted = self._draft(turn, parent, number, fee, tuple(messages))
        if drafted is None:
            self.reason = "no transactions"
            return SlotOutcome.EMPTY, None
        if len(drafted.draft.blocks) < options.blocks_min:
            built = len(drafted.draft.blocks)
            raise SlotLost(f"it has {built} blocks, fewer than minBlocksForCheckpoint asks for ({options.blocks_min})")
        if _CHANCE.random() * 100 < options.skip_percent:
            raise SlotLost("left unpublished, as SEQ_SKIP_CHECKPOINT_PUBLISH_PERCENT asks for")
        self._publish(turn, drafted, invalidate)
        return SlotOutcome.PROPOSED, drafted

    def _fish(self, turn: Turn) -> tuple[SlotOutcome, Drafted | None]:
        """Build what the slot's proposer could, and ask L1 whether it would take that; nothing comes of it."""
        parts, facts = self._parts, self._facts
        if parts.chain.is_taken(self._slot):
            self.reason = "its proposer was sooner: its blocks are executed as peers' are"
            return SlotOutcome.OTHERS, None
        parent = parts.chain.without_proposed()
        override = parts.invalidation.override(facts, self._state)
        number = parent.chain.tips.checkpointed.checkpoint.number + 1
        fee = parts.reader.run(lambda endpoint: read_minimum_fee(endpoint, facts, turn, override))
        messages = parts.reader.messages_of(number)
        if messages is None:
            raise SlotLost(f"L1 does not say yet which messages checkpoint {number} takes")
        self._owner.state = f"slot {turn.slot}: building checkpoint {number}, which is not sent"
        variables = self._variables(turn, parent, fee)
        drafted = self._drafting(turn).sketch(parent, variables, number, tuple(messages))
        if drafted is None:
            self.reason = "no transactions"
            return SlotOutcome.EMPTY, None
        at = max(self._clock.next_block(), turn.timestamp) + 1
        require_taken(drafted, turn, parts.publisher.simulator, facts.rollup, at)
        return SlotOutcome.BUILT, drafted

    def _may_wait(self) -> bool:
        """For the attestations of others."""
        return not self._owner.loop.is_stopping and self._elapsed() < self._options.timetable.attestations_end_s

    def _elapsed(self) -> float:
        return self._clock.since(self._begin)

    def _draft(self, turn: Turn, parent: View, number: int, fee: int, messages: Sequence[bytes]) -> Drafted | None:
        self._owner.state = f"slot {turn.slot}: building checkpoint {number}"
        return self._drafting(turn).draft(parent, self._variables(turn, parent, fee), number, messages)

    def _variables(self, turn: Turn, parent: View, fee: int) -> GlobalVariables:
        """Variables of the checkpoint's blocks.  A fisherman has the keys of nobody."""
        door, options, chain = self._parts.door, self._options, parent.chain.chain
        coinbase, recipient = options.coinbase, options.fee_recipient
        if options.is_fisherman:
            coinbase, recipient = coinbase or turn.proposer or _SOMEBODY, recipient or bytes(FIELD_BYTES)
        return GlobalVariables(
            chain_id=chain.l1_chain_id,
            version=chain.rollup_version,
            block_number=0,
            slot_number=turn.slot,
            timestamp=turn.timestamp,
            coinbase=coinbase or door.coinbase_of(turn.proposer),
            fee_recipient=recipient or door.fee_recipient_of(turn.proposer),
            gas_fees=GasFees(0, fee),
        )

    def _drafting(self, turn: Turn) -> Drafting:
        parts, options = self._parts, self._options
        return Drafting(
            chain=parts.chain,
            candidates=parts.candidates,
            pool=parts.mempool.pool,
            validator=parts.mempool.validator,
            limits=replace(options.limits, mana_limit=parts.reader.mana_limit(self._facts)),
            timetable=options.timetable,
            elapsed=self._elapsed,
            loop=self._owner.loop,
            door=parts.door,
            proposer=turn.proposer,
            may_be_empty=options.may_be_empty,
            gossip=None if parts.peers is None else parts.peers.gossip,
            shares_txs=options.shares_txs,
        )

    def _publish(self, turn: Turn, drafted: Drafted, invalidate: Any) -> None:
        """SlotLost unless L1 has the checkpoint."""
        parts, timetable = self._parts, self._options.timetable
        draft, checkpoint = drafted.draft, drafted.published.checkpoint
        self._owner.state = f"slot {turn.slot}: checking and signing checkpoint {draft.number}"
        parts.chain.check(drafted.published, drafted.messages)
        refusal = self._options.acceptance.refusal(checkpoint.blocks)
        if turn.proposer is not None and refusal is not None:
            raise SlotLost(f"it is not attested to: {refusal}")
        if parts.peers is not None:
            parts.publisher.prepare(draft.blobs, draft.commitments)
        attested = attest(turn, checkpoint, parts.door, parts.peers, self._may_wait)
        if timetable.is_enforced and self._elapsed() >= timetable.slot_s:
            raise SlotLost("the attestations came too late to be published in this slot")
        call = propose_call(turn, checkpoint, draft.commitments, attested, parts.door, parts.publisher.unsigned())
        votes = [] if self._ballot is None else self._ballot.take()
        is_mined = False

        def on_mined(logs: Sequence[Any]) -> None:
            nonlocal is_mined
            is_mined = True
            if parts.voting is not None:
                parts.voting.note(votes, logs)

        self._owner.state = f"slot {turn.slot}: sending checkpoint {draft.number}"
        try:
            published = self._send(turn, drafted, call, invalidate, votes, on_mined)
        finally:
            if self._ballot is not None and votes and not is_mined:
                self._ballot.give_back()
        # From here on it is L1's: reading it there makes it checkpointed.
        self.published_in = published.block_number
        parts.invalidation.clear()
        parts.reader.look_soon()
        shown = log_facts(
            checkpoint=draft.number,
            blocks=len(draft.blocks),
            txs=drafted.tx_count,
            l1_block=published.block_number,
            l1_tx=published.tx_hash,
        )
        logger.info("published a checkpoint", extra=shown)

    def _send(
        self,
        turn: Turn,
        drafted: Drafted,
        call: ProposeCall,
        invalidate: Any,
        votes: Sequence[Vote],
        on_mined: Callable[[Sequence[Any]], None],
    ) -> Published:
        return self._parts.publisher.propose(
            call,
            drafted.draft.blobs,
            slot=turn.slot,
            checkpoint=drafted.draft.number,
            attester=turn.proposer,
            at=self._clock.next_block(),
            not_after=self._begin + self._facts.slot_duration,
            invalidation=invalidate,
            proven=self._state.proven,
            votes=[vote.call for vote in votes],
            on_mined=on_mined,
        )


def _archive_of(view: View) -> bytes:
    """The archive root after the newest block."""
    info = view.chain.block_info(view.chain.tip_number)
    return view.chain.chain.genesis_archive_root if info is None or info.number == 0 else info.archive_root
