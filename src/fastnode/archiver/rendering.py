"""From protocol types to the JSON that is stored, and sent later without being touched again."""

from __future__ import annotations

from typing import Any, Final

import orjson

from fastnode.kernels import encode
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader

__all__ = [
    "DETAILED_EXECUTION_RESULTS",
    "EXECUTION_RESULTS",
    "render",
    "render_block_messages",
]

#: ``executionResult`` of a receipt by revert code, where it says which part reverted.
DETAILED_EXECUTION_RESULTS: Final = (b"success", b"app_logic_reverted", b"teardown_reverted", b"both_reverted")
#: The same where it does not.
EXECUTION_RESULTS: Final = (b"success", b"reverted", b"reverted", b"reverted")


def render(value: BlockHeader | AppendOnlyTreeSnapshot | TxEffect | Any) -> bytes:
    """Any protocol type with ``to_json`` as compact JSON."""
    return orjson.dumps(value.to_json())


def render_block_messages(effects: tuple[TxEffect, ...]) -> bytes:
    """L2->L1 messages of one block: ``[tx][message]``, with an empty array for a tx without any."""
    return b"[" + b",".join(encode.quoted_fields(b"".join(effect.l2_to_l1_msgs)) for effect in effects) + b"]"
