"""A proposed block executed again: whether its transactions do what its proposer says they do.

    block = reexecute(view, state, proposed, messages, genesis_time, validator, deadline=...)
    ingestor.add_block(block, messages)      # checks what belongs to the checkpoint: globals of its blocks, blob fields

What is wrong with a proposal is of two kinds.  A block of other transactions, roots or header than its transactions
give, or with one that may not be in it, is an offense of its proposer (:class:`ProposalFault`).  A block that does not
follow the chain as it is stored here is merely not taken (BlockRejected).  Release 4.x.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastnode.archiver.verification import require
from fastnode.building.checks import block_check
from fastnode.errors import BlockRejected, ExecutionTimeExceeded, ProposalFault
from fastnode.mempool.ledger import ViewLedger
from fastnode.mempool.validation import FEE_TOO_LOW
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, StateReference
from fastnode.protocol.messages import in_hash
from fastnode.protocol.tx import Tx
from fastnode.public_execution.block import BlockLimits, BlockOutcome, execute_block
from fastnode.records import dataclass
from fastnode.view import View
from fastnode.world_state.apply import BlockDraft

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.mempool.validation import TxValidator
    from fastnode.world_state.state import WorldState

__all__ = ["ProposedBlock", "checkpoint_of", "follows", "reexecute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedBlock:
    """Claims of a proposer about a block.  ``archive_root``: after it; ``index``: in its checkpoint."""

    header: BlockHeader
    index: int
    in_hash: bytes
    archive_root: bytes


def follows(chain: ChainView, proposed: ProposedBlock) -> bool:
    """True if it is built on the newest stored block."""
    tip = chain.block_info(chain.tip_number)
    root = chain.chain.genesis_archive_root if tip is None else tip.archive_root
    return proposed.header.last_archive.root == root


def checkpoint_of(chain: ChainView, proposed: ProposedBlock) -> int:
    """Number of the checkpoint that a block after the newest stored one belongs to."""
    tip = chain.block_info(chain.tip_number)
    number = 0 if tip is None else tip.checkpoint_number
    return number + 1 if proposed.index == 0 else number


def reexecute(
    view: View,
    state: WorldState,
    proposed: ProposedBlock,
    txs: Sequence[Tx],
    messages: Sequence[bytes],
    validator: TxValidator,
    *,
    deadline: float,
) -> L2Block:
    """The block, made from its transactions; equal to what was proposed, header and archive.

    ``view`` and ``state`` are at the newest stored block; ``messages`` are those of the block's checkpoint, ``txs``
    all of the proposal, in its order.  ``deadline`` is a time of ``time.monotonic``.

    ProposalFault, BlockRejected; ExecutionLimitExceeded when it is not known in time, or not with so much memory.
    """
    _require_place(view.chain, proposed, messages)
    added = messages if proposed.index == 0 else ()
    where = f"block {proposed.header.global_variables.block_number}"
    outcome = execute_block(
        view,
        proposed.header.global_variables,
        txs,
        l1_to_l2_messages=added,
        limits=BlockLimits(deadline=deadline),
        check=block_check(validator, ViewLedger(view), proposed.header.global_variables),
    )
    if outcome.left_out:
        raise _failure(where, outcome, deadline)
    block = _build(view.chain, state, proposed, outcome, added)
    if block.header != proposed.header:
        raise ProposalFault(f"{where}: {_difference(block.header, proposed.header)} is not what its transactions give")
    if block.archive.root != proposed.archive_root:
        raise ProposalFault(
            f"{where}: archive root is {hex_text(proposed.archive_root)}, its transactions give "
            f"{hex_text(block.archive.root)}"
        )
    return block


def _require_place(chain: ChainView, proposed: ProposedBlock, messages: Sequence[bytes]) -> None:
    variables = proposed.header.global_variables
    where = f"block {variables.block_number}"
    if not follows(chain, proposed):
        raise BlockRejected(f"{where}: it is not built on block {chain.tip_number}, the newest")
    require(where, "header.globalVariables.blockNumber", variables.block_number, chain.tip_number + 1)
    info = chain.chain
    begin = info.l1_genesis_time + variables.slot_number * info.slot_duration
    require(where, "header.globalVariables.timestamp", variables.timestamp, begin)
    require(where, "inHash", proposed.in_hash, in_hash(messages))
    require(where, "header.globalVariables.chainId", variables.chain_id, info.l1_chain_id)
    require(where, "header.globalVariables.version", variables.version, info.rollup_version)
    tip = chain.block_info(chain.tip_number)
    if proposed.index == 0:
        if tip is not None and tip.number and variables.slot_number <= tip.slot_number:
            raise BlockRejected(f"{where}: its slot {variables.slot_number} is not after that of the block before it")
        return
    if tip is None or tip.index_within_checkpoint + 1 != proposed.index:
        raise BlockRejected(f"{where}: {proposed.index} is not its place in the checkpoint")
    require(where, "header.globalVariables.slotNumber", variables.slot_number, tip.slot_number)
    before = chain.load_block(tip.number)
    assert before is not None
    first = before.header.global_variables
    for name in ("coinbase", "fee_recipient", "gas_fees"):
        require(where, f"header.globalVariables.{name}", getattr(variables, name), getattr(first, name))


def _failure(where: str, outcome: BlockOutcome, deadline: float) -> Exception:
    left = outcome.left_out[0]
    if not left.is_final and left.reason != FEE_TOO_LOW:
        return ExecutionTimeExceeded() if time.monotonic() >= deadline else BlockRejected(f"{where}: {left.reason}")
    return ProposalFault(f"{where}: transaction {hex_text(left.tx.hash)} cannot be in it: {left.reason}")


def _build(
    chain: ChainView, state: WorldState, proposed: ProposedBlock, outcome: BlockOutcome, messages: Sequence[bytes]
) -> L2Block:
    body = Body(tuple(executed.effect for _, executed in outcome.included))
    header = proposed.header

    def seal(last_archive: AppendOnlyTreeSnapshot, after: StateReference) -> BlockHeader:
        # The blob fields of all blocks of the checkpoint are absorbed by ingestion, which compares this hash.
        return BlockHeader(
            last_archive, after, header.sponge_blob_hash, header.global_variables, body.total_fees,
            outcome.total_mana_used,
        )  # fmt: skip

    draft = BlockDraft(body, checkpoint_of(chain, proposed), proposed.index)
    block, _ = state.build(draft, messages, seal)
    return block


def _difference(computed: BlockHeader, given: BlockHeader) -> str:
    names = ("last_archive", "state", "total_fees", "total_mana_used")
    return "header." + next(name for name in names if getattr(computed, name) != getattr(given, name))
