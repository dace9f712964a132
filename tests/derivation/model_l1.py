"""A model of L1 with the contracts of release 5.x, in the place of anvil: what they take, and what comes of it.

    propose, invalidateBadAttestation, invalidateInsufficientAttestations, submitEpochRootProof, prune    rollup
    sendL2Message                                                                                        inbox
    aggregate3 (Multicall3), and a contract that passes calls on

It reads call data for itself.  What is not in it: fees (any price that the test names), rewards beyond the rule that a
prover submits a proof of one length once, and the slasher.  ``test_model_l1.py`` lets it and the compiled contracts
take the same calls.
"""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.derivation.hostile import ORDER
from tests.derivation.l1 import EPOCH_SLOTS, FORWARDER, L1_SLOT_S, SLOT_S, hexed
from tests.publishing.live_l1 import CHAIN_ID, address_of, test_key
from tests.sources.l1.publishing import PublishingL1, event_data
from tests.sources.l1.scripted_l1 import NO_HASH, WORD, Block, Published, RejectionError, Sent

from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, keccak_256, payload_digest, typed_digest
from fastnode.protocol.fields import MODULUS, ZERO_FIELD
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import COMMITMENT_BYTES, blobs_hash, versioned_hash
from fastnode.protocol.messages import L1ToL2Message, in_hash
from fastnode.protocol.out_hash import epoch_out_hash
from fastnode.protocol.releases import FIVE
from fastnode.publishing.encoding import addresses, arguments, byte_string, selector, word
from fastnode.publishing.envelope import BlobBundle
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function, Kind, hex_data
from fastnode.sources.l1.propose_calls import MULTICALL3

Json = dict[str, Any]
#: The genesis of the networks of 5.x, which the deployed contracts have too.
GENESIS_ARCHIVE: Final = bytes.fromhex("177a4955b31ecaafad999753938a44e526b54c5ba5d536688227f85f15cfbdf5")
HEADER: Final = (
    "(bytes32,bytes32,bytes32,bytes32,bytes32,uint256,uint256,address,bytes32,(uint128,uint128),uint256,uint256)"
)
PROPOSE: Final = selector(f"propose((bytes32,(int256),{HEADER}),(bytes,bytes),address[],(uint8,bytes32,bytes32),bytes)")
BAD_ATTESTATION: Final = selector("invalidateBadAttestation(uint256,(bytes,bytes),address[],uint256)")
TOO_FEW: Final = selector("invalidateInsufficientAttestations(uint256,(bytes,bytes),address[])")
SUBMIT: Final = selector(
    f"submitEpochRootProof((uint256,uint256,(bytes32,bytes32,bytes32,address),{HEADER}[],(bytes,bytes),bytes,bytes))"
)
PRUNE: Final = selector("prune()")
SEND: Final = selector("sendL2Message((bytes32,uint256),bytes32,bytes32)")
AGGREGATE: Final = selector("aggregate3((address,bool,bytes)[])")
HEADER_WORDS: Final = 13
FEE_CHANGE_MAX: Final = 100
MANA_LIMIT: Final = 200_000_000
CHECKPOINTS_MAX: Final = 32
MESSAGES_MAX: Final = 1024
LAG: Final = 1
PROOF_EPOCHS: Final = 1
#: Checkpoints whose log the contract has at once.
KEPT: Final = EPOCH_SLOTS * (PROOF_EPOCHS + 1) + 1
VALIDATORS: Final = tuple(address_of(test_key(index)) for index in range(6))
COMMITTEE_SIZE: Final = 4
PAYER: Final = address_of(test_key(7))
_selector = functools.cache(selector)
#: Of an epoch without messages to L1.
_EMPTY_EPOCH_OUT_HASH: Final = epoch_out_hash([ZERO_FIELD])
_PENDING: Final = Function("getPendingCheckpointNumber()", Kind.NUMBER)


class Reverted(Exception):  # noqa: N818 - the word of contracts
    """A call that has no effect, and why."""


def need(is_so: object, why: str) -> None:
    if not is_so:
        raise Reverted(why)


# ---- call data ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arguments:
    """Arguments of a call, or a tuple in them, as the compiler's decoder takes them."""

    data: bytes
    start: int = 0

    def word(self, place: int) -> bytes:
        at = self.start + WORD * place
        need(at + WORD <= len(self.data), "call data end")
        return self.data[at : at + WORD]

    def number(self, place: int, bits: int = 256) -> int:
        value = int.from_bytes(self.word(place), "big")
        need(value < 1 << bits, f"a number of more than {bits} bits")
        return value

    def address(self, place: int) -> bytes:
        return self.number(place, 160).to_bytes(20, "big")

    def at(self, place: int) -> Arguments:
        """The dynamic argument whose offset is there."""
        offset = self.number(place, 64)
        need(self.start + offset + WORD <= len(self.data), "an offset beyond the call data")
        return Arguments(self.data, self.start + offset)

    def bytes(self, place: int) -> bytes:
        there = self.at(place)
        length = there.number(0, 64)
        first = there.start + WORD
        need(first + length <= len(self.data), "bytes beyond the call data")
        return self.data[first : first + length]

    def addresses(self, place: int) -> tuple[bytes, ...]:
        there = self.at(place)
        count = there.number(0, 64)
        need(there.start + WORD * (count + 1) <= len(self.data), "an array beyond the call data")
        return tuple(there.address(1 + item) for item in range(count))


@dataclass(frozen=True)
class Packed:
    """Attestations as they are in call data."""

    indices: bytes
    data: bytes

    @classmethod
    def of(cls, item: Arguments) -> Packed:
        return cls(item.bytes(0), item.bytes(1))

    def encode(self) -> bytes:
        return arguments((byte_string(self.indices),), (byte_string(self.data),))

    def hash(self) -> bytes:
        return keccak_256(arguments((self.encode(),)))

    def is_signature(self, place: int) -> bool:
        need(place // 8 < len(self.indices), "no bit of a member")
        return bool(self.indices[place // 8] >> (7 - place % 8) & 1)

    def _place(self, place: int) -> int:
        return sum(65 if self.is_signature(item) else 20 for item in range(place))

    def address(self, place: int) -> bytes:
        at = self._place(place)
        return self.data[at : at + 20].ljust(20, b"\0")

    def signer(self, place: int, digest: bytes) -> bytes:
        """Zero where nobody's key made it."""
        at = self._place(place)
        part = self.data[at : at + 65].ljust(65, b"\0")
        return recovered(digest, part[0], part[1:33], part[33:65])

    def members(self, signers: Sequence[bytes], size: int) -> tuple[bytes, ...]:
        """The committee that they claim to be of."""
        need(len(self.indices) == -(-size // 8), "another number of bits")
        signed = [self.is_signature(place) for place in range(size)]
        need(sum(signed) <= len(signers), "signers end")
        left = iter(signers)
        found = tuple(next(left) if is_signed else self.address(place) for place, is_signed in enumerate(signed))
        need(sum(65 if is_signed else 20 for is_signed in signed) == len(self.data), "another length of attestations")
        need(sum(signed) == len(signers), "more signers than signatures")
        return found


def recovered(digest: bytes, v: int, r: bytes, s: bytes) -> bytes:
    """The address whose key signed, as ``ECDSA.tryRecover`` finds it; zero for none."""
    from coincurve import PublicKey

    if v not in (27, 28) or int.from_bytes(s, "big") > ORDER // 2:
        return bytes(20)
    try:
        key = PublicKey.from_signature_and_message(r + s + bytes([v - 27]), digest, hasher=None)
    except Exception:  # noqa: BLE001 - the library raises plain Exception for a point that is not on the curve
        return bytes(20)
    return keccak_256(key.format(compressed=False)[1:])[-20:]


# ---- state --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Logged:
    """A checkpoint of the pending chain as the contract keeps it."""

    header: bytes = b""  # its words
    header_hash: bytes = bytes(WORD)
    out_hash: bytes = bytes(WORD)
    attestations: bytes = bytes(WORD)
    digest: bytes = bytes(WORD)
    slot: int = 0
    fee: tuple[int, ...] = (0, 0, 10**7, 0, 0)


@dataclass(frozen=True)
class ModelBlock(Block):
    """``checkpoints``: a ring, in which a pruned one may still stand for an earlier one; ``seeds``: by epoch, from
    which its committee is drawn; ``shares``: epochs, lengths and provers of proofs; ``traces``: by hash of a
    transaction.
    """

    checkpoints: tuple[Logged, ...] = (Logged(),) * KEPT
    seeds: tuple[tuple[int, bytes], ...] = ()
    shares: frozenset[tuple[int, int, bytes]] = frozenset()
    traces: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True)
class Sending:
    """A transaction: what it carries as blobs, and how it can be found."""

    to: bytes
    data: bytes
    hashes: tuple[bytes, ...]
    tx_hash: str


class ModelL1(PublishingL1):
    """As :class:`tests.derivation.l1.ScenarioL1` for a scenario, and on a socket for those that follow it.

    ``committee``: of an epoch, and ``fee`` at a time, where the test knows them from elsewhere.
    """

    def __init__(
        self,
        *,
        time: int = 2_000_000_000,
        version: int = 4_248_422_647,
        rollup: bytes = b"\x91" * 20,
        inbox: bytes = b"\x92" * 20,
    ) -> None:
        self.release = FIVE
        registry = b"\x35" * 20
        node_info = {
            "l1ChainId": CHAIN_ID,
            "rollupVersion": version,
            "l1ContractAddresses": {
                "registryAddress": hexed(registry),
                "rollupAddress": hexed(rollup),
                "inboxAddress": hexed(inbox),
                "outboxAddress": hexed(b"\x93" * 20),
                "feeJuicePortalAddress": hexed(b"\x94" * 20),
            },
        }
        constants = {
            "l1StartBlock": 1,
            "l1GenesisTime": time,
            "slotDuration": SLOT_S,
            "epochDuration": EPOCH_SLOTS,
            "genesisArchiveRoot": hexed(GENESIS_ARCHIVE),
            "rollupManaLimit": MANA_LIMIT,
        }
        self._now = time
        super().__init__(node_info, constants)
        self.clock = lambda: self._now
        self.inbox, self.registry, self.genesis_time = inbox, hexed(registry), time
        self.circuits = self.release.roots
        self.committee_size = COMMITTEE_SIZE
        self.finality = 30
        self.blocks = [ModelBlock(**(vars(block) | {"timestamp": time})) for block in self.blocks]
        self.highest = 0
        #: The newest checkpoint that was proven in a block of L1 that was final once.
        self.final = 0
        #: The committee of an epoch and the proposer of a slot, and the price of mana at a time.
        self.committee_of: Callable[[ModelBlock, int], tuple[bytes, ...]] = self._drawn
        self.proposer_of: Callable[[ModelBlock, int], bytes] = self._drawn_proposer
        self.fee_at: Callable[[ModelBlock, int], int] = lambda block, time: 1_000 + self._standing(block, time) % 3
        self._waiting: list[tuple[bytes, bytes, BlobBundle | None]] = []
        self._sent: dict[int, list[tuple[bytes, bytes, BlobBundle | None]]] = {}
        self._count = 0
        self._answered: Any = None
        self._methods["debug_traceTransaction"] = self._trace

    @property
    def state(self) -> ModelBlock:
        assert isinstance(self.head, ModelBlock)
        return self.head

    @property
    def signing_domain(self) -> SigningDomain:
        return SigningDomain(self.chain_id, self.rollup)

    # ---- as a scenario uses it -----------------------------------------------------------------

    @property
    def timestamp(self) -> int:
        return self.head.timestamp

    @property
    def number(self) -> int:
        return self.head.number

    @property
    def next_slot(self) -> int:
        return self._slot_at(self.timestamp + L1_SLOT_S)

    def start_of(self, slot: int) -> int:
        return self.genesis_time + slot * SLOT_S

    def _slot_at(self, time: int) -> int:
        return (time - self.genesis_time) // SLOT_S

    def skip(self, blocks: int) -> None:
        with self.lock:
            for _ in range(blocks):
                self._mine_block()

    def skip_to(self, slot: int) -> None:
        self.skip(-(-(self.start_of(slot) - L1_SLOT_S - self.timestamp) // L1_SLOT_S))

    def _mine_block(self) -> None:
        self.mine(timestamp=self.timestamp + L1_SLOT_S, traces=())
        self.final = max(self.final, self.blocks[max(0, self.number - self.finality)].proven)

    def take_back(self, blocks: int) -> list[Any]:
        number = self.number
        self.highest = max(self.highest, number)
        with self.lock:
            self.reorg(blocks)
        return [raw for height in range(number - blocks + 1, number + 1) for raw in self._sent.pop(height, ())]

    def put(self, to: bytes, data: bytes, bundle: BlobBundle | None = None) -> None:
        self._waiting.append((to, data, bundle))

    def put_again(self, raw: tuple[bytes, bytes, BlobBundle | None]) -> None:
        self._waiting.append(raw)

    def mine_waiting(self) -> list[Json]:
        """The next block; its receipts."""
        with self.lock:
            self._mine_block()
            state, receipts, traces = self.state, [], []
            for to, data, bundle in self._waiting:
                self._count += 1
                tx_hash = hex_data(hashlib.sha256(data + struct.pack(">Q", self._count)).digest())
                hashes = () if bundle is None else bundle.versioned_hashes
                state, frame = self._call_from(state, Sending(to, data, hashes, tx_hash), PAYER, to, data)
                receipts.append({"status": hex(int("error" not in frame)), "transactionHash": tx_hash})
                traces.append((tx_hash, frame))
            self._sent[state.number], self._waiting = self._waiting, []
            self.blocks[-1] = replace(state, traces=tuple(traces))
            return receipts

    def simulate(self, calls: Sequence[tuple[bytes, bytes]], time: int) -> list[bytes | None]:
        state, found = replace(self.state, timestamp=time), list[bytes | None]()
        for to, data in calls:
            try:
                answer = bytes.fromhex(self._call_one(state, hexed(to), data)[2:])
            except RejectionError:
                found.append(None)
                continue
            if answer:
                found.append(answer)
                continue
            state, frame = self._call_from(state, Sending(to, data, (), ""), PAYER, to, data)
            found.append(None if "error" in frame else b"")
        return found

    def ask_contract(self, signature: str, *words: int) -> bytes:
        data = _selector(signature) + b"".join(map(word, words))
        return bytes.fromhex(self._call_one(self.head, self.addresses.rollup, data)[2:])

    def read(self, signature: str, *words: int) -> int:
        return int.from_bytes(self.ask_contract(signature, *words)[:WORD], "big")

    def checkpoint(self, number: int) -> tuple[bytes, bytes]:
        return self.head.archives[number], self.state.checkpoints[number % KEPT].attestations

    def messages(self, checkpoint: int) -> tuple[bytes, ...]:
        return tuple(item.hash for item in self.head.sent if item.checkpoint == checkpoint)

    def committee(self, time: int) -> list[bytes]:
        return list(self.committee_of(self.state, self._slot_at(time) // EPOCH_SLOTS))

    # ---- committees ----------------------------------------------------------------------------

    def _seed(self, state: ModelBlock, epoch: int) -> bytes:
        """That of the newest epoch which has set one for then: an epoch does for the next one."""
        return max((item for item in state.seeds if item[0] <= epoch), default=(0, b""))[1]

    def _drawn(self, state: ModelBlock, epoch: int) -> tuple[bytes, ...]:
        def place(member: bytes) -> bytes:
            return hashlib.sha256(self._seed(state, epoch) + struct.pack(">Q", epoch) + member).digest()

        return tuple(sorted(VALIDATORS, key=place)[:COMMITTEE_SIZE])

    def _drawn_proposer(self, state: ModelBlock, slot: int) -> bytes:
        epoch = slot // EPOCH_SLOTS
        digest = hashlib.sha256(self._seed(state, epoch) + struct.pack(">Q", slot)).digest()
        return self.committee_of(state, epoch)[digest[0] % COMMITTEE_SIZE]

    def _set_up(self, state: ModelBlock, epoch: int) -> ModelBlock:
        """The first checkpoint of an epoch draws the seed of the next one."""
        if any(known == epoch + 1 for known, _ in state.seeds):
            return state
        return replace(state, seeds=(*state.seeds, (epoch + 1, state.hash)))

    # ---- calls that change something -------------------------------------------------------------

    def _call_from(
        self, state: ModelBlock, sending: Sending, sender: bytes, to: bytes, data: bytes
    ) -> tuple[ModelBlock, Json]:
        """The state after a call, and its trace; the state before it if it is reverted."""
        frame: Json = {"type": "CALL", "from": hexed(sender), "to": hexed(to), "input": hexed(data), "calls": []}
        try:
            if to == MULTICALL3:
                return self._aggregated(state, sending, data, frame), frame
            if to == FORWARDER:
                after, inner = self._call_from(state, sending, FORWARDER, data[:20].ljust(20, b"\0"), data[20:])
                frame["calls"].append(inner)
                need("error" not in inner, "the call that was passed on is reverted")
                return after, frame
            if to == self.inbox:
                return self._sent_message(state, sender, data), frame
            if to == self.rollup:
                return self._changed(state, sending, data), frame
        except Reverted as error:
            frame["error"] = f"execution reverted: {error}"
        return state, frame

    def _aggregated(self, state: ModelBlock, sending: Sending, data: bytes, frame: Json) -> ModelBlock:
        need(data[:4] == AGGREGATE, "no such function")
        array = Arguments(data[4:]).at(0)
        calls = replace(array, start=array.start + WORD)
        for place in range(array.number(0, 64)):
            item = calls.at(place)
            may_fail = item.number(1, 1)
            state, inner = self._call_from(state, sending, MULTICALL3, item.address(0), item.bytes(2))
            frame["calls"].append(inner)
            need(may_fail or "error" not in inner, "a call in it failed")
        return state

    def _changed(self, state: ModelBlock, sending: Sending, data: bytes) -> ModelBlock:
        known: dict[bytes, Callable[[ModelBlock, Sending, Arguments], ModelBlock]] = {
            PROPOSE: self._proposed,
            BAD_ATTESTATION: self._without_bad,
            TOO_FEW: self._without_too_few,
            SUBMIT: self._proven,
            PRUNE: self._pruned_by_call,
        }
        changes = known.get(data[:4])
        return state if changes is None else changes(state, sending, Arguments(data[4:]))

    def _sent_message(self, state: ModelBlock, sender: bytes, data: bytes) -> ModelBlock:
        need(data[:4] == SEND, "no such function")
        given = Arguments(data[4:])
        actor, version, content, secret = given.word(0), given.number(1), given.word(2), given.word(3)
        need(version == self.version, "another version")
        need(all(int.from_bytes(item, "big") < MODULUS for item in (actor, content, secret)), "no field")
        number = state.in_progress
        place = sum(item.checkpoint == number for item in state.sent)
        if place == MESSAGES_MAX:
            number, place = number + 1, 0
        index = MESSAGES_MAX * (number - 1) + place
        leaf = L1ToL2Message(sender, self.chain_id, actor, version, content, secret, index).hash()
        before = state.sent[-1].rolling_hash if state.sent else NO_HASH
        new = Sent(number, index, leaf, keccak_256(before + leaf)[:16])
        return replace(state, in_progress=number, sent=(*state.sent, new), logs=(*state.logs, new))

    # ---- the rollup ----------------------------------------------------------------------------

    def _epoch_of(self, state: ModelBlock, number: int) -> int:
        return self._logged(state, number).slot // EPOCH_SLOTS

    def _logged(self, state: ModelBlock, number: int) -> Logged:
        need(number <= state.pending < number + KEPT, "its log is not there")
        return state.checkpoints[number % KEPT]

    def is_prunable(self, state: ModelBlock, time: int) -> bool:
        if state.pending == state.proven:
            return False
        return self._slot_at(time) // EPOCH_SLOTS >= self._epoch_of(state, state.proven + 1) + PROOF_EPOCHS + 1

    def _standing(self, state: ModelBlock, time: int) -> int:
        """The checkpoint on which one at a time is built."""
        return state.proven if self.is_prunable(state, time) else state.pending

    def _cut(self, state: ModelBlock, number: int) -> ModelBlock:
        return replace(state, archives=state.archives[: number + 1])

    def _pruned_by_call(self, state: ModelBlock, _sending: Sending, _given: Arguments) -> ModelBlock:
        need(self.is_prunable(state, state.timestamp), "nothing to prune")
        return self._cut(state, state.proven)

    def _proposed(self, state: ModelBlock, sending: Sending, given: Arguments) -> ModelBlock:
        if self.is_prunable(state, state.timestamp):
            state = self._cut(state, state.proven)
        archive, modifier = given.word(0), int.from_bytes(given.word(1), "big", signed=True)
        header = self._header(given, 2)
        behind = 2 + HEADER_WORDS
        attestations, signers = Packed.of(given.at(behind)), given.addresses(behind + 1)
        v, r, s = given.number(behind + 2, 8), given.word(behind + 3), given.word(behind + 4)
        commitments = _commitments(given.bytes(behind + 5))
        hashes = tuple(map(versioned_hash, commitments))
        is_simulated = not sending.tx_hash
        need(is_simulated or hashes == sending.hashes[: len(hashes)], "not the blobs of the transaction")
        need(int.from_bytes(archive, "big") < MODULUS, "the archive is no field")
        slot = self._slot_at(state.timestamp)
        epoch = slot // EPOCH_SLOTS
        state = self._set_up(state, epoch)
        self._check(state, header, hashes, slot)
        digest = payload_digest(header, archive, modifier, self.signing_domain)
        self._check_proposer(state, slot, attestations, signers, digest, (v, r, s))
        need(abs(modifier) <= FEE_CHANGE_MAX, "the price changes too much")
        number = state.pending + 1
        need(number < state.in_progress, "its messages are not complete")
        sent = [item.hash for item in state.sent if item.checkpoint == number]
        need(header.in_hash == (in_hash(sent) if number > 1 else in_hash(())), "other messages")
        logged = Logged(
            header=b"".join(given.word(2 + place) for place in range(HEADER_WORDS)),
            header_hash=header.hash(),
            out_hash=header.epoch_out_hash,
            attestations=attestations.hash(),
            digest=digest,
            slot=slot,
        )
        published = Published(
            number,
            archive,
            event_data(hashes, digest, logged.attestations),
            sending.tx_hash,
            hexed(sending.to),
            hexed(sending.data),
        )
        return replace(
            state,
            archives=(*state.archives, archive),
            checkpoints=tuple(
                logged if place == number % KEPT else item for place, item in enumerate(state.checkpoints)
            ),
            proposals=(*state.proposals, published),
            in_progress=max(state.in_progress, number + LAG + 1),
        )

    def _header(self, given: Arguments, at: int) -> CheckpointHeader:
        return CheckpointHeader(
            last_archive_root=given.word(at),
            block_headers_hash=given.word(at + 1),
            blobs_hash=given.word(at + 2),
            in_hash=given.word(at + 3),
            epoch_out_hash=given.word(at + 4),
            # Numbers that are wider than those of any header are refused by what they must be.
            slot_number=_narrow(given.number(at + 5), 32),
            timestamp=_narrow(given.number(at + 6), 64),
            coinbase=given.address(at + 7),
            fee_recipient=given.word(at + 8),
            gas_fees=GasFees(given.number(at + 9, 128), given.number(at + 10, 128)),
            total_mana_used=_narrow(given.number(at + 11), 253),
            accumulated_fees=_narrow(given.number(at + 12), 254),
        )

    def _check(self, state: ModelBlock, header: CheckpointHeader, hashes: Sequence[bytes], slot: int) -> None:
        fields = (header.block_headers_hash, header.epoch_out_hash, header.fee_recipient)
        need(all(int.from_bytes(item, "big") < MODULUS for item in fields), "no field")
        need((header.accumulated_fees or 0) < MODULUS, "its fees are no field")
        need(any(header.coinbase), "no coinbase")
        need(header.total_mana_used <= MANA_LIMIT, "more mana than there may be")
        need(header.last_archive_root == state.archives[-1], "behind another checkpoint")
        need(header.slot_number > self._logged(state, state.pending).slot, "its slot is taken")
        need(header.slot_number == slot, "of another slot")
        need(header.timestamp == self.start_of(slot), "another time")
        need(header.blobs_hash == blobs_hash(hashes), "other blobs")
        need(header.gas_fees.fee_per_da_gas == 0, "a price of data")
        need(header.gas_fees.fee_per_l2_gas == self.fee_at(state, state.timestamp), "another price of mana")

    def _check_proposer(
        self,
        state: ModelBlock,
        slot: int,
        attestations: Packed,
        signers: Sequence[bytes],
        digest: bytes,
        signed: tuple[int, bytes, bytes],
    ) -> None:
        committee = self.committee_of(state, slot // EPOCH_SLOTS)
        need(attestations.members(signers, len(committee)) == committee, "another committee")
        proposer = self.proposer_of(state, slot)
        place = committee.index(proposer)
        need(attestations.is_signature(place), "its proposer has not signed")
        need(attestations.signer(place, digest) == proposer, "not the signature of its proposer")
        payload = arguments((attestations.encode(),), (addresses(signers),))
        both = typed_digest(b"AttestationsAndSigners", payload, self.signing_domain)
        need(recovered(both, *signed) == proposer, "its proposer does not stand behind the attestations")

    def _invalid(self, state: ModelBlock, given: Arguments) -> tuple[int, Packed, tuple[bytes, ...], Logged]:
        number, attestations, committee = given.number(0), Packed.of(given.at(1)), given.addresses(2)
        need(state.proven < number <= state.pending, "not in the pending chain")
        logged = self._logged(state, number)
        need(attestations.hash() == logged.attestations, "other attestations")
        need(committee == self.committee_of(state, logged.slot // EPOCH_SLOTS), "another committee")
        return number, attestations, committee, logged

    def _without_bad(self, state: ModelBlock, _sending: Sending, given: Arguments) -> ModelBlock:
        place = given.number(3)
        number, attestations, committee, logged = self._invalid(state, given)
        need(place < len(committee), "no such member")
        if attestations.is_signature(place):
            found = attestations.signer(place, logged.digest)
        else:
            found = attestations.address(place)
        need(found != committee[place], "it is valid")
        return self._cut(state, number - 1)

    def _without_too_few(self, state: ModelBlock, _sending: Sending, given: Arguments) -> ModelBlock:
        number, attestations, committee, _ = self._invalid(state, given)
        count = sum(attestations.is_signature(place) for place in range(len(committee)))
        need(count < len(committee) * 2 // 3 + 1, "there are enough")
        return self._cut(state, number - 1)

    def _proven(self, state: ModelBlock, _sending: Sending, given: Arguments) -> ModelBlock:
        if self.is_prunable(state, state.timestamp):
            state = self._cut(state, state.proven)
        call = given.at(0)
        start, end, previous, last = call.number(0), call.number(1), call.word(2), call.word(3)
        out_hash, prover = call.word(4), call.address(5)
        need(start <= state.pending and end <= state.pending, "no such checkpoint")
        epoch = self._epoch_of(state, start)
        need(epoch == self._epoch_of(state, end), "of two epochs")
        need(self._slot_at(state.timestamp) // EPOCH_SLOTS < epoch + PROOF_EPOCHS + 1, "too late")
        need(start >= 1, "no checkpoint before it")
        before = self._epoch_of(state, start - 1)
        need(epoch > 0 or start == 1, "not the first of the first epoch")
        need(start == 1 or before < epoch, "not the first of its epoch")
        need(start - 1 <= state.proven, "what is before it is not proven")
        need(end - start + 1 <= CHECKPOINTS_MAX, "too many")
        logged = self._logged(state, end)
        attestations = Packed.of(call.at(7))
        need(logged.out_hash == out_hash, "another out hash")
        need(attestations.hash() == logged.attestations, "other attestations")
        self._check_all(state, epoch, attestations, logged.digest)
        call.bytes(8), call.bytes(9)
        headers = call.at(6)
        need(end >= start and headers.number(0, 64) == end - start + 1, "another number of headers")
        for place, number in enumerate(range(start, end + 1)):
            words = [headers.word(1 + HEADER_WORDS * place + item) for item in range(HEADER_WORDS)]
            need(b"".join(words) == self._logged(state, number).header, "another header")
        need(state.archives[start - 1] == previous and state.archives[end] == last, "other archives")
        length = end - start + 1
        need((epoch, length, prover) not in state.shares, "it was submitted before")
        state = replace(state, shares=state.shares | {(epoch, length, prover)})
        if end <= state.proven:
            return state
        roots = state.roots
        if out_hash != _EMPTY_EPOCH_OUT_HASH:
            roots = (*(item for item in roots if item[0] != (epoch, length)), ((epoch, length), out_hash))
        return replace(state, proven=end, roots=roots)

    def _check_all(self, state: ModelBlock, epoch: int, attestations: Packed, digest: bytes) -> None:
        """Each attestation, as for a proof."""
        committee = self.committee_of(state, epoch)
        signed = 0
        for place, member in enumerate(committee):
            if attestations.is_signature(place):
                need(attestations.signer(place, digest) == member, "an attestation of somebody else")
                signed += 1
            else:
                need(attestations.address(place) == member, "an address of somebody else")
        need(signed >= len(committee) * 2 // 3 + 1, "too few attestations")

    # ---- answers -------------------------------------------------------------------------------

    def _functions(self) -> Any:
        if self._answered is not None:
            return self._answered
        rollup = self.addresses.rollup
        mine: dict[Any, Callable[..., list[Any]]] = {
            contracts.CAN_PRUNE_AT_TIME: lambda block, time: [int(self.is_prunable(block, time))],
            contracts.CHECKPOINT: self._checkpoint_answer,
            contracts.MANA_MIN_FEE_AT: lambda block, time, _: [self.fee_at(block, time)],
            contracts.MANA_LIMIT: lambda block: [MANA_LIMIT],
            contracts.STATUS: self._status_answer,
            _PENDING: lambda block: [block.pending],
        }
        self._answered = super()._functions() | {function: (rollup, answer) for function, answer in mine.items()}
        return self._answered

    def _status_answer(self, block: ModelBlock, number: int) -> list[Any]:
        archives, proven = block.archives, block.proven
        mine = archives[number] if number < len(archives) else bytes(WORD)
        try:
            epoch = self._epoch_of(block, proven)
        except Reverted as error:
            raise RejectionError(3, f"execution reverted: {error}") from error
        return [proven, archives[proven], block.pending, archives[-1], mine, epoch]

    def _checkpoint_answer(self, block: ModelBlock, number: int) -> list[Any]:
        try:
            logged = self._logged(block, number)
        except Reverted as error:
            raise RejectionError(3, f"execution reverted: {error}") from error
        known = [block.archives[number], logged.header_hash, bytes(WORD), logged.out_hash]
        return [*known, logged.attestations, logged.digest, logged.slot, *logged.fee]

    def _committee(self, block: Block, epoch: int) -> list[Any]:
        assert isinstance(block, ModelBlock)
        members = self.committee_of(block, epoch)
        return [WORD, len(members), *members]

    def _proposer(self, block: Block, timestamp: int) -> list[Any]:
        assert isinstance(block, ModelBlock)
        return [self.proposer_of(block, self._slot_at(timestamp))]

    def _trace(self, tx_hash: str, _options: Any) -> Json:
        for block in self.blocks:
            for known, frame in block.traces:  # type: ignore[attr-defined]
                if known == tx_hash:
                    return frame  # type: ignore[no-any-return]
        raise RejectionError(-32000, "transaction not found")


def _narrow(value: int, bits: int) -> int:
    need(value < 1 << bits, "a number that no header has")
    return value


def _commitments(blob_input: bytes) -> list[bytes]:
    need(blob_input and blob_input[0], "no blobs")
    ends = 1 + blob_input[0] * COMMITMENT_BYTES
    need(ends <= len(blob_input), "commitments end")
    return [blob_input[at : at + COMMITMENT_BYTES] for at in range(1, ends, COMMITMENT_BYTES)]
