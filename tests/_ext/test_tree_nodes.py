"""Tiles of tree nodes: the kernel and its twin."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import tree_nodes as twin
from fastnode.kernels import tree_nodes as kernel

tiles = st.sampled_from([32, 36]).flatmap(
    lambda size: st.dictionaries(st.integers(0, 61), st.binary(min_size=size, max_size=size), min_size=1)
)


@given(tiles)
def test_a_packed_tile_is_unpacked_again(nodes: dict[int, bytes]) -> None:
    node_bytes = len(next(iter(nodes.values())))
    packed = kernel.pack_tile(nodes)
    assert packed == twin.pack_tile(nodes)
    assert kernel.unpack_tile(packed, node_bytes) == twin.unpack_tile(packed, node_bytes) == nodes


@pytest.mark.parametrize("module", [kernel, twin])
def test_an_empty_tile_has_no_nodes(module: ModuleType) -> None:
    assert module.unpack_tile(b"", 32) == {}


@pytest.mark.parametrize("module", [kernel, twin])
def test_each_node_of_a_tile_has_a_position_of_its_own(module: ModuleType) -> None:
    positions = [module.tile_position(level, 64 + index) for level in range(5) for index in range(32 >> level)]
    assert positions == list(range(62))
    assert (module.TILE_LEVELS, module.TILE_LEAVES) == (5, 32)


@pytest.mark.parametrize("node_bytes", [32, 36])
@pytest.mark.parametrize("module", [kernel, twin])
def test_a_tile_that_does_not_match_its_bitmap_is_refused(module: ModuleType, node_bytes: int) -> None:
    with pytest.raises(ValueError, match="does not match its bitmap"):
        module.unpack_tile(bytes(7) + b"\x01" + bytes(node_bytes - 1), node_bytes)
    with pytest.raises(ValueError, match="tile of 40 bytes does not match its bitmap"):
        module.unpack_tile(bytes(40), node_bytes)


@pytest.mark.parametrize("module", [kernel, twin])
def test_the_entries_of_a_tree_are_found_among_changes(module: ModuleType) -> None:
    changes = [
        (b"Mtip", b"tip"),
        (b"N\x01key", b"one"),
        (b"N\x02key", b"other tree"),
        (b"H\x01keyblok", b"before"),
        (b"N\x01yek", None),
        (b"H\x01abc", b"too short"),
    ]
    assert module.entries_of(changes, b"N\x01", 0) == [(b"key", b"one"), (b"yek", b"")]
    assert module.entries_of(changes, b"H\x01", 4) == [(b"key", b"before")]
    assert module.entries_of([], b"N\x01", 0) == []


@given(st.lists(st.tuples(st.binary(max_size=6), st.none() | st.binary(max_size=2))), st.binary(max_size=2))
def test_the_kernel_finds_the_entries_that_its_twin_finds(
    changes: list[tuple[bytes, bytes | None]], prefix: bytes
) -> None:
    for tail in (0, 2):
        assert kernel.entries_of(changes, prefix, tail) == twin.entries_of(changes, prefix, tail)


@pytest.mark.parametrize("module", [kernel, twin])
def test_a_tail_of_less_than_no_bytes_is_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="less than no bytes"):
        module.entries_of([(b"N", b"")], b"N", -1)
