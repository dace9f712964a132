"""The one place that chooses between the compiled extensions and their pure-Python twins.

``FASTNODE_NO_EXTENSIONS=1`` selects the twins.  Without it a missing or broken extension
raises :class:`~fastnode.errors.ExtensionMissingError`: a node that is silently a hundred
times slower is worse than one that does not start.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import TYPE_CHECKING

from fastnode.errors import ExtensionMissingError

__all__ = [
    "USING_TWINS",
    "append_tree",
    "avm",
    "block_text",
    "call_meter",
    "encode",
    "fast_connection",
    "field_runs",
    "hash_threads",
    "indexed_tree",
    "kept_results",
    "packed",
    "poseidon2",
    "simple_request",
    "tag_log",
    "usual_params",
    "witness_text",
]

#: True when this process runs on the pure-Python twins.
USING_TWINS = os.environ.get("FASTNODE_NO_EXTENSIONS") == "1"


def _load(name: str) -> ModuleType:
    if USING_TWINS:
        return importlib.import_module(f"fastnode._twins.{name}")
    try:
        return importlib.import_module(f"fastnode._ext.{name}")
    except ImportError as error:
        raise ExtensionMissingError(name, str(error)) from error


if TYPE_CHECKING:
    from fastnode._ext import (
        append_tree,
        avm,
        block_text,
        call_meter,
        encode,
        fast_connection,
        field_runs,
        hash_threads,
        indexed_tree,
        kept_results,
        packed,
        poseidon2,
        simple_request,
        tag_log,
        usual_params,
        witness_text,
    )
else:
    append_tree = _load("append_tree")
    avm = _load("avm")
    block_text = _load("block_text")
    call_meter = _load("call_meter")
    encode = _load("encode")
    fast_connection = _load("fast_connection")
    field_runs = _load("field_runs")
    hash_threads = _load("hash_threads")
    indexed_tree = _load("indexed_tree")
    kept_results = _load("kept_results")
    packed = _load("packed")
    poseidon2 = _load("poseidon2")
    simple_request = _load("simple_request")
    tag_log = _load("tag_log")
    usual_params = _load("usual_params")
    witness_text = _load("witness_text")
