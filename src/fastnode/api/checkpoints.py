"""The methods about checkpoints, in both sets.

Their records are spliced from stored JSON:

    release       PublishedCheckpoint, CheckpointData
    development   CheckpointResponse, CheckpointData
    joint         a release record with the keys that only the development record has added behind it;
                  a key of both keeps the release set's value

A flag that an include option names is in the set ``include``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from fastnode.api.chain_parameters import (
    ANY_CHECKPOINTS_QUERY,
    CHECKPOINT_INCLUDE_OPTIONS,
    CHECKPOINT_PARAMETER,
    CHECKPOINTS_QUERY,
    CONFIRMED_CHECKPOINT,
    CheckpointRange,
    CheckpointReference,
    CheckpointsFromSlot,
    EpochQuery,
)
from fastnode.api.lookups import find_checkpoint
from fastnode.api.ranges import is_long_range, range_signatures
from fastnode.archiver import forms
from fastnode.jsonrpc.methods import Context, Gone, Method, Parameter, Signature, wants_development_record
from fastnode.kernels import encode
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredCheckpoint

__all__ = ["CHECKPOINT_METHODS"]

_NO_OPTIONS: Final[frozenset[str]] = frozenset()
_EPOCH: Final = Integer(name="number", minimum=0, accepts_text=True)


def _get_checkpoint(
    context: Context, reference: CheckpointReference, include: frozenset[str] | None = None
) -> bytes | None:
    chain = context.view.chain
    number = find_checkpoint(chain, reference)
    checkpoint = None if number is None else chain.checkpoint(number)
    return None if checkpoint is None else _development_record(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    found = _stored_range(chain, first, limit)
    return context.array(_render_checkpoint(context, chain, checkpoint, include) for checkpoint in found)


def _render_checkpoint(
    context: Context, chain: ChainView, checkpoint: StoredCheckpoint, include: frozenset[str] | None
) -> bytes:
    if context.method_set == "release":
        return _release_record(chain, checkpoint)
    if not wants_development_record(context.method_set, include):
        return _joint_record(chain, checkpoint)
    return _development_record(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints_data(context: Context, query: CheckpointRange | EpochQuery | CheckpointsFromSlot) -> bytes:
    chain = context.view.chain
    if isinstance(query, EpochQuery):
        found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(query.epoch))
    elif isinstance(query, CheckpointsFromSlot):
        found = _stored_checkpoints(chain, _numbers_from_slot(chain, query))
    else:
        found = _stored_range(chain, query.first, query.limit)
    return context.array(_data_record(checkpoint, with_price_modifier=True) for checkpoint in found)


def _get_checkpoints_data_for_epoch(context: Context, epoch: int) -> bytes:
    chain = context.view.chain
    found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(epoch))
    return context.array(_data_record(checkpoint, with_price_modifier=False) for checkpoint in found)


def _stored_range(chain: ChainView, first: int, limit: int) -> Iterator[StoredCheckpoint]:
    """``limit`` checkpoints from number ``first`` on; there is none of number 0."""
    first = max(first, 1)
    last = chain.tips.checkpointed.checkpoint.number
    return _stored_checkpoints(chain, range(first, min(first + limit - 1, last) + 1))


def _numbers_from_slot(chain: ChainView, query: CheckpointsFromSlot) -> range:
    """Numbers of the checkpoints, nearest first; their slots grow with them."""
    last = chain.tips.checkpointed.checkpoint.number
    if query.is_reverse:
        newest = chain.checkpoint_before_slot(query.slot + 1)
        return range(newest, max(newest - query.limit, 0), -1)
    first = chain.checkpoint_before_slot(query.slot) + 1
    return range(first, min(first + query.limit - 1, last) + 1)


def _stored_checkpoints(chain: ChainView, numbers: Iterable[int]) -> Iterator[StoredCheckpoint]:
    for number in numbers:
        checkpoint = chain.checkpoint(number)
        if checkpoint is not None:
            yield checkpoint


# ---- records ---------------------------------------------------------------------------------


def _release_record(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    """PublishedCheckpoint."""
    return b"{" + _release_members(chain, checkpoint) + b"}"


def _joint_record(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    """PublishedCheckpoint and the keys of CheckpointResponse that need no option."""
    return b"{%b,%b}" % (
        _release_members(chain, checkpoint),
        _development_members(checkpoint),
    )


def _release_members(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    blocks = _join_blocks(checkpoint, lambda number: chain.blocks.text(forms.L2_BLOCK, number))
    inner = b'{"archive":%b,"header":%b,"blocks":%b,"number":%d,"feeAssetPriceModifier":"%d"}' % (
        checkpoint.archive_json,
        checkpoint.header_json,
        blocks,
        checkpoint.number,
        checkpoint.fee_asset_price_modifier,
    )
    return b'"checkpoint":%b,"l1":%b,"attestations":%b' % (inner, checkpoint.l1_json, checkpoint.attestations_json)


def _development_record(chain: ChainView, checkpoint: StoredCheckpoint, include: frozenset[str]) -> bytes:
    """CheckpointResponse.  Its blocks never carry L1 data or attestations: the checkpoint does."""
    record = b"{" + _development_members(checkpoint)
    if "includeBlocks" in include:
        of_blocks = include & {"includeTransactions"}
        blocks = _join_blocks(checkpoint, lambda number: chain.blocks.text(forms.BLOCK_RESPONSE, number, of_blocks))
        record += b',"blocks":' + blocks
    if "includeL1PublishInfo" in include:
        record += b',"l1":{"published":true,' + checkpoint.l1_json[1:]
    if "includeAttestations" in include:
        record += b',"attestations":' + checkpoint.attestations_json
    return record + b"}"


def _development_members(checkpoint: StoredCheckpoint) -> bytes:
    return (
        b'"number":%d,"header":%b,"archive":%b,"checkpointOutHash":"%b","startBlock":%d,"blockCount":%d,'
        b'"feeAssetPriceModifier":"%d"'
        % (
            checkpoint.number,
            checkpoint.header_json,
            checkpoint.archive_json,
            encode.to_hex(checkpoint.out_hash),
            checkpoint.start_block,
            checkpoint.block_count,
            checkpoint.fee_asset_price_modifier,
        )
    )


def _data_record(checkpoint: StoredCheckpoint, *, with_price_modifier: bool) -> bytes:
    """CheckpointData; the development set's also has ``feeAssetPriceModifier``."""
    modifier = b',"feeAssetPriceModifier":"%d"' % checkpoint.fee_asset_price_modifier if with_price_modifier else b""
    return (
        b'{"header":%b,"archive":%b,"checkpointOutHash":"%b","checkpointNumber":%d,"startBlock":%d,"blockCount":%d'
        b'%b,"l1":%b,"attestations":%b}'
        % (
            checkpoint.header_json,
            checkpoint.archive_json,
            encode.to_hex(checkpoint.out_hash),
            checkpoint.number,
            checkpoint.start_block,
            checkpoint.block_count,
            modifier,
            checkpoint.l1_json,
            checkpoint.attestations_json,
        )
    )


def _join_blocks(checkpoint: StoredCheckpoint, render: Callable[[int], bytes | None]) -> bytes:
    records = (render(number) for number in range(checkpoint.start_block, checkpoint.last_block + 1))
    return b"[" + b",".join(record for record in records if record is not None) + b"]"


# ---- table -----------------------------------------------------------------------------------


CHECKPOINT_METHODS: Final = [
    Method(
        name="node_getCheckpoint",
        summary="One checkpoint by number, slot or tip.",
        handler=_get_checkpoint,
        is_cached=True,
        in_thread=lambda arguments: arguments[1] is not None and "includeBlocks" in arguments[1],
        development=Signature(
            "CheckpointResponse",
            (
                Parameter("checkpointParameter", CHECKPOINT_PARAMETER),
                Parameter("options", CHECKPOINT_INCLUDE_OPTIONS, optional=True),
            ),
            may_be_absent=True,
        ),
        five=Signature(
            "CheckpointResponse",
            (
                Parameter("checkpointParameter", CONFIRMED_CHECKPOINT),
                Parameter("options", CHECKPOINT_INCLUDE_OPTIONS, optional=True),
            ),
            may_be_absent=True,
        ),
    ),
    Method(
        name="node_getCheckpoints",
        summary="Consecutive complete checkpoints.",
        handler=_get_checkpoints,
        is_cached=True,
        in_thread=is_long_range,
        **range_signatures("PublishedCheckpoint", "checkpointNumber", "CheckpointResponse", CHECKPOINT_INCLUDE_OPTIONS),
    ),
    Method(
        name="node_getCheckpointsData",
        summary="Complete checkpoints without their blocks: a range, or those of an epoch.",
        handler=_get_checkpoints_data,
        is_cached=True,
        in_thread=lambda arguments: True,
        development=Signature("CheckpointData[]", (Parameter("query", CHECKPOINTS_QUERY),)),
        five=Signature("CheckpointData[]", (Parameter("query", ANY_CHECKPOINTS_QUERY),)),
    ),
    Method(
        name="node_getCheckpointsDataForEpoch",
        summary="Complete checkpoints of an epoch without their blocks.",
        handler=_get_checkpoints_data_for_epoch,
        is_cached=True,
        in_thread=True,
        release=Signature("CheckpointData[]", (Parameter("epochNumber", _EPOCH),)),
        five=Gone("use getCheckpointsData with {epoch}"),
    ),
]
