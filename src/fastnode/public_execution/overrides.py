"""Values of storage and instances of contracts that a simulation finds in place of those of the chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastnode.protocol.contracts import ContractInstance
from fastnode.protocol.fields import ZERO_FIELD
from fastnode.protocol.siloing import public_leaf_slot
from fastnode.public_execution.state import BaseState, PublishedContract

__all__ = ["OverriddenState", "Overrides", "StorageOverride"]


class StorageOverride(NamedTuple):
    """``value`` at a slot of a contract, as the contract counts its slots."""

    contract: bytes
    slot: bytes
    value: bytes


class Overrides(NamedTuple):
    """Values and instances.  The last value of a slot counts; an instance stands at its own address."""

    storage: Sequence[StorageOverride] = ()
    contracts: Sequence[ContractInstance] = ()


class OverriddenState:
    """``base`` with overrides; it stays as it is, and so does this.

    An instance does not deploy a contract: its nullifier has to be in ``base``.
    """

    def __init__(self, base: BaseState, overrides: Overrides) -> None:
        self._base = base
        self._values = {public_leaf_slot(place.contract, place.slot): place.value for place in overrides.storage}
        self._contracts = {
            instance.address: PublishedContract(
                instance.original_contract_class_id,
                instance.deployer,
                instance.initialization_hash,
                instance.immutables_hash or ZERO_FIELD,
                instance.current_contract_class_id,
            )
            for instance in overrides.contracts
        }

    @property
    def note_hash_count(self) -> int:
        return self._base.note_hash_count

    @property
    def message_count(self) -> int:
        return self._base.message_count

    def storage(self, leaf_slot: bytes) -> bytes:
        value = self._values.get(leaf_slot)
        return self._base.storage(leaf_slot) if value is None else value

    def has_nullifier(self, nullifier: bytes) -> bool:
        return self._base.has_nullifier(nullifier)

    def note_hash(self, index: int) -> bytes:
        return self._base.note_hash(index)

    def message(self, index: int) -> bytes:
        return self._base.message(index)

    def contract_class(self, class_id: bytes) -> bytes | None:
        return self._base.contract_class(class_id)

    def contract(self, address: bytes) -> PublishedContract | None:
        return self._contracts.get(address) or self._base.contract(address)
