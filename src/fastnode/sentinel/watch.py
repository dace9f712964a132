"""Looks for offenses in published checkpoints, keeps those it finds, and tells which count in a round.

    inactivity                 duties missed in a proven epoch that this node has watched, and in enough before
    insufficient attestations  the proposer of a checkpoint that not more than two thirds of its committee signed
    incorrect attestations     likewise, with a signature of no address, or not of the member in its place
    descendant of invalid      every signer of a checkpoint that builds on one of these two
    duplicate attestation      every signer of two checkpoints of one slot, one of which a reorg replaced
    duplicate proposal         the proposer of such a slot

    duplicate proposal         likewise of two that were gossiped, blocks or checkpoints     ) on the peer-to-peer
    duplicate attestation      the signer of two that were gossiped                          ) network only, see
    invalid block broadcast    the proposer of a block that is not what its transactions do  ) OffenseWatch.accuse
    data withheld              the committee of a pruned epoch whose transactions no peer has)
    valid epoch pruned         that of one whose blocks are what their transactions do       )

Who proposes is drawn on L1: without L1, offenses
of proposers are not found.

An offense is kept as it was found, with the penalty of that moment; a change of the configuration counts for those
found later.  Expired ones are forgotten.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import StoredCheckpoint
from fastnode.errors import FastnodeError
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.sentinel.attestations import Attestations, quorum
from fastnode.sentinel.offense_store import OffenseStore, SeenCheckpoint
from fastnode.sentinel.offenses import ALL, CURRENT, Offense, OffenseType, RoundSize
from fastnode.sentinel.sentinel import Sentinel
from fastnode.view import Committed

__all__ = ["PENALTIES", "OffenseThread", "OffenseWatch"]

logger = logging.getLogger(__name__)

#: Each view holds snapshots of databases.
_VIEWS_MAX: Final = 8

#: The key of the configuration that has the penalty of each kind.
PENALTIES: Final[Mapping[OffenseType, str]] = {
    OffenseType.DATA_WITHHOLDING: "slashDataWithholdingPenalty",
    OffenseType.VALID_EPOCH_PRUNED: "slashPrunePenalty",
    OffenseType.INACTIVITY: "slashInactivityPenalty",
    OffenseType.PROPOSED_INSUFFICIENT_ATTESTATIONS: "slashProposeInvalidAttestationsPenalty",
    OffenseType.PROPOSED_INCORRECT_ATTESTATIONS: "slashProposeInvalidAttestationsPenalty",
    OffenseType.ATTESTED_DESCENDANT_OF_INVALID: "slashAttestDescendantOfInvalidPenalty",
    OffenseType.BROADCASTED_INVALID_BLOCK_PROPOSAL: "slashBroadcastedInvalidBlockPenalty",
    OffenseType.DUPLICATE_PROPOSAL: "slashDuplicateProposalPenalty",
    OffenseType.DUPLICATE_ATTESTATION: "slashDuplicateAttestationPenalty",
}


class Configuration(Protocol):
    def __getitem__(self, name: str) -> Any: ...


class OffenseWatch:
    """``configuration`` gives the values of nodeAdmin_getConfig.  May be asked from several threads."""

    def __init__(
        self,
        sentinel: Sentinel,
        configuration: Configuration,
        size: RoundSize,
        store: OffenseStore,
        *,
        judges_inactivity: bool = True,
        clock: Clock = CLOCK,
    ) -> None:
        self._judges_inactivity = judges_inactivity
        self._sentinel = sentinel
        self._configuration = configuration
        self.size = size
        self._store = store
        self.clock = clock
        self._turn = threading.Lock()

    # ---- answers -------------------------------------------------------------------------------

    def offenses(self, view: ChainView, wanted: int | str) -> list[Offense]:
        """The offenses of a round, of the current one, or all that have not expired; oldest first."""
        self.look(view)
        duration = view.chain.epoch_duration
        found = sorted(self._store.offenses(), key=lambda item: (item.slot(duration), *item.key))
        if wanted == ALL:
            return found
        number = self.current_round(view) if wanted == CURRENT else int(wanted)
        recorded = number - self.size.offset_rounds
        return [offense for offense in found if self.size.round_of(offense, duration) == recorded]

    def current_round(self, view: ChainView) -> int:
        return self.size.round_at(self._sentinel.current_slot(view), view.chain.epoch_duration)

    # ---- looking -------------------------------------------------------------------------------

    def accuse(self, kind: OffenseType, validator: bytes, at: int, epoch_duration: int) -> None:
        """Note an offense of a slot or an epoch, seen on the network of peers.  DatabaseError if it cannot be kept."""
        offense = Offense(validator, int(self._configuration[PENALTIES[kind]]), kind, at)
        with self._turn:
            grace = int(self._configuration["slashGracePeriodL2Slots"])
            if self._store.has(offense) or offense.slot(epoch_duration) < grace:
                return
            self._store.add([offense], (), self._store.judged_epochs)
        shown = log_facts(kind=kind.name.lower(), validator=validator, at=at)
        logger.warning("an offense was seen on the peer-to-peer network", extra=shown)

    def look(self, view: ChainView) -> None:
        """Find what is new in ``view``.  DatabaseError when it cannot be kept."""
        with self._turn:
            look = _Look(view, self._sentinel, self._store, self._configuration)
            if self._judges_inactivity:
                look.at_epochs()
            look.at_checkpoints()
            oldest = self._oldest_round(view)
            duration = view.chain.epoch_duration
            new = [item for item in look.found.values() if self.size.round_of(item, duration) >= oldest]
            self._store.add(new, look.seen.values(), look.judged_epochs)
            expired = [item for item in self._store.offenses() if self.size.round_of(item, duration) < oldest]
            self._store.forget(expired, look.oldest_slot)
        if new:
            kinds = Counter(item.type.name.lower() for item in new)
            logger.warning("offenses found", extra=log_facts(**dict(sorted(kinds.items()))))

    def _oldest_round(self, view: ChainView) -> int:
        """The first that has not expired; 0 rounds of patience: none ever does."""
        rounds = int(self._configuration["slashOffenseExpirationRounds"])
        return max(0, self.current_round(view) - rounds) if rounds else 0


class _Look:
    """Findings of one look at a chain: offenses by key, checkpoints by slot and hash."""

    def __init__(self, view: ChainView, sentinel: Sentinel, store: OffenseStore, configuration: Configuration) -> None:
        self._view = view
        self._sentinel = sentinel
        self._store = store
        self._configuration = configuration
        self._duration = view.chain.epoch_duration
        self.found: dict[tuple[int, int, bytes], Offense] = {}
        self.seen: dict[tuple[int, bytes], SeenCheckpoint] = {}
        self.judged_epochs = store.judged_epochs
        tip = view.checkpoint(view.tips.checkpointed.checkpoint.number)
        self._tip_number = 0 if tip is None else tip.number
        #: Checkpoints before it are neither looked at nor kept.
        self.oldest_slot = 0 if tip is None else max(0, tip.slot_number - sentinel.history_epochs * self._duration)

    def at_epochs(self) -> None:
        """Judge the epochs that were proven since the last look, and that this node has watched."""
        configuration = self._configuration
        begin = self._sentinel.watches_from(self._view)
        if begin is None:
            return
        performance = {
            epoch: counts
            for epoch, counts in self._sentinel.proven_performance(self._view).items()
            if epoch * self._duration >= begin
        }
        before = self.judged_epochs
        self.judged_epochs = max([before, *(epoch + 1 for epoch in performance)])
        if int(configuration["slashInactivityPenalty"]) == 0:
            return
        for epoch, validator in _inactive(
            performance,
            target=float(configuration["slashInactivityTargetPercentage"]),
            epochs_in_a_row=int(configuration["slashInactivityConsecutiveEpochThreshold"]),
        ):
            if epoch >= before:
                self._accuse(validator, OffenseType.INACTIVITY, epoch)

    def at_checkpoints(self) -> None:
        """Look at the checkpoints that came since, also those in the place of others."""
        for checkpoint in reversed(list(self._new_checkpoints())):
            epoch = checkpoint.slot_number // self._duration
            if self._sentinel.knows_l1 and self._sentinel.committee_of(epoch) is None:
                return  # L1 has not been asked for it yet; the next look is soon
            attestations = self._sentinel.attestations(self._view, checkpoint.number)
            if attestations is not None:
                self._look_at(checkpoint, attestations)

    def _new_checkpoints(self) -> Iterator[StoredCheckpoint]:
        """From the newest down to one that was seen: then all before it were."""
        for number in range(self._tip_number, 0, -1):
            checkpoint = self._view.checkpoint(number)
            if checkpoint is None or checkpoint.slot_number < self.oldest_slot:
                return
            if checkpoint.header_hash in self._store.seen(checkpoint.slot_number):
                return
            yield checkpoint

    def _look_at(self, checkpoint: StoredCheckpoint, attestations: Attestations) -> None:
        slot = checkpoint.slot_number
        committee = self._sentinel.committee_of(slot // self._duration)
        proposer = self._sentinel.proposer_of(slot)
        wrong = _what_is_wrong(attestations, committee)
        if wrong is not None and proposer is not None:
            self._accuse(proposer, wrong, slot)
        is_descendant = not self._is_sound(checkpoint.number - 1)
        if is_descendant:
            for signer in attestations.signers:
                self._accuse(signer, OffenseType.ATTESTED_DESCENDANT_OF_INVALID, slot)
        for other in self._store.seen(slot).values():
            for signer in attestations.signers & other.signers:
                self._accuse(signer, OffenseType.DUPLICATE_ATTESTATION, slot)
            if proposer is not None:
                self._accuse(proposer, OffenseType.DUPLICATE_PROPOSAL, slot)
        is_sound = wrong is None and not is_descendant
        seen = SeenCheckpoint(slot, checkpoint.header_hash, attestations.signers, is_sound)
        self.seen[slot, checkpoint.header_hash] = seen

    def _is_sound(self, number: int) -> bool:
        """True if the checkpoint is; one that was not looked at is taken to be."""
        checkpoint = self._view.checkpoint(number) if number else None
        if checkpoint is None:
            return True
        slot, key = checkpoint.slot_number, checkpoint.header_hash
        seen = self.seen.get((slot, key)) or self._store.seen(slot).get(key)
        return seen is None or seen.is_sound

    def _accuse(self, validator: bytes, kind: OffenseType, at: int) -> None:
        offense = Offense(validator, int(self._configuration[PENALTIES[kind]]), kind, at)
        if offense.slot(self._duration) < int(self._configuration["slashGracePeriodL2Slots"]):
            return
        if not self._store.has(offense):
            self.found[offense.key] = offense


def _what_is_wrong(attestations: Attestations, committee: Sequence[bytes] | None) -> OffenseType | None:
    """``committee`` as L1 drew it, None if it is not known."""
    if not attestations.members:
        return None  # a network without a committee
    size, signers = len(attestations.members), attestations.signers
    is_incorrect = attestations.is_broken
    if committee:
        places = zip(attestations.members, committee, strict=False)
        is_incorrect |= any(member in signers and member != drawn for member, drawn in places)
        size, signers = len(committee), signers & frozenset(committee)
    if is_incorrect:
        return OffenseType.PROPOSED_INCORRECT_ATTESTATIONS
    return OffenseType.PROPOSED_INSUFFICIENT_ATTESTATIONS if len(signers) < quorum(size) else None


def _inactive(
    performance: Mapping[int, Mapping[bytes, tuple[int, int]]], *, target: float, epochs_in_a_row: int
) -> Iterator[tuple[int, bytes]]:
    """Epochs in which a validator was inactive, and in enough before: those in whose committee it was."""
    streaks: dict[bytes, int] = {}
    for epoch, counts in sorted(performance.items()):
        for validator, (missed, total) in sorted(counts.items()):
            is_inactive = total > 0 and missed / total >= target
            streaks[validator] = streaks.get(validator, 0) + 1 if is_inactive else 0
            if streaks[validator] >= epochs_in_a_row:
                yield epoch, validator


class OffenseThread:
    """Looks at each view of the chain that is committed, in order: what a reorg replaces is in no later one.

    Views that come during a long look wait, up to ``_VIEWS_MAX``; older ones are dropped, with a line in the log.
    """

    def __init__(self, watch: OffenseWatch, is_ready: Callable[[], bool]) -> None:
        self._watch = watch
        self._is_ready = is_ready
        #: Views that were not looked at, the newest last.
        self._views: deque[ChainView] = deque()
        self._dropped = 0
        self._was_ready = False
        self._failed: str | None = None
        self._loop = Loop("fastnode-offenses", self._turn, what="offenses are not looked for", clock=watch.clock)

    def start(self) -> None:
        self._loop.start()

    def on_committed(self, committed: Committed) -> None:
        """Ingestion has published a view; it does not wait for the look."""
        if not self._was_ready:
            self._views.clear()
        self._was_ready = self._is_ready()
        self._views.append(committed.view.chain)
        while len(self._views) > _VIEWS_MAX:
            with suppress(IndexError):  # the thread has just taken it
                self._views.popleft()
                self._dropped += 1
        self._loop.wake()

    def close(self) -> None:
        """May be called more than once."""
        self._loop.close()

    @property
    def fault(self) -> str | None:
        """Reason why the last look failed; None if it did not."""
        return self._loop.trouble or self._failed

    def _turn(self) -> None:
        # Other nodes judged the older epochs long ago.
        while self._views and self._is_ready():
            dropped, self._dropped = self._dropped, 0
            if dropped:
                logger.warning("offenses: states of the chain dropped unread", extra=log_facts(count=dropped))
            try:
                self._watch.look(self._views.popleft())
            except FastnodeError as error:  # the next view may do; until then the probes tell it
                self._failed = f"offenses are not looked for: {error}"
                logger.warning("offenses are not looked for", extra=log_facts(reason=str(error)))
            else:
                self._failed = None
