"""What each world, and each of its nodes, would compute again: values of pure functions, by what they are given.

A checkpoint's blobs are committed to by who makes it, by L1, and by each node that reads it; each node hashes each
transaction, and makes the trees of the same genesis.  What a node does with them, and when, is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from tests.simulation.funded import FundedChain
from tests.sources.made_chain import SHAPE

from fastnode.kernels import hash_threads
from fastnode.protocol import kzg
from fastnode.protocol.releases import Release
from fastnode.world_state.indexed_tree import IndexedTree

__all__ = ["remember"]

_BLOBS_MAX: Final = 64
_TXS_MAX: Final = 512
_TREES_MAX: Final = 16
#: Fields of most blobs of worlds: points of the ceremony that are unpacked before.
_BLOB_FIELDS: Final = 512


def remember(releases: Sequence[Release]) -> None:
    """Call it once in a process, when all modules are read; what all worlds of the releases begin with is computed."""
    _replace(kzg.blob_commitment, _remembering_commitment(kzg.blob_commitment))
    kzg._points.between(0, _BLOB_FIELDS)
    hash_threads.start_hash = lru_cache(_TXS_MAX)(hash_threads.start_hash)  # type: ignore[assignment]
    IndexedTree.genesis = _remembering_trees(IndexedTree.genesis)  # type: ignore[method-assign]
    for release in releases:
        FundedChain(SHAPE, release)


def _replace(plain: Any, other: Any) -> None:
    """In all modules that know a function by a name of their own."""
    for module in list(sys.modules.values()):
        for name, value in list(vars(module).items()):
            if value is plain:
                setattr(module, name, other)


def _remembering_commitment(plain: Callable[..., bytes]) -> Callable[..., bytes]:
    remembered = lru_cache(_BLOBS_MAX)(plain)

    def blob_commitment(blob: bytes, known: kzg.KnownSum | None = None) -> bytes:
        return remembered(blob) if known is None else plain(blob, known)

    return blob_commitment


def _remembering_trees(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing writes into the changes of a tree that begins."""
    made = dict[Any, Any]()

    def genesis(self: IndexedTree, entries: Sequence[tuple[bytes, bytes]]) -> Any:
        key = self.tree, self._value_bytes, tuple(entries)
        if key not in made and len(made) < _TREES_MAX:
            made[key] = plain(self, entries)
        return made[key] if key in made else plain(self, entries)

    return genesis
