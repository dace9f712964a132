"""The nodes of a tree in the making, for many versions of it in one step.

The leaves of a run of blocks are known before the first of its roots is.  So each level is hashed once for all blocks
of the run: a node of a version comes from the newest child on either side that is not newer than the version.  These
are the hashes that block after block would take, no fewer; but all of them go through the kernel side by side, and no
node is a Python object.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fastnode.kernels import poseidon2
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.world_state.trees import Tree, zero_nodes

__all__ = ["Changes", "TreeVersions"]

Array = np.ndarray[Any, Any]

#: A node is one item of an array, of no type that numpy computes with.
_NODE: Final = np.dtype((np.void, FIELD_BYTES))
_ROWS_MIN: Final = 16


class Changes:
    """Leaves that are set in a run of versions, one version after the other."""

    def __init__(self) -> None:
        #: Leaves of each new group.
        self.filled: list[int] = []
        self.places: list[int] = []
        #: In the order of the places: leaves, or what they are hashed from.
        self.contents: list[bytes] = []
        #: Leaves up to the end of each version.
        self.ends: list[int] = []

    def end_version(self) -> None:
        self.ends.append(len(self.places))


class _Rows:
    """The newest nodes of one level; those that were never set are zero nodes."""

    def __init__(self, zero: np.void) -> None:
        self.zero = zero
        self.count = 0
        self.nodes = np.empty(0, _NODE)

    def extend(self, count: int) -> None:
        if count > len(self.nodes):
            larger = np.empty(max(_ROWS_MIN, count + count // 4), _NODE)
            larger[: self.count] = self.nodes[: self.count]
            self.nodes = larger
        self.nodes[self.count : count] = self.zero
        self.count = count


class _Begins:
    """Row of the first node of each group, and where the next group begins."""

    def __init__(self) -> None:
        self._count = 1
        self.rows = np.zeros(_ROWS_MIN, np.int64)

    @property
    def end(self) -> int:
        return int(self.rows[self._count - 1])

    def append(self, nodes: Array) -> None:
        """Groups of so many nodes each.  Most calls copy nothing: a long chain makes one for each few blocks."""
        count = self._count + len(nodes)
        if count > len(self.rows):
            larger = np.empty(count + count // 4, np.int64)
            larger[: self._count] = self.rows[: self._count]
            self.rows = larger
        self.rows[self._count : count] = self.end + np.cumsum(nodes)
        self._count = count


class TreeVersions:
    """The newest nodes of a tree whose places come in groups of 2^``group_levels``.

    A group has leaves in its first places only, and nothing is kept for the others.
    """

    def __init__(self, tree: Tree, group_levels: int) -> None:
        zeros = zero_nodes(tree)
        self._tree = tree
        self._group_levels = group_levels
        self._levels = [_Rows(zero) for zero in np.frombuffer(zeros, _NODE)[:-1]]
        #: For each level within a group.
        self._begins = [_Begins() for _ in range(group_levels)]
        self._groups = 0
        self._root = zeros[-FIELD_BYTES:]

    def grow(self, changes: Changes, hashes: bytes) -> list[bytes]:
        """The root after each version.  ``hashes``: of the leaves; each at most once in a version, new ones always."""
        self._extend(np.array(changes.filled, np.int64))
        roots: dict[int, bytes] = {}
        if changes.places:
            places = np.array(changes.places, np.int64)
            versions = np.repeat(np.arange(len(changes.ends)), np.diff(changes.ends, prepend=0))
            nodes = np.frombuffer(hashes, _NODE)
            for level in range(self._tree.height):
                places, versions, nodes = self._parents(level, places, versions, nodes)
            roots = {version: nodes[number].tobytes() for number, version in enumerate(versions.tolist())}
        found = []
        for version in range(len(changes.ends)):
            self._root = roots.get(version, self._root)
            found.append(self._root)
        return found

    def _extend(self, filled: Array) -> None:
        self._groups += len(filled)
        for level, rows in enumerate(self._levels):
            if level < self._group_levels:
                self._begins[level].append(-(-filled >> level))
                rows.extend(self._begins[level].end)
            else:
                rows.extend(-(-self._groups >> level - self._group_levels))

    def _parents(self, level: int, places: Array, versions: Array, nodes: Array) -> tuple[Array, Array, Array]:
        """Places, versions and hashes of the nodes above these, which become the newest of their level."""
        # Nearly in this order already, from the first level on: a stable sort goes by the runs that it finds.
        order = np.argsort((places >> 1) * (int(versions.max()) + 1) + versions, kind="stable")
        places, versions, nodes = places[order], versions[order], nodes[order]
        above = places >> 1
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (above[1:] != above[:-1]) | (versions[1:] != versions[:-1])
        number = np.cumsum(is_first) - 1
        parents = above[is_first]
        pairs = np.empty((len(parents), 2), _NODE)
        for side in (0, 1):
            own = np.flatnonzero(places & 1 == side)
            newest = np.full(len(parents), -1)
            newest[number[own]] = own
            newest = np.maximum.accumulate(newest)
            is_new = (newest >= 0) & (above[newest] == parents)
            pairs[:, side] = np.where(is_new, nodes[newest], self._newest(level, 2 * parents + side))
            self._levels[level].nodes[self._rows(level, places[own])] = nodes[own]
        hashes = poseidon2.hash_nodes(pairs.tobytes(), self._tree.separator)
        return parents, versions[is_first], np.frombuffer(hashes, _NODE)

    def _newest(self, level: int, places: Array) -> Array:
        rows, nodes = self._levels[level], np.empty(len(places), _NODE)
        at = self._rows(level, places)
        is_kept = at < self._ends(level, places)
        nodes[:] = rows.zero
        nodes[is_kept] = rows.nodes[at[is_kept]]
        return nodes

    def _rows(self, level: int, places: Array) -> Array:
        within = self._group_levels - level
        if within > 0:
            places = self._begins[level].rows[places >> within] + (places & (1 << within) - 1)
        return places

    def _ends(self, level: int, places: Array) -> Array | int:
        """Row after the last one of the group of each place."""
        within = self._group_levels - level
        return self._levels[level].count if within <= 0 else self._begins[level].rows[(places >> within) + 1]
