"""Users of the bus: the permissions that come with the project let each node do its work, and speak in no other's name.

Whole nodes run with them; then every subject that one kind of node writes is tried by the other users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.bus.nats import NatsServer, open_bus
from tests.bus.test_transactions import TakingUpstream, pending, until
from tests.bus.test_transactions import network as network
from tests.bus.txs import hash_of, tx_of
from tests.conftest import PATIENCE_S
from tests.doc_runner import PROJECT

from fastnode.bus.connection import Bus, Outgoing, StreamSetup
from fastnode.bus.members import Members
from fastnode.bus.subjects import Subjects
from fastnode.errors import UpstreamError

USERS = PROJECT / "deploy" / "nats" / "users.conf"
CHART = PROJECT / "deploy" / "helm" / "nats-values.yaml"
PASSWORDS = {name: f"{name}-secret" for name in ("publisher-1", "publisher-2", "replica")}
StartNode = Callable[..., Any]


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsServer]:
    """With the users of the file that comes with the project."""
    for name, password in PASSWORDS.items():
        monkeypatch.setenv(f"{name.upper().replace('-', '_')}_PASSWORD", password)
    server = NatsServer(tmp_path / "nats", more=USERS.read_text())
    yield server
    server.stop()


def url_of(server: NatsServer, user: str) -> str:
    return f"nats://{user}:{PASSWORDS[user]}@127.0.0.1:{server.port}"


def violations(server: NatsServer) -> list[str]:
    lines = (server.directory / "server.log").read_text().splitlines()
    return [line for line in lines if "violation" in line.lower()]


def stored(bus: Bus, subjects: Subjects) -> dict[str, dict[str, bytes]]:
    """Everything on the bus but what nodes say again and again."""
    return {
        stream: {message.subject: message.data for message in bus.matching(stream, pattern)}
        for stream, pattern in (
            (subjects.stream, f"{subjects.stream}.chain.>"),
            (subjects.stream, f"{subjects.stream}.content.>"),
            (subjects.tx_stream, subjects.all_txs),
        )
    }


@contextmanager
def refused_soon() -> Iterator[None]:
    """What is forbidden is not answered: nothing else is waited for so briefly."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastnode.bus.connection.REQUEST_S", 0.4)
        yield


def test_nodes_with_these_users_do_all_their_work_and_speak_in_no_others_name(
    guarded: NatsServer, tmp_path: Path, network: TakingUpstream, start_node: StartNode
) -> None:
    def start(name: str, user: str, *flags: object) -> Any:
        own = ("--data-directory", tmp_path / name, "--disable-admin-api-key", "--bus-share-limits")
        bus = ("--bus-url", url_of(guarded, user), "--bus-name", name, "--rpc-limits", "preset:public")
        return start_node(*own, *bus, *flags).wait_until_serving()

    source = (
        "--upstream-url",
        network.upstream.url,
        "--bus-publish",
        "--bus-retention",
        "chain",
        "--bus-leaves-mb",
        64,
    )
    publisher = start("publisher-1", "publisher-1", *source)
    replica = start("some-replica", "replica")
    nodes = (publisher, replica)
    until(lambda: all(node.call("node_isReady")["result"] for node in nodes))

    assert "error" not in publisher.call_admin("nodeAdmin_startSnapshotUpload", "bus://")
    publisher.wait_for_line("snapshot uploaded")
    beginner = start("replica-that-begins", "replica")
    beginner.wait_for_line("snapshot of leaves restored")
    assert beginner.stop() == 0

    # A transaction goes from the replica to all nodes and on; one that was refused may be sent again.
    assert "error" not in replica.call("node_sendTx", tx_of(1))
    until(lambda: network.taken[hash_of(tx_of(1))] == 1)
    network.refuses = True
    assert "error" not in replica.call("node_sendTx", tx_of(2))
    until(lambda: [pending(node) for node in nodes] == [1, 1])
    network.refuses = False
    assert "error" not in replica.call("node_sendTx", tx_of(2))
    until(lambda: network.taken[hash_of(tx_of(2))] == 1)
    until(lambda: [pending(node) for node in nodes] == [2, 2])
    assert violations(guarded) == []

    # Everything that is none of their business.
    buses = {user: open_bus(url_of(guarded, user), name="attacker") for user in PASSWORDS}
    try:
        subjects = Subjects(next(name for name in buses["replica"].names("fastnode-") if not name.endswith("-txs")))
        tx_hash = bytes.fromhex(hash_of(tx_of(1)).removeprefix("0x"))
        of_publisher = (
            subjects.at("publisher-1"),
            subjects.block("publisher-1", 1),
            subjects.checkpoint("publisher-1", 1),
            subjects.value("node.publisher-1"),
            subjects.value("spent.publisher-1"),
            f"{subjects.leaves('publisher-1')}.some.leaves.json.0",
            f"{subjects.live_blocks}.at.publisher-1",
            f"{subjects.live_txs}.tx.{tx_hash.hex()}",
            "_INBOX.of.somebody",
        )
        of_publishers = (
            subjects.content("ab" * 16, 0),
            subjects.hand(tx_hash),
            subjects.value("lease.transactions"),
        )
        members = Members(buses["replica"], subjects)
        until(lambda: set(members.all()) == {"publisher-1", "some-replica"}, members.all())
        before = stored(buses["replica"], subjects)
        for user, forbidden in (("replica", of_publisher + of_publishers), ("publisher-2", of_publisher)):
            for subject in forbidden:
                with refused_soon(), pytest.raises(UpstreamError):
                    buses[user].publish(Outgoing(subject, b"{}"))
        evil = StreamSetup(name="evil", subjects=("evil.tx.*",), live=("evil.tx.*", f"{subjects.live_blocks}.>"))
        for attempt in (
            lambda: buses["replica"].set_up(evil),
            lambda: buses["replica"].purge(subjects.stream),
            lambda: buses["replica"]._api(f"STREAM.UPDATE.{subjects.stream}", {"name": subjects.stream}),
            lambda: buses["publisher-2"]._api(f"STREAM.DELETE.{subjects.stream}", {}),
            lambda: buses["publisher-2"]._api(f"STREAM.UPDATE.{subjects.stream}", {"name": subjects.stream}),
        ):
            with refused_soon(), pytest.raises(UpstreamError):
                attempt()
        # A message that would remove those on other subjects.
        for rollup in ("all", "sub"):
            for bus, subject in (
                (buses["replica"], subjects.tx(b"\1" * 32)),
                (buses["replica"], subjects.value("node.attacker")),
                (buses["publisher-2"], subjects.content("ab" * 16, 0)),
            ):
                answer = bus._run(lambda client, to=subject, how=rollup: client.request(  # type: ignore[misc]
                    to, b"{}", timeout=PATIENCE_S, headers={"Nats-Rollup": how}
                ))  # fmt: skip
                assert "rollup not permitted" in orjson.loads(answer.data)["error"]["description"]
        assert set(members.all()) == {"publisher-1", "some-replica"}
        assert stored(buses["replica"], subjects) == before
        assert len(violations(guarded)) >= len(of_publisher)
    finally:
        for bus in buses.values():
            bus.close()


def test_a_replica_that_may_make_no_stream_says_so_and_waits(guarded: NatsServer) -> None:
    bus = open_bus(url_of(guarded, "replica"), name="replica")
    try:
        with pytest.raises(UpstreamError, match="there is no stream some, and none can be made here"):
            bus.set_up(StreamSetup(name="some", subjects=("some.>",)))
    finally:
        bus.close()


def test_the_chart_has_the_permissions_of_the_file() -> None:
    """But for names, and that publishers of the chart share a user."""
    users = re.findall(r"user: (\S+).*?permissions: \{(.*?)subscribe: \{(.*?)\}", USERS.read_text(), re.DOTALL)
    in_file = {
        name: (set(re.findall(r'"([^"]+)"', publish)), set(re.findall(r'"([^"]+)"', subscribe)))
        for name, publish, subscribe in users
    }
    assert set(in_file) == set(PASSWORDS)
    in_chart: dict[str, tuple[set[str], set[str]]] = {}
    for user in yaml.safe_load(CHART.read_text())["config"]["merge"]["authorization"]["users"]:
        permissions = user["permissions"]
        publish = permissions["publish"]["allow"] + permissions["publish"].get("deny", [])
        names = (("publishers-fastnode-0", "publisher-1"), ("publishers-fastnode-1", "publisher-2"))
        for chart_name, name in names:
            publish = [text.replace(chart_name, name) for text in publish]
        in_chart[user["user"]] = (set(publish), set(permissions["subscribe"]["allow"]))
    assert in_chart["replica"] == in_file["replica"]
    assert in_chart["publishers"][0] == in_file["publisher-1"][0] | in_file["publisher-2"][0]
    assert in_chart["publishers"][1] == in_file["publisher-1"][1]
