"""The methods that the chain itself answers, in both sets.

Handlers are thin: find the number, splice the record.  What differs between the sets is declared in
the table at the end or decided in one place, :func:`_wants_development_record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from fastnode.api import chain_records as records
from fastnode.api.chain_parameters import (
    BLOCK_INCLUDE_OPTIONS,
    BLOCKS_INCLUDE_OPTIONS,
    CHAIN_TIP,
    CHECKPOINT_INCLUDE_OPTIONS,
    CHECKPOINT_PARAMETER,
    CHECKPOINTS_QUERY,
    DEVELOPMENT_BLOCK,
    RELEASE_BLOCK,
    BlockReference,
    CheckpointRange,
    CheckpointReference,
    EpochQuery,
)
from fastnode.api.lookups import block_of_tip, checkpoint_of_tip, find_block, find_checkpoint
from fastnode.api.outbox_witness import OutboxRoot, witness_method
from fastnode.jsonrpc.methods import Context, DirectHandler, Method, Parameter, Signature, Usual, common
from fastnode.kernels import block_text, encode
from fastnode.values.field_elements import BLOCK_HASH, FIELD, TX_HASH
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredBlock, StoredCheckpoint
    from fastnode.view import View

__all__ = ["METHODS", "methods"]

#: Blocks or checkpoints in one answer.
RANGE_LENGTH_MAX: Final = 50
#: A range of more than this is read in a thread: each block may hold hundreds of kilobytes.
RANGE_LENGTH_ON_LOOP_MAX: Final = 2
#: Each checkpoint inserts this many leaves into the L1-to-L2 message tree, padded with zeros.
L1_TO_L2_MESSAGES_PER_CHECKPOINT: Final = 1024

_TRUE: Final = b"true"
#: Why a transaction is gone that no block has.
_DROPPED: Final = "Tx dropped by P2P node"
_FALSE: Final = b"false"
_NO_OPTIONS: Final[frozenset[str]] = frozenset()


def _wants_development_record(
    context: Context, include: frozenset[str] | None, reference: BlockReference | None = None
) -> bool:
    """In the set ``both``: options, and ways to name a block that only the development set has, ask for its record."""
    if context.method_set == "both":
        return include is not None or (reference is not None and reference.is_development_form)
    return context.method_set == "development"


# ---- tips -----------------------------------------------------------------------------------


def _get_block_number(context: Context, tip: str | None = None) -> bytes:
    return b"%d" % block_of_tip(context.view.chain, tip or "proposed")


def _get_checkpoint_number(context: Context, tip: str | None = None) -> bytes:
    return b"%d" % checkpoint_of_tip(context.view.chain, tip or "checkpointed")


def _get_proven_block_number(context: Context) -> bytes:
    return b"%d" % block_of_tip(context.view.chain, "proven")


def _get_checkpointed_block_number(context: Context) -> bytes:
    return b"%d" % block_of_tip(context.view.chain, "checkpointed")


def _get_tips(context: Context) -> bytes:
    return context.view.chain.tips_json


# ---- blocks ---------------------------------------------------------------------------------


def _get_block(context: Context, reference: BlockReference, include: frozenset[str] | None = None) -> bytes | None:
    chain = context.view.chain
    block = _find_stored_block(chain, reference)
    if block is None:
        return None
    return _render_block(context, chain, block, include, reference)


def _render_block(
    context: Context,
    chain: ChainView,
    block: StoredBlock,
    include: frozenset[str] | None,
    reference: BlockReference | None = None,
) -> bytes:
    if context.method_set == "release":
        return records.release_block(chain, block)
    if not _wants_development_record(context, include, reference):
        return records.joint_block(chain, block)
    include = include or _NO_OPTIONS
    wants_checkpoint = "includeL1PublishInfo" in include or "includeAttestations" in include
    checkpoint = chain.checkpoint(block.info.checkpoint_number) if wants_checkpoint else None
    return records.development_block(chain, block, include, checkpoint)


def _block_at(form: int) -> DirectHandler:
    """A block that is named by its number and asked for without options."""
    return lambda view, number: view.chain.block_json(number, form)


def _find_stored_block(chain: ChainView, reference: BlockReference) -> StoredBlock | None:
    number = find_block(chain, reference)
    return None if number is None else chain.block(number)


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


def _get_block_data(context: Context, reference: BlockReference) -> bytes | None:
    block = _find_stored_block(context.view.chain, reference)
    return None if block is None else records.block_data(block)


def _header_at(view: View, number: int) -> bytes | None:
    return view.chain.header_json(number)


def _get_block_header(context: Context, reference: BlockReference | None = None) -> bytes | None:
    chain = context.view.chain
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
    return _array(context, (_render_block(context, chain, block, include) for block in blocks))


def _get_checkpointed_blocks(context: Context, first: int, limit: int) -> bytes:
    chain = context.view.chain
    return _array(context, _render_checkpointed_blocks(chain, first, limit))


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


# ---- checkpoints ----------------------------------------------------------------------------


def _get_checkpoint(
    context: Context, reference: CheckpointReference, include: frozenset[str] | None = None
) -> bytes | None:
    chain = context.view.chain
    number = find_checkpoint(chain, reference)
    checkpoint = None if number is None else chain.checkpoint(number)
    return None if checkpoint is None else records.development_checkpoint(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints(context: Context, first: int, limit: int, include: frozenset[str] | None = None) -> bytes:
    chain = context.view.chain
    return _array(
        context,
        (_render_checkpoint(context, chain, checkpoint, include) for checkpoint in _stored_range(chain, first, limit)),
    )


def _render_checkpoint(
    context: Context, chain: ChainView, checkpoint: StoredCheckpoint, include: frozenset[str] | None
) -> bytes:
    if context.method_set == "release":
        return records.release_checkpoint(chain, checkpoint)
    if not _wants_development_record(context, include):
        return records.joint_checkpoint(chain, checkpoint)
    return records.development_checkpoint(chain, checkpoint, include or _NO_OPTIONS)


def _get_checkpoints_data(context: Context, query: CheckpointRange | EpochQuery) -> bytes:
    chain = context.view.chain
    if isinstance(query, EpochQuery):
        found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(query.epoch))
    else:
        found = _stored_range(chain, query.first, query.limit)
    return _array(context, (records.checkpoint_data(checkpoint, with_price_modifier=True) for checkpoint in found))


def _get_checkpoints_data_for_epoch(context: Context, epoch: int) -> bytes:
    chain = context.view.chain
    found = _stored_checkpoints(chain, chain.checkpoint_numbers_of_epoch(epoch))
    return _array(context, (records.checkpoint_data(checkpoint, with_price_modifier=False) for checkpoint in found))


def _stored_range(chain: ChainView, first: int, limit: int) -> Iterator[StoredCheckpoint]:
    """``limit`` checkpoints from number ``first`` on; there is none of number 0."""
    first = max(first, 1)
    last = checkpoint_of_tip(chain, "checkpointed")
    return _stored_checkpoints(chain, range(first, min(first + limit - 1, last) + 1))


def _stored_checkpoints(chain: ChainView, numbers: Iterable[int]) -> Iterator[StoredCheckpoint]:
    for number in numbers:
        checkpoint = chain.checkpoint(number)
        if checkpoint is not None:
            yield checkpoint


# ---- transactions ---------------------------------------------------------------------------


def _get_tx_effect(context: Context, tx_hash: bytes) -> bytes | None:
    return context.view.chain.tx_effect_json(tx_hash)


class TxNotes(Protocol):
    """What a node that builds blocks can say of a transaction beside its effect."""

    def debug_logs_json(self, tx_hash: bytes) -> bytes | None:
        """DebugLog[] of its public functions."""

    def dropped_reason(self, tx_hash: bytes) -> str | None:
        """Why no block took it."""


class _Receipts:
    """Receipts: of the chain first, then of the pool; what neither knows counts as dropped."""

    def __init__(self, is_pending: Callable[[bytes], bool], notes: TxNotes | None) -> None:
        self._is_pending = is_pending
        self._notes = notes

    def get(self, context: Context, tx_hash: bytes) -> bytes:
        return self.get_from(context.view, tx_hash)

    def get_from(self, view: View, tx_hash: bytes) -> bytes:
        # Asked before the chain: a tx that is mined in between is found there, never missed by both.
        is_pending = self._is_pending(tx_hash)
        mined = view.chain.tx_receipt_json(tx_hash)
        if mined is not None:
            logs = None if self._notes is None else self._notes.debug_logs_json(tx_hash)
            return mined if logs is None else b'%b,"debugLogs":%b}' % (mined[:-1], logs)
        if is_pending:
            return b'{"txHash":"%b","status":"pending"}' % encode.to_hex(tx_hash)
        reason = None if self._notes is None else self._notes.dropped_reason(tx_hash)
        text = orjson.dumps(_DROPPED if reason is None else f"{_DROPPED}: {reason}")
        return b'{"txHash":"%b","status":"dropped","error":%b}' % (encode.to_hex(tx_hash), text)


# ---- messages -------------------------------------------------------------------------------


def _get_l1_to_l2_message_checkpoint(context: Context, message: bytes) -> bytes | None:
    return _message_checkpoint(context.view, message)


def _message_checkpoint(view: View, message: bytes) -> bytes | None:
    index = view.chain.l1_to_l2_message_index(message)
    return None if index is None else b"%d" % (index // L1_TO_L2_MESSAGES_PER_CHECKPOINT + 1)


def _is_l1_to_l2_message_synced(context: Context, message: bytes) -> bytes:
    return _is_message_synced(context.view, message)


def _is_message_synced(view: View, message: bytes) -> bytes:
    return _FALSE if view.chain.l1_to_l2_message_index(message) is None else _TRUE


def _get_l2_to_l1_messages(context: Context, epoch: int) -> bytes:
    return context.view.chain.l2_to_l1_messages_json(epoch)


# ---- the node -------------------------------------------------------------------------------


def _get_node_info(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_info)


def _get_node_version(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_version)


def _get_version(context: Context) -> bytes:
    return b"%d" % context.view.chain.chain.rollup_version


def _get_chain_id(context: Context) -> bytes:
    return b"%d" % context.view.chain.chain.l1_chain_id


def _get_l1_contract_addresses(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_info["l1ContractAddresses"])


def _get_protocol_contract_addresses(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_info["protocolContractAddresses"])


# ---- helpers --------------------------------------------------------------------------------


def _array(context: Context, items: Iterable[bytes]) -> bytes:
    """A JSON array, given up as soon as it exceeds what this response may still hold."""
    collected: list[bytes] = []
    size = 2
    for item in items:
        size += len(item) + 1
        context.require_bytes(size)
        collected += (b"," if collected else b"[", item)
    # One copy, without the interpreter if it is long.
    return b"".join((*collected, b"]")) if collected else b"[]"


def _is_long_range(arguments: Sequence[Any]) -> bool:
    limit: int = arguments[1]
    return limit > RANGE_LENGTH_ON_LOOP_MAX


# ---- the table ------------------------------------------------------------------------------

_FROM: Final = Integer(name="number", minimum=1, accepts_text=True)
_LIMIT: Final = Integer(name="number", minimum=1, maximum=RANGE_LENGTH_MAX)
_EPOCH: Final = Integer(name="number", minimum=0, accepts_text=True)
_TIP: Final = Parameter("tip", CHAIN_TIP, optional=True)


def methods(
    *,
    is_pending_tx: Callable[[bytes], bool] = lambda tx_hash: False,
    is_ready: Callable[[], bool] = lambda: True,
    outbox_root: OutboxRoot | None = None,
    tx_notes: TxNotes | None = None,
) -> list[Method]:
    """All methods of this module.

    ``is_pending_tx`` says whether the pool holds a transaction (by its 32-byte hash); ``is_ready`` whether
    the node considers itself able to serve; ``outbox_root`` is L1's word, None if L1 is not read;
    ``tx_notes`` is what the builder of blocks remembers, None if another node builds them.
    """
    receipts = _Receipts(is_pending_tx, tx_notes)

    def get_ready(context: Context) -> bytes:
        return _TRUE if context.has_view and is_ready() else _FALSE

    return [
        *_TIP_METHODS,
        *_BLOCK_METHODS,
        *_CHECKPOINT_METHODS,
        Method(
            name="node_getTxReceipt",
            summary="What became of a transaction: pending, dropped, or mined with its fee and block.",
            handler=receipts.get,
            usual=Usual(b"h", receipts.get_from),
            **common("TxReceipt", Parameter("txHash", TX_HASH)),
        ),
        Method(
            name="node_getTxEffect",
            summary="Everything that a mined transaction changed.",
            handler=_get_tx_effect,
            is_cached=True,
            usual=Usual(b"h", lambda view, tx_hash: view.chain.tx_effect_json(tx_hash)),
            **common("IndexedTxEffect", Parameter("txHash", TX_HASH), may_be_absent=True),
        ),
        *_MESSAGE_METHODS,
        witness_method(outbox_root),
        *_NODE_METHODS,
        Method(
            name="node_isReady",
            summary="Whether the node can answer from a chain.",
            handler=get_ready,
            **common("boolean"),
        ),
    ]


_TIP_METHODS: Final = [
    Method(
        name="node_getBlockNumber",
        summary="Number of the newest block, or of the block of a tip.",
        handler=_get_block_number,
        is_cached=True,
        release=Signature("number"),
        development=Signature("number", (_TIP,)),
    ),
    Method(
        name="node_getCheckpointNumber",
        summary="Number of the newest complete checkpoint, or of the checkpoint of a tip.",
        handler=_get_checkpoint_number,
        is_cached=True,
        release=Signature("number"),
        development=Signature("number", (_TIP,)),
    ),
    Method(
        name="node_getProvenBlockNumber",
        summary="Number of the last proven block.",
        handler=_get_proven_block_number,
        is_cached=True,
        release=Signature("number"),
    ),
    Method(
        name="node_getCheckpointedBlockNumber",
        summary="Number of the last block in a complete checkpoint.",
        handler=_get_checkpointed_block_number,
        is_cached=True,
        release=Signature("number"),
    ),
    Method(
        name="node_getL2Tips",
        summary="Numbers and hashes of the four tips.",
        handler=_get_tips,
        is_cached=True,
        release=Signature("L2Tips"),
    ),
    Method(
        name="node_getChainTips",
        summary="Numbers and hashes of the four tips.",
        handler=_get_tips,
        is_cached=True,
        development=Signature("ChainTips"),
    ),
]

_BLOCK_METHODS: Final = [
    Method(
        name="node_getBlock",
        summary="One block.",
        handler=_get_block,
        is_cached=True,
        usual=Usual(
            b"b",
            {
                "both": _block_at(block_text.JOINT),
                "release": _block_at(block_text.RELEASE),
                "development": _block_at(block_text.DEVELOPMENT),
            },
        ),
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
        handler=_get_block_data,
        is_cached=True,
        usual=Usual(b"b", _block_at(block_text.DATA)),
        development=Signature("BlockData", (Parameter("blockParameter", DEVELOPMENT_BLOCK),), may_be_absent=True),
    ),
    Method(
        name="node_getBlocks",
        summary="Consecutive blocks.",
        handler=_get_blocks,
        is_cached=True,
        in_thread=_is_long_range,
        release=Signature("L2Block[]", (Parameter("from", _FROM), Parameter("limit", _LIMIT))),
        development=Signature(
            "BlockResponse[]",
            (
                Parameter("from", _FROM),
                Parameter("limit", _LIMIT),
                Parameter("options", BLOCKS_INCLUDE_OPTIONS, optional=True),
            ),
        ),
    ),
    Method(
        name="node_getBlockHeader",
        summary="The header of one block; of the newest without a parameter.",
        handler=_get_block_header,
        is_cached=True,
        usual=Usual(b"b", _header_at),
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
        in_thread=_is_long_range,
        release=Signature("CheckpointedL2Block[]", (Parameter("from", _FROM), Parameter("limit", _LIMIT))),
    ),
]

_CHECKPOINT_METHODS: Final = [
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
        in_thread=_is_long_range,
        release=Signature("PublishedCheckpoint[]", (Parameter("checkpointNumber", _FROM), Parameter("limit", _LIMIT))),
        development=Signature(
            "CheckpointResponse[]",
            (
                Parameter("from", _FROM),
                Parameter("limit", _LIMIT),
                Parameter("options", CHECKPOINT_INCLUDE_OPTIONS, optional=True),
            ),
        ),
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

_MESSAGE_METHODS: Final = [
    Method(
        name="node_getL1ToL2MessageCheckpoint",
        summary="The checkpoint that inserts an L1-to-L2 message.",
        handler=_get_l1_to_l2_message_checkpoint,
        is_cached=True,
        usual=Usual(b"f", _message_checkpoint),
        **common("number", Parameter("l1ToL2Message", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_isL1ToL2MessageSynced",
        summary="Whether the node knows an L1-to-L2 message.",
        handler=_is_l1_to_l2_message_synced,
        is_cached=True,
        usual=Usual(b"f", _is_message_synced),
        release=Signature("boolean", (Parameter("l1ToL2Message", FIELD),)),
    ),
    Method(
        name="node_getL2ToL1Messages",
        summary="L2-to-L1 messages of an epoch by checkpoint, block and transaction.",
        handler=_get_l2_to_l1_messages,
        in_thread=True,
        **common("Fr[][][][]", Parameter("epoch", _EPOCH)),
    ),
]

_NODE_METHODS: Final = [
    Method(
        name="node_getNodeInfo",
        summary="Versions and addresses of the network.",
        handler=_get_node_info,
        is_cached=True,
        **common("NodeInfo"),
    ),
    Method(
        name="node_getNodeVersion",
        summary="Node version of the network.",
        handler=_get_node_version,
        is_cached=True,
        **common("string"),
    ),
    Method(
        name="node_getVersion",
        summary="Version number of the rollup.",
        handler=_get_version,
        is_cached=True,
        **common("number"),
    ),
    Method(
        name="node_getChainId",
        summary="Chain id of L1.",
        handler=_get_chain_id,
        is_cached=True,
        **common("number"),
    ),
    Method(
        name="node_getL1ContractAddresses",
        summary="Addresses of the rollup's contracts on L1.",
        handler=_get_l1_contract_addresses,
        is_cached=True,
        **common("L1ContractAddresses"),
    ),
    Method(
        name="node_getProtocolContractAddresses",
        summary="Addresses of the contracts that exist from genesis.",
        handler=_get_protocol_contract_addresses,
        is_cached=True,
        **common("ProtocolContractAddresses"),
    ),
]

#: The methods of a node without a pool.
METHODS: Final = methods()
