"""The node's own trees below a case: as the state that programs read, and for the roots after a block."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.public_execution.memory_state import MemoryState
from tests.public_execution.vectors import as_field, as_fields

from fastnode.archiver.source import GenesisRecord
from fastnode.protocol.constants import L1_TO_L2_MESSAGE_TREE_ID, NOTE_HASH_TREE_ID, NULLIFIER_TREE_ID
from fastnode.protocol.effects import Body, PublicDataWrite, TxEffect
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.genesis import GENESIS_BLOCK_HEADER_HASH
from fastnode.protocol.header import (
    EMPTY_SNAPSHOT,
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)
from fastnode.protocol.releases import FOUR
from fastnode.world_state.apply import BlockDraft
from fastnode.world_state.state import WorldState

Json = dict[str, Any]

GENESIS_ARCHIVE_ROOT = bytes.fromhex("15684c8c3d2106918d3860f777e50555b7166adff47df13cc652e2e5a50bf5c7")


def _header(last: AppendOnlyTreeSnapshot, state: StateReference, number: int) -> BlockHeader:
    variables = GlobalVariables(1, 1, number, number, number, bytes(20), ZERO_FIELD, GasFees(0, 0))
    return BlockHeader(last, state, ZERO_FIELD, variables, 0, 0)


def _writes(leaves: list[Any]) -> tuple[PublicDataWrite, ...]:
    return tuple(PublicDataWrite(as_field(slot), as_field(value)) for slot, value in leaves)


class Trees:
    """Block 1 has what every case starts from."""

    def __init__(self, base: Json) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="compare-execution-")
        empty = StateReference.of_trees(EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT, EMPTY_SNAPSHOT)
        genesis_header = _header(EMPTY_SNAPSHOT, empty, 0)
        genesis = GenesisRecord(genesis_header, GENESIS_BLOCK_HEADER_HASH, GENESIS_ARCHIVE_ROOT, (), (), (), {})
        self._world = WorldState(Path(self._directory.name), genesis, cache_mb=16, rules=FOUR.trees)
        notes, nullifiers = as_fields(base["notes"]), as_fields(base["nullifiers"])
        effect = TxEffect(0, field_from_int(1), 0, notes, nullifiers, (), _writes(base["leaves"]), (), (), ())
        draft = BlockDraft(Body((effect,)), 1, 0)
        _, prepared = self._world.build(draft, as_fields(base["messages"]), lambda last, state: _header(last, state, 1))
        self._world.commit(prepared)

    def close(self) -> None:
        self._world.close()
        self._directory.cleanup()

    def state_over(self, contracts: MemoryState) -> TreeState:
        """A state whose contracts are given and whose trees are these."""
        return TreeState(self._world.view, contracts)

    def differences(self, case: Json, effects: list[TxEffect], roots: Json | None) -> list[str]:
        """Of the roots after a block with these effects."""
        if roots is None or not effects:
            return []
        # What the case puts into the state comes in front of what its first transaction does.
        leaves = _writes(case.get("state", {}).get("leaves", []))
        first = replace(effects[0], public_data_writes=leaves + effects[0].public_data_writes)
        plain = [
            replace(effect, transaction_fee=0, revert_code=0, l2_to_l1_msgs=(), private_logs=(), public_logs=())
            for effect in (first, *effects[1:])
        ]
        draft = BlockDraft(Body(tuple(replace(effect, contract_class_logs=()) for effect in plain)), 1, 1)
        block, _ = self._world.build(draft, (), lambda last, state: _header(last, state, 2))
        state, found = block.header.state, []
        trees = {
            "notes": state.note_hash_tree,
            "nullifiers": state.nullifier_tree,
            "publicData": state.public_data_tree,
        }
        for name, snapshot in trees.items():
            ours = [hex(int.from_bytes(snapshot.root, "big")), snapshot.next_available_leaf_index]
            if ours != roots[name]:
                found.append(f".roots.{name}: fastnode {ours} | published {roots[name]}")
        return found


class TreeState(MemoryState):
    """What a case adds is in dictionaries; the rest is read from the trees."""

    def __init__(self, view: Any, contracts: MemoryState) -> None:
        super().__init__(nullifiers=set(), classes=contracts.classes, contracts=contracts.contracts)
        self._view = view

    @property
    def note_hash_count(self) -> int:
        return int(self._view.record(1).sizes[NOTE_HASH_TREE_ID])

    @property
    def message_count(self) -> int:
        return int(self._view.record(1).sizes[L1_TO_L2_MESSAGE_TREE_ID])

    def storage(self, leaf_slot: bytes) -> bytes:
        given = self.leaves.get(leaf_slot)
        return self._view.public_data_value(leaf_slot, 1) if given is None else given  # type: ignore[no-any-return]

    def has_nullifier(self, nullifier: bytes) -> bool:
        (place,) = self._view.find_leaves(NULLIFIER_TREE_ID, (nullifier,), 1)
        return place is not None

    def note_hash(self, index: int) -> bytes:
        return self._view.append_only_leaf(NOTE_HASH_TREE_ID, index, 1)  # type: ignore[no-any-return]

    def message(self, index: int) -> bytes:
        return self._view.append_only_leaf(L1_TO_L2_MESSAGE_TREE_ID, index, 1)  # type: ignore[no-any-return]
