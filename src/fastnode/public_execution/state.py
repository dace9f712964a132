"""The state that transactions run on: a frozen one, and what they have changed on top of it.

A :class:`BaseState` never changes.  :class:`ViewState` is one over a published view, at its tip or at a block
before it.  A :class:`StateJournal` adds changes to a base: reads see them, ``mark`` and ``rollback`` nest, and a
rollback costs what is undone and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import orjson

from fastnode.errors import Refused
from fastnode.kernels import encode
from fastnode.log_index.contracts import contract_class_json, contract_instance_json
from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGE_TREE_ID,
    NOTE_HASH_TREE_ID,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIER_TREE_ID,
)
from fastnode.protocol.fields import ZERO_FIELD

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["BaseState", "PublishedContract", "StateJournal", "ViewState"]

_Value = TypeVar("_Value")

_MISSING: Final = object()
#: Reads of each kind that a ViewState remembers: more than a transaction of a block can pay for.  Gas limits above a
#: block's are allowed in simulations, and would fill memory with millions.
READS_KEPT: Final = 1 << 13


class PublishedContract(NamedTuple):
    """Members of an instance that public execution needs.  Updates of its class are in the storage of the registry.

    Instances of 4.x have no immutables: zero.  ``current_class_id``: the class that an override claims, None for
    what is published.
    """

    original_class_id: bytes
    deployer: bytes
    initialization_hash: bytes
    immutables_hash: bytes = ZERO_FIELD
    current_class_id: bytes | None = None


class BaseState(Protocol):
    """A state that stays as it is.  Fields are 32 bytes; what was never written is zero."""

    @property
    def note_hash_count(self) -> int:
        """Leaves of the note hash tree: where the next transaction's notes go."""

    @property
    def message_count(self) -> int:
        """Leaves of the tree of L1 to L2 messages."""

    def storage(self, leaf_slot: bytes) -> bytes:
        """Value at a key of the public data tree."""

    def has_nullifier(self, nullifier: bytes) -> bool:
        """True if a siloed nullifier is in the tree."""

    def note_hash(self, index: int) -> bytes:
        """Leaf of the note hash tree."""

    def message(self, index: int) -> bytes:
        """Leaf of the tree of L1 to L2 messages."""

    def contract_class(self, class_id: bytes) -> bytes | None:
        """Public bytecode of a published class."""

    def contract(self, address: bytes) -> PublishedContract | None:
        """A published instance, or a contract of the protocol."""


class ViewState:
    """A published view after ``block``, its tip unless given.  Refused when the view has no such state.

    What was read lately is remembered: each read of the database lets go of the interpreter.
    """

    def __init__(self, view: View, block: int | None = None) -> None:
        if view.state is None:
            raise Refused("The world state is not loaded: nothing can be executed")
        self._chain = view.chain
        self._state = view.state
        self._block = view.state.tip.number if block is None else block
        sizes = self._state.record(self._block).sizes
        self.note_hash_count: Final = sizes[NOTE_HASH_TREE_ID]
        self.message_count: Final = sizes[L1_TO_L2_MESSAGE_TREE_ID]
        self._storage: dict[bytes, bytes] = {}
        self._nullifiers: dict[bytes, bool] = {}
        self._contracts: dict[bytes, PublishedContract] = {}

    def storage(self, leaf_slot: bytes) -> bytes:
        value = self._storage.get(leaf_slot)
        if value is None:
            value = self._state.public_data_value(leaf_slot, self._block)
            _remember(self._storage, leaf_slot, value)
        return value

    def has_nullifier(self, nullifier: bytes) -> bool:
        found = self._nullifiers.get(nullifier)
        if found is None:
            (place,) = self._state.find_leaves(NULLIFIER_TREE_ID, (nullifier,), self._block)
            found = place is not None
            _remember(self._nullifiers, nullifier, found)
        return found

    def note_hash(self, index: int) -> bytes:
        return self._state.append_only_leaf(NOTE_HASH_TREE_ID, index, self._block)

    def message(self, index: int) -> bytes:
        return self._state.append_only_leaf(L1_TO_L2_MESSAGE_TREE_ID, index, self._block)

    def contract_class(self, class_id: bytes) -> bytes | None:
        record = contract_class_json(self._chain, class_id)
        return None if record is None else encode.from_base64(orjson.loads(record)["packedBytecode"])

    def contract(self, address: bytes) -> PublishedContract | None:
        contract = self._contracts.get(address)
        if contract is None:
            contract = self._read_contract(address)
            if contract is not None:
                _remember(self._contracts, address, contract)
        return contract

    def _read_contract(self, address: bytes) -> PublishedContract | None:
        stored = contract_instance_json(self._chain, address)
        if stored is None:
            return None
        record = orjson.loads(stored)
        names = ("originalContractClassId", "deployer", "initializationHash", "immutablesHash")
        return PublishedContract(*[encode.from_hex(record[name]) for name in names if name in record])


def _remember(reads: dict[bytes, _Value], key: bytes, value: _Value) -> None:
    if len(reads) >= READS_KEPT:
        reads.clear()
    reads[key] = value


class StateJournal:
    """Changes on top of ``base``.  Reads see the newest value.

    One journal serves the transactions of a block, one after the other: :meth:`close_tx` ends each.
    """

    def __init__(self, base: BaseState, messages: Sequence[bytes] = ()) -> None:
        """``messages``: those of L1 that the block's checkpoint adds to the tree before its first transaction."""
        self._base = base
        self._storage: dict[bytes, bytes] = {}
        self._nullifiers: dict[bytes, None] = {}
        self._notes: dict[int, bytes] = {}
        self._classes: dict[bytes, bytes] = {}
        self._claimed_classes: set[bytes] = set()
        self._contracts: dict[bytes, PublishedContract] = {}
        self._messages = dict(enumerate(messages, base.message_count))
        #: First place in the tree of the present transaction's notes.
        self.first_note_index = base.note_hash_count
        #: (container, key, value before or _MISSING), oldest first.
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    # ---- checkpoints ---------------------------------------------------------------------------

    def mark(self) -> int:
        """A place to come back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo everything since ``mark``."""
        undo = self._undo
        while len(undo) > mark:
            container, key, before = undo.pop()
            if before is _MISSING:
                del container[key]
            else:
                container[key] = before

    def close_tx(self) -> None:
        """Keep what the transaction did.  Its notes take as many leaves as any transaction's."""
        self._undo.clear()
        self.first_note_index += NOTE_HASHES_PER_TX_MAX

    def _set(self, container: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((container, key, container.get(key, _MISSING)))
        container[key] = value

    # ---- trees -----------------------------------------------------------------------------------

    def storage(self, leaf_slot: bytes) -> bytes:
        value = self._storage.get(leaf_slot)
        return self._base.storage(leaf_slot) if value is None else value

    def set_storage(self, leaf_slot: bytes, value: bytes) -> None:
        self._set(self._storage, leaf_slot, value)

    def has_nullifier(self, nullifier: bytes) -> bool:
        return nullifier in self._nullifiers or self._base.has_nullifier(nullifier)

    def add_nullifier(self, nullifier: bytes) -> None:
        self._set(self._nullifiers, nullifier, None)

    def note_hash(self, index: int) -> bytes:
        if index < self._base.note_hash_count:
            return self._base.note_hash(index)
        return self._notes.get(index, ZERO_FIELD)

    def add_note_hash(self, index_in_tx: int, note_hash: bytes) -> None:
        self._set(self._notes, self.first_note_index + index_in_tx, note_hash)

    def message(self, index: int) -> bytes:
        added = self._messages.get(index)
        return self._base.message(index) if added is None else added

    # ---- contracts -------------------------------------------------------------------------------

    def contract_class(self, class_id: bytes) -> bytes | None:
        bytecode = self._classes.get(class_id)
        return self._base.contract_class(class_id) if bytecode is None else bytecode

    def note_claimed_class(self, class_id: bytes) -> None:
        """A class is published under an id that is not its own."""
        self._claimed_classes.add(class_id)

    def is_claimed_class(self, class_id: bytes) -> bool:
        """True if the bytecode of a class may not be what its id commits to."""
        return class_id in self._claimed_classes

    def add_contract_class(self, class_id: bytes, bytecode: bytes) -> None:
        self._set(self._classes, class_id, bytecode)

    def contract(self, address: bytes) -> PublishedContract | None:
        return self._base.contract(address) or self._contracts.get(address)

    def add_contract(self, address: bytes, contract: PublishedContract) -> None:
        """Publish an instance; what is published at that address already stays."""
        if self.contract(address) is None:
            self._set(self._contracts, address, contract)
