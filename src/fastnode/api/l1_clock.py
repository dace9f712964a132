"""The clock of a local network as an L1: for test suites that move time and proofs on a test chain of L1.

There is no EVM behind it.  Blocks of L1 are the slots of the chain; the calls that tools make to read slots, epochs,
tips, archives and roots are answered from the chain; what they write into the rollup's storage moves the proven tip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode import __version__
from fastnode.errors import InvalidParams, MethodNotFound
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.kernels import encode
from fastnode.local_network.changes import BLOCKS_MAX
from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.hashing import sha256_to_field
from fastnode.protocol.messages import first_message_index
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import WORD_BYTES, Function, Kind, hex_data
from fastnode.sources.l1.inbox import NO_MESSAGES, roll
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED
from fastnode.sources.l1.terms import STATE_SLOT
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.local_network.changes import Changes
    from fastnode.local_network.network import LocalNetwork

__all__ = ["clock_methods"]

NO_EVM: Final = "no EVM here: attach one with --l1-rpc-urls"
#: Calls of an L1 that only an EVM can answer.
_OF_AN_EVM: Final = (
    "eth_sendRawTransaction", "eth_sendTransaction", "eth_estimateGas", "eth_getTransactionReceipt",
    "eth_getTransactionByHash", "eth_getProof", "eth_createAccessList", "eth_simulateV1", "debug_traceTransaction",
    "debug_traceCall", "anvil_setCode", "hardhat_setCode", "anvil_setNonce", "anvil_impersonateAccount",
    "hardhat_impersonateAccount", "anvil_stopImpersonatingAccount", "hardhat_stopImpersonatingAccount",
)  # fmt: skip
#: Methods of the local network itself that this port has too: here they do what tools expect of a test chain.
_SHARED_PREFIXES: Final = ("evm_", "anvil_", "hardhat_", "txpool_")
#: On the network's port these change the network's storage, not that of L1.
_NOT_SHARED: Final = frozenset({"anvil_setStorageAt", "hardhat_setStorageAt", "anvil_setBalance", "hardhat_setBalance"})
_TIPS_SHIFT: Final = 128
#: Number of L1's blocks among which one is looked for by its hash.
_HASHES_TRIED: Final = 1_024
#: Checkpoints whose logs one call may ask for.
_CHECKPOINTS_MAX: Final = 10_000
_LAG: Final = 1
#: In progress << 192 | count << 128 | rolling hash.
_INBOX_STATE_SLOT: Final = 2
_EMPTY_WORD: Final = bytes(WORD_BYTES)
_WEI: Final = b'"0x21e19e0c9bab2400000"'  # 10,000 ether, as accounts of a test chain have
_N, _B32 = Kind.NUMBER, Kind.BYTES32


class _Json(ValueType):
    """Any value."""

    __slots__ = ()

    def from_json(self, value: object) -> object:
        return value

    def schema(self) -> Schema:
        return {}


def clock_methods(network: LocalNetwork, changes: Changes, methods: list[Method]) -> list[Method]:
    """Every method of the port.  ``methods``: those that change the network."""
    clock = _Clock(network, changes)
    shared = [
        method for method in methods if method.name.startswith(_SHARED_PREFIXES) and method.name not in _NOT_SHARED
    ]
    own: dict[str, Callable[..., bytes | None]] = {
        "web3_clientVersion": clock.version,
        "net_version": clock.net_version,
        "eth_chainId": clock.chain_id,
        "eth_blockNumber": clock.block_number,
        "eth_getBlockByNumber": clock.block_by_number,
        "eth_getBlockByHash": clock.block_by_hash,
        "eth_getBalance": lambda *_: _WEI,
        "eth_getTransactionCount": lambda *_: b'"0x0"',
        "eth_gasPrice": clock.gas_price,
        "eth_maxPriorityFeePerGas": lambda *_: b'"0x0"',
        "eth_feeHistory": clock.fee_history,
        "eth_accounts": lambda *_: b"[]",
        "eth_getCode": clock.code,
        "eth_getStorageAt": clock.storage,
        "eth_getLogs": clock.logs,
        "eth_call": clock.call,
        "anvil_setStorageAt": clock.set_storage,
        "hardhat_setStorageAt": clock.set_storage,
        "anvil_setBalance": lambda *_: None,
        "hardhat_setBalance": lambda *_: None,
    }
    refused = dict.fromkeys(_OF_AN_EVM, _refuse)
    return [*shared, *(_method(name, handler) for name, handler in (own | refused).items())]


#: Methods that change the network, beside the shared ones.
_WRITES: Final = frozenset({"anvil_setStorageAt", "hardhat_setStorageAt"})


def _method(name: str, handler: Callable[..., bytes | None]) -> Method:
    parameters = [Parameter(f"p{number}", _Json(), optional=True) for number in range(1, 5)]
    return Method(
        name=name,
        summary="As an L1 would answer.",
        handler=handler,
        in_thread=True,
        for_own_pages=name in _WRITES,
        **common("any", *parameters, may_be_absent=True),
    )


def _refuse(*_: object) -> bytes:
    raise MethodNotFound(NO_EVM)


class _Clock:
    """Handlers; arguments that are not asked for may be missing."""

    def __init__(self, network: LocalNetwork, changes: Changes) -> None:
        self._network = network
        self._changes = changes
        chain = network.view.chain.chain
        self._addresses = {name: text.lower() for name, text in chain.node_info["l1ContractAddresses"].items()}
        self._views = {function.selector: (function, answer) for function, answer in self._answers()}

    @property
    def _chain(self) -> ChainView:
        return self._network.view.chain

    # ---- blocks --------------------------------------------------------------------------------

    def version(self, *_: object) -> bytes:
        return orjson.dumps(f"anvil/fastnode {__version__} ({NO_EVM})")

    def net_version(self, *_: object) -> bytes:
        return b'"%d"' % self._chain.chain.l1_chain_id

    def chain_id(self, *_: object) -> bytes:
        return b'"0x%x"' % self._chain.chain.l1_chain_id

    def block_number(self, *_: object) -> bytes:
        return b'"0x%x"' % self._network.tip_slot()

    def block_by_number(self, _context: Context, tag: Any = "latest", *_: object) -> bytes | None:
        number = self._number(tag)
        return None if number > self._network.tip_slot() else self._block(number)

    def block_by_hash(self, _context: Context, wanted: Any = None, *_: object) -> bytes | None:
        newest = self._network.tip_slot()
        for number in range(newest, max(-1, newest - _HASHES_TRIED), -1):
            if hex_data(_hash(number)) == wanted:
                return self._block(number)
        return None

    def _number(self, tag: Any) -> int:
        if tag in (None, "latest", "pending"):
            return self._network.tip_slot()
        if tag == "earliest":
            return 0
        if tag in ("finalized", "safe"):
            info = self._chain.block_info(self._chain.tips.finalized.block.number)
            return 0 if info is None else info.slot_number
        return _quantity(tag, "block")

    def _block(self, number: int) -> bytes:
        timestamp = self._network.clock.slots.start_of(number)
        return orjson.dumps(
            {
                "number": hex(number),
                "hash": hex_data(_hash(number)),
                "parentHash": hex_data(_hash(number - 1) if number else _EMPTY_WORD),
                "timestamp": hex(timestamp),
                "baseFeePerGas": hex(self._network.fees.l1_fees.base_fee),
                "gasLimit": "0x1c9c380",
                "gasUsed": "0x0",
                "miner": "0x" + "00" * 20,
                "transactions": [],
            }
        )

    # ---- prices --------------------------------------------------------------------------------

    def gas_price(self, *_: object) -> bytes:
        return b'"0x%x"' % self._network.fees.l1_fees.base_fee

    def fee_history(self, _context: Context, count: Any = 1, newest: Any = "latest", *_: object) -> bytes:
        blocks = min(_quantity(count, "blockCount"), _HASHES_TRIED)
        price = hex(self._network.fees.l1_fees.base_fee)
        oldest = max(0, self._number(newest) - blocks + 1)
        history = {"oldestBlock": hex(oldest), "baseFeePerGas": [price] * (blocks + 1), "gasUsedRatio": [0] * blocks}
        return orjson.dumps(history)

    # ---- contracts -----------------------------------------------------------------------------

    def code(self, _context: Context, address: Any = None, *_: object) -> bytes:
        """Any code where the network has a contract: tools ask only whether there is some."""
        known = {value for value in self._addresses.values() if int(value, 16)}
        return b'"0xfe"' if str(address).lower() in known else b'"0x"'

    def storage(self, _context: Context, address: Any = None, slot: Any = None, *_: object) -> bytes:
        place, number = str(address).lower(), _quantity(slot, "slot")
        if place == self._addresses["rollupAddress"] and number == STATE_SLOT:
            tips = self._chain.tips
            word = tips.checkpointed.checkpoint.number << _TIPS_SHIFT | tips.proven.checkpoint.number
            return b'"0x%064x"' % word
        if place == self._addresses["inboxAddress"] and number == _INBOX_STATE_SLOT:
            rolling, count, in_progress = self._inbox_state()
            assert isinstance(rolling, bytes)
            assert isinstance(count, int)
            assert isinstance(in_progress, int)
            state = int.from_bytes(rolling[: len(NO_MESSAGES)], "big")
            return b'"0x%064x"' % (in_progress << 192 | count << 128 | state)
        if place == self._addresses["outboxAddress"]:
            for epoch, root in self._roots():
                if _root_slot(epoch) == number:
                    return orjson.dumps(hex_data(root))
        return b'"0x%064x"' % 0

    def set_storage(
        self, _context: Context, address: Any = None, slot: Any = None, value: Any = None, *_: object
    ) -> bytes:
        """The rollup's tips: what is proven there is proven here.  The Inbox moves on with blocks.  Roots of the Outbox
        are right already."""
        place, number = str(address).lower(), _quantity(slot, "slot")
        if place == self._addresses["rollupAddress"] and number == STATE_SLOT:
            self._changes.prove(_quantity(value, "value") & (1 << _TIPS_SHIFT) - 1)
            return b"true"
        if place == self._addresses["inboxAddress"] and number == _INBOX_STATE_SLOT:
            wanted = (_quantity(value, "value") >> 192) - 1 - _LAG
            self._changes.mine(min(max(0, wanted - self._newest), BLOCKS_MAX))
            return b"true"
        if place == self._addresses["outboxAddress"]:
            return b"true"
        raise MethodNotFound(NO_EVM)

    def call(self, _context: Context, request: Any = None, *_: object) -> bytes:
        if not isinstance(request, dict):
            raise InvalidParams("Invalid params: call (parameter 1) must be an object")
        data = _bytes(request.get("data") or request.get("input") or "0x")
        found = self._views.get(data[:4])
        if found is None or str(request.get("to")).lower() not in self._addresses.values():
            raise MethodNotFound(NO_EVM)
        words = [int.from_bytes(data[at : at + WORD_BYTES], "big") for at in range(4, len(data), WORD_BYTES)]
        outputs = found[1](*words)
        return orjson.dumps(hex_data(b"".join(_word(item) for item in outputs)))

    def _answers(self) -> list[tuple[Function, Callable[..., tuple[int | bytes, ...]]]]:
        """The functions that are answered, and their outputs."""
        chain, clock, addresses = self._chain.chain, self._network.clock, self._addresses
        constants = chain.l1_constants
        epoch_duration = chain.epoch_duration

        def slot_at(timestamp: int) -> int:
            return clock.slots.slot_at(timestamp)

        def now() -> int:
            return self._network.tip_slot()

        rows: list[tuple[Function, Callable[..., tuple[int | bytes, ...]]]] = [
            (contracts.VERSION, lambda: (chain.rollup_version,)),
            (contracts.GENESIS_TIME, lambda: (chain.l1_genesis_time,)),
            (contracts.SLOT_DURATION, lambda: (chain.slot_duration,)),
            (contracts.EPOCH_DURATION, lambda: (epoch_duration,)),
            (contracts.PROOF_SUBMISSION_EPOCHS, lambda: (int(constants.get("proofSubmissionEpochs", 1)),)),
            (contracts.TARGET_COMMITTEE_SIZE, lambda: (0,)),
            (contracts.MANA_LIMIT, lambda: (int(constants["rollupManaLimit"]),)),
            (contracts.INBOX, lambda: (encode.from_hex(addresses["inboxAddress"]),)),
            (contracts.OUTBOX, lambda: (encode.from_hex(addresses["outboxAddress"]),)),
            (contracts.CANONICAL_ROLLUP, lambda: (encode.from_hex(addresses["rollupAddress"]),)),
            (contracts.ROLLUP_OF_VERSION, lambda _: (encode.from_hex(addresses["rollupAddress"]),)),
            (contracts.PROVEN_CHECKPOINT, lambda: (self._chain.tips.proven.checkpoint.number,)),
            (Function("getPendingCheckpointNumber()", _N), lambda: (self._newest,)),
            (Function("getTips()", _N, _N), lambda: (self._newest, self._chain.tips.proven.checkpoint.number)),
            (Function("getSlotAt(uint256)", _N), lambda timestamp: (slot_at(timestamp),)),
            (Function("getEpochAt(uint256)", _N), lambda timestamp: (slot_at(timestamp) // epoch_duration,)),
            (Function("getCurrentSlot()", _N), lambda: (now(),)),
            (Function("getCurrentEpoch()", _N), lambda: (now() // epoch_duration,)),
            (Function("getTimestampForSlot(uint256)", _N), lambda slot: (clock.slots.start_of(slot),)),
            (Function("getEpochAtSlot(uint256)", _N), lambda slot: (slot // epoch_duration,)),
            (contracts.ARCHIVE_AT, lambda number: (self._archive(number),)),
            (Function("archive()", _B32), lambda: (self._archive(self._newest),)),
            (contracts.STATUS, self._status),
            (contracts.INBOX_STATE, self._inbox_state),
            (contracts.OUTBOX_ROOT, lambda epoch: (dict(self._roots()).get(epoch, _EMPTY_WORD),)),
        ]
        return rows

    @property
    def _newest(self) -> int:
        return self._chain.tips.checkpointed.checkpoint.number

    def _archive(self, checkpoint: int) -> bytes:
        """Archive root after a checkpoint; zero for one that does not exist."""
        if checkpoint > self._newest:
            return _EMPTY_WORD
        stored = self._chain.checkpoint(checkpoint) if checkpoint else None
        info = self._chain.block_info(0 if stored is None else stored.last_block)
        assert info is not None
        return info.archive_root

    def _status(self, checkpoint: int) -> tuple[int | bytes, ...]:
        proven = self._chain.tips.proven.checkpoint.number
        header = self._header(proven)
        epoch = int(header["slotNumber"]) // self._chain.chain.epoch_duration if header else 0
        archives = self._archive(proven), self._archive(self._newest), self._archive(checkpoint)
        return proven, archives[0], self._newest, archives[1], archives[2], epoch

    def _header(self, checkpoint: int) -> dict[str, Any]:
        stored = self._chain.checkpoint(checkpoint) if checkpoint else None
        return {} if stored is None else orjson.loads(stored.header_json)

    def _roots(self) -> Iterator[tuple[int, bytes]]:
        """Epochs that are proven, the newest first, with the roots of their messages."""
        for number in range(self._chain.tips.proven.checkpoint.number, 0, -1):
            header = self._header(number)
            yield int(header["slotNumber"]) // self._chain.chain.epoch_duration, encode.from_hex(header["epochOutHash"])

    # ---- messages ------------------------------------------------------------------------------

    def _messages(self) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Checkpoint, index, hash and rolling hash after it of every message."""
        rolling = NO_MESSAGES
        for number in range(1, self._newest + 1):
            for index, message in enumerate(self._chain.l1_to_l2_messages(number), first_message_index(number)):
                rolling = roll(rolling, message)
                yield number, index, message, rolling

    def _inbox_state(self) -> tuple[int | bytes, ...]:
        count, rolling = 0, NO_MESSAGES
        for _, _, _, after in self._messages():
            count, rolling = count + 1, after
        return rolling.ljust(WORD_BYTES, b"\0"), count, self._newest + 1 + _LAG

    def logs(self, _context: Context, query: Any = None, *_: object) -> bytes:
        """``MessageSent`` of the Inbox and ``CheckpointProposed`` of the rollup."""
        if not isinstance(query, dict):
            raise InvalidParams("Invalid params: filter (parameter 1) must be an object")
        first, last = self._number(query.get("fromBlock", "latest")), self._number(query.get("toBlock", "latest"))
        if self._newest > _CHECKPOINTS_MAX:
            raise InvalidParams(f"Invalid params: logs of more than {_CHECKPOINTS_MAX} checkpoints are not made here")
        wanted = query.get("address")
        places = {str(item).lower() for item in (wanted if isinstance(wanted, list) else [wanted])}
        topics = query.get("topics") or [None]
        topic = topics[0] if isinstance(topics[0], list) else topics[:1]
        found = [
            log
            for log in (*self._message_logs(), *self._checkpoint_logs())
            if first <= int(str(log["blockNumber"]), 16) <= last
            and (wanted is None or log["address"] in places)
            and (topic == [None] or log["topics"][0] in topic)
        ]
        found.sort(key=lambda log: int(str(log["blockNumber"]), 16))
        return orjson.dumps([log | {"logIndex": hex(index)} for index, log in enumerate(found)])

    def _message_logs(self) -> Iterator[dict[str, Any]]:
        for number, index, message, rolling in self._messages():
            data = _word(index) + rolling.ljust(WORD_BYTES, b"\0")
            yield self._log("inboxAddress", number, [contracts.MESSAGE_SENT.topic, _word(number), message], data)

    def _checkpoint_logs(self) -> Iterator[dict[str, Any]]:
        """Without blobs: nothing is published, so the list of their hashes is empty."""
        for number in range(1, self._newest + 1):
            stored = self._chain.checkpoint(number)
            assert stored is not None
            data = _word(3 * WORD_BYTES) + _EMPTY_WORD + stored.header_hash + _word(0)
            topics = [CHECKPOINT_PROPOSED, _word(number), self._archive(number)]
            yield self._log("rollupAddress", number, topics, data)

    def _log(self, contract: str, checkpoint: int, topics: list[Any], data: bytes) -> dict[str, Any]:
        slot = int(self._header(checkpoint)["slotNumber"])
        return {
            "address": self._addresses[contract],
            "topics": [item if isinstance(item, str) else hex_data(item) for item in topics],
            "data": hex_data(data),
            "blockNumber": hex(slot),
            "blockHash": hex_data(_hash(slot)),
            "transactionHash": hex_data(keccak_256(_hash(slot))),
            "transactionIndex": "0x0",
            "removed": False,
        }


def _hash(number: int) -> bytes:
    """Hash of the block of L1 that a checkpoint of this slot names as the one that published it."""
    return sha256_to_field(b"fastnode L1" + field_from_int(number))


def _root_slot(epoch: int) -> int:
    return int.from_bytes(keccak_256(_word(epoch) + _EMPTY_WORD), "big")


def _word(value: int | bytes) -> bytes:
    return value.to_bytes(WORD_BYTES, "big") if isinstance(value, int) else value.rjust(WORD_BYTES, b"\0")


def _quantity(value: Any, name: str) -> int:
    try:
        if isinstance(value, str) and value.isascii() and value.isalnum():
            return int(value, 16 if value.startswith("0x") else 10)
        if isinstance(value, int) and value >= 0:
            return value
    except ValueError:
        pass
    raise InvalidParams(f"Invalid params: {name} must be a number, got {str(value)[:60]}")


def _bytes(text: Any) -> bytes:
    try:
        return encode.from_hex(text)
    except (TypeError, ValueError):
        raise InvalidParams("Invalid params: data must be hex") from None
