"""The world as the interpreter sees it: state, side effects with their limits, contracts, and a record of calls."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from fastnode.errors import CallHalted, ExecutionMemoryExceeded, TxExecutionError
from fastnode.kernels import avm
from fastnode.protocol.effects import PublicLog
from fastnode.protocol.fields import hex_text, split_fields
from fastnode.protocol.siloing import note_hash_nonce, silo_note_hash, silo_nullifier, unique_note_hash
from fastnode.public_execution.call_tree import CallTree, selector_of
from fastnode.public_execution.contracts import Contracts, leaf_slot_of
from fastnode.public_execution.side_effects import Mark, SideEffects
from fastnode.public_execution.state import StateJournal
from fastnode.public_execution.transaction import MessageToL1

__all__ = ["Checkpoint", "DebugLogEntry", "TxHost"]

_L1_ADDRESS_BYTES: Final = 20
#: Memory of all debug logs of a transaction; their JSON is more than twice as long.
DEBUG_LOGS_BYTES_MAX: Final = 16 << 20
#: Members of an instance, by the numbers that GETCONTRACTINSTANCE has for them.
_MEMBERS: Final = {
    avm.MEMBER_DEPLOYER: "deployer",
    avm.MEMBER_CLASS_ID: "class_id",
    avm.MEMBER_INITIALIZATION_HASH: "initialization_hash",
    avm.MEMBER_IMMUTABLES_HASH: "immutables_hash",
}
_COUNTER_MASK: Final = (1 << 32) - 1
#: Memory of one beside what it says.
_DEBUG_LOG_BYTES: Final = 512


class DebugLogEntry(NamedTuple):
    """``level`` 0 to 7, ``message`` as the program has it, ``fields`` joined."""

    address: bytes
    level: int
    message: bytes
    fields: bytes
    #: Selector of the function that logs; None if its calldata names none.
    selector: bytes | None = None


class Checkpoint(NamedTuple):
    """Point to which state and side effects go back."""

    journal: int
    effects: Mark


class TxHost:
    """The host of one transaction's calls.  What a call may not do halts it, with the text of release 4.x."""

    def __init__(
        self, journal: StateJournal, contracts: Contracts, first_nullifier: bytes, debug_log_memory_reads_max: int
    ) -> None:
        self.effects = SideEffects()
        self.calls = CallTree()
        self.debug_logs: list[DebugLogEntry] = []
        self._journal = journal
        self._contracts = contracts
        self._first_nullifier = first_nullifier
        self._checkpoints: list[Checkpoint] = []
        self._calldata: list[bytes] = []  # of the calls that run, the innermost last
        self._debug_log_bytes = 0
        self._debug_log_reads_max = debug_log_memory_reads_max

    # ---- checkpoints ---------------------------------------------------------------------------

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self._journal.mark(), self.effects.mark())

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Undo changes of the state and side effects; used classes and debug logs stay."""
        self._journal.rollback(checkpoint.journal)
        self.effects.rollback(checkpoint.effects)

    # ---- calls -----------------------------------------------------------------------------------

    def enter(self, address: bytes, calldata: bytes) -> avm.Program:
        self.calls.enter(address, calldata)
        self._calldata.append(calldata)
        self._checkpoints.append(self.checkpoint())
        return self._contracts.program(address)

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        checkpoint = self._checkpoints.pop()
        self._calldata.pop()
        if not success:
            self.rollback(checkpoint)
        self.calls.leave(success=success, output=output, pcs=pcs, message=message)

    # ---- storage ---------------------------------------------------------------------------------

    def read_storage(self, address: bytes, slot: bytes) -> bytes:
        return self._journal.storage(leaf_slot_of(address, slot))

    def is_cold(self, address: bytes, slot: bytes) -> bool:
        return not self.effects.is_written(leaf_slot_of(address, slot))

    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None:
        leaf_slot = leaf_slot_of(address, slot)
        if not self.effects.may_write(leaf_slot):
            raise CallHalted("SSTORE: Maximum number of data writes reached")
        self.effects.add_write(leaf_slot, value)
        self._journal.set_storage(leaf_slot, value)

    # ---- note hashes -----------------------------------------------------------------------------

    def note_hash_exists(self, note_hash: bytes, index: int) -> bool:
        return self._journal.note_hash(index) == note_hash

    def emit_note_hash(self, address: bytes, note_hash: bytes) -> None:
        if not self.effects.has_room_for_note_hash:
            raise CallHalted("EMITNOTEHASH: Maximum number of note hashes reached")
        self.insert_siloed_note_hash(silo_note_hash(address, note_hash))

    def insert_siloed_note_hash(self, siloed: bytes) -> None:
        """Make it unique by its place in the transaction, and insert it; there is room for it."""
        nonce = note_hash_nonce(self._first_nullifier, len(self.effects.note_hashes))
        self.insert_note_hash(unique_note_hash(nonce, siloed))

    def insert_note_hash(self, unique: bytes) -> None:
        """There is room for it."""
        self._journal.add_note_hash(len(self.effects.note_hashes), unique)
        self.effects.note_hashes.append(unique)

    # ---- nullifiers ------------------------------------------------------------------------------

    def nullifier_exists(self, siloed_nullifier: bytes) -> bool:
        return self._journal.has_nullifier(siloed_nullifier)

    def emit_nullifier(self, address: bytes, nullifier: bytes) -> None:
        if not self.effects.has_room_for_nullifier:
            raise CallHalted("EMITNULLIFIER: Maximum number of nullifiers reached")
        siloed = silo_nullifier(address, nullifier)
        if self._journal.has_nullifier(siloed):
            raise CallHalted(
                f"EMITNULLIFIER: Attempted to emit duplicate nullifier {hex_text(nullifier)} "
                f"(contract address: {hex_text(address)})."
            )
        self.insert_nullifier(siloed)

    def insert_nullifier(self, siloed: bytes) -> None:
        """Insert a nullifier that does not exist yet and for which there is room."""
        self._journal.add_nullifier(siloed)
        self.effects.nullifiers.append(siloed)

    # ---- messages --------------------------------------------------------------------------------

    def l1_to_l2_message_exists(self, message_hash: bytes, index: int) -> bool:
        return self._journal.message(index) == message_hash

    def send_l2_to_l1_message(self, address: bytes, recipient: bytes, content: bytes) -> None:
        if not self.effects.has_room_for_message:
            raise CallHalted("SENDL2TOL1MSG: Maximum number of L2 to L1 messages reached")
        self.effects.messages.append(MessageToL1(address, recipient[-_L1_ADDRESS_BYTES:], content))

    # ---- contracts -------------------------------------------------------------------------------

    def contract_instance_member(self, address: bytes, member: int) -> bytes | None:
        contract = self._contracts.current(address)
        if contract is None:
            return None
        value: bytes = getattr(contract, _MEMBERS[member])
        return value

    # ---- logs ------------------------------------------------------------------------------------

    def has_room_for_public_log(self, size: int) -> bool:
        return self.effects.has_room_for_public_log(size)

    def emit_public_log(self, address: bytes, fields: bytes) -> None:
        self.effects.add_public_log(PublicLog(address, split_fields(fields)))

    def count_debug_log(self, cells: int) -> None:
        """The network's limit holds for each log.  Release 4.x counts with 32 bits; it cannot hold what passes so."""
        counted = cells & _COUNTER_MASK
        if counted > self._debug_log_reads_max:
            raise TxExecutionError(f"Max debug log memory reads exceeded: {counted} > {self._debug_log_reads_max}")
        if counted != cells:
            raise TxExecutionError("std::bad_alloc")

    def debug_log(self, address: bytes, level: int, message: bytes, fields: bytes) -> None:
        """Nothing but gas bounds all logs together, of which one costs 9, whatever it reads."""
        self._debug_log_bytes += _DEBUG_LOG_BYTES + len(message) + len(fields)
        if self._debug_log_bytes > DEBUG_LOGS_BYTES_MAX:
            raise ExecutionMemoryExceeded(DEBUG_LOGS_BYTES_MAX)
        self.debug_logs.append(DebugLogEntry(address, level, message, fields, selector_of(self._calldata[-1])))
