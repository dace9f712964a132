"""Releases of the network, as values: what differs between them, and which one a chain is of.

A release is a protocol, whatever number of node versions speak it.  A module of this folder brings each, its values
come from data/releases; the list is in their order::

    four    4.x   4.1.2 to 4.4.0
    five    5.x   5.0.0 to 5.2.0
    six     6.x   6.0.0

The root of the verification keys and the hash of the protocol contracts tell which release a rollup is of: both are in
its contract on L1, and in the version headers of nodes.  A file of the same form (``--release-record``) adds a release
whose differences are values only; :func:`add` takes it before anything asks.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.protocol.releases.five import FIVE
from fastnode.protocol.releases.four import FOUR
from fastnode.protocol.releases.release import (
    Addresses,
    BlobSeparators,
    MachineRules,
    MessageRules,
    Release,
    Separators,
    TreeRules,
    shipped_contracts,
)
from fastnode.protocol.releases.six import SIX

__all__ = [
    "FIVE",
    "FOUR",
    "SIX",
    "Addresses",
    "BlobSeparators",
    "MachineRules",
    "MessageRules",
    "Release",
    "Separators",
    "TreeRules",
    "add",
    "known",
    "known_network",
    "of_roots",
    "of_version",
    "read_file",
    "shipped_contracts",
]

_CHANGING: Final = threading.Lock()
_known: tuple[Release, ...] = (FOUR, FIVE, SIX)


def known() -> tuple[Release, ...]:
    """The releases in their order."""
    return _known


def add(release: Release) -> None:
    """Know one more release, in its place in the order; another one of the same roots or name is replaced by it."""
    global _known
    with _CHANGING:
        if release in _known:
            return
        others = [old for old in _known if old.roots != release.roots and old.name != release.name]
        _known = tuple(sorted((*others, release), key=lambda one: one.major))


def read_file(path: Path) -> Release:
    """The release of a file; ValueError says what is wrong with it, OSError that it cannot be read."""
    record = orjson.loads(path.read_bytes())
    if not isinstance(record, dict):
        raise ValueError("it holds no object")
    return Release.from_record(record)


def of_roots(vk_tree_root: bytes, contracts_hash: bytes) -> Release | None:
    """The release of a rollup that names these two values; None: none that is known."""
    return next((release for release in _known if release.roots == (vk_tree_root, contracts_hash)), None)


def known_network(name: str) -> Mapping[str, Any] | None:
    """The network of this name in the newest record that has it; None: no record has."""
    return next((release.networks[name] for release in reversed(_known) if name in release.networks), None)


def of_version(version: str) -> Release | None:
    """The release that a node of this version speaks; None for a version that belongs to none of them.

    Of several with the same first number: the one that lists it, else the one that began last before it; the one that
    was added last where that leaves two.
    """
    speaking = [release for release in reversed(_known) if release.has_version(version)]
    listing = [release for release in speaking if version in release.versions]
    begun = [release for release in speaking if release.begins_by(version)]
    if listing or not begun:
        return next(iter(listing or reversed(speaking)), None)
    return max(begun, key=lambda release: release.begin)
