"""A node between published ones on the peer-to-peer network, for as long as one likes: what is measured, and a verdict.

    published_peers.py --node URL=P2P_HOST:PORT --node URL=P2P_HOST:PORT --l1 URL --registry ADDRESS
                       [--beside URL] [--minutes 30] [--txs 200] [--directory D] [-- flags of fastnode ...]

It starts fastnode itself, with what follows ``--``, lets it dial the nodes, and sends made-up transactions to all in
turn, half of them to fastnode.  The network must ask for no real proofs and have the fee juice of the development
accounts at its genesis.  When the published nodes do not know one another (P2P_DISCOVERY_DISABLED=true), everything
that passes between them has gone through fastnode.  ``--beside``: a published node that is not dialled, and knows one
of the others: what passes between these two is what published nodes do without this one, in the same minutes.

    spread           from the answer to node_sendTx until the pools of all nodes have it, and of each pair of nodes
    mined            in a block that all nodes have
    before L1        from when a proposed block is served here until the timestamp of the L1 block that has it
    restart          at the end, some times: the same identity, and how long until it is in the meshes again

Where blobs are is said by flags of fastnode.  published_network.py starts such a network and this.

Exit status 0 if no peer was lost, no goodbye was said or heard, all transactions spread within a second and were mined,
and every proposed block was served before it was on L1.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from tests.mempool.made import hash_of, made_txs
from tests.mempool.recorded import recordings

from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tx_layout import USUAL

SPREAD_MAX_S = 1.0
POLL_S = 0.02


def rpc(url: str, method: str, *params: Any, timeout_s: float = 60) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            reply = json.load(answer)
    except urllib.error.HTTPError as error:  # a published node refuses so
        raise RuntimeError(f"{method}: {error.code} {error.read()[:500]!r}") from None
    if "error" in reply:
        raise RuntimeError(f"{method}: {reply['error']}")
    return reply.get("result")


def metrics(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("fastnode_p2p")}


class Fastnode:
    """The node under test; its flags are kept for a restart."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        base = arguments.port
        self.url = f"http://127.0.0.1:{base}"
        self.metrics_url = f"http://127.0.0.1:{base + 2}"
        self._log = arguments.directory / "fastnode.log"
        self._command = [sys.executable, "-m", "fastnode", "start", "--node", "--log-json"]
        self._command += ["--data-directory", str(arguments.directory / "data")]
        ports = (("port", base), ("admin-port", base + 1), ("metrics-port", base + 2), ("p2p-port", base + 3))
        self._command += [f"--{name}={port}" for name, port in ports]
        self._command += [
            "--disable-admin-api-key",
            "--p2p-enabled",
            "--p2p-ip=127.0.0.1",
            "--p2p-listen-addr=127.0.0.1",
        ]
        self._command += [f"--p2p-peer={node.partition('=')[2]}" for node in arguments.node]
        self._command += [f"--l1-rpc-urls={arguments.l1}", f"--registry-address={arguments.registry}"]
        self._command += ["--no-prover-real-proofs"]
        self._command += ["--ethereum-allow-no-debug-hosts", *arguments.flags]
        self.peers = len(arguments.node)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stderr=log, stdout=log)

    def wait(self) -> float:
        """Until it is in all meshes; how long that took."""
        begun, found = time.monotonic(), dict[str, float]()
        while time.monotonic() < begun + 120:
            assert self.process.poll() is None, "fastnode has ended"
            try:
                found = metrics(self.metrics_url)
                sizes = [value for key, value in found.items() if key.startswith("fastnode_p2p_mesh_peers")]
                if sizes and min(sizes) >= self.peers and rpc(self.url, "node_isReady"):
                    return time.monotonic() - begun
            except (OSError, RuntimeError):
                pass
            time.sleep(0.1)
        shown = {key: value for key, value in found.items() if "mesh" in key or "events" in key}
        raise AssertionError(f"it is not in the meshes after two minutes, or not ready: {shown}")

    def restart(self) -> float:
        self.stop()
        self.process = self._start()
        return self.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Proposals(threading.Thread):
    """When each block is served first, and whether as a proposed one."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self.served: dict[int, float] = {}
        self.stopping = threading.Event()
        self.late: list[int] = []

    def run(self) -> None:
        begun = time.time()
        newest = rpc(self._url, "node_getL2Tips")["proposed"]["number"]
        while not self.stopping.wait(POLL_S):
            try:
                tips = rpc(self._url, "node_getL2Tips", timeout_s=10)
            except OSError:
                continue
            now = time.time()
            proposed, checkpointed = tips["proposed"]["number"], tips["checkpointed"]["block"]["number"]
            for number in range(newest + 1, proposed + 1):
                if number > checkpointed:
                    self.served[number] = now
                elif self._slot_began(number) > begun:  # else it was gossiped before this node was there
                    self.late.append(number)
            newest = max(newest, proposed)

    def _slot_began(self, number: int) -> int:
        return int(rpc(self._url, "node_getBlockHeader", number)["globalVariables"]["timestamp"])


class Watch(threading.Thread):
    """The fewest peers, and what happened to connections."""

    def __init__(self, node: Fastnode) -> None:
        super().__init__(daemon=True)
        self._node = node
        self.fewest = node.peers
        self.before = metrics(node.metrics_url)
        self.newest = dict(self.before)
        self.lowest_score = 0.0
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(0.5):
            try:
                self.newest = metrics(self._node.metrics_url)
            except OSError:
                continue
            peers = sum(value for key, value in self.newest.items() if key.startswith("fastnode_p2p_peers"))
            self.fewest = min(self.fewest, int(peers))
            self.lowest_score = min(self.lowest_score, self.newest.get("fastnode_p2p_lowest_score", 0.0))

    def changes(self, *parts: str) -> dict[str, float]:
        """Counters whose names have all of these parts, as far as they have grown."""
        grown = {key: value - self.before.get(key, 0) for key, value in self.newest.items()}
        return {key: value for key, value in grown.items() if value and all(part in key for part in parts)}


def transactions(urls: list[str], count: int) -> list[dict[str, Any]]:
    """Of this network: anchored at its newest published block, with nullifiers that no other run had.

    All nodes must have that block: a published node does nothing else for some seconds, with its first checkpoint.
    """
    url = urls[0]
    info = rpc(url, "node_getNodeInfo")
    while not (anchor_number := min(rpc(each, "node_getL2Tips")["checkpointed"]["block"]["number"] for each in urls)):
        time.sleep(1)  # what is anchored at genesis expires with the first block
    header = rpc(url, "node_getBlockHeader", anchor_number)
    anchor = BlockHeader.from_json(header, "").to_buffer()
    price = 10 * int(rpc(url, "node_getCurrentMinFees")["feePerL2Gas"])
    found = []
    for tx in made_txs(count):
        data = bytearray(base64.b64decode(tx["data"]))
        data[USUAL.anchor_header : USUAL.anchor_header + len(anchor)] = anchor
        for offset, value in ((USUAL.chain_id, info["l1ChainId"]), (USUAL.version, info["rollupVersion"])):
            data[offset : offset + 32] = int(value).to_bytes(32, "big")
        expiration = int(header["globalVariables"]["timestamp"]) + 80_000
        data[USUAL.expiration : USUAL.expiration + 8] = expiration.to_bytes(8, "big")
        data[USUAL.max_fees + 16 : USUAL.max_fees + 32] = price.to_bytes(16, "big")
        at = USUAL.head_bytes + USUAL.nullifiers
        while any(data[at : at + 32]):
            # Of consecutive ones the builder of release 4.1.2 takes only the first to a block, from the 128th on.
            data[at + 8 : at + 32] = os.urandom(24)
            at += 32
        found.append(tx | {"data": base64.b64encode(data).decode()})
    return found


def spread(urls: list[str], sender: str, tx: dict[str, Any]) -> dict[str, float]:
    """Seconds from the answer to the sender until each of the others has it; a busy node answers late, too."""
    tx_hash = hash_of(tx)
    rpc(sender, "node_sendTx", tx)
    begun = time.monotonic()

    def until_there(url: str) -> float:
        while time.monotonic() < begun + 30:
            if rpc(url, "node_getTxReceipt", tx_hash)["status"] != "dropped":
                return time.monotonic() - begun
            time.sleep(POLL_S)
        return float("inf")

    others = [url for url in urls if url != sender]
    with ThreadPoolExecutor(len(others)) as pool:
        return dict(zip(others, pool.map(until_there, others), strict=True))


def is_mined(url: str, tx_hash: str) -> bool:
    return rpc(url, "node_getTxReceipt", tx_hash)["status"] not in ("pending", "dropped")


def line(text: str, *values: Any) -> None:
    print(f"{text:34}", *values, flush=True)


def quantiles(values: list[float]) -> str:
    ordered = sorted(values)
    at = lambda part: ordered[min(len(ordered) - 1, int(part * len(ordered)))]  # noqa: E731
    return f"least {ordered[0]:.3f}  median {median(ordered):.3f}  p99 {at(0.99):.3f}  most {ordered[-1]:.3f}"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--node", action="append", required=True, help="URL=HOST:PORT of a published node")
    for name in ("l1", "registry"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--beside", action="append", default=[], help="URL of a published node that is not dialled")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--txs", type=int, default=200)
    parser.add_argument("--restarts", type=int, default=1)
    parser.add_argument("--port", type=int, default=33090, help="of fastnode; the three after it are used too")
    parser.add_argument("--directory", type=Path, required=True, help="data and log of fastnode")
    parser.add_argument("flags", nargs="*")
    arguments = parser.parse_args(given)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    recordings()  # before anything is measured
    node = Fastnode(arguments)
    try:
        return measure(node, [item.partition("=")[0] for item in arguments.node], arguments)
    finally:
        if node.process.poll() is None:
            node.stop()


def measure(node: Fastnode, others: list[str], arguments: argparse.Namespace) -> int:
    line("in all meshes after", f"{node.wait():.1f} s")
    identity = rpc(node.url, "node_getEncodedEnr")
    begun = time.monotonic()
    watch, proposals = Watch(node), Proposals(node.url)
    watch.start()
    proposals.start()
    others = [*others, *arguments.beside]
    urls = [node.url, *others]
    txs = transactions(urls, arguments.txs)
    seconds: dict[str, list[float]] = {url: [] for url in urls}
    of_pair: dict[tuple[str, str], list[float]] = {}
    refused: list[str] = []
    pause = min(2.0, 0.5 * 60 * arguments.minutes / max(1, arguments.txs))
    for number, tx in enumerate(txs):
        sender = node.url if number % 2 == 0 else others[number // 2 % len(others)]
        try:
            found = spread(urls, sender, tx)
        except RuntimeError as error:
            refused.append(hash_of(tx))
            line("  refused", f"by {sender[-5:]}: {error}")
            continue
        seconds[sender].append(max(found.values()))
        for url, took in found.items():
            of_pair.setdefault((sender, url), []).append(took)
        if max(found.values()) > SPREAD_MAX_S:
            shown = {url[-5:]: round(took, 2) for url, took in found.items()}
            line(f"  late, {time.strftime('%H:%M:%S')}", shown, f"from {sender[-5:]}")
        time.sleep(pause)
    for url in urls:
        if seconds[url]:
            line(
                f"spread of {len(seconds[url])} from {'fastnode' if url == node.url else url}", quantiles(seconds[url])
            )
    for (sender, url), values in sorted(of_pair.items()):
        line(f"  {sender[-5:]} to {url[-5:]}", quantiles(values), f"over a second: {sum(v > 1 for v in values)}")
    hashes = [tx_hash for tx_hash in map(hash_of, txs) if tx_hash not in refused]
    deadline = time.monotonic() + 600
    missing = {url: list(hashes) for url in urls}
    while any(missing.values()) and time.monotonic() < deadline:
        missing = {url: [item for item in rest if not is_mined(url, item)] for url, rest in missing.items()}
        time.sleep(1)
    line("mined at all nodes", f"{len(hashes) - max(map(len, missing.values()))} of {len(hashes)}")
    while time.monotonic() < begun + 60 * arguments.minutes:
        time.sleep(1)
    proposals.stopping.set()
    watch.stopping.set()
    proposals.join()
    watch.join()
    line("watched for", f"{(time.monotonic() - begun) / 60:.1f} minutes")
    line("fewest peers, lowest score", watch.fewest, watch.lowest_score)
    left = watch.changes("fastnode_p2p_events", "left") | watch.changes("fastnode_p2p_events", '"lost"')
    goodbyes = watch.changes("fastnode_p2p_requests", "goodbye")
    line("lost, left, goodbyes", left | goodbyes or "none")
    line("penalties", watch.changes("fastnode_p2p_events", "penalty") or "none")
    for key, value in sorted(watch.changes("fastnode_p2p_messages").items()):
        line("  " + key.partition("{")[2].rstrip("}"), int(value))
    for key, value in sorted(watch.changes("fastnode_p2p_proposed").items()):
        line("  proposed blocks " + key.partition("{")[2].rstrip("}"), int(value))
    ahead = before_l1(node.url, proposals)
    if ahead:
        line(f"{len(ahead)} blocks before L1, seconds", quantiles(ahead))
    line("blocks that were on L1 first", proposals.late or "none")
    same = True
    for _ in range(arguments.restarts):
        try:
            took = node.restart()
        except AssertionError as error:
            same = False
            line("restart", error)
            continue
        is_same = peer_of(identity) == peer_of(rpc(node.url, "node_getEncodedEnr"))
        line(
            "restart", "the same identity" if is_same else "ANOTHER IDENTITY", f"in all meshes again after {took:.1f} s"
        )
        same &= is_same
        time.sleep(10)
    worst = max(max(values, default=0.0) for values in seconds.values())
    holds = (
        not (refused or left or goodbyes or proposals.late or any(missing.values())) and same and worst <= SPREAD_MAX_S
    )
    line("verdict", "holds" if holds and min(ahead, default=1) > 0 else "DOES NOT HOLD")
    return 0 if holds else 1


def peer_of(record: str) -> bytes:
    return NodeRecord.from_text(record).peer_id.encode()


def before_l1(url: str, proposals: Proposals) -> list[float]:
    """For each block that was served as a proposed one: until the timestamp of the L1 block with its checkpoint."""
    ahead, number = [], 1
    published = rpc(url, "node_getL2Tips")["checkpointed"]["checkpoint"]["number"]
    while number <= published:
        for item in rpc(url, "node_getCheckpoints", number, 50):
            at = int(item["l1"]["timestamp"])
            blocks = [block["header"]["globalVariables"]["blockNumber"] for block in item["checkpoint"]["blocks"]]
            ahead += [at - proposals.served[int(block)] for block in blocks if int(block) in proposals.served]
            number += 1
    return ahead


if __name__ == "__main__":
    sys.exit(main())
