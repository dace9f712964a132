"""The methods about checkpoints, in both sets.  Their records are tables in archiver/forms.py."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

from fastnode.api.chain_parameters import (
    ANY_CHECKPOINTS_QUERY,
    CHECKPOINT_INCLUDE_OPTIONS,
    CHECKPOINT_PARAMETER,
    CHECKPOINTS_QUERY,
    CONFIRMED_CHECKPOINT,
    CheckpointRange,
    CheckpointReference,
    CheckpointReferenceKind,
    CheckpointsFromSlot,
    EpochQuery,
)
from fastnode.api.lookups import checkpoint_of_tip
from fastnode.api.ranges import is_long_range, range_signatures
from fastnode.archiver import forms
from fastnode.jsonrpc.methods import Gone, Method, Parameter, Read, Signature, has_option
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.kernels import block_text
    from fastnode.view import View

__all__ = ["CHECKPOINT_METHODS"]

_EPOCH: Final = Integer(name="number", minimum=0, accepts_text=True)


def _get_checkpoint(view: View, reference: CheckpointReference, include: frozenset[str] | None = None) -> bytes | None:
    number = _find_checkpoint(view.chain, reference)
    if number is None:
        return None
    return view.chain.blocks.checkpoint(forms.CHECKPOINT_RESPONSE, forms.BLOCK_IN_CHECKPOINT, number, include or ())


def _find_checkpoint(chain: ChainView, reference: CheckpointReference) -> int | None:
    """The number of the checkpoint meant, or None if there is none; it need not be complete."""
    if reference.kind is CheckpointReferenceKind.NUMBER:
        return int(reference.value)
    if reference.kind is CheckpointReferenceKind.SLOT:
        return chain.checkpoint_number_by_slot(reference.value)
    return checkpoint_of_tip(chain, reference.value)


def _checkpoints_in(form: block_text.Form, block_form: block_text.Form) -> Read:
    """``form`` is that of checkpoints that are asked for without options, ``block_form`` that of their blocks."""

    def read(view: View, first: int, limit: int, include: frozenset[str] | None = None) -> Iterator[bytes | None]:
        numbers = _range(view.chain, first, limit)
        if include is None:
            return _written(view.chain, numbers, form, block_form)
        return _written(view.chain, numbers, forms.CHECKPOINT_RESPONSE, forms.BLOCK_IN_CHECKPOINT, include)

    return read


def _get_checkpoints_data(
    view: View, query: CheckpointRange | EpochQuery | CheckpointsFromSlot
) -> Iterator[bytes | None]:
    chain = view.chain
    if isinstance(query, EpochQuery):
        numbers = chain.checkpoint_numbers_of_epoch(query.epoch)
    elif isinstance(query, CheckpointsFromSlot):
        numbers = _numbers_from_slot(chain, query)
    else:
        numbers = _range(chain, query.first, query.limit)
    return _written(chain, numbers, forms.CHECKPOINT_DATA)


def _get_checkpoints_data_for_epoch(view: View, epoch: int) -> Iterator[bytes | None]:
    numbers = view.chain.checkpoint_numbers_of_epoch(epoch)
    return _written(view.chain, numbers, forms.CHECKPOINT_DATA_IN_RELEASE)


def _written(
    chain: ChainView,
    numbers: Iterable[int],
    form: block_text.Form,
    block_form: block_text.Form = forms.BLOCK_HEADER,
    options: Container[str] = (),
) -> Iterator[bytes | None]:
    return map(chain.blocks.checkpoint, repeat(form), repeat(block_form), numbers, repeat(options))


def _range(chain: ChainView, first: int, limit: int) -> range:
    """``limit`` checkpoints from number ``first`` on; there is none of number 0."""
    first = max(first, 1)
    last = chain.tips.checkpointed.checkpoint.number
    return range(first, min(first + limit - 1, last) + 1)


def _numbers_from_slot(chain: ChainView, query: CheckpointsFromSlot) -> range:
    """Numbers of the checkpoints, nearest first; their slots grow with them."""
    last = chain.tips.checkpointed.checkpoint.number
    if query.is_reverse:
        newest = chain.checkpoint_before_slot(query.slot + 1)
        return range(newest, max(newest - query.limit, 0), -1)
    first = chain.checkpoint_before_slot(query.slot) + 1
    return range(first, min(first + query.limit - 1, last) + 1)


# ---- table -----------------------------------------------------------------------------------


CHECKPOINT_METHODS: Final = [
    Method(
        name="node_getCheckpoint",
        summary="One checkpoint by number, slot or tip.",
        read=_get_checkpoint,
        is_cached=True,
        in_thread=has_option("includeBlocks", argument=1),
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
        read={
            "both": _checkpoints_in(forms.JOINT_CHECKPOINT, forms.L2_BLOCK),
            "release": _checkpoints_in(forms.PUBLISHED_CHECKPOINT, forms.L2_BLOCK),
            "development": _checkpoints_in(forms.CHECKPOINT_RESPONSE, forms.BLOCK_IN_CHECKPOINT),
        },
        is_cached=True,
        in_thread=is_long_range,
        **range_signatures("PublishedCheckpoint", "checkpointNumber", "CheckpointResponse", CHECKPOINT_INCLUDE_OPTIONS),
    ),
    Method(
        name="node_getCheckpointsData",
        summary="Complete checkpoints without their blocks: a range, or those of an epoch.",
        read=_get_checkpoints_data,
        is_cached=True,
        in_thread=True,
        development=Signature("CheckpointData[]", (Parameter("query", CHECKPOINTS_QUERY),)),
        five=Signature("CheckpointData[]", (Parameter("query", ANY_CHECKPOINTS_QUERY),)),
    ),
    Method(
        name="node_getCheckpointsDataForEpoch",
        summary="Complete checkpoints of an epoch without their blocks.",
        read=_get_checkpoints_data_for_epoch,
        is_cached=True,
        in_thread=True,
        release=Signature("CheckpointData[]", (Parameter("epochNumber", _EPOCH),)),
        five=Gone("use getCheckpointsData with {epoch}"),
    ),
]
