"""A stream that keeps what follows the newest snapshot: a node that has the snapshot's blocks lacks nothing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.bus.conftest import Fleet, PublishingNode
from tests.bus.nats import NatsServer, open_bus
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.connection import Outgoing
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Reference


class Snapshots:
    """What a publisher says of its snapshots: nothing, until a block is named."""

    def __init__(self) -> None:
        self.block = 0

    def __call__(self) -> dict[str, Any] | None:
        return {"locations": ["file:///nowhere"], "block": self.block} if self.block else None


@pytest.fixture
def snapshots() -> Snapshots:
    return Snapshots()


def publish(fleet: Fleet, upstream: ScriptedUpstream, snapshots: Snapshots, name: str = "publisher") -> PublishingNode:
    kind: Any = partial(Publisher, snapshots=snapshots)
    return fleet.publisher(upstream, name, kind, keeps_all=False)


def follow_until(directory: Path, server: NatsServer, chain: MadeChain) -> None:
    """Leave a replica's databases behind that have the chain as it is now, as a restored snapshot would."""
    bus = open_bus(server.url, name="early")
    try:
        with following(directory, bus=bus) as replica:
            replica.wait_for(chain)
    finally:
        bus.close()


def grow(chain: MadeChain, upstream: ScriptedUpstream, checkpoints: int) -> None:
    for _ in range(checkpoints):
        with upstream.lock:
            chain.propose(2)
            chain.publish()


def first_place(publishing: PublishingNode) -> int:
    state = publishing.bus.state(publishing.subjects.stream)
    assert state is not None
    return int(state["first_seq"])


def content_of(publishing: PublishingNode, checkpoint: int) -> str:
    """The subject of the first part of what a checkpoint refers to."""
    subjects = publishing.subjects
    message = publishing.bus.last(subjects.stream, subjects.checkpoint(publishing.bus.options.name, checkpoint))
    assert message is not None
    return subjects.content(Reference.of(orjson.loads(message.data)).digest, 0)


def test_what_a_snapshot_has_is_taken_off_the_stream_and_a_node_that_has_its_blocks_follows(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer, snapshots: Snapshots
) -> None:
    publishing = publish(fleet, upstream, snapshots)
    follow_until(fleet.directory / "restored", server, chain)
    grow(chain, upstream, 3)
    publishing.node.wait_for(chain)
    early, late = content_of(publishing, 1), content_of(publishing, 7)
    stream = publishing.subjects.stream
    snapshots.block = chain.units[5].blocks[-1].number
    publishing.node.wait(lambda: publishing.bus.last(stream, early) is None)
    publishing.node.wait(lambda: publishing.publisher._place_of_genesis(publishing.node.ingestor.view) is not None)
    assert publishing.bus.last(stream, late) is not None
    replica = fleet.replica(name="restored")
    replica.wait_for(chain)
    grow(chain, upstream, 1)
    replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()
    assert publishing.publisher.trouble is None


def test_a_publisher_that_came_later_takes_nothing_off_that_others_stored_and_that_is_wanted(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer, snapshots: Snapshots
) -> None:
    first = publish(fleet, upstream, Snapshots(), "first")
    follow_until(fleet.directory / "restored", server, chain)
    grow(chain, upstream, 3)
    first.node.wait_for(chain)
    first.node.wait(lambda: first.publisher.describe()["publishedBlock"] == chain.tip)
    # All that it refers to is there already, before everything of its own.
    second = publish(fleet, upstream, snapshots, "second")
    second.node.wait(lambda: second.publisher.describe()["publishedBlock"] == chain.tip)
    early, late = content_of(first, 1), content_of(first, 7)
    stream = first.subjects.stream
    snapshots.block = chain.units[5].blocks[-1].number
    second.node.wait(lambda: second.bus.last(stream, early) is None)
    assert second.bus.last(stream, late) is not None
    first.close()
    replica = fleet.replica(name="restored")
    replica.wait_for(chain)
    assert replica.contents() == second.node.contents()


def test_nothing_is_taken_off_while_a_publisher_is_there_whose_beginning_is_not_known(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, snapshots: Snapshots
) -> None:
    publishing = publish(fleet, upstream, snapshots)
    publishing.node.wait(lambda: publishing.publisher.describe()["publishedBlock"] == chain.tip)
    subjects = publishing.subjects
    # It began behind the checkpoint in question.
    message = publishing.bus.last(subjects.stream, subjects.at("publisher"))
    assert message is not None
    other = open_bus(publishing.bus.options.urls[0], name="other")
    try:
        other.publish(Outgoing(subjects.at("other"), message.data))
        early = content_of(publishing, 1)
        snapshots.block = chain.units[5].blocks[-1].number
        grow(chain, upstream, 2)
        publishing.node.wait(lambda: publishing.publisher.describe()["publishedBlock"] == chain.tip)
        assert publishing.bus.last(subjects.stream, early) is not None
        other.purge(subjects.stream, subject=subjects.at("other"))
        publishing.node.wait(lambda: publishing.bus.last(subjects.stream, early) is None)
    finally:
        other.close()


def test_what_follows_the_snapshot_and_lay_before_it_is_published_again(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer, snapshots: Snapshots
) -> None:
    publishing = publish(fleet, upstream, snapshots)
    follow_until(fleet.directory / "restored", server, chain)
    grow(chain, upstream, 3)
    publishing.node.wait_for(chain)
    publishing.node.wait(lambda: publishing.publisher.describe()["publishedBlock"] == chain.tip)
    # As after a chain that went back and forth: the content is older than what refers to it.
    stream, lost = publishing.subjects.stream, content_of(publishing, 8)
    publishing.bus.purge(stream, subject=lost)
    before = first_place(publishing)
    snapshots.block = chain.units[5].blocks[-1].number
    publishing.node.wait(lambda: publishing.bus.last(stream, lost) is not None)
    assert first_place(publishing) > before
    replica = fleet.replica(name="restored")
    replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()
