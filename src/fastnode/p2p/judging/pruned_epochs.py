"""Epochs that were not proven in time: whether their committees are to blame, as release 4.x sees it.

checkpoints are given up ──► the blocks of the first one's epoch, and the view that still has them
    a transaction of them is nowhere, at no peer either      data withheld, by the whole committee
    each block is what its transactions do                   a valid epoch was pruned, by the whole committee
    else                                                     no accusation

``pruned`` comes from the thread that ingests; the work is done in a thread of its own, since peers are asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fastnode.errors import FastnodeError
from fastnode.log import log_facts
from fastnode.public_execution.block import BlockLimits, execute_block
from fastnode.records import dataclass
from fastnode.sentinel.offenses import OffenseType
from fastnode.view import View

if TYPE_CHECKING:
    from fastnode.protocol.block import L2Block
    from fastnode.protocol.tx import Tx

__all__ = ["PrunedEpochs", "PrunedParts"]

logger = logging.getLogger(__name__)

#: For the blocks of one epoch.
_EXECUTION_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedParts:
    """Parts that judging pruned epochs takes.

    ``has_peers``: whether there is anybody to ask; ``find`` looks for what is missing of a block's transactions here
    and at peers, and returns what stays missing; ``txs_of`` hashes: all, with their proofs checked, None if that is
    not so; ``accuse`` is told of a kind, a validator and the epoch.
    """

    is_ready: Callable[[], bool]
    has_peers: Callable[[], bool]
    find: Callable[[bytes, Sequence[bytes]], set[bytes]]
    txs_of: Callable[[Sequence[bytes]], Sequence[Tx] | None]
    committee_of: Callable[[int], Sequence[bytes] | None]
    accuse: Callable[[OffenseType, bytes, int], None]


class PrunedEpochs:
    """One after the other."""

    def __init__(self, parts: PrunedParts) -> None:
        self._parts = parts
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="p2p-pruned")

    def close(self) -> None:
        """Finish what is under way; the rest is dropped."""
        self._executor.shutdown(cancel_futures=True)

    def pruned(self, view: View, last_kept: int) -> None:
        """``view`` still has the blocks above ``last_kept``, which L1 gives up."""
        if self._parts.is_ready():  # else that was long ago, and other nodes have judged it
            with suppress(RuntimeError):  # this node is stopping
                self._executor.submit(self._guarded, view, last_kept)

    def _guarded(self, view: View, last_kept: int) -> None:
        try:
            self.judge(view, last_kept)
        except FastnodeError as error:
            logger.warning("a pruned epoch is not judged", extra=log_facts(reason=str(error)))
        except Exception:  # a bug must not be the end of it
            logger.exception("a pruned epoch is not judged")

    def judge(self, view: View, last_kept: int) -> OffenseType | None:
        """Offense that the epoch's committee is accused of; None if there is none."""
        chain, parts = view.chain, self._parts
        blocks = [
            block
            for number in range(last_kept + 1, chain.tips.checkpointed.block.number + 1)
            if (block := chain.load_block(number)) is not None
        ]
        if not blocks:
            return None
        duration = chain.chain.epoch_duration
        epochs = [block.header.global_variables.slot_number // duration for block in blocks]
        epoch = epochs[0]
        kind = self._kind(view, blocks[: epochs.count(epoch)])
        shown = log_facts(epoch=epoch, offense=None if kind is None else kind.name.lower())
        logger.warning("an epoch was pruned", extra=shown)
        if kind is not None:
            for validator in parts.committee_of(epoch) or ():
                parts.accuse(kind, validator, epoch)
        return kind

    def _kind(self, view: View, blocks: Sequence[L2Block]) -> OffenseType | None:
        deadline = time.monotonic() + _EXECUTION_S
        for block in blocks:
            hashes = [effect.tx_hash for effect in block.body.tx_effects]
            if self._parts.find(block.archive.root, hashes):
                return OffenseType.DATA_WITHHOLDING if self._parts.has_peers() else None
        is_valid = all(self._is_valid(view, block, deadline) for block in blocks)
        return OffenseType.VALID_EPOCH_PRUNED if is_valid else None

    def _is_valid(self, view: View, block: L2Block, deadline: float) -> bool:
        """True if the block's transactions have its effects; its roots were checked against these when it came."""
        txs = self._parts.txs_of([effect.tx_hash for effect in block.body.tx_effects])
        if txs is None:
            return False
        is_first = block.index_within_checkpoint == 0
        outcome = execute_block(
            view,
            block.header.global_variables,
            txs,
            l1_to_l2_messages=view.chain.l1_to_l2_messages(block.checkpoint_number) if is_first else (),
            limits=BlockLimits(deadline=deadline),
            after=block.number - 1,
        )
        effects = tuple(executed.effect for _, executed in outcome.included)
        return (
            not outcome.left_out
            and effects == block.body.tx_effects
            and outcome.total_mana_used == block.header.total_mana_used
        )
