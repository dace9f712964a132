"""L1 of a world whose checkpoints come from nodes: a pool of transactions, and a rollup that looks at what they call.

What the contract refuses is refused (parent, slot, price, messages, blobs, proposer); attestations it does not look at
until somebody asks to have a checkpoint taken back, as the real one.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.simulation.l1 import L1, Provider
from tests.sources.l1.publishing import PublishingL1, event_data, propose_call
from tests.sources.l1.scripted_l1 import LAG, Block, Published, _number
from tests.sources.scripted_upstream import RejectionError

from fastnode.errors import DecodeError
from fastnode.protocol import rlp
from fastnode.protocol.ethereum import keccak_256, recover_signer
from fastnode.protocol.kzg import blobs_hash, versioned_hash
from fastnode.protocol.messages import in_hash
from fastnode.publishing.envelope import SignedTransaction, Transaction
from fastnode.sequencing.turns import CAN_PROPOSE
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function, hex_data
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, PROPOSE_SELECTOR, Proposal
from fastnode.sources.l1.terms import STATE_SLOT

__all__ = ["ProposingL1", "Sent", "TakingProvider", "without_signatures"]

Json = dict[str, Any]
_WORD: Final = 32
_AGGREGATE3: Final = keccak_256(b"aggregate3((address,bool,bytes)[])")[:4]
_INVALIDATIONS: Final = tuple(
    keccak_256(name)[:4]
    for name in (
        b"invalidateBadAttestation(uint256,(bytes,bytes),address[],uint256)",
        b"invalidateInsufficientAttestations(uint256,(bytes,bytes),address[])",
    )
)
_INVALIDATED: Final = hex_data(keccak_256(b"CheckpointInvalidated(uint256)"))
_GAS: Final = 500_000
_BALANCE: Final = 10**20


def _refusal(name: str) -> RejectionError:
    """Of the contract, by the signature of its error."""
    words = name[name.index("(") + 1 : -1].count(",") + (not name.endswith("()"))
    rejection = RejectionError(3, f"execution reverted: {name}")
    rejection.error["data"] = hex_data(keccak_256(name.encode())[:4] + bytes(_WORD * words))
    return rejection


@dataclass(frozen=True)
class Sent:
    """A transaction that L1 has heard of.  ``blobs`` with their commitments."""

    hash: bytes
    sender: bytes
    inner: Transaction
    blobs: tuple[tuple[bytes, bytes], ...] = ()

    @classmethod
    def of(cls, raw: bytes) -> Sent:
        content: Any = rlp.decode(raw[1:], items_max=4096, depth_max=3)
        blobs: tuple[tuple[bytes, bytes], ...] = ()
        if raw[0] == 3:
            content, plain, commitments, _proofs = content
            blobs = tuple(zip(plain, commitments, strict=True))
        chain, nonce, tip, fee, gas = (int.from_bytes(part, "big") for part in content[:5])
        inner = Transaction(
            chain_id=chain,
            nonce=nonce,
            tip_max=tip,
            fee_max=fee,
            gas=gas,
            to=content[5],
            value=int.from_bytes(content[6], "big"),
            data=content[7],
            blob_fee_max=int.from_bytes(content[9], "big") if raw[0] == 3 else None,
            versioned_hashes=tuple(content[10]) if raw[0] == 3 else (),
        )
        y, r, s = content[-3:]
        signature = r.rjust(_WORD, b"\0") + s.rjust(_WORD, b"\0") + bytes([27 + int.from_bytes(y, "big")])
        signed = SignedTransaction(inner, signature)
        sender = signed.sender()
        assert sender is not None
        return cls(signed.hash(), sender, inner, blobs)


@dataclass(frozen=True)
class Receipt:
    block: bytes
    number: int
    logs: tuple[Json, ...]


class ProposingL1(L1):
    """``on_proposal`` is told of each checkpoint that comes into a block, and whether its committee stands behind it;
    ``bend`` gives the call that L1 has in the place of a hostile proposer's."""

    def __init__(self, node_info: Json, constants: Json, chance: random.Random) -> None:
        super().__init__(node_info, constants)
        self._chance = chance
        self.pool: dict[tuple[bytes, int], Sent] = {}
        self._known: dict[bytes, Sent] = {}
        self._nonces: dict[bytes, Counter[bytes]] = {}
        self._receipts: dict[bytes, list[Receipt]] = {}
        #: Slots and values of checkpoints by their archive roots, and transactions by block.
        self.slots: dict[bytes, int] = {}
        self._included: dict[bytes, list[Sent]] = {}
        self.is_good: dict[str, bool] = {}
        self.bend: Callable[[Sent, bytes], bytes] = lambda sent, call: call
        self.on_proposal: Callable[[Block, Published, Proposal, bool], None] = lambda *_: None
        #: Part of transactions that a block leaves for the next.
        self.crowded = 0.0

    # ---- blocks ----------------------------------------------------------------------------------

    def tick(self, slot: int) -> None:
        self.slot = slot
        if self.deeds:
            before = self.head.number
            self.deeds.popleft()()
            if self.head.number > before:
                self.note()
                return
        self._mine_pool()
        self.note()

    def _mine_pool(self) -> None:
        """A block with what waits."""
        parent = self.head
        block = self.mine()
        nonces = Counter(self.nonces(parent.hash))
        included: list[Sent] = []
        state = block
        for sent in sorted(self.pool.values(), key=lambda sent: (sent.inner.nonce, sent.sender)):
            if sent.inner.nonce != nonces[sent.sender] or self._chance.random() < self.crowded:
                continue
            nonces[sent.sender] += 1
            del self.pool[sent.sender, sent.inner.nonce]
            included.append(sent)
            state, logs = self._carry_out(state, sent)
            self._receipts.setdefault(sent.hash, []).append(Receipt(block.hash, block.number, logs))
        self.blocks[-1] = state
        self._nonces[block.hash] = nonces
        self._included[block.hash] = included
        for item in state.proposals:
            proposal = Proposal.from_call_data(self._call_of(bytes.fromhex(item.input[2:])))
            self.on_proposal(state, item, proposal, self.is_good[item.tx_hash])

    def reorg(self, depth: int) -> None:
        lost = [sent for block in self.blocks[-depth:] for sent in self._included.get(block.hash, ())]
        super().reorg(depth)
        for sent in lost:
            if self._chance.random() < 0.8:
                self.pool.setdefault((sent.sender, sent.inner.nonce), sent)

    def nonces(self, block: bytes) -> Counter[bytes]:
        """Of all accounts after a block; deeds of others leave them as they are."""
        at = next((known.number for known in reversed(self.blocks) if known.hash == block), len(self.blocks) - 1)
        newest = (self._nonces[known.hash] for known in reversed(self.blocks[: at + 1]) if known.hash in self._nonces)
        return next(newest, Counter())

    # ---- the contracts ---------------------------------------------------------------------------

    def _carry_out(self, block: Block, sent: Sent) -> tuple[Block, tuple[Json, ...]]:
        logs: list[Json] = []
        for to, data in self._calls(sent.inner.to, sent.inner.data):
            if to != self.rollup:
                continue
            try:
                if data[:4] == PROPOSE_SELECTOR:
                    block, log = self._propose(block, sent, data)
                elif data[:4] in _INVALIDATIONS:
                    block, log = self._invalidate(block, data)
                else:
                    continue
            except (RejectionError, DecodeError):
                continue
            logs.append(log)
        return block, tuple(logs)

    def _calls(self, to: bytes, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        if data[:4] != _AGGREGATE3:
            yield to, data
            return
        body = data[4 + _WORD :]
        for place in range(int.from_bytes(body[:_WORD], "big")):
            at = _WORD + int.from_bytes(body[_WORD * (place + 1) : _WORD * (place + 2)], "big")
            size = int.from_bytes(body[at + 3 * _WORD : at + 4 * _WORD], "big")
            yield body[at + 12 : at + _WORD], body[at + 4 * _WORD : at + 4 * _WORD + size]

    def _call_of(self, data: bytes) -> bytes:
        return next(call for _, call in self._calls(b"", data) if call[:4] == PROPOSE_SELECTOR)

    def slot_at(self, time: int) -> int:
        return (time - int(self.constants["l1GenesisTime"])) // int(self.constants["slotDuration"])

    def _top(self, block: Block, time: int) -> int:
        """The checkpoint that the next one stands on."""
        is_prunable = block.prunable_from is not None and time >= block.prunable_from
        return block.proven if is_prunable else block.pending

    def require(self, block: Block, proposal: Proposal, time: int, top: int) -> None:
        """RejectionError unless the rollup takes it in a block of a time, on checkpoint ``top``."""
        header, slot = proposal.header, self.slot_at(time)
        if header.last_archive_root != block.archives[top]:
            raise _refusal("Rollup__InvalidArchive(bytes32,bytes32)")
        if header.slot_number != slot:
            raise _refusal("HeaderLib__InvalidSlotNumber(uint256,uint256)")
        if top and slot <= self.slots[block.archives[top]]:
            raise _refusal("Rollup__SlotAlreadyInChain(uint256,uint256)")
        if header.timestamp != int(self.constants["l1GenesisTime"]) + slot * int(self.constants["slotDuration"]):
            raise _refusal("Rollup__InvalidTimestamp(uint256,uint256)")
        if header.gas_fees.fee_per_l2_gas != block.minimum_fee:
            raise _refusal("Rollup__InvalidManaMinFee(uint256,uint256)")
        if header.in_hash != in_hash(self.messages(block, top + 1)):
            raise _refusal("Rollup__InvalidInHash(bytes32,bytes32)")
        members = self.members(block, slot)
        proposer = slot % len(members)
        indices = proposal.signature_indices
        if not indices or not indices[proposer // 8] >> (7 - proposer % 8) & 1:
            raise _refusal("ValidatorSelection__MissingProposerSignature(address,uint256)")

    def messages(self, block: Block, number: int) -> tuple[bytes, ...]:
        return tuple(item.hash for item in block.sent if item.checkpoint == number)

    def members(self, block: Block, slot: int) -> Sequence[bytes]:
        """RejectionError where there is no committee yet, as at a provider that is far behind."""
        members = dict(block.committees).get(slot // int(self.constants["epochDuration"]))
        if not members:
            raise _refusal("ValidatorSelection__InsufficientValidatorSetSize(uint256,uint256)")
        return members

    def _propose(self, block: Block, sent: Sent, data: bytes) -> tuple[Block, Json]:
        data = self.bend(sent, data)
        proposal = Proposal.from_call_data(data)
        top = self._top(block, block.timestamp)
        self.require(block, proposal, block.timestamp, top)
        hashes = tuple(versioned_hash(commitment) for _, commitment in sent.blobs)
        if hashes != sent.inner.versioned_hashes or blobs_hash(hashes) != proposal.header.blobs_hash:
            raise _refusal("Rollup__UnavailableTxs(bytes32)")
        number, root = top + 1, proposal.archive_root
        item = Published(
            number,
            root,
            event_data(hashes, proposal.payload_digest, proposal.attestations_hash),
            hex_data(sent.hash),
            hex_data(self.rollup),
            hex_data(data),
            slot=proposal.header.slot_number,
        )
        self.slots[root] = proposal.header.slot_number
        self.is_good[item.tx_hash] = self._is_attested(block, proposal)
        known = zip(hashes, (blob for blob, _ in sent.blobs), strict=True)
        self.beacon.blobs.setdefault(self.beacon.slot_of(block), []).extend(known)
        after = replace(
            block,
            archives=(*block.archives[:number], root),
            proposals=(*block.proposals, item),
            in_progress=max(block.in_progress, number + 1 + LAG),
            prunable_from=None if top < block.pending else block.prunable_from,
        )
        log = {"address": self.addresses.rollup, "topics": [CHECKPOINT_PROPOSED, _number(number), hex_data(root)]}
        return after, log | {"data": item.event}

    def _is_attested(self, block: Block, proposal: Proposal) -> bool:
        members = self.members(block, proposal.header.slot_number)
        signed = 0
        for item, member in zip(proposal.attestations(len(members)), members, strict=True):
            if item.address == bytes(20):
                if recover_signer(proposal.attested_digest, item.signature) != member:
                    return False
                signed += 1
            elif item.address != member:
                return False
        return signed >= len(members) * 2 // 3 + 1

    def _invalidate(self, block: Block, data: bytes) -> tuple[Block, Json]:
        number = int.from_bytes(data[4 : 4 + _WORD], "big")
        if not block.proven < number <= block.pending:
            raise _refusal("Rollup__CheckpointNotInPendingChain()")
        tx_hash = self.places()[number].tx_hash
        if self.is_good[tx_hash]:
            raise _refusal("Rollup__AttestationsAreValid()")
        log = {"address": self.addresses.rollup, "topics": [_INVALIDATED, _number(number)], "data": "0x"}
        return replace(block, archives=block.archives[:number]), log

    def places(self) -> dict[int, Published]:
        """What L1 has of each checkpoint that is pending or proven."""
        found: dict[int, Published] = {}
        for block in self.blocks:
            for item in block.proposals:
                found[item.number] = item
        return {number: item for number, item in found.items() if number <= self.head.pending}

    def first_bad(self) -> int | None:
        return next((number for number, item in sorted(self.places().items()) if not self.is_good[item.tx_hash]), None)

    # ---- as nodes see it -------------------------------------------------------------------------

    def take(self, raw: bytes) -> str:
        sent = Sent.of(raw)
        place = sent.sender, sent.inner.nonce
        before = self.pool.get(place)
        if self._known.get(sent.hash) is not None and (before == sent or self.receipt(sent.hash) is not None):
            raise RejectionError(-32000, "already known")
        if sent.inner.nonce < self.nonces(self.head.hash)[sent.sender]:
            raise RejectionError(-32000, "nonce too low")
        if before is not None and sent.inner.fee_max < before.inner.fee_max * (2 if before.blobs else 1.1):
            raise RejectionError(-32000, "replacement transaction underpriced")
        self.pool[place] = self._known[sent.hash] = sent
        return hex_data(sent.hash)

    def receipt(self, tx_hash: bytes) -> Receipt | None:
        """In the chain of now."""
        for found in self._receipts.get(tx_hash, ()):
            if found.number < len(self.blocks) and self.blocks[found.number].hash == found.block:
                return found
        return None

    def known(self, tx_hash: bytes) -> Sent | None:
        sent = self._known.get(tx_hash)
        if sent is None:
            return None
        is_waiting = self.pool.get((sent.sender, sent.inner.nonce)) == sent
        return sent if is_waiting or self.receipt(tx_hash) is not None else None


class _Answers(PublishingL1):
    """What a provider says of L1, the functions that proposers ask for among it."""

    l1: ProposingL1
    pending: int | None = None

    def _functions(self) -> dict[Function, tuple[str, Callable[..., list[int | str | bytes]]]]:
        rollup = self.addresses.rollup
        return super()._functions() | {
            CAN_PROPOSE: (rollup, self._can_propose),
            contracts.SLASHER: (rollup, lambda block: [0]),
            contracts.ESCAPE_HATCH_OF_EPOCH: (rollup, lambda block, epoch: [0]),
        }

    def _can_propose(self, block: Block, time: int, archive: int, who: int) -> list[int | str | bytes]:
        l1, slot = self.l1, self.l1.slot_at(time)
        top = l1._top(block, time) if self.pending is None else self.pending
        if block.archives[top] != archive.to_bytes(_WORD, "big"):
            raise _refusal("Rollup__InvalidArchive(bytes32,bytes32)")
        if top and slot <= l1.slots[block.archives[top]]:
            raise _refusal("Rollup__SlotAlreadyInChain(uint256,uint256)")
        members = l1.members(block, slot)
        if members[slot % len(members)] != who.to_bytes(20, "big"):
            raise _refusal("ValidatorSelection__InvalidProposer(address,address)")
        return [slot, top + 1]


class TakingProvider(Provider):
    """A node of L1 that takes transactions."""

    def __init__(self, l1: ProposingL1, node_info: Json, constants: Json, chance: random.Random) -> None:
        super().__init__(l1, node_info, constants, chance)
        self.true = l1
        self._answers = answers = _Answers(node_info, constants)
        answers.l1 = l1
        answers.finality, answers.finality_step = l1.finality, l1.finality_step
        answers.tamper = self._tamper
        answers.circuits = l1.circuits
        self._plain = dict(answers._methods)
        answers._methods |= {
            "eth_call": self._call,
            "eth_getBlockByNumber": self._block,
            "eth_getTransactionByHash": self._transaction,
            "eth_getTransactionReceipt": self._receipt,
            "eth_getTransactionCount": self._nonce,
            "eth_getBalance": lambda address, tag: hex(_BALANCE),
            "eth_blobBaseFee": lambda: "0x1",
            "eth_maxPriorityFeePerGas": lambda: hex(10**9),
            "eth_feeHistory": lambda count, tag, percentiles: {"reward": [["0x1"]]},
            "eth_simulateV1": self._simulate,
            "eth_estimateGas": lambda call: hex(50_000),
            "eth_sendRawTransaction": lambda raw: l1.take(bytes.fromhex(raw[2:])),
        }

    def _call(self, call: Json, tag: str, changes: Json | None = None) -> Any:
        answers = self._answers
        assert isinstance(answers, _Answers)
        values = [value for each in (changes or {}).values() for value in each["stateDiff"].items()]
        forced = next((int(value, 16) >> 128 for place, value in values if int(place, 16) == STATE_SLOT), None)
        answers.pending = forced
        try:
            return self._plain["eth_call"](call, tag)
        finally:
            answers.pending = None

    def _block(self, tag: str, full: bool) -> Any:
        found = self._plain["eth_getBlockByNumber"]("latest" if tag == "pending" else tag, full)
        return found if found is None else found | {"baseFeePerGas": hex(10**9), "transactions": []}

    @property
    def _height(self) -> int:
        return self._answers.head.number

    def _transaction(self, text: str) -> Json | None:
        tx_hash = bytes.fromhex(text[2:])
        sent, receipt = self.true.known(tx_hash), self.true.receipt(tx_hash)
        if sent is None:
            return None
        record: Json = {"hash": text, "to": hex_data(sent.inner.to), "input": hex_data(sent.inner.data)}
        if receipt is None or receipt.number > self._height:
            return record | {"blockHash": None}
        for item in self.true.blocks[receipt.number].proposals:
            if item.tx_hash == text:
                record |= {"to": item.to, "input": item.input}
        return record | {"blockHash": hex_data(receipt.block)}

    def _receipt(self, text: str) -> Json | None:
        receipt = self.true.receipt(bytes.fromhex(text[2:]))
        if receipt is None or receipt.number > self._height:
            return None
        return {
            "transactionHash": text,
            "status": "0x1",
            "blockNumber": hex(receipt.number),
            "gasUsed": hex(_GAS),
            "effectiveGasPrice": hex(10**9),
            "logs": list(receipt.logs),
        }

    def _nonce(self, address: str, tag: str) -> str:
        account = bytes.fromhex(address[2:])
        found = self.true.nonces(self._answers.head.hash)[account]
        while tag == "pending" and (account, found) in self.true.pool:
            found += 1
        return hex(found)

    def _simulate(self, question: Json, tag: str) -> Any:
        block = self._answers._block(tag)
        if block is None:
            raise RejectionError(-32000, "header not found")
        state = question["blockStateCalls"][0]
        time = int(state["blockOverrides"]["time"], 16)
        changes = [item for each in state["stateOverrides"].values() for item in each["stateDiff"].items()]
        forced = next((int(value, 16) >> 128 for place, value in changes if int(place, 16) == STATE_SLOT), None)
        data = bytes.fromhex(state["calls"][0]["data"][2:])
        if data[:4] != PROPOSE_SELECTOR:
            return [{"calls": [{"status": "0x0", "gasUsed": hex(_GAS), "returnData": "0x"}]}]
        l1 = self.true
        try:
            top = l1._top(block, time) if forced is None else forced
            l1.require(block, Proposal.from_call_data(data), time, top)
        except RejectionError as error:
            refused = {"status": "0x0", "gasUsed": hex(_GAS), "returnData": error.error.get("data", "0x")}
            return [{"calls": [refused]}]
        return [{"calls": [{"status": "0x1", "gasUsed": hex(_GAS), "returnData": "0x"}]}]


def without_signatures(data: bytes, committee: Sequence[bytes], kept: int) -> bytes:
    """A call that proposes the same with the signatures of ``kept`` members only, the proposer's among them."""
    proposal = Proposal.from_call_data(data)
    proposer = proposal.header.slot_number % len(committee)
    members = list(enumerate(zip(proposal.attestations(len(committee)), committee, strict=True)))
    signed = [place for place, (item, _) in members if item.address == bytes(20)]
    chosen = sorted(signed, key=lambda place: place != proposer)[:kept]
    bits, content = 0, b""
    for place, (item, member) in members:
        if place in chosen:
            bits |= 0x80 >> place
            content += item.signature[64:] + item.signature[:64]
        else:
            content += member
    header, root, modifier = proposal.header, proposal.archive_root, proposal.fee_asset_price_modifier
    return propose_call(header, root, modifier, _commitments_of(data), bytes([bits]), content)


def _commitments_of(data: bytes) -> list[bytes]:
    """Of the blob input, which is the last argument."""
    body = data[4:]
    at = int.from_bytes(body[19 * _WORD : 20 * _WORD], "big")
    size = int.from_bytes(body[at : at + _WORD], "big")
    found = body[at + _WORD : at + _WORD + size]
    return [found[1 + 48 * place : 49 + 48 * place] for place in range(found[0])]
