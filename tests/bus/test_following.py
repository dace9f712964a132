"""A replica has what publishers have, and nothing else, whatever happens to the bus, to them and to their chain."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.bus.conftest import Fleet, PublishingNode
from tests.bus.nats import PATIENCE_S, NatsServer
from tests.serving.sockets import wait_until
from tests.sources.conftest import FollowingNode
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.archiver.queries import ChainView, StoredCheckpoint
from fastnode.bus import publisher as publishing_module
from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Reference
from fastnode.bus.upstream import BusUpstream
from fastnode.mempool.network import NetworkValues
from fastnode.sources import moved_checkpoints


def grow(chain: MadeChain, upstream: ScriptedUpstream, steps: int = 1) -> None:
    for _ in range(steps):
        with upstream.lock:
            chain.propose(2)
            chain.publish()
            chain.proven += 1
            chain.finalized += 1


def bus_of(replica: FollowingNode) -> dict[str, Any]:
    """What the replica says of the bus."""
    return replica.follower.describe()["upstreams"][0]  # type: ignore[no-any-return]


def checkpoint_of(replica: FollowingNode, number: int) -> StoredCheckpoint:
    stored = replica.ingestor.view.checkpoint(number)
    assert stored is not None
    return stored


def publisher_of(replica: FollowingNode, name: str) -> dict[str, Any]:
    return next((each for each in bus_of(replica)["publishers"] if each["name"] == name), {})


def test_a_replica_follows_what_a_publisher_publishes(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    publishing = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    for step in range(6):
        with upstream.lock:
            chain.propose(2)
            if step % 2:
                chain.publish()
                chain.proven += 1
        replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()


@pytest.mark.parametrize("seed", range(2))
def test_a_replica_learns_what_a_publisher_says_of_its_network_later_and_what_it_puts_right(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, seed: int
) -> None:
    dice = random.Random(seed)
    said: dict[str, str] = {}

    class Telling(Publisher):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, terms=lambda view: {"headers": dict(said)})

    fleet.publisher(upstream, kind=Telling)
    replica = fleet.replica()
    replica.wait_for(chain)
    for _ in range(4):
        root, contracts = (dice.choice([None, bytes(1) + dice.randbytes(31)]) for _ in range(2))
        said.clear()
        said.update({} if root is None else {"x-aztec-l2circuitsvktreeroot": "0x" + root.hex()})
        said.update({} if contracts is None else {"x-aztec-l2protocolcontractshash": "0x" + contracts.hex()})
        grow(chain, upstream)
        replica.wait_for(chain)
        told = NetworkValues(root, contracts)
        wait_until(lambda told=told: replica.origins.network_values() == told)  # type: ignore[misc]


def test_a_replica_follows_a_reorg(fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    publishing = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    with upstream.lock:
        chain.undo_to(chain.tip - 4)
        chain.propose(7)
        chain.publish()
    publishing.node.wait_for(chain)
    replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()
    assert replica.follower.reorg_count == 1


def test_a_replica_learns_of_a_checkpoint_that_a_reorg_of_l1_has_moved(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the publisher was not running meanwhile."""
    monkeypatch.setattr(moved_checkpoints, "LOOK_S", 0.05)

    def move(block: int) -> None:
        with upstream.lock:
            for unit in chain.units[3:]:
                if unit.published is not None:
                    unit.published["l1"] = unit.published["l1"] | {"blockNumber": str(block + unit.number)}

    publishing = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    move(1000)
    replica.wait(lambda: b'"1006"' in checkpoint_of(replica, 6).l1_json)
    assert b'"1004"' in checkpoint_of(replica, 4).l1_json
    publishing.close()
    move(2000)
    fleet.publisher(upstream)
    replica.wait(lambda: b'"2006"' in checkpoint_of(replica, 6).l1_json)
    assert b'"2004"' in checkpoint_of(replica, 4).l1_json


def test_a_checkpoint_comes_with_its_own_messages_and_not_with_those_of_a_lost_first_block(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    assert replica.origins.bus is not None
    bus = replica.origins.bus
    for unit in chain.units[:-1]:
        bus.remember_messages(unit.number, ["0x" + "07" * 32])
        assert bus.call("fastnode_getL1ToL2Messages", unit.number) == unit.messages


def test_what_is_pushed_is_not_fetched(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After three seconds without a word it looks itself, and may be there before what is pushed.
    monkeypatch.setattr("fastnode.bus.upstream.QUIET_S", PATIENCE_S)
    fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    fetched = -1
    while bus_of(replica)["fetched"] != fetched:  # it listens a moment after it has read what there was
        fetched = bus_of(replica)["fetched"]
        grow(chain, upstream, 1)
        replica.wait_for(chain)
    grow(chain, upstream, 3)
    replica.wait_for(chain)
    assert bus_of(replica)["fetched"] == fetched
    assert bus_of(replica)["gaps"] == 0


def test_a_content_that_is_larger_than_a_message_comes_in_parts(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing_module, "PART_BYTES", 1000)
    publishing = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    assert replica.contents() == publishing.node.contents()


def test_a_bus_that_goes_away_stops_nothing_but_new_blocks(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer
) -> None:
    fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    tip = replica.tips.proposed.number
    server.stop()
    replica.wait(lambda: "bus" in (replica.follower.trouble or ""))
    assert replica.follower.describe()["state"] == "degraded"
    grow(chain, upstream, 2)
    assert replica.ingestor.view.header_json(tip) is not None
    assert replica.tips.proposed.number == tip
    server.start()
    replica.wait_for(chain)
    assert bus_of(replica)["reconnections"] >= 1


@pytest.mark.parametrize("harm", ["purged", "deleted", "begun again by another publisher"])
def test_a_stream_that_is_purged_or_made_anew_is_filled_again(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, harm: str
) -> None:
    publishing = fleet.publisher(upstream)
    replica = fleet.replica(name="old")
    replica.wait_for(chain)
    stream = publishing.subjects.stream
    if harm == "deleted":
        publishing.bus._api(f"STREAM.DELETE.{stream}", {})
    else:
        publishing.bus.purge(stream)
    if harm.startswith("begun again"):
        publishing.publisher._send_genesis(publishing.node.ingestor.view)
    grow(chain, upstream)
    replica.wait_for(chain)
    fleet.replica(name="new").wait_for(chain)


@pytest.mark.parametrize("looks", range(4))
def test_a_header_whose_block_is_purged_meanwhile_is_not_there(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, looks: int
) -> None:
    """After so many looks at the stream."""
    fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    [found] = replica.origins.upstreams.all
    assert isinstance(found, BusUpstream)
    references, left, here = found.references, iter(range(looks)), threading.current_thread()

    def purged(publisher: Any, subjects: Sequence[str]) -> list[Reference | None]:
        if threading.current_thread() is here and next(left, None) is None:
            return [None] * len(subjects)
        return references(publisher, subjects)

    found.references = purged  # type: ignore[method-assign]
    found.header_of = lambda _: None  # type: ignore[method-assign]
    header = found.call("node_getBlockHeader", 1)
    assert (header is None) is (looks < 2)


def test_a_publisher_that_starts_again_goes_on_where_it_was(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    first = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    first.close()
    grow(chain, upstream, 2)
    second = fleet.publisher(upstream)
    replica.wait_for(chain)
    assert second.bus.counts["published"] < first.bus.counts["published"]


def test_a_reorg_of_what_a_publisher_had_published_before_it_started_again(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with upstream.lock:
        chain.publish()
    first = fleet.publisher(upstream)
    replica = fleet.replica()
    replica.wait_for(chain)
    first.close()
    second = fleet.publisher(upstream)
    replica.wait(lambda: second.publisher.describe()["publishedBlock"] == chain.tip)
    with upstream.lock:
        tip = chain.tip
        chain.undo_to(tip - 2)
        chain.propose(2)  # as many as were lost
        chain.publish()
    second.node.wait_for(chain)
    replica.wait_for(chain)
    assert chain.tip == tip


# ---- several publishers -----------------------------------------------------------------------------------


def contents_of_checkpoints(publishing: PublishingNode, count: int) -> list[str]:
    """The digests that its checkpoints refer to."""
    subjects, name = publishing.subjects, publishing.bus.options.name
    names = [subjects.checkpoint(name, number) for number in range(1, count + 1)]
    messages = publishing.bus.lasts(subjects.stream, names)
    return [Reference.of(orjson.loads(message.data)).digest for message in messages if message is not None]


def test_what_two_publishers_give_alike_is_there_once_and_one_is_enough(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    one = fleet.publisher(upstream, "one")
    replica = fleet.replica()
    replica.wait_for(chain)
    two = fleet.publisher(upstream, "two")
    replica.wait(lambda: publisher_of(replica, "two").get("tip") == chain.tip)
    digests = contents_of_checkpoints(one, chain.checkpoint_count)
    assert len(set(digests)) == chain.checkpoint_count
    assert contents_of_checkpoints(two, chain.checkpoint_count) == digests
    followed, other = ("one", two) if publisher_of(replica, "one")["isFollowed"] else ("two", one)
    (one if followed == "one" else two).close()
    grow(chain, upstream, 2)
    replica.wait_for(chain)
    assert not publisher_of(replica, followed)["isFollowed"]
    assert other.publisher.trouble is None


class LyingPublisher(Publisher):
    """Its blocks have another content than their hashes say."""

    def _line_of_checkpoint(self, chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
        return self._changed(super()._line_of_checkpoint(chain, checkpoint))

    def _line_of_block(self, chain: ChainView, number: int) -> bytes:
        return self._changed(super()._line_of_block(chain, number))

    def _changed(self, line: bytes) -> bytes:
        place = line.find(b'"noteHashes":["0x')
        if place < 0:  # a block without any
            return line
        place += len(b'"noteHashes":["0x')
        return line[: place + 20] + (b"1" if line[place + 20 : place + 21] == b"0" else b"0") + line[place + 21 :]


def test_a_publisher_whose_blocks_do_not_verify_is_named_and_ignored(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, caplog: pytest.LogCaptureFixture
) -> None:
    liar = fleet.publisher(upstream, "zliar", LyingPublisher)  # of two that are level the last is chosen
    replica = fleet.replica()
    replica.wait(lambda: "zliar" in str(bus_of(replica).get("reason") or replica.follower.trouble))
    assert replica.tips.proposed.number == 0
    honest = fleet.publisher(upstream, "honest")
    replica.wait_for(chain)
    assert replica.contents() == honest.node.contents()
    ignored = [record for record in caplog.records if record.message == "publisher ignored"]
    assert ignored
    assert ignored[0].facts["publisher"] == "zliar"  # type: ignore[attr-defined]
    assert liar.publisher.trouble is None


def test_of_two_publishers_on_different_forks_one_is_followed_until_it_falls_silent(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        (tmp_path / "other").mkdir()
        other = stack.enter_context(made_chain(tmp_path / "other"))
        for blocks in (1, 2, 3):
            other.checkpoint(blocks)
        other_upstream = stack.enter_context(scripted_upstream(other))
        one = fleet.publisher(upstream, "one")
        replica = fleet.replica()
        replica.wait_for(chain)
        fleet.publisher(other_upstream, "two")
        replica.wait(lambda: publisher_of(replica, "two").get("tip") == other.tip)
        grow(chain, upstream)
        replica.wait_for(chain)
        assert replica.follower.reorg_count == 0
        with other_upstream.lock:
            while other.tip <= chain.tip + 2:
                other.propose(1)
        one.close()
        replica.wait(lambda: replica.tips.proposed == other.tips().proposed)
        assert replica.follower.reorg_count == 1


# ---- others stand in --------------------------------------------------------------------------------------


def test_an_upstream_stands_in_while_the_bus_is_away(
    fleet: Fleet, chain: MadeChain, upstream: ScriptedUpstream, server: NatsServer
) -> None:
    fleet.publisher(upstream)
    replica = fleet.replica(upstream.url)
    replica.wait_for(chain)
    server.stop()
    grow(chain, upstream, 2)
    replica.wait_for(chain)
    server.start()
    wait: Callable[[Callable[[], object]], None] = replica.wait
    wait(lambda: bus_of(replica)["state"] == "healthy")
    grow(chain, upstream)
    replica.wait_for(chain)
