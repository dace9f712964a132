"""Executing the transactions of a block that is being built.

outcome = execute_block(view, globals, txs)            # effects, gas, and what was left out with the reason
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from fastnode.errors import DecodeError, ExecutionLimitExceeded, TxExecutionError
from fastnode.protocol.blobs import tx_blob_fields
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.executor import BlockExecutor, DoesNotFitError, programs_of
from fastnode.public_execution.fees import FeeTooLowError
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions
from fastnode.public_execution.state import ViewState
from fastnode.public_execution.transaction import ExecutableTx
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["BlockLimits", "BlockOutcome", "Check", "LeftOut", "execute_block"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLimits:
    """Limits for the transactions of a block together; None: any amount.

    The gas limits of a transaction must fit in what those before it have left of ``gas``, and its effect in what is
    left of ``blob_fields``.  ``deadline`` is a time of ``time.monotonic``: after it no transaction is begun, and none
    goes on.
    """

    txs: int | None = None
    gas: Gas | None = None
    blob_fields: int | None = None
    deadline: float | None = None


class LeftOut(NamedTuple):
    """A transaction that is not in the block.  ``is_final``: no later block on this state can include it either."""

    tx: Tx
    reason: str
    is_final: bool


#: Called for each transaction before it is executed, with the block so far; a reason leaves it out, None lets it in.
Check = Callable[[Tx, BlockExecutor], LeftOut | None]


@dataclass(slots=True)
class BlockOutcome:
    """The transactions of a block in order, with what they did, and those that were left out."""

    included: list[tuple[Tx, ExecutedTx]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    #: Fields that the effects take in the blobs.
    blob_fields: int = 0

    @property
    def total_fees(self) -> int:
        return sum(executed.effect.transaction_fee for _, executed in self.included)

    @property
    def total_mana_used(self) -> int:
        """``totalManaUsed`` of the block's header: the L2 gas that was paid for."""
        return sum(executed.gas.billed.l2_gas for _, executed in self.included)

    @property
    def total_da_gas(self) -> int:
        """DA gas that was paid for."""
        return sum(executed.gas.billed.da_gas for _, executed in self.included)


def execute_block(
    view: View,
    block: GlobalVariables,
    txs: Iterable[Tx],
    *,
    l1_to_l2_messages: Sequence[bytes] = (),
    limits: BlockLimits | None = None,
    options: ExecutionOptions | None = None,
    check: Check | None = None,
    after: int | None = None,
) -> BlockOutcome:
    """Execute ``txs`` in order on the state of ``view``, as a block with the globals ``block``.

    ``l1_to_l2_messages``: what the block's checkpoint adds to their tree, if the block is its first.  ``check`` may
    leave a transaction out before it is executed.  ``after``: execute on the state after this block, not the newest.
    """
    executor = BlockExecutor(
        ViewState(view, after),
        block,
        l1_to_l2_messages=l1_to_l2_messages,
        options=options or ExecutionOptions(),
        programs=programs_of(view.chain.chain.release),
    )
    building = _Building(executor, limits or BlockLimits(), check)
    for tx in txs:
        building.add(tx)
    return building.outcome


class _Building:
    """A block that grows."""

    def __init__(self, executor: BlockExecutor, limits: BlockLimits, check: Check | None) -> None:
        self.outcome = BlockOutcome()
        self._executor = executor
        self._limits = limits
        self._check = check

    def add(self, tx: Tx) -> None:
        """Include ``tx``, or note why not."""
        obstacle = self._obstacle(tx)
        if obstacle is not None:
            self._leave_out(tx, obstacle, is_final=False)
            return
        try:
            executable = ExecutableTx.of(tx)
            if self._has_no_room_for(executable):
                raise DoesNotFitError
            left_out = None if self._check is None else self._check(tx, self._executor)
            if left_out is not None:
                self.outcome.left_out.append(left_out)
                return
            executed = self._executor.execute(executable, deadline=self._limits.deadline, fits=self._fits)
        except FeeTooLowError as error:  # prices fall again
            self._leave_out(tx, str(error), is_final=False)
        except (TxExecutionError, DecodeError) as error:
            self._leave_out(tx, str(error), is_final=True)
        except ExecutionLimitExceeded as error:
            self._leave_out(tx, error.message, is_final=False)
        except DoesNotFitError:
            self._leave_out(tx, "The block has not enough blob fields left", is_final=False)
        else:
            self.outcome.included.append((tx, executed))
            self.outcome.blob_fields += _blob_fields(executed)

    def _leave_out(self, tx: Tx, reason: str, *, is_final: bool) -> None:
        self.outcome.left_out.append(LeftOut(tx, reason, is_final))

    def _obstacle(self, tx: Tx) -> str | None:
        """Reason why ``tx`` is left out without being executed; None if it is executed."""
        deadline, gas, txs = self._limits.deadline, self._limits.gas, self._limits.txs
        if txs is not None and len(self.outcome.included) >= txs:
            return "The block has as many transactions as it may have"
        if deadline is not None and time.monotonic() >= deadline:
            return "The block's time is over"
        if gas is not None:
            wanted, outcome = tx.data.gas_limits, self.outcome
            if (
                outcome.total_mana_used + wanted.l2_gas > gas.l2_gas
                or outcome.total_da_gas + wanted.da_gas > gas.da_gas
            ):
                return "The block has not enough gas left"
        return None

    def _has_no_room_for(self, tx: ExecutableTx) -> bool:
        """True if the private part alone brings too much for the blobs."""
        limit = self._limits.blob_fields
        return limit is not None and self.outcome.blob_fields + _private_blob_fields(tx) > limit

    def _fits(self, executed: ExecutedTx) -> bool:
        limit = self._limits.blob_fields
        return limit is None or self.outcome.blob_fields + _blob_fields(executed) <= limit


def _private_blob_fields(tx: ExecutableTx) -> int:
    """Least size of a transaction: its start, its hash and its fee, and what its private part brings."""
    fields = 3
    for part in (tx.setup, tx.app):
        fields += len(part.note_hashes) + len(part.nullifiers) + len(part.messages)
        fields += sum(1 + log.emitted_length for log in part.private_logs)
        fields += sum(1 + log.emitted_length for log in part.class_logs)
    return fields


def _blob_fields(executed: ExecutedTx) -> int:
    return len(tx_blob_fields(executed.effect)) // FIELD_BYTES
