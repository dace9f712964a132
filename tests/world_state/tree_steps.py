"""The five trees of a release, driven step by step as the native world state of that release was for the vectors.

A request names what is appended (``messages``, ``notes``, ``archive``), inserted (``nullifiers``) and written
(``writes``); ``pad`` fills messages, notes and nullifiers up as whole checkpoints and transactions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastnode.protocol.releases import Release
from fastnode.storage.database import SharedDatabase
from fastnode.world_state.append_only import AppendOnlyTree, Change
from fastnode.world_state.forest import Forest
from fastnode.world_state.genesis import build_genesis
from fastnode.world_state.indexed_tree import LeafChanges, TreeSize
from fastnode.world_state.snapshot import Snapshot

PADDED = {"messages": 1024, "notes": 64, "nullifiers": 64}


def field(text: str) -> bytes:
    return int(text, 16).to_bytes(32, "big")


class TreeSteps:
    """Trees in a database at ``path``, from the genesis on."""

    def __init__(self, path: Path, release: Release) -> None:
        self._database = SharedDatabase.open(path, create=True)
        self.forest = forest = Forest.within(16, release.trees)
        self.by_name = {
            "notes": forest.note_hashes,
            "messages": forest.messages,
            "archive": forest.archive,
            "nullifiers": forest.nullifiers,
            "publicData": forest.public_data,
        }
        self._block = 0
        genesis = build_genesis(forest, [])
        snapshot = Snapshot(self._database)
        self._database.write(list(genesis.changes(snapshot)))
        genesis.publish()
        snapshot.close()
        self.block_hash = genesis.record.block_hash
        order = ("nullifiers", "notes", "publicData", "messages", "archive")
        self.roots = dict(zip(order, genesis.record.roots, strict=True))
        self.sizes = dict(zip(order, genesis.record.sizes, strict=True))

    def close(self) -> None:
        self._database.release()

    def step(self, request: dict[str, Any]) -> None:
        is_padded = bool(request.get("pad"))
        for name in ("messages", "notes", "archive"):
            texts = request.get(name, [])
            leaves = [field(text) for text in ([texts] if isinstance(texts, str) else texts)]
            if is_padded and name in PADDED:
                leaves += [bytes(32)] * (-len(leaves) % PADDED[name])
            if leaves:
                self._append(name, leaves)
        nullifiers = [field(text) for text in request.get("nullifiers", [])]
        if nullifiers and is_padded:
            self._insert(nullifiers, PADDED["nullifiers"])
        elif nullifiers:
            self._insert(nullifiers, len(nullifiers))
        writes = [(field(slot), field(value)) for slot, value in request.get("writes", [])]
        if writes:
            self._write(writes)

    def _append(self, name: str, leaves: Sequence[bytes]) -> None:
        tree, run = self.by_name[name], b"".join(leaves)
        assert isinstance(tree, AppendOnlyTree)
        snapshot = Snapshot(self._database)
        growth = tree.prepare(snapshot, self.sizes[name], run)
        self._put(list(tree.changes(snapshot, growth, [(self._block, run)])))
        tree.publish(growth)
        snapshot.close()
        self.roots[name], self.sizes[name] = growth.root, growth.size

    def _insert(self, nullifiers: Sequence[bytes], width: int) -> None:
        self._block += 1
        before = TreeSize(self.sizes["nullifiers"], self.roots["nullifiers"])
        snapshot = Snapshot(self._database)
        groups = [(self._block, nullifiers)]
        changes = self.forest.nullifiers.insert_padded(snapshot, before, groups, width, block=self._block)
        self._change("nullifiers", changes)
        snapshot.close()

    def _write(self, writes: Sequence[tuple[bytes, bytes]]) -> None:
        self._block += 1
        before = TreeSize(self.sizes["publicData"], self.roots["publicData"])
        snapshot = Snapshot(self._database)
        named = [(self._block, slot, value) for slot, value in writes]
        changes = self.forest.public_data.write_sequence(snapshot, before, named, block=self._block)
        self._change("publicData", changes)
        snapshot.close()

    def _change(self, name: str, changes: LeafChanges) -> None:
        tree = self.forest.nullifiers if name == "nullifiers" else self.forest.public_data
        self._put(list(tree.changes(changes)))
        tree.publish(changes)
        self.roots[name], self.sizes[name] = changes.root, changes.size

    def _put(self, changes: Sequence[Change]) -> None:
        self._database.write(changes)

    def differences(self, request: dict[str, Any], answer: dict[str, Any]) -> list[str]:
        """Differences between the trees and the answer."""
        found = [
            f"{name}: {self.roots[name].hex()} {self.sizes[name]}, expected {tree}"
            for name, tree in answer.get("trees", {}).items()
            if (field(tree["root"]), tree["size"]) != (self.roots[name], self.sizes[name])
        ]
        snapshot = Snapshot(self._database)
        for name, paths in answer.get("paths", {}).items():
            for path in paths:
                expected = b"".join(map(field, path["path"]))
                if self._path(snapshot, name, path["index"]) != expected:
                    found.append(f"{name}: the path of leaf {path['index']}")
        for name, leaves in answer.get("low", {}).items():
            tree = self.forest.nullifiers if name == "nullifiers" else self.forest.public_data
            for text, leaf in zip(request[name], leaves, strict=True):
                low = tree.low(snapshot, field(text), self._block)
                if (low.index, low.state.next_index) != (leaf["index"], leaf["leaf"]["nextIndex"]):
                    found.append(f"{name}: the low leaf of {text}")
        snapshot.close()
        return found

    def _path(self, snapshot: Snapshot, name: str, index: int) -> bytes:
        tree = self.by_name[name]
        if isinstance(tree, AppendOnlyTree):
            return tree.path(snapshot, index, self.sizes[name], use_memory=index % 2 == 0)
        return tree.path(snapshot, index, self._block, self.sizes[name], use_memory=index % 2 == 0)
