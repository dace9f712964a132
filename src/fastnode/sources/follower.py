"""The loop that follows a live chain: choose an upstream, make a pass, sleep.

Runs in the thread that ingests.  No behaviour of an upstream is an internal error: one that does
not answer is asked again later, one that gives wrong answers is put aside, and the stored chain stays as it was.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Final, Protocol

from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointAuthority, L1Tips, MessageSource, Record, UndoRecord
from fastnode.errors import (
    BlobsUnavailable,
    BlockRejected,
    DatabaseError,
    DecodeError,
    MessagesUnavailable,
    NotOnL1,
    StartError,
    UpstreamError,
    UpstreamUnavailable,
)
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.records import dataclass
from fastnode.sources.chain_export import stored_records
from fastnode.sources.comparison import Comparison
from fastnode.sources.confirmation import Confirmation
from fastnode.sources.l1.source import InvalidCheckpoint, L1Source
from fastnode.sources.pace import USUAL_SLOT_S, PollPace
from fastnode.sources.progress import TOLD_BLOCKS_MAX, CatchUpProgress, level_of_blocks
from fastnode.sources.publication import Publication
from fastnode.sources.sync_control import SyncControl
from fastnode.sources.upstream import UpstreamSource
from fastnode.sources.upstreams import Upstream, Upstreams

__all__ = ["Follower", "FollowerOptions"]

logger = logging.getLogger(__name__)

#: Failed passes in a row after which an upstream is put aside.  A reorg in the middle of a pass can look like a wrong
#: answer, but not twice.
BAD_PASSES_MAX: Final = 3
_BLOCKS_PER_CHECKPOINT: Final = 8  # as the log counts them before it has them
LONGEST_PAUSE_S: Final = 1.0  # how often the loop tries again while no upstream can be used
_NOT_ASKED: Final = "no source has been asked yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerOptions:
    #: The longest pause between two polls, and the shortest while blocks come.
    poll_interval_s: float = 0.5
    poll_interval_min_s: float = 0.05
    ready_max_lag_blocks: int = 16
    #: For how long an upstream must have had a shorter chain before blocks are given up for it.
    shortening_s: float = 12.0
    blocked_pause_s: float = 2.0  # after a pass that ended at something no source has
    l1_grace_s: float = 5.0  # for which L1 may be behind an upstream before that is trouble
    #: Seconds after which other upstreams are asked again whether they have the same blocks.
    comparison_interval_s: float = 5.0


class ProposalSource(Protocol):
    """Source of blocks that are not on L1 yet, other than upstreams: the peer-to-peer network."""

    def apply(self, ingestor: Ingestor) -> int:
        """Store what continues the stored chain; returns how many blocks."""


class _Outcome(enum.Enum):
    """Outcome of one pass."""

    COMPLETE = enum.auto()
    REFUSED = enum.auto()  # something was wrong
    BLOCKED = enum.auto()  # nothing was wrong, but something is missing
    EARLY = enum.auto()  # it gives what is not on L1 yet
    UNAVAILABLE = enum.auto()


@dataclass(slots=True)
class _Reorg:
    """A reorg whose replacement is not complete yet."""

    before: ChainView
    target: int  # the newest block that stays


class Stage(enum.Enum):
    """Stage of a follower."""

    NEW = "nothing has been done yet"
    CATCHING_UP = "there are blocks that are not here"
    CAUGHT_UP = "the newest block was here once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """State of a follower; replaced as a whole, by its thread."""

    stage: Stage = Stage.NEW
    #: Reason why the chain does not advance; None while it does.
    trouble: str | None = _NOT_ASKED
    #: When a pass was complete last, on the clock of ``time.time``; None: none was.
    last_pass_at: float | None = None


class Follower:
    """``run`` it in the thread that ingests; the rest may be called from any thread.

    ``on_pass`` is called after each complete pass, with the upstream it was made with.  ``begin`` is called once,
    before the first pass; what it raises ends the follower.  ``open_l1`` gives the chain from L1 as soon as L1 answers,
    None until then.  ``proposals`` are asked between L1 and upstreams, once the chain has caught up.  ``is_past``: true
    if L1 has, by the local clock, a block later than a time.

        NEW ── begin ──► CATCHING_UP ── a complete pass ends at the newest block ──► CAUGHT_UP

    Beside that there is trouble or none: it comes with whatever keeps the chain from advancing, and goes with a block,
    or with a complete pass that finds none.
    """

    def __init__(
        self,
        ingestor: Ingestor,
        upstreams: Upstreams,
        control: SyncControl,
        publication: Publication,
        executor: Executor,
        *,
        messages: MessageSource | None = None,
        l1_tips: L1Tips | None = None,
        authority: CheckpointAuthority | None = None,
        l1: L1Source | None = None,
        open_l1: Callable[[], L1Source | None] | None = None,
        proposals: ProposalSource | None = None,
        is_past: Callable[[float], bool] = lambda at: False,
        begin: Callable[[], None] = lambda: None,
        options: FollowerOptions | None = None,
        on_pass: Callable[[Upstream], None] = lambda upstream: None,
    ) -> None:
        self._ingestor = ingestor
        self._upstreams = upstreams
        self._control = control
        self._publication = publication
        self._options = options or FollowerOptions()
        self._on_pass = on_pass
        self._l1 = l1
        self._open_l1 = open_l1
        self._proposals = proposals
        self._is_past = is_past
        #: True for a slot whose checkpoint is on L1, as this node knows before it has read it there.
        self.is_published: Callable[[int], bool] = lambda slot: False
        self._begin = begin
        self._confirmation = None if authority is None else Confirmation(authority)
        self._sources = {
            upstream: UpstreamSource(
                upstream,
                executor,
                messages,
                l1_tips=l1_tips,
                authority=self._confirmation,
                shortening_s=self._options.shortening_s,
                l1_grace_s=self._options.l1_grace_s,
            )
            for upstream in upstreams.all
        }
        self._bad_passes = dict.fromkeys(upstreams.all, 0)
        self._comparison = Comparison(upstreams, executor, self._options.comparison_interval_s)
        self._progress = CatchUpProgress()
        self._pace = PollPace(
            self._options.poll_interval_s,
            self._options.poll_interval_min_s,
            float(ingestor.view.chain.l1_constants.get("slotDuration", USUAL_SLOT_S)),
        )
        self._early_since: float | None = None
        self._setbacks = Setbacks("the chain is not followed")
        self._l1_setbacks = Setbacks("the chain is not derived from L1")
        self._pass_setbacks = Setbacks("what is learned after a pass is not")
        self._standing = Standing()
        self.source_tip: int | None = None
        self.reorg_count = 0
        self.chores: Callable[[], None] = lambda: None  # what others do to the chain, before each round

    def invariant(self) -> None:
        """AssertionError unless who has caught up has made a pass, and who was wrong too often is put aside."""
        standing = self._standing
        assert standing.last_pass_at is not None or standing.stage is not Stage.CAUGHT_UP
        assert standing.last_pass_at is None or self.source_tip is not None
        assert all(0 <= count < BAD_PASSES_MAX for count in list(self._bad_passes.values()))

    # ---- for others ------------------------------------------------------------------------------

    @property
    def trouble(self) -> str | None:
        """Reason why the chain does not advance; None while it does."""
        return self._standing.trouble

    @property
    def has_caught_up(self) -> bool:
        return self._standing.stage is Stage.CAUGHT_UP

    @property
    def lag_blocks(self) -> int | None:
        """Blocks by which the newest one known to exist is ahead; None before any upstream has answered."""
        tip = self.source_tip
        return None if tip is None else max(0, tip - self._ingestor.view.tip_number)

    @property
    def has_read_l1(self) -> bool:
        """True if every checkpoint that L1 had at the newest block that was seen is stored."""
        return self.has_caught_up and self._l1 is not None and self._l1.is_stored(self._ingestor.view)

    @property
    def invalid_checkpoint(self) -> InvalidCheckpoint | None:
        return None if self._l1 is None else self._l1.invalid

    @property
    def is_ready(self) -> bool:
        """Caught up once, and not too far behind since."""
        lag = self.lag_blocks
        return self.has_caught_up and (lag is None or lag <= self._options.ready_max_lag_blocks)

    @property
    def unconfirmed_from(self) -> int | None:
        """The lowest checkpoint that is stored as another node said while L1 did not answer; None for none."""
        return None if self._confirmation is None else self._confirmation.lowest

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return {
            "state": self._state(),
            "reason": self.trouble,
            "tip": self._ingestor.view.tip_number,
            "sourceTip": self.source_tip,
            "lagBlocks": self.lag_blocks,
            "catchingUp": self._progress.describe() if self.lag_blocks else None,
            "isReady": self.is_ready,
            "reorgs": self.reorg_count,
            "lastPassAt": None if (at := self._standing.last_pass_at) is None else int(at),
            "unconfirmedFromCheckpoint": self.unconfirmed_from,
            "upstreams": self._upstreams.describe(),
        } | ({} if self._l1 is None else {"derivation": self._l1.describe()})

    def _state(self) -> str:
        if self._control.is_paused:
            return "paused"
        if self.trouble is not None:
            return "degraded"
        return "following" if self.has_caught_up else "catching up"

    def set_poll_interval(self, seconds: float) -> None:
        """Set the pause between passes, from the next one on."""
        self._options = replace(self._options, poll_interval_s=seconds)
        self._pace.longest_s = seconds

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Follow until StopRequested.  StartError when the sources are of another network; DatabaseError."""
        self._control.pass_point()
        try:
            while True:
                self._control.pass_point()
                self._control.sleep(self._guarded_round())
        except StartError:
            self._control.pass_point()  # a stop ends what it waited for
            raise

    def _guarded_round(self) -> float:
        """:meth:`_round`; an exception that nobody expects does not end the thread that feeds the chain."""
        try:
            if self._standing.stage is Stage.NEW:
                self._begin()
                self._become(stage=Stage.CATCHING_UP)
            self.chores()
            pause = self._round()
        except (StartError, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            pause = self._setbacks.note(error)
            self._set_trouble(self._setbacks.reason or "")
            self._ingestor.catch_up()  # whatever was begun is whole or gone
            return pause
        if self._setbacks.reason is not None and self.trouble == self._setbacks.reason:
            self._end_trouble()
        self._setbacks.end()
        return pause

    def _round(self) -> float:
        """One pass over L1, if the chain comes from there, and one with the first upstream that has anything to say;
        returns how long to sleep then."""
        outcomes: set[_Outcome] = set()
        if self._l1 is None and self._open_l1 is not None:
            self._l1 = self._open_l1()
        l1_outcome = self._l1_outcome()
        if l1_outcome is not None:
            outcomes.add(l1_outcome)
        if l1_outcome is not None:
            self._withdraw_expired()
        if self._proposals is not None and self.has_caught_up:
            self._proposals.apply(self._ingestor)
        if self._confirmation is not None:
            self._hold_against_l1(self._confirmation)
        # L1 gives what it has; the rest, and everything while L1 is silent or blobs are missing, comes from upstreams.
        outcomes |= self._ask_upstreams(only_proposed=l1_outcome is _Outcome.COMPLETE)
        return self._pause_after(outcomes)

    def _l1_outcome(self) -> _Outcome | None:
        """One pass over L1; None when the chain does not come from L1."""
        if self._l1 is not None:
            return self._try_l1(self._l1)
        if self._open_l1 is None:
            return None
        self._on_early("L1 does not answer")
        return _Outcome.UNAVAILABLE

    def _withdraw_expired(self) -> None:
        """Withdraw proposed blocks whose slot is over by the local clock: L1, which may be silent, has none for it.

        Where upstreams answer, theirs is the chain while L1 is silent.
        """
        view = self._ingestor.view
        first = view.block_info(view.tips.checkpointed.block.number + 1)
        if first is None or self._upstreams.healthy():
            return
        is_behind = self._l1 is not None and self._l1.checkpoints_behind(view) > 0
        end = view.chain.l1_genesis_time + (first.slot_number + 1) * view.chain.slot_duration
        if is_behind or not self._is_past(end) or self.is_published(first.slot_number):
            return
        self.reorg_count += 1
        back_to = view.tips.checkpointed.block.number
        shown = log_facts(tip=view.tip_number, back_to=back_to, slot=first.slot_number)
        logger.warning("proposed blocks withdrawn: their slot is over and L1 has not been read since", extra=shown)
        self._ingestor.undo_above(back_to)

    def _hold_against_l1(self, confirmation: Confirmation) -> None:
        """Mend what was stored as others say while L1 did not answer."""
        try:
            for record in confirmation.records(self._ingestor.view):
                self.reorg_count += isinstance(record, UndoRecord)
                self._ingestor.apply(record)
        except (BlockRejected, DecodeError, UpstreamError) as error:
            self._set_trouble(f"L1: {error}")

    def _ask_upstreams(self, *, only_proposed: bool) -> set[_Outcome]:
        shorter: list[UpstreamSource] = []
        outcomes: set[_Outcome] = set()
        for upstream in self._upstreams.usable():
            source = self._sources[upstream]
            source.only_proposed = only_proposed
            outcome = self._try_pass(upstream, source)
            outcomes.add(outcome)
            if outcome is not _Outcome.COMPLETE:
                continue
            if not source.is_behind:
                for other in shorter:
                    other.trust_nothing_shorter()
                self._comparison.begin_when_due(upstream, self._ingestor.view.tips.checkpointed.block)
                break
            shorter.append(source)
            if not only_proposed and not self._has_all_that_is_published(upstream):
                self._set_trouble(f"{upstream.name} is behind: its newest block is {upstream.tip_number}")
        return outcomes

    def _has_all_that_is_published(self, upstream: Upstream) -> bool:
        """True if an upstream that is behind lacks nothing but what peers have proposed a moment ago."""
        published = self._ingestor.view.tips.checkpointed.block.number
        return self._proposals is not None and (upstream.tip_number or 0) >= published

    def _pause_after(self, outcomes: set[_Outcome]) -> float:
        interval = self._options.poll_interval_s
        if _Outcome.COMPLETE in outcomes and not outcomes & {_Outcome.REFUSED, _Outcome.EARLY}:
            return self._pace.rest_s()
        if outcomes & {_Outcome.COMPLETE, _Outcome.REFUSED, _Outcome.EARLY}:
            return interval
        if _Outcome.BLOCKED in outcomes:
            return max(interval, self._options.blocked_pause_s)
        if not self._upstreams.all:
            return max(interval, LONGEST_PAUSE_S)
        self._set_trouble(f"no upstream can be followed: {self._upstreams.reasons()}")
        return max(interval, min(self._upstreams.seconds_until_usable(), LONGEST_PAUSE_S))

    def _try_l1(self, source: L1Source) -> _Outcome:
        """One pass over L1.  What goes wrong there keeps the chain as it is, and is tried again."""
        try:
            self._l1_pass(source)
        except UpstreamUnavailable as error:
            self._on_early(f"L1: {error}")
            return _Outcome.UNAVAILABLE
        except (MessagesUnavailable, BlobsUnavailable) as error:
            self._set_trouble(str(error))
            return _Outcome.BLOCKED
        except (BlockRejected, DecodeError, UpstreamError) as error:
            source.on_failure(error, self._ingestor.view)
            self._set_trouble(f"L1: {error}")
            return _Outcome.REFUSED
        except (StartError, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._l1_setbacks.note(error)
            source.on_failure(error, self._ingestor.view)
            self._set_trouble(self._l1_setbacks.reason or "")
            return _Outcome.REFUSED
        finally:
            source.end_pass()
            self.source_tip = self._ingestor.view.tip_number + source.checkpoints_behind(self._ingestor.view)
        self._l1_setbacks.end()
        self._early_since = None
        self._become(last_pass_at=time.time())
        invalid = source.invalid
        if invalid is not None:
            self._set_trouble(f"checkpoint {invalid.number} on L1 is not valid: {invalid.reason}")
            self._become(stage=Stage.CAUGHT_UP)
            return _Outcome.COMPLETE
        self._end_trouble()
        if not self.has_caught_up and source.checkpoints_behind(self._ingestor.view) == 0:
            self._become(stage=Stage.CAUGHT_UP)
            logger.info("caught up", extra=log_facts(tip=self._ingestor.view.tip_number, source=source.name))
        return _Outcome.COMPLETE

    def _l1_pass(self, source: L1Source) -> None:
        records = source.records(lambda: self._ingestor.view)
        if self.trouble == _NOT_ASKED:
            self._end_trouble()
        try:
            for position, record in enumerate(records):
                self._control.pass_point()
                if position == 0:
                    self._ingestor.final_checkpoint = source.final_checkpoint
                    behind = source.checkpoints_behind(self._ingestor.view)
                    self._ingestor.block_log_level = level_of_blocks(behind * _BLOCKS_PER_CHECKPOINT)
                if isinstance(record, UndoRecord):
                    self.reorg_count += 1
                    shown = log_facts(
                        source=source.name, tip=self._ingestor.view.tip_number, back_to=record.block_number
                    )
                    logger.warning("reorg", extra=shown)
                if self._ingestor.apply(record):
                    self._end_trouble()
                source.note(self._ingestor.view)
        finally:
            records.close()
            self._ingestor.flush()

    def _try_pass(self, upstream: Upstream, source: UpstreamSource) -> _Outcome:
        tip_before, begun = self._ingestor.view.tip_number, time.monotonic()
        try:
            self._pass(source)
        except UpstreamUnavailable:
            return _Outcome.UNAVAILABLE  # the endpoint's health records the reason
        except MessagesUnavailable as error:
            self._set_trouble(str(error))
            return _Outcome.BLOCKED
        except NotOnL1 as error:
            self._on_early(str(error))
            return _Outcome.EARLY
        except (BlockRejected, DecodeError, UpstreamError) as error:
            self._on_bad_answer(upstream, str(error))
            return _Outcome.REFUSED
        except (StartError, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._on_bad_answer(upstream, str(upstream.on_nonsense(error)))
            return _Outcome.REFUSED
        finally:
            self._note_tip(upstream, source)
        self._bad_passes[upstream] = 0
        self._early_since = None
        self._become(last_pass_at=time.time())
        if not source.is_behind:
            self._end_trouble()
            upstream.on_useful()
            # A long pass ends where the other node was when it started; only the next one tells whether more came.
            new_blocks = self._ingestor.view.tip_number - tip_before
            self._pace.on_look(time.monotonic() - begun, has_blocks=new_blocks > 0)
            if not self.has_caught_up and new_blocks <= self._options.ready_max_lag_blocks:
                self._become(stage=Stage.CAUGHT_UP)
                logger.info("caught up", extra=log_facts(tip=self._ingestor.view.tip_number, upstream=upstream.name))
            elif self.has_caught_up and new_blocks > TOLD_BLOCKS_MAX:
                shown = log_facts(tip=self._ingestor.view.tip_number, upstream=upstream.name, blocks=new_blocks)
                logger.info("caught up", extra=shown)
        self._learn_after_pass(upstream)
        return _Outcome.COMPLETE

    def _learn_after_pass(self, upstream: Upstream) -> None:
        try:
            self._on_pass(upstream)
        except (StartError, DatabaseError):
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._pass_setbacks.note(error)
        else:
            self._pass_setbacks.end()

    def faults(self) -> dict[str, str | None]:
        """Unexpected exceptions by the work that they stop; None for none."""
        return {"follower": self._setbacks.reason, "afterPasses": self._pass_setbacks.reason}

    def _note_tip(self, upstream: Upstream, source: UpstreamSource) -> None:
        if source.tips is not None:
            upstream.tip_number = self.source_tip = source.tips.proposed.number

    def _on_bad_answer(self, upstream: Upstream, reason: str) -> None:
        self._set_trouble(f"{upstream.name}: {reason}")
        count = self._bad_passes[upstream] + 1
        if count >= BAD_PASSES_MAX:
            self._bad_passes[upstream] = 0
            upstream.put_aside(reason)
        else:
            self._bad_passes[upstream] = count
            logger.warning("answer refused", extra=log_facts(upstream=upstream.name, reason=reason))

    def _on_early(self, reason: str) -> None:
        """The upstream's L1 node may be a moment ahead of ours."""
        now = time.monotonic()
        if self._early_since is None:
            self._early_since = now
        if now - self._early_since >= self._options.l1_grace_s:
            self._set_trouble(reason)

    def _set_trouble(self, reason: str) -> None:
        if reason != self.trouble:
            logger.warning("the chain does not advance", extra=log_facts(reason=reason))
        self._become(trouble=reason)

    def _end_trouble(self) -> None:
        if self.trouble is not None and self.has_caught_up:
            logger.info("the chain advances again", extra=log_facts(tip=self._ingestor.view.tip_number))
        self._become(trouble=None)

    def _become(self, **changes: Any) -> None:
        self._standing = replace(self._standing, **changes)

    # ---- one pass --------------------------------------------------------------------------------

    def _pass(self, source: UpstreamSource) -> None:
        reorg: _Reorg | None = None
        records = source.records(lambda: self._ingestor.view)
        try:
            for position, record in enumerate(records):
                if reorg is None:
                    self._control.pass_point()
                if position == 0 and source.tips is not None:
                    self._ingestor.final_checkpoint = source.final_checkpoint
                    behind = source.tips.proposed.number - self._ingestor.view.tip_number
                    self._ingestor.block_log_level = level_of_blocks(behind)
                if isinstance(record, UndoRecord):
                    reorg = self._begin_reorg(record, source)
                self._apply(record, source)
                if reorg is not None and self._ingestor.view.tip_number >= reorg.before.tip_number:
                    self._publication.release()
                    reorg = None
        except DatabaseError:
            raise
        except Exception:
            if reorg is not None:
                self._put_back(reorg)
            raise
        finally:
            records.close()
            try:
                self._ingestor.flush()
            finally:
                self._publication.release()

    def _apply(self, record: Record, source: UpstreamSource) -> None:
        if self._ingestor.apply(record):
            self._end_trouble()
        tips = source.tips
        if tips is not None:
            self.source_tip = tips.proposed.number
            self._progress.note(self._ingestor.view.tip_number, tips.proposed.number)

    def _begin_reorg(self, record: UndoRecord, source: UpstreamSource) -> _Reorg:
        view = self._ingestor.view
        self.reorg_count += 1
        extra = log_facts(upstream=source.name, tip=view.tip_number, back_to=record.block_number)
        logger.warning("reorg", extra=extra)
        self._publication.hold()
        # Nothing goes into a run before the replacement is complete: what was there could not be put back.
        self._ingestor.final_checkpoint = 0
        return _Reorg(view, record.block_number)

    def _put_back(self, reorg: _Reorg) -> None:
        """The replacement is wrong or did not come: what was there before counts as right."""
        self._ingestor.undo_above(reorg.target)
        for record in stored_records(reorg.before, reorg.target + 1):
            self._ingestor.apply(record)
        logger.warning("the blocks before the reorg are back", extra=log_facts(tip=self._ingestor.view.tip_number))
