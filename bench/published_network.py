"""A network of published nodes on this machine, fastnode between them, what is measured there, and the end of it all.

    published_network.py --directory D [--minutes 30] [--txs 200] [--restarts 5] [--port 21600] [-- more flags ...]

An L1 on the clock, whose contracts have a committee of four; a published node that proposes with the keys of all four;
a published node that knows no other, so that all that passes between these two goes through fastnode; and one that is
connected to the first.  Then what published_peers.py says; what is given here goes on to it.  Some ten minutes
are added: two for the start, some for what is not mined yet and for the restarts.

In the directory: ``network.log`` with what was started and when, ``fastnode.log``, ``node-*.log`` as far as the command
writes one, ``spread.jsonl``.  SIGINT or SIGTERM ends all that was started here.

What is not part of this project is named by the environment, as for tests/sequencing/test_live_with_reference.py:

    FASTNODE_ANVIL             the program
    FASTNODE_TEST_DEPLOY       a command that deploys the network's contracts
    FASTNODE_TEST_REFERENCE    a command that boots a published node: ``start L1_PORT PORT ADMIN_PORT 0``, and
                               ``stop PORT``; all settings, P2P_ENABLED among them, come from the environment
    FASTNODE_TEST_BLOBS        a folder for blobs; behind a colon how the published node sees it, if it does otherwise
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.publishing.live_l1 import ANVIL, CHAIN_ID, test_key

import published_peers

SLOT_S, L1_SLOT_S, EPOCH_SLOTS, MEMBERS = 36, 4, 4, 4
#: Nothing is proven here, and nothing must be given up for that.
PROOF_EPOCHS = 100
#: The deployment takes time of L1 that the clock must have had.
BEFORE_S = 1500
READY_S = 600.0
#: A published node ends when a program of its own does not answer it within five seconds.
STARTS = 4
NEEDED = ("FASTNODE_TEST_DEPLOY", "FASTNODE_TEST_REFERENCE", "FASTNODE_TEST_BLOBS")
#: Blocks of four seconds, also without transactions; the fees of the made-up ones are paid by development accounts.
SETTINGS = {
    "L1_SLOT": str(L1_SLOT_S),
    "BLOB_ALLOW_EMPTY_SOURCES": "true",
    "P2P_ENABLED": "true",
    "P2P_IP": "127.0.0.1",
    "P2P_LISTEN_ADDR": "127.0.0.1",
    "DEBUG_P2P_DISABLE_COLOCATION_PENALTY": "true",
    "P2P_MIN_TX_POOL_AGE_MS": "200",
    "SEQ_BLOCK_DURATION_MS": "4000",
    "SEQ_L1_PUBLISHING_TIME_ALLOWANCE_IN_SLOT": "8",
    "SEQ_PER_BLOCK_ALLOCATION_MULTIPLIER": "6",
    "SEQ_MIN_TX_PER_BLOCK": "0",
    "SEQ_BUILD_CHECKPOINT_IF_EMPTY": "true",
    "LOG_LEVEL": "info;verbose:p2p",
}


class PublishedNetwork:
    """``base``: the first of twelve ports."""

    def __init__(self, directory: Path, base: int, stack: ExitStack) -> None:
        self._directory, self._stack = directory, stack
        self._log = directory / "network.log"
        self.l1 = f"http://127.0.0.1:{base}"
        self._l1_port = base
        here, _, there = os.environ["FASTNODE_TEST_BLOBS"].partition(":")
        Path(here).mkdir(parents=True, exist_ok=True)
        self.blobs, self._blobs_there = f"file://{here}", f"file://{there or here}"
        self._start_l1()

    def say(self, text: str) -> None:
        with self._log.open("a") as log:
            print(time.strftime("%H:%M:%S"), text, file=log)
        print(text, flush=True)

    def _start_l1(self) -> None:
        assert ANVIL is not None, "FASTNODE_ANVIL names none"
        command = [ANVIL, "--port", str(self._l1_port), "--chain-id", str(CHAIN_ID), "--slots-in-an-epoch", "16"]
        anvil = subprocess.Popen([*command, "--timestamp", str(int(time.time()) - BEFORE_S), "--quiet"])
        self._stack.callback(anvil.wait)
        self._stack.callback(anvil.kill)
        wait_for(lambda: published_peers.rpc(self.l1, "eth_chainId"), "the L1")
        given = {"slot": SLOT_S, "l1-slot": L1_SLOT_S, "epoch": EPOCH_SLOTS, "committee": MEMBERS}
        given |= {"validators": f"auto:{MEMBERS}", "proof-epochs": PROOF_EPOCHS, "warp": 1, "realtime": 1}
        deploy = [*shlex.split(os.environ["FASTNODE_TEST_DEPLOY"]), "--rpc", self.l1]
        deploy += [text for name, value in given.items() for text in (f"--{name}", str(value))]
        with (self._directory / "deploy.log").open("w") as errors:
            done = subprocess.run(deploy, stdout=subprocess.PIPE, stderr=errors, timeout=READY_S, check=True)
        deployed = json.loads(next(line for line in done.stdout.splitlines() if line.startswith(b"{")))
        self.registry: str = deployed["l1ContractAddresses"]["registryAddress"]
        self.say(f"L1 on {self.l1}, process {anvil.pid}")

    def node(self, name: str, port: int, **settings: str) -> str:
        """Its URL; peers find it on the port after that of its administration."""
        command = shlex.split(os.environ["FASTNODE_TEST_REFERENCE"])
        given = SETTINGS | {"BLOB_FILE_STORE_URLS": self._blobs_there, "P2P_PORT": str(port + 2)} | settings
        with (self._directory / f"node-{name}.log").open("w") as log:
            start = [*command, "start", str(self._l1_port), str(port), str(port + 1), "0"]
            stop = [*command, "stop", str(port)]
            self._stack.callback(subprocess.run, stop, stdout=subprocess.DEVNULL, check=False)
            for _ in range(STARTS):
                if subprocess.run(start, env=os.environ | given, stdout=log, stderr=log, check=False).returncode == 0:
                    break
                subprocess.run(stop, stdout=log, check=False)
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: published_peers.rpc(url, "node_getL2Tips"), f"the published node {name}")
        self.say(f"the published node {name} on {url}")
        return url

    def proposer(self, port: int) -> str:
        keys = ",".join("0x" + test_key(index).reveal().hex() for index in range(MEMBERS))
        settings = {"ROLE": "sequencer", "KEYS": keys, "BLOB_FILE_STORE_UPLOAD_URL": self._blobs_there}
        return self.node("proposer", port, **settings)


def wait_for(is_so: Any, what: str) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        try:
            if is_so():
                return
        except (HTTPException, OSError, RuntimeError):
            pass
        time.sleep(0.5)
    raise SystemExit(f"{what} does not answer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="for logs, data and figures")
    parser.add_argument("--port", type=int, default=21600, help="the first of 18")
    parser.add_argument("--boot-only", action="store_true", help="say how to measure, and wait for SIGINT")
    arguments, others = parser.parse_known_args()
    if missing := [name for name in NEEDED if not os.environ.get(name)]:
        parser.error(f"the environment does not name {', '.join(missing)}")
    # The end of the stack is the end of what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments.directory.mkdir(parents=True, exist_ok=True)
    directory, base = arguments.directory.resolve(), arguments.port
    with ExitStack() as stack:
        network = PublishedNetwork(directory, base, stack)
        proposer = network.proposer(base + 1)
        alone = network.node("alone", base + 4, P2P_DISCOVERY_DISABLED="true")
        record = published_peers.rpc(proposer, "node_getNodeInfo")["enr"]
        found = {"BOOTSTRAP_NODES": record, "P2P_BOOTSTRAP_NODES_AS_FULL_PEERS": "true"}
        beside = network.node("beside", base + 7, **found)
        flags = [f"--ethereum-slot-duration={L1_SLOT_S}", "--debug-p2p-disable-colocation-penalty"]
        flags += ["--p2p-discovery-disabled", f"--blob-file-store-urls={network.blobs}", "--blob-allow-empty-sources"]
        given = [
            f"--node={proposer}=127.0.0.1:{base + 3}",
            f"--node={alone}=127.0.0.1:{base + 6}",
            f"--beside={beside}",
        ]
        given += [f"--l1={network.l1}", f"--registry={network.registry}", f"--port={base + 10}"]
        before, _, after = " ".join(map(shlex.quote, others)).partition("-- ")
        given += [f"--directory={directory}", *shlex.split(before), "--", *flags, *shlex.split(after)]
        if arguments.boot_only:
            network.say("published_peers.py " + shlex.join(given))
            signal.pause()
        return published_peers.main(given)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
