"""Words in the name of a publisher that are not its own: replicas stay with it, and the server keeps its name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.bus.conftest import Fleet, PublishingNode
from tests.bus.nats import NatsServer, open_bus
from tests.bus.test_following import grow, publisher_of
from tests.doc_runner import PROJECT
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.members import Heartbeat, Members
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import BUS_VERSION, Reference
from fastnode.errors import UpstreamError

REFERENCE = Reference("ab" * 16, 1, 10, "0x" + "cd" * 32)


def forged_words(dice: random.Random, publishing: PublishingNode, chain: MadeChain) -> tuple[str, bytes]:
    """Subject behind that of what is stored, and content."""
    subjects, name = publishing.subjects, publishing.bus.options.name
    tips = orjson.loads(orjson.dumps(publishing.node.tips.to_json()))
    tips["proposed"] = {"number": chain.tip + dice.randint(1, 1000), "hash": "0x" + dice.randbytes(32).hex()}
    at = {"version": BUS_VERSION, "publisher": name, "tips": tips, "chain": {}, "committedAt": dice.randint(0, 1 << 60)}
    number = dice.randint(1, chain.tip + 3)
    content = orjson.dumps(dice.choice([at, {}, [], {"version": 9}, {"version": BUS_VERSION}, REFERENCE.index]))
    subject = dice.choice(
        [
            subjects.at(name),
            subjects.at(name),
            subjects.block(name, number),
            subjects.checkpoint(name, number),
            subjects.content(REFERENCE.digest, 0),
            f"{subjects.stream}.at.",
            f"{subjects.stream}.{dice.choice(['x', 'chain', 'content'])}",
        ]
    )
    if ".chain." in subject and dice.random() < 0.7:
        content = REFERENCE.encode()
    return subject, dice.choice([content, content, dice.randbytes(50), content[: len(content) // 2]])


@pytest.mark.parametrize("seed", range(4))
def test_what_anybody_pushes_in_a_publishers_name_does_not_put_it_aside(
    fleet: Fleet, server: NatsServer, chain: MadeChain, upstream: ScriptedUpstream, seed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    dice = random.Random(seed)
    publishing = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    attacker = open_bus(server.url, name="attacker")
    try:
        for step in range(4):
            for _ in range(30):
                subject, content = forged_words(dice, publishing, chain)
                live = publishing.subjects.live_blocks + subject.removeprefix(publishing.subjects.stream)
                push(attacker, live, content, {"Nats-Sequence": dice.choice(["1", "99999", "x", "", "-3"])})
            grow(chain, upstream)
            replica.wait_for(chain)
            assert publisher_of(replica, "publisher")["state"] == "publishing", step
    finally:
        attacker.close()
    assert replica.contents() == publishing.node.contents()
    assert not any(record.exc_info for record in caplog.records)
    lines = [record for record in caplog.records if record.getMessage() == "a message of the bus is left out"]
    assert len(lines) < 30, "one a second"


def push(bus: Bus, subject: str, content: bytes, headers: dict[str, str]) -> None:
    """As anybody may who can reach the server."""
    if subject.endswith(".") or ".." in subject:
        return
    bus._run(lambda client: client.publish(subject, content, headers=headers))


# ---- permissions -----------------------------------------------------------------------------------


PASSWORDS = {name: f"{name.lower()}-secret" for name in ("PUBLISHER_1", "PUBLISHER_2", "REPLICA")}


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NatsServer]:
    """With the users of the file that comes with the project."""
    for name, password in PASSWORDS.items():
        monkeypatch.setenv(f"{name}_PASSWORD", password)
    server = NatsServer(tmp_path / "nats", more=(PROJECT / "deploy" / "nats" / "users.conf").read_text())
    yield server
    server.stop()


class User:
    """The server as one user sees it."""

    def __init__(self, server: NatsServer, name: str) -> None:
        password = PASSWORDS[name.upper().replace("-", "_")]
        self.url = f"nats://{name}:{password}@127.0.0.1:{server.port}"


def test_a_users_permissions_bind_what_it_says_to_its_name(
    guarded: NatsServer, tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A whole fleet with the users of deploy/nats; then a replica's and another publisher's user try everything."""
    monkeypatch.setattr("fastnode.bus.connection.REQUEST_S", 1.0)
    seen: Any = User(guarded, "publisher-1")
    publishing = PublishingNode(tmp_path / "publisher-1", upstream, seen, Publisher, {})
    other = open_bus(User(guarded, "publisher-2").url, name="publisher-2")
    bus = open_bus(User(guarded, "replica").url, name="replica")
    subjects = publishing.subjects
    try:
        with following(tmp_path / "replica", bus=bus) as replica:
            replica.wait_for(chain)
            heartbeat = Heartbeat(bus, subjects, dict)
            heartbeat._write()
            assert set(Members(bus, subjects).all()) == {"replica"}
            before = bus.last(subjects.stream, subjects.at("publisher-1"))
            for attacker in (bus, other):
                for subject in (
                    subjects.at("publisher-1"),
                    subjects.block("publisher-1", 1),
                    subjects.checkpoint("publisher-1", 1),
                    f"{subjects.live_blocks}.at.publisher-1",
                ):
                    with pytest.raises(UpstreamError):
                        attacker.publish(Outgoing(subject, b"{}"))
            for forbidden in (
                lambda: bus.purge(subjects.stream),
                lambda: bus._api(f"STREAM.DELETE.{subjects.stream}", {}),
                lambda: other._api(f"STREAM.DELETE.{subjects.stream}", {}),
                lambda: other._api(f"STREAM.UPDATE.{subjects.stream}", {"name": subjects.stream}),
                lambda: bus.publish(Outgoing(subjects.content("ab" * 16, 0), b"x")),
            ):
                with pytest.raises(UpstreamError):
                    forbidden()
            after = bus.last(subjects.stream, subjects.at("publisher-1"))
            assert before is not None
            assert after is not None
            assert orjson.loads(after.data)["tips"] == orjson.loads(before.data)["tips"]
            grow(chain, upstream)
            replica.wait_for(chain)
            assert publisher_of(replica, "publisher-1")["state"] == "publishing"
    finally:
        bus.close()
        other.close()
        publishing.close()
