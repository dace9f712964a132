"""Words in the name of a publisher that are not its own: replicas stay with it."""

from __future__ import annotations

import random

import orjson
import pytest
from tests.bus.conftest import Fleet, PublishingNode
from tests.bus.nats import NatsServer, open_bus
from tests.bus.test_following import grow, publisher_of
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.connection import Bus
from fastnode.bus.subjects import BUS_VERSION, Reference

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
