"""A state in dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastnode.protocol.constants import GENESIS_INDEXED_LEAVES
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.siloing import silo_nullifier
from fastnode.public_execution.state import PublishedContract

REGISTRY = field_from_int(2)


def genesis_nullifiers() -> set[bytes]:
    return {field_from_int(value) for value in range(GENESIS_INDEXED_LEAVES)}


@dataclass
class MemoryState:
    """A base state that tests fill."""

    leaves: dict[bytes, bytes] = field(default_factory=dict)
    nullifiers: set[bytes] = field(default_factory=genesis_nullifiers)
    notes: list[bytes] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    classes: dict[bytes, bytes] = field(default_factory=dict)
    contracts: dict[bytes, PublishedContract] = field(default_factory=dict)

    @property
    def note_hash_count(self) -> int:
        return len(self.notes)

    @property
    def message_count(self) -> int:
        return len(self.messages)

    def storage(self, leaf_slot: bytes) -> bytes:
        return self.leaves.get(leaf_slot, ZERO_FIELD)

    def has_nullifier(self, nullifier: bytes) -> bool:
        return nullifier in self.nullifiers

    def note_hash(self, index: int) -> bytes:
        return self.notes[index] if index < len(self.notes) else ZERO_FIELD

    def message(self, index: int) -> bytes:
        return self.messages[index] if index < len(self.messages) else ZERO_FIELD

    def contract_class(self, class_id: bytes) -> bytes | None:
        return self.classes.get(class_id)

    def contract(self, address: bytes) -> PublishedContract | None:
        return self.contracts.get(address)

    def deploy(self, address: bytes, contract: PublishedContract) -> None:
        """Publish an instance with its nullifier."""
        self.contracts[address] = contract
        self.nullifiers.add(silo_nullifier(REGISTRY, address))
