"""A transaction with public calls, from its private effects to its effect.

    insert what cannot be reverted                a failure: no block can include the transaction
    setup calls                                   likewise
    checkpoint
    insert what can be reverted, app logic calls  the first failure undoes everything since the checkpoint
    price of what is used so far, teardown's limit included
    teardown call                                 a failure undoes everything since the checkpoint, app logic too
    fee

The revert code has a bit for the app logic and one for the teardown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from fastnode.errors import FastnodeError, TxExecutionError
from fastnode.kernels import avm
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import MODULUS, ZERO_FIELD, field_from_int, hex_text
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.messages import L2ToL1Message
from fastnode.protocol.tx_data import CallRequest, Gas
from fastnode.public_execution.call_tree import Phase
from fastnode.public_execution.contracts import Contracts, ProgramCache, publish
from fastnode.public_execution.fees import effective_fees, pay_fee, price_of
from fastnode.public_execution.host import TxHost
from fastnode.public_execution.results import ExecutedTx, ExecutionOptions, GasReport
from fastnode.public_execution.state import StateJournal
from fastnode.public_execution.tracing import Trace, TracingHost
from fastnode.public_execution.transaction import ExecutableTx, MessageToL1, PrivateEffects

__all__ = ["PublicPhases", "message_hashes"]

#: Beginning of every reason in release 4.x that its virtual machine gives; clients look for it.
FAILURE_PREFIX: Final = "C++ simulation failed: AVM simulation failed: "

#: The same before a reason why a contract cannot be published.
_PUBLISHING_PREFIX: Final = "Failed to add contracts: Error from TypeScript callback: "

APP_REVERTED: Final = 1
TEARDOWN_REVERTED: Final = 2

#: Counters of gas in results have 32 bits.
_GAS_COUNTER: Final = 1 << 32


class _InsertionError(FastnodeError):
    """Something of the private part cannot be inserted; the text is the reason."""


class _AppRevertedError(FastnodeError):
    """A call of the app logic failed."""


class PublicPhases:
    """One run of one transaction over ``journal``.  What a failed run leaves there is undone by the caller."""

    def __init__(
        self,
        journal: StateJournal,
        block: GlobalVariables,
        tx: ExecutableTx,
        programs: ProgramCache,
        options: ExecutionOptions,
        deadline: float | None,
        trace: Trace | None = None,
    ) -> None:
        self._journal = journal
        self._block = block
        self._tx = tx
        self._release = programs.release
        first_nullifier = tx.setup.nullifiers[0] if tx.setup.nullifiers else ZERO_FIELD
        contracts = Contracts(journal, block.timestamp, programs)
        reads_max = options.debug_log_memory_reads_max
        self._host = (
            TxHost(journal, contracts, first_nullifier, reads_max)
            if trace is None
            else TracingHost(journal, contracts, first_nullifier, reads_max, trace)
        )
        self._machine = avm.Machine(
            self._host,
            chain_id=field_from_int(block.chain_id),
            version=field_from_int(block.version),
            block_number=block.block_number,
            timestamp=block.timestamp,
            fee_per_l2_gas=block.gas_fees.fee_per_l2_gas,
            fee_per_da_gas=block.gas_fees.fee_per_da_gas,
            collect_debug_logs=options.collect_debug_logs,
            memory_limit=options.memory_bytes_max,
            shared_memory_limit=options.shared_memory_bytes_max,
            deadline=deadline,
            **({} if trace is None else trace.machine_options),
        )
        self._trace = trace
        if trace is not None:
            trace.attach(self._machine)
        #: Gas that is paid for so far.  The private part has counted teardown's limit already.
        self._used = tx.gas_used

    def cancel(self) -> None:
        """From any thread."""
        self._machine.cancel()

    def run(self, *, skip_fee_enforcement: bool) -> ExecutedTx:
        """TxExecutionError when no block can include the transaction."""
        tx, host = self._tx, self._host
        fees = effective_fees(self._block.gas_fees, tx.max_fees_per_gas, tx.max_priority_fees_per_gas)
        self._set_up()
        checkpoint = host.checkpoint()
        revert_code = 0
        try:
            self._run_app_logic()
        except (_InsertionError, _AppRevertedError):
            revert_code = APP_REVERTED
            host.rollback(checkpoint)
        fee = price_of(self._used, fees)
        teardown_used = Gas(0, 0)
        if tx.teardown_call is not None:
            success, teardown_used = self._tear_down(tx.teardown_call, fee)
            if not success:
                revert_code |= TEARDOWN_REVERTED
                host.rollback(checkpoint)
        with _machine_failures():
            self._pay(fee, is_enforced=not skip_fee_enforcement)
            host.effects.check_final_counts(self._release.machine.written_slots)
        if self._trace is not None:
            self._trace.finish()
        return self._result(revert_code, fee, teardown_used)

    # ---- phases --------------------------------------------------------------------------------

    def _set_up(self) -> None:
        try:
            self._insert(self._tx.setup, is_unique=True)
        except _InsertionError as error:
            raise TxExecutionError(FAILURE_PREFIX + str(error)) from None
        self._host.calls.phase = Phase.SETUP
        for call in self._tx.setup_calls:
            if not self._run_call(call).success:
                reason = f"[SETUP] UNRECOVERABLE ERROR! Enqueued call to {hex_text(call.contract_address)} failed"
                raise TxExecutionError(FAILURE_PREFIX + reason)

    def _run_app_logic(self) -> None:
        self._host.calls.phase = Phase.APP
        try:
            self._insert(self._tx.app, is_unique=False)
        except _InsertionError as error:
            self._host.calls.add_failed_insertion(str(error))
            raise
        for call in self._tx.app_calls:
            if not self._run_call(call).success:
                raise _AppRevertedError

    def _tear_down(self, call: CallRequest, fee: int) -> tuple[bool, Gas]:
        """Success of a phase, and the gas that it used."""
        self._host.calls.phase = Phase.TEARDOWN
        limits = self._tx.teardown_gas_limits
        outcome = self._call_machine(call, limits, limits, field_from_int(fee % MODULUS))
        return outcome.success, Gas(limits.da_gas - outcome.da_gas_left, limits.l2_gas - outcome.l2_gas_left)

    def _insert(self, effects: PrivateEffects, *, is_unique: bool) -> None:
        """Insert the private part's effects for a phase.  Note hashes that are not unique yet are made so."""
        host = self._host
        for nullifier in effects.nullifiers:
            if not host.effects.has_room_for_nullifier:
                raise _InsertionError("Maximum number of nullifiers reached")
            if host.nullifier_exists(nullifier):
                raise self._collision(nullifier, is_in_setup=is_unique)
            host.insert_nullifier(nullifier)
        insert_note_hash = host.insert_note_hash if is_unique else host.insert_siloed_note_hash
        for note_hash in effects.note_hashes:
            if not host.effects.has_room_for_note_hash:
                raise _InsertionError("Maximum number of note hashes reached")
            insert_note_hash(note_hash)
        for message in effects.messages:
            if not host.effects.has_room_for_message:
                raise _InsertionError("Maximum number of L2 to L1 messages reached")
            host.effects.messages.append(message)
        try:
            publish(self._journal, effects.class_logs, effects.private_logs, self._release)
        except TxExecutionError as error:
            raise TxExecutionError(f"{FAILURE_PREFIX}{_PUBLISHING_PREFIX}{error}") from None

    def _collision(self, nullifier: bytes, *, is_in_setup: bool) -> FastnodeError:
        """Error for a nullifier of the private part that exists already."""
        reason = f"Attempted to emit duplicate siloed nullifier {hex_text(nullifier)}."
        if self._release.machine.collisions_revert:
            return _InsertionError(reason)
        place = "NR" if is_in_setup else "R"
        return TxExecutionError(
            f"{FAILURE_PREFIX}[{place}_NULLIFIER_INSERTION] UNRECOVERABLE ERROR! Nullifier collision: {reason}"
        )

    def _pay(self, fee: int, *, is_enforced: bool) -> None:
        fee_juice = self._release.addresses.fee_juice
        write = pay_fee(self._journal, self._tx.fee_payer, fee, fee_juice, is_enforced=is_enforced)
        if write is not None:
            self._host.effects.add_fee_write(*write)

    # ---- calls ---------------------------------------------------------------------------------

    def _run_call(self, call: CallRequest) -> avm.Outcome:
        """A call of setup or app logic: all of them share the transaction's gas."""
        limits, used = self._tx.gas_limits, self._used
        left = Gas(limits.da_gas - used.da_gas, limits.l2_gas - used.l2_gas)
        outcome = self._call_machine(call, left, limits, ZERO_FIELD)
        self._used = Gas(
            used.da_gas + left.da_gas - outcome.da_gas_left, used.l2_gas + left.l2_gas - outcome.l2_gas_left
        )
        return outcome

    def _call_machine(self, call: CallRequest, gas: Gas, limits: Gas, transaction_fee: bytes) -> avm.Outcome:
        with _machine_failures():
            return self._machine.execute(
                call.contract_address,
                call.msg_sender,
                self._tx.calldata.get(call.calldata_hash, b""),
                is_static=bool(call.is_static_call),
                transaction_fee=transaction_fee,
                l2_gas=gas.l2_gas,
                da_gas=gas.da_gas,
                l2_gas_limit=limits.l2_gas,
                da_gas_limit=limits.da_gas,
            )

    # ---- result --------------------------------------------------------------------------------

    def _result(self, revert_code: int, fee: int, teardown_used: Gas) -> ExecutedTx:
        tx, calls, effects = self._tx, self._host.calls, self._host.effects
        kept = (tx.setup,) if revert_code else (tx.setup, tx.app)
        effect = TxEffect(
            revert_code=min(revert_code, 1) if self._release.machine.one_revert_code else revert_code,
            tx_hash=tx.tx_hash,
            transaction_fee=fee,
            note_hashes=tuple(effects.note_hashes),
            nullifiers=tuple(effects.nullifiers),
            l2_to_l1_msgs=message_hashes(effects.messages, self._block),
            public_data_writes=effects.public_data_writes(),
            private_logs=tuple([log for part in kept for log in part.private_logs]),
            public_logs=tuple(effects.public_logs),
            contract_class_logs=tuple([log for part in kept for log in part.class_logs]),
        )
        failure = calls.first_failure() if revert_code else None
        return ExecutedTx(
            effect,
            self._gas_report(teardown_used),
            app_outputs=tuple([record.output for record in calls.roots if record.phase is Phase.APP]),
            failure=None if failure is None else tuple(failure),
            debug_logs=tuple(self._host.debug_logs),
        )

    def _gas_report(self, teardown_used: Gas) -> GasReport:
        tx, billed = self._tx, self._used
        teardown_limits = Gas(0, 0) if tx.teardown_call is None else tx.teardown_gas_limits
        return GasReport(
            total=_counters(billed, teardown_used, teardown_limits),
            billed=billed,
            teardown=teardown_used,
            public=_counters(billed, teardown_used, tx.gas_used),
        )


def _counters(first: Gas, second: Gas, less: Gas) -> Gas:
    """``first + second - less`` as 32-bit counters."""
    return Gas(
        (first.da_gas + second.da_gas - less.da_gas) % _GAS_COUNTER,
        (first.l2_gas + second.l2_gas - less.l2_gas) % _GAS_COUNTER,
    )


@contextmanager
def _machine_failures() -> Iterator[None]:
    """Reasons that release 4.x's virtual machine gives begin as its do."""
    try:
        yield
    except TxExecutionError as error:
        raise TxExecutionError(FAILURE_PREFIX + str(error)) from None


def message_hashes(messages: Iterable[MessageToL1], block: GlobalVariables) -> tuple[bytes, ...]:
    """Message hashes of an effect: one hash for each message that a contract has sent."""
    return tuple(
        [
            L2ToL1Message(
                message.contract_address, block.version, message.recipient, block.chain_id, message.content
            ).hash()
            for message in messages
            if message.contract_address != ZERO_FIELD
        ]
    )
