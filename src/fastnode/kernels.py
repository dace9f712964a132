"""The one place that chooses between the compiled extensions and their pure-Python twins.

``FASTNODE_NO_EXTENSIONS=1`` selects the twins, which are in the repository and in no wheel.  Hashes, trees, the public
machine and encodings have one: the same rules to be read, under the same tests.  The plumbing of requests and peers has
none.  A missing or broken extension raises :class:`~fastnode.errors.ExtensionMissingError`: a node that is silently a
hundred times slower is worse than one that does not start.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING

from fastnode.errors import ExtensionMissingError

__all__ = [
    "TWINS",
    "USING_TWINS",
    "append_tree",
    "avm",
    "block_text",
    "cached_responses",
    "call_meter",
    "calls",
    "checked_reads",
    "clock",
    "effect_logs",
    "encode",
    "fast_connection",
    "field_runs",
    "grumpkin",
    "hash_threads",
    "indexed_tree",
    "json_shape",
    "layouts",
    "leaf_cache",
    "leveldb_table",
    "loop_time",
    "older_nodes",
    "packed",
    "payer",
    "peer_frames",
    "poseidon2",
    "rlp",
    "simple_request",
    "state_answers",
    "stored_text",
    "tag_log",
    "tree_nodes",
    "usual_params",
    "witness_text",
]

#: True when this process runs on the pure-Python twins.
USING_TWINS = os.environ.get("FASTNODE_NO_EXTENSIONS") == "1"

#: Kernels that have a twin.
TWINS = frozenset(
    {
        "append_tree",
        "avm",
        "block_text",
        "effect_logs",
        "encode",
        "field_runs",
        "grumpkin",
        "indexed_tree",
        "leveldb_table",
        "older_nodes",
        "poseidon2",
        "state_answers",
        "stored_text",
        "tag_log",
        "tree_nodes",
        "witness_text",
    }
)


def _load(subject: str, name: str) -> ModuleType:
    try:
        if USING_TWINS and name in TWINS:
            return importlib.import_module(f"fastnode._twins.{name}")
        return importlib.import_module(f"fastnode._ext.{subject}.{name}")
    except ImportError as error:
        raise ExtensionMissingError(name, str(error)) from error


if TYPE_CHECKING:
    from fastnode._ext.avm import avm, grumpkin
    from fastnode._ext.hash import field_runs, hash_threads, poseidon2
    from fastnode._ext.logs import effect_logs, tag_log
    from fastnode._ext.peers import peer_frames, rlp
    from fastnode._ext.storage import checked_reads, layouts, leveldb_table, stored_text
    from fastnode._ext.trees import append_tree, indexed_tree, leaf_cache, older_nodes, tree_nodes
    from fastnode._ext.wire import (
        block_text,
        cached_responses,
        call_meter,
        calls,
        clock,
        encode,
        fast_connection,
        json_shape,
        loop_time,
        packed,
        payer,
        simple_request,
        state_answers,
        usual_params,
        witness_text,
    )
else:
    append_tree = _load("trees", "append_tree")
    avm = _load("avm", "avm")
    block_text = _load("wire", "block_text")
    call_meter = _load("wire", "call_meter")
    calls = _load("wire", "calls")
    checked_reads = _load("storage", "checked_reads")
    clock = _load("wire", "clock")
    effect_logs = _load("logs", "effect_logs")
    encode = _load("wire", "encode")
    fast_connection = _load("wire", "fast_connection")
    field_runs = _load("hash", "field_runs")
    grumpkin = _load("avm", "grumpkin")
    hash_threads = _load("hash", "hash_threads")
    indexed_tree = _load("trees", "indexed_tree")
    json_shape = _load("wire", "json_shape")
    cached_responses = _load("wire", "cached_responses")
    layouts = _load("storage", "layouts")
    leaf_cache = _load("trees", "leaf_cache")
    leveldb_table = _load("storage", "leveldb_table")
    loop_time = _load("wire", "loop_time")
    older_nodes = _load("trees", "older_nodes")
    packed = _load("wire", "packed")
    payer = _load("wire", "payer")
    poseidon2 = _load("hash", "poseidon2")
    simple_request = _load("wire", "simple_request")
    state_answers = _load("wire", "state_answers")
    stored_text = _load("storage", "stored_text")
    tag_log = _load("logs", "tag_log")
    tree_nodes = _load("trees", "tree_nodes")
    usual_params = _load("wire", "usual_params")
    witness_text = _load("wire", "witness_text")

    #: Kernels of nodes in the peer-to-peer network, with their folders: loaded when they are asked for.
    _ON_DEMAND = {"peer_frames": "peers", "rlp": "peers"}

    def __getattr__(name: str) -> ModuleType:
        if name not in _ON_DEMAND:
            raise AttributeError(f"there is no kernel {name!r}")
        return _load(_ON_DEMAND[name], name)
