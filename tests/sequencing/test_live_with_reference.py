"""A network in real time: fastnode proposes and proves, the published node follows, the published wallet sends; then
the published node proposes and fastnode follows, and back.  After every checkpoint all nodes have the same chain.

What is not part of this project is named by the environment:

    FASTNODE_ANVIL             the program
    FASTNODE_TEST_WALLET       a folder with ``node`` and ``node_modules`` of the published wallet (tests/programs.py)
    FASTNODE_TEST_DEPLOY       a command that deploys the network's contracts; it is given --rpc URL --slot S
                               --l1-slot S --epoch SLOTS --proof-epochs N --realtime 1, and leaves an L1 on the clock
                               with a block each --l1-slot
    FASTNODE_TEST_REFERENCE    and FASTNODE_TEST_BLOBS: as ``published_node.py`` says
    FASTNODE_LIVE_CHECKPOINTS  how many fastnode publishes (200)
    FASTNODE_LIVE_SWAPPED      how many the published node publishes (50)
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import NodeProcess
from tests.ports import free_port
from tests.publishing.live_l1 import ANVIL, CHAIN_ID, test_key
from tests.sequencing.published_node import (
    BLOBS_HERE,
    BLOBS_THERE,
    READY_S,
    ask,
    published_node,
    require_same_answers,
    wait_for,
)

NEEDED = ("FASTNODE_TEST_WALLET", "FASTNODE_TEST_DEPLOY", "FASTNODE_TEST_REFERENCE", "FASTNODE_TEST_BLOBS")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(ANVIL is None or not all(map(os.environ.get, NEEDED)), reason="needs " + ", ".join(NEEDED)),
]

SLOT_S, L1_SLOT_S, EPOCH_SLOTS = 12, 4, 8
CHECKPOINTS = int(os.environ.get("FASTNODE_LIVE_CHECKPOINTS", "200"))
SWAPPED = int(os.environ.get("FASTNODE_LIVE_SWAPPED", "50"))
REGISTRY = "0xb7f8bc63bbcad18155201308c8f3540b07f84f5e"
#: The deployment takes time of L1 that the clock must have had.
BEFORE_S = 1500
#: In blocks of L1, of which two epochs are final after 128 s.  The published node's block stream stands still for ever
#: ("Block hash not found") when it finds a block final before it has seen it proven: if it is held up for longer.
FINALITY_EPOCH = "16"
#: Without a checkpoint for so long something is wrong.
STILL_S = 600.0
SCENARIO = Path(__file__).with_name("wallets.mjs")
PROPOSER, PROVER = ("0x" + test_key(index).reveal().hex() for index in (0, 1))


class Wallets:
    """The scenario of users, against one node."""

    def __init__(self, directory: Path, name: str, port: int, l1_port: int) -> None:
        self.output, self.stop_file = directory / f"wallets-{name}.jsonl", directory / f"stop-{name}"
        wallet = Path(os.environ["FASTNODE_TEST_WALLET"])
        folder = directory / "scenario"
        folder.mkdir(exist_ok=True)
        if not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(wallet / "node_modules")
            (folder / SCENARIO.name).write_text(SCENARIO.read_text())
        environment = os.environ | {
            "NODE_URL": f"http://127.0.0.1:{port}",
            "L1_URL": f"http://127.0.0.1:{l1_port}",
            "STATE": str(directory / "contracts.json"),
            "STOP": str(self.stop_file),
            "LOG_LEVEL": "warn",
        }
        with self.output.open("wb") as output:
            command = [str(wallet / "node"), SCENARIO.name]
            self._process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output)

    def finish(self) -> tuple[dict[str, Any], int]:
        """What they have done, once all of it is decided; of how many transactions the block that they stand on was
        taken back, with a slot that was missed: nobody can take these any more."""
        self.stop_file.touch()
        self._process.wait(READY_S)
        lines = [json.loads(line) for line in self.output.read_text().splitlines() if line.startswith("{")]
        lost = [line for line in lines if "lost" in line]
        assert all("Block header not found" in line["lost"].get("refused", "") for line in lost), lost
        assert not [line for line in lines if "failed" in line]
        return next(line["end"] for line in lines if "end" in line), len(lost)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Network:
    """``committee``: how many attest; they are the first accounts of the test mnemonic."""

    def __init__(
        self,
        directory: Path,
        start_node: Callable[..., NodeProcess],
        stack: ExitStack,
        *,
        slot_s: int = SLOT_S,
        epoch_slots: int = EPOCH_SLOTS,
        committee: int = 0,
    ) -> None:
        self.directory, self.start_node, self.stack = directory, start_node, stack
        self.blobs, self.blobs_there = f"file://{BLOBS_HERE}", f"file://{BLOBS_THERE}"
        self.l1_port = free_port()
        #: Node and checkpoint: what it said of it.
        self.seen: dict[int, dict[int, tuple[str, str]]] = {}
        options: list[object] = ["--slot", slot_s, "--l1-slot", L1_SLOT_S, "--epoch", epoch_slots, "--proof-epochs", 2]
        if committee:
            options += ["--committee", committee, "--validators", f"auto:{committee}", "--warp", 1]
        self._start_l1([*options, "--realtime", 1])

    def _start_l1(self, options: Sequence[object]) -> None:
        assert ANVIL is not None
        command = [ANVIL, "--port", str(self.l1_port), "--chain-id", str(CHAIN_ID), "--quiet"]
        command += ["--slots-in-an-epoch", FINALITY_EPOCH, "--timestamp", str(int(time.time()) - BEFORE_S)]
        anvil = subprocess.Popen(command)
        self.stack.callback(anvil.wait)
        self.stack.callback(anvil.kill)
        wait_for(lambda: ask(self.l1_port, "eth_chainId"))
        deploy = [*shlex.split(os.environ["FASTNODE_TEST_DEPLOY"]), "--rpc", f"http://127.0.0.1:{self.l1_port}"]
        subprocess.run([*deploy, *map(str, options)], check=True, stdout=subprocess.DEVNULL, timeout=READY_S)

    def node(self, *flags: object, data: str, **environment: str) -> NodeProcess:
        node = self.start_node(
            *("--data-directory", self.directory / data, "--l1-rpc-urls", f"http://127.0.0.1:{self.l1_port}"),
            *("--blob-file-store-urls", self.blobs, "--blob-allow-empty-sources", "--registry-address", REGISTRY),
            *("--ethereum-slot-duration", L1_SLOT_S, "--ethereum-allow-no-debug-hosts", "--disable-admin-api-key"),
            *("--max-allowed-eth-client-drift-seconds", 0),
            *flags,
            PROVER_REAL_PROOFS="false",  # the wallet makes none
            **environment,
        )
        return node.wait_until_serving()

    def proposer(self, data: str = "proposer") -> NodeProcess:
        flags = ("--sequencer", "--prover-node", "--blob-file-store-upload-url", self.blobs)
        keys = {"VALIDATOR_PRIVATE_KEYS": PROPOSER, "PROVER_PUBLISHER_PRIVATE_KEYS": PROVER}
        return self.node(*flags, data=data, SEQ_BLOCK_DURATION_MS="2500", **keys)

    def prover(self, data: str = "proposer") -> NodeProcess:
        """The same node, which follows L1 and proves what others publish."""
        return self.node("--prover-node", data=data, PROVER_PUBLISHER_PRIVATE_KEYS=PROVER)

    def reference(self, **environment: str) -> AbstractContextManager[int]:
        return published_node(self.l1_port, L1_SLOT_S, **environment)

    # ---- looking at it -------------------------------------------------------------------------

    def look(self, *ports: int) -> list[int]:
        """Newest checkpoints of nodes; each tip must be the same as every other node's of that checkpoint."""
        newest = []
        for port in ports:
            tips = ask(port, "node_getL2Tips")
            newest.append(int(tips["checkpointed"]["checkpoint"]["number"]))
            for name in ("checkpointed", "proven", "finalized"):
                number = int(tips[name]["checkpoint"]["number"])
                said = (tips[name]["checkpoint"]["hash"], tips[name]["block"]["hash"])
                if number:
                    known = self.seen.setdefault(number, {})
                    known[port] = said
                    assert len(set(known.values())) == 1, (number, known)
        return newest

    def watch(self, count: int, *ports: int) -> int:
        """Until every node has so many checkpoints more; the newest one."""
        first = max(self.look(*ports))
        newest, moved_at = first, time.monotonic()
        while newest < first + count:
            time.sleep(L1_SLOT_S / 2)
            least = min(self.look(*ports))
            if least > newest:
                newest, moved_at = least, time.monotonic()
            assert time.monotonic() - moved_at < STILL_S, f"no checkpoint after {newest}"
        return newest


def test_the_published_node_has_the_same_chain_whoever_proposes(
    tmp_path: Path, start_node: Callable[..., NodeProcess]
) -> None:
    with ExitStack() as stack:
        network = Network(tmp_path, start_node, stack)
        proposer = network.proposer()
        follower = network.node(data="follower")
        reference = stack.enter_context(network.reference())
        ports = (follower.port, reference)

        def play(name: str, port: int, count: int) -> None:
            wallets = Wallets(tmp_path, name, port, network.l1_port)
            stack.callback(wallets.kill)
            network.watch(count, port, *ports)
            done, lost = wallets.finish()
            print(f"\n{name}: {json.dumps(done)}, {lost} stood on blocks that were taken back", flush=True)
            assert done["transactions"] == done["checkpointed"] + lost > 0
            assert done["unconsumed"] == 0

        play("fastnode", proposer.port, CHECKPOINTS)
        require_same_answers(follower.port, reference)
        assert proposer.stop() == 0
        prover = network.prover()
        upload = {"ROLE": "sequencer", "KEYS": PROPOSER, "BLOB_FILE_STORE_UPLOAD_URL": network.blobs_there}
        with network.reference(SEQ_BLOCK_DURATION_MS="2500", **upload) as sequencer:
            play("reference", sequencer, SWAPPED)
        assert prover.stop() == 0
        proposer = network.proposer()
        play("fastnode again", proposer.port, max(1, SWAPPED // 5))
        require_same_answers(follower.port, reference)
