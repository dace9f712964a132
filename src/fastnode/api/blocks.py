"""The methods about blocks, in both sets.

What differs between the sets is declared in the table at the end or decided in one place,
:func:`wants_development_record`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from fastnode.api import chain_records as records
from fastnode.api.chain_parameters import (
    BLOCK_INCLUDE_OPTIONS,
    BLOCKS_INCLUDE_OPTIONS,
    DEVELOPMENT_BLOCK,
    RELEASE_BLOCK,
    BlockName,
)
from fastnode.api.lookups import block_of_tip, find_block
from fastnode.api.ranges import FIRST, LIMIT, array, is_long_range, range_signatures
from fastnode.jsonrpc.methods import Context, Method, MethodSet, Parameter, Read, Signature
from fastnode.kernels import block_text
from fastnode.values.field_elements import BLOCK_HASH, FIELD

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredCheckpoint
    from fastnode.view import View

__all__ = ["BLOCK_METHODS", "wants_development_record"]

_NO_OPTIONS: Final[frozenset[str]] = frozenset()


def wants_development_record(method_set: MethodSet, include: frozenset[str] | None) -> bool:
    """In the set ``both`` options ask for it, and so do ways to name a block that only the development set has."""
    return include is not None if method_set == "both" else method_set == "development"


def _block_in(method_set: MethodSet, form: int) -> Read:
    """``form`` is what the set has of a block that is asked for without options."""

    def with_options(view: View, block: BlockName, include: frozenset[str]) -> bytes | None:
        number = find_block(view.chain, block)
        return None if number is None else _render_block(method_set, view.chain, number, include)

    named_form = block_text.DEVELOPMENT if method_set == "both" else form
    return block_text.BlockQuestion(form, find_block, named_form=named_form, with_options=with_options)


def _render_block(method_set: MethodSet, chain: ChainView, number: int, include: frozenset[str] | None) -> bytes | None:
    if method_set == "release":
        return chain.blocks.text(block_text.RELEASE, number)
    if not wants_development_record(method_set, include):
        return chain.blocks.text(block_text.JOINT, number)
    return records.development_block(chain, number, include or _NO_OPTIONS)


def _get_block_by_hash(context: Context, block_hash: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_hash(block_hash)
    return None if number is None else chain.blocks.text(block_text.RELEASE, number)


def _get_block_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_archive(archive_root)
    return chain.blocks.text(block_text.RELEASE, number) if number else None  # the genesis root names no block here


def _get_block_header_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.blocks.number_by_archive(archive_root)
    return chain.header_json(number) if number else None  # the genesis root names no block here


def _get_blocks(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    only_checkpointed = include is not None and "onlyCheckpointed" in include
    last = block_of_tip(chain, "checkpointed") if only_checkpointed else chain.blocks.tip
    records_of_blocks = (
        _render_block(context.method_set, chain, number, include) for number in _numbers(first, limit, last)
    )
    return array(context, (record for record in records_of_blocks if record is not None))


def _get_checkpointed_blocks(context: Context, first: int, limit: int) -> bytes:
    chain = context.view.chain
    return array(context, _render_checkpointed_blocks(chain, first, limit))


def _render_checkpointed_blocks(chain: ChainView, first: int, limit: int) -> Iterator[bytes]:
    checkpoint: StoredCheckpoint | None = None
    for number in _numbers(first, limit, block_of_tip(chain, "checkpointed")):
        if checkpoint is None or checkpoint.last_block < number:
            info = chain.block_info(number)
            checkpoint = None if info is None else chain.checkpoint(info.checkpoint_number)
        block = chain.blocks.text(block_text.RELEASE, number)
        if checkpoint is not None and block is not None:
            yield records.checkpointed_block(checkpoint, block)


def _numbers(first: int, limit: int, last: int) -> range:
    return range(first, min(first + limit - 1, last) + 1)


BLOCK_METHODS: Final = [
    Method(
        name="node_getBlock",
        summary="One block.",
        read={
            "both": _block_in("both", block_text.JOINT),
            "release": _block_in("release", block_text.RELEASE),
            "development": _block_in("development", block_text.DEVELOPMENT),
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
    ),
    Method(
        name="node_getBlockByArchive",
        summary="The block after which the archive tree has a root.",
        handler=_get_block_by_archive,
        is_cached=True,
        release=Signature("L2Block", (Parameter("archive", FIELD),), may_be_absent=True),
    ),
    Method(
        name="node_getBlockData",
        summary="A block without its transactions.",
        read=block_text.BlockQuestion(block_text.DATA, find_block),
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
        read=block_text.BlockQuestion(block_text.HEADER, find_block),
        shape=b"b",
        is_cached=True,
        release=Signature("BlockHeader", (Parameter("block", RELEASE_BLOCK, optional=True),), may_be_absent=True),
    ),
    Method(
        name="node_getBlockHeaderByArchive",
        summary="The header of the block after which the archive tree has a root.",
        handler=_get_block_header_by_archive,
        is_cached=True,
        release=Signature("BlockHeader", (Parameter("archive", FIELD),), may_be_absent=True),
    ),
    Method(
        name="node_getCheckpointedBlocks",
        summary="Consecutive blocks that are in a complete checkpoint, with what L1 says about it.",
        handler=_get_checkpointed_blocks,
        is_cached=True,
        in_thread=is_long_range,
        release=Signature("CheckpointedL2Block[]", (Parameter("from", FIRST), Parameter("limit", LIMIT))),
    ),
]
