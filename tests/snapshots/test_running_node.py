"""Snapshots of a node that runs: asked for on the admin port, and as the beginning of another node."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.conftest import ADMIN_KEY_HASH, PATIENCE_S, NodeProcess
from tests.http_stand_in import HttpStandIn, answer
from tests.snapshots.forged import forge_index

from fastnode.snapshots import startup
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.index import KEYS, Network
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, find_snapshots
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.snapshots.stored_chain import stored_chain

Start = Callable[..., NodeProcess]


def start_with_chain(start_node: Start, directory: Path, *arguments: object) -> NodeProcess:
    return start_node(
        "--data-directory",
        directory,
        "--snapshot-upload-locations=file:///",
        *arguments,
        SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
    ).wait_until_serving()


def upload(node: NodeProcess, folder: Path) -> None:
    assert node.call_admin("nodeAdmin_startSnapshotUpload", f"file://{folder}") == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": None,
    }
    node.wait_for_line("snapshot uploaded")


@contextmanager
def reading(node: NodeProcess) -> Iterator[list[int]]:
    """Reads the newest block again and again, in a thread of its own; the numbers that it found."""
    found: list[int] = []
    is_enough = threading.Event()

    def read() -> None:
        while not is_enough.is_set():
            block = node.call("node_getBlock", "latest")["result"]
            found.append(block["checkpointNumber"])

    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(read)
        try:
            yield found
        finally:
            is_enough.set()
            reader.result(PATIENCE_S)


# ---- what is made --------------------------------------------------------------------------------------


def test_a_snapshot_made_while_blocks_arrive_answers_like_its_source(
    start_node: Start, sample_chain: Path, tmp_path: Path
) -> None:
    """The source is loading its chain when it is asked; readers are answered meanwhile."""
    node = start_with_chain(start_node, tmp_path / "source", "--chain-file", sample_chain)
    node.wait_for_line("serving")
    with reading(node) as found:
        upload(node, tmp_path / "location")
    assert len(found) > 3
    assert found == sorted(found)
    location = Location.to_read(f"file://{tmp_path}/location")
    [made] = find_snapshots(location, choose_network(location))
    assert [entry.name for entry in (tmp_path / "source").iterdir() if entry.name.startswith("snapshot-")] == []

    other = start_with_chain(start_node, tmp_path / "copy", "--snapshots-urls", f"file://{tmp_path}/location")
    restored = other.wait_for_line("snapshot restored")
    assert restored["block"] == made.l2_block_number
    assert other.call("node_getBlockNumber")["result"] == made.l2_block_number
    for number in range(0, made.l2_block_number + 1, 7):
        for method, parameters in (
            ("node_getBlock", (number,)),
            ("node_getBlockHeader", (number,)),
            ("node_getPublicDataWitness", (number, "0x01")),
            ("node_getNullifierMembershipWitness", (number, "0x01")),
        ):
            assert other.call(method, *parameters) == node.call(method, *parameters), (method, number)
    assert node.stop() == 0
    assert other.stop() == 0


def test_a_node_begins_with_leaves_that_the_node_it_follows_confirms(
    start_node: Start, sample_chain: Path, tmp_path: Path
) -> None:
    """The trees are the same ones, as far back as they go; below that it says so."""
    node = start_with_chain(
        start_node, tmp_path / "source", "--chain-file", sample_chain, "--snapshot-upload-form", "leaves"
    )
    node.wait_for_line("chain file loaded")
    upload(node, tmp_path / "location")
    alone = start_node("--data-directory", tmp_path / "alone", "--snapshots-urls", f"file://{tmp_path}/location")
    alone.wait_for_line(
        "snapshots of leaves are left alone: neither L1 (--l1-rpc-urls) nor a followed node (--upstream-url) is there "
        "to confirm them"
    )
    other = start_with_chain(
        start_node,
        tmp_path / "copy",
        *("--snapshots-urls", f"file://{tmp_path}/location"),
        *("--upstream-url", f"http://127.0.0.1:{node.port}"),
    )
    confirmed = other.wait_for_line("the block of the snapshot is the one of a followed node")
    restored = other.wait_for_line("snapshot of leaves restored")
    oldest, newest = restored["oldest"], restored["block"]
    assert (oldest, newest) == (confirmed["block"], node.call("node_getBlockNumber")["result"])
    for number in range(oldest, newest + 1):
        for method in ("node_getPublicDataWitness", "node_getLowNullifierMembershipWitness"):
            assert other.call(method, number, "0x0123") == node.call(method, number, "0x0123"), (method, number)
    answer = other.call("node_getPublicDataWitness", oldest - 1, "0x01")
    assert f"below the oldest available block {oldest}" in str(answer["error"])
    assert other.call("node_getBlock", 1) == node.call("node_getBlock", 1)


def test_a_restored_node_gives_the_recorded_answers(start_node: Start, sample_chain: Path, tmp_path: Path) -> None:
    """A thousand questions of every kind, put to a node and to one that was restored from its snapshot."""
    node = start_with_chain(start_node, tmp_path / "source", "--chain-file", sample_chain)
    node.wait_for_line("chain file loaded")
    upload(node, tmp_path / "location")
    other = start_with_chain(start_node, tmp_path / "copy", "--snapshots-urls", f"file://{tmp_path}/location")
    other.wait_for_line("snapshot restored")
    asked = 0
    for number in range(107):
        block = node.call("node_getBlock", number)
        assert other.call("node_getBlock", number) == block
        asked += 1
        for effect in block["result"]["body"]["txEffects"]:
            for method in ("node_getTxEffect", "node_getTxReceipt"):
                assert other.call(method, effect["txHash"]) == node.call(method, effect["txHash"])
                asked += 1
            for nullifier in effect["nullifiers"]:
                question = ("node_getNullifierMembershipWitness", "latest", nullifier)
                assert other.call(*question) == node.call(*question)
                asked += 1
            for write in effect["publicDataWrites"]:
                question = ("node_getPublicDataWitness", number, write["leafSlot"])
                assert other.call(*question) == node.call(*question)
                asked += 1
            for log in effect["privateLogs"]:
                question = ("node_getPrivateLogsByTags", [log["fields"][0]])
                assert other.call(*question) == node.call(*question)
                asked += 1
    assert asked >= 1000


# ---- how it is asked for ---------------------------------------------------------------------------------


def test_a_location_that_makes_no_sense_is_refused_at_once(start_node: Start, old: Path) -> None:
    node = start_with_chain(start_node, old)
    for location, message in (
        ("ftp://host/path", "Unknown file store config: 'ftp://host/path'. Supported values are gs://bucket-name/"),
        ("file://host/path", "Unknown file store config: 'file://host/path'"),
        ("https://host/path", "the location https://host/path is for reading only"),
        (7, "location"),
    ):
        error = node.call_admin("nodeAdmin_startSnapshotUpload", location)["error"]
        assert error["code"] == -32602
        assert message in error["message"]


def test_what_goes_wrong_later_is_in_the_log_and_the_next_one_may_be_asked_for(
    start_node: Start, old: Path, tmp_path: Path
) -> None:
    node = start_with_chain(start_node, old)
    (tmp_path / "location").mkdir()
    broken = tmp_path / "location" / "fastnode-31337-3658137161-0x322813fd9a801c5507c9de605d63cea4f2ce6c44"
    broken.mkdir()
    (broken / "index.json").write_text("{}")
    assert "error" not in node.call_admin("nodeAdmin_startSnapshotUpload", f"file://{tmp_path}/location")
    assert "the index is damaged" in node.wait_for_line("snapshot failed")["reason"]
    upload(node, tmp_path / "elsewhere")


@pytest.mark.parametrize("paused", [False, True])
def test_ingestion_is_afterwards_what_it_was_before(start_node: Start, old: Path, tmp_path: Path, paused: bool) -> None:
    node = start_with_chain(start_node, old)
    if paused:
        node.call_admin("nodeAdmin_pauseSync")
    upload(node, tmp_path / "location")
    said = [entry["message"] for entry in node.entries()]
    assert ("sync resumed" in said) == (not paused)


# ---- how a node starts --------------------------------------------------------------------------------------


def test_a_node_that_has_blocks_keeps_them(start_node: Start, old: Path, made_snapshot: Path) -> None:
    node = start_with_chain(start_node, old, "--snapshots-urls", f"file://{made_snapshot}")
    assert node.call("node_getBlockNumber")["result"] == 3


def test_force_keeps_a_chain_that_is_not_far_behind(start_node: Start, old: Path, made_snapshot: Path) -> None:
    node = start_with_chain(
        start_node, old, "--sync-mode", "force-snapshot", "--snapshots-urls", f"file://{made_snapshot}"
    )
    node.wait_for_line("no snapshot is far enough ahead of the stored chain")
    assert node.call("node_getBlockNumber")["result"] == 3


def test_full_looks_for_no_snapshot(start_node: Start, made_snapshot: Path, tmp_path: Path) -> None:
    node = start_with_chain(
        start_node, tmp_path / "new", "--sync-mode", "full", "--snapshots-urls", f"file://{made_snapshot}"
    )
    assert not any("snapshot" in entry["message"] for entry in node.entries())


def test_a_node_starts_without_a_snapshot_when_none_is_good(
    start_node: Start, sample_chain: Path, snapshot: Path, old: Path, tmp_path: Path
) -> None:
    [folder] = snapshot.iterdir()
    [archive] = folder.glob("archiver-*.tar")
    archive.write_bytes(archive.read_bytes()[:-1] + b"\1")
    urls = f"file://{tmp_path}/nowhere,file://{snapshot}"
    shutil.rmtree(old / "archiver")
    shutil.rmtree(old / "world_state")
    node = start_with_chain(start_node, old, "--snapshots-urls", urls, "--chain-file", sample_chain)
    assert "nowhere" in node.wait_for_line("a location of snapshots cannot be used")["reason"]
    assert "SHA-256" in node.wait_for_line("a snapshot cannot be used")["reason"]
    node.wait_for_line("no snapshot can be used")
    node.wait_for_line("chain file loaded")


def test_a_stop_ends_a_restore_and_leaves_what_was_there(snapshot: Path, tmp_path: Path) -> None:
    asked = []

    def is_stopped() -> bool:
        asked.append(True)
        return len(asked) > 2

    target = tmp_path / "target"
    restored = start_from_snapshot(
        "snapshot", [f"file://{snapshot}"], target, learn_network=lambda: None, is_stopped=is_stopped
    )
    assert not restored
    assert [entry.name for entry in target.iterdir()] == ["fastnode.lock"]


def test_a_chain_far_behind_gives_way_when_forced(snapshot: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "L1_BLOCKS_AHEAD_MIN", 1)
    url = [f"file://{snapshot}"]
    assert not start_from_snapshot("snapshot", url, old, learn_network=lambda: None)
    assert start_from_snapshot("force-snapshot", url, old, learn_network=lambda: None)
    stored = stored_chain(old)
    assert stored is not None
    assert stored.block_number == 16


def test_of_several_locations_the_newest_snapshot_is_taken(snapshot: Path, old: Path, tmp_path: Path) -> None:
    create_snapshot(old, Location.to_write(f"file://{tmp_path}/older"), nullcontext())
    urls = [f"file://{tmp_path}/older", f"file://{snapshot}"]
    assert start_from_snapshot("snapshot", urls, tmp_path / "target", learn_network=lambda: None)
    stored = stored_chain(tmp_path / "target")
    assert stored is not None
    assert stored.block_number == 16


def test_a_snapshot_of_another_network_than_the_followed_one_is_not_taken(snapshot: Path, tmp_path: Path) -> None:
    other = Network(1, 2, "0x" + "ab" * 20)
    assert not start_from_snapshot("snapshot", [f"file://{snapshot}"], tmp_path / "target", learn_network=lambda: other)


def test_a_follower_begins_with_a_snapshot_of_the_network_that_it_follows(
    start_node: Start, sample_chain: Path, snapshot: Path, tmp_path: Path
) -> None:
    source = start_with_chain(start_node, tmp_path / "source", "--chain-file", sample_chain)
    source.wait_for_line("chain file loaded")
    other = snapshot / Network(1, 2, "0x" + "ab" * 20).folder
    other.mkdir()  # so that the network must be known
    (other / "index.json").write_text("{}")
    follower = start_with_chain(
        start_node, tmp_path / "new", "--upstream-url", source.url, "--snapshots-urls", f"file://{snapshot}"
    )
    assert follower.wait_for_line("snapshot restored")["block"] == 16
    deadline = time.monotonic() + PATIENCE_S
    while follower.call("node_getBlockNumber")["result"] < 106:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for number in (1, 16, 17, 106):
        assert follower.call("node_getBlock", number) == source.call("node_getBlock", number)


def test_a_stop_ends_the_wait_for_a_followed_node_whose_network_is_asked_for(
    start_node: Start, snapshot: Path, tmp_path: Path
) -> None:
    node = start_node(
        "--data-directory",
        tmp_path / "new",
        "--upstream-url",
        "http://127.0.0.1:9",
        "--snapshots-urls",
        f"file://{snapshot}",
    )
    node.wait_for_line("fastnode")
    time.sleep(1.0)
    assert node.stop() == 0


def test_a_node_goes_to_no_other_server_than_the_one_that_is_named(
    start_node: Start, snapshot: Path, tmp_path: Path
) -> None:
    """It says which it was led to, and ends: what is behind may be a service that only this machine reaches."""
    [folder] = snapshot.iterdir()
    asked: list[str] = []

    def note(handler: BaseHTTPRequestHandler, _body: bytes) -> None:
        asked.append(handler.path)
        answer(handler, b"", 404)

    with HttpStandIn(note) as inner:
        leads = lambda handler, _body: answer(handler, b"", 307, Location=f"{inner.url}/latest/meta-data")  # noqa: E731
        with HttpStandIn(leads) as server:
            node = start_node("--data-directory", tmp_path / "new", "--snapshots-urls", f"{server.url}/{folder.name}")
            entry = node.wait_for_line("a location of snapshots cannot be used")
            assert f"it redirects to another server, {inner.url.removeprefix('http://')}" in entry["reason"]
            assert node.process.wait(PATIENCE_S) == 1
    assert asked == []


def test_an_archive_that_would_keep_verification_busy_ends_the_start(
    start_node: Start, snapshot: Path, tmp_path: Path
) -> None:
    """Tables whose index leads to one block for ever: nothing else gives a chain, so the node says why and ends."""
    forge_index(snapshot, KEYS[0], tmp_path / "unpacked", lambda blocks: blocks[:1] * 100_000)
    node = start_node("--data-directory", tmp_path / "new", "--snapshots-urls", f"file://{snapshot}")
    entry = node.wait_for_line("a snapshot cannot be used")
    assert "begins before the end of the one before it" in entry["reason"]
    assert node.process.wait(PATIENCE_S) == 1
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["fastnode.lock"]
