"""Program that runs at an address, and the contracts that a transaction publishes itself.

A contract's class can change with notice.  The registry keeps the change in its own storage, as a value of the
kind "delayed public mutable"; for the contract at address A, with ``base`` the slot of map 1 at A::

    base      change of delays | delays | timestamp of change (low 32 bits)
    base + 1  class before the change, 0 = the original one
    base + 2  class from the change on, 0 = the original one
    base + 3  Poseidon2 of the three, 0 = there never was a change
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from fastnode.errors import CallHalted, DecodeError, TxExecutionError
from fastnode.kernels import avm
from fastnode.protocol.constants import CONTRACT_INSTANCE_REGISTRY_ADDRESS, PROTOCOL_CONTRACTS_MAX
from fastnode.protocol.contracts import (
    PublishedInstance,
    WrongClassIdError,
    decode_class_published,
    is_class_published,
    is_instance_published,
    read_class_published,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog
from fastnode.protocol.fields import MODULUS, ZERO_FIELD, field_from_int, hex_text
from fastnode.protocol.releases import Release
from fastnode.protocol.siloing import public_leaf_slot, silo_nullifier, storage_map_slot
from fastnode.public_execution.state import PublishedContract, StateJournal

__all__ = ["CLASSES_PER_TX_MAX", "Contracts", "CurrentContract", "ProgramCache", "leaf_slot_of", "publish"]

#: Reason of release 4.x for an instance whose class was never published.
_CLASS_MISSING: Final = "Assertion failed: (maybe_klass.has_value())\nReason   : Contract class not found"

#: Different classes whose code one transaction may run.
CLASSES_PER_TX_MAX: Final = 21

_REGISTRY: Final = field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS)
_UPDATES_MAP_SLOT: Final = field_from_int(1)
_TIMESTAMP_MASK: Final = (1 << 32) - 1
_PREVIOUS, _POST, _HASH = 1, 2, 3

_SLOTS_KEPT: Final = 1 << 14
_ADDRESSES_KEPT: Final = 1 << 12
#: Bytes of bytecode in a cache: dozens of contracts.  The decoded instructions take up to 36 times as much.
_BYTECODE_KEPT: Final = 3 << 20

#: Key of a contract's slot in the public data tree; the same few are asked for again and again.
leaf_slot_of = functools.lru_cache(_SLOTS_KEPT)(public_leaf_slot)


class CurrentContract(NamedTuple):
    """An instance with the class that it has at a moment."""

    class_id: bytes
    deployer: bytes
    initialization_hash: bytes
    immutables_hash: bytes

    @classmethod
    def of(cls, contract: PublishedContract, class_id: bytes) -> Self:
        return cls(class_id, contract.deployer, contract.initialization_hash, contract.immutables_hash)


class ProgramCache:
    """Decoded programs of a release by class id, the last used ones up to a size.  Usable from any thread.

    A class id commits to its bytecode, so a program serves every state of the release that knows the class.
    """

    def __init__(self, bytecode_bytes_max: int = _BYTECODE_KEPT, *, release: Release) -> None:
        self.release = release
        self._rules = release.machine.arguments
        self._programs: OrderedDict[bytes, avm.Program] = OrderedDict()
        self._bytes_left = bytecode_bytes_max
        self._lock = threading.Lock()

    def get(self, class_id: bytes) -> avm.Program | None:
        with self._lock:
            program = self._programs.get(class_id)
            if program is not None:
                self._programs.move_to_end(class_id)
            return program

    def decode(self, bytecode: bytes) -> avm.Program:
        """Bytecode under the rules of the release; :meth:`put` keeps it."""
        return avm.Program(bytecode, **self._rules)

    def put(self, class_id: bytes, program: avm.Program) -> None:
        with self._lock:
            if class_id not in self._programs:
                self._bytes_left -= len(program.bytecode)
                self._programs[class_id] = program
            while self._bytes_left < 0 and len(self._programs) > 1:
                _, oldest = self._programs.popitem(last=False)
                self._bytes_left += len(oldest.bytecode)


class Contracts:
    """Look-ups of one transaction: in the state as it is at the moment, at the time of the block.

    Counts the classes whose code was asked for; a failed call does not give its class back.
    """

    def __init__(self, journal: StateJournal, timestamp: int, programs: ProgramCache) -> None:
        self._journal = journal
        self._timestamp = timestamp
        self._programs = programs
        self._used_classes: dict[bytes, avm.Program] = {}

    def current(self, address: bytes) -> CurrentContract | None:
        """The contract at ``address``; None when it is not deployed.

        TxExecutionError for an address whose nullifier exists although its instance is not published, and for an
        override that claims another class than the registry has, in the words of release 4.x.
        """
        if _is_protocol_address(address):
            contract = self._journal.contract(address)
            if contract is None:
                return None
            return CurrentContract.of(contract, contract.current_class_id or contract.original_class_id)
        slots = _registry_slots(address)
        if not self._journal.has_nullifier(slots.deployment_nullifier):
            return None
        contract = self._journal.contract(address)
        if contract is None:
            raise TxExecutionError(f"Contract instance {hex_text(address)} is not published")
        class_id = self._class_id(slots, contract)
        if contract.current_class_id not in (None, class_id):
            raise TxExecutionError(
                f"Current class id: {hex_text(contract.current_class_id)} does not match expected class id: "
                f"{hex_text(class_id)}"
            )
        return CurrentContract.of(contract, class_id)

    def _class_id(self, slots: _RegistrySlots, contract: PublishedContract) -> bytes:
        read = self._journal.storage
        if read(slots.updates[_HASH]) == ZERO_FIELD:
            return contract.original_class_id
        change_at = int.from_bytes(read(slots.updates[0]), "big") & _TIMESTAMP_MASK
        class_id = read(slots.updates[_PREVIOUS if self._timestamp < change_at else _POST])
        return contract.original_class_id if class_id == ZERO_FIELD else class_id

    def program(self, address: bytes) -> avm.Program:
        """Program that runs at ``address``.  CallHalted when nothing does, or when it is one class too many."""
        contract = self.current(address)
        if contract is None:
            raise CallHalted(f"Contract 0x{int.from_bytes(address, 'big'):x} is not deployed")
        program = self._used_classes.get(contract.class_id)
        if program is None:
            if len(self._used_classes) >= CLASSES_PER_TX_MAX:
                raise CallHalted(f"Can't retrieve more than {CLASSES_PER_TX_MAX} bytecodes per tx")
            program = self._used_classes[contract.class_id] = self._load(contract.class_id)
        return program

    def _load(self, class_id: bytes) -> avm.Program:
        # Bytecode under an id that is not its own is never shared with other transactions.
        is_claimed = self._journal.is_claimed_class(class_id)
        program = None if is_claimed else self._programs.get(class_id)
        if program is None:
            bytecode = self._journal.contract_class(class_id)
            if bytecode is None:
                raise TxExecutionError(_CLASS_MISSING)
            program = self._programs.decode(bytecode)
            if not is_claimed:
                self._programs.put(class_id, program)
        return program


def _publish_class(journal: StateJournal, log: ContractClassLog, release: Release) -> None:
    try:
        published = decode_class_published(log)
    except WrongClassIdError:
        if release.checks_class_ids:
            raise
        published = read_class_published(log)
        journal.note_claimed_class(published.id)
    journal.add_contract_class(published.id, published.packed_bytecode)


def publish(
    journal: StateJournal,
    class_logs: Iterable[ContractClassLog],
    private_logs: Iterable[PrivateLog],
    release: Release,
) -> None:
    """Make known what logs of a transaction of the release publish.  TxExecutionError for what does not hold, in the
    words of release 4.x.

    An instance is taken as its log states it: the emitter of its nullifier has derived the address.  A contract of the
    protocol has no nullifier, and comes with the release.
    """
    try:
        for class_log in class_logs:
            if is_class_published(class_log, release):
                _publish_class(journal, class_log, release)
        for log in private_logs:
            if is_instance_published(log):
                content = PublishedInstance.of_log(log, release)
                if not _is_protocol_address(content.address):
                    journal.add_contract(content.address, _contract_of(content))
    except DecodeError as error:
        raise TxExecutionError(str(error)) from None


def _contract_of(content: PublishedInstance) -> PublishedContract:
    immutables_hash = ZERO_FIELD if content.immutables_hash is None else content.immutables_hash
    return PublishedContract(content.class_id, content.deployer, content.initialization_hash, immutables_hash)


# ---- storage of the registry ---------------------------------------------------------------------


class _RegistrySlots(NamedTuple):
    """The nullifier that says that a contract is deployed, and the leaf slots of its class updates."""

    deployment_nullifier: bytes
    updates: tuple[bytes, ...]


@functools.lru_cache(_ADDRESSES_KEPT)
def _registry_slots(address: bytes) -> _RegistrySlots:
    base = int.from_bytes(storage_map_slot(_UPDATES_MAP_SLOT, address), "big")
    slots = [field_from_int((base + offset) % MODULUS) for offset in range(_HASH + 1)]
    updates = tuple([public_leaf_slot(_REGISTRY, slot) for slot in slots])
    return _RegistrySlots(silo_nullifier(_REGISTRY, address), updates)


def _is_protocol_address(address: bytes) -> bool:
    return 1 <= int.from_bytes(address, "big") <= PROTOCOL_CONTRACTS_MAX
