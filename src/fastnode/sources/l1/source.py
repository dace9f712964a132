"""L1 as a block source: the chain from the rollup's events, the call data of proposals, and blobs.

One pass (:meth:`L1Source.records`) is made against one block of L1, the newest that was looked at:

    status, archiveAt          where both chains part; what is above it is undone
    canPruneAtTime             what is not proven in time is given up before the contract does it
    eth_getLogs                CheckpointProposed from the newest stored checkpoint on
    archiveAt                  only what is on the chain that L1 has now counts
    eth_getTransaction..       the proposal, whose hashes the event has
    committee, attestations    a checkpoint that its committee does not stand behind is not stored, nor what follows it
    blobs                      by their hashes; decoded into blocks

Nothing is remembered but what is stored: a pass that ends early, or a process that dies, goes on where it was.  What is
derived is verified like the blocks of any other source, every root of it.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointRecord, Record, TipsRecord, UndoRecord
from fastnode.errors import BlobsUnavailable, DecodeError, MessagesUnavailable, UpstreamFault, UpstreamUnavailable
from fastnode.log import fields
from fastnode.outgoing.client import RpcCall
from fastnode.protocol.blob_decoding import checkpoint_of, decode_blocks
from fastnode.protocol.checkpoint import L1PublishedData, PublishedCheckpoint
from fastnode.protocol.constants import FIELDS_PER_BLOB
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.kzg import BLOB_BYTES, blobs_hash
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tips import L2Tips, TipId
from fastnode.records import dataclass
from fastnode.sources.blobs.base import BlobRequest
from fastnode.sources.blobs.fetcher import BlobFetcher
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.attestation_check import AttestationCheck
from fastnode.sources.l1.endpoints import L1Block, L1Client, L1Endpoint, block_call, contract_call
from fastnode.sources.l1.inbox import REORG_BLOCKS
from fastnode.sources.l1.log_ranges import BLOCKS_FIRST, LogRanges
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, Proposal, ProposedCheckpoint
from fastnode.sources.l1.propose_calls import find_in_trace, find_in_transaction
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.service import L1Reader
from fastnode.sources.l1.state import L1State
from fastnode.sources.progress import CatchUpProgress

__all__ = ["CHECKPOINTS_AHEAD", "DerivationProgress", "InvalidCheckpoint", "L1Source"]

logger = logging.getLogger(__name__)

#: Checkpoints whose blobs are in memory at the same time.
CHECKPOINTS_AHEAD: Final = 16
#: Checkpoints after which the tips move on while a long way is being made.
CHECKPOINTS_PER_TIPS: Final = 64
#: Archive roots in one question where the chains part.
ROOTS_PER_QUESTION: Final = 32
#: For how long one block of L1 is asked: providers keep the state of the newest 128 or so.
PASS_TIME_S: Final = 120.0
#: Longest pause between two searches for blobs that are nowhere.
BLOB_PAUSE_MAX_S: Final = 60.0
_NO_MESSAGES_IN_HASH: Final = in_hash(())
_GENESIS: Final = 0
assert BLOB_BYTES == FIELDS_PER_BLOB * FIELD_BYTES


@dataclass(frozen=True, slots=True)
class InvalidCheckpoint:
    """A checkpoint on L1 that its committee does not stand behind: the chain stops below it."""

    number: int
    archive_root: bytes
    reason: str
    #: The L1 block that has it.
    block: L1Block

    def describe(self) -> dict[str, Any]:
        return {"checkpoint": self.number, "archive": hex_text(self.archive_root), "reason": self.reason}


@dataclass(slots=True)
class DerivationProgress:
    """How far a pass is: checkpoints and L1 blocks."""

    checkpoint: int
    checkpoint_wanted: int
    l1_block: int
    l1_block_wanted: int

    def describe(self, eta_s: int | None) -> dict[str, Any]:
        return {
            "checkpoint": self.checkpoint,
            "ofCheckpoint": self.checkpoint_wanted,
            "l1Block": self.l1_block,
            "ofL1Block": self.l1_block_wanted,
            "etaSeconds": eta_s,
        }


@dataclass(frozen=True, slots=True)
class _Placed:
    """An event with what else L1 says of it."""

    event: ProposedCheckpoint
    transaction: Any
    block: L1Block


@dataclass(frozen=True, slots=True)
class _Derived:
    published: PublishedCheckpoint
    block: L1Block
    refusal: str | None


@dataclass(slots=True)
class _BlobWait:
    """A checkpoint whose blobs are nowhere yet."""

    error: BlobsUnavailable
    pause_s: float
    again_at: float


class L1Source:
    """One pass at a time.  ``executor`` fetches and decodes ahead; ``traces``: nodes that trace transactions."""

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._blobs = blobs
        self._executor = executor
        self._traces = traces
        self._l1_slot_duration = l1_slot_duration
        self._log_blocks = log_blocks
        self._clock = clock
        self._logs: LogRanges | None = None
        self._check: AttestationCheck | None = None
        self._wait: _BlobWait | None = None
        #: Everything up to this L1 block was looked at when both chains were the same.
        self._settled: L1Block | None = None
        #: The first checkpoint of the pending chain that is not to be stored.
        self.invalid: InvalidCheckpoint | None = None
        #: Newest checkpoint on L1; None before L1 was looked at.
        self.newest_checkpoint: int | None = None
        self.progress: DerivationProgress | None = None
        self.derived_count = 0
        self._line = CatchUpProgress(unit="checkpoint")

    @property
    def waiting_for(self) -> BlobsUnavailable | None:
        """The checkpoint whose blobs are nowhere yet."""
        return None if self._wait is None else self._wait.error

    def checkpoints_behind(self, view: ChainView) -> int:
        """Checkpoints on L1 that are not stored, as far as L1 was looked at; none that are not to be stored."""
        newest = self.newest_checkpoint
        if newest is None or self.invalid is not None:
            return 0
        return max(0, newest - view.tips.checkpointed.checkpoint.number)

    def note(self, view: ChainView) -> None:
        """A record was applied: for the line about progress."""
        progress = self.progress
        if progress is not None:
            progress.checkpoint = view.tips.checkpointed.checkpoint.number
            self._line.note(progress.checkpoint, progress.checkpoint_wanted)

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        progress, waiting = self.progress, self.waiting_for
        return {
            "newestCheckpoint": self.newest_checkpoint,
            "progress": None if progress is None else progress.describe(self._line.eta_s),
            "waitingForBlobs": None
            if waiting is None
            else {"checkpoint": waiting.checkpoint, "missing": waiting.missing, "tried": list(waiting.tried)},
            "invalidCheckpoint": None if self.invalid is None else self.invalid.describe(),
            "derivedCheckpoints": self.derived_count,
            "blobs": self._blobs.blob_count,
            "blobBytes": self._blobs.byte_count,
            "blobSources": self._blobs.describe(),
        }

    def records(self, stored: Callable[[], ChainView]) -> Generator[Record, None, None]:
        """One pass.

        UpstreamUnavailable when L1 does not answer, or has not indexed yet what it has; UpstreamFault when it
        contradicts what is final; BlobsUnavailable; MessagesUnavailable.
        """
        facts, state = self._reader.seen()
        self.newest_checkpoint = state.pending
        view = stored()
        limit = state.proven if state.can_prune else state.pending
        common = self._newest_common(view, facts, state, limit)
        mine = view.tips.checkpointed.checkpoint.number
        if common < mine:
            final = view.tips.finalized.checkpoint.number
            if common < final:
                raise UpstreamFault(f"L1 has another checkpoint {final} than the final one that is stored")
            self._settled = None
            why = "not proven in time" if state.can_prune and common == limit else "no longer on L1"
            facts_shown = fields(checkpoint=mine, back_to=common, l1_block=state.head.number, reason=why)
            logger.warning("checkpoints are given up", extra=facts_shown)
            yield UndoRecord(_last_block(view, common))
        yield from self._without_expired(stored(), facts, state)
        yield from self._tips(stored(), state)
        try:
            if limit > common:
                yield from self._content(stored, facts, state, common, limit)
            elif not state.can_prune:
                self._settled = state.head
                self.invalid = self._wait = None
        finally:
            self.progress = None
        yield from self._tips(stored(), state)

    # ---- where the chains part -----------------------------------------------------------------

    def _newest_common(self, view: ChainView, facts: RollupFacts, state: L1State, limit: int) -> int:
        """The newest checkpoint up to ``limit`` that is the same on L1."""
        newest = view.tips.checkpointed.checkpoint.number
        # Fast path. If: the newest checkpoint of both is the same.  Then: nothing is asked.
        if newest <= limit and newest == state.pending and _archive_root(view, newest) == state.pending_archive:
            return newest
        high = min(newest, limit)
        while high > _GENESIS:
            numbers = list(range(high, max(_GENESIS, high - ROOTS_PER_QUESTION), -1))
            if high == newest:
                numbers = numbers[:1]  # mostly nothing has changed but what is new
            for number, root in zip(numbers, self._archive_roots(facts, state, numbers), strict=True):
                if root == _archive_root(view, number):
                    return number
            high = numbers[-1] - 1
        return _GENESIS

    def _archive_roots(self, facts: RollupFacts, state: L1State, numbers: Sequence[int]) -> list[bytes]:
        """At the block that was looked at, which must still be there when the answer comes."""
        # Fast path. If: only the newest one is wanted.  Then: it is known.
        if list(numbers) == [state.pending]:
            return [state.pending_archive]
        at = state.head.number
        calls = [contract_call(facts.rollup, contracts.ARCHIVE_AT, number, block=at) for number in numbers]

        def read(endpoint: L1Endpoint) -> list[bytes]:
            *answers, block = endpoint.results([*calls, block_call(at)])
            if block is None or L1Block.from_json(block) != state.head:
                raise UpstreamUnavailable(f"its block {at} has changed while it was asked")
            return [contracts.ARCHIVE_AT.decode(answer)[0] for answer in answers]

        return self._reader.ask(state.head, read)

    def _without_expired(self, view: ChainView, facts: RollupFacts, state: L1State) -> Iterator[UndoRecord]:
        """Proposed blocks whose slot is over will not be published any more."""
        checkpointed = view.tips.checkpointed.block.number
        first = view.block_info(checkpointed + 1)
        if first is not None:
            slot = facts.slot_at(state.head.timestamp + self._l1_slot_duration)
            if first.slot_number < slot and state.pending <= view.tips.checkpointed.checkpoint.number:
                shown = fields(first_block=first.number, its_slot=first.slot_number, slot=slot)
                logger.info("proposed blocks are given up: their slot is over", extra=shown)
                yield UndoRecord(checkpointed)

    def _tips(self, view: ChainView, state: L1State) -> Iterator[TipsRecord]:
        """What is proven and final on L1, as far as it is stored.  What is final stays final."""
        ours = view.tips
        newest = ours.checkpointed.checkpoint.number
        proven = min(state.proven, newest)
        if proven == state.proven and proven and _archive_root(view, proven) != state.proven_archive:
            proven = ours.proven.checkpoint.number
        finalized = min(self._reader.finalized or _GENESIS, newest)
        finalized = max(finalized, ours.finalized.checkpoint.number)
        tips = [view.tip_of_checkpoint(number) for number in (max(proven, finalized), finalized)]
        if tips != [ours.proven, ours.finalized]:
            yield TipsRecord(_with(ours, *tips))

    # ---- content -------------------------------------------------------------------------------

    def _content(
        self, stored: Callable[[], ChainView], facts: RollupFacts, state: L1State, common: int, limit: int
    ) -> Iterator[Record]:
        """Checkpoints behind number ``common``, up to ``limit``."""
        if self._is_known_invalid(facts, state, common, limit):
            return
        deadline = self._clock() + PASS_TIME_S
        number = common
        for derived in self._derived(stored(), facts, state, common, limit, deadline):
            checkpoint = derived.published.checkpoint
            if checkpoint.number != number + 1:
                raise UpstreamUnavailable(f"its logs do not have checkpoint {number + 1} (yet)")
            if derived.refusal is not None:
                root = checkpoint.archive.root
                self._on_invalid(InvalidCheckpoint(checkpoint.number, root, derived.refusal, derived.block))
                return
            number = checkpoint.number
            yield from self._without_other_blocks(stored(), derived.published)
            yield self._record(derived.published)
            self.derived_count += 1
            if number % CHECKPOINTS_PER_TIPS == 0:
                yield from self._tips(stored(), state)
        if number < limit and self._clock() < deadline:
            # Logs may come a moment later than the state; everything since the newest checkpoint is read again then.
            self._settled = None
            raise UpstreamUnavailable(f"its logs do not have checkpoint {number + 1} (yet)")

    def _record(self, published: PublishedCheckpoint) -> CheckpointRecord:
        header, number = published.checkpoint.header, published.checkpoint.number
        if header.in_hash == _NO_MESSAGES_IN_HASH:
            return CheckpointRecord.of(published, ())
        messages = self._reader.messages_of(number)
        if messages is None:
            raise MessagesUnavailable(f"checkpoint {number} inserts messages from L1, which L1 does not say yet")
        return CheckpointRecord.of(published, tuple(messages))

    def _without_other_blocks(self, view: ChainView, published: PublishedCheckpoint) -> Iterator[UndoRecord]:
        """Proposed blocks that are stored already and are not those of the checkpoint go."""
        checkpoint = published.checkpoint
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

    def _is_known_invalid(self, facts: RollupFacts, state: L1State, common: int, limit: int) -> bool:
        """Whether the next checkpoint is still the one that was refused."""
        invalid = self.invalid
        if invalid is None:
            return False
        if invalid.number == common + 1 <= limit:
            root = self._archive_roots(facts, state, [invalid.number])[0]
            block = self._reader.ask(state.head, lambda endpoint: endpoint.block(invalid.block.number))
            # After a reorg of L1 the same checkpoint may come with other attestations.
            if root == invalid.archive_root and block == invalid.block:
                return True
        self.invalid = None
        return False

    def _on_invalid(self, invalid: InvalidCheckpoint) -> None:
        if invalid != self.invalid:
            shown = fields(checkpoint=invalid.number, archive=invalid.archive_root, reason=invalid.reason)
            logger.error("a checkpoint on L1 is not valid and is not stored", extra=shown)
        self.invalid = invalid

    # ---- events ----------------------------------------------------------------------------------

    def _derived(
        self, view: ChainView, facts: RollupFacts, state: L1State, common: int, limit: int, deadline: float
    ) -> Iterator[_Derived]:
        """Fetched and decoded some checkpoints ahead of their use."""
        pending: deque[Future[_Derived]] = deque()
        placed = self._placed(view, facts, state, common, limit, deadline)
        near_tip = limit - common <= CHECKPOINTS_AHEAD
        try:
            while True:
                for item in itertools.islice(placed, CHECKPOINTS_AHEAD - len(pending)):
                    pending.append(self._executor.submit(self._derive, facts, state.head, item, near_tip))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _placed(
        self, view: ChainView, facts: RollupFacts, state: L1State, common: int, limit: int, deadline: float
    ) -> Iterator[_Placed]:
        """Events of the chain that L1 has now, in order, with their transactions and blocks."""
        number = common
        for end, events in self._events(view, facts, state, common):
            # The same checkpoint may have been proposed twice: the later event is the one that counts.
            latest = {(event.number, event.archive_root): event for event in events if number < event.number <= limit}
            wanted = sorted(latest.values(), key=lambda event: event.number)
            self.progress = DerivationProgress(number, limit, end, state.head.number)
            for start in range(0, len(wanted), CHECKPOINTS_AHEAD):
                if self._clock() > deadline:
                    return
                page = wanted[start : start + CHECKPOINTS_AHEAD]
                for placed in self._place(facts, state, page):
                    number = placed.event.number
                    yield placed
            if number == limit or self._clock() > deadline:
                return

    def _events(
        self, view: ChainView, facts: RollupFacts, state: L1State, common: int
    ) -> Iterator[tuple[int, list[ProposedCheckpoint]]]:
        """(last L1 block of a piece, its events)."""
        if self._logs is None:
            self._logs = LogRanges(facts.rollup, CHECKPOINT_PROPOSED, self._log_blocks)
        logs, head = self._logs, state.head
        first = self._first_block(view, facts, common)
        while first <= head.number:
            start = first

            def read(endpoint: L1Endpoint, start: int = start) -> tuple[int, list[dict[str, Any]]]:
                return next(logs.read(endpoint, start, head.number))

            end, found = self._reader.ask(head, read)
            yield end, [ProposedCheckpoint.from_log(log) for log in found]
            first = end + 1

    def _first_block(self, view: ChainView, facts: RollupFacts, common: int) -> int:
        """Where the events of what is new begin."""
        newest = view.checkpoint(common)
        if newest is None:
            return facts.deployment_block
        first = int(orjson.loads(newest.l1_json)["blockNumber"])
        settled = self._settled
        return first if settled is None else max(first, settled.number - REORG_BLOCKS)

    def _place(self, facts: RollupFacts, state: L1State, events: Sequence[ProposedCheckpoint]) -> list[_Placed]:
        """Those that are on the chain that L1 has now."""
        roots = self._archive_roots(facts, state, [event.number for event in events])
        events = [event for event, root in zip(events, roots, strict=True) if event.archive_root == root]
        if not events:
            return []
        calls: list[RpcCall] = [("eth_getTransactionByHash", [event.tx_hash]) for event in events]
        known = {state.head.hash: state.head} if state.head.beacon_root is not None else {}
        hashes = [item for item in dict.fromkeys(event.block_hash for event in events) if item not in known]
        calls += [("eth_getBlockByHash", [hex_data(item), False]) for item in hashes]
        answers = self._reader.ask(state.head, lambda endpoint: endpoint.results(calls))
        transactions = answers[: len(events)]
        found = zip(hashes, answers[len(events) :], strict=True)
        blocks = known | {item: None if block is None else L1Block.from_json(block) for item, block in found}
        placed = []
        for event, transaction in zip(events, transactions, strict=True):
            block = blocks[event.block_hash]
            if block is None or transaction is None:
                raise UpstreamUnavailable(f"it does not have the transaction of checkpoint {event.number} (yet)")
            placed.append(_Placed(event, transaction, block))
        return placed

    # ---- one checkpoint, in a thread of the executor ---------------------------------------------

    def _derive(self, facts: RollupFacts, head: L1Block, placed: _Placed, near_tip: bool) -> _Derived:
        event = placed.event
        proposal = find_in_transaction(placed.transaction, facts.rollup, event)
        if proposal is None:
            proposal = self._trace(facts, event)
        if blobs_hash(event.versioned_hashes) != proposal.header.blobs_hash:
            raise UpstreamFault(f"checkpoint {event.number}: the blobs of its event are not those of its header")
        refusal = self._refusal_of(facts, head, proposal)
        fields_joined = self._fields_of(placed, near_tip)
        try:
            checkpoint = checkpoint_of(
                event.number,
                proposal.header,
                proposal.archive_root,
                proposal.fee_asset_price_modifier,
                decode_blocks(fields_joined),
                chain_id=facts.chain_id,
                version=facts.version,
            )
            attestations = proposal.attestations(facts.target_committee_size)
        except DecodeError as error:
            raise UpstreamFault(f"checkpoint {event.number} on L1 makes no sense: {error}") from error
        block = placed.block
        l1 = L1PublishedData(block.number, block.timestamp, block.hash)
        return _Derived(PublishedCheckpoint(checkpoint, l1, attestations), block, refusal)

    def _trace(self, facts: RollupFacts, event: ProposedCheckpoint) -> Proposal:
        def find(endpoint: L1Endpoint) -> Proposal | str:
            return find_in_trace(endpoint, facts.rollup, event)

        found = self._reader.run(find) if self._traces is None else self._traces.run(find)
        if isinstance(found, str):
            raise UpstreamUnavailable(found)
        return found

    def _refusal_of(self, facts: RollupFacts, head: L1Block, proposal: Proposal) -> str | None:
        if self._check is None:
            self._check = AttestationCheck(facts)
        check = self._check
        if facts.target_committee_size == 0:
            return None
        return self._reader.ask(head, lambda endpoint: check.refusal_of(endpoint, proposal, head))

    def _fields_of(self, placed: _Placed, near_tip: bool) -> bytes:
        """The blob fields of a checkpoint, joined; BlobsUnavailable at once while they rest."""
        event, wait = placed.event, self._wait
        if wait is not None and wait.error.checkpoint == event.number and self._clock() < wait.again_at:
            raise wait.error
        request = BlobRequest(
            checkpoint=event.number,
            versioned_hashes=event.versioned_hashes,
            block_number=placed.block.number,
            block_hash=placed.block.hash,
            block_timestamp=placed.block.timestamp,
            parent_beacon_root=placed.block.beacon_root,
        )
        try:
            blobs = self._blobs.fetch(request, near_tip=near_tip)
        except BlobsUnavailable as error:
            pause = 1.0
            if wait is not None and wait.error.checkpoint == event.number:
                pause = min(2 * wait.pause_s, BLOB_PAUSE_MAX_S)
            if wait is None or event.number <= wait.error.checkpoint:
                self._wait = _BlobWait(error, pause, self._clock() + pause)
            raise
        if wait is not None and wait.error.checkpoint == event.number:
            self._wait = None
        *whole, last = blobs
        return b"".join([blob.ljust(BLOB_BYTES, b"\0") for blob in whole]) + last.ljust(
            -(-len(last) // FIELD_BYTES) * FIELD_BYTES, b"\0"
        )


def _last_block(view: ChainView, checkpoint: int) -> int:
    stored = view.checkpoint(checkpoint)
    return _GENESIS if stored is None else stored.last_block


def _archive_root(view: ChainView, checkpoint: int) -> bytes:
    """The root of the archive after a stored checkpoint."""
    stored = view.checkpoint(checkpoint)
    if stored is None:
        return view.chain.genesis_archive_root
    return bytes.fromhex(orjson.loads(stored.archive_json)["root"][2:])


def _with(tips: L2Tips, proven: TipId, finalized: TipId) -> L2Tips:
    return L2Tips(tips.proposed, tips.checkpointed, proven, finalized)
