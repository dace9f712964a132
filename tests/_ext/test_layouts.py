"""Keys and nodes that kernels make are those of the modules that own the layouts.

Members of records have their places from one enum, which the modules that write them import: ``test_block_text.py`` and
``test_witness_text.py`` compare records that are written by their owners.
"""

from __future__ import annotations

from typing import Any

import pytest

from fastnode._twins import append_tree as append_twin
from fastnode._twins import indexed_tree as indexed_twin
from fastnode._twins import tag_log as tag_twin
from fastnode.kernels import append_tree, indexed_tree, tag_log
from fastnode.log_index import layout as log_layout
from fastnode.world_state import layout as state_layout
from fastnode.world_state.trees import PUBLIC_DATA, zero_nodes


@pytest.mark.parametrize("module", [tag_log, tag_twin])
@pytest.mark.parametrize("owner", [b"", b"o" * 32])
def test_a_page_of_a_tag_is_looked_up_where_the_index_writes_it(module: Any, owner: bytes) -> None:
    tag, asked = b"t" * 32, []
    prefix = log_layout.PUBLIC_PAGE if owner else log_layout.PRIVATE_PAGE
    for page in (0, 258, log_layout.PAGE_MAX):
        module.answer(None, prefix, owner, tag, page, asked.append)
        assert asked.pop() == log_layout.page_key(owner + tag, page)


HEIGHT = 40


@pytest.mark.parametrize("module", [append_tree, append_twin])
def test_nodes_of_an_append_only_tree_have_the_lengths_of_the_layout(module: Any) -> None:
    nodes = module.AppendNodes(HEIGHT, zero_nodes(PUBLIC_DATA))
    growth = nodes.append(0, bytes(32 * HEIGHT), b"", bytes([1]) * 32 * 64)
    level_bytes = 1
    assert {len(key) for key, _ in growth.nodes} == {level_bytes + state_layout.INDEX_BYTES}
    assert {len(node) for _, node in growth.nodes} == {state_layout.HASH_BYTES}
    assert module.NODE_BYTES == state_layout.HASH_BYTES


@pytest.mark.parametrize("module", [indexed_tree, indexed_twin])
def test_nodes_of_an_indexed_tree_have_the_lengths_of_the_layout(module: Any) -> None:
    assert module.NODE_BYTES == state_layout.HASH_BYTES + state_layout.BLOCK_BYTES
    nodes = module.IndexedNodes(HEIGHT, zero_nodes(PUBLIC_DATA), history_bytes=0)
    update = nodes.update(1, 0, 64, list(range(64)), bytes([1]) * 32 * 64, {0: b"", 1: b""}, lambda _key: b"")
    assert {len(key) for key, _ in update.nodes} == {1 + state_layout.INDEX_BYTES}
    assert {len(node) for _, node in update.nodes} == {module.NODE_BYTES}
