"""Statuses of validators per slot, worked out from the stored checkpoints at each request.

    slot with a checkpoint       its proposer: checkpoint-mined; the others: attestation-sent or -missed
    slot without one             its proposer: checkpoint-missed if blocks of it are known, else blocks-missed
    epoch without a committee    nothing

A proposer publishes only as many attestations as a checkpoint needs.  Those that peers have sent count too; a node that
hears none cannot tell who was left out, and judges nobody by a checkpoint with no more signatures than needed.

Nothing is kept but the addresses that were recovered from signatures, by checkpoint, so a reorg needs no undoing.
Committees and proposers are drawn on L1 and only known to a node that asks there.  Without, the committee of an epoch
is what its checkpoints tell, and every member counts as an attester.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from fastnode.archiver.queries import ChainView
from fastnode.sentinel.attestations import Attestations, join_committees, quorum, read_attestations
from fastnode.sentinel.statistics import SlotTime, Status, count_missed, describe_validator

__all__ = ["CommitteeOf", "ProposerOf", "Sentinel"]

#: A slot is looked at when it is over and its checkpoint had one more to arrive.
LAG_SLOTS: Final = 2

#: Checkpoints whose signers are remembered.
_REMEMBERED_MAX: Final = 1 << 14
#: Proposals of which attestations are remembered.
_HEARD_MAX: Final = 1 << 14

#: ``proposer_of(slot)``: the address, None if it is not known.
ProposerOf = Callable[[int], bytes | None]
#: ``committee_of(epoch)``: the addresses in the committee's order, none without a committee, None if it is not known.
CommitteeOf = Callable[[int], Sequence[bytes] | None]


class Sentinel:
    """May be asked from several threads.

    ``history_epochs`` is the length of the statistics, ``proven_epochs`` how many proven epochs are counted.
    ``is_ready`` says whether the chain is at its tip: if not, no slot that has not been fetched counts as missed.
    ``now`` is the time of the chain in seconds: that of L1 where L1 is read.
    """

    def __init__(
        self,
        *,
        history_epochs: int,
        proven_epochs: int,
        is_ready: Callable[[], bool],
        proposer_of: ProposerOf = lambda slot: None,
        committee_of: CommitteeOf = lambda epoch: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.history_epochs = history_epochs
        self._proven_epochs = proven_epochs
        self._is_ready = is_ready
        #: Checkpoints according to L1, for a node that reads L1: there, what is not known yet will be.
        self.proposer_of = proposer_of
        self.committee_of = committee_of
        self.knows_l1 = False
        self._now = now
        #: The first slot of which the node saw everything; None while it is behind.
        self._watches_from: int | None = None
        #: Attesters on the peer-to-peer network, by slot and archive root.
        self._heard: OrderedDict[tuple[int, bytes], set[bytes]] = OrderedDict()
        self.hears_attestations = False
        self._lock = threading.Lock()
        self._attestations: OrderedDict[bytes, Attestations] = OrderedDict()
        #: Missed and all duties of each validator, by proven epoch.
        self._proven: OrderedDict[int, dict[bytes, tuple[int, int]]] = OrderedDict()

    # ---- answers -------------------------------------------------------------------------------

    def validators_stats(self, view: ChainView) -> dict[str, Any]:
        """ValidatorsStats over the newest slots."""
        with self._lock:
            look = _Look(view, self.history_epochs)
            last = self._last_slot(view, look)
            if last is None:
                return {"stats": {}, "slotWindow": look.window}
            first = max(0, last - look.window)
            histories = self._histories(view, look, first, last)
        stats = {
            f"0x{address.hex()}": describe_validator(address, history, look.time)
            for address, history in sorted(histories.items())
        }
        return {"stats": stats, "lastProcessedSlot": last, "initialSlot": first, "slotWindow": look.window}

    def validator_stats(
        self, view: ChainView, address: bytes, first: int | None = None, last: int | None = None
    ) -> dict[str, Any] | None:
        """SingleValidatorStats; None for one that was in no committee of these slots."""
        return self.stats_of_validators(view, [address], first, last)[0]

    def stats_of_validators(
        self, view: ChainView, addresses: Sequence[bytes], first: int | None = None, last: int | None = None
    ) -> list[dict[str, Any] | None]:
        """SingleValidatorStats of each, as :meth:`validator_stats` gives them."""
        with self._lock:
            look = _Look(view, self.history_epochs)
            newest = self._last_slot(view, look)
            if newest is None:
                return [None] * len(addresses)
            oldest = max(0, newest - look.window)
            end = newest if last is None else min(last, newest)
            # A slot beyond the history is not looked at.
            begin = max(oldest, end - look.window if first is None else first)
            histories = self._histories(view, look, begin, end)
            if not any(address in histories for address in addresses):
                return [None] * len(addresses)
            self._count_proven_epochs(view, look, oldest)
            performances = {address: self._performance(address) for address in addresses}
        return [
            None
            if address not in histories
            else {
                "validator": describe_validator(address, histories[address], look.time),
                "allTimeProvenPerformance": performances[address],
                "lastProcessedSlot": newest,
                "initialSlot": oldest,
                "slotWindow": look.window,
            }
            for address in addresses
        ]

    def _performance(self, address: bytes) -> list[dict[str, int]]:
        """Missed duties and all duties of a validator in each proven epoch that it had some in."""
        return [
            {"missed": counts[address][0], "total": counts[address][1], "epoch": epoch}
            for epoch, counts in self._proven.items()
            if address in counts
        ]

    def proven_performance(self, view: ChainView) -> dict[int, dict[bytes, tuple[int, int]]]:
        """Missed duties and all duties of each validator, by proven epoch."""
        with self._lock:
            look = _Look(view, self.history_epochs)
            newest = self._last_slot(view, look)
            if newest is not None:
                self._count_proven_epochs(view, look, max(0, newest - look.window))
            return dict(self._proven)

    def learn_from(self, committee_of: CommitteeOf, proposer_of: ProposerOf) -> None:
        """Take these from L1.  To be called before the first question."""
        self.committee_of, self.proposer_of = committee_of, proposer_of
        self.knows_l1 = True

    def hear(self, slot: int, archive_root: bytes, signer: bytes) -> None:
        """A peer has sent an attestation that holds."""
        with self._lock:
            self._heard.setdefault((slot, archive_root), set()).add(signer)
            while len(self._heard) > _HEARD_MAX:
                self._heard.popitem(last=False)

    def watches_from(self, view: ChainView) -> int | None:
        """The first slot that began while this node was at the tip of the chain; None if it has not been yet.

        Nobody is accused of what this node was not there to see.
        """
        if self._watches_from is None and self._is_ready():
            self._watches_from = self.current_slot(view) + 1
        return self._watches_from

    def current_slot(self, view: ChainView) -> int:
        """Return the slot of the present moment by the time of the chain; 0 before the first slot."""
        time = SlotTime(view.chain.l1_genesis_time, view.chain.slot_duration)
        return max(0, time.slot_at(self._now()))

    def attestations(self, view: ChainView, number: int) -> Attestations | None:
        """Signers of a checkpoint; None if there is none of this number."""
        with self._lock:
            return self._of_checkpoint(view, number)

    # ---- slots ---------------------------------------------------------------------------------

    def _last_slot(self, view: ChainView, look: _Look) -> int | None:
        """The newest slot that can be judged."""
        newest = look.time.slot_at(self._now()) - LAG_SLOTS
        if not self._is_ready():
            checkpoint = view.checkpoint(view.tips.checkpointed.checkpoint.number)
            newest = min(newest, -1 if checkpoint is None else checkpoint.slot_number)
        return newest if newest >= 0 else None

    def _histories(
        self, view: ChainView, look: _Look, first: int, last: int, *, only_certain: bool = False
    ) -> dict[bytes, list[tuple[int, Status]]]:
        """Deeds of each member of a committee in the slots ``first`` to ``last``.

        ``only_certain``: without those whose signature may have been left out of what was published.
        """
        found: dict[bytes, list[tuple[int, Status]]] = {}
        epoch, committee = -1, ()  # type: tuple[int, tuple[bytes, ...]]
        for slot in range(first, last + 1):
            if slot // look.epoch_duration != epoch:
                epoch = slot // look.epoch_duration
                committee = self._committee(view, epoch)
            if not committee:
                continue
            attestations = self._of_slot(view, slot)
            proposer = self.proposer_of(slot)
            leaves_out = only_certain and self._may_leave_out(attestations, len(committee))
            for member in committee:
                status = _status(view, slot, member, attestations, is_proposer=member == proposer)
                if status is not None and not (leaves_out and status is Status.ATTESTATION_MISSED):
                    found.setdefault(member, []).append((slot, status))
        return found

    def _committee(self, view: ChainView, epoch: int) -> tuple[bytes, ...]:
        drawn = self.committee_of(epoch)
        if drawn is not None:
            return tuple(dict.fromkeys(drawn))
        found = (self._of_checkpoint(view, number) for number in view.checkpoint_numbers_of_epoch(epoch))
        return join_committees(item for item in found if item is not None)

    def _of_slot(self, view: ChainView, slot: int) -> Attestations | None:
        """With those that peers have sent."""
        number = view.checkpoint_number_by_slot(slot)
        checkpoint = None if number is None else view.checkpoint(number)
        published = None if checkpoint is None else self._of_checkpoint(view, checkpoint.number)
        if published is None or checkpoint is None:
            return None
        newest = view.block_info(checkpoint.last_block)
        heard = None if newest is None else self._heard.get((slot, newest.archive_root))
        return replace(published, signers=published.signers | heard) if heard else published

    def _may_leave_out(self, attestations: Attestations | None, members: int) -> bool:
        """True if more members may have signed a checkpoint than it says."""
        if self.hears_attestations or attestations is None:
            return False
        return len(attestations.signers) <= quorum(members)

    def _of_checkpoint(self, view: ChainView, number: int) -> Attestations | None:
        checkpoint = view.checkpoint(number)
        if checkpoint is None:
            return None
        key = checkpoint.header_hash + hashlib.sha256(checkpoint.attestations_json).digest()
        known = self._attestations.get(key)
        if known is None:
            known = self._attestations[key] = read_attestations(checkpoint, view.chain.signing_domain)
            if len(self._attestations) > _REMEMBERED_MAX:
                self._attestations.popitem(last=False)
        return known

    # ---- proven epochs ---------------------------------------------------------------------------

    def _count_proven_epochs(self, view: ChainView, look: _Look, oldest_slot: int) -> None:
        """Count the epochs with checkpoints that are proven to the last one; what was counted once stays."""
        proven = view.checkpoint(view.tips.proven.checkpoint.number)
        if proven is None:
            return
        duration = look.epoch_duration
        end = proven.slot_number // duration
        if proven.number + 1 not in view.checkpoint_numbers_of_epoch(end):
            # Nothing of this epoch is left to be proven, but more of it may come.
            newest = look.time.slot_at(self._now()) // duration
            end += newest > end
        for epoch in range(-(-oldest_slot // duration), end):
            if epoch in self._proven:
                continue
            if self.knows_l1 and self.committee_of(epoch) is None:
                return  # L1 has not been asked for it yet; what is counted stays
            if not view.checkpoint_numbers_of_epoch(epoch):
                continue  # nothing of it was proven
            last_slot = (epoch + 1) * duration - 1
            histories = self._histories(view, look, epoch * duration, last_slot, only_certain=True)
            if histories:
                self._proven[epoch] = {address: count_missed(history) for address, history in histories.items()}
            while len(self._proven) > self._proven_epochs:
                self._proven.popitem(last=False)


class _Look:
    """The constants of a chain, as far as slots go."""

    def __init__(self, view: ChainView, history_epochs: int) -> None:
        chain = view.chain
        self.epoch_duration = chain.epoch_duration
        self.window = history_epochs * chain.epoch_duration
        self.time = SlotTime(chain.l1_genesis_time, chain.slot_duration)


def _status(
    view: ChainView, slot: int, member: bytes, attestations: Attestations | None, *, is_proposer: bool
) -> Status | None:
    if attestations is not None:
        if is_proposer:
            return Status.CHECKPOINT_MINED
        return Status.ATTESTATION_SENT if member in attestations.signers else Status.ATTESTATION_MISSED
    if not is_proposer:
        return None
    newest = view.block_info(view.tip_number)
    # Blocks of a slot without a checkpoint can only be the newest ones.
    return Status.CHECKPOINT_MISSED if newest is not None and newest.slot_number == slot else Status.BLOCKS_MISSED
