"""The methods about blocks, in both sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Final

from fastnode.api.chain_parameters import (
    BLOCK_INCLUDE_OPTIONS,
    BLOCKS_INCLUDE_OPTIONS,
    DEVELOPMENT_BLOCK,
    RELEASE_BLOCK,
)
from fastnode.api.lookups import find_block
from fastnode.api.ranges import FIRST, LIMIT, is_long_range, range_signatures
from fastnode.archiver import forms
from fastnode.jsonrpc.methods import Gone, Method, Parameter, Read, Signature
from fastnode.kernels import block_text
from fastnode.values.field_elements import BLOCK_HASH, FIELD

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["BLOCK_METHODS"]


def _get_block_by_hash(view: View, block_hash: bytes) -> bytes | None:
    blocks = view.chain.blocks
    number = blocks.number_by_hash(block_hash)
    return None if number is None else blocks.text(forms.L2_BLOCK, number)


def _get_block_by_archive(view: View, archive_root: bytes) -> bytes | None:
    blocks = view.chain.blocks
    number = blocks.number_by_archive(archive_root)
    return blocks.text(forms.L2_BLOCK, number) if number else None  # the genesis root names no block here


def _get_block_header_by_archive(view: View, archive_root: bytes) -> bytes | None:
    number = view.chain.blocks.number_by_archive(archive_root)
    return view.chain.header_json(number) if number else None  # the genesis root names no block here


def _blocks_in(form: block_text.Form, named_form: block_text.Form) -> Read:
    """``named_form`` is that of blocks that are asked for with options."""

    def read(view: View, first: int, limit: int, include: frozenset[str] | None = None) -> Iterator[bytes | None]:
        blocks = view.chain.blocks
        only_checkpointed = include is not None and "onlyCheckpointed" in include
        last = view.chain.tips.checkpointed.block.number if only_checkpointed else blocks.tip
        return map(
            blocks.text,
            repeat(form if include is None else named_form),
            _numbers(first, limit, last),
            repeat(include or ()),
        )

    return read


def _get_checkpointed_blocks(view: View, first: int, limit: int) -> Iterator[bytes | None]:
    numbers = _numbers(first, limit, view.chain.tips.checkpointed.block.number)
    return map(view.chain.blocks.text, repeat(forms.CHECKPOINTED_BLOCK), numbers)


def _numbers(first: int, limit: int, last: int) -> range:
    return range(first, min(first + limit - 1, last) + 1)


BLOCK_METHODS: Final = [
    Method(
        name="node_getBlock",
        summary="One block.",
        read={
            "both": block_text.BlockQuestion(forms.JOINT_BLOCK, find_block, named_form=forms.BLOCK_RESPONSE),
            "release": block_text.BlockQuestion(forms.L2_BLOCK, find_block),
            "development": block_text.BlockQuestion(forms.BLOCK_RESPONSE, find_block),
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
        read=_get_block_by_hash,
        is_cached=True,
        release=Signature("L2Block", (Parameter("blockHash", BLOCK_HASH),), may_be_absent=True),
        five=Gone("use getBlock with {hash}"),
    ),
    Method(
        name="node_getBlockByArchive",
        summary="The block after which the archive tree has a root.",
        read=_get_block_by_archive,
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
        read={
            "both": _blocks_in(forms.JOINT_BLOCK, forms.BLOCK_RESPONSE),
            "release": _blocks_in(forms.L2_BLOCK, forms.L2_BLOCK),
            "development": _blocks_in(forms.BLOCK_RESPONSE, forms.BLOCK_RESPONSE),
        },
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
        read=_get_block_header_by_archive,
        is_cached=True,
        release=Signature("BlockHeader", (Parameter("archive", FIELD),), may_be_absent=True),
        five=Gone("use getBlockData with {archive}"),
    ),
    Method(
        name="node_getCheckpointedBlocks",
        summary="Consecutive blocks that are in a complete checkpoint, with what L1 says about it.",
        read=_get_checkpointed_blocks,
        is_cached=True,
        in_thread=is_long_range,
        release=Signature("CheckpointedL2Block[]", (Parameter("from", FIRST), Parameter("limit", LIMIT))),
        five=Gone("use getBlocks with {onlyCheckpointed}"),
    ),
]
