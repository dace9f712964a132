"""A node of L1 on a real socket, with the rollup's contracts as far as fastnode asks them.

It keeps whole states per block, so a reorg is a shorter list of blocks, and it refuses what providers refuse.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.sources.scripted_upstream import RejectionError, ScriptedServer

from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_CHECKPOINT
from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.inbox_hash import EMPTY_INBOX, rolled_inbox
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function
from fastnode.sources.l1.multicall import BLOCK_HASH, BLOCK_NUMBER, BLOCK_TIMESTAMP, PARENT_HASH
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED
from fastnode.sources.l1.terms import STATE_SLOT

Json = dict[str, Any]

MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11"
SLOT_SECONDS = 12
WORD = 32
LAG = 1
NO_HASH = bytes(16)


@dataclass(frozen=True)
class Sent:
    """A message with the rolling hash after it."""

    checkpoint: int
    index: int
    hash: bytes
    rolling_hash: bytes


@dataclass(frozen=True)
class Published:
    """A checkpoint that a transaction brings: the event, and the transaction's target and call data."""

    number: int
    archive: bytes
    event: str  # data of the event
    tx_hash: str
    to: str
    input: str
    slot: int = 0


@dataclass(frozen=True)
class Block:
    """A block of L1 with the state of the contracts after it."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: int
    logs: tuple[Sent, ...] = ()
    sent: tuple[Sent, ...] = ()  # all messages so far
    in_progress: int = 1 + LAG
    archives: tuple[bytes, ...] = (bytes(32),)  # by checkpoint
    proven: int = 0
    outbox: tuple[tuple[int, bytes], ...] = ()
    #: Of release 5.x: by epoch and number of checkpoints.
    roots: tuple[tuple[tuple[int, int], bytes], ...] = ()
    minimum_fee: int = 1_000
    committees: tuple[tuple[int, tuple[bytes, ...]], ...] = ()
    proposals: tuple[Published, ...] = ()  # in this block
    can_prune: bool = False
    #: From this time on; None: ``can_prune`` says it for any time.
    prunable_from: int | None = None

    @property
    def pending(self) -> int:
        return len(self.archives) - 1


@dataclass
class Limits:
    """What this provider allows."""

    range_blocks: int = 1_000_000
    logs: int = 1_000_000
    batch: int = 1_000


@dataclass
class Addresses:
    registry: str
    rollup: str
    inbox: str
    outbox: str
    portal: str

    @classmethod
    def of(cls, node_info: Json) -> Addresses:
        named = node_info["l1ContractAddresses"]
        keys = ("registryAddress", "rollupAddress", "inboxAddress", "outboxAddress", "feeJuicePortalAddress")
        return cls(*(named[key] for key in keys))


class ScriptedL1(ScriptedServer):
    """``node_info`` and ``constants`` say which rollup it has."""

    def __init__(self, node_info: Json, constants: Json) -> None:
        super().__init__()
        self.chain_id = int(node_info["l1ChainId"])
        self.version = int(node_info["rollupVersion"])
        self.addresses = Addresses.of(node_info)
        self.constants = dict(constants)
        self.committee_size = 0
        self.has_multicall = True
        #: Form of the Inbox's rolling hash from release 6.x on; None: the Inbox of earlier ones.
        self.inbox_form: str | None = None
        #: The rollup that the registry names; None: this one.
        self.canonical: bytes | None = None
        self.finality = 2  # blocks behind the newest
        self.finality_step = 1
        self.limits = Limits()
        #: Blocks whose logs this provider has not indexed yet.
        self.unindexed = 0
        start = int(constants["l1StartBlock"])
        self._salt = 0
        genesis = bytes.fromhex(str(constants["genesisArchiveRoot"])[2:])
        #: Seconds since 1970, for the blocks that are made.
        self.clock: Callable[[], float] = time.time
        now = int(self.clock())
        self.blocks = [Block(0, hashlib.sha256(b"0").digest(), bytes(32), now - 100, archives=(genesis,))]
        while self.head.number < start:
            self.mine()
        self._methods: dict[str, Callable[..., Any]] = {
            "eth_chainId": self._get_chain_id,
            "eth_getBlockByNumber": self._get_block,
            "eth_getBlockByHash": self._get_block_by_hash,
            "eth_getTransactionByHash": self._get_transaction,
            "eth_getLogs": self._get_logs,
            "eth_call": self._call,
        }
        #: Root of the verification keys, hash of the protocol contracts; None: storage is not read here.
        self.circuits: tuple[bytes, bytes] | None = None

    # ---- what happens on L1 --------------------------------------------------------------------

    @property
    def head(self) -> Block:
        return self.blocks[-1]

    def mine(self, count: int = 1, **changes: Any) -> Block:
        """New blocks; the first of them brings the changes."""
        for _ in range(count):
            head = self.head
            number = head.number + 1
            digest = hashlib.sha256(head.hash + f"{number} {self._salt}".encode()).digest()
            self.blocks.append(
                replace(
                    head,
                    number=number,
                    hash=digest,
                    parent_hash=head.hash,
                    **({"logs": (), "proposals": (), "timestamp": max(head.timestamp, int(self.clock()))} | changes),
                )
            )
            changes = {}
        return self.head

    def send(self, *messages: bytes, checkpoint: int | None = None) -> Block:
        """Messages to the rollup, in a new block; to the checkpoint that is filled now, or to a later one; to the next
        one where it is full."""
        head = self.head
        if self.inbox_form is not None:
            return self._send_counted(messages, self.inbox_form)
        number = head.in_progress if checkpoint is None else checkpoint
        sent = list(head.sent)
        new: list[Sent] = []
        for message in messages:
            place = sum(item.checkpoint == number for item in sent)
            if place == L1_TO_L2_MESSAGES_PER_CHECKPOINT:
                number, place = number + 1, 0
            index = L1_TO_L2_MESSAGES_PER_CHECKPOINT * (number - 1) + place
            before = sent[-1].rolling_hash if sent else NO_HASH
            new.append(Sent(number, index, message, keccak_256(before + message)[:16]))
            sent.append(new[-1])
        return self.mine(logs=tuple(new), sent=tuple(sent), in_progress=number)

    def _send_counted(self, messages: tuple[bytes, ...], form: str) -> Block:
        sent = list(self.head.sent)
        for message in messages:
            before = sent[-1].rolling_hash if sent else EMPTY_INBOX
            sent.append(Sent(0, len(sent), message, rolled_inbox(before, [message], form)))
        return self.mine(logs=tuple(sent[len(self.head.sent) :]), sent=tuple(sent))

    def advance(self, in_progress: int) -> Block:
        """Messages go to this checkpoint from now on."""
        return self.mine(in_progress=in_progress)

    def reorg(self, depth: int) -> None:
        """The newest blocks are gone; those that are mined next are others."""
        del self.blocks[len(self.blocks) - depth :]
        self._salt += 1

    # ---- answers -------------------------------------------------------------------------------

    def answer(self, body: bytes) -> bytes:
        request = json.loads(body)
        with self.lock:
            if not isinstance(request, list):
                return json.dumps(self._answer_one(request)).encode()
            if len(request) > self.limits.batch:
                error = {"code": -32600, "message": "batch too large"}
                return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
            return json.dumps([self._answer_one(call) for call in request]).encode()

    def _answer_one(self, call: Json) -> Json:
        method, parameters = call["method"], call["params"]
        self.requests.append(method)
        reply: Json = {"jsonrpc": "2.0", "id": call["id"]}
        try:
            handler = self._methods.get(method)
            if method == "eth_getStorageAt" and self.circuits is not None:
                handler = self._get_storage
            if handler is None:
                raise RejectionError(-32601, f"the method {method} does not exist")
            return reply | {"result": self.tamper(method, parameters, handler(*parameters))}
        except RejectionError as rejection:
            return reply | {"error": rejection.error}

    def _get_chain_id(self) -> str:
        return hex(self.chain_id)

    def _get_block(self, tag: str, _full: bool) -> Json | None:
        block = self._block(tag)
        return None if block is None else _block_json(block)

    def _get_block_by_hash(self, text: str, _full: bool) -> Json | None:
        asked = bytes.fromhex(text[2:])
        return next((_block_json(block) for block in reversed(self.blocks) if block.hash == asked), None)

    def _get_transaction(self, text: str) -> Json | None:
        for block in reversed(self.blocks):
            for item in block.proposals:
                if item.tx_hash == text:
                    return {"hash": text, "to": item.to, "input": item.input, "blockHash": "0x" + block.hash.hex()}
        return None

    def _get_storage(self, contract: str, place: str, _tag: str) -> str:
        words = dict(zip((STATE_SLOT + 3, STATE_SLOT + 4), self.circuits or (), strict=False))
        value = words.get(int(place, 16), bytes(WORD)) if contract == self.addresses.rollup else bytes(WORD)
        return "0x" + value.hex()

    def _block(self, tag: str) -> Block | None:
        if tag == "latest":
            return self.head
        final = max(0, self.head.number - self.finality) // self.finality_step * self.finality_step
        number = final if tag == "finalized" else int(tag, 16)
        return self.blocks[number] if number < len(self.blocks) else None

    def _get_logs(self, query: Json) -> list[Json]:
        first, last = int(query["fromBlock"], 16), int(query["toBlock"], 16)
        if last - first + 1 > self.limits.range_blocks:
            raise RejectionError(-32602, f"block range is too large, the limit is {self.limits.range_blocks}")
        indexed = self.blocks[: len(self.blocks) - self.unindexed][first : last + 1]
        asked = (query["address"], query["topics"])
        event = contracts.MESSAGE_SENT if self.inbox_form is None else contracts.COMPACT_MESSAGE_SENT
        if asked == (self.addresses.inbox, [event.topic]):
            logs = [self._log(block, place) for block in indexed for place in range(len(block.logs))]
        elif asked == (self.addresses.rollup, [CHECKPOINT_PROPOSED]):
            logs = [self._event(block, place) for block in indexed for place in range(len(block.proposals))]
        else:
            return []
        if len(logs) > self.limits.logs:
            raise RejectionError(-32005, f"query returned more than {self.limits.logs} results")
        return logs

    def _event(self, block: Block, place: int) -> Json:
        item = block.proposals[place]
        return {
            "address": self.addresses.rollup,
            "topics": [CHECKPOINT_PROPOSED, _number(item.number), "0x" + item.archive.hex()],
            "data": item.event,
            "blockNumber": hex(block.number),
            "blockHash": "0x" + block.hash.hex(),
            "transactionHash": item.tx_hash,
            "logIndex": hex(place),
            "removed": False,
        }

    def _log(self, block: Block, place: int) -> Json:
        sent = block.logs[place]
        topics = [contracts.MESSAGE_SENT.topic, _number(sent.checkpoint), "0x" + sent.hash.hex()]
        data = _number(sent.index) + sent.rolling_hash.ljust(WORD, b"\0").hex()
        if self.inbox_form is not None:
            # Of the message only the index is read: sender, recipient, content and secret hash are zero.
            topics = [contracts.COMPACT_MESSAGE_SENT.topic, "0x" + sent.hash.hex()]
            data = "0x" + sent.rolling_hash.hex() + _number(block.number)[2:] + bytes(6 * WORD).hex()
            data += _number(sent.index)[2:]
        return {
            "address": self.addresses.inbox,
            "topics": topics,
            "data": data,
            "blockNumber": hex(block.number),
            "blockHash": "0x" + block.hash.hex(),
            "logIndex": hex(place),
            "removed": False,
        }

    def _call(self, call: Json, tag: str) -> str:
        block = self._block(tag)
        if block is None:
            raise RejectionError(-32000, "header not found")
        data = bytes.fromhex(call["data"][2:])
        if call["to"] == MULTICALL3:
            return self._aggregate(block, data) if self.has_multicall else "0x"
        return self._call_one(block, call["to"], data)

    def _aggregate(self, block: Block, data: bytes) -> str:
        """``aggregate3``, and what the contract tells of the block."""
        arguments = data[4:]
        answers = []
        for place in range(int.from_bytes(arguments[WORD : 2 * WORD], "big")):
            at = 64 + int.from_bytes(arguments[64 + WORD * place : 96 + WORD * place], "big")
            target = "0x" + arguments[at + 12 : at + WORD].hex()
            length = int.from_bytes(arguments[at + 96 : at + 128], "big")
            inner = arguments[at + 128 : at + 128 + length]
            try:
                answer = self._of_block(block, inner) if target == MULTICALL3 else self._call_one(block, target, inner)
                content, is_good = bytes.fromhex(answer[2:]), 1
            except RejectionError:
                content, is_good = b"", 0
            padded = content + bytes(-len(content) % WORD)
            head = b"".join(value.to_bytes(WORD, "big") for value in (is_good, 64, len(content)))
            answers.append(head + padded)
        offsets, at = b"", WORD * len(answers)
        for item in answers:
            offsets += at.to_bytes(WORD, "big")
            at += len(item)
        start = WORD.to_bytes(WORD, "big") + len(answers).to_bytes(WORD, "big")
        return "0x" + (start + offsets + b"".join(answers)).hex()

    def _of_block(self, block: Block, data: bytes) -> str:
        if data[:4] == BLOCK_HASH.selector:
            number = int.from_bytes(data[4:], "big")
            is_known = block.number - 256 <= number < block.number
            return "0x" + _word(self.blocks[number].hash if is_known else 0)
        found: dict[bytes, int | bytes] = {
            BLOCK_NUMBER.selector: block.number,
            BLOCK_TIMESTAMP.selector: block.timestamp,
            PARENT_HASH.selector: block.parent_hash,
        }
        return "0x" + _word(found[data])

    def _call_one(self, block: Block, to: str, data: bytes) -> str:
        arguments = [int.from_bytes(data[at : at + WORD], "big") for at in range(4, len(data), WORD)]
        for function, of in self._functions().items():
            if data[:4] == function.selector and to == of[0]:
                return "0x" + "".join(_word(value) for value in of[1](block, *arguments))
        return "0x"

    def _functions(self) -> dict[Function, tuple[str, Callable[..., list[int | str | bytes]]]]:
        rollup, constants = self.addresses.rollup, self.constants
        of_rollup: dict[Function, Callable[..., list[Any]]] = {
            contracts.VERSION: lambda block: [self.version],
            contracts.INBOX: lambda block: [self.addresses.inbox],
            contracts.OUTBOX: lambda block: [self.addresses.outbox],
            contracts.FEE_ASSET_PORTAL: lambda block: [self.addresses.portal],
            contracts.DEPLOYMENT_BLOCK: lambda block: [int(constants["l1StartBlock"])],
            contracts.GENESIS_TIME: lambda block: [int(constants["l1GenesisTime"])],
            contracts.SLOT_DURATION: lambda block: [constants["slotDuration"]],
            contracts.EPOCH_DURATION: lambda block: [constants["epochDuration"]],
            contracts.PROOF_SUBMISSION_EPOCHS: lambda block: [1],
            contracts.TARGET_COMMITTEE_SIZE: lambda block: [self.committee_size],
            contracts.STATUS: self._status,
            contracts.PROVEN_CHECKPOINT: lambda block: [block.proven],
            contracts.ARCHIVE_AT: lambda block, number: [
                block.archives[number] if number < len(block.archives) else bytes(WORD)
            ],
            contracts.CAN_PRUNE_AT_TIME: lambda block, time: [
                int(block.can_prune if block.prunable_from is None else time >= block.prunable_from)
            ],
            contracts.COMMITTEE_AT: self._committee_at,
            contracts.ESCAPE_HATCH: lambda block: [0],
            contracts.CHECKPOINT: lambda block, number: [0] * 6 + [self._slot_of(block, number), 0, 0, 10**7, 0, 0],
            contracts.MANA_TARGET: lambda block: [10**8],
            contracts.MANA_LIMIT: lambda block: [int(constants["rollupManaLimit"])],
            contracts.PROVING_COST_PER_MANA: lambda block: [25_000_000],
            contracts.L1_FEES_AT: lambda block, _: [10**9, 1],
            contracts.MANA_MIN_FEE_AT: lambda block, _time, _in_asset: [block.minimum_fee],
            contracts.COMMITTEE_OF_EPOCH: self._committee,
            contracts.PROPOSER_AT: self._proposer,
        }
        return {function: (rollup, answer) for function, answer in of_rollup.items()} | {
            contracts.ROLLUP_OF_VERSION: (self.addresses.registry, self._rollup_of_version),
            contracts.CANONICAL_ROLLUP: (
                self.addresses.registry,
                lambda block: [self.canonical or self.addresses.rollup],
            ),
            contracts.INBOX_STATE: (self.addresses.inbox, _inbox_state),
            contracts.OUTBOX_ROOT: (
                self.addresses.outbox,
                lambda block, epoch: [dict(block.outbox).get(epoch, bytes(WORD))],
            ),
            contracts.OUTBOX_ROOTS: (
                self.addresses.outbox,
                lambda block, epoch: [dict(block.roots).get((epoch, count), bytes(WORD)) for count in range(1, 33)],
            ),
        }

    def _slot_of(self, block: Block, number: int) -> int:
        """The slot of a checkpoint; its number where nobody has said it."""
        for at in range(block.number, -1, -1):
            for item in reversed(self.blocks[at].proposals):
                if item.number == number:
                    return item.slot or number
        return number

    def _status(self, block: Block, number: int) -> list[Any]:
        archives = block.archives
        mine = archives[number] if number < len(archives) else bytes(WORD)
        return [block.proven, archives[min(block.proven, block.pending)], block.pending, archives[-1], mine, 0]

    def _rollup_of_version(self, _block: Block, version: int) -> list[str]:
        if version != self.version:
            raise RejectionError(3, "execution reverted")
        return [self.addresses.rollup]

    def _committee(self, block: Block, epoch: int) -> list[Any]:
        members = dict(block.committees).get(epoch)
        if members is None:
            raise RejectionError(3, "execution reverted: ValidatorSelection__InsufficientValidatorSetSize")
        return [WORD, len(members), *members]

    def _committee_at(self, block: Block, timestamp: int) -> list[Any]:
        slot = (timestamp - int(self.constants["l1GenesisTime"])) // int(self.constants["slotDuration"])
        return self._committee(block, slot // int(self.constants["epochDuration"]))

    def _proposer(self, block: Block, timestamp: int) -> list[Any]:
        slot = (timestamp - int(self.constants["l1GenesisTime"])) // int(self.constants["slotDuration"])
        members = dict(block.committees).get(slot // int(self.constants["epochDuration"]))
        if not members:
            raise RejectionError(3, "execution reverted")
        return [members[slot % len(members)]]


def beacon_root(number: int) -> bytes:
    """The root of the block of the consensus chain before L1 block ``number``."""
    return hashlib.sha256(f"beacon {number - 1}".encode()).digest()


def _block_json(block: Block) -> Json:
    return {
        "number": hex(block.number),
        "hash": "0x" + block.hash.hex(),
        "parentHash": "0x" + block.parent_hash.hex(),
        "timestamp": hex(block.timestamp),
        "parentBeaconBlockRoot": "0x" + beacon_root(block.number).hex(),
    }


def _inbox_state(block: Block) -> list[Any]:
    rolling_hash = block.sent[-1].rolling_hash if block.sent else NO_HASH
    return [rolling_hash.ljust(WORD, b"\0"), len(block.sent), block.in_progress]


def _number(value: int) -> str:
    return "0x" + value.to_bytes(WORD, "big").hex()


def _word(value: int | str | bytes) -> str:
    """Hex digits of one word; text is an address."""
    if isinstance(value, int):
        return value.to_bytes(WORD, "big").hex()
    data = bytes.fromhex(value[2:]) if isinstance(value, str) else value
    return data.rjust(WORD, b"\0").hex()


@contextmanager
def scripted_l1(node_info: Json, constants: Json) -> Iterator[ScriptedL1]:
    l1 = ScriptedL1(node_info, constants)
    l1.start()
    try:
        yield l1
    finally:
        l1.stop()
