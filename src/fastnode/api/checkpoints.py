"""The methods about checkpoints, in both sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from fastnode.api import chain_records as records
from fastnode.api.blocks import wants_development_record
from fastnode.api.chain_parameters import (
    CHECKPOINT_INCLUDE_OPTIONS,
    CHECKPOINT_PARAMETER,
    CHECKPOINTS_QUERY,
    CheckpointRange,
    CheckpointReference,
    EpochQuery,
)
from fastnode.api.lookups import find_checkpoint
from fastnode.api.ranges import is_long_range, range_signatures
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature
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
    return None if checkpoint is None else records.development_checkpoint(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    found = _stored_range(chain, first, limit)
    return context.array(_render_checkpoint(context, chain, checkpoint, include) for checkpoint in found)


def _render_checkpoint(
    context: Context, chain: ChainView, checkpoint: StoredCheckpoint, include: frozenset[str] | None
) -> bytes:
    if context.method_set == "release":
        return records.release_checkpoint(chain, checkpoint)
    if not wants_development_record(context.method_set, include):
        return records.joint_checkpoint(chain, checkpoint)
    return records.development_checkpoint(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints_data(context: Context, query: CheckpointRange | EpochQuery) -> bytes:
    chain = context.view.chain
    if isinstance(query, EpochQuery):
        found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(query.epoch))
    else:
        found = _stored_range(chain, query.first, query.limit)
    return context.array(records.checkpoint_data(checkpoint, with_price_modifier=True) for checkpoint in found)


def _get_checkpoints_data_for_epoch(context: Context, epoch: int) -> bytes:
    chain = context.view.chain
    found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(epoch))
    return context.array(records.checkpoint_data(checkpoint, with_price_modifier=False) for checkpoint in found)


def _stored_range(chain: ChainView, first: int, limit: int) -> Iterator[StoredCheckpoint]:
    """``limit`` checkpoints from number ``first`` on; there is none of number 0."""
    first = max(first, 1)
    last = chain.tips.checkpointed.checkpoint.number
    return _stored_checkpoints(chain, range(first, min(first + limit - 1, last) + 1))


def _stored_checkpoints(chain: ChainView, numbers: Iterable[int]) -> Iterator[StoredCheckpoint]:
    for number in numbers:
        checkpoint = chain.checkpoint(number)
        if checkpoint is not None:
            yield checkpoint


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
    ),
    Method(
        name="node_getCheckpointsDataForEpoch",
        summary="Complete checkpoints of an epoch without their blocks.",
        handler=_get_checkpoints_data_for_epoch,
        is_cached=True,
        in_thread=True,
        release=Signature("CheckpointData[]", (Parameter("epochNumber", _EPOCH),)),
    ),
]
