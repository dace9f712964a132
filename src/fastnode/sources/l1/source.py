"""L1 as a block source: the chain from the rollup's events, the call data of proposals, and blobs.

One pass (:meth:`L1Source.records`) is made against one block of L1, the newest that was looked at:

    status, archiveAt          where both chains part; what is above it is undone
    canPruneAtTime             what is not proven in time is given up before the contract does it
    eth_getLogs                CheckpointProposed from the newest stored checkpoint on
    archiveAt                  only what is on the chain that L1 has now counts
    eth_getTransaction..       the proposal, whose hashes the event has
    committee, attestations    a checkpoint that its committee does not stand behind is not stored, nor what follows it
    blobs                      by their hashes; decoded into blocks

Only what is stored is remembered: after a pass that ended early, or a crash, the next one goes on from there.  What is
derived is verified like the blocks of any other source, every root of it.
"""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

from fastnode.archiver.messages import has_compact_messages, message_count
from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointRecord, Record, TipsRecord, UndoRecord
from fastnode.errors import (
    BlobsUnavailable,
    DecodeError,
    MessagesUnavailable,
    UpstreamError,
    UpstreamFault,
    UpstreamRejection,
    UpstreamUnavailable,
)
from fastnode.log import log_facts
from fastnode.protocol.checkpoint import PublishedCheckpoint
from fastnode.protocol.fields import hex_text
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tips import L2Tips, TipId
from fastnode.records import dataclass
from fastnode.sources.ahead import made_ahead
from fastnode.sources.blobs.fetcher import BlobFetcher
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.checkpoint_derivation import CheckpointDerivation, DerivedCheckpoint, FetchedCheckpoint
from fastnode.sources.l1.endpoints import L1Block, L1Client, L1Endpoint, block_call, contract_call
from fastnode.sources.l1.log_ranges import BLOCKS_FIRST
from fastnode.sources.l1.proposal_events import PlacedEvent, ProposalEvents
from fastnode.sources.l1.proposals import EventPlace, Proposal
from fastnode.sources.l1.retries import PassRetries, forget_frames
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.service import L1Reader
from fastnode.sources.l1.state import CheckpointPlace, L1State, archives_of
from fastnode.sources.progress import CatchUpProgress

__all__ = ["DerivationProgress", "InvalidCheckpoint", "L1Source"]

logger = logging.getLogger(__name__)

#: Checkpoints whose blobs are in memory at the same time.
CHECKPOINTS_AHEAD: Final = 48
#: Checkpoints whose blobs are verified together: the more, the less for each.
CHECKPOINTS_TOGETHER: Final = 32
#: Checkpoints whose blocks are in memory at the same time.
_DECODED_AHEAD: Final = 2
#: A pass over no more checkpoints than these is near the tip.
_NEAR_TIP: Final = 16
#: Events that are looked up with one question.
_EVENTS_TOGETHER: Final = 16
#: Checkpoints after which the tips move on while a long way is being made.
CHECKPOINTS_PER_TIPS: Final = 64
#: Archive roots in one question where the chains part.
ROOTS_PER_QUESTION: Final = 32
#: For how long L1 contradicts what is final before that is given up.
CONTRADICTION_S: Final = 600.0
#: For how long one block of L1 is asked: providers keep the state of the newest 128 or so.
PASS_TIME_S: Final = 120.0
_NO_MESSAGES_IN_HASH: Final = in_hash(())
_GENESIS: Final = 0
#: Checkpoints that a start looks for in their blocks of L1, at most; more than are not final on a network that is well.
DOUBTED_MAX: Final = 128
#: Behind each checkpoint.
_NONE: Final = 2**64


@dataclass(frozen=True, slots=True)
class InvalidCheckpoint:
    """A checkpoint on L1 without valid attestations of its committee: the chain stops below it."""

    number: int
    archive_root: bytes
    reason: str
    #: The L1 block that has it, and which of its events it is: the same checkpoint may be proposed again.
    block: L1Block
    event: EventPlace
    proposal: Proposal

    def describe(self) -> dict[str, Any]:
        return {"checkpoint": self.number, "archive": hex_text(self.archive_root), "reason": self.reason}


@dataclass(slots=True)
class DerivationProgress:
    """Progress of a pass: checkpoints and L1 blocks."""

    checkpoint: int
    checkpoint_wanted: int
    l1_block: int
    l1_block_wanted: int

    def describe(self, line: CatchUpProgress) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint,
            "ofCheckpoint": self.checkpoint_wanted,
            "l1Block": self.l1_block,
            "ofL1Block": self.l1_block_wanted,
            "checkpointsPerSecond": None if line.rate is None else round(line.rate, 1),
            "etaSeconds": line.eta_s,
        }


class L1Source:
    """One pass at a time.  ``executor`` fetches and decodes ahead; ``traces``: nodes that trace transactions;
    ``first_pause_s``: how long a pass that failed rests at first.
    """

    name = "L1"

    def __init__(
        self,
        reader: L1Reader,
        blobs: BlobFetcher,
        executor: Executor,
        *,
        traces: L1Client | None = None,
        l1_slot_duration: int = 12,
        log_blocks: int = BLOCKS_FIRST,
        first_pause_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        checks_attestations: Callable[[], bool] = lambda: True,
    ) -> None:
        self._reader = reader
        self._blobs = blobs
        self._executor = executor
        self._l1_slot_duration = l1_slot_duration
        self._clock = clock
        self._events = ProposalEvents(reader, log_blocks)
        self._derivation = CheckpointDerivation(reader, blobs, traces, checks_attestations)
        self._retries = PassRetries(first_pause_s, clock)
        #: The lowest checkpoint that may be in another block of L1 than the stored one: at a start each.
        self._doubted = _GENESIS
        #: The newest checkpoint of the last pass and its place, and L1's newest block: all up to it stood there.
        self._stood: tuple[int, CheckpointPlace | None, bytes] = _GENESIS, None, b""
        #: State and situation that the last pass began with.
        self._state: L1State | None = None
        self._situation: Hashable = None
        #: With which a pass ended at an invalid checkpoint.
        self._invalid_situation: Hashable = None
        #: Since when L1 contradicts what is stored as final.
        self._contradicted_since: float | None = None
        #: The first checkpoint of the pending chain that is not to be stored.
        self.invalid: InvalidCheckpoint | None = None
        #: Newest checkpoint on L1; None before L1 was looked at.
        self.newest_checkpoint: int | None = None
        self.progress: DerivationProgress | None = None
        self.derived_count = 0
        self._line = CatchUpProgress(unit="checkpoint", quiet_s=math.inf)

    @property
    def waiting_for(self) -> BlobsUnavailable | None:
        """The checkpoint whose blobs no place has yet."""
        return self._derivation.waiting_for

    def checkpoints_behind(self, view: ChainView) -> int:
        """Checkpoints on L1 that are not stored, as far as L1 was looked at; none that are not to be stored."""
        newest = self.newest_checkpoint
        if newest is None or self.invalid is not None:
            return 0
        return max(0, newest - view.tips.checkpointed.checkpoint.number)

    def is_stored(self, view: ChainView) -> bool:
        """True if all checkpoints are stored that L1 had at the newest block that was seen, which may be later than the
        last pass."""
        try:
            _, state = self._reader.seen()
        except UpstreamUnavailable:
            return False
        newest = state.proven if state.can_prune else state.pending
        return self.invalid is not None or view.tips.checkpointed.checkpoint.number >= newest

    def note(self, view: ChainView) -> None:
        """Note that a record was applied, for the progress line."""
        progress = self.progress
        if progress is not None:
            progress.checkpoint = view.tips.checkpointed.checkpoint.number
            where = {"l1_block": progress.l1_block, "of_l1_block": progress.l1_block_wanted}
            self._line.note(progress.checkpoint, progress.checkpoint_wanted, **where, blobs=self._blobs.blob_count)

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        progress, waiting = self.progress, self.waiting_for
        return {
            "newestCheckpoint": self.newest_checkpoint,
            "progress": None if progress is None else progress.describe(self._line),
            "waitingForBlobs": None
            if waiting is None
            else {"checkpoint": waiting.checkpoint, "missing": waiting.missing, "tried": list(waiting.tried)},
            "invalidCheckpoint": None if self.invalid is None else self.invalid.describe(),
            "derivedCheckpoints": self.derived_count,
            "blobs": self._blobs.blob_count,
            "blobsTogether": self._blobs.together_count,
            "blobBytes": self._blobs.byte_count,
            "blobSources": self._blobs.describe(),
        }

    @property
    def final_checkpoint(self) -> int:
        """The newest checkpoint that is final on L1 and proven, 0 as long as that is not known."""
        return 0 if self._state is None else min(self._reader.finalized or _GENESIS, self._state.proven)

    def records(self, stored: Callable[[], ChainView]) -> Generator[Record, None, None]:
        """One pass, when L1 has been looked at.

        UpstreamUnavailable when L1 does not answer, or has not indexed yet what it has; UpstreamFault when it
        contradicts what is final; BlobsUnavailable; MessagesUnavailable.
        """
        facts, state = self._reader.seen()
        # Checkpoints that were not proven in time do not come any more, also before the contract gives them up.
        self.newest_checkpoint = state.proven if state.can_prune else state.pending
        self._state, self._situation = state, _situation(stored(), state)
        self._retries.check(self._situation)
        return self._records(stored, facts, state)

    def _records(
        self, stored: Callable[[], ChainView], facts: RollupFacts, state: L1State
    ) -> Generator[Record, None, None]:
        try:
            yield from self._pass(stored, facts, state)
        except (UpstreamError, DecodeError, MessagesUnavailable, BlobsUnavailable) as error:
            self.on_failure(error, stored())
            raise
        self._retries.on_success()

    def on_failure(self, error: Exception, view: ChainView) -> None:
        """Note that the pass, or the storing of its records, failed: it is not repeated before the pause is over."""
        if self._state is not None:
            self._retries.on_failure(error, _situation(view, self._state))

    def end_pass(self) -> None:
        """Let go of what a pass that failed holds by its errors, which are handled."""
        for error in (self._retries.error, self.waiting_for):
            forget_frames(error)

    def _pass(self, stored: Callable[[], ChainView], facts: RollupFacts, state: L1State) -> Iterator[Record]:
        view = stored()
        limit = state.proven if state.can_prune else state.pending
        common = self._newest_common(view, facts, state, limit)
        mine = view.tips.checkpointed.checkpoint.number
        if common < mine:
            final = view.tips.finalized.checkpoint.number
            if common < final:
                self._require_that_all_contradict(facts, final, _archive_root(view, final))
            self._events.settled = None
            is_pruned = state.can_prune and common == limit
            why = "not proven in time" if is_pruned else "no longer on L1"
            facts_shown = log_facts(checkpoint=mine, back_to=common, l1_block=state.head.number, reason=why)
            logger.warning("checkpoints are given up", extra=facts_shown)
            if is_pruned:
                self._reader.on_pruned(_last_block(view, common))
            yield UndoRecord(_last_block(view, common), is_below_final=common < final)
        self._contradicted_since = None
        yield from self._without_expired(stored(), facts, state)
        yield from self._tips(stored(), state)
        standing = reached = self._newest_standing(stored(), state, common)
        try:
            if limit > standing:
                reached = yield from self._content(stored, facts, state, standing, limit)
            else:
                if not state.can_prune:
                    self._events.settled = state.head
                # Also what may be pruned, though the contract has it still: nobody waits for it any more.
                self.invalid = None
                self._derivation.waiting_for = None
        finally:
            self.progress = None
        if reached >= common:
            self._doubted = _NONE
            self._stood = reached, CheckpointPlace.of(stored(), reached), state.head.hash
        yield from self._tips(stored(), state)

    def _require_that_all_contradict(self, facts: RollupFacts, final: int, root: bytes) -> None:
        """UpstreamFault unless L1 has contradicted what is stored as final for long, and no endpoint has it.

        A provider may have called final what was not; nobody else can tell, and the node would stand for ever.
        """
        now = self._clock()
        if self._contradicted_since is None:
            self._contradicted_since = now
        is_old = now - self._contradicted_since >= CONTRADICTION_S
        if not is_old or any(_has_root(endpoint, facts, final, root) for endpoint in self._reader.endpoints):
            raise UpstreamFault(f"L1 has another checkpoint {final} than the final one that is stored")
        shown = log_facts(checkpoint=final, archive=root)
        logger.error("a final checkpoint is given up: for long, no L1 node has had it", extra=shown)

    # ---- where the chains part -----------------------------------------------------------------

    def _newest_common(self, view: ChainView, facts: RollupFacts, state: L1State, limit: int) -> int:
        """The newest checkpoint up to ``limit`` that is the same on L1."""
        newest = view.tips.checkpointed.checkpoint.number
        # Fast path: the newest checkpoint is the same on both sides, so L1 is not asked.
        if newest <= limit and newest == state.pending and _archive_root(view, newest) == state.pending_archive:
            return newest
        high = min(newest, limit)
        while high > _GENESIS:
            numbers = list(range(high, max(_GENESIS, high - ROOTS_PER_QUESTION), -1))
            if high == newest:
                numbers = numbers[:1]  # usually only new checkpoints have been added
            for number, root in zip(numbers, self._events.archive_roots(facts, state, numbers), strict=True):
                if root == _archive_root(view, number):
                    return number
            high = numbers[-1] - 1
        return _GENESIS

    def _newest_standing(self, view: ChainView, state: L1State, common: int) -> int:
        """The checkpoint up to which L1 has all of them in the blocks from which they were read.

        A reorg may move those that are the same on both sides to other blocks: they are read again.  Until all of them
        were, another one may bring back the block of the newest, but not those of the ones below it: from the lowest
        that is doubted on, each is looked at.  So are those that another source has given since the last pass, as it
        may have been asked before a reorg; and the newest one, if L1 was last asked when it was not stored yet.
        """
        self._doubt_what_came(view, state, common)
        final = view.tips.finalized.checkpoint.number
        if state.has_moved(CheckpointPlace.of(view, common)):
            lowest = final
        elif common < self._doubted:
            return common
        else:
            lowest = max(final, common - DOUBTED_MAX)
        standing = common
        for high in range(common, lowest, -ROOTS_PER_QUESTION):
            numbers = range(high, max(lowest, high - ROOTS_PER_QUESTION), -1)
            for number, stands in zip(numbers, self._stand(view, state, numbers), strict=True):
                if not stands:
                    standing = number - 1
                elif number < self._doubted:
                    return self._doubt(standing, common)
        return self._doubt(standing, common)

    def _doubt_what_came(self, view: ChainView, state: L1State, common: int) -> None:
        stood, place, head = self._stood
        if stood > common or CheckpointPlace.of(view, stood) != place:
            stood = _GENESIS
        if stood < common:
            self._doubted = min(self._doubted, stood + 1)
        is_same_chain = head in (state.head.hash, state.head.parent_hash)
        if common > _GENESIS and not is_same_chain and not state.tells_of(CheckpointPlace.of(view, common)):
            self._doubted = min(self._doubted, common)

    def _doubt(self, standing: int, common: int) -> int:
        """Note that those behind ``standing`` are to be read again; it."""
        if standing < common:
            self._events.settled = None
            self._doubted = min(self._doubted, standing + 1)
        return standing

    def _stand(self, view: ChainView, state: L1State, numbers: Sequence[int]) -> list[bool]:
        """True for each checkpoint whose block L1 still has."""
        places = [place for number in numbers if (place := CheckpointPlace.of(view, number)) is not None]
        calls = [block_call(place.block_number) for place in places]
        blocks = self._reader.ask(state.head, lambda endpoint: endpoint.results(calls))
        return [
            block is not None and L1Block.from_json(block).hash == place.block_hash
            for place, block in zip(places, blocks, strict=True)
        ]

    def _without_expired(self, view: ChainView, facts: RollupFacts, state: L1State) -> Iterator[UndoRecord]:
        """Proposed blocks whose slot is over will not be published any more, if they are not of the next checkpoint."""
        checkpointed = view.tips.checkpointed
        first = view.block_info(checkpointed.block.number + 1)
        if first is None:
            return
        slot = facts.slot_at(self._reader.newest_timestamp + self._l1_slot_duration)
        if first.slot_number >= slot:
            return
        following = checkpointed.checkpoint.number + 1
        limit = state.proven if state.can_prune else state.pending
        # It may not be given for long: nobody has its blobs, or its content is none.
        if limit < following or self._slot_of(facts, state, following) not in (None, first.slot_number):
            shown = log_facts(first_block=first.number, its_slot=first.slot_number, slot=slot)
            logger.info("proposed blocks are given up: their slot is over", extra=shown)
            yield UndoRecord(checkpointed.block.number)

    def _slot_of(self, facts: RollupFacts, state: L1State, number: int) -> int | None:
        """The slot of a checkpoint on L1; None where the contract has forgotten it."""
        call = contract_call(facts.rollup, contracts.CHECKPOINT, number, block=state.head.number)
        answer = self._reader.ask(state.head, lambda endpoint: endpoint.answers([call])[0])
        if isinstance(answer, UpstreamRejection):
            return None
        slot: int = contracts.CHECKPOINT.decode(answer)[contracts.CHECKPOINT_SLOT]
        return slot

    def _tips(self, view: ChainView, state: L1State) -> Iterator[TipsRecord]:
        """Proven and final tips on L1, as far as they are stored.  What is final stays final."""
        ours = view.tips
        newest = ours.checkpointed.checkpoint.number
        proven = min(state.proven, newest)
        if proven == state.proven and proven and _archive_root(view, proven) != state.proven_archive:
            proven = ours.proven.checkpoint.number
        finalized = min(self._reader.finalized or _GENESIS, state.proven, newest)
        finalized = max(finalized, ours.finalized.checkpoint.number)
        tips = [view.tip_of_checkpoint(number) for number in (max(proven, finalized), finalized)]
        if tips != [ours.proven, ours.finalized]:
            yield TipsRecord(_with(ours, *tips))

    # ---- content -------------------------------------------------------------------------------

    def _content(
        self, stored: Callable[[], ChainView], facts: RollupFacts, state: L1State, common: int, limit: int
    ) -> Generator[Record, None, int]:
        """Checkpoints behind number ``common``, up to ``limit``; the last one that was given.

        One that is refused is judged anew as soon as L1 has another block: it may have been proposed again, also with
        the same archive root.
        """
        if self.invalid is not None and self._invalid_situation == self._situation:
            return common
        if self.invalid is not None and self.invalid.number != common + 1:
            self.invalid = None
        deadline = self._clock() + PASS_TIME_S
        number = common
        begin = self._events.first_block(stored(), facts, common)
        progress = self.progress = DerivationProgress(common, limit, begin, state.head.number)
        self._line.begin(common)
        for derived in self._derived(stored(), facts, state, common, limit, deadline):
            if derived.number != number + 1:
                break
            if derived.published is None:
                self._on_invalid(derived)
                return number
            number = derived.number
            progress.l1_block = derived.placed.block.number
            yield from self._without_other_blocks(stored(), derived.published)
            yield self._record(stored(), derived.published)
            self.invalid = None
            self.derived_count += 1
            if number % CHECKPOINTS_PER_TIPS == 0:
                yield from self._tips(stored(), state)
        if number < limit and self._clock() < deadline:
            raise self._without_logs(number + 1)
        return number

    def _without_logs(self, number: int) -> UpstreamUnavailable:
        """Logs may come a moment later than the state, or the state is that of a later block: both are read again."""
        self._events.settled = None
        self._reader.doubt()
        return UpstreamUnavailable(f"its logs do not have checkpoint {number} (yet)")

    def _record(self, view: ChainView, published: PublishedCheckpoint) -> CheckpointRecord:
        header, number = published.checkpoint.header, published.checkpoint.number
        if number <= view.tips.checkpointed.checkpoint.number:
            return CheckpointRecord.of(published, tuple(view.l1_to_l2_messages(number)))
        if has_compact_messages(view):
            first = message_count(view, view.tips.checkpointed.block.number)
            end = published.checkpoint.blocks[-1].header.state.l1_to_l2_message_tree.next_available_leaf_index
            messages = self._reader.messages_between(first, end) if end > first else ()
        elif header.in_hash == _NO_MESSAGES_IN_HASH:
            messages = ()
        else:
            messages = self._reader.messages_of(number)
        if messages is None:
            raise MessagesUnavailable(f"checkpoint {number} inserts messages from L1, which L1 does not say yet")
        return CheckpointRecord.of(published, tuple(messages))

    def _without_other_blocks(self, view: ChainView, published: PublishedCheckpoint) -> Iterator[UndoRecord]:
        """Proposed blocks that are stored already and are not those of the checkpoint go.

        Content that does not begin behind the newest checkpoint is none of this one, whoever has signed it: nothing
        goes for it, and storing it names the fault.
        """
        checkpoint = published.checkpoint
        if not checkpoint.blocks or checkpoint.blocks[0].number != view.tips.checkpointed.block.number + 1:
            return
        for block in checkpoint.blocks:
            info = view.block_info(block.number)
            if info is None:
                return
            if info.hash != block.hash():
                yield UndoRecord(block.number - 1)
                return
        following = view.block_info(checkpoint.blocks[-1].number + 1)
        if following is not None and following.checkpoint_number == checkpoint.number:
            yield UndoRecord(checkpoint.blocks[-1].number)

    def _on_invalid(self, derived: DerivedCheckpoint) -> None:
        event = derived.placed.event
        invalid = InvalidCheckpoint(
            derived.number, event.archive_root, derived.refusal, derived.placed.block, event.place, derived.proposal
        )
        if invalid != self.invalid:
            shown = log_facts(checkpoint=invalid.number, archive=invalid.archive_root, reason=invalid.reason)
            logger.error("a checkpoint on L1 is not valid and is not stored", extra=shown)
        self.invalid, self._invalid_situation = invalid, self._situation

    # ---- events ----------------------------------------------------------------------------------

    def _derived(
        self, view: ChainView, facts: RollupFacts, state: L1State, common: int, limit: int, deadline: float
    ) -> Iterator[DerivedCheckpoint]:
        """Fetched and proven some checkpoints ahead of their use, and decoded a few."""
        fetched: deque[tuple[Future[FetchedCheckpoint], Future[frozenset[int]]]] = deque()
        decoded: deque[Future[DerivedCheckpoint]] = deque()
        submit, derivation = self._executor.submit, self._derivation
        pages = made_ahead(self._executor, self._placed(view, facts, state, common, limit, deadline))
        events = itertools.chain.from_iterable(pages)
        placed = (list(same) for _, same in itertools.groupby(events, key=lambda item: item.event.number))
        near_tip = limit - common <= _NEAR_TIP
        try:
            while True:
                # Checkpoints behind missing blobs cannot be used before these are there: no retry fetches them.
                waiting = self.waiting_for
                is_held_up = waiting is not None and waiting.checkpoint > common
                ahead, together = CHECKPOINTS_AHEAD, CHECKPOINTS_TOGETHER
                if near_tip or is_held_up:
                    # Let none wait for the blobs of others, which may still be uploaded.
                    ahead, together = (1 if is_held_up else _NEAR_TIP, 1)
                while len(fetched) + len(decoded) + together <= ahead:
                    items = itertools.islice(placed, together)
                    group = [submit(derivation.fetch, facts, state.head, item, near_tip, view) for item in items]
                    if not group:
                        break
                    # Threads take work in this order: what one waits for is in the hands of others, or done.
                    proven = submit(derivation.prove, group)
                    fetched.extend((future, proven) for future in group)
                while fetched and len(decoded) < _DECODED_AHEAD:
                    decoded.append(submit(derivation.derive, *fetched.popleft()))
                if not decoded:
                    return
                yield decoded.popleft().result()
        finally:
            for future in decoded:
                future.cancel()
            for checkpoint, proven in fetched:
                checkpoint.cancel()
                proven.cancel()
            pages.close()

    def _placed(
        self, view: ChainView, facts: RollupFacts, state: L1State, common: int, limit: int, deadline: float
    ) -> Generator[Sequence[PlacedEvent], None, None]:
        """Events of the chain that L1 has now, in its order, with their transactions and blocks; page by page.

        All of them: the same checkpoint may have been proposed, taken back and proposed again.
        """
        for logs in self._events.read(view, facts, state, common):
            wanted = [log for log in logs if common < log.number <= limit]
            for start in range(0, len(wanted), _EVENTS_TOGETHER):
                if self._clock() > deadline:
                    return
                page = self._events.place(facts, state, wanted[start : start + _EVENTS_TOGETHER])
                if page:
                    yield page
            if self._clock() > deadline:
                return


def _situation(view: ChainView, state: L1State) -> Hashable:
    """Inputs of a pass: while they are the same, a pass gives the same result."""
    newest = view.tips.checkpointed.checkpoint
    on_l1 = (state.head.hash, state.pending_archive, state.proven, state.can_prune, state.inbox)
    return (*on_l1, newest, state.has_moved(CheckpointPlace.of(view, newest.number)))


def _has_root(endpoint: L1Endpoint, facts: RollupFacts, number: int, root: bytes) -> bool:
    try:
        return archives_of(endpoint, facts, [number])[0] == root
    except (UpstreamError, DecodeError):
        return False


def _last_block(view: ChainView, checkpoint: int) -> int:
    stored = view.checkpoint(checkpoint)
    return _GENESIS if stored is None else stored.last_block


def _archive_root(view: ChainView, checkpoint: int) -> bytes:
    """The root of the archive after a stored checkpoint."""
    stored = view.checkpoint(checkpoint)
    return view.chain.genesis_archive_root if stored is None else stored.archive_root


def _with(tips: L2Tips, proven: TipId, finalized: TipId) -> L2Tips:
    return L2Tips(tips.proposed, tips.checkpointed, proven, finalized)
