"""The methods that the chain itself answers, in both sets: tips, transactions, messages and the node.

Handlers are thin: find the number, splice the record.  Blocks and checkpoints have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import orjson

from fastnode.api.blocks import BLOCK_METHODS
from fastnode.api.chain_parameters import CHAIN_TIP, CHECKPOINT_TIP
from fastnode.api.checkpoints import CHECKPOINT_METHODS
from fastnode.api.effect_witness import METHOD as EFFECT_WITNESS_METHOD
from fastnode.api.lookups import block_of_tip, checkpoint_of_tip
from fastnode.api.node_facts import get_node_info, get_protocol_contract_addresses
from fastnode.api.outbox_witness import OutboxRoots, witness_method
from fastnode.api.receipts import NO_TXS, Receipts, TxKnowledge, TxNotes, effect_in_five
from fastnode.archiver import forms
from fastnode.archiver.messages import checkpoint_of_index
from fastnode.errors import LeftToStrictPath
from fastnode.jsonrpc.methods import OTHER_FORM, Context, Gone, Method, Parameter, Signature, common
from fastnode.kernels import block_text
from fastnode.values.choices import Options
from fastnode.values.field_elements import FIELD, TX_HASH
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["METHODS", "MessageIndex", "methods"]

#: ``message_index(leaf)``: leaf index of a message that the Inbox on L1 has; None for one that it has not.
MessageIndex: TypeAlias = Callable[[bytes], int | None]

#: Each checkpoint inserts this many leaves into the L1-to-L2 message tree, padded with zeros.
L1_TO_L2_MESSAGES_PER_CHECKPOINT: Final = 1024

_TRUE: Final = b"true"
_FALSE: Final = b"false"


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


# ---- messages -------------------------------------------------------------------------------


def _message_checkpoint(view: View, message: bytes) -> bytes | None:
    index = view.chain.l1_to_l2_message_index(message)
    return None if index is None else b"%d" % checkpoint_of_index(view.chain, index)


def _message_index_method(pending: MessageIndex | None) -> Method:
    """node_getL1ToL2MessageIndex; ``pending`` None: only messages of the chain are known."""

    def read(view: View, message: bytes, *, context: Context | None = None) -> bytes | None:
        index = view.chain.l1_to_l2_message_index(message)
        if index is None and pending is not None:
            if context is None:
                raise LeftToStrictPath("a message that no block has")
            index = pending(message)
        return None if index is None else b'"%d"' % index

    return Method(
        name="node_getL1ToL2MessageIndex",
        summary="Leaf index of an L1-to-L2 message, also before a block has inserted it.",
        read=read,
        shape=b"f",
        in_thread=pending is not None,
        waits=True,
        # Messages come while the chain does not change.
        is_cached=pending is None,
        six=Signature("bigint", (Parameter("l1ToL2Message", FIELD),), may_be_absent=True),
    )


def _is_message_synced(view: View, message: bytes) -> bytes:
    return _FALSE if view.chain.l1_to_l2_message_index(message) is None else _TRUE


def _get_l2_to_l1_messages(context: Context, epoch: int) -> bytes:
    return context.view.chain.l2_to_l1_messages_json(epoch)


# ---- the node -------------------------------------------------------------------------------


def _get_node_version(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_version)


def _get_version(context: Context) -> bytes:
    return b"%d" % context.view.chain.chain.rollup_version


def _get_chain_id(context: Context) -> bytes:
    return b"%d" % context.view.chain.chain.l1_chain_id


def _get_l1_contract_addresses(context: Context) -> bytes:
    return orjson.dumps(context.view.chain.chain.node_info["l1ContractAddresses"])


# ---- the table ------------------------------------------------------------------------------

_EPOCH: Final = Integer(name="number", minimum=0, accepts_text=True)
_RECEIPT_OPTIONS: Final = Options("GetTxReceiptOptions", ("includeTxEffect", "includePendingTx", "includeProof"))
_TIP: Final = Parameter("tip", CHAIN_TIP, optional=True)


def methods(
    *,
    known_txs: TxKnowledge = NO_TXS,
    is_ready: Callable[[], bool] = lambda: True,
    outbox_roots: OutboxRoots | None = None,
    message_index: MessageIndex | None = None,
    tx_notes: TxNotes | None = None,
    own_record: Callable[[], str | None] | None = None,
) -> list[Method]:
    """All methods that the chain answers.

    ``known_txs`` tells of transactions that no block has; ``is_ready`` whether transactions are taken now;
    ``outbox_roots`` reads a root from L1 and ``message_index`` finds a message of the Inbox there, None
    if L1 is not read; ``tx_notes`` is what the builder of blocks remembers, None if another node builds them;
    ``own_record`` gives this node's record on the peer-to-peer network, None if it is not on it.
    """
    receipts = Receipts(known_txs, tx_notes)

    def get_ready(context: Context) -> bytes:
        return _TRUE if context.view_or_none is not None and is_ready() else _FALSE

    return [
        *_TIP_METHODS,
        *BLOCK_METHODS,
        *CHECKPOINT_METHODS,
        Method(
            name="node_getTxReceipt",
            summary="What became of a transaction: pending, dropped, or mined with its fee and block.",
            read=receipts.reads,
            shape=b"h",
            in_thread=False if known_txs.ask_fleet is None else receipts.asks_fleet,
            waits=True,
            five=OTHER_FORM,
            **common("TxReceipt", Parameter("txHash", TX_HASH)),
        ),
        Method(
            name="node_getTxReceipt",
            summary="What became of a transaction: mined, pending or dropped, with what the options ask for.",
            read=receipts.read_in_five,
            shape=b"h",
            in_thread=False if known_txs.ask_fleet is None else receipts.asks_fleet_in_five,
            waits=True,
            five=Signature(
                "MinedTxReceipt|PendingTxReceipt|DroppedTxReceipt",
                (Parameter("txHash", TX_HASH), Parameter("options", _RECEIPT_OPTIONS, optional=True)),
            ),
        ),
        Method(
            name="node_getTxEffect",
            summary="Everything that a mined transaction changed.",
            read={
                "both": (effect := block_text.TxQuestion(forms.INDEXED_EFFECT)),
                "release": effect,
                "development": effect,
                "5.x": effect_in_five,
            },
            shape=b"h",
            is_cached=True,
            **common("IndexedTxEffect", Parameter("txHash", TX_HASH), may_be_absent=True),
        ),
        *_MESSAGE_METHODS,
        _message_index_method(message_index),
        witness_method(outbox_roots),
        EFFECT_WITNESS_METHOD,
        Method(
            name="node_getNodeInfo",
            summary="Versions and addresses of the network.",
            handler=get_node_info(own_record),
            # The record changes while the chain does not.
            is_cached=own_record is None,
            **common("NodeInfo"),
        ),
        *_NODE_METHODS,
        Method(
            name="node_isReady",
            summary="Whether the chain is new enough and a transaction that is sent here can go somewhere.",
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
        five=Signature("number", (Parameter("tip", CHECKPOINT_TIP, optional=True),)),
    ),
    Method(
        name="node_getProvenBlockNumber",
        summary="Number of the last proven block.",
        handler=_get_proven_block_number,
        is_cached=True,
        release=Signature("number"),
        five=Gone("use getBlockNumber with 'proven'"),
    ),
    Method(
        name="node_getCheckpointedBlockNumber",
        summary="Number of the last block in a complete checkpoint.",
        handler=_get_checkpointed_block_number,
        is_cached=True,
        release=Signature("number"),
        five=Gone("use getBlockNumber with 'checkpointed'"),
    ),
    Method(
        name="node_getL2Tips",
        summary="Numbers and hashes of the four tips.",
        handler=_get_tips,
        is_cached=True,
        release=Signature("L2Tips"),
        five=Gone("use getChainTips"),
    ),
    Method(
        name="node_getChainTips",
        summary="Numbers and hashes of the four tips.",
        handler=_get_tips,
        is_cached=True,
        development=Signature("ChainTips"),
    ),
]

_MESSAGE_METHODS: Final = [
    Method(
        name="node_getL1ToL2MessageCheckpoint",
        summary="The checkpoint that inserts an L1-to-L2 message.",
        read=_message_checkpoint,
        shape=b"f",
        is_cached=True,
        six=Gone("use getL1ToL2MessageIndex"),
        **common("number", Parameter("l1ToL2Message", FIELD), may_be_absent=True),
    ),
    Method(
        name="node_isL1ToL2MessageSynced",
        summary="Whether the node knows an L1-to-L2 message.",
        read=_is_message_synced,
        shape=b"f",
        is_cached=True,
        replaced_by="node_getL1ToL2MessageCheckpoint",
        release=Signature("boolean", (Parameter("l1ToL2Message", FIELD),)),
        five=Gone("use getL1ToL2MessageCheckpoint"),
        six=Gone("use getL1ToL2MessageIndex"),
    ),
    Method(
        name="node_getL2ToL1Messages",
        summary="L2-to-L1 messages of an epoch by checkpoint, block and transaction.",
        handler=_get_l2_to_l1_messages,
        in_thread=True,
        replaced_by="node_getL2ToL1MembershipWitness",
        **common("Fr[][][][]", Parameter("epoch", _EPOCH)),
    ),
]

_NODE_METHODS: Final = [
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
        handler=get_protocol_contract_addresses,
        is_cached=True,
        **common("ProtocolContractAddresses"),
    ),
]

#: The methods of a node without a pool.
METHODS: Final = methods()
