"""Block 0.

Its header is zero but for the state: the genesis trees.  Its hash is leaf 0 of the archive, so a network with
prefilled public data (test accounts with fee juice) has its own genesis hash and archive root.

One quirk is part of the wire: the tips of an empty chain name block 0 by the hash of the genesis *without*
prefilled data, on every network, and checkpoint 0 by the hash of an all-zero header.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from fastnode.protocol.constants import GENESIS_INDEXED_LEAVES
from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.protocol.header import EMPTY_SNAPSHOT, BlockHeader, GasFees, GlobalVariables, StateReference
from fastnode.protocol.records import FIELD, Record, member, record
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId

#: Hash of block 0 without prefilled data.
GENESIS_BLOCK_HEADER_HASH: Final = bytes.fromhex("2ff681dd7730c7b9e5650c70afa57ee81377792dfc95d98c11817b8c761ff965")
#: Hash of the all-zero checkpoint header: "checkpoint 0".
GENESIS_CHECKPOINT_HEADER_HASH: Final = bytes.fromhex(
    "007802c95d2f1ade746d97350a18ddbfdb9f5bee2803436917a3cf3d6a685a3a"
)

_ZERO_VARIABLES: Final = GlobalVariables(
    chain_id=0,
    version=0,
    block_number=0,
    slot_number=0,
    timestamp=0,
    coinbase=bytes(20),
    fee_recipient=ZERO_FIELD,
    gas_fees=GasFees(0, 0),
)


@record
class PrefilledPublicData(Record):
    """One public data leaf that exists from genesis."""

    slot: bytes = member(FIELD)
    value: bytes = member(FIELD)


def genesis_header(state: StateReference, *, has_effects_root: bool = False) -> BlockHeader:
    """The header of block 0 over the genesis trees."""
    effects_root = ZERO_FIELD if has_effects_root else None
    return BlockHeader(EMPTY_SNAPSHOT, state, ZERO_FIELD, _ZERO_VARIABLES, 0, 0, effects_root)


def genesis_public_data(prefilled: Sequence[PrefilledPublicData]) -> list[tuple[bytes, bytes]]:
    """(slot, value) of the 128 leaves of the genesis public data tree, in leaf order.

    Prefilled ones come last, ascending by slot; slots 0, 1, 2, ... with value zero fill the places before.
    ValueError when they do not fit, repeat a slot, or reach down into the filling.
    """
    filling = GENESIS_INDEXED_LEAVES - len(prefilled)
    if filling < 1:
        raise ValueError(f"{len(prefilled)} prefilled slots, at most {GENESIS_INDEXED_LEAVES - 1} allowed")
    leaves = [(field_from_int(slot), ZERO_FIELD) for slot in range(filling)]
    leaves += sorted((leaf.slot, leaf.value) for leaf in prefilled)
    if any(low[0] >= high[0] for low, high in pairwise(leaves)):
        raise ValueError("prefilled slots repeat or lie among the filling slots")
    return leaves


def genesis_tips() -> L2Tips:
    """The tips of a chain without blocks, with the quirk described above."""
    block = BlockId(0, GENESIS_BLOCK_HEADER_HASH)
    tip = TipId(block, CheckpointId(0, GENESIS_CHECKPOINT_HEADER_HASH))
    return L2Tips(proposed=block, checkpointed=tip, proven=tip, finalized=tip)
