"""The published node and fastnode behind the same L1, and what must be the same on both."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import NodeProcess
from tests.derivation.l1 import L1_SLOT_S, ScenarioL1
from tests.derivation.proposer import Built, Proposer
from tests.sequencing.published_node import COMMAND, ask, wait_for

from fastnode.development.accepted_differences import documented_row
from fastnode.development.compare_nodes import IGNORED_KEYS, Question, asking, compare

#: Until both have seen the same of an L1 that goes on slowly, on a machine that has time for them.
PATIENCE_S = 30.0
#: After so long without a change L1 has another block: much is looked at once a block.
STILL_S = 1.5
BLOCKS_MAX = 6
#: After so long with a new L1 block it is decided what becomes of a checkpoint of which nobody says what is right.
UNSURE_S = 2.5
NEWEST_ASKED = 8
#: So often the published node is started until it runs.
STARTS = 5


#: What the published node logs when it cannot go on for a reason of its own, and the row of docs/compatibility.md.
EXPLAINED = (
    ("InitialCheckpointNumberNotSequentialError", "Checkpoints that a reorg of L1 moves to another block"),
    ("BlobDeserializationError", "Checkpoints before one that nobody can read"),
)
#: The same, as long as there are blobs that nobody has.
EXPLAINED_WHILE_WAITING = (("Failed to fetch all blobs", "Checkpoints before one whose blobs are missing"),)
LOGS = os.environ.get("FASTNODE_TEST_REFERENCE_LOGS")


class DerivationError(AssertionError):
    """What the two nodes say, or what fastnode says of itself."""


class PublishedNodeLost(Exception):  # noqa: N818 - nothing is wrong with this project
    """The published node stands still where fastnode is where it belongs: a row of docs/compatibility.md says why."""


def reason_of_standing_still(port: int, *, is_waiting: bool) -> str | None:
    """The row that explains what the published node has logged; its logs have its port at their name's end.

    ``is_waiting``: for blobs that nobody has.
    """
    signs = (*EXPLAINED, *EXPLAINED_WHILE_WAITING) if is_waiting else EXPLAINED
    texts = [log.read_text(errors="replace") for log in Path(LOGS).glob(f"*{port}.log")] if LOGS else []
    return next((row for sign, row in signs if any(sign in text for text in texts)), None)


@contextmanager
def published(l1_port: int, ports: tuple[int, int], blobs: str) -> Iterator[int]:
    """The published node; ``blobs``: the folder as it sees it."""
    port, admin = ports
    settings = {
        "L1_SLOT": str(L1_SLOT_S),
        "BLOB_ALLOW_EMPTY_SOURCES": "true",
        "BLOB_FILE_STORE_URLS": f"file://{blobs}",
        "ARCHIVER_POLLING_INTERVAL_MS": "100",
        "WS_BLOCK_CHECK_INTERVAL_MS": "50",
        "LOG_LEVEL": os.environ.get("LOG_LEVEL", "warn"),
    }
    start = [*COMMAND, "start", str(l1_port), str(port), str(admin), "0"]
    try:
        for _ in range(STARTS):  # its parts have seconds to find one another, which a busy machine may not give them
            if not subprocess.run(start, env=os.environ | settings, check=False, stdout=subprocess.DEVNULL).returncode:
                break
            subprocess.run([*COMMAND, "stop", str(port)], check=True, stdout=subprocess.DEVNULL)
        wait_for(lambda: ask(port, "node_getL2Tips"))
        yield port
    finally:
        subprocess.run([*COMMAND, "stop", str(port)], check=True, stdout=subprocess.DEVNULL)


def fastnode(directory: Path, name: str, l1: ScenarioL1, blobs: Path, ports: Sequence[int]) -> NodeProcess:
    flags: list[object] = [
        *("--data-directory", directory / f"data-{name}", "--port", ports[0], "--admin-port", ports[1]),
        *("--l1-rpc-urls", l1.url, "--blob-file-store-urls", f"file://{blobs}", "--registry-address", l1.registry),
        *("--method-set", "both"),
        *("--ethereum-slot-duration", L1_SLOT_S, "--max-allowed-eth-client-drift-seconds", 0),
        *("--ethereum-allow-no-debug-hosts", "--l1-polling-interval-ms", 50, "--archiver-polling-interval-ms", 50),
    ]
    count = len(list(directory.glob(f"{name}-*.log")))
    log = directory / f"{name}-{count}.log"
    return NodeProcess([str(flag) for flag in flags], log, {"PROVER_REAL_PROOFS": "false"})


def tips_of(port: int) -> dict[str, Any]:
    return ask(port, "node_getL2Tips")  # type: ignore[no-any-return]


def _place(tips: dict[str, Any], name: str = "checkpointed") -> tuple[int, int, str]:
    tip = tips[name]
    return tip["checkpoint"]["number"], tip["block"]["number"], tip["block"]["hash"]


def is_at(tips: dict[str, Any], expected: Sequence[Built]) -> bool:
    number, block, block_hash = _place(tips)
    for built in expected:
        if built.number == number == 0:
            return True
        if built.number == number and built.blocks and block == built.blocks[-1].number:
            return built.content != "good" or block_hash == "0x" + built.blocks[-1].hash().hex()
    return False


def is_same(ours: dict[str, Any], theirs: dict[str, Any], *, is_waiting: bool = False) -> bool:
    """``is_waiting``: for blobs; the published node's finalized tip may stand meanwhile (docs/compatibility.md)."""
    if is_waiting and _place(theirs, "finalized")[0] < _place(ours, "finalized")[0]:
        theirs = theirs | {"finalized": ours["finalized"]}
    return ours == theirs or bool(documented_row(("node_getL2Tips", []), ours, theirs))


def settle(
    proposer: Proposer, ports: Sequence[int], reference: int | None, patience_s: float = PATIENCE_S
) -> Counter[str]:
    """Wait until all have seen the same; L1 goes on while they have not.  DerivationError.

    While L1 has a checkpoint whose content its committee should not have attested to, only fastnode must be where it
    belongs: what becomes of that checkpoint on both is what this returns.
    """
    deadline, mined, still = time.monotonic() + patience_s, 0, time.monotonic()
    if reference is not None:  # it looks for nothing in an L1 that is not longer than it was
        proposer.l1.skip(proposer.l1.highest + 1 - proposer.l1.number)
    while True:
        expected, false = proposer.expected(), proposer.falsely_attested()
        is_waiting = proposer.has_hidden_blobs()
        tips = [tips_of(port) for port in ports]
        theirs = [] if reference is None else [tips_of(reference)]
        is_quiet = all(is_at(item, expected) for item in tips)
        if false is None:
            is_quiet = is_quiet and all(is_at(item, expected) and is_same(tips[0], item) for item in tips)
            there = (is_at(item, expected) and is_same(tips[0], item, is_waiting=is_waiting) for item in theirs)
            is_quiet = is_quiet and all(there)
            if is_quiet:
                return Counter()
        elif is_quiet and mined and time.monotonic() > still + UNSURE_S:
            return Counter([_verdict(false, tips[0], theirs)])
        if time.monotonic() > deadline:
            row = None if reference is None else reason_of_standing_still(reference, is_waiting=is_waiting)
            if row and all(is_at(item, expected) for item in tips):
                raise PublishedNodeLost(row)
            names = ("checkpointed", "proven", "finalized")
            shown = [{name: _place(item, name) for name in names} for item in [*tips, *theirs]]
            wanted = [(item.number, item.verdict, item.blocks[-1].number if item.blocks else 0) for item in expected]
            raise DerivationError(f"tips {shown}, expected {wanted}")
        if time.monotonic() > still + STILL_S and mined < (BLOCKS_MAX if false is None else 1):
            proposer.l1.skip(max(1, proposer.l1.highest + 1 - proposer.l1.number))
            mined, still = mined + 1, time.monotonic()
        time.sleep(0.05)


def _verdict(false: Built, ours: dict[str, Any], theirs: Sequence[dict[str, Any]]) -> str:
    taken = ["takes" if _place(item)[0] >= false.number else "refuses" for item in (ours, *theirs)]
    return f"{false.hostile}: fastnode {taken[0]}" + (f", the published node {taken[1]}" if theirs else "")


def compare_content(proposer: Proposer, port: int, reference: int) -> int:
    """Everything of the newest checkpoints, transactions and messages; how many questions.  DerivationError."""
    tips = tips_of(port)
    checkpoint, block, _ = _place(tips)
    asked: list[Question] = [("node_getL2Tips", []), ("node_getBlockNumber", [])]
    for number in range(max(1, checkpoint - NEWEST_ASKED), checkpoint + 2):
        asked += [("node_getCheckpoints", [number, 1])]
    for number in range(max(1, block - 2 * NEWEST_ASKED), block + 2):
        asked += [("node_getBlockHeader", [number]), ("node_getBlock", [number])]
    for item in proposer.tx_hashes[-24:]:
        asked += [("node_getTxReceipt", ["0x" + item.hex()]), ("node_getTxEffect", ["0x" + item.hex()])]
    for item in proposer.message_hashes[-16:]:
        asked += [("node_getL1ToL2MessageCheckpoint", ["0x" + item.hex()])]
    for number in range(max(1, checkpoint - 4), checkpoint + 4):
        asked += [("node_getL1ToL2Messages", [number])]
    found = compare(asking(f"http://127.0.0.1:{port}"), asking(f"http://127.0.0.1:{reference}"), asked, pause_s=0.3)
    shown, is_waiting = [], proposer.has_hidden_blobs()
    for item in found.differences:
        where = list(where_they_differ(item.first, item.second))
        if is_waiting and where and all(place.startswith((".finalized", ".status")) for place in where):
            continue
        if not (where and all(".l1." in place for place in where) and _is_on_l1(proposer, item.first)):
            shown.append(f"{item.question}: {where[:6]}")
    if shown:
        raise DerivationError("\n".join(shown[:6]))
    return len(asked)


def _is_on_l1(proposer: Proposer, checkpoints: Any) -> bool:
    """Whether the L1 block that a checkpoint says it is in is one of L1 now."""
    l1 = checkpoints[0]["l1"]
    block = proposer.l1.call("eth_getBlockByNumber", hex(int(l1["blockNumber"])), False)
    return bool(block and block["hash"] == l1["blockHash"])


def where_they_differ(one: Any, other: Any, path: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(other.keys() - IGNORED_KEYS):
            yield from where_they_differ(one.get(key), other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from where_they_differ(left, right, f"{path}[{place}]")
    elif one != other:
        yield f"{path}: {str(one)[:140]} / {str(other)[:140]}"


def require_healthy(proposer: Proposer, node: NodeProcess, port: int, patience_s: float = PATIENCE_S) -> None:
    """Ready where everything on L1 is good; alive and without a fault of its own anywhere."""
    if node.process.poll() is not None:
        raise DerivationError(f"the node has ended: {node.log.read_text()[-2000:]}")
    faults = [
        line
        for line in node.log.read_text().splitlines()
        if '"traceback"' in line or "Traceback" in line or '"exception"' in line
    ]
    if faults:
        raise DerivationError(f"the node's log has {faults[0][:1500]}")
    chain = proposer.chain()
    if any(built.verdict != "good" for built in chain[1:]):
        return
    deadline = time.monotonic() + patience_s
    while True:
        status, text = _get(port, "/readyz")
        if status == 200:
            return
        if time.monotonic() > deadline:
            raise DerivationError(f"not ready with a good chain: {text} {_get(port, '/status')[1][:3000]}")
        time.sleep(0.2)


def _get(port: int, path: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
