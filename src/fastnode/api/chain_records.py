"""Records of checkpoints in the form of each method set, spliced from stored JSON.

    release       PublishedCheckpoint
    development   CheckpointResponse, CheckpointData
    joint         a release record with the keys that only the development record has added behind it;
                  a key of both keeps the release set's value

A flag that an include option names is in the set ``include``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastnode.kernels import block_text, encode

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredCheckpoint

__all__ = [
    "checkpoint_data",
    "development_checkpoint",
    "joint_checkpoint",
    "release_checkpoint",
]


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
    blocks = _join_blocks(checkpoint, lambda number: chain.blocks.text(block_text.RELEASE, number))
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
        blocks = _join_blocks(checkpoint, lambda number: chain.blocks.text(block_text.DEVELOPMENT, number, of_blocks))
        record += b',"blocks":' + blocks
    if "includeL1PublishInfo" in include:
        record += b',"l1":{"published":true,' + checkpoint.l1_json[1:]
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


def _join_blocks(checkpoint: StoredCheckpoint, render: Callable[[int], bytes | None]) -> bytes:
    records = (render(number) for number in range(checkpoint.start_block, checkpoint.last_block + 1))
    return b"[" + b",".join(record for record in records if record is not None) + b"]"
