"""Blocks executed again as they come, from the transactions that the pool still has.

A block's state before it is at hand for a moment only: the view that was published before the block.  So each new
block is remembered with that view, and executed in the prover's thread.  Blocks of transactions that are not known
here are verified by their roots alone, as every block is.
"""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.protocol.tx import Tx
from fastnode.public_execution.block import execute_block
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.protocol.block import L2Block
    from fastnode.view import Committed, View

__all__ = ["Reexecution", "Verdict"]

#: Blocks that wait; each keeps a snapshot of the databases.
WAITING_MAX: Final = 64
#: Blocks whose verdict is remembered.
REMEMBERED_MAX: Final = 4_096


class Verdict(enum.Enum):
    #: All of its transactions do what its effects say; a block without transactions too.
    EXECUTED = "executed"
    #: Not all of its transactions are known here, or its state is gone.
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class _Waiting:
    before: View
    block: L2Block
    messages: Sequence[bytes]


class Reexecution:
    """``on_committed`` in the thread that ingests, the rest in the prover's.  ``tx_json``: what the pool has."""

    def __init__(self, view: View | None, tx_json: Callable[[bytes], bytes | None]) -> None:
        self._newest = view
        self._tx_json = tx_json
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque(maxlen=WAITING_MAX)
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()

    def on_committed(self, committed: Committed) -> None:
        """The chain has changed."""
        before, self._newest = self._newest, committed.view
        if len(committed.blocks) != 1 or committed.undone or before is None or before.state is None:
            return
        block = committed.blocks[0]
        if not block.body.tx_effects or before.chain.tip_number != block.number - 1:
            return
        first = block.index_within_checkpoint == 0
        messages = committed.view.chain.l1_to_l2_messages(block.checkpoint_number) if first else []
        with self._lock:
            self._waiting.append(_Waiting(before, block, messages))

    def work(self) -> None:
        """Execute what waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                item = self._waiting.popleft()
            self._note(item.block.hash(), self._judge(item))

    def verdict_of(self, block: L2Block) -> Verdict:
        if not block.body.tx_effects:
            return Verdict.EXECUTED
        with self._lock:
            return self._verdicts.get(block.hash(), Verdict.UNKNOWN)

    def _note(self, block_hash: bytes, verdict: Verdict) -> None:
        with self._lock:
            self._verdicts[block_hash] = verdict
            if len(self._verdicts) > REMEMBERED_MAX:
                self._verdicts.popitem(last=False)

    def _judge(self, item: _Waiting) -> Verdict:
        texts = [self._tx_json(effect.tx_hash) for effect in item.block.body.tx_effects]
        release = item.before.chain.chain.release
        txs = [Tx.from_json(orjson.loads(text), release) for text in texts if text is not None]
        if len(txs) != len(texts):
            return Verdict.UNKNOWN
        variables = item.block.header.global_variables
        outcome = execute_block(item.before, variables, txs, l1_to_l2_messages=item.messages)
        effects = tuple(executed.effect for _, executed in outcome.included)
        if effects != item.block.body.tx_effects or outcome.total_mana_used != item.block.header.total_mana_used:
            return Verdict.WRONG
        return Verdict.EXECUTED
