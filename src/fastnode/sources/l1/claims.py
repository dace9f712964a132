"""Check that a checkpoint that another node reports is the one on L1."""

from __future__ import annotations

from fastnode.protocol.fields import hex_text
from fastnode.records import dataclass
from fastnode.sources.l1.endpoints import L1Endpoint
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, proposal_log
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.state import archives_of

__all__ = ["CheckpointClaim", "contradiction"]


@dataclass(frozen=True, slots=True)
class CheckpointClaim:
    """``archive_root``: after the checkpoint; the L1 block is the one that brought it."""

    number: int
    archive_root: bytes
    l1_block_number: int
    l1_block_hash: bytes


def contradiction(endpoint: L1Endpoint, facts: RollupFacts, claim: CheckpointClaim) -> str | None:
    """Difference of the claim from L1; None if there is none.  UpstreamError, DecodeError."""
    root = archives_of(endpoint, facts, [claim.number])[0]
    if root != claim.archive_root:
        return (
            f"its newest checkpoint {claim.number} has the archive root {hex_text(claim.archive_root)}, "
            f"L1 has {hex_text(root)}"
        )
    block = claim.l1_block_number
    logs = LogRanges(facts.rollup, CHECKPOINT_PROPOSED).read(endpoint, block, block)
    claimed = (claim.number, root, claim.l1_block_hash)
    events = [proposal_log(log) for _, found in logs for log in found]
    if any(event is not None and (event.number, event.archive_root, event.block_hash) == claimed for event in events):
        return None
    return (
        f"its newest checkpoint {claim.number} was not proposed in L1 block {block} ({hex_text(claim.l1_block_hash)})"
    )
