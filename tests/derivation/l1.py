"""An L1 whose every block a scenario makes: anvil with the contracts, a committee of four out of six validators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coincurve import PrivateKey
from tests.publishing.live_l1 import (
    BEFORE_ALL,
    CHAIN_ID,
    EPOCH_SLOTS,
    L1_SLOT_S,
    ROLLUP,
    SLOT_S,
    Anvil,
    test_key,
)
from tests.sequencing.network import REGISTRY, warm_up

from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.publishing.encoding import selector, word
from fastnode.publishing.envelope import BlobBundle, SignedTransaction, Transaction
from fastnode.sources.l1.contracts import CHECKPOINT, MESSAGE_SENT

__all__ = ["EPOCH_SLOTS", "FORWARDER", "L1_SLOT_S", "SLOT_S", "ScenarioL1"]

#: A contract of a proposer's own: it calls the address in its first 20 bytes of input with the rest.
FORWARDER = b"\xf0" * 20
FORWARDER_CODE = bytes.fromhex("601436038060146000376000600082600060006000356060" + "1c5af115602057005b60006000fd")
PAYER = 7
GAS = 9_000_000
STATES_KEPT = 40


@dataclass(frozen=True)
class Deployed:
    """``state``: of anvil, with the contracts of a release."""

    state: str
    rollup: bytes
    registry: str


DEPLOYED: Final[Mapping[str, Deployed]] = {
    FOUR.name: Deployed("committee_of_4", ROLLUP, REGISTRY),
    FIVE.name: Deployed(
        "committee_of_4_of_5",
        bytes.fromhex("59b670e9fa9d0a427751af201d676719a970857b"),
        "0x8a791620dd6260079bf849dc5567adc3f2fdc318",
    ),
}


def hexed(data: bytes) -> str:
    return "0x" + data.hex()


class ScenarioL1(Anvil):
    """Blocks are four seconds apart; blobs are kept with their transactions, so that these can be sent again."""

    #: A scenario takes back less than what is not final; fastnode looks for what is at each block if it is so close.
    finality_epoch = 15

    def __init__(self, port: int, release: Release = FOUR) -> None:
        super().__init__()
        self.release = release
        self._deployed = DEPLOYED[release.name]
        self.rollup, self.registry = self._deployed.rollup, self._deployed.registry
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        #: Raw transactions by the L1 block that has them.
        self.sent: dict[int, list[bytes]] = {}
        self._secret = PrivateKey(test_key(PAYER).reveal())
        self._waiting: list[bytes] = []
        self._coinbase = 0
        #: The highest block that followers may have seen; the published node looks for nothing below it.
        self.highest = 0

    def open(self, timestamp: int) -> None:
        assert timestamp > BEFORE_ALL
        self.start()
        self.load(self._deployed.state)
        self.call("anvil_setCode", hexed(FORWARDER), hexed(FORWARDER_CODE))
        self.call("anvil_setBalance", test_key(PAYER).address, hex(10**24))
        self.mine(timestamp)
        warm_up(self)
        self.skip(STATES_KEPT)
        self.genesis_time = self.read("getGenesisTime()")
        self.version = self.read("getVersion()")
        self.inbox = self.read("getInbox()").to_bytes(20, "big")
        assert (self.read("getSlotDuration()"), self.read("getEpochDuration()")) == (SLOT_S, EPOCH_SLOTS)

    # ---- reading -------------------------------------------------------------------------------

    @property
    def signing_domain(self) -> SigningDomain:
        return SigningDomain(CHAIN_ID, self.rollup)

    def ask_contract(self, signature: str, *words: int) -> bytes:
        data = selector(signature) + b"".join(map(word, words))
        answer = self.call("eth_call", {"to": hexed(self.rollup), "data": hexed(data)}, "latest")
        return bytes.fromhex(answer[2:])

    def read(self, signature: str, *words: int) -> int:
        return int.from_bytes(self.ask_contract(signature, *words)[:32], "big")

    def simulate(self, calls: Sequence[tuple[bytes, bytes]], time: int) -> list[bytes | None]:
        """What calls return, one after the other, in a block at a time; None for those that revert."""
        listed = [{"from": test_key(PAYER).address, "to": hexed(to), "data": hexed(data)} for to, data in calls]
        state = {hexed(self.rollup): {"stateDiff": {hexed(word(4)): hexed(word(0))}}}  # blobs cannot be simulated
        blocks = [{"blockOverrides": {"time": hex(time)}, "stateOverrides": state, "calls": listed}]
        answer = self.call("eth_simulateV1", {"blockStateCalls": blocks, "validation": False}, "latest")
        results = answer[0]["calls"]
        return [bytes.fromhex(item["returnData"][2:]) if item["status"] == "0x1" else None for item in results]

    def checkpoint(self, number: int) -> tuple[bytes, bytes]:
        """Archive root and hash of the attestations, of a checkpoint that is not proven for long."""
        fields = CHECKPOINT.decode(hexed(self.ask_contract("getCheckpoint(uint256)", number)))
        return fields[0], fields[4]

    def messages(self, checkpoint: int) -> tuple[bytes, ...]:
        topics = [MESSAGE_SENT.topic, hexed(word(checkpoint))]
        where = {"fromBlock": "0x0", "toBlock": "latest", "address": hexed(self.inbox), "topics": topics}
        return tuple(bytes.fromhex(log["topics"][2][2:]) for log in self.call("eth_getLogs", where))

    def committee(self, time: int) -> list[bytes]:
        answer = self.ask_contract("getCommitteeAt(uint256)", time)
        return [answer[at + 12 : at + 32] for at in range(64, len(answer), 32)]

    # ---- time ----------------------------------------------------------------------------------

    def start_of(self, slot: int) -> int:
        return self.genesis_time + slot * SLOT_S

    @property
    def next_slot(self) -> int:
        """The slot of the next L1 block."""
        return (self.timestamp + L1_SLOT_S - self.genesis_time) // SLOT_S

    def skip(self, blocks: int) -> None:
        """Blocks without transactions."""
        if blocks > 0:
            self._be_another()
            self.call("evm_setNextBlockTimestamp", self.timestamp + L1_SLOT_S)
            self.call("anvil_mine", hex(blocks), hex(L1_SLOT_S))

    def skip_to(self, slot: int) -> None:
        """The next block is the first one of a slot, or a later one of it."""
        self.skip(-(-(self.start_of(slot) - L1_SLOT_S - self.timestamp) // L1_SLOT_S))

    def _be_another(self) -> None:
        """Two blocks of one height never have the same hash."""
        self._coinbase += 1
        self.call("anvil_setCoinbase", hexed(self._coinbase.to_bytes(20, "big")))

    def take_back(self, blocks: int) -> list[bytes]:
        """Remove the newest blocks; their transactions."""
        number = self.number
        self.highest = max(self.highest, number)
        self.call("anvil_rollback", blocks)
        return [raw for height in range(number - blocks + 1, number + 1) for raw in self.sent.pop(height, ())]

    # ---- transactions --------------------------------------------------------------------------

    def put(self, to: bytes, data: bytes, bundle: BlobBundle | None = None) -> None:
        """Sign a transaction that the next block has."""
        used = int(self.call("eth_getTransactionCount", test_key(PAYER).address, "latest"), 16)
        transaction = Transaction(
            chain_id=CHAIN_ID,
            nonce=used + len(self._waiting),
            tip_max=10**9,
            fee_max=10**13,
            gas=GAS,
            to=to,
            data=data,
            blob_fee_max=None if bundle is None else 10**12,
            versioned_hashes=() if bundle is None else bundle.versioned_hashes,
        )
        signed = transaction.sign(lambda digest: self._secret.sign_recoverable(digest, hasher=None))
        self.put_again(signed, bundle)

    def put_again(self, signed: SignedTransaction | bytes, bundle: BlobBundle | None = None) -> None:
        raw = signed if isinstance(signed, bytes) else signed.raw(bundle)
        self.call("eth_sendRawTransaction", hexed(raw))
        self._waiting.append(raw)

    def mine_waiting(self) -> list[dict[str, Any]]:
        """The next block; its receipts."""
        self._be_another()
        self.mine()
        number = self.number
        self.sent[number], self._waiting = self._waiting, []
        block = self.call("eth_getBlockByNumber", hex(number), False)
        assert len(block["transactions"]) == len(self.sent[number]), (block["transactions"], self.pool())
        return [self.call("eth_getTransactionReceipt", item) for item in block["transactions"]]
