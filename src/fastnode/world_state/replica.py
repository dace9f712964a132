"""The world state of a copy of the database that follows the writes of another process.

Nothing is hashed or checked here: the process that wrote a batch has done both.  A batch goes into the database as it
is, and what the trees keep in memory is taken out of it::

    M"tip"                  how many blocks there are then: one more, one less, or as many (history was dropped);
                            more than one more after a run, whose last block is then the oldest
    N tree level index      newest nodes
    H tree level index block    what the block replaced; only indexed trees have it
    T tree index>>5         tiles that are not what they were

What is none of these, such as trees that are built anew, is for a new copy: :class:`CannotFollowError`.
"""

from __future__ import annotations

import weakref
from pathlib import Path

from fastnode.errors import DatabaseError
from fastnode.interpreter import step_aside
from fastnode.kernels import tree_nodes
from fastnode.protocol.releases import TreeRules
from fastnode.storage.database import DatabaseMemory, SharedDatabase
from fastnode.world_state.append_only import Change
from fastnode.world_state.forest import Forest, block_cache_bytes
from fastnode.world_state.layout import (
    BLOCK,
    BLOCK_BYTES,
    NODE,
    NODE_HISTORY,
    RESET_KEY,
    TILE,
    TIP_KEY,
    BlockRecord,
    u32,
    unpack_tip,
)
from fastnode.world_state.state import WORLD_STATE_DIRECTORY
from fastnode.world_state.trees import Tree
from fastnode.world_state.view import WorldStateView

__all__ = ["CannotFollowError", "WorldStateReplica"]


class CannotFollowError(DatabaseError):
    """The copy cannot be brought to where the writes lead; a new one can."""


class WorldStateReplica:
    """Read as :class:`~fastnode.world_state.state.WorldState` is: ``view`` is the newest.  One thread repeats."""

    def __init__(self, directory: Path, rules: TreeRules, *, cache_mb: int, write_buffer_bytes: int) -> None:
        """Open ``<directory>/world_state``.  DataDirectoryError when it cannot be; the rest as in WorldState."""
        memory = DatabaseMemory(block_cache_bytes(cache_mb), write_buffer_bytes)
        self._database = SharedDatabase.open(directory / WORLD_STATE_DIRECTORY, create=False, memory=memory)
        self._views: weakref.WeakSet[WorldStateView] = weakref.WeakSet()
        self._forest = Forest.within(cache_mb, rules)
        self._number = self._oldest = 0
        try:
            self.view = self._open_view()
            self._forest.open(self.view.snapshot, self.view.tip.sizes)
        except BaseException:
            self._database.release()
            raise

    @property
    def database(self) -> SharedDatabase:
        return self._database

    def load_nodes(self) -> None:
        """Take the nodes that the memory has room for: without it witnesses are only slower."""
        while self._forest.load_next_level(self.view.snapshot, self.view.tip.sizes):
            pass

    def close(self) -> None:
        """Give the database up; it closes with its last view.  Once."""
        self.__dict__.pop("view", None)
        self._database.release()

    # ---- what was written --------------------------------------------------------------------

    def repeat(self, changes: list[Change]) -> None:
        """Apply a batch; :meth:`publish` shows it.  CannotFollowError, with the newest view as it was."""
        kept = dict(changes)
        if RESET_KEY in kept or (tip := kept.get(TIP_KEY)) is None:
            raise CannotFollowError("the state trees are built anew")
        number, oldest = unpack_tip(tip)
        is_run = number > self._number + 1 and oldest == number
        if number not in (self._number - 1, self._number, self._number + 1) and not is_run:
            raise CannotFollowError(f"the state trees go from block {self._number} to {number}")
        if number < self._number:
            # From here on readers of older views leave the memory alone where it concerns the undone block.
            for view in list(self._views):
                view.memory_limit = min(view.memory_limit, number)
        self._database.repeat(changes)
        step_aside()
        if number != self._number:
            key = BLOCK + u32(number)
            record = BlockRecord.unpack(number, kept.get(key) or self._required(key))
            self._repeat_in_memory(number, changes, record)
        self._number = number

    def publish(self) -> WorldStateView:
        """The state as all batches so far have left it, which is :attr:`view` from now on."""
        self.view = self._open_view()
        return self.view

    def _open_view(self) -> WorldStateView:
        self._number, self._oldest = unpack_tip(self._required(TIP_KEY))
        record = BlockRecord.unpack(self._number, self._required(BLOCK + u32(self._number)))
        view = WorldStateView(self._database, self._forest, record, self._oldest)
        self._views.add(view)
        return view

    def _repeat_in_memory(self, number: int, changes: list[Change], record: BlockRecord) -> None:
        is_undo = number < self._number
        for tree in self._forest.append_only:
            new = [] if is_undo else tree_nodes.entries_of(changes, _prefix(NODE, tree.tree), 0)
            tree.repeat(record.sizes[tree.tree.id], new)
        for indexed in self._forest.indexed:
            step_aside()
            of_tree = tree_nodes.entries_of(changes, _prefix(NODE, indexed.tree), 0)
            if is_undo:
                indexed.revert(self._number, of_tree)
            else:
                history = tree_nodes.entries_of(changes, _prefix(NODE_HISTORY, indexed.tree), BLOCK_BYTES)
                tiles = tree_nodes.entries_of(changes, _prefix(TILE, indexed.tree), 0)
                changed = [int.from_bytes(index, "big") for index, _ in tiles]
                indexed.repeat(number, [entry for entry in history if entry[1]], of_tree, changed)

    def _required(self, key: bytes) -> bytes:
        value = self._database.get(key)
        if value is None:
            raise CannotFollowError(f"the copy of the state trees lacks the key 0x{key.hex()}")
        return value


def _prefix(kind: bytes, tree: Tree) -> bytes:
    """Prefix of the keys of one kind of one tree."""
    return kind + tree.prefix
