"""The methods about blocks, in both sets."""

from __future__ import annotations

from typing import Final

from fastnode.api.chain_parameters import (
    BLOCK_INCLUDE_OPTIONS,
    BLOCKS_INCLUDE_OPTIONS,
    DEVELOPMENT_BLOCK,
    RELEASE_BLOCK,
)
from fastnode.api.lookups import find_block
from fastnode.api.ranges import FIRST, LIMIT, is_long_range, range_signatures
from fastnode.archiver import forms
from fastnode.jsonrpc.methods import (
    Context,
    Gone,
    Method,
    MethodSet,
    Parameter,
    Read,
    Signature,
    wants_development_record,
)
from fastnode.kernels import block_text
from fastnode.values.field_elements import BLOCK_HASH, FIELD

__all__ = ["BLOCK_METHODS"]


def _block_in(method_set: MethodSet, form: block_text.Form) -> Read:
    """``form`` is what the set has of a block that is asked for without options."""
    named_form = forms.BLOCK_RESPONSE if method_set == "both" else form
    return block_text.BlockQuestion(form, find_block, named_form=named_form)


def _form_of(method_set: MethodSet, include: frozenset[str] | None) -> block_text.Form:
    if method_set == "release":
        return forms.L2_BLOCK
    return forms.BLOCK_RESPONSE if wants_development_record(method_set, include) else forms.JOINT_BLOCK


def _get_block_by_hash(context: Context, block_hash: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_hash(block_hash)
    return None if number is None else chain.blocks.text(forms.L2_BLOCK, number)


def _get_block_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_archive(archive_root)
    return chain.blocks.text(forms.L2_BLOCK, number) if number else None  # the genesis root names no block here


def _get_block_header_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_archive(archive_root)
    return chain.header_json(number) if number else None  # the genesis root names no block here


def _get_blocks(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    only_checkpointed = include is not None and "onlyCheckpointed" in include
    last = chain.tips.checkpointed.block.number if only_checkpointed else chain.blocks.tip
    form = _form_of(context.method_set, include)
    found = (chain.blocks.text(form, number, include or ()) for number in _numbers(first, limit, last))
    return context.array(found)


def _get_checkpointed_blocks(context: Context, first: int, limit: int) -> bytes:
    chain = context.view.chain
    numbers = _numbers(first, limit, chain.tips.checkpointed.block.number)
    return context.array(chain.blocks.text(forms.CHECKPOINTED_BLOCK, number) for number in numbers)


def _numbers(first: int, limit: int, last: int) -> range:
    return range(first, min(first + limit - 1, last) + 1)


BLOCK_METHODS: Final = [
    Method(
        name="node_getBlock",
        summary="One block.",
        read={
            "both": _block_in("both", forms.JOINT_BLOCK),
            "release": _block_in("release", forms.L2_BLOCK),
            "development": _block_in("development", forms.BLOCK_RESPONSE),
        },
        shape=b"b",
        is_cached=True,
        release=Signature("L2Block", (Parameter("blockParameter", RELEASE_BLOCK),), may_be_absent=True),
        development=Signature(
            "BlockResponse",
            (
                Parameter("blockParameter", DEVELOPMENT_BLOCK),
                Parameter("options", BLOCK_INCLUDE_OPTIONS, optional=True),
            ),
            may_be_absent=True,
        ),
    ),
    Method(
        name="node_getBlockByHash",
        summary="The block with a header hash.",
        handler=_get_block_by_hash,
        is_cached=True,
        release=Signature("L2Block", (Parameter("blockHash", BLOCK_HASH),), may_be_absent=True),
        five=Gone("use getBlock with {hash}"),
    ),
    Method(
        name="node_getBlockByArchive",
        summary="The block after which the archive tree has a root.",
        handler=_get_block_by_archive,
        is_cached=True,
        release=Signature("L2Block", (Parameter("archive", FIELD),), may_be_absent=True),
        five=Gone("use getBlock with {archive}"),
    ),
    Method(
        name="node_getBlockData",
        summary="A block without its transactions.",
        read=block_text.BlockQuestion(forms.BLOCK_DATA, find_block),
        shape=b"b",
        is_cached=True,
        development=Signature("BlockData", (Parameter("blockParameter", DEVELOPMENT_BLOCK),), may_be_absent=True),
    ),
    Method(
        name="node_getBlocks",
        summary="Consecutive blocks.",
        handler=_get_blocks,
        is_cached=True,
        in_thread=is_long_range,
        **range_signatures("L2Block", "from", "BlockResponse", BLOCKS_INCLUDE_OPTIONS),
    ),
    Method(
        name="node_getBlockHeader",
        summary="The header of one block; of the newest without a parameter.",
        read=block_text.BlockQuestion(forms.BLOCK_HEADER, find_block),
        shape=b"b",
        is_cached=True,
        release=Signature("BlockHeader", (Parameter("block", RELEASE_BLOCK, optional=True),), may_be_absent=True),
        five=Gone("use getBlockData, which has the header"),
    ),
    Method(
        name="node_getBlockHeaderByArchive",
        summary="The header of the block after which the archive tree has a root.",
        handler=_get_block_header_by_archive,
        is_cached=True,
        release=Signature("BlockHeader", (Parameter("archive", FIELD),), may_be_absent=True),
        five=Gone("use getBlockData with {archive}"),
    ),
    Method(
        name="node_getCheckpointedBlocks",
        summary="Consecutive blocks that are in a complete checkpoint, with what L1 says about it.",
        handler=_get_checkpointed_blocks,
        is_cached=True,
        in_thread=is_long_range,
        release=Signature("CheckpointedL2Block[]", (Parameter("from", FIRST), Parameter("limit", LIMIT))),
        five=Gone("use getBlocks with {onlyCheckpointed}"),
    ),
]
