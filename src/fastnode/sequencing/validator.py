"""A validator that another one's checkpoint waits for: looks at it as closely as if it were its own, and attests to it.

    checkpoint proposal (judged: by the slot's proposer, the first of its slot)
        ── its blocks executed here and stored? (waited for until its slot is over)
        ── every field of its header worked out again ── limits of the operator?
        ── slot written down ── signed with every key of the committee that is here ── told to peers

A proposal that is not attested to costs its proposer the slot, and this node nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fastnode.building.acceptance import AcceptanceLimits
from fastnode.building.checkpoint import CheckpointDraft
from fastnode.errors import DecodeError, DutyError, HaDatabaseError, SigningError, SlotLost, UpstreamError
from fastnode.log import log_facts
from fastnode.loop import Loop
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import L1PublishedData
from fastnode.publishing import digests
from fastnode.records import dataclass
from fastnode.sequencing.attestations import own_attestations
from fastnode.sequencing.l1_time import L1Time
from fastnode.sequencing.record import MISSED_MAX
from fastnode.sequencing.turns import is_hatch_open

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.p2p.messages.proposals import CheckpointProposal
    from fastnode.sequencing.gossip import ValidatorGossip
    from fastnode.sequencing.l1_publication import KeyDoor
    from fastnode.sequencing.slot_guard import SlotGuard
    from fastnode.sources.l1.rollup import RollupFacts
    from fastnode.sources.l1.service import L1Reader
    from fastnode.view import View

__all__ = ["Validator", "ValidatorParts"]

logger = logging.getLogger("fastnode.validator")

_NOWHERE: Final = L1PublishedData(0, 0, bytes(32))
#: Basis points; L1 takes no more.
_PRICE_MODIFIER_MAX: Final = 100
#: Interval at which a wait checks whether the slot is over, in seconds.
_LOOK_S: Final = 0.5


class _NotYetError(Exception):
    """A checkpoint cannot be judged now: something that it is compared with is not here."""


class _OnL1Error(Exception):
    """A checkpoint needs no attestation any more: L1 has taken it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorParts:
    """``view``: the newest, None once the node stops; ``was_executed`` says so of a block by the archive root after it;
    ``limits``: the operator's, of now."""

    reader: L1Reader
    view: Callable[[], View | None]
    was_executed: Callable[[bytes], bool]
    door: KeyDoor
    gossip: ValidatorGossip
    guard: SlotGuard
    limits: Callable[[], AcceptanceLimits]
    is_paused: Callable[[], bool] = lambda: False
    #: False: a fisherman, which judges proposals and signs nothing.
    signs: Callable[[], bool] = lambda: True
    #: True: a proposal is attested to without comparing it with its blocks (skipCheckpointProposalValidation).
    trusts_proposals: Callable[[], bool] = lambda: False


class Validator:
    """``offer`` from any thread; ``start`` it once, ``stop`` it."""

    def __init__(self, parts: ValidatorParts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._offered: CheckpointProposal | None = None
        self._loop = Loop(
            "fastnode-validator", self._turn, what="proposals are not looked at", clock=parts.reader.clock
        )
        #: Proposals by what became of them.
        self.counts: Counter[str] = Counter()
        #: Reason that the newest checkpoint not attested to was refused.
        self.refusal: str | None = None
        self._refused_in_a_row = 0

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.close()

    def offer(self, proposal: CheckpointProposal) -> None:
        """The first of its slot, by the slot's proposer."""
        with self._lock:
            self._offered = proposal
        self._loop.wake()

    def on_committed(self, _committed: object) -> None:
        """Blocks have been stored."""
        self._loop.wake()

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        counts = self.counts
        return {
            "attested": counts["attested"],
            "foundRight": counts["found right"],
            "refused": counts["refused"],
            "refusal": self.refusal,
        }

    def troubles(self) -> dict[str, str | None]:
        """Trouble that an operator should know, None for nothing."""
        count = self._refused_in_a_row
        text = f"the last {count} checkpoints of other validators were not attested to; {self.refusal}"
        return {"validator": self._loop.trouble or (text if count >= MISSED_MAX else None)}

    # ---- the thread ----------------------------------------------------------------------------

    def _turn(self) -> float | None:
        with self._lock:
            proposal, self._offered = self._offered, None
        if proposal is None:
            return None
        self._judge(proposal)
        return 0.0

    def _judge(self, proposal: CheckpointProposal) -> None:
        try:
            count = self._attest(proposal)
        except _OnL1Error:
            # Others were enough; as after a restart, when what was gossiped meanwhile comes late.
            self.counts["on L1"] += 1
            shown = log_facts(slot=proposal.slot, archive=proposal.archive_root)
            logger.info("a checkpoint is on L1 before it was attested to", extra=shown)
        except (SlotLost, DutyError, HaDatabaseError, SigningError, UpstreamError, DecodeError) as error:
            self._refuse(proposal, str(error))
        except Exception as error:
            self._refuse(proposal, type(error).__name__)
            raise
        else:
            if count:
                self.counts["attested"] += 1
                self._refused_in_a_row = 0
                shown = log_facts(slot=proposal.slot, archive=proposal.archive_root, members=count)
                logger.info("attested to a checkpoint", extra=shown)

    def _refuse(self, proposal: CheckpointProposal, reason: str) -> None:
        self.counts["refused"] += 1
        self.refusal = f"slot {proposal.slot}: {reason}"
        self._refused_in_a_row += 1
        shown = log_facts(slot=proposal.slot, archive=proposal.archive_root, reason=reason)
        logger.warning("a checkpoint is not attested to", extra=shown)

    def _attest(self, proposal: CheckpointProposal) -> int:
        """With how many keys.  SlotLost, with the reason, _OnL1Error, and what signing raises."""
        parts = self._parts
        if parts.is_paused():
            raise SlotLost("the node is paused")
        facts, _ = parts.reader.seen()
        clock = L1Time.of(parts.reader)
        if not parts.signs():
            self._await_right(facts, proposal, clock)
            self.counts["found right"] += 1
            self._refused_in_a_row = 0
            logger.info("a checkpoint is right", extra=log_facts(slot=proposal.slot, archive=proposal.archive_root))
            return 0
        committee = parts.reader.committees.committee_of(proposal.slot // facts.epoch_duration) or ()
        keys = set(parts.door.attesters())
        members = [member for member in committee if member in keys]
        if not members:
            return 0
        if parts.reader.run(lambda endpoint: is_hatch_open(endpoint, facts, proposal.slot)):
            raise SlotLost("the escape hatch is open")
        if parts.trusts_proposals():
            _require_price(proposal)
            shown = log_facts(slot=proposal.slot, archive=proposal.archive_root)
            logger.warning("checkpoint not validated: skipCheckpointProposalValidation is set", extra=shown)
        else:
            self._await_right(facts, proposal, clock)
        parts.guard.enter(proposal.slot, clock.since(facts.start_of_slot(proposal.slot) - clock.l1_slot_s))
        message = digests.attestation(proposal.header, proposal.archive_root, proposal.fee_asset_price_modifier)
        signatures = own_attestations(proposal.slot, members, message, parts.door)
        for signature in signatures.values():
            parts.gossip.tell_attestation(proposal, signature)
        if not signatures:
            raise SlotLost("other nodes have signed with the keys that are here")
        return len(signatures)

    def _await_right(self, facts: RollupFacts, proposal: CheckpointProposal, clock: L1Time) -> None:
        """Look until the checkpoint is found right, as what it is compared with may still be on its way.

        SlotLost when it is wrong, or its slot is over before that can be said; _OnL1Error.
        """
        while not self._loop.is_stopping:
            try:
                blocks, chain = self._blocks(proposal)
                self._check(facts, proposal, blocks, chain)
                return
            except _NotYetError as missing:
                if facts.slot_at(clock.next_block()) > proposal.slot:
                    raise SlotLost(f"{missing} before its slot was over") from None
            self._loop.rest(_LOOK_S, until_woken=True)
        raise SlotLost("the node is stopping")

    def _blocks(self, proposal: CheckpointProposal) -> tuple[list[L2Block], ChainView]:
        """Blocks of the checkpoint, stored as proposed; the chain that has them.  _NotYetError."""
        view = self._parts.view()
        number = None if view is None else view.chain.block_number_by_archive(proposal.archive_root)
        if view is None or number is None:
            raise _NotYetError("its blocks were not here, executed,")
        chain = view.chain
        found = [chain.load_block(n) for n in range(chain.tips.checkpointed.block.number + 1, number + 1)]
        return [block for block in found if block is not None], chain

    def _check(self, facts: RollupFacts, proposal: CheckpointProposal, blocks: list[L2Block], chain: ChainView) -> None:
        """SlotLost unless the checkpoint is what its blocks give, and within the limits; _NotYetError, _OnL1Error."""
        if not blocks:
            raise _OnL1Error
        number = chain.tips.checkpointed.checkpoint.number + 1
        for block in blocks:
            if block.checkpoint_number != number:
                raise _NotYetError(
                    f"checkpoint {number}, which stands before block {block.number}, was not read from L1"
                )
            if not self._parts.was_executed(block.archive.root):
                raise _NotYetError(f"block {block.number} came from elsewhere and was not executed here")
        refusal = self._parts.limits().refusal(blocks)
        if refusal is not None:
            raise SlotLost(refusal)
        _require_price(proposal)
        messages = self._parts.reader.messages_of(number)
        if messages is None:
            raise _NotYetError(f"L1 did not say which messages checkpoint {number} takes")
        epoch = proposal.slot // facts.epoch_duration
        earlier = [chain.checkpoint(each) for each in chain.checkpoint_numbers_of_epoch(epoch)]
        out_hashes = [item.out_hash for item in earlier if item is not None]
        header = (
            CheckpointDraft.of(blocks, messages, chain.chain.release).publish(out_hashes, _NOWHERE).checkpoint.header
        )
        given = proposal.header
        if header != given:
            names = [row.name for row in header.MEMBERS if getattr(header, row.name) != getattr(given, row.name)]
            raise SlotLost(f"its header's {', '.join(names)} is not what its blocks give")


def _require_price(proposal: CheckpointProposal) -> None:
    """SlotLost for a price modifier that L1 rejects."""
    if abs(proposal.fee_asset_price_modifier) > _PRICE_MODIFIER_MAX:
        raise SlotLost(f"a price modifier of {proposal.fee_asset_price_modifier} is beyond what L1 takes")
