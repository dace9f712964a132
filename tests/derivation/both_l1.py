"""anvil with the contracts of 5.x and the model of them, which are given the same calls and must say the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.derivation.l1 import EPOCH_SLOTS, SLOT_S, ScenarioL1, hexed
from tests.derivation.model_l1 import (
    BAD_ATTESTATION,
    PROPOSE,
    PRUNE,
    SEND,
    SUBMIT,
    TOO_FEW,
    ModelBlock,
    ModelL1,
)
from tests.sources.l1.scripted_l1 import RejectionError

from fastnode.protocol.ethereum import keccak_256
from fastnode.protocol.releases import FIVE
from fastnode.publishing.encoding import selector, word
from fastnode.publishing.envelope import BlobBundle, SignedTransaction
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

__all__ = ["BothL1", "ModelError"]

#: Seconds from now at which it is asked whether anything may be pruned.
LATER = (0, 4, SLOT_S, EPOCH_SLOTS * SLOT_S, 2 * EPOCH_SLOTS * SLOT_S)
#: Fields of a checkpoint that have nothing to do with fees: without the commitments to its blobs.
FIELDS = (0, 1, 3, 4, 5, 6)
INVALIDATED = hexed(keccak_256(b"CheckpointInvalidated(uint256)"))
PRUNED = hexed(keccak_256(b"PrunedPending(uint256,uint256)"))


NAMES = {
    PROPOSE: "propose",
    BAD_ATTESTATION: "invalidateBadAttestation",
    TOO_FEW: "invalidateInsufficientAttestations",
    SUBMIT: "submitEpochRootProof",
    PRUNE: "prune",
    SEND: "sendL2Message",
}


class ModelError(AssertionError):
    """The model and the contracts do not say the same."""


class BothL1(ScenarioL1):
    """``counts``: calls by what became of them on both."""

    def __init__(self, port: int) -> None:
        super().__init__(port, FIVE)
        self.counts: Counter[str] = Counter()
        self._sent: dict[bytes, tuple[bytes, bytes, BlobBundle | None]] = {}
        self._fee = 0

    def open(self, timestamp: int) -> None:
        super().open(timestamp)
        self.model = ModelL1(time=self.genesis_time, version=self.version, rollup=self.rollup, inbox=self.inbox)
        self.outbox = hexed(self.read("getOutbox()").to_bytes(20, "big"))
        assert self.read("getPendingCheckpointNumber()") == 0
        self.model.mine(timestamp=self.timestamp)
        self.model.committee_of = lambda block, epoch: tuple(self.committee(self.start_of(epoch * EPOCH_SLOTS)))
        self.model.proposer_of = self._proposer_of
        self.model.fee_at = self._fee_at
        self._begun = self.model.state
        self._compare()

    def _proposer_of(self, _block: ModelBlock, slot: int) -> bytes:
        return self.ask_contract("getProposerAt(uint256)", self.start_of(slot))[12:32]

    def _fee_at(self, block: ModelBlock, time: int) -> int:
        """The contract's, before this block of L1; within it as it was simulated."""
        if block.archives != self._begun.archives:
            return self._fee
        data = selector("getManaMinFeeAt(uint256,bool)") + word(time) + word(1)
        tag = hex(self.number - (block.number == self.model.number))
        return int(self.call("eth_call", {"to": hexed(self.rollup), "data": hexed(data)}, tag), 16)

    # ---- what both do --------------------------------------------------------------------------

    def skip(self, blocks: int) -> None:
        super().skip(blocks)
        if blocks > 0 and hasattr(self, "model"):
            # The clock of anvil goes on by itself where blocks are mined together.
            for height in range(self.number - blocks + 1, self.number + 1):
                block = self.call("eth_getBlockByNumber", hex(height), False)
                self.model.mine(timestamp=int(block["timestamp"], 16), traces=())
            self._compare()

    def take_back(self, blocks: int) -> list[bytes]:
        self.model.take_back(blocks)
        return super().take_back(blocks)

    def put(self, to: bytes, data: bytes, bundle: BlobBundle | None = None) -> None:
        super().put(to, data, bundle)
        self._sent[self._waiting[-1]] = (to, data, bundle)
        self.model.put(to, data, bundle)

    def put_again(self, signed: SignedTransaction | bytes, bundle: BlobBundle | None = None) -> None:
        super().put_again(signed, bundle)
        if isinstance(signed, bytes):
            self.model.put(*self._sent[signed])

    def simulate(self, calls: Sequence[tuple[bytes, bytes]], time: int) -> list[bytes | None]:
        found = super().simulate(calls, time)
        if calls[-1][1][:4] == selector("getManaMinFeeAt(uint256,bool)"):
            assert found[-1] is not None
            self._fee = int.from_bytes(found[-1], "big")
        else:
            ours = self.model.simulate(calls, time)
            self._same("simulated calls", [item is None for item in ours], [item is None for item in found])
        return found

    def mine_waiting(self) -> list[dict[str, Any]]:
        self._begun = self.model.state
        receipts = super().mine_waiting()
        ours = self.model.mine_waiting()
        self._same("receipts", [item["status"] for item in ours], [item["status"] for item in receipts])
        state = self.model.state
        logs = [log for receipt in receipts for log in receipt["logs"]]
        self._same("proposals", [self.model._event(state, at) for at in range(len(state.proposals))], logs)
        self._same("messages", [self.model._log(state, at) for at in range(len(state.logs))], logs)
        for _, frame in state.traces:
            self._count(frame)
        for log in logs:
            self.counts["invalidated"] += log["topics"][0] == INVALIDATED
            self.counts["pruned"] += log["topics"][0] == PRUNED
        self._compare()
        return receipts

    def _count(self, frame: dict[str, Any]) -> None:
        if frame["to"] in (hexed(self.rollup), hexed(self.inbox)):
            name = NAMES.get(bytes.fromhex(frame["input"][2:10]), "another function")
            self.counts[f"{name} {'refused' if 'error' in frame else 'taken'}"] += 1
        for inner in frame["calls"]:
            self._count(inner)

    # ---- comparison ----------------------------------------------------------------------------

    def _same(self, what: str, ours: Any, theirs: Any) -> None:
        if what in ("proposals", "messages"):
            topic = CHECKPOINT_PROPOSED if what == "proposals" else contracts.MESSAGE_SENT.topic
            ours = [(log["topics"], log["data"]) for log in ours]
            theirs = [(log["topics"], log["data"]) for log in theirs if log["topics"][0] == topic]
        self.counts["comparisons"] += 1
        if ours != theirs:
            shown = [
                frame.get("error", frame["calls"] and [item.get("error") for item in frame["calls"]])
                for _, frame in self.model.state.traces
            ]
            raise ModelError(f"{what}: the model has {ours}, the contracts {theirs}; {shown}")

    def _compare(self) -> None:
        """All that a node reads of the contracts."""
        model, block = self.model, self.model.state
        pending, now = block.pending, self.timestamp
        self._same("the time", model.timestamp, now)
        for number in {0, max(0, pending - 1), pending, pending + 1}:
            self._ask("status(uint256)", number)
            self._ask("archiveAt(uint256)", number)
            self._ask("getCheckpoint(uint256)", number)
        for later in LATER:
            self._ask("canPruneAtTime(uint256)", now + later)
        self._ask("getProvenCheckpointNumber()")
        self._same(
            "the inbox", *(self._raw(where, self.inbox, "getState()") for where in (self._of_model, self._of_anvil))
        )
        epoch = model._slot_at(now) // EPOCH_SLOTS
        for each in range(max(0, epoch - 3), epoch + 1):
            there = (self._of_model, self._of_anvil)
            ours, theirs = (
                self._raw(where, bytes.fromhex(self.outbox[2:]), "getRoots(uint256)", each) for where in there
            )
            self._same(f"the roots of epoch {each}", ours, theirs)

    def _ask(self, signature: str, *words: int) -> None:
        ours = self._raw(self._of_model, self.rollup, signature, *words)
        theirs = self._raw(self._of_anvil, self.rollup, signature, *words)
        if signature.startswith("getCheckpoint(") and ours is not None and theirs is not None:
            ours, theirs = ([item[64 * at : 64 * at + 64] for at in FIELDS] for item in (ours, theirs))  # type: ignore[assignment]
        self._same(f"{signature} of {words}", ours, theirs)

    def _raw(self, where: Any, to: bytes, signature: str, *words: int) -> Any:
        """None for a call that is reverted."""
        return where(to, selector(signature) + b"".join(map(word, words)))

    def _of_model(self, to: bytes, data: bytes) -> str | None:
        address = self.model.addresses.outbox if hexed(to) == self.outbox else hexed(to)
        try:
            return self.model._call_one(self.model.head, address, data)[2:]
        except RejectionError:
            return None

    def _of_anvil(self, to: bytes, data: bytes) -> str | None:
        answer = self.ask("eth_call", {"to": hexed(to), "data": hexed(data)}, "latest")
        return None if "error" in answer else str(answer["result"])[2:]
