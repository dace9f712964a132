"""Observation of L1: read at each new block with as few calls as possible, and kept for all other parts.

    a block without news        1 call    Multicall3: tips, messages, fees, block number, time and parent
    a block with messages       + 1       their logs
    a block with a checkpoint   + 1       its event, which tells the block's hash as well
    where that does not fit     + 1       the block's hash, at which everything further is asked for
    every 32 blocks             + 1       what is final, while it is behind what is proven

Where L1 has no Multicall3 some 15 calls in three batches take the place of the one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import orjson

from fastnode.archiver.messages import has_compact_messages, in_hash_before, message_count
from fastnode.archiver.queries import ChainView
from fastnode.errors import DecodeError, UpstreamError, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.sources.l1.committees import Committees
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint
from fastnode.sources.l1.head_state import HeadState, block_of, read_final_checkpoint, read_head_state
from fastnode.sources.l1.inbox import Anchor, CompactInbox, Inbox, rolled
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, ProposalLog, proposal_log
from fastnode.sources.l1.questions import OptionalQuestions, Question
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.schedule import BlockSchedule
from fastnode.sources.l1.state import CheckpointPlace, FeeState, L1State, read_fees, read_finalized, read_state

__all__ = ["L1Observer"]

logger = logging.getLogger(__name__)

#: Blocks that may follow without a checkpoint before the hash of the newest one is asked for: providers keep the
#: state of the newest 128 or so.
HASHLESS_BLOCKS_MAX: Final = 32
#: Final blocks come in steps of an epoch of L1, which may miss some of its blocks.
FINALITY_BLOCKS: Final = 32
#: Failures of the one call, one after the other, after which it is not tried again.
MULTICALL_FAILURES_MAX: Final = 3
#: Messages come into the Inbox this many checkpoints before their own is proposed, at most.
INBOX_LEAD: Final = 3


class L1Observer:
    """``look`` from one thread; what it has seen may be read from any.

    ``drift_max_s``: how old the newest block may be, 0: as old as it is; ``clock`` gives seconds since 1970;
    ``others`` those that can be asked beside an endpoint.
    """

    def __init__(
        self,
        facts: RollupFacts,
        stored: Callable[[], ChainView],
        committees: Committees,
        schedule: BlockSchedule,
        *,
        drift_max_s: int,
        clock: Callable[[], float],
        others: Callable[[L1Endpoint], Iterable[L1Endpoint]] = lambda endpoint: (),
        questions: OptionalQuestions | None = None,
    ) -> None:
        self._facts = facts
        self._stored = stored
        self._committees = committees
        self._schedule = schedule
        self._drift_max_s = drift_max_s
        self._clock = clock
        self._others = others
        self._questions = questions or OptionalQuestions()
        self._multicall_failures = 0
        self._finality_due = 0
        #: L1's newest final block when it was asked for last.
        self._final_block = 0
        self._is_doubted = False
        self.inbox = _inbox(stored(), facts)
        self.state: L1State | None = None
        self.fees: FeeState | None = None
        self.finalized: int | None = None
        #: Number and time of the newest block that was seen; its hash may not be known.
        self.newest = (0, 0)
        #: Number and root of a stored checkpoint of which L1 had another root when it was seen last, and that root.
        self._contradicted: tuple[int, str, str] | None = None
        #: Since when there is a contradiction, on the clock of ``time.monotonic``.
        self.contradicted_since = 0.0

    def look(self, endpoint: L1Endpoint, l1_slot_duration: int) -> None:
        """UpstreamError, DecodeError."""
        before = self.state
        seen = None if before is None else self._read_head(endpoint, before, l1_slot_duration)
        if seen is None or before is None:
            self._look_call_by_call(endpoint, l1_slot_duration)
            return
        self._check_age(seen.number, seen.timestamp)
        state = None if self._is_doubted else self._follow(endpoint, before, seen)
        if state is None:
            head = block_of(endpoint, seen)
            if head is None:  # it has changed meanwhile, or Multicall3 tells of another block than the one asked at
                self._look_call_by_call(endpoint, l1_slot_duration)
                return
            self.inbox.refresh(endpoint, head, seen.state.inbox)
            state = replace(seen.state, head=head)
            self._is_doubted = False
        self._look_for_finality(endpoint, seen.number, state.proven)
        self.state = state
        self._note(seen.number, seen.timestamp, state, l1_slot_duration)

    def doubt(self) -> None:
        """Let the next look ask for its block's hash: what was read does not fit the block that it is said to be of.

        A node that is taking in a block may answer with the state after it and the number of the one before.  From
        any thread.
        """
        self._is_doubted = True

    def _follow(self, endpoint: L1Endpoint, before: L1State, seen: HeadState) -> L1State | None:
        """State that was seen, as one that follows on ``before``; None where the block's hash must be asked for."""
        blocks = seen.number - before.head.number
        if before.endpoint != endpoint.name or blocks >= HASHLESS_BLOCKS_MAX:
            return None
        if seen.state.has_moved(self._stored_place()):
            return None
        # While the newest one is not stored it may be proposed again, by another event with the same archive root.
        if seen.has_same_checkpoints(before) and seen.state.stored == seen.state.pending:
            state = replace(seen.state, proposed=before.proposed)
        elif seen.has_one_more(before):
            event = self._proposed_in(endpoint, seen)
            if event is None:
                return None
            head = L1Block(seen.number, event.block_hash, seen.parent_hash, seen.timestamp)
            state = replace(seen.state, head=head, proposed=event)
        else:
            return None
        return state if self.inbox.follow(endpoint, seen.number, seen.state.inbox) else None

    def _proposed_in(self, endpoint: L1Endpoint, seen: HeadState) -> ProposalLog | None:
        """The event of the pending checkpoint; None if it is not (only) in the block that was seen."""
        logs = LogRanges(self._facts.rollup, CHECKPOINT_PROPOSED)
        _, found = next(logs.read(endpoint, seen.number, seen.number))
        if len(found) != 1:
            return None
        event = proposal_log(found[0])
        wanted = (seen.state.pending, seen.state.pending_archive)
        return event if event is not None and (event.number, event.archive_root) == wanted else None

    def _read_head(self, endpoint: L1Endpoint, before: L1State, l1_slot_duration: int) -> HeadState | None:
        """None where it must be asked call by call."""
        if self._multicall_failures >= MULTICALL_FAILURES_MAX:
            return None
        try:
            seen = read_head_state(
                endpoint,
                self._facts,
                before,
                stored=self._stored_number(),
                place=self._stored_place(),
                timestamp=self._schedule.expected_timestamp(l1_slot_duration),
                l1_slot_duration=l1_slot_duration,
            )
        except (UpstreamRejection, DecodeError) as error:
            self._on_multicall_failure(str(error), 1)
            return None
        if seen is None:
            self._on_multicall_failure("the chain has no Multicall3", MULTICALL_FAILURES_MAX)
        else:
            self._multicall_failures = 0
        return seen

    def _on_multicall_failure(self, reason: str, weight: int) -> None:
        self._multicall_failures += weight
        if self._multicall_failures >= MULTICALL_FAILURES_MAX:
            logger.warning("L1 is asked call by call, some fifteen a block", extra=log_facts(reason=reason))

    def _look_call_by_call(self, endpoint: L1Endpoint, l1_slot_duration: int) -> None:
        """The first time, and where L1 has no contract that takes many calls as one."""
        before = self.state
        head = endpoint.block("latest")
        if head is None:
            raise UpstreamFault("it has no newest block")
        self._check_age(head.number, head.timestamp)
        if before is not None and before.head == head and before.stored == self._stored_number():
            return
        stored = self._stored_number()
        place = self._stored_place()
        facts = self._facts
        seen = read_state(endpoint, facts, head, stored=stored, place=place, l1_slot_duration=l1_slot_duration)
        self.inbox.refresh(endpoint, head, seen.inbox)
        # Of the endpoint that gave the state alone: another one may be at another block.
        fees = self._questions.ask(
            Question.FEES, endpoint, (), lambda one: read_fees(one, facts, seen, l1_slot_duration)
        )
        self.state = state = replace(seen, fees=fees)
        self._is_doubted = False
        found = self._questions.ask(
            Question.FINALITY, endpoint, self._others(endpoint), lambda one: (one, read_finalized(one, facts))
        )
        if found is not None and found[1] <= state.proven:
            self.finalized = self._confirmed(*found)
        self._note(head.number, head.timestamp, state, l1_slot_duration)

    def _note(self, number: int, timestamp: int, state: L1State, l1_slot_duration: int) -> None:
        self._schedule.note(number, timestamp, l1_slot_duration)
        self.newest = (number, timestamp)
        if state.fees is not None:
            self.fees = state.fees
            self._questions.note_answer(Question.FEES)
        self._compare(state)

    def refresh_committees(self, endpoint: L1Endpoint) -> None:
        """Some of those that are missing."""
        has_multicall = self._multicall_failures < MULTICALL_FAILURES_MAX

        def refresh(one: L1Endpoint) -> None:
            self._committees.refresh(one, self._facts, self.newest[1], has_multicall=has_multicall)

        self._questions.ask(Question.COMMITTEES, endpoint, self._others(endpoint), refresh)

    # ---- parts ---------------------------------------------------------------------------------

    def _look_for_finality(self, endpoint: L1Endpoint, number: int, proven: int) -> None:
        """Ask for the final block where that can tell more, at each block of L1 in which it may have moved.

        It moves in steps; when one is seen as it comes, the next is looked for shortly before it is due.
        """
        if self.finalized == proven:
            self._questions.note_answer(Question.FINALITY)
            return
        if number < self._finality_due:
            return
        found = self._questions.ask(
            Question.FINALITY,
            endpoint,
            self._others(endpoint),
            lambda one: (one, read_final_checkpoint(one, self._facts)),
        )
        if found is None:
            self._finality_due = number + 1
            return
        told_by, final = found
        if final is None:
            self._finality_due = number + FINALITY_BLOCKS
            return
        if final[1] > proven:  # it contradicts itself, or was asked while L1 changed
            self._finality_due = number + 1
            return
        is_prompt = number == self._finality_due
        before, self._final_block = self._final_block, final[0]
        self.finalized = self._confirmed(told_by, final[1])
        step = min(self._final_block - before, FINALITY_BLOCKS)
        self._finality_due = number + (max(1, step * 15 // 16) if is_prompt and step > 0 else 1)

    def _confirmed(self, endpoint: L1Endpoint, finalized: int) -> int:
        """As far as another endpoint says so too, if one answers: what is stored as final is not taken back."""
        if finalized <= (self.finalized or 0):
            return finalized
        for other in self._others(endpoint):
            try:
                final = read_final_checkpoint(other, self._facts)
            except (UpstreamError, DecodeError):
                continue
            if final is not None:
                return min(finalized, final[1])
        return finalized

    def _stored_number(self) -> int:
        return self._stored().tips.checkpointed.checkpoint.number

    def _stored_place(self) -> CheckpointPlace | None:
        view = self._stored()
        return CheckpointPlace.of(view, view.tips.checkpointed.checkpoint.number)

    def _compare(self, state: L1State) -> None:
        """A chain that L1 has given up stays stored as long as the followed node has it; that is worth a word."""
        ours, on_l1 = self._stored_root(state.stored), "0x" + state.stored_archive.hex()
        if ours is None:
            return
        if on_l1 == ours:
            self._contradicted = None
            return
        if self._contradicted is None:
            self.contradicted_since = time.monotonic()
        self._contradicted = state.stored, ours, on_l1

    @property
    def contradiction(self) -> str | None:
        """Difference of the newest stored checkpoint from the one on L1; None once it is not stored any more."""
        if self._contradicted is None:
            return None
        number, ours, on_l1 = self._contradicted
        if self._stored_root(number) != ours:
            return None
        return f"the stored checkpoint {number} has the archive root {ours}, L1 has {on_l1}"

    def _stored_root(self, number: int) -> str | None:
        stored = self._stored().checkpoint(number)
        return None if stored is None else str(orjson.loads(stored.archive_json)["root"])

    def _check_age(self, number: int, timestamp: int) -> None:
        age = self._clock() - timestamp
        if self._drift_max_s and age > self._drift_max_s:
            raise UpstreamUnavailable(f"its newest block, {number}, is {int(age)} seconds old")


def _inbox(view: ChainView, facts: RollupFacts) -> Inbox:
    """Return the list of messages of a rollup; those of the final checkpoints are stored already."""
    form, anchor = view.chain.release.inbox_form, _anchor(view)
    if form is None:
        return Inbox(facts.inbox, facts.deployment_block, anchor)
    return CompactInbox(facts.inbox, facts.deployment_block, form, anchor)


def _anchor(view: ChainView) -> Anchor | None:
    final = view.tips.finalized.checkpoint.number
    before = view.checkpoint(final - INBOX_LEAD)
    if before is None:
        return None
    if has_compact_messages(view):
        block, last = int(orjson.loads(before.l1_json)["blockNumber"]), view.tips.finalized.block.number
        return Anchor(block, final, in_hash_before(view, final + 1), message_count(view, last))
    messages = [message for number in range(1, final + 1) for message in view.l1_to_l2_messages(number)]
    block = int(orjson.loads(before.l1_json)["blockNumber"])
    return Anchor(block, final, rolled(messages), len(messages))
