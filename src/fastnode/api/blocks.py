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
    BlockReference,
)
from fastnode.api.lookups import block_of_tip, find_block
from fastnode.api.ranges import FIRST, LIMIT, array, is_long_range, range_signatures
from fastnode.jsonrpc.methods import Context, Method, MethodSet, Parameter, Read, Signature
from fastnode.kernels import block_text
from fastnode.values.field_elements import BLOCK_HASH, FIELD

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredBlock, StoredCheckpoint
    from fastnode.view import View

__all__ = ["BLOCK_METHODS", "wants_development_record"]

_NO_OPTIONS: Final[frozenset[str]] = frozenset()


def wants_development_record(
    method_set: MethodSet, include: frozenset[str] | None, reference: BlockReference | int | None = None
) -> bool:
    """In the set ``both``: options, and ways to name a block that only the development set has, ask for its record."""
    if method_set == "both":
        return include is not None or (isinstance(reference, BlockReference) and reference.is_development_form)
    return method_set == "development"


def _block_in(method_set: MethodSet, form: int) -> Read:
    """``form`` is what the set has of a block that is asked for without options."""

    def read(view: View, reference: BlockReference | int, include: frozenset[str] | None = None) -> bytes | None:
        chain = view.chain
        number = find_block(chain, reference)
        block = None if number is None else chain.block(number)
        return None if block is None else _render_block(method_set, chain, block, include, reference)

    return block_text.BlockQuestion(form, read)


def _render_block(
    method_set: MethodSet,
    chain: ChainView,
    block: StoredBlock,
    include: frozenset[str] | None,
    reference: BlockReference | int | None = None,
) -> bytes:
    if method_set == "release":
        return records.release_block(chain, block)
    if not wants_development_record(method_set, include, reference):
        return records.joint_block(chain, block)
    include = include or _NO_OPTIONS
    wants_checkpoint = "includeL1PublishInfo" in include or "includeAttestations" in include
    checkpoint = chain.checkpoint(block.info.checkpoint_number) if wants_checkpoint else None
    return records.development_block(chain, block, include, checkpoint)


def _get_block_by_hash(context: Context, block_hash: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.block_number_by_hash(block_hash)
    return _release_block(chain, number)


def _get_block_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    # The genesis root names no block here: 0 gives nothing, as in the reference.
    return _release_block(chain, chain.block_number_by_archive(archive_root) or None)


def _release_block(chain: ChainView, number: int | None) -> bytes | None:
    block = None if number is None else chain.block(number)
    return None if block is None else records.release_block(chain, block)


def _block_data(view: View, reference: BlockReference | int) -> bytes | None:
    number = find_block(view.chain, reference)
    return None if number is None else view.chain.block_json(number, block_text.DATA)


def _header(view: View, reference: BlockReference | int | None = None) -> bytes | None:
    chain = view.chain
    number = chain.tip_number if reference is None else find_block(chain, reference)
    return None if number is None else chain.header_json(number)


def _get_block_header_by_archive(context: Context, archive_root: bytes) -> bytes | None:
    chain = context.view.chain
    number = chain.block_number_by_archive(archive_root)
    return chain.header_json(number) if number else None  # the genesis root names no block here


def _get_blocks(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    only_checkpointed = include is not None and "onlyCheckpointed" in include
    last = block_of_tip(chain, "checkpointed") if only_checkpointed else chain.tip_number
    blocks = _stored_blocks(chain, first, limit, last)
    return array(context, (_render_block(context.method_set, chain, block, include) for block in blocks))


def _get_checkpointed_blocks(context: Context, first: int, limit: int) -> bytes:
    chain = context.view.chain
    return array(context, _render_checkpointed_blocks(chain, first, limit))


def _render_checkpointed_blocks(chain: ChainView, first: int, limit: int) -> Iterator[bytes]:
    checkpoint: StoredCheckpoint | None = None
    for block in _stored_blocks(chain, first, limit, block_of_tip(chain, "checkpointed")):
        if checkpoint is None or checkpoint.number != block.info.checkpoint_number:
            checkpoint = chain.checkpoint(block.info.checkpoint_number)
        if checkpoint is not None:
            yield records.checkpointed_block(chain, block, checkpoint)


def _stored_blocks(chain: ChainView, first: int, limit: int, last: int) -> Iterator[StoredBlock]:
    for number in range(first, min(first + limit - 1, last) + 1):
        block = chain.block(number)
        if block is not None:
            yield block


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
        read=block_text.BlockQuestion(block_text.DATA, _block_data),
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
        read=block_text.BlockQuestion(block_text.HEADER, _header),
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
