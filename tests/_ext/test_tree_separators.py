"""Nodes that are hashed with a separator: kernels, their readable forms and a textbook's tree agree."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from fastnode._twins import append_tree as twin_append
from fastnode._twins import indexed_tree as twin_indexed
from fastnode._twins import poseidon2 as twin_poseidon2
from fastnode.kernels import append_tree, indexed_tree, poseidon2

HEIGHT = 12
SEPARATOR = (2982624097).to_bytes(32, "big")
MODULUS = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001


def parent(left: bytes, right: bytes) -> bytes:
    return bytes(poseidon2.hash_fields(SEPARATOR + left + right))


def zero_nodes() -> list[bytes]:
    nodes = [bytes(32)]
    for _ in range(HEIGHT):
        nodes.append(parent(nodes[-1], nodes[-1]))
    return nodes


ZEROS = zero_nodes()


def root_of(leaves: list[bytes]) -> bytes:
    row = list(leaves)
    for zero in ZEROS[:-1]:
        row += [zero] * (len(row) % 2 or 2 * (not row))
        row = [parent(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


def random_leaf(rng: random.Random) -> bytes:
    return rng.choice((bytes(32), b"\0" + rng.randbytes(31), (MODULUS - 1 - rng.randrange(9)).to_bytes(32, "big")))


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65, 130])
@pytest.mark.parametrize("separator", [b"", SEPARATOR])
def test_a_level_is_hashed_pair_by_pair(count: int, separator: bytes) -> None:
    rng = random.Random(count)
    nodes = b"".join(random_leaf(rng) for _ in range(2 * count))
    expected = b"".join(poseidon2.hash_fields(separator + nodes[64 * i : 64 * i + 64]) for i in range(count))
    assert poseidon2.hash_nodes(nodes, separator) == expected
    if count <= 2:
        assert twin_poseidon2.hash_nodes(nodes, separator) == expected


@pytest.mark.parametrize("module", [poseidon2, twin_poseidon2])
@pytest.mark.parametrize(
    ("nodes", "separator"),
    [
        (bytes(63), SEPARATOR),
        (bytes(96), SEPARATOR),
        (bytes(64), SEPARATOR[:31]),
        (bytes(64), SEPARATOR * 2),
        (b"\xff" * 64, SEPARATOR),
        (bytes(64), b"\xff" * 32),
    ],
)
def test_what_is_no_level_is_refused(module: ModuleType, nodes: bytes, separator: bytes) -> None:
    with pytest.raises(ValueError, match=r"nodes|separator"):
        module.hash_nodes(nodes, separator)


@pytest.mark.parametrize("seed", range(4))
def test_appended_leaves_have_a_textbooks_root(seed: int) -> None:
    rng = random.Random(seed)
    both = [
        module.AppendNodes(HEIGHT, b"".join(ZEROS), separator=SEPARATOR)  # type: ignore[attr-defined]
        for module in (append_tree, twin_append)
    ]
    leaves: list[bytes] = []
    frontier, tile = bytes(32 * HEIGHT), b""
    while len(leaves) < 200:
        run = [random_leaf(rng) for _ in range(rng.choice((1, 2, 31, 64)))]
        ours, theirs = (nodes.append(len(leaves), frontier, tile, b"".join(run)) for nodes in both)
        leaves += run
        assert (ours.root, ours.edge, ours.tiles, ours.nodes) == (theirs.root, theirs.edge, theirs.tiles, theirs.nodes)
        assert ours.root == root_of(leaves)
        both[0].publish(ours)
        both[1].publish(theirs)
        tile = dict(ours.tiles).get(len(leaves) >> 5, b"") if len(leaves) % 32 else b""
        frontier = b"".join(complete_node(leaves, level) for level in range(HEIGHT))


def complete_node(leaves: list[bytes], level: int) -> bytes:
    """The complete node left of where the next leaf goes."""
    if not len(leaves) >> level & 1:
        return bytes(32)
    start = ((len(leaves) >> level) - 1) << level
    row = leaves[start : start + (1 << level)]
    while len(row) > 1:
        row = [parent(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


@pytest.mark.parametrize("seed", range(4))
def test_changed_leaves_have_a_textbooks_root(seed: int) -> None:
    rng = random.Random(seed)
    both: list[Any] = [
        module.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=0, separator=SEPARATOR)  # type: ignore[attr-defined]
        for module in (indexed_tree, twin_indexed)
    ]
    leaves: list[bytes] = []
    tiles: dict[int, bytes] = {}
    for block in range(12):
        size = len(leaves) + rng.choice((2, 3, 40))
        indexes = sorted({0, *(rng.randrange(size) for _ in range(5)), *range(len(leaves), size)})
        hashes = {index: random_leaf(rng) for index in indexes}
        opened = {index >> 5: tiles.get(index >> 5, b"") for index in indexes}
        arguments = (block, len(leaves), size, indexes, b"".join(hashes.values()), opened, lambda _: b"")
        ours, theirs = (nodes.update(*arguments) for nodes in both)
        leaves = [hashes.get(index, leaves[index] if index < len(leaves) else bytes(32)) for index in range(size)]
        assert (ours.root, ours.tiles, ours.nodes) == (theirs.root, theirs.tiles, theirs.nodes)
        assert ours.root == root_of(leaves)
        tiles |= dict(ours.tiles)
        both[0].publish(ours)
        both[1].publish(theirs)


@pytest.mark.parametrize("separator", [SEPARATOR[:31], SEPARATOR * 2])
def test_a_separator_is_one_field(separator: bytes) -> None:
    for module in (append_tree, twin_append):
        with pytest.raises(ValueError, match="separator"):
            module.AppendNodes(HEIGHT, b"".join(ZEROS), separator=separator)
    for module in (indexed_tree, twin_indexed):
        with pytest.raises(ValueError, match="separator"):
            module.IndexedNodes(HEIGHT, b"".join(ZEROS), history_bytes=0, separator=separator)
