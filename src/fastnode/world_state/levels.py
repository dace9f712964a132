"""Levels of a tree that are in memory: the uppermost ones, as many as a limit allows.

A start loads few of them, and the rest when requests are served already; a tree that grows lets the lowest ones go.
Reads below the levels in memory go to the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from fastnode.kernels import tree_nodes
from fastnode.world_state.snapshot import Snapshot
from fastnode.world_state.trees import NODES_AT_OPEN

__all__ = ["Levels"]


class _Nodes(Protocol):
    """The nodes of a tree in memory, from ``first_level`` up."""

    @property
    def first_level(self) -> int: ...

    def raise_first_level(self, level: int) -> None: ...

    def memory_bytes(self) -> int: ...

    def load(self, entries: Iterator[tuple[bytes, bytes]]) -> None: ...


class Levels:
    """``prefix``: of the keys of nodes in the database; ``node_bytes``: memory of one node; ``height``: of the tree."""

    def __init__(self, nodes: _Nodes, height: int, prefix: bytes, *, node_bytes: int, memory_bytes: int) -> None:
        self._nodes = nodes
        self._height = height
        self._prefix = prefix
        self._node_bytes = node_bytes
        self._memory_bytes = memory_bytes

    def choose_at_open(self, size: int) -> None:
        """Keep only so many levels of a tree of ``size`` leaves as are loaded in a few milliseconds."""
        level = self._nodes.first_level
        while level < self._height and (size >> level > NODES_AT_OPEN or not self._fit_from(level, size)):
            level += 1
        self._nodes.raise_first_level(level)

    def load(self, snapshot: Snapshot, end: int) -> None:
        """Load the levels that are kept, below level ``end``."""
        for level in range(self._nodes.first_level, end):
            with self.stored(snapshot, level) as entries:
                self._nodes.load(entries)

    def next_to_load(self, size: int) -> int | None:
        """The level below those in memory; None when there is none, or no room for it."""
        level = self._nodes.first_level - 1
        return level if level >= tree_nodes.TILE_LEVELS and self._fit_from(level, size) else None

    def keep_within_limit(self, *, history_bytes: int = 0) -> None:
        """Let the lowest levels go, each half as large as all above it; ``history_bytes`` have a limit of their own."""
        nodes = self._nodes
        while nodes.memory_bytes() - history_bytes > self._memory_bytes and nodes.first_level < self._height:
            nodes.raise_first_level(nodes.first_level + 1)

    @contextmanager
    def stored(self, snapshot: Snapshot, level: int) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """(level u8 || index u48, node) of the stored nodes of one level."""
        with snapshot.scan(self._prefix + bytes([level])) as entries:
            yield ((key[len(self._prefix) :], node) for key, node in entries)

    def _fit_from(self, level: int, size: int) -> bool:
        """True if this level of a tree of ``size`` leaves has room in memory together with all above it."""
        return (size >> level) * 2 * self._node_bytes <= self._memory_bytes
