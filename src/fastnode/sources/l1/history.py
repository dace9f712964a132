"""Check that a node of L1 still has what a chain is derived from.

Full nodes drop the state of old blocks, some their logs, too; and some then give no logs instead of an error, so that a
chain would wait forever.  What is needed: logs from the newest stored checkpoint on, or from the deployment of the
rollup; state of L1's final block, some 100 blocks back.
"""

from __future__ import annotations

from fastnode.archiver.queries import ChainView
from fastnode.errors import UpstreamFault, UpstreamRejection
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.endpoints import L1Endpoint, contract_call
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.state import CheckpointPlace

__all__ = ["HistoryNeed", "missing_logs", "missing_state"]


@dataclass(frozen=True, slots=True)
class HistoryNeed:
    """Logs from L1 block ``first_block`` on, in which ``checkpoint`` was proposed; 0: there was none yet.

    ``block_hash``: of that block, when the checkpoint was stored.
    """

    first_block: int
    checkpoint: int = 0
    block_hash: bytes = b""

    @classmethod
    def of(cls, view: ChainView, facts: RollupFacts) -> HistoryNeed:
        number = view.tips.checkpointed.checkpoint.number
        place = CheckpointPlace.of(view, number)
        if place is None:
            return cls(facts.deployment_block)
        return cls(place.block_number, number, place.block_hash)


def missing_logs(endpoint: L1Endpoint, facts: RollupFacts, need: HistoryNeed) -> str | None:
    """Reason why the chain cannot be derived with this node; None if it can.  UpstreamUnavailable, DecodeError."""
    block = need.first_block
    reader = LogRanges(facts.rollup, CHECKPOINT_PROPOSED)
    try:
        logs = [log for _, found in reader.read(endpoint, block, block) for log in found]
    except (UpstreamRejection, UpstreamFault) as error:
        return f"it does not give the logs of L1 block {block}, from which on they are needed: {error}"
    if need.checkpoint == 0 or logs:
        return None
    there = endpoint.block(block)
    if there is None or there.hash != need.block_hash:  # it was replaced, while nobody looked
        return None
    return f"it has dropped the logs of L1 block {block}, in which checkpoint {need.checkpoint} was proposed"


def missing_state(endpoint: L1Endpoint, facts: RollupFacts) -> str | None:
    """Reason why the node cannot tell what is final; None if it can.  UpstreamUnavailable."""
    answer = endpoint.answers([contract_call(facts.rollup, contracts.PROVEN_CHECKPOINT, block="finalized")])[0]
    if not isinstance(answer, UpstreamRejection):
        return None
    return f"it does not give the state of L1's final block, and the finalized tip stands still: {answer}"
