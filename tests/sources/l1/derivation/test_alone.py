"""A node with L1 as its only source, as a process: what it says, and what kill -9 leaves."""

from __future__ import annotations

import os
import random
import subprocess
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.killed import killed, script_command
from tests.mempool.sample_tx import sample_tx
from tests.metrics.test_collector import Samples
from tests.ports import free_port
from tests.sources.l1.publishing import RecordedL1

from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.sentinel.sentinel import LAG_SLOTS
from fastnode.sentinel.statistics import SlotTime

TIP = 106
#: The checkpoint whose blob comes late.
LAST_MISSING = 40
KILLS = 30 if os.environ.get("FASTNODE_LONG") == "1" else 3
#: About the time of one checkpoint: a kill comes so much after a random commit, at most.
CHECKPOINT_S = 0.05

#: Says a dot when it begins and at each commit, so that a kill hits work; ends at the tip.
DERIVE = textwrap.dedent(
    """
    import sys, threading
    from pathlib import Path
    from fastnode.app.stages.origins import Origins
    from fastnode.chain_data import ChainData
    from fastnode.config.settings import Settings
    from fastnode.sources.publication import Publication
    from fastnode.sources.sync_control import SyncControl, StopRequested

    directory, l1, beacon, registry, tip = Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
    arrived = threading.Event()

    def say(commit=None):
        sys.stdout.write(".")
        sys.stdout.flush()
        sys.stdin.buffer.read(1)
        if commit is not None and commit.view.tip_number == tip:
            arrived.set()

    settings = Settings(
        l1_rpc_urls=(l1,), l1_consensus_host_urls=(beacon,), registry_address=registry,
        max_allowed_eth_client_drift_seconds=0,
    )
    with ChainData.open(directory) as data:
        store = data.store
        following = Origins(settings, lambda: store.chain if store.has_chain else None)
        if not store.has_chain:
            store.adopt_chain(*following.learn_chain())
        say()
        publication, control = Publication(say), SyncControl()
        ingestor = data.open_ingestor(verify=True, on_commit=publication)
        ingestor.catch_up()
        if ingestor.view.tip_number == tip:
            arrived.set()
        follower = following.follow(ingestor, control, publication)

        def run():
            try:
                follower.run()
            except StopRequested:
                pass

        thread = threading.Thread(target=run)
        thread.start()
        arrived.wait()
        control.stop()
        following.interrupt()
        thread.join()
        following.close()
    """
)


@pytest.fixture
def l1(recorded: RecordedL1) -> RecordedL1:
    return recorded


def reached(directory: Path) -> int:
    """The newest block, after everything that is stored was checked as `fastnode db check` does it."""
    with ChainData.open(directory, create=False) as data:
        if data.state.block_number < data.store.open_view().tip_number:
            data.open_ingestor(verify=True).catch_up()
        report = check_data(data)
        assert report.problems == []
        with data.store.open_view() as view:
            return view.tip_number


def test_catching_up_may_be_killed_at_any_moment(tmp_path: Path, sample: list[dict[str, Any]], l1: RecordedL1) -> None:
    moments = random.Random(7)
    directory, command = tmp_path / "node-0", []
    at_work = block = 0
    for number in range(KILLS):
        if block > TIP * 2 // 3:
            directory, block = tmp_path / f"node-{number}", 0
        command = script_command(DERIVE, directory, l1.url, l1.beacon.url, l1.addresses.registry, TIP)
        delay = moments.random() * CHECKPOINT_S
        at_work += killed(command, after=moments.randint(0, 12), delay_s=delay)
        now_at = reached(directory)
        assert now_at >= block
        block = now_at
    assert at_work >= KILLS - 1
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
    assert reached(directory) == TIP
    with ChainData.open(directory, create=False) as data, data.store.open_view() as view:
        assert view.tips.checkpointed.to_json() == sample[-1]["tips"]["checkpointed"]


def follow_l1(start_node: Callable[..., Any], directory: Path, l1: RecordedL1, *flags: str) -> Any:
    node = start_node(
        *("--data-directory", directory, "--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url),
        *("--registry-address", l1.addresses.registry, "--max-allowed-eth-client-drift-seconds=0", *flags),
    )
    node.wait_until_serving()
    return node


@pytest.fixture
def node(tmp_path: Path, start_node: Callable[..., Any], l1: RecordedL1) -> Any:
    port = free_port()
    node = follow_l1(start_node, tmp_path / "data", l1, f"--metrics-port={port}")
    node.metrics_port = port
    node.wait_for_line("caught up")
    return node


def test_a_node_without_an_upstream_says_that_it_cannot_forward_transactions(node: Any) -> None:
    error = node.call("node_sendTx", sample_tx())["error"]
    assert error["data"]["code"] == "NO_TRANSACTIONS"
    assert "no node to forward a transaction to: give --upstream-url URL" in error["message"]
    assert node.call("node_isReady")["result"] is False
    node.wait_for_line("transactions that are sent here are refused")
    assert node.call("node_getBlockNumber")["result"] == TIP


@pytest.mark.parametrize("processes", ["--workers=0", "--workers=1"])
def test_a_node_on_l1_alone_without_a_sentinel_has_empty_statistics(
    tmp_path: Path, start_node: Callable[..., Any], l1: RecordedL1, processes: str
) -> None:
    node = follow_l1(start_node, tmp_path / "data", l1, processes)
    deadline = time.monotonic() + PATIENCE_S
    while not node.readiness().startswith("OK"):
        assert time.monotonic() < deadline, node.readiness()
        time.sleep(0.05)
    assert node.call("node_getValidatorsStats")["result"] == {"stats": {}, "slotWindow": 0}
    answer = node.call("node_getValidatorStats", "0x" + "12" * 20)
    assert "error" not in answer
    assert answer.get("result") is None


def test_statistics_go_by_the_slots_of_l1_and_not_by_the_wall_clock(
    tmp_path: Path, start_node: Callable[..., Any], sample: list[dict[str, Any]], l1: RecordedL1
) -> None:
    node = follow_l1(start_node, tmp_path / "data", l1, "--sentinel-enabled")
    node.wait_for_line("caught up")
    constants = sample[0]["l1Constants"]
    newest = SlotTime(int(constants["l1GenesisTime"]), constants["slotDuration"]).slot_at(l1.blocks[-1].timestamp)
    assert node.call("node_getValidatorsStats")["result"]["lastProcessedSlot"] == newest - LAG_SLOTS


@pytest.mark.parametrize("flag", ["--no-require-canonical-rollup", "--require-canonical-rollup"])
def test_a_rollup_that_is_not_the_canonical_one_is_named_and_unready_where_that_is_wanted(
    tmp_path: Path, start_node: Callable[..., Any], l1: RecordedL1, flag: str
) -> None:
    other, port = "0x" + "77" * 20, free_port()
    l1.canonical = bytes.fromhex(other[2:])
    node = follow_l1(
        start_node, tmp_path / "data", l1, flag, f"--rollup-version={l1.version}", f"--metrics-port={port}"
    )
    node.wait_for_line("caught up")
    warning = node.wait_for_line("rollup: not canonical any more")
    sync = node.call("fastnode_getSyncStatus")["result"]
    assert (sync["isCanonical"], sync["canonicalRollup"]) == (False, other)
    assert node.components()["rollup"] == {"ok": False, "reason": warning["reason"]}
    assert other in warning["reason"]
    is_ready = node.readiness().startswith("OK")
    assert is_ready is (flag == "--no-require-canonical-rollup")
    assert is_ready or node.readiness().startswith("the rollup that is served")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        assert Samples(response.read().decode()).get("fastnode_l1_rollup_canonical") == 0
    [line] = [entry for entry in node.entries() if entry["message"] == "rollup: not canonical any more"]
    assert line["level"] == "warning"


def test_what_l1_and_the_places_of_blobs_were_asked_is_in_the_metrics(node: Any) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=60) as response:
        samples = Samples(response.read().decode())
    of_node = {"node": "L1 node 1"}
    calls = samples.get("fastnode_l1_calls_total", **of_node)
    assert calls >= samples.get("fastnode_l1_requests_total", **of_node) > 5
    assert samples.get("fastnode_l1_answer_bytes_total", **of_node) > 50_000
    assert samples.get("fastnode_l1_waits_total", **of_node) == 0
    assert samples.get("fastnode_l1_wait_seconds_total", **of_node) == 0
    assert samples.get("fastnode_derivation_newest_checkpoint") == 41
    assert samples.get("fastnode_derivation_checkpoints_total") == 41
    assert samples.get("fastnode_derivation_waiting_for_blobs") == 0
    assert samples.get("fastnode_blob_source_blobs_total", source="consensus client 1") == 41


def test_catching_up_says_how_far_it_is_and_what_it_waits_for(
    tmp_path: Path, start_node: Callable[..., Any], l1: RecordedL1
) -> None:
    """In the log, in the status, under /status and in the metrics."""
    l1.beacon.delay_s = 1.0
    slots = sorted(l1.beacon.blobs)
    l1.beacon.hidden = {item for item, _ in l1.beacon.blobs[slots[LAST_MISSING - 1]]}
    port = free_port()
    node = start_node(
        *("--data-directory", tmp_path / "data", f"--metrics-port={port}", "--l1-rpc-urls", l1.url),
        *("--l1-consensus-host-urls", l1.beacon.url, "--registry-address", l1.addresses.registry),
        "--max-allowed-eth-client-drift-seconds=0",
    )
    node.wait_until_serving()

    def look() -> tuple[dict[str, Any], str, Samples]:
        """Status, what /status says, metrics."""
        status = node.call("fastnode_getSyncStatus")["result"]
        return status, read(f"{node.url}/status"), Samples(read(f"http://127.0.0.1:{port}/metrics"))

    def wait_for(condition: Callable[[dict[str, Any]], object]) -> tuple[dict[str, Any], str, Samples]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = look()
            if condition(found[0]):
                return found
            assert time.monotonic() < deadline, found[0]
            time.sleep(0.05)

    status, health, samples = wait_for(
        lambda status: ((status["derivation"] or {}).get("progress") or {}).get("etaSeconds")
    )
    progress = status["derivation"]["progress"]
    assert (status["state"], status["reason"]) == ("catching up", None)
    assert 0 < progress["checkpoint"] < progress["ofCheckpoint"] == 41
    assert 0 < progress["l1Block"] < progress["ofL1Block"] == l1.head.number
    assert 1 <= progress["etaSeconds"] < 600
    assert "no source" not in health
    assert samples.get("fastnode_sync_degraded") == 0
    assert 1 <= samples.get("fastnode_derivation_eta_seconds") < 600
    line = node.wait_for_line("catching up")
    assert 0 < line["tip"] < line["of"] == 41
    assert line["lag"] == 41 - line["tip"]
    assert line["l1_block"] < line["of_l1_block"] == l1.head.number
    assert line["blobs"] >= line["tip"]
    assert line["eta_s"] >= 1

    l1.beacon.delay_s = 0.0
    waits = (
        f"waiting for 1 blobs of checkpoint {LAST_MISSING} (sources tried: consensus client 1: it does not have them)"
    )
    status, health, samples = wait_for(lambda status: status["reason"] == waits)
    assert status["state"] == "degraded"
    assert status["derivation"]["waitingForBlobs"]["checkpoint"] == LAST_MISSING
    assert waits in health
    assert samples.get("fastnode_derivation_waiting_for_blobs") == LAST_MISSING
    assert samples.get("fastnode_sync_degraded") == 1
    assert node.wait_for_line("the chain does not advance")["reason"] == waits

    l1.beacon.hidden = set()
    node.wait_for_line("caught up")
    status, health, samples = wait_for(lambda status: status["reason"] is None)
    assert waits not in health
    assert samples.get("fastnode_derivation_waiting_for_blobs") == 0


def read(url: str) -> str:
    """What is there, whatever its status."""
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return str(response.read().decode())
    except urllib.error.HTTPError as answer:
        return answer.read().decode()
    except urllib.error.URLError:  # the metrics come a moment after everything else
        return ""
