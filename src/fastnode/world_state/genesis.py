"""The trees before block 1, computed from the prefilled public data and compared with the chain's claim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fastnode.archiver.source import GenesisRecord
from fastnode.errors import StartError
from fastnode.protocol.constants import GENESIS_INDEXED_LEAVES
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.genesis import PrefilledPublicData, genesis_header, genesis_public_data
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, StateReference
from fastnode.protocol.releases import TreeRules
from fastnode.records import dataclass
from fastnode.world_state.append_only import Change, Growth
from fastnode.world_state.forest import Forest
from fastnode.world_state.indexed_tree import LeafChanges
from fastnode.world_state.layout import BLOCK, BlockRecord, u32
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import Tree, zero_nodes

__all__ = ["Genesis", "build_genesis", "compute_genesis", "genesis_of"]

GENESIS_BLOCK: Final = 0
ROOT_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Genesis:
    """The genesis trees, not written yet."""

    header: BlockHeader
    record: BlockRecord
    nullifiers: LeafChanges
    public_data: LeafChanges
    archive: Growth
    forest: Forest

    def changes(self, snapshot: Snapshot) -> Iterator[Change]:
        """The entries of a new database."""
        yield from self.forest.nullifiers.changes(self.nullifiers)
        yield from self.forest.public_data.changes(self.public_data)
        yield from self.forest.archive.changes(snapshot, self.archive, [(GENESIS_BLOCK, self.record.block_hash)])
        yield BLOCK + u32(GENESIS_BLOCK), self.record.pack()

    def publish(self) -> None:
        """Make the written trees part of the memory."""
        self.forest.nullifiers.publish(self.nullifiers)
        self.forest.public_data.publish(self.public_data)
        self.forest.archive.publish(self.archive)


def compute_genesis(forest: Forest, claim: GenesisRecord) -> Genesis:
    """The genesis trees of ``claim``'s prefilled data; StartError naming both when its hash or root differ."""
    prefilled = [PrefilledPublicData(slot, value) for slot, value in claim.prefilled_public_data]
    try:
        genesis = build_genesis(forest, prefilled)
    except ValueError as error:
        raise StartError(f"genesis: {error}") from error
    _require("archive root", genesis.archive.root, claim.archive_root)
    _require("block hash", genesis.record.block_hash, claim.block_hash)
    return genesis


def build_genesis(forest: Forest, prefilled: Sequence[PrefilledPublicData]) -> Genesis:
    """The genesis trees; ValueError for prefilled slots that do not fit."""
    public_leaves = genesis_public_data(prefilled)
    of_protocol = forest.rules.genesis_nullifiers
    filling = map(field_from_int, range(GENESIS_INDEXED_LEAVES - len(of_protocol)))
    nullifiers = forest.nullifiers.genesis([(key, b"") for key in (*filling, *of_protocol)])
    public_data = forest.public_data.genesis(public_leaves)
    empty_notes, empty_messages = _empty_root(forest.note_hashes.tree), _empty_root(forest.messages.tree)
    state = StateReference.of_trees(
        l1_to_l2_message_tree=AppendOnlyTreeSnapshot(empty_messages, 0),
        note_hash_tree=AppendOnlyTreeSnapshot(empty_notes, 0),
        nullifier_tree=AppendOnlyTreeSnapshot(nullifiers.root, nullifiers.size),
        public_data_tree=AppendOnlyTreeSnapshot(public_data.root, public_data.size),
    )
    header = genesis_header(state, has_effects_root=forest.rules.has_effects_root)
    block_hash = header.hash()
    archive = forest.archive.begin(block_hash)
    record = BlockRecord(
        number=GENESIS_BLOCK,
        roots=(nullifiers.root, empty_notes, public_data.root, empty_messages, archive.root),
        sizes=(nullifiers.size, 0, public_data.size, 0, 1),
        block_hash=block_hash,
        checkpoint_number=0,
    )
    return Genesis(header, record, nullifiers, public_data, archive, forest)


def genesis_of(prefilled: Sequence[PrefilledPublicData], rules: TreeRules) -> Genesis:
    """The genesis trees of a chain that has no database yet; ValueError as :func:`build_genesis`."""
    return build_genesis(Forest.within(0, rules), prefilled)


def _empty_root(tree: Tree) -> bytes:
    return zero_nodes(tree)[-ROOT_BYTES:]


def _require(name: str, computed: bytes, claimed: bytes) -> None:
    if computed != claimed:
        raise StartError(
            f"genesis: the {name} computed from the prefilled public data is 0x{computed.hex()}, "
            f"the chain says 0x{claimed.hex()}"
        )
