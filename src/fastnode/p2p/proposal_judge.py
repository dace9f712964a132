"""What becomes of proposals and attestations: their slot, who has signed them, and whether that one may.

    slot other than the current or the next              reject, H; the previous one, at most half a second late: ignore
    signature                                            reject, M; of an attestation L
    proposer other than the slot's                       reject, M; named by an attestation H
    attester that is not in the committee                reject, H
    second proposal at one position                      accept: it is evidence; a third one: reject, H
    committee not known here                             ignore
    transactions that nobody gives                       ignore: who forwards a proposal must hold them

Release 4.1.2; facts of the network, section 3.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from fastnode.mempool.clock import SlotClock
from fastnode.p2p.gossip_cache import Verdict
from fastnode.p2p.host import Judgement
from fastnode.p2p.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
from fastnode.p2p.standing import Penalty

__all__ = ["ProposalJudge"]

_LATE_S: Final = 0.5
#: Positions whose proposals are counted.
_POSITIONS_MAX: Final = 1024
#: Different proposals that are taken for one position.
_PROPOSALS_MAX: Final = 2

_IGNORE: Final = Verdict.IGNORE
_ACCEPT: Final = Judgement(Verdict.ACCEPT)


def _reject(penalty: Penalty, reason: str) -> Judgement:
    return Judgement(Verdict.REJECT, penalty, reason)


class ProposalJudge:
    """``committee_of`` an epoch: addresses, None if not known.  ``proposer_of`` a slot.  ``has_txs``: whether the
    transactions of a proposal are here, or come from the peer that has sent it; may take seconds."""

    def __init__(
        self,
        clock: SlotClock,
        epoch_duration: int,
        committee_of: Callable[[int], Sequence[bytes] | None],
        proposer_of: Callable[[int], bytes | None],
        has_txs: Callable[[BlockProposal, str], bool],
    ) -> None:
        self._clock = clock
        self._epoch_duration = epoch_duration
        self._committee_of, self._proposer_of, self._has_txs = committee_of, proposer_of, has_txs
        self._positions: OrderedDict[tuple[str, int, int], set[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, message: BlockProposal | CheckpointProposal | CheckpointAttestation, peer: str) -> Judgement:
        wrong = self._judge_slot(message.slot)
        if wrong is not None:
            return wrong
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
        return _reject(Penalty.HIGH_TOLERANCE, f"it is for slot {slot}, and slot {current} is now")

    def _judge_proposal(self, message: BlockProposal | CheckpointProposal, peer: str) -> Judgement:
        signer = message.signer()
        if signer is None:
            return _reject(Penalty.MID_TOLERANCE, "its signature is wrong")
        proposer = self._proposer_of(message.slot)
        if proposer is None:
            return Judgement(_IGNORE, None, "the proposer is not known here")
        if signer != proposer:
            return _reject(Penalty.MID_TOLERANCE, "it is not of the slot's proposer")
        if self._count(message) > _PROPOSALS_MAX:
            return _reject(Penalty.HIGH_TOLERANCE, "there are two others at its position")
        block = message if isinstance(message, BlockProposal) else message.last_block
        if block is not None and not self._has_txs(block, peer):
            return Judgement(_IGNORE, None, "transactions of it are missing")
        return _ACCEPT

    def _count(self, message: BlockProposal | CheckpointProposal) -> int:
        """How many different proposals there are at its position, with this one."""
        if isinstance(message, BlockProposal):
            position = ("block", message.slot, message.index)
        else:
            position = ("checkpoint", message.slot, 0)
        with self._lock:
            found = self._positions.setdefault(position, set())
            if len(found) <= _PROPOSALS_MAX:
                found.add(message.signed)
            while len(self._positions) > _POSITIONS_MAX:
                self._positions.popitem(last=False)
            return len(found)

    def _judge_attestation(self, message: CheckpointAttestation, committee: Sequence[bytes]) -> Judgement:
        attester = message.signer()
        if attester is None:
            return _reject(Penalty.LOW_TOLERANCE, "its signature is wrong")
        if attester not in committee:
            return _reject(Penalty.HIGH_TOLERANCE, "its attester is not in the committee")
        proposer = self._proposer_of(message.slot)
        if proposer is not None and message.proposer() != proposer:
            return _reject(Penalty.HIGH_TOLERANCE, "it names another proposer than the slot's")
        return _ACCEPT
