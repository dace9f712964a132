"""Records of blocks and checkpoints in the form of each method set, spliced from stored JSON.

    release       L2Block, CheckpointedL2Block, PublishedCheckpoint
    development   BlockResponse, BlockData, CheckpointResponse
    joint         a release record with the keys that only the development record has added behind it;
                  a key of both keeps the release set's value

A flag that an include option names is in the set ``include``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from fastnode.kernels import encode

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredBlock, StoredCheckpoint

__all__ = [
    "checkpoint_data",
    "checkpointed_block",
    "development_block",
    "development_checkpoint",
    "joint_block",
    "joint_checkpoint",
    "release_block",
    "release_checkpoint",
]

#: What the release set has as the archive of block 0.
_EMPTY_ARCHIVE: Final = b'{"root":"0x%b","nextAvailableLeafIndex":0}' % (b"0" * 64)
_NOT_PUBLISHED: Final = b'{"published":false}'

# ---- blocks ---------------------------------------------------------------------------------


def release_block(chain: ChainView, block: StoredBlock) -> bytes:
    """L2Block."""
    return b"{" + _release_block_members(chain, block) + b"}"


def joint_block(chain: ChainView, block: StoredBlock) -> bytes:
    """L2Block and the keys ``hash`` and ``number`` of BlockResponse."""
    info = block.info
    members = _release_block_members(chain, block)
    return b'{%b,"hash":"%b","number":%d}' % (members, encode.to_hex(info.hash), info.number)


def _release_block_members(chain: ChainView, block: StoredBlock) -> bytes:
    info = block.info
    return b'"archive":%b,"header":%b,"body":%b,"checkpointNumber":%d,"indexWithinCheckpoint":%d' % (
        block.archive_json if info.number else _EMPTY_ARCHIVE,
        block.header_json,
        _body(chain, block),
        info.checkpoint_number,
        info.index_within_checkpoint,
    )


def development_block(
    chain: ChainView, block: StoredBlock, include: frozenset[str], checkpoint: StoredCheckpoint | None
) -> bytes:
    """BlockResponse.  ``checkpoint`` is the block's, None while it is not complete."""
    info = block.info
    record = b'{"header":%b,"archive":%b,"hash":"%b","checkpointNumber":%d,"indexWithinCheckpoint":%d,"number":%d' % (
        block.header_json,
        block.archive_json,
        encode.to_hex(info.hash),
        info.checkpoint_number,
        info.index_within_checkpoint,
        info.number,
    )
    if "includeTransactions" in include:
        record += b',"body":' + _body(chain, block)
    if "includeL1PublishInfo" in include:
        record += b',"l1":' + _publish_info(checkpoint)
    if "includeAttestations" in include:
        record += b',"attestations":' + (checkpoint.attestations_json if checkpoint else b"[]")
    return record + b"}"


def checkpointed_block(chain: ChainView, block: StoredBlock, checkpoint: StoredCheckpoint) -> bytes:
    """CheckpointedL2Block."""
    return b'{"checkpointNumber":%d,"block":%b,"l1":%b,"attestations":%b}' % (
        checkpoint.number,
        release_block(chain, block),
        checkpoint.l1_json,
        checkpoint.attestations_json,
    )


def _body(chain: ChainView, block: StoredBlock) -> bytes:
    return chain.body_of(block.info)


def _publish_info(checkpoint: StoredCheckpoint | None) -> bytes:
    """L1PublishInfo: the stored L1PublishedData behind one more key."""
    return _NOT_PUBLISHED if checkpoint is None else b'{"published":true,' + checkpoint.l1_json[1:]


# ---- checkpoints ----------------------------------------------------------------------------


def release_checkpoint(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    """PublishedCheckpoint."""
    return b"{" + _release_checkpoint_members(chain, checkpoint) + b"}"


def joint_checkpoint(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    """PublishedCheckpoint and the keys of CheckpointResponse that need no option."""
    return b"{%b,%b}" % (
        _release_checkpoint_members(chain, checkpoint),
        _development_checkpoint_members(checkpoint),
    )


def _release_checkpoint_members(chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    blocks = _join_blocks(chain, checkpoint, lambda block: release_block(chain, block))
    inner = b'{"archive":%b,"header":%b,"blocks":%b,"number":%d,"feeAssetPriceModifier":"%d"}' % (
        checkpoint.archive_json,
        checkpoint.header_json,
        blocks,
        checkpoint.number,
        checkpoint.fee_asset_price_modifier,
    )
    return b'"checkpoint":%b,"l1":%b,"attestations":%b' % (inner, checkpoint.l1_json, checkpoint.attestations_json)


def development_checkpoint(chain: ChainView, checkpoint: StoredCheckpoint, include: frozenset[str]) -> bytes:
    """CheckpointResponse.  Its blocks never carry L1 data or attestations: the checkpoint does."""
    record = b"{" + _development_checkpoint_members(checkpoint)
    if "includeBlocks" in include:
        of_blocks = include & {"includeTransactions"}
        render = lambda block: development_block(chain, block, of_blocks, checkpoint)  # noqa: E731
        record += b',"blocks":' + _join_blocks(chain, checkpoint, render)
    if "includeL1PublishInfo" in include:
        record += b',"l1":' + _publish_info(checkpoint)
    if "includeAttestations" in include:
        record += b',"attestations":' + checkpoint.attestations_json
    return record + b"}"


def _development_checkpoint_members(checkpoint: StoredCheckpoint) -> bytes:
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


def checkpoint_data(checkpoint: StoredCheckpoint, *, with_price_modifier: bool) -> bytes:
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


def _join_blocks(chain: ChainView, checkpoint: StoredCheckpoint, render: Callable[[StoredBlock], bytes]) -> bytes:
    return b"[" + b",".join(render(block) for block in _blocks_of(chain, checkpoint)) + b"]"


def _blocks_of(chain: ChainView, checkpoint: StoredCheckpoint) -> Iterator[StoredBlock]:
    for number in range(checkpoint.start_block, checkpoint.last_block + 1):
        block = chain.block(number)
        if block is not None:
            yield block
