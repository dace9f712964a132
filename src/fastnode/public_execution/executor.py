"""Executing transactions in the order of a block: what simulations answer and what blocks are built with.

    executor = BlockExecutor(ViewState(view), globals, programs=programs_of(release))
    executed = executor.execute(ExecutableTx.of(tx))       # TxExecutionError: cannot be included; nothing changed

A transaction sees what those before it changed, contracts that they published included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fastnode.errors import ExecutionCancelled, FastnodeError, TxExecutionError
from fastnode.protocol.effects import PublicDataWrite, TxEffect
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.releases import Release
from fastnode.protocol.tx_data import Gas
from fastnode.public_execution.contracts import ProgramCache, publish
from fastnode.public_execution.fees import effective_fees, pay_private_fee, price_of
from fastnode.public_execution.phases import PublicPhases, message_hashes
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions, GasReport
from fastnode.public_execution.state import BaseState, StateJournal
from fastnode.public_execution.tracing import Trace
from fastnode.public_execution.transaction import ExecutableTx, PrivateEffects

__all__ = ["BlockExecutor", "DoesNotFitError", "programs_of"]

_NO_GAS: Final = Gas(0, 0)
_DEFAULTS: Final = ExecutionOptions()
#: Programs stay decoded from block to block; by the name of their release.
_PROGRAMS: Final[dict[str, ProgramCache]] = {}


def programs_of(release: Release) -> ProgramCache:
    """Programs of a release that all executors of this process share."""
    known = _PROGRAMS.get(release.name)
    return _PROGRAMS.setdefault(release.name, ProgramCache(release=release)) if known is None else known


class DoesNotFitError(FastnodeError):
    """A transaction was executed and does not fit this block."""


class BlockExecutor:
    """Executes transactions one after the other, on one thread at a time."""

    def __init__(
        self,
        base: BaseState,
        block: GlobalVariables,
        *,
        programs: ProgramCache,
        l1_to_l2_messages: Sequence[bytes] = (),
        options: ExecutionOptions = _DEFAULTS,
    ) -> None:
        """``base`` is the state before the block.  ``l1_to_l2_messages``: what the block's checkpoint adds to their
        tree, if the block is its first.  ``programs``: their release is that of the block."""
        self._journal = StateJournal(base, l1_to_l2_messages)
        self._block = block
        self._options = options
        self._programs = programs
        self._release = self._programs.release
        self._phases: PublicPhases | None = None
        self._is_cancelled = False

    def storage(self, leaf_slot: bytes) -> bytes:
        """Value at a key of the public data tree, after the transactions so far."""
        return self._journal.storage(leaf_slot)

    def has_nullifier(self, nullifier: bytes) -> bool:
        """True if a siloed nullifier exists, after the transactions so far."""
        return self._journal.has_nullifier(nullifier)

    def cancel(self) -> None:
        """Make the transaction that runs, and each later one, end with ExecutionCancelled soon; from any thread."""
        self._is_cancelled = True
        phases = self._phases
        if phases is not None:
            phases.cancel()

    def execute(
        self,
        tx: ExecutableTx,
        *,
        skip_fee_enforcement: bool = False,
        deadline: float | None = None,
        fits: Callable[[ExecutedTx], bool] | None = None,
        trace: Trace | None = None,
    ) -> ExecutedTx:
        """Run a transaction and keep what it changed, unless ``fits`` says that it has no room: DoesNotFitError.

        TxExecutionError when no block can include it, ExecutionLimitExceeded when it needs more than the options or
        the ``deadline`` (a time of ``time.monotonic``) allow, or when it is cancelled; nothing has changed then.
        ``trace`` sees its public calls.
        """
        journal = self._journal
        start = journal.mark()
        try:
            if tx.has_public_calls:
                executed = self._execute_public(tx, deadline, trace, skip_fee_enforcement=skip_fee_enforcement)
            else:
                executed = self._execute_private(tx)
            if fits is not None and not fits(executed):
                raise DoesNotFitError
        except BaseException:
            journal.rollback(start)
            raise
        journal.close_tx()
        return executed

    def repeat(self, effect: TxEffect) -> None:
        """Change the state as a transaction of the block did, without executing it."""
        journal = self._journal
        for index, note_hash in enumerate(effect.note_hashes):
            journal.add_note_hash(index, note_hash)
        for nullifier in effect.nullifiers:
            journal.add_nullifier(nullifier)
        for write in effect.public_data_writes:
            journal.set_storage(write.leaf_slot, write.value)
        publish(journal, effect.contract_class_logs, effect.private_logs, self._release)
        journal.close_tx()

    def _execute_public(
        self, tx: ExecutableTx, deadline: float | None, trace: Trace | None, *, skip_fee_enforcement: bool
    ) -> ExecutedTx:
        self._phases = PublicPhases(self._journal, self._block, tx, self._programs, self._options, deadline, trace)
        try:
            # Asked after the assignment: a cancellation meanwhile finds the one or the other.
            if self._is_cancelled:
                raise ExecutionCancelled
            return self._phases.run(skip_fee_enforcement=skip_fee_enforcement)
        finally:
            self._phases = None

    def _execute_private(self, tx: ExecutableTx) -> ExecutedTx:
        fees = effective_fees(self._block.gas_fees, tx.max_fees_per_gas, tx.max_priority_fees_per_gas)
        fee = price_of(tx.gas_used, fees)
        write = pay_private_fee(self._journal, tx.fee_payer, fee, self._release.addresses.fee_juice)
        everything = _joined(tx.setup, tx.app)
        self._insert_private(tx, everything)
        effect = TxEffect(
            revert_code=0,
            tx_hash=tx.tx_hash,
            transaction_fee=fee,
            note_hashes=everything.note_hashes,
            nullifiers=everything.nullifiers,
            l2_to_l1_msgs=message_hashes(everything.messages, self._block),
            public_data_writes=(PublicDataWrite(write.leaf_slot, write.balance),),
            private_logs=everything.private_logs,
            public_logs=(),
            contract_class_logs=everything.class_logs,
        )
        gas = GasReport(total=tx.gas_used, billed=tx.gas_used, teardown=_NO_GAS, public=_NO_GAS)
        return ExecutedTx(effect, gas)

    def _insert_private(self, tx: ExecutableTx, effects: PrivateEffects) -> None:
        journal = self._journal
        for index, note_hash in enumerate(effects.note_hashes):
            journal.add_note_hash(index, note_hash)
        for nullifier in effects.nullifiers:
            if journal.has_nullifier(nullifier):
                raise TxExecutionError(f"Transaction {hex_text(tx.tx_hash)} failed with duplicate nullifiers")
            journal.add_nullifier(nullifier)
        publish(journal, effects.class_logs, effects.private_logs, self._release)


def _joined(first: PrivateEffects, second: PrivateEffects) -> PrivateEffects:
    return PrivateEffects(
        first.note_hashes + second.note_hashes,
        first.nullifiers + second.nullifiers,
        first.messages + second.messages,
        first.private_logs + second.private_logs,
        first.class_logs + second.class_logs,
    )
