"""A real anvil with the rollup's contracts, whose clock and blocks the tests make; skipped where there is no anvil.

The states are those after a deployment, without a committee and with one of 4 out of 6 validators (the accounts of the
public test mnemonic); slots have 36 seconds, L1 blocks 4, epochs 4 slots.  The one ``of_5`` has the contracts of
v5.1.0, compiled from their public source and deployed by their own script.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import pytest
from tests.ports import free_port
from tests.publishing.recorded import DATA

from fastnode.keystore.mnemonic import derive_key, seed_of
from fastnode.keystore.private_keys import EthKey
from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import blobs_hash
from fastnode.protocol.messages import in_hash
from fastnode.publishing import digests
from fastnode.publishing.account import WatchLimits
from fastnode.publishing.envelope import BlobBundle
from fastnode.publishing.fees import gas_limit
from fastnode.publishing.multicall import Call
from fastnode.publishing.propose import NO_ATTESTATIONS, ProposeCall
from fastnode.publishing.publishers import Publishers
from fastnode.publishing.requests import Outcome, Request, Success
from fastnode.publishing.signing import SigningDoor
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import Function, Kind
from fastnode.sources.l1.endpoints import L1Client
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

ANVIL = os.environ.get("FASTNODE_ANVIL") or shutil.which("anvil")
needs_anvil = pytest.mark.skipif(ANVIL is None, reason="no anvil on the path, and none named by FASTNODE_ANVIL")

CHAIN_ID = 31337
ROLLUP = bytes.fromhex("322813fd9a801c5507c9de605d63cea4f2ce6c44")
SLOT_S, L1_SLOT_S, EPOCH_SLOTS = 36, 4, 4
PATIENCE_S = 120.0
#: anvil's clock must not be beyond the blocks of the states.
BEFORE_ALL = 1_795_000_000
MNEMONIC = "test test test test test test test test test test test junk"
ARCHIVE = Function("archive()", Kind.BYTES32)


def test_key(index: int) -> EthKey:
    return EthKey(derive_key(seed_of(MNEMONIC), account=0, address=index))


test_key.__test__ = False  # type: ignore[attr-defined]


def address_of(key: EthKey) -> bytes:
    return bytes.fromhex(key.address[2:])


def wait_for(is_so: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.02)
    return found


class Anvil:
    """Mines when it is told to.  Its port stays the same over a restart."""

    #: A block two epochs behind the newest one is final.
    finality_epoch = 2

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert ANVIL is not None
        command = [ANVIL, "--port", str(self.port), "--chain-id", str(CHAIN_ID), "--no-mining", "--quiet"]
        command += ["--slots-in-an-epoch", str(self.finality_epoch), "--timestamp", str(BEFORE_ALL)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

        def answers() -> bool:
            try:
                return bool(self.call("eth_chainId"))
            except OSError:
                return False

        wait_for(answers, "anvil")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, *params: Any) -> Any:
        document = self.ask(method, *params)
        assert "error" not in document, document
        return document.get("result")

    def ask(self, method: str, *params: Any) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        with urlopen(HttpRequest(self.url, body, {"Content-Type": "application/json"}), timeout=PATIENCE_S) as answer:
            return json.load(answer)  # type: ignore[no-any-return]

    def load(self, name: str) -> None:
        state = gzip.compress(lzma.decompress((DATA / f"l1_{name}.json.xz").read_bytes()))
        assert self.call("anvil_loadState", "0x" + state.hex())

    @property
    def timestamp(self) -> int:
        return int(self.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    @property
    def number(self) -> int:
        return int(self.call("eth_blockNumber"), 16)

    def mine(self, at: int | None = None) -> None:
        """One block, at a time or one L1 slot after the last one."""
        self.call("evm_setNextBlockTimestamp", self.timestamp + L1_SLOT_S if at is None else at)
        self.call("evm_mine")

    def pool(self) -> list[dict[str, Any]]:
        """Transactions that wait."""
        content = self.call("txpool_content")
        return [tx for group in content.values() for sender in group.values() for tx in sender.values()]


@dataclass
class LiveL1:
    """Parts of a proposer: an L1, keys, accounts that pay."""

    anvil: Anvil
    client: L1Client
    network: Network
    door: SigningDoor
    keys: Mapping[bytes, EthKey]
    directory: Path
    executor: ThreadPoolExecutor
    publishers: Publishers

    @property
    def publisher(self) -> bytes:
        return self.publishers.all[0].address

    def read(self, function: Function, *arguments: int | bytes) -> Any:
        return self.client.run(lambda endpoint: endpoint.read(ROLLUP, function, *arguments))[0]

    @property
    def genesis_time(self) -> int:
        return int(self.read(contracts.GENESIS_TIME))

    def start_of(self, slot: int) -> int:
        return self.genesis_time + slot * SLOT_S

    @property
    def next_slot(self) -> int:
        """The slot that has not begun."""
        return (self.anvil.timestamp - self.genesis_time) // SLOT_S + 1

    def tip(self) -> int:
        """The pending checkpoint."""
        return int(self.read(Function("getPendingCheckpointNumber()", Kind.NUMBER)))

    # ---- a checkpoint ------------------------------------------------------------------------

    def header(self, slot: int, bundle: BlobBundle, **changes: Any) -> CheckpointHeader:
        """Header of a checkpoint that follows the tip.  L1 does not know what is in it."""
        time_ = self.start_of(slot)
        header = CheckpointHeader(
            last_archive_root=self.read(ARCHIVE),
            block_headers_hash=bytes(31) + b"\1",
            blobs_hash=blobs_hash(bundle.versioned_hashes),
            in_hash=in_hash(()),
            epoch_out_hash=bytes(32),
            slot_number=slot,
            timestamp=time_,
            coinbase=b"\7" * 20,
            fee_recipient=bytes(32),
            gas_fees=GasFees(0, int(self.read(contracts.MANA_MIN_FEE_AT, time_, 1))),
            total_mana_used=0,
        )
        return replace(header, **changes)

    def propose(
        self, slot: int, bundle: BlobBundle, header: CheckpointHeader | None = None, **changes: Any
    ) -> ProposeCall:
        """``changes`` of the call."""
        parts: dict[str, Any] = {
            "header": header or self.header(slot, bundle),
            "archive_root": slot.to_bytes(32, "big"),
            "attestations": NO_ATTESTATIONS,
            "signers": (),
            "commitments": bundle.commitments,
        } | changes
        if "proposer_signature" not in parts:
            digest = digests.attestations_and_signers(parts["attestations"], parts["signers"])
            parts["proposer_signature"] = self.door.sign_message(self.publisher, digest)
        return ProposeCall(**parts)

    def request(self, slot: int, bundle: BlobBundle | None = None, call: ProposeCall | None = None) -> Request:
        """A checkpoint of a slot, with its gas from a simulation at the slot's begin."""
        bundle = bundle or BlobBundle([slot.to_bytes(32, "big")])
        call = call or self.propose(slot, bundle)
        inner = Call(ROLLUP, call.call_data())
        simulator = self.publishers.simulator
        simulated = simulator.simulate(inner, self.publisher, self.start_of(slot), what=f"slot {slot}")
        blobs = simulator.blob_gas(self.publisher, bundle)
        return Request(
            what=f"checkpoint of slot {slot}",
            calls=(inner,),
            success=Success(ROLLUP, (CHECKPOINT_PROPOSED, None, "0x" + call.archive_root.hex())),
            gas=gas_limit(simulated.gas_used, blobs=blobs),
            bundle=bundle,
            slot_ends_at=self.start_of(slot + 1),
            give_up_at=self.start_of(slot + 1) - L1_SLOT_S,
        )

    def start_publishing(self, request: Request, publisher: int = 0) -> Future[Outcome]:
        """Returns once L1 has the transaction in its pool."""
        before = len(self.anvil.pool())
        future = self.executor.submit(self.publishers.all[publisher].publish, request)
        wait_for(lambda: future.done() or len(self.anvil.pool()) > before, "the transaction")
        return future

    def publish(self, slot: int) -> Outcome:
        """A checkpoint in the first L1 block of its slot."""
        future = self.start_publishing(self.request(slot))
        self.anvil.mine(self.start_of(slot))
        return future.result(PATIENCE_S)


#: anvil takes seconds of processor time for its first blob.
LONG = ClientLimits(request_time_s=PATIENCE_S)
LIMITS = WatchLimits(check_interval_s=0.05, stall_s=12, timeout_s=120, cancellation_timeout_s=288, unseen_s=72)


def open_publishers(
    client: L1Client, door: SigningDoor, addresses: list[bytes], directory: Path, **changes: Any
) -> Publishers:
    return Publishers(
        addresses,
        client,
        door,
        chain_id=CHAIN_ID,
        rollup=ROLLUP,
        limits=changes.pop("limits", LIMITS),
        directory=directory,
        **changes,
    )


@contextmanager
def live_l1(state: str, directory: Path, accounts: int = 1) -> Iterator[LiveL1]:
    anvil = Anvil()
    keys = {address_of(key): key for key in map(test_key, range(8))}
    with Network() as network, ThreadPoolExecutor(8) as executor:
        anvil.start()
        try:
            anvil.load(state)
            patience = Patience(unavailable_s=0.05, unavailable_max_s=0.2, aside_s=0.2, aside_max_s=0.2)
            client = L1Client([anvil.url], network, limits=LONG, patience=patience)
            door = SigningDoor(lambda: keys, ROLLUP, network)
            publishers = open_publishers(client, door, list(keys)[:accounts], directory)
            l1 = LiveL1(anvil, client, network, door, keys, directory, executor, publishers)
            try:
                yield l1
            finally:
                l1.publishers.close()
        finally:
            anvil.kill()
