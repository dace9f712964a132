"""The methods that change a local network, under our own names and under those that tools for L1 know.

Numbers may be JSON numbers or text (``0x1f``, ``31``), as those tools write them.  Everywhere else these methods do not
exist.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.local_network_about import About, text_of
from fastnode.api.local_network_parameters import (
    AMOUNT,
    BLOCK_TIME,
    DEPTH,
    ETH_ADDRESS,
    FORK_OPTIONS,
    MESSAGE,
    NUMBER,
    SECONDS,
    TIME_TEXT,
    WORD,
)
from fastnode.api.outbox_witness import witness_method
from fastnode.errors import InvalidParams
from fastnode.jsonrpc.methods import Context, Handler, Method, Parameter, common
from fastnode.kernels import encode
from fastnode.local_network.chain_files import dump_chain, load_chain
from fastnode.local_network.changes import DEPOSIT
from fastnode.local_network.kept_state import OpenMessage
from fastnode.local_network.options import Fork
from fastnode.records import dataclass
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import BOOLEAN
from fastnode.values.field_elements import ADDRESS, FIELD, TX_HASH
from fastnode.values.texts import Text

if TYPE_CHECKING:
    from fastnode.local_network.changes import BridgedFeeJuice, Changes
    from fastnode.local_network.network import LocalNetwork
    from fastnode.log_index.function_names import FunctionNames
    from fastnode.public_execution.tracer import Tracer

__all__ = ["methods"]

#: Characters of a chain file as hex.
STATE_LENGTH_MAX: Final = 1 << 28
_SIGNATURES: Final = ArrayOf(Text(10_000), 100)

_TRUE: Final = b"true"
_FALSE: Final = b"false"


# ---- handlers -----------------------------------------------------------------------------------------


def _hex_number(value: int) -> bytes:
    return b'"0x%x"' % value


def _bool(value: bool) -> bytes:
    return _TRUE if value else _FALSE


class _Blocks:
    def __init__(self, network: LocalNetwork, changes: Changes) -> None:
        self._network = network
        self._changes = changes

    def mine(self, _context: Context, blocks: int | None, interval_s: int | None) -> bytes:
        return b"%d" % self._changes.mine(1 if blocks is None else blocks, interval_s)

    def mine_quietly(self, context: Context, blocks: int | None, interval_s: int | None) -> None:
        self.mine(context, blocks, interval_s)

    def mine_block(self, _context: Context) -> None:
        self._changes.mine()

    def mine_at(self, _context: Context, when: tuple[int | None, int] | None) -> bytes:
        timestamp, blocks = (None, 1) if when is None else when
        if timestamp is not None:
            self._changes.set_next_timestamp(timestamp)
        self._changes.mine(blocks)
        return b'"0x0"'

    def set_automine(self, _context: Context, wanted: bool) -> None:
        self._changes.set_automine(wanted)

    def is_automining(self, _context: Context) -> bytes:
        return _bool(self._network.is_automining)

    def set_interval(self, _context: Context, seconds: int) -> None:
        self._changes.set_interval(seconds)

    def interval(self, _context: Context) -> bytes:
        seconds = self._network.interval_s
        return b"null" if seconds is None else orjson.dumps(seconds)

    def snapshot(self, _context: Context) -> bytes:
        return _hex_number(self._changes.snapshot())

    def revert(self, _context: Context, number: int, force: bool | None = None) -> bytes:
        return _bool(self._changes.revert(number, force=bool(force)))

    def reorg(self, _context: Context, depth: int, keep_txs: bool | None = None) -> bytes:
        return b"%d" % self._changes.reorg(depth, keep_txs=bool(keep_txs))

    def reorg_quietly(self, context: Context, depth: int, _pairs: Sequence[Any] | None) -> None:
        self.reorg(context, depth)

    def roll_back(self, _context: Context, depth: int | None) -> None:
        self._changes.roll_back(1 if depth is None else depth)


class _Time:
    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    def increase(self, _context: Context, seconds: int) -> bytes:
        return b"%d" % self._changes.advance_time(seconds)

    def set(self, _context: Context, timestamp: int) -> bytes:
        return b"%d" % self._changes.set_time(timestamp)

    def set_next(self, _context: Context, timestamp: int) -> None:
        self._changes.set_next_timestamp(timestamp)

    def set_interval(self, _context: Context, seconds: int) -> None:
        self._changes.set_block_interval(seconds)

    def remove_interval(self, _context: Context) -> bytes:
        self._changes.set_block_interval(None)
        return _TRUE

    def warp(self, _context: Context, when: str | int) -> bytes:
        """``+60``: sixty seconds from now."""
        text = str(when).strip()
        seconds = NUMBER.read(text[1:] if text.startswith("+") else text)
        if seconds is None or seconds < 0:
            raise InvalidParams(f"Invalid params: time (parameter 1) must be a timestamp or +seconds, got {text[:60]}")
        reached = self._changes.warp_by(seconds) if text.startswith("+") else self._changes.warp(seconds)
        return b"%d" % reached

    def warp_at_least_to(self, _context: Context, timestamp: int) -> None:
        self._changes.warp(timestamp, only_forward=True)

    def warp_at_least_by(self, _context: Context, seconds: int) -> None:
        self._changes.warp_by(seconds)


class _Pool:
    def __init__(self, network: LocalNetwork, changes: Changes) -> None:
        self._network = network
        self._changes = changes

    def drop(self, _context: Context, tx_hash: bytes) -> bytes:
        return _bool(self._changes.drop(tx_hash))

    def drop_as_anvil(self, _context: Context, tx_hash: bytes) -> bytes:
        return b'"%b"' % encode.to_hex(tx_hash) if self._changes.drop(tx_hash) else b"null"

    def drop_all(self, _context: Context) -> bytes:
        return b"%d" % self._changes.drop_all()

    def drop_all_quietly(self, _context: Context) -> None:
        self._changes.drop_all()

    def status(self, _context: Context) -> bytes:
        return b'{"pending":"0x%x","queued":"0x0"}' % self._network.mempool.pool.pending_count

    def content(self, _context: Context) -> bytes:
        """Hashes of the pending transactions, in the order in which blocks will take them."""
        return orjson.dumps([text_of(tx_hash) for tx_hash in self._network.mempool.pool.pending_hashes()])


class _State:
    def __init__(self, network: LocalNetwork, changes: Changes) -> None:
        self._network = network
        self._changes = changes

    def set_balance(self, _context: Context, address: bytes, amount: int) -> bytes:
        return b"%d" % self._changes.set_fee_juice_balance(address, amount)

    def set_balance_quietly(self, context: Context, address: bytes, amount: int) -> None:
        self.set_balance(context, address, amount)

    def set_storage(self, _context: Context, contract: bytes, slot: bytes, value: bytes) -> bytes:
        return b"%d" % self._changes.set_public_storage(contract, slot, value)

    def set_storage_as_anvil(self, context: Context, contract: bytes, slot: bytes, value: bytes) -> bytes:
        self.set_storage(context, contract, slot, value)
        return _TRUE

    def dump(self, context: Context) -> bytes:
        text = dump_chain(context.view.chain).hex().encode()
        context.require_bytes(len(text))
        return b'"0x%b"' % text

    def load(self, _context: Context, text: str) -> bytes:
        try:
            content = encode.from_hex(text)
        except ValueError:
            raise InvalidParams("Invalid params: state (parameter 1) is no hex text") from None
        load_chain(self._network, content)
        return _TRUE


class _L1:
    def __init__(self, network: LocalNetwork, changes: Changes) -> None:
        self._network = network
        self._changes = changes

    def send_message(self, _context: Context, message: OpenMessage, mine: bool | None) -> bytes:
        sent = self._changes.send_message(message, mine=mine is not False)
        return orjson.dumps(
            {"hash": text_of(sent.hash), "index": str(sent.leaf_index), "checkpointNumber": sent.checkpoint_number}
        )

    def bridge(
        self, _context: Context, to: bytes, amount: int | None, secret: bytes | None, secret_hash: bytes | None
    ) -> bytes:
        amount = DEPOSIT if amount is None else amount
        return _claim_json(self._changes.bridge_fee_juice(to, amount, secret=secret, secret_hash=secret_hash))

    def consume(self, _context: Context, epoch: int, leaf_id: int) -> bytes:
        return _bool(self._changes.consume_message(epoch, leaf_id))

    def prove(self, _context: Context, checkpoint: int | None) -> bytes:
        return b"%d" % self._changes.prove(checkpoint)

    def finalize(self, _context: Context, block: int | None) -> bytes:
        return b"%d" % self._changes.finalize(block)

    def set_min_fee(self, _context: Context, fee: int | None) -> None:
        self._changes.set_min_fee(fee)

    def set_l1_fees(self, _context: Context, base_fee: int, blob_fee: int) -> None:
        self._changes.set_l1_fees(base_fee, blob_fee)

    def set_coinbase(self, _context: Context, address: bytes) -> None:
        self._changes.set_coinbase(address)


def _claim_json(bridged: BridgedFeeJuice) -> bytes:
    """Members that a wallet needs to claim a deposit, under the names that wallets use."""
    return orjson.dumps(
        {
            "claimAmount": str(bridged.amount),
            "claimSecret": None if bridged.secret is None else text_of(bridged.secret),
            "claimSecretHash": text_of(bridged.secret_hash),
            "messageHash": text_of(bridged.message.hash),
            "messageLeafIndex": str(bridged.message.leaf_index),
        }
    )


class _Process:
    """The methods about the whole process."""

    def __init__(self, network: LocalNetwork) -> None:
        self._network = network

    def set_logging(self, _context: Context, wanted: bool) -> None:
        """Warnings stay."""
        logging.getLogger("fastnode").setLevel(logging.NOTSET if wanted else logging.WARNING)

    def reset(self, _context: Context, fork: Fork | None) -> bytes:
        self._network.request_reset(fork or Fork(None, None))
        return _TRUE


# ---- table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """A method; ``also`` are other names of the same.  One that ``reads`` changes nothing, and may be called by pages
    of all sites."""

    name: str
    summary: str
    handler: Handler
    result: str = "void"
    parameters: tuple[Parameter, ...] = ()
    also: tuple[str, ...] = ()
    may_be_absent: bool = False
    in_thread: bool = True
    reads: bool = False

    def methods(self) -> list[Method]:
        absent = self.may_be_absent or self.result == "void"
        return [
            Method(
                name=name,
                summary=self.summary if name == self.name else f"The same as {self.name}.",
                handler=self.handler,
                in_thread=self.in_thread,
                for_own_pages=not self.reads,
                **common(self.result, *self.parameters, may_be_absent=absent),
            )
            for name in (self.name, *self.also)
        ]


def methods(
    network: LocalNetwork, changes: Changes, names: FunctionNames, tracer: Tracer | None = None
) -> list[Method]:
    """Every method that only a local network has.  ``tracer`` executes mined transactions again."""
    rows = [
        *_block_rows(_Blocks(network, changes)),
        *_time_rows(_Time(changes)),
        *_pool_rows(_Pool(network, changes)),
        *_state_rows(_State(network, changes)),
        *_l1_rows(_L1(network, changes)),
        *_process_rows(_Process(network)),
        *_about_rows(About(network, names, tracer)),
    ]
    return [method for row in rows for method in row.methods()]


def _optional(name: str, kind: Any) -> Parameter:
    return Parameter(name, kind, optional=True)


def _block_rows(handlers: _Blocks) -> list[_Row]:
    count, interval = _optional("blocks", NUMBER), _optional("interval", SECONDS)
    return [
        _Row("fastnode_mine", "Build blocks, the first with the pending transactions, so many seconds of chain time "
             "apart; the number of the newest.", handlers.mine, "number", (count, interval)),
        _Row("anvil_mine", "Build blocks, as fastnode_mine does.", handlers.mine_quietly, "void", (count, interval),
             also=("hardhat_mine",)),
        _Row("evm_mine", "Build a block, at a time if one is given.", handlers.mine_at, "string",
             (_optional("time", BLOCK_TIME),)),
        _Row("aztecDebug_mineBlock", "Build one block.", handlers.mine_block),
        _Row("fastnode_setAutomine", "Whether each transaction gets its block at once.", handlers.set_automine, "void",
             (Parameter("automine", BOOLEAN),), also=("evm_setAutomine", "anvil_setAutomine")),
        _Row("fastnode_getAutomine", "Whether each transaction gets its block at once.", handlers.is_automining,
             "boolean", also=("anvil_getAutomine", "hardhat_getAutomine", "fastnode_autoMineStatus"),
             in_thread=False, reads=True),
        _Row("fastnode_setIntervalMining", "Build a block every so many seconds; 0: no more.", handlers.set_interval,
             "void", (Parameter("seconds", SECONDS),), also=("evm_setIntervalMining", "anvil_setIntervalMining")),
        _Row("fastnode_getIntervalMining", "Seconds between two blocks; null: there is no such interval.",
             handlers.interval, "number", also=("anvil_getIntervalMining",), may_be_absent=True,
             in_thread=False, reads=True),
        _Row("fastnode_snapshot", "Remember the chain, the clock and the pending transactions.", handlers.snapshot,
             "string", also=("evm_snapshot", "anvil_snapshot")),
        _Row("fastnode_revert", "Return to a snapshot; it and all later ones are gone. False: there is no such one.",
             handlers.revert, "boolean", (Parameter("snapshot", NUMBER), _optional("force", BOOLEAN)),
             also=("evm_revert", "anvil_revert")),
        _Row("fastnode_reorg", "Replace the newest blocks by others, with their transactions or empty; the number of "
             "the newest.", handlers.reorg, "number", (Parameter("depth", DEPTH), _optional("keepTxs", BOOLEAN))),
        _Row("anvil_reorg", "Replace the newest blocks by empty ones.", handlers.reorg_quietly, "void",
             (Parameter("depth", DEPTH), _optional("txs", ArrayOf(WORD, 0)))),
        _Row("anvil_rollback", "Remove the newest blocks; their transactions wait again.", handlers.roll_back, "void",
             (_optional("depth", DEPTH),), also=("fastnode_rollback",)),
    ]  # fmt: skip


def _time_rows(handlers: _Time) -> list[_Row]:
    timestamp = Parameter("timestamp", NUMBER)
    seconds = Parameter("seconds", SECONDS)
    return [
        _Row("fastnode_increaseTime", "Move the clock; the next block shows it. Seconds that it is ahead.",
             handlers.increase, "number", (seconds,), also=("evm_increaseTime", "anvil_increaseTime")),
        _Row("fastnode_setTime", "Set the clock; seconds that it was moved by.", handlers.set, "number",
             (timestamp,), also=("anvil_setTime", "evm_setTime")),
        _Row("fastnode_setNextBlockTimestamp", "Time of the next block, rounded up to a slot.", handlers.set_next,
             "void", (timestamp,), also=("evm_setNextBlockTimestamp", "anvil_setNextBlockTimestamp")),
        _Row("fastnode_setBlockTimestampInterval", "Make blocks so many seconds of chain time apart.",
             handlers.set_interval, "void", (seconds,), also=("anvil_setBlockTimestampInterval",)),
        _Row("fastnode_removeBlockTimestampInterval", "Take the times of blocks from the clock again.",
             handlers.remove_interval, "boolean", also=("anvil_removeBlockTimestampInterval",)),
        _Row("fastnode_warp", "Build an empty block at a time, or so many seconds from now (\"+60\"); its timestamp.",
             handlers.warp, "number", (Parameter("time", TIME_TEXT),)),
        _Row("aztecDebug_warpL2TimeAtLeastTo", "Build a block at this time unless it is past already.",
             handlers.warp_at_least_to, "void", (timestamp,)),
        _Row("aztecDebug_warpL2TimeAtLeastBy", "Build a block so many seconds from now.", handlers.warp_at_least_by,
             "void", (seconds,)),
    ]  # fmt: skip


def _pool_rows(handlers: _Pool) -> list[_Row]:
    tx_hash = Parameter("txHash", TX_HASH)
    return [
        _Row("fastnode_dropTransaction", "Drop a pending transaction. False: it is not pending.", handlers.drop,
             "boolean", (tx_hash,)),
        _Row("anvil_dropTransaction", "Drop a pending transaction.", handlers.drop_as_anvil, "string", (tx_hash,),
             also=("hardhat_dropTransaction",), may_be_absent=True),
        _Row("fastnode_dropAllTransactions", "Drop all pending transactions; how many there were.", handlers.drop_all,
             "number"),
        _Row("anvil_dropAllTransactions", "Drop all pending transactions.", handlers.drop_all_quietly),
        _Row("txpool_status", "Number of pending transactions.", handlers.status, "{pending: string, queued: string}",
             in_thread=False, reads=True),
        _Row("txpool_content", "Hashes of the pending transactions, in the order in which blocks will take them.",
             handlers.content, "Fr[]", reads=True),
    ]  # fmt: skip


def _state_rows(handlers: _State) -> list[_Row]:
    balance = (Parameter("address", ADDRESS), Parameter("amount", AMOUNT))
    storage = (Parameter("contract", ADDRESS), Parameter("slot", WORD), Parameter("value", WORD))
    return [
        _Row("fastnode_setFeeJuiceBalance", "Give an account this much fee juice, in a block of its own; its number.",
             handlers.set_balance, "number", balance),
        _Row("anvil_setBalance", "Give an account this much fee juice.", handlers.set_balance_quietly, "void", balance,
             also=("hardhat_setBalance",)),
        _Row("fastnode_setPublicStorageAt", "Write a public storage slot, in a block of its own; its number.",
             handlers.set_storage, "number", storage),
        _Row("anvil_setStorageAt", "Write a public storage slot.", handlers.set_storage_as_anvil, "boolean", storage,
             also=("hardhat_setStorageAt",)),
        _Row("fastnode_dumpState", "The whole chain as a chain file, compressed, as hex.", handlers.dump, "string",
             also=("anvil_dumpState",)),
        _Row("fastnode_loadState", "Replace the chain by that of a chain file of this network.", handlers.load,
             "boolean", (Parameter("state", Text(length_max=STATE_LENGTH_MAX)),), also=("anvil_loadState",)),
    ]  # fmt: skip


def _l1_rows(handlers: _L1) -> list[_Row]:
    witness = witness_method(None)
    assert witness.development is not None
    up_to = _optional("checkpoint", NUMBER)
    fee = Parameter("fee", AMOUNT)
    return [
        _Row("fastnode_sendL1ToL2Message", "A message from L1, in the next checkpoint, which is built at once unless "
             "told otherwise.", handlers.send_message, "{hash: Fr, index: bigint, checkpointNumber: number}",
             (Parameter("message", MESSAGE), _optional("mine", BOOLEAN))),
        _Row("fastnode_bridgeFeeJuice", "A deposit of fee juice for an account, ready to be claimed.", handlers.bridge,
             "{claimAmount: bigint, claimSecret: Fr, claimSecretHash: Fr, messageHash: Fr, messageLeafIndex: bigint}",
             (Parameter("to", ADDRESS), _optional("amount", AMOUNT), _optional("secret", FIELD),
              _optional("secretHash", FIELD))),
        _Row("fastnode_consumeL2ToL1Message", "Mark a message to L1 as consumed. False: it was before.",
             handlers.consume, "boolean", (Parameter("epoch", NUMBER), Parameter("leafId", AMOUNT))),
        _Row("fastnode_getL2ToL1Witness", "What L1 needs to consume a message of a transaction, as "
             "node_getL2ToL1MembershipWitness gives it.", witness.handler, witness.development.result,
             witness.development.parameters, may_be_absent=True, reads=True),
        _Row("fastnode_prove", "Mark checkpoints as proven, up to this one if it is given; the newest that is.",
             handlers.prove, "number", (up_to,), also=("aztecDebug_prove",)),
        _Row("fastnode_finalize", "Mark proven blocks as final, up to this one if it is given; the newest that is.",
             handlers.finalize, "number", (_optional("block", NUMBER),)),
        _Row("fastnode_setMinFee", "Price of L2 gas from the next block on; null: as the fee model has it.",
             handlers.set_min_fee, "void", (_optional("fee", AMOUNT),)),
        _Row("anvil_setNextBlockBaseFeePerGas", "Price of L2 gas from the next block on.", handlers.set_min_fee, "void",
             (fee,), also=("hardhat_setNextBlockBaseFeePerGas",)),
        _Row("fastnode_setL1Fees", "What L1 charges, in wei, as the fee model sees it.", handlers.set_l1_fees, "void",
             (Parameter("baseFee", AMOUNT), Parameter("blobFee", AMOUNT))),
        _Row("fastnode_setCoinbase", "L1 address that gets the reward of later blocks.", handlers.set_coinbase, "void",
             (Parameter("address", ETH_ADDRESS),), also=("anvil_setCoinbase", "hardhat_setCoinbase")),
    ]  # fmt: skip


def _process_rows(handlers: _Process) -> list[_Row]:
    return [
        _Row("fastnode_reset", "Start over with a new chain, as this process began, or with a copy of another one; the "
             "node is away for a moment.", handlers.reset, "boolean", (_optional("options", FORK_OPTIONS),),
             also=("anvil_reset", "hardhat_reset")),
        _Row("fastnode_setLoggingEnabled", "Whether the log has more than warnings.", handlers.set_logging, "void",
             (Parameter("enabled", BOOLEAN),), also=("anvil_setLoggingEnabled", "hardhat_setLoggingEnabled")),
    ]  # fmt: skip


def _about_rows(handlers: About) -> list[_Row]:
    return [
        _Row("fastnode_nodeInfo", "The newest block, the clock and how blocks are built.", handlers.node_info, "any",
             also=("fastnode_metadata", "anvil_nodeInfo", "anvil_metadata", "hardhat_metadata"),
             in_thread=False, reads=True),
        _Row("fastnode_getTxFailure", "Why a transaction of a block reverted, with the stack of its calls.",
             handlers.failure, "any", (Parameter("txHash", TX_HASH),), may_be_absent=True, reads=True),
        _Row("fastnode_getTxCalls", "The public calls of a transaction of a block, in their order.", handlers.calls,
             "any", (Parameter("txHash", TX_HASH),), may_be_absent=True,
             in_thread=False, reads=True),
        _Row("aztecDebug_registerContractFunctionSignatures", "Names for the functions in error stacks.",
             handlers.register, "void", (Parameter("signatures", _SIGNATURES),), reads=True),
    ]  # fmt: skip
