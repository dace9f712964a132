"""Verdicts on proposals and attestations: their slot, who has signed them, and whether that one may.

    chain or rollup other than this one (from 5.x on)    reject, L
    slot other than the current or the next              reject, H; the previous one, at most half a second late: ignore
    from 5.x on: before or after the time of its slot    ignore; more than a slot before or after: reject, H
    signature that ends with 0 or 1 (from 5.x on)        ignore: not all nodes take it
    signature                                            reject, M; of an attestation L
    proposer other than the slot's                       reject, M; named by an attestation H
    attester that is not in the committee                reject, H
    second and third block at one position               accept: it is evidence; a fourth one: reject, H
    second to fifth checkpoint of one slot               accept: it is evidence; a sixth one: reject, H
                                                         (from 5.x on two of each, and two attestations)
    last block of a checkpoint that is not the only one  reject, without points
    transactions in it that it does not list             reject, M; with another hash than they say: reject, L
    attestation of two others by one attester            accept: it is evidence; more than three: ignore
    seen already under another signature                 ignore
    committee not known here                             ignore
    transactions that no peer gives                      ignore: who forwards a proposal must hold them

Facts of the network, section 3.  From 5.x on a checkpoint is proposed ahead of its slot, and its messages come::

    proposals       from one L1 slot before the slot before its own on, until one L1 slot before its own
    attestations    from then on, until two L1 slots before the end of its own

by the public source; published nodes end a block's time earlier with proposals, which is not known here.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from fastnode import interpreter
from fastnode.mempool.clock import SlotClock
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.proposals import (
    BlockProposal,
    CheckpointAttestation,
    CheckpointProposal,
    has_plain_recovery,
)
from fastnode.p2p.messages.request_forms import HASH_BYTES
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.sentinel.offenses import OffenseType

__all__ = ["ProposalJudge"]

_LATE_S: Final = 0.5
#: Positions whose proposals are counted, and attesters of slots.
_POSITIONS_MAX: Final = 8192
_IGNORE: Final = Verdict.IGNORE
_ACCEPT: Final = Judgement(Verdict.ACCEPT)

_Message = BlockProposal | CheckpointProposal | CheckpointAttestation


class _Place(NamedTuple):
    """``number``: the how-manieth of different ones at a position it is, or how many there are."""

    is_new: bool
    number: int


def _judge_own_txs(block: BlockProposal, release: Release) -> Judgement | None:
    """Judgement of the transactions that a proposal brings; None: nothing is wrong with them.  DecodeError."""
    txs = () if block.txs is None else block.txs.txs
    if not {tx[:HASH_BYTES] for tx in txs} <= set(block.tx_hashes):
        return _reject(Penalty.MID_TOLERANCE, "it brings transactions that it does not list")
    for buffer in txs:
        with interpreter.BUSY:
            tx = Tx.from_buffer(buffer, release)
            if tx.hash != tx.claimed_hash:
                return _reject(Penalty.LOW_TOLERANCE, "it brings a transaction with another hash than it says")
    return None


def _reject(penalty: Penalty, reason: str) -> Judgement:
    return Judgement(Verdict.REJECT, penalty, reason)


class ProposalJudge:
    """``committee_of`` an epoch: addresses, None if not known.  ``proposer_of`` a slot.  ``has_txs``: whether the
    transactions of a proposal are here, or come from the peer that has sent it; may take seconds.  ``accuse`` is told
    of who has signed two things for one place; ``on_block`` of each block that is the first of its place,
    ``on_checkpoint`` and ``on_attestation`` of what is said of whole checkpoints, once it is accepted.
    ``has_paused``: whether this process did not run a moment ago, so that what is late may be so by its fault.
    ``domain``: of this rollup, where messages of the ``release`` name it.  ``keep`` gets each message that is handed
    on, with its signer."""

    def __init__(
        self,
        clock: SlotClock,
        epoch_duration: int,
        committee_of: Callable[[int], Sequence[bytes] | None],
        proposer_of: Callable[[int], bytes | None],
        has_txs: Callable[[BlockProposal, str], bool],
        *,
        release: Release,
        domain: SigningDomain | None = None,
        accuse: Callable[[OffenseType, bytes, int], None] = lambda kind, validator, slot: None,
        on_block: Callable[[BlockProposal], None] = lambda block: None,
        on_checkpoint: Callable[[CheckpointProposal], None] = lambda checkpoint: None,
        on_attestation: Callable[[CheckpointAttestation], None] = lambda attestation: None,
        has_paused: Callable[[], bool] = lambda: False,
        keep: Callable[[BlockProposal | CheckpointProposal | CheckpointAttestation, bytes], None] = lambda *_: None,
    ) -> None:
        self._release, self._rules = release, release.messages
        self._domain = domain if self._rules.are_for_rollup else None
        self._keep = keep
        self._clock = clock
        self._epoch_duration = epoch_duration
        self._committee_of, self._proposer_of, self._has_txs = committee_of, proposer_of, has_txs
        self._accuse, self._on_block, self._has_paused = accuse, on_block, has_paused
        self._on_checkpoint, self._on_attestation = on_checkpoint, on_attestation
        self._positions: OrderedDict[tuple[Hashable, ...], set[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, message: _Message, peer: str) -> Judgement:
        if message.domain != self._domain:
            return _reject(Penalty.LOW_TOLERANCE, "it is for another chain or rollup")
        wrong = self._judge_time(message) if self._rules.are_ahead else self._judge_slot(message.slot)
        if wrong is not None:
            return wrong
        if self._rules.plain_recovery and any(map(has_plain_recovery, message.signatures)):
            return Judgement(_IGNORE, None, "a signature of it is in a form that not all nodes take")
        committee = self._committee_of(message.slot // self._epoch_duration)
        if not committee:
            return Judgement(_IGNORE, None, "the committee is not known here")
        if isinstance(message, CheckpointAttestation):
            return self._judge_attestation(message, committee)
        return self._judge_proposal(message, peer)

    def _judge_slot(self, slot: int) -> Judgement | None:
        clock = self._clock
        now = clock.now()
        current = int(now - clock.genesis_time) // clock.slot_duration
        if slot in (current, current + 1):
            return None
        if slot == current - 1 and now - (clock.genesis_time + current * clock.slot_duration) <= _LATE_S:
            return Judgement(_IGNORE, None, "it is a little late")
        if slot < current and self._has_paused():
            return Judgement(_IGNORE, None, "it came while this process did not run")
        return _reject(Penalty.HIGH_TOLERANCE, f"it is for slot {slot}, and slot {current} is now")

    def _judge_time(self, message: _Message) -> Judgement | None:
        """The same where checkpoints are proposed ahead of their slots."""
        clock = self._clock
        now, slot_s, l1_slot_s = clock.now(), clock.slot_duration, clock.l1_slot_duration
        own = clock.genesis_time + message.slot * slot_s
        begin = own - slot_s - l1_slot_s
        end = own + slot_s - 2 * l1_slot_s if isinstance(message, CheckpointAttestation) else own - l1_slot_s
        if begin - _LATE_S <= now <= end + _LATE_S:
            return None
        reason = f"it is for slot {message.slot}, {now - own:+.1f} s from its begin"
        is_near = begin - slot_s <= now <= end + slot_s
        if is_near or (now > end and self._has_paused()):
            return Judgement(_IGNORE, None, reason)
        return _reject(Penalty.HIGH_TOLERANCE, reason)

    def _judge_proposal(self, message: BlockProposal | CheckpointProposal, peer: str) -> Judgement:
        signer = message.signer()
        if signer is None:
            return _reject(Penalty.MID_TOLERANCE, "its signature is wrong")
        proposer = self._proposer_of(message.slot)
        if proposer is None:
            return Judgement(_IGNORE, None, "the proposer is not known here")
        if signer != proposer:
            return _reject(Penalty.MID_TOLERANCE, "it is not of the slot's proposer")
        if isinstance(message, BlockProposal):
            return self._judge_block(message, signer, peer)
        return self._judge_checkpoint(message, signer, peer)

    def _judge_block(self, block: BlockProposal, signer: bytes, peer: str) -> Judgement:
        wrong = _judge_own_txs(block, self._release)
        if wrong is not None:
            return wrong
        place = self._place(block, signer)
        if not place.is_new:
            return Judgement(_IGNORE, None, "it is known under another signature")
        if place.number > self._rules.blocks:
            return _reject(Penalty.HIGH_TOLERANCE, f"there are {self._rules.blocks} others at its position")
        if place.number > 1:
            return _ACCEPT  # so that others see it too; it is not executed
        return self._take_block(block, peer) or _ACCEPT

    def _judge_checkpoint(self, message: CheckpointProposal, signer: bytes, peer: str) -> Judgement:
        """Its last block comes first, and is executed whatever becomes of the checkpoint."""
        block, missing = message.last_block, None
        if block is not None:
            wrong = _judge_own_txs(block, self._release)
            if wrong is not None:
                return wrong
            place = self._place(block, signer)
            if place.is_new and place.number > self._rules.blocks:
                return _reject(
                    Penalty.HIGH_TOLERANCE, f"there are {self._rules.blocks} others at the position of its last block"
                )
            if place.number > 1:
                return Judgement(Verdict.REJECT, None, "its last block is one of several at its position")
            if place.is_new:
                missing = self._take_block(block, peer)
        most = self._rules.checkpoints
        place = self._count(("checkpoint", message.slot), message.identity, most)
        if not place.is_new:
            return Judgement(_IGNORE, None, "it is known under another signature")
        if place.number > most:
            return _reject(Penalty.HIGH_TOLERANCE, f"there are {most} others of its slot")
        self._keep(message, signer)
        if place.number > 1:
            if place.number == 2:
                self._accuse(OffenseType.DUPLICATE_PROPOSAL, signer, message.slot)
            return _ACCEPT  # so that others see it too
        if missing is None:
            self._on_checkpoint(message)
        return missing or _ACCEPT

    def _place(self, block: BlockProposal, signer: bytes) -> _Place:
        place = self._count(("block", block.slot, block.index), block.identity, self._rules.blocks)
        if place.is_new and place.number == 2:
            self._accuse(OffenseType.DUPLICATE_PROPOSAL, signer, block.slot)
        if place.is_new and place.number <= self._rules.blocks:
            self._keep(block, signer)
        return place

    def _take_block(self, block: BlockProposal, peer: str) -> Judgement | None:
        """The first at its position; why it is not executed, None if it is."""
        if not self._has_txs(block, peer):
            return Judgement(_IGNORE, None, "transactions of it are missing")
        self._on_block(block)
        return None

    def _count(self, position: tuple[Hashable, ...], key: bytes, maximum: int) -> _Place:
        """Keep what is there, up to a maximum and the first beyond it."""
        with self._lock:
            found = self._positions.setdefault(position, set())
            is_new = key not in found
            if is_new and len(found) < maximum:
                found.add(key)
                count = len(found)
            else:
                count = len(found) + is_new
            while len(self._positions) > _POSITIONS_MAX:
                self._positions.popitem(last=False)
            return _Place(is_new, count)

    def _judge_attestation(self, message: CheckpointAttestation, committee: Sequence[bytes]) -> Judgement:
        attester = message.signer()
        if attester is None:
            return _reject(Penalty.LOW_TOLERANCE, "its signature is wrong")
        if attester not in committee:
            return _reject(Penalty.HIGH_TOLERANCE, "its attester is not in the committee")
        proposer, named = self._proposer_of(message.slot), message.proposer()
        if named is None:
            return _reject(Penalty.LOW_TOLERANCE, "its proposer's signature is wrong")
        if proposer is not None and named != proposer:
            return _reject(Penalty.HIGH_TOLERANCE, "it names another proposer than the slot's")
        most = self._rules.attestations
        place = self._count(("attestation", message.slot, attester), message.identity, most)
        if not place.is_new or place.number > most:
            return Judgement(_IGNORE, None, "its attester has attested this, or enough others")
        if place.number == 2:
            self._accuse(OffenseType.DUPLICATE_ATTESTATION, attester, message.slot)
        self._keep(message, attester)
        self._on_attestation(message)
        return _ACCEPT
