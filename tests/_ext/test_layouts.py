"""The numbers of database layouts that kernels have in their own code are those of the modules that own the layouts.

``test_block_text.py`` and ``test_witness_text.py`` go further: there the records are written by their owners.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from fastnode._twins import append_tree as append_twin
from fastnode._twins import indexed_tree as indexed_twin
from fastnode._twins import tag_log as tag_twin
from fastnode.archiver import layout as chain_layout
from fastnode.archiver import records
from fastnode.kernels import append_tree, indexed_tree, tag_log
from fastnode.log_index import layout as log_layout
from fastnode.world_state import layout as state_layout
from fastnode.world_state.trees import zero_nodes

EXTENSIONS = Path(__file__).parents[2] / "src" / "fastnode" / "_ext"


def constants(source: str) -> dict[str, int]:
    """Numbers in the enums of an extension."""
    text = (EXTENSIONS / source).read_text(encoding="utf-8")
    found = re.findall(r"^    ([A-Z][A-Z_]*) = (0x[0-9a-f]+|\d+)\b", text, re.MULTILINE)
    return {name: int(number, 0) for name, number in found}


def offsets(form: struct.Struct) -> list[int]:
    """Where each member of a big-endian struct begins, and the end."""
    members = re.findall(r"\d*s|[A-Za-z]", form.format.removeprefix(">"))
    return [struct.calcsize(">" + "".join(members[:count])) for count in range(len(members) + 1)]


def test_a_block_is_read_where_the_archiver_writes_it() -> None:
    of_kernel = constants("wire/block_text.pyx")
    places = offsets(records._BLOCK_HEAD)
    names = ("HASH", None, "CHECKPOINT_NUMBER", "INDEX_WITHIN_CHECKPOINT", None, None, "TX_COUNT", "HEADER_LENGTH")
    for name, place in zip((*names, "HEAD_BYTES"), places, strict=True):
        assert name is None or of_kernel[name] == place, name
    assert bytes([of_kernel["BLOCK_LETTER"]]) == chain_layout.BLOCK
    assert bytes([of_kernel["EFFECT_LETTER"]]) == chain_layout.EFFECT
    assert of_kernel["NUMBER_KEY_BYTES"] == len(chain_layout.block_key(0)) == len(chain_layout.checkpoint_key(0))
    assert bytes([of_kernel["CHECKPOINT_LETTER"]]) == chain_layout.CHECKPOINT
    places = offsets(records._CHECKPOINT_HEAD)
    assert (of_kernel["FRAGMENT_LENGTHS"], of_kernel["CHECKPOINT_HEAD_BYTES"]) == (places[-4], places[-1])
    assert of_kernel["EFFECT_KEY_BYTES"] == len(chain_layout.effect_key(0, 0))
    names = ("TX_BLOCK", "TX_INDEX", "TX_REVERT_CODE", "TX_BLOCK_HASH", "TX_HEAD_BYTES")
    assert [of_kernel[name] for name in names] == offsets(records._TRANSACTION_HEAD)
    assert bytes([of_kernel["TX_LETTER"]]) == chain_layout.TRANSACTION
    assert bytes([of_kernel["BY_HASH_LETTER"]]) == chain_layout.BLOCK_BY_HASH
    assert bytes([of_kernel["BY_ARCHIVE_LETTER"]]) == chain_layout.BLOCK_BY_ARCHIVE
    assert of_kernel["HASH_KEY_BYTES"] == len(chain_layout.TRANSACTION) + of_kernel["HASH_BYTES"]
    assert of_kernel["NUMBER_BYTES"] == len(chain_layout.encode_number(0))


def test_a_leaf_is_read_where_the_world_state_writes_it() -> None:
    of_kernel = constants("wire/witness_text.pxd")
    head, tail = offsets(state_layout._STATE_HEAD), offsets(state_layout._RECORD_TAIL)
    assert [of_kernel[name] for name in ("CHANGED", "NEXT_INDEX", "NEXT_KEY", "VALUE")] == head
    assert [of_kernel[name] for name in ("RECORD_INDEX", "RECORD_INSERTED")] == tail[:2]
    assert of_kernel["TAIL_BYTES"] == tail[-1]
    assert of_kernel["INDEX_BYTES"] == state_layout.INDEX_BYTES


def test_places_of_leaves_are_read_where_the_layout_has_them() -> None:
    of_kernel = constants("wire/state_answers.pyx")
    assert of_kernel["PLACE_BYTES"] == len(state_layout.pack_place(0, 0))
    assert state_layout.unpack_place(bytes(5) + b"\1" + bytes(4)) == (1, 0)


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
    nodes = module.AppendNodes(HEIGHT, zero_nodes(HEIGHT))
    growth = nodes.append(0, bytes(32 * HEIGHT), b"", bytes([1]) * 32 * 64)
    level_bytes = 1
    assert {len(key) for key, _ in growth.nodes} == {level_bytes + state_layout.INDEX_BYTES}
    assert {len(node) for _, node in growth.nodes} == {state_layout.HASH_BYTES}
    assert module.NODE_BYTES == state_layout.HASH_BYTES


@pytest.mark.parametrize("module", [indexed_tree, indexed_twin])
def test_nodes_of_an_indexed_tree_have_the_lengths_of_the_layout(module: Any) -> None:
    assert module.NODE_BYTES == state_layout.HASH_BYTES + state_layout.BLOCK_BYTES
    nodes = module.IndexedNodes(HEIGHT, zero_nodes(HEIGHT), history_bytes=0)
    update = nodes.update(1, 0, 64, list(range(64)), bytes([1]) * 32 * 64, {0: b"", 1: b""}, lambda _key: b"")
    assert {len(key) for key, _ in update.nodes} == {1 + state_layout.INDEX_BYTES}
    assert {len(node) for _, node in update.nodes} == {module.NODE_BYTES}
