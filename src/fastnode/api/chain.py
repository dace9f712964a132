"""The methods that the chain itself answers, in both sets: tips, transactions, messages and the node.

Handlers are thin: find the number, splice the record.  Blocks and checkpoints have modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import orjson

from fastnode.api.blocks import BLOCK_METHODS
from fastnode.api.chain_parameters import CHAIN_TIP
from fastnode.api.checkpoints import CHECKPOINT_METHODS
from fastnode.api.lookups import block_of_tip, checkpoint_of_tip
from fastnode.api.node_info import Asked, node_info
from fastnode.api.outbox_witness import OutboxRoots, witness_method
from fastnode.archiver import forms
from fastnode.errors import LeftToStrictPath, Refused, UpstreamError
from fastnode.jsonrpc.methods import Context, Method, MethodSet, Parameter, Read, Signature, common
from fastnode.kernels import block_text, encode
from fastnode.records import dataclass
from fastnode.values.field_elements import FIELD, TX_HASH
from fastnode.values.numbers import Integer

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["METHODS", "FleetStanding", "TxKnowledge", "methods"]

#: Each checkpoint inserts this many leaves into the L1-to-L2 message tree, padded with zeros.
L1_TO_L2_MESSAGES_PER_CHECKPOINT: Final = 1024

_TRUE: Final = b"true"
_FALSE: Final = b"false"
#: The error of a receipt for a transaction that neither a block nor the pool has.
_DROPPED: Final = "Tx dropped by P2P node"


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


# ---- transactions ---------------------------------------------------------------------------


class TxNotes(Protocol):
    """Knowledge of a node that builds blocks about a transaction, in addition to its effect."""

    def debug_logs_json(self, tx_hash: bytes) -> bytes | None:
        """DebugLog[] of its public functions."""

    def dropped_reason(self, tx_hash: bytes) -> str | None:
        """Reason why no block took the transaction."""


class FleetStanding(Protocol):
    """Knowledge of the other nodes of the fleet about a transaction."""

    @property
    def is_pending(self) -> bool:
        """True: it is on its way here."""

    @property
    def reason(self) -> str: ...


#: UpstreamError when the fleet cannot be asked.
AskFleet: TypeAlias = Callable[[bytes], FleetStanding | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxKnowledge:
    """Knowledge of transactions that no block has, by their 32-byte hashes."""

    #: True for one that the pool has.
    is_pending: Callable[[bytes], bool] = lambda tx_hash: False
    #: Reason why no other node has a transaction that waits.
    waiting_reason: Callable[[bytes], str | None] = lambda tx_hash: None
    #: Reason why one that was here is gone, empty if that is not remembered; None for a hash never seen here.
    departure_of: Callable[[bytes], str | None] = lambda tx_hash: None
    #: Asks the other nodes of the fleet, which takes a moment; None: there is no fleet.
    ask_fleet: AskFleet | None = None


NO_TXS: Final = TxKnowledge()


class _Receipts:
    """Receipts: from the chain first, then from the pool, then from the fleet.  A transaction that none of them has
    counts as dropped, as wallets expect it; one that this node has never seen is marked, but for the release's set."""

    def __init__(self, known: TxKnowledge, notes: TxNotes | None) -> None:
        self._known = known
        self._notes = notes

    @property
    def reads(self) -> dict[MethodSet, Read]:
        both = self._read(is_marked=True)
        return {"both": both, "development": both, "release": self._read(is_marked=False)}

    def _read(self, *, is_marked: bool) -> Read:
        """The method's: for what is mined, Python is asked only by a node that has something to say about it."""

        def unmined(_view: View, tx_hash: bytes) -> bytes:
            return self._unmined(tx_hash, is_marked=is_marked)

        if self._known.ask_fleet is None:
            return block_text.TxQuestion(forms.MINED_RECEIPT, unmined) if self._notes is None else self._noted(unmined)

        def unmined_on_loop(_view: View, tx_hash: bytes) -> bytes:
            if self.asks_fleet([tx_hash]):
                raise LeftToStrictPath("a transaction that another node may have")
            return self._unmined(tx_hash, is_marked=is_marked)

        on_loop, in_thread = (
            block_text.TxQuestion(forms.MINED_RECEIPT, read) if self._notes is None else self._noted(read)
            for read in (unmined_on_loop, unmined)
        )

        def read(view: View, tx_hash: bytes, *, context: Context | None = None) -> bytes | None:
            return on_loop(view, tx_hash) if context is None else in_thread(view, tx_hash)

        return read

    def asks_fleet(self, arguments: Sequence[Any]) -> bool:
        """True if the fleet would be asked about this hash, unless a block has it."""
        [tx_hash] = arguments
        known = self._known
        return not known.is_pending(tx_hash) and known.departure_of(tx_hash) is None

    def _noted(self, unmined: Callable[[View, bytes], bytes]) -> Read:
        def read(view: View, tx_hash: bytes) -> bytes:
            mined = view.chain.tx_receipt_json(tx_hash)
            if mined is None:
                return unmined(view, tx_hash)
            logs = None if self._notes is None else self._notes.debug_logs_json(tx_hash)
            return mined if logs is None else b'%b,"debugLogs":%b}' % (mined[:-1], logs)

        return read

    def _unmined(self, tx_hash: bytes, *, is_marked: bool) -> bytes:
        """Receipt of a transaction outside the view's blocks.  The pool has a transaction until its block is final."""
        known = self._known
        if known.is_pending(tx_hash):
            return _receipt(tx_hash, "pending", known.waiting_reason(tx_hash))
        reason = None if self._notes is None else self._notes.dropped_reason(tx_hash)
        if reason is None:
            reason = known.departure_of(tx_hash)
        if reason is None and known.ask_fleet is not None:
            try:
                standing = known.ask_fleet(tx_hash)
            except (UpstreamError, Refused):
                standing = None  # not known here: that is all there is to say
            if standing is not None and standing.is_pending:
                return _receipt(tx_hash, "pending", standing.reason)
            reason = None if standing is None else standing.reason
        if reason is None:
            return _receipt(tx_hash, "dropped", _DROPPED, is_unknown=is_marked)
        return _receipt(tx_hash, "dropped", f"{_DROPPED}: {reason}" if reason else _DROPPED)


def _receipt(tx_hash: bytes, status: str, error: str | None, *, is_unknown: bool = False) -> bytes:
    text = b"" if error is None else b',"error":%b' % orjson.dumps(error)
    mark = b',"unknownHere":true' if is_unknown else b""
    return b'{"txHash":"%b","status":"%b"%b%b}' % (encode.to_hex(tx_hash), status.encode(), text, mark)


# ---- messages -------------------------------------------------------------------------------


def _message_checkpoint(view: View, message: bytes) -> bytes | None:
    index = view.chain.l1_to_l2_message_index(message)
    return None if index is None else b"%d" % (index // L1_TO_L2_MESSAGES_PER_CHECKPOINT + 1)


def _is_message_synced(view: View, message: bytes) -> bytes:
    return _FALSE if view.chain.l1_to_l2_message_index(message) is None else _TRUE


def _get_l2_to_l1_messages(context: Context, epoch: int) -> bytes:
    return context.view.chain.l2_to_l1_messages_json(epoch)


# ---- the node -------------------------------------------------------------------------------


def _node_info(own_record: Callable[[], str | None] | None) -> Callable[[Context], bytes]:
    def get_node_info(context: Context) -> bytes:
        record = None if own_record is None else own_record()
        return orjson.dumps(node_info(Asked(context.view.chain.chain, record)))

    return get_node_info


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


# ---- the table ------------------------------------------------------------------------------

_EPOCH: Final = Integer(name="number", minimum=0, accepts_text=True)
_TIP: Final = Parameter("tip", CHAIN_TIP, optional=True)


def methods(
    *,
    known_txs: TxKnowledge = NO_TXS,
    is_ready: Callable[[], bool] = lambda: True,
    outbox_roots: OutboxRoots | None = None,
    tx_notes: TxNotes | None = None,
    own_record: Callable[[], str | None] | None = None,
) -> list[Method]:
    """All methods that the chain answers.

    ``known_txs`` tells of transactions that no block has; ``is_ready`` whether transactions are taken now;
    ``outbox_roots`` reads a root from L1, None
    if L1 is not read; ``tx_notes`` is what the builder of blocks remembers, None if another node builds them;
    ``own_record`` gives this node's record on the peer-to-peer network, None if it is not on it.
    """
    receipts = _Receipts(known_txs, tx_notes)

    def get_ready(context: Context) -> bytes:
        return _TRUE if context.has_view and is_ready() else _FALSE

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
            **common("TxReceipt", Parameter("txHash", TX_HASH)),
        ),
        Method(
            name="node_getTxEffect",
            summary="Everything that a mined transaction changed.",
            read=block_text.TxQuestion(forms.INDEXED_EFFECT),
            shape=b"h",
            is_cached=True,
            **common("IndexedTxEffect", Parameter("txHash", TX_HASH), may_be_absent=True),
        ),
        *_MESSAGE_METHODS,
        witness_method(outbox_roots),
        Method(
            name="node_getNodeInfo",
            summary="Versions and addresses of the network.",
            handler=_node_info(own_record),
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

_MESSAGE_METHODS: Final = [
    Method(
        name="node_getL1ToL2MessageCheckpoint",
        summary="The checkpoint that inserts an L1-to-L2 message.",
        read=_message_checkpoint,
        shape=b"f",
        is_cached=True,
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
        handler=_get_protocol_contract_addresses,
        is_cached=True,
        **common("ProtocolContractAddresses"),
    ),
]

#: The methods of a node without a pool.
METHODS: Final = methods()
