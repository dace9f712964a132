"""Whole nodes: a replica with nothing but the bus begins with the leaves of a publisher, whatever happens meanwhile."""

from __future__ import annotations

import lzma
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bus.nats import NatsServer, open_bus
from tests.bus.test_transactions import until
from tests.conftest import ADMIN_KEY_HASH, NodeProcess

from fastnode.bus.connection import Outgoing
from fastnode.bus.folder import PIECE_BYTES
from fastnode.bus.subjects import PREFIX, Subjects
from fastnode.chain_data import ChainData
from fastnode.snapshots.leaf_index import LEAF_INDEX_FILE
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

StartNode = Callable[..., NodeProcess]
#: Times that a replica is killed, and the seconds within which that is.
KILLS = 20 if os.environ.get("FASTNODE_LONG") == "1" else 2
SECONDS = 2.5
RESTORED = "snapshot of leaves restored"


class Publishing:
    """A publisher of the sample chain that has put its leaves on the bus."""

    def __init__(self, start_node: StartNode, server: NatsServer, directory: Path, *flags: object) -> None:
        self.server = server
        self.node = start_node(
            *("--data-directory", directory, "--bus-url", server.url, "--bus-publish"),
            *("--bus-name", "publisher-1", "--bus-leaves-mb", 64, *flags),
            SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
        ).wait_until_serving()
        self.node.wait_for_line("bus connected")
        self.tip = self.node.call("node_getBlockNumber")["result"]
        self.upload()

    def upload(self) -> None:
        assert "error" not in self.node.call_admin("nodeAdmin_startSnapshotUpload", "bus://")
        self.node.wait_for_line("snapshot uploaded")

    def require_alike(self, replica: NodeProcess) -> None:
        until(lambda: replica.call("node_getBlockNumber")["result"] == self.tip)
        for method, parameters in (
            ("node_getBlock", (3,)),
            ("node_getBlock", ("latest",)),
            ("node_getPublicDataWitness", ("latest", "0x01")),
            ("node_getNullifierMembershipWitness", ("latest", "0x01")),
        ):
            assert replica.call(method, *parameters) == self.node.call(method, *parameters), method


@pytest.fixture(scope="session")
def loaded(sample_chain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the sample chain.  Not to be written."""
    directory = tmp_path_factory.mktemp("loaded") / "data"
    file = directory.parent / "chain.jsonl"
    file.write_bytes(lzma.decompress(sample_chain.read_bytes()))
    with ChainData.open(directory) as data:
        adopt_chain_file(data.store, file)
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        import_chain_file(ingestor, file)
    return directory


@pytest.fixture
def own(loaded: Path, tmp_path: Path) -> Path:
    """The directory of the publisher."""
    return Path(shutil.copytree(loaded, tmp_path / "publisher"))


@pytest.fixture
def publishing(start_node: StartNode, server: NatsServer, own: Path) -> Publishing:
    return Publishing(start_node, server, own)


def replica_of(start_node: StartNode, server: NatsServer, directory: Path, *flags: object) -> NodeProcess:
    return start_node("--bus-url", server.url, "--bus-name", "replica", "--data-directory", directory, *flags)


def test_a_replica_begins_with_the_leaves_of_a_publisher(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    replica = replica_of(start_node, publishing.server, tmp_path / "replica").wait_until_serving()
    confirmed = replica.wait_for_line("the block of the snapshot is the one of a followed node")
    restored = replica.wait_for_line(RESTORED)
    assert (restored["block"], restored["oldest"]) == (publishing.tip, confirmed["block"])
    publishing.require_alike(replica)
    assert replica.stop() == 0
    again = replica_of(start_node, publishing.server, tmp_path / "replica").wait_until_serving()
    publishing.require_alike(again)
    assert not any(entry["message"] == "starting from a snapshot" for entry in again.entries())


def test_a_replica_that_wants_no_leaves_begins_with_blocks(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    flags = ("--snapshots-form", "history")
    replica = replica_of(start_node, publishing.server, tmp_path / "replica", *flags).wait_until_serving()
    publishing.require_alike(replica)
    assert not any(entry["message"] == "starting from a snapshot" for entry in replica.entries())


def test_a_replica_goes_on_without_leaves_that_are_wrong(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    """One bit of one piece."""
    bus = open_bus(publishing.server.url)
    [stream] = [name for name in bus.names(PREFIX) if not name.endswith("-txs")]
    leaves = Subjects(stream).leaf_stream
    messages = [each for each in bus.since(leaves, 1, f"{leaves}.>") if ".parts." in each.subject and each.data]
    wrong = random.Random(7).choice(messages)
    bus.publish(Outgoing(wrong.subject, bytes([wrong.data[0] ^ 1]) + wrong.data[1:]))
    bus.close()
    replica = replica_of(start_node, publishing.server, tmp_path / "replica").wait_until_serving()
    refused: dict[str, Any] = replica.wait_for_line("a snapshot cannot be used")
    assert "its SHA-256 is another one" in refused["reason"]
    publishing.require_alike(replica)


def test_many_publishers_that_claim_leaves_do_not_hide_the_one_that_has_them(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    """Names before the true one's: indexes that make no sense, that end in the middle, and that name files which nobody
    has, of blocks that are newer than all others."""
    bus = open_bus(publishing.server.url)
    [stream] = [name for name in bus.names(PREFIX) if not name.endswith("-txs")]
    subjects = Subjects(stream)
    prefix = f"{subjects.leaf_stream}.leaves.publisher-1."
    [true] = [
        message
        for message in bus.since(subjects.leaf_stream, 1, f"{prefix}>")
        if message.subject.endswith(f"{LEAF_INDEX_FILE.replace('/', '.')}.0")
    ]
    path = true.subject.removeprefix(prefix)
    newer = re.sub(rb'("l1BlockNumber":\s*)\d+', rb"\g<1>999999999", true.data)
    missing = re.sub(rb'"path":\s*"', b'"path":"no', newer)
    claims = (b"no JSON", b"{}", b"[" * 100_000, b"x" * PIECE_BYTES, newer, missing)
    for number in range(60):
        subject = f"{subjects.leaf_stream}.leaves.a-publisher-{number:02}.{path}"
        bus.publish(Outgoing(subject, claims[number % len(claims)]))
    bus.close()
    replica = replica_of(start_node, publishing.server, tmp_path / "replica").wait_until_serving()
    replica.wait_for_line(RESTORED)
    publishing.require_alike(replica)
    assert replica.stop() == 0


def test_a_replica_whose_bus_keeps_no_older_blocks_has_its_leaves_confirmed_all_the_same(
    start_node: StartNode, server: NatsServer, own: Path, tmp_path: Path
) -> None:
    """The block of the leaves is a final one, and not on the bus any more: the newest checkpoint is."""
    publishing = Publishing(start_node, server, own, "--bus-retention", "snapshot")
    publishing.node.wait_for_line("the bus keeps what follows the snapshot")
    replica = replica_of(start_node, server, tmp_path / "replica").wait_until_serving()
    confirmed = replica.wait_for_line("the block of the snapshot is the one of a followed node")
    assert confirmed["block"] > replica.wait_for_line(RESTORED)["oldest"]
    publishing.require_alike(replica)


def test_a_replica_killed_while_it_restores_goes_on(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    generator, directory = random.Random(41), tmp_path / "replica"
    for _ in range(KILLS):
        shutil.rmtree(directory, ignore_errors=True)
        replica = replica_of(start_node, publishing.server, directory)
        replica.wait_for_line("starting from a snapshot")
        with pytest.raises(subprocess.TimeoutExpired):
            replica.process.wait(generator.uniform(0.0, SECONDS))
        assert replica.stop(signal.SIGKILL) == -signal.SIGKILL
        again = replica_of(start_node, publishing.server, directory).wait_until_serving()
        publishing.require_alike(again)
        assert again.call("node_getWorldStateSyncStatus")["result"]["oldestHistoricBlockNumber"] > 1
        assert again.stop() == 0


def test_a_replica_whose_bus_is_killed_while_it_restores_goes_on(
    start_node: StartNode, publishing: Publishing, tmp_path: Path
) -> None:
    server = publishing.server
    replica = replica_of(start_node, server, tmp_path / "replica")
    replica.wait_for_line("starting from a snapshot")
    server.stop(signal.SIGKILL)
    replica.wait_for_line("bus away")
    server.start()
    replica.wait_for_line(RESTORED)
    replica.wait_until_serving()
    publishing.require_alike(replica)
