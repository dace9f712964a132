"""A network of its own: anvil with the contracts, whose slots a test begins, and nodes that propose on it."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coincurve import PrivateKey
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import CHAIN_ID, ROLLUP, Anvil, test_key
from tests.sequencing.published_node import BLOBS_HERE

from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.envelope import BlobBundle, Transaction
from fastnode.sources.blobs.file_store import FileStore, folder_of

REGISTRY = "0xb7f8bc63bbcad18155201308c8f3540b07f84f5e"
L1_SLOT_S = 4
#: A busy machine takes many times what a slot takes.
PATIENCE_S = 300.0
#: L1 must not be behind the clock on the wall, or its contracts would be about to prune.
AHEAD_S = 86_400
#: More than a test takes back.
REORG_BLOCKS = 8
#: Blocks after which L1 has the state of its final block.
FINAL_BLOCKS = 6


def selector(signature: str) -> str:
    return "0x" + keccak_256(signature.encode())[:4].hex()


@dataclass
class ProposingNetwork:
    """``start`` gives nodes: the fixture ``start_node``."""

    anvil: Anvil
    directory: Path
    start: Callable[..., NodeProcess]
    count: int = 0
    #: L1 blocks whose blobs were put into the store.
    stored: int = 0
    #: Where that is; None: in the directory.
    blobs: Path | None = None
    #: How nodes find L1; empty: as the test does.
    l1_url: str = ""

    # ---- L1 ------------------------------------------------------------------------------------

    def read(self, signature: str, *words: int) -> int:
        data = selector(signature) + "".join(f"{word:064x}" for word in words)
        return int(self.anvil.call("eth_call", {"to": "0x" + ROLLUP.hex(), "data": data}, "latest"), 16)

    @property
    def genesis_time(self) -> int:
        return self.read("getGenesisTime()")

    @property
    def slot_s(self) -> int:
        return self.read("getSlotDuration()")

    def start_of(self, slot: int) -> int:
        return self.genesis_time + slot * self.slot_s

    @property
    def slot(self) -> int:
        """The slot of the next L1 block."""
        return (self.anvil.timestamp + L1_SLOT_S - self.genesis_time) // self.slot_s

    @property
    def pending(self) -> int:
        return self.read("getPendingCheckpointNumber()")

    @property
    def proven(self) -> int:
        return self.read("getProvenCheckpointNumber()")

    def committee(self, slot: int) -> list[int]:
        """Its members, as places of their keys."""
        data = selector("getCommitteeAt(uint256)") + f"{self.start_of(slot):064x}"
        answer = self.anvil.call("eth_call", {"to": "0x" + ROLLUP.hex(), "data": data}, "latest")[2:]
        words = [answer[at : at + 64] for at in range(0, len(answer), 64)]
        members = ["0x" + word[24:] for word in words[2:]]
        places = {test_key(index).address.lower(): index for index in range(6)}
        return [places[member] for member in members]

    def begin_slot(self, slot: int | None = None) -> int:
        """Mine the L1 block before the next slot, or ``slot``: a proposer begins to build."""
        wanted = self.slot + 1 if slot is None else slot
        self.anvil.mine(self.start_of(wanted) - L1_SLOT_S)
        return wanted

    def mine_slot(self, slot: int | None = None) -> int:
        """Begin a slot, wait for a proposal, and mine it; the number of its checkpoint."""
        wanted = self.begin_slot(slot)
        before = self.pending
        wait_until(self.anvil.pool, self.log)
        self.anvil.mine(max(self.start_of(wanted), self.anvil.timestamp + L1_SLOT_S))
        assert self.pending == before + 1, self.log()
        return before + 1

    # ---- nodes ---------------------------------------------------------------------------------

    def log(self) -> str:
        return "\n".join(file.read_text()[-3000:] for file in sorted(self.directory.glob("node-*.log")))

    def node(self, *flags: object, data: str | None = None, **environment: str) -> NodeProcess:
        self.count += 1
        node = self.start(
            *("--data-directory", self.directory / (data or f"data-{self.count}")),
            *("--l1-rpc-urls", self.l1_url or self.anvil.url, "--blob-file-store-urls", self.store_url),
            *("--registry-address", REGISTRY, "--ethereum-slot-duration", L1_SLOT_S),
            *("--max-allowed-eth-client-drift-seconds", 0, "--ethereum-allow-no-debug-hosts"),
            *("--l1-polling-interval-ms", 20, "--archiver-polling-interval-ms", 20, "--seq-polling-interval-ms", 20),
            *("--p2p-min-tx-pool-age-ms", 0, "--disable-admin-api-key"),
            *flags,
            PROVER_REAL_PROOFS="false",
            L1_TX_MONITOR_CHECK_INTERVAL_MS="50",
            **environment,
        )
        return node.wait_until_serving()

    def proposer(
        self, *flags: object, keys: Iterable[int] = range(1), data: str | None = None, **environment: str
    ) -> NodeProcess:
        """Builds empty checkpoints too, without waiting for transactions."""
        texts = ",".join("0x" + test_key(index).reveal().hex() for index in keys)
        builds = ("--sequencer", "--min-txs-per-block", 0, "--build-checkpoint-if-empty")
        return self.node(*builds, *flags, data=data, VALIDATOR_PRIVATE_KEYS=texts, **environment)

    @property
    def store_url(self) -> str:
        folder = self.blobs or self.directory / "blobs"
        folder.mkdir(exist_ok=True)
        return f"file://{folder}"

    def store_blobs(self) -> None:
        """Put the blobs of all proposals where nodes that follow find them."""
        store = FileStore(self.store_url, folder_of(31337, self.read("getVersion()"), ROLLUP), "store", is_written=True)
        # A reorg replaces the last ones.
        newest = self.anvil.number
        first, self.stored = max(0, min(self.stored, newest) - REORG_BLOCKS), newest
        for number in range(first, newest + 1):
            block = self.anvil.call("eth_getBlockByNumber", hex(number), True) or {}  # blocks before the state are gone
            for transaction in block.get("transactions", ()):
                hashes = transaction.get("blobVersionedHashes") or ()
                parts = zip(hashes, transaction.get("blobs", ()), transaction.get("commitments", ()), strict=False)
                for versioned_hash, blob, commitment in parts:
                    texts = (versioned_hash, blob, commitment)
                    store.upload(*(bytes.fromhex(text[2:]) for text in texts))
        store.sign_as_healthy()


def tips(node: NodeProcess) -> dict[str, Any]:
    return node.call("node_getL2Tips")["result"]  # type: ignore[no-any-return]


def checkpointed(node: NodeProcess) -> int:
    return int(tips(node)["checkpointed"]["checkpoint"]["number"])


def wait_until(is_so: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def components(node: NodeProcess) -> str:
    """What the node says of each of its parts."""
    question = urllib.request.Request(f"{node.url}/status", headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(question, timeout=PATIENCE_S) as answer:
            return answer.read().decode()  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:  # not ready
        return error.read().decode()


def send_nothing(anvil: Anvil, account: int, bundle: BlobBundle | None = None) -> str:
    """A transfer of nothing from an account to itself, which waits; its hash."""
    key = test_key(account)
    transaction = Transaction(
        chain_id=CHAIN_ID,
        nonce=int(anvil.call("eth_getTransactionCount", key.address, "latest"), 16),
        tip_max=10**9,
        fee_max=10**12,
        gas=21_000,
        to=bytes.fromhex(key.address[2:]),
        blob_fee_max=None if bundle is None else 10**3,
        versioned_hashes=() if bundle is None else bundle.versioned_hashes,
    )
    secret = PrivateKey(key.reveal())
    signed = transaction.sign(lambda digest: secret.sign_recoverable(digest, hasher=None))
    sent: str = anvil.call("eth_sendRawTransaction", "0x" + signed.raw(bundle).hex())
    return sent


def warm_up(anvil: Anvil) -> None:
    """Its first blob takes anvil so long on a busy machine that a node would take it for dead."""
    anvil.call("anvil_dropTransaction", send_nothing(anvil, 9, BlobBundle([bytes(31) + b"\1"])))


@contextmanager
def proposing_network(state: str, directory: Path, start: Callable[..., NodeProcess]) -> Iterator[ProposingNetwork]:
    anvil = Anvil()
    anvil.start()
    try:
        anvil.load(state)
        anvil.mine(int(time.time()) + AHEAD_S)
        for _ in range(FINAL_BLOCKS):
            anvil.mine()
        network = ProposingNetwork(anvil, directory, start)
        if BLOBS_HERE:
            network.blobs = Path(BLOBS_HERE) / directory.name
        network.store_blobs()
        yield network
    finally:
        anvil.kill()
