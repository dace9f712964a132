"""A fleet in a world: some of its nodes publish on a bus, others follow it, and all share their transactions there.

    servers     one, or two of a cluster; they are killed, lose power and what they had not synced, have no leader, do
                not push or acknowledge what they stored, answer from a copy that is behind
    operator    purges or deletes the stream of blocks
    publishers  one at least, which is killed as any node; one may lie: about blocks, what it refers to, where it is

What must hold is what holds in every world (checks.py), and: who reaches no server says so, no two nodes that live hand
on one transaction, and in a calm nothing is left to be handed on, all that a publisher has is on the bus, and all say
that nothing is wrong.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.bus_server import BUS_PORT, BusFaults, BusServer, JetStream
from tests.simulation.peer_wire import PathFaults, PeerWire
from tests.simulation.peer_world import _Policy
from tests.simulation.scheduler import EPOCH, Loop, the_world
from tests.simulation.world import NodeOfWorld, Violation

from fastnode.bus import connection, handing_on, members, publisher, publishers, transactions, upstream
from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.handing_on import TAKEN, HandingOn
from fastnode.bus.publisher import Publisher
from fastnode.protocol.releases import FOUR

if TYPE_CHECKING:
    from tests.simulation.story import Story

__all__ = ["Fleet"]

_Action = Callable[[random.Random], None]
#: Part of the worlds that have a bus: it takes as much processor time as the rest of a world.
SHARE: Final = 0.2
#: Seconds after which a node must have seen that no server answers: two pings, and the limit of a request.
_SEEN_S: Final = 20.0
#: Seconds between looks, and between signs of life, in long stories; and between those at the connection.
LONG_LOOK_S: Final = 12.0
LONG_WATCH_S: Final = 4.0
#: Parts of what a lying publisher says that are lies.
_LIES: Final = (0.05, 0.5)


def _tell_less_often() -> None:
    """Looks and signs of life of a long story, which is mostly of those that find nothing."""
    transactions.POLL_S = transactions.LOOK_S = handing_on.LOOK_S = LONG_LOOK_S  # type: ignore[misc]
    members.HEARTBEAT_S = publisher.HEARTBEAT_S = upstream.LOOK_S = LONG_LOOK_S  # type: ignore[misc]
    members.DEAD_S, members.KEPT_S = 3 * LONG_LOOK_S, 6 * LONG_LOOK_S  # type: ignore[misc]
    publishers.SILENT_S = 2 * LONG_LOOK_S  # type: ignore[misc]
    connection.WATCH_S = LONG_WATCH_S  # type: ignore[misc]


class Fleet:
    """``is_there``: the seed says that this world has a bus."""

    def __init__(self, story: Story) -> None:
        self._story, self._world = story, story.world
        plot = self._world.chance("bus")
        self.is_there = story._has("bus") and plot.random() < SHARE and self._world.release is FOUR
        self.names: list[str] = []
        if not self.is_there:
            return
        world = self._world
        self._dice = world.chance("deeds of the bus")
        self._silence = world.chance("silence of L1 beside lies")
        self._plot = plot
        self.wire = PeerWire(world.chance("wire of the bus"), world.wire.host_of, cut=world.wire.cut)
        self.store = JetStream(self._dice, lambda: EPOCH + world.now)
        self.servers = [
            BusServer(f"bus-{number}", self.wire, self.store, self._dice)
            for number in range(1, plot.choice([1, 1, 2]) + 1)
        ]
        for server in self.servers:
            server.cluster = self.servers
        self._down_since: float | None = None
        self._lost_at = -members.DEAD_S
        #: Chance of a lie, by the name of who publishes.
        self._lying: dict[str, float] = {}
        self._has_lied: set[str] = set()
        #: Life of a node by when it was seen first.
        self._lives: dict[str, tuple[object, float]] = {}
        #: Who handed a transaction on last, and when.
        self._handed_on: dict[bytes, tuple[Any, float]] = {}

    # ---- its nodes -------------------------------------------------------------------------------

    @property
    def hosts(self) -> list[str]:
        return [server.name for server in self.servers] if self.is_there else []

    def join(self, kinds: list[dict[str, Any]]) -> None:
        """Put some of these settings of nodes on the bus."""
        if not self.is_there:
            return
        plot = self._plot
        urls = tuple(f"nats://{server.name}:{BUS_PORT}" for server in self.servers)
        for number, kind in enumerate(kinds, 1):
            publishes = number == 1 or (number == 2 and plot.random() < 0.5)
            is_alone = plot.random() < 0.5
            if number > 2 and plot.random() < 0.2:
                continue
            kind |= {"bus_url": urls, "bus_name": f"node-{number}"}
            self.names.append(f"node-{number}")
            if publishes:
                kind["bus_publish"] = True
            elif is_alone:
                kind["upstream_url"] = None

    def open(self) -> None:
        """Once the world is, before its nodes."""
        if self._story.is_long:
            _tell_less_often()
        Loop.peers = self.wire
        asyncio.set_event_loop_policy(_Policy())
        self._world.on_killed.append(self.wire.forget)
        for server in self.servers:
            server.start()
        self._listen()

    @property
    def _nodes(self) -> list[NodeOfWorld]:
        return [node for node in self._world.nodes if node.name in self.names]

    @staticmethod
    def _part(node: NodeOfWorld) -> Any:
        """The part of a node that is on the bus; None while it is not up."""
        if node.node is None:
            return None
        return next((part for part in node.node.equipment.parts if type(part).__name__ == "Fleet"), None)

    def _publishers(self) -> list[NodeOfWorld]:
        return [node for node in self._nodes if node._settings.get("bus_publish")]

    # ---- what is told of by the code itself, and lies ----------------------------------------------

    def _listen(self) -> None:
        forward, publish = HandingOn._forward, Bus._publish
        lines = {name: getattr(Publisher, name) for name in ("_line_of_checkpoint", "_line_of_block")}

        def forwarding(hand: HandingOn, tx_hash: bytes, tx_json: bytes, *more: Any) -> tuple[dict[str, Any], bool]:
            outcome = forward(hand, tx_hash, tx_json, *more)
            if outcome[0]["state"] == TAKEN:
                self._note_handed_on(tx_hash)
            return outcome

        async def publishing(bus: Bus, client: Any, message: Outgoing) -> int | None:
            is_word = ".at." in message.subject or ".chain." in message.subject
            if is_word and self._is_lie(bus.options.name):
                message = replace(message, data=_bent(message.data, self._dice))
            return await publish(bus, client, message)

        def bending(name: str) -> Any:
            def line_of(publisher: Publisher, *arguments: Any) -> bytes:
                line: bytes = lines[name](publisher, *arguments)
                return _bent(line, self._dice) if self._is_lie(publisher._name) else line

            return line_of

        HandingOn._forward = forwarding  # type: ignore[method-assign]
        Bus._publish = publishing  # type: ignore[method-assign]
        for name in lines:
            setattr(Publisher, name, bending(name))

    def _is_lie(self, name: str) -> bool:
        chance = self._lying.get(name, 0.0)
        if chance <= 0 or self._dice.random() >= chance:
            return False
        self._has_lied.add(name)
        self._world.count("lies on the bus")
        return True

    def _note_handed_on(self, tx_hash: bytes) -> None:
        world, task = self._world, the_world().current()
        life: Any = None if task is None else task.group
        before, at = self._handed_on.get(tx_hash, (None, 0.0))
        self._handed_on[tx_hash] = life, world.now
        if before is None or before is life or before.was_killed or self._lost_at >= at:
            return
        if world.now - at < members.DEAD_S:
            world.seen.append(
                Violation(f"{life.name} hands on transaction {tx_hash.hex()[:8]}, as {before.name} did, which lives")
            )

    # ---- trouble -----------------------------------------------------------------------------------

    def troubles(self) -> dict[str, tuple[_Action, ...]]:
        if not self.is_there:
            return {}
        actions = (self.kill_server, self.cut_power, self.lose_leader, self.spoil_server, self.purge, self.part)
        found: dict[str, tuple[_Action, ...]] = {"bus": actions}
        if self._story._has("liar"):
            found["liar"] = (*self._story._liars(), self.lie)
        return found

    def night(self, dice: random.Random) -> None:
        if self.is_there and self._story._has("network"):
            self.wire.faults = PathFaults(
                delay_s=dice.choice([0.01, 0.1, 0.4]),
                slow=dice.choice([0.0, 0.02]),
                lost=dice.choice([0.0, 0.05]),
                broken=dice.choice([0.0, 0.002]),
            )

    def _say(self, what: str) -> None:
        self._world.say("bus", what)

    def _start(self, server: BusServer) -> None:
        if not server.is_up:
            server.start()
            self._world.say(server.name, "starts")
        self._down_since = None

    def _kill(self, servers: list[BusServer], seconds: float) -> None:
        for server in servers:
            if server.is_up:
                server.kill()
            self._story._later(seconds, lambda server=server: self._start(server))  # type: ignore[misc]
        if not any(server.is_up for server in self.servers):
            self._down_since = self._world.now

    def kill_server(self, dice: random.Random) -> None:
        server = dice.choice(self.servers)
        self._world.say(server.name, "is killed")
        self._kill([server], dice.uniform(0, 60))

    def cut_power(self, dice: random.Random) -> None:
        """Of all servers."""
        self._kill(self.servers, dice.uniform(0, 60))
        lost = {stream.name: stream.cut(self._dice) for stream in self.store.streams.values()}
        if any(lost.values()):
            self._lost_at = self._world.now
        self._say(f"loses power, and messages: {lost}")

    def lose_leader(self, dice: random.Random) -> None:
        self.store.has_no_leader = True
        self._say("has no leader")
        self._story._later(dice.uniform(2, 40), lambda: setattr(self.store, "has_no_leader", False))

    def spoil_server(self, dice: random.Random) -> None:
        faults = BusFaults(
            unpushed=dice.choice([0.0, 0.3, 1.0]),
            unacknowledged=dice.choice([0.0, 0.1]),
            behind=dice.choice([0.0, 0.3]) if len(self.servers) > 1 else 0.0,
        )
        self.store.faults = faults
        self._say(f"does not do all that it should: {faults}")
        self._story._later(dice.uniform(5, 90), lambda: setattr(self.store, "faults", BusFaults()))

    def purge(self, dice: random.Random) -> None:
        names = [name for name in sorted(self.store.streams) if name.startswith("fastnode-") and name[-4:] != "-txs"]
        if not names or not any(server.is_up for server in self.servers):
            return
        if dice.random() < 0.5:
            del self.store.streams[names[0]]
            self._world.say("operator", "deletes the stream of blocks")
        else:
            self.store.streams[names[0]].purge()
            self._world.say("operator", "purges the stream of blocks")

    def part(self, dice: random.Random) -> None:
        """Of a node and the bus."""
        node = dice.choice(self._nodes)
        pairs = {(node.name, server.name) for server in self.servers}
        self._world.wire.cut |= pairs
        seconds = dice.choice([3.0, 15.0, 60.0])
        self._world.say("network", f"{node.name} does not reach the bus for {seconds:g} s")

        def undo() -> None:
            self._world.wire.cut -= pairs

        self._story._later(seconds, undo)

    def lie(self, dice: random.Random) -> None:
        node = dice.choice(self._publishers())
        self._lying = {node.name: dice.choice(_LIES)}
        self._world.say(node.name, "lies on the bus")
        seconds = dice.uniform(5, 90)
        self._story._later(seconds, self._lying.clear)
        if self._silence.random() < 0.5:  # nobody can tell
            self._silence_l1(seconds + self._silence.uniform(0, 30))

    def _silence_l1(self, seconds: float) -> None:
        providers = self._world.providers
        self._world.say("L1", "answers nobody")
        for provider in providers.values():
            provider.fails = 1.0
            self._story._later(seconds, partial(setattr, provider, "fails", 0.0))

    # ---- the calm ----------------------------------------------------------------------------------

    def rest(self) -> None:
        if not self.is_there:
            return
        self.wire.faults, self.store.faults, self.store.has_no_leader = PathFaults(), BusFaults(), False
        self._lying = {}
        for server in self.servers:
            self._start(server)
        for name in sorted(self._has_lied):
            self._forgive(self._world.node(name))
        self._has_lied.clear()

    def _forgive(self, node: NodeOfWorld) -> None:
        """Do as an operator who removes what a publisher has said, and starts it anew."""
        self._world.say("operator", f"removes what {node.name} has said on the bus")
        if node.is_up:
            node.stop()
        for stream in self.store.streams.values():
            for ending in (f"at.{node.name}", f"chain.{node.name}.*"):
                stream.purge(pattern=f"{stream.name}.{ending}")

    def look(self) -> None:
        if not self.is_there:
            return
        for node in self._nodes:
            life, since = self._lives.get(node.name, (None, 0.0))
            part = self._part(node)
            if part is None or life is not node.process:
                self._lives[node.name] = node.process, self._world.now
                continue
            is_alone = self._down_since is not None and self._world.now - max(self._down_since, since) > _SEEN_S
            if is_alone and part.troubles()["bus"] is None:
                raise Violation(f"{node.name} does not say that no server of the bus answers")

    def missing(self) -> Iterator[str]:
        """In a calm: what is not as it should be yet."""
        if not self.is_there:
            return
        parts = {node.name: self._part(node) for node in self._nodes}
        hands_on = any(part is not None and part._txs._hands_on for part in parts.values())
        for node in self._nodes:
            part = parts[node.name]
            if part is None:
                yield f"{node.name} is not on the bus"
                continue
            wrong = {name: reason for name, reason in part.troubles().items() if reason is not None}
            if wrong:
                yield f"{node.name} says of the bus {wrong}"
            health = getattr(part._upstream, "health", None)
            if health is not None and not health.is_healthy:
                yield f"{node.name} does not follow the bus: {health.reason}"
            pool = node.node.core.mempool.pool  # type: ignore[union-attr]
            entries = [pool.entry(tx_hash) for tx_hash in pool.unforwarded_hashes() if tx_hash not in self._handed_on]
            # One that has expired leaves with the next block, which does not come in a calm.
            now = EPOCH + self._world.now
            waiting = [entry.hash.hex()[:8] for entry in entries if entry is not None and entry.expiration > now]
            if hands_on and waiting:
                yield f"{node.name} has transactions that none has handed on: {waiting}"
            tip = node.node.view.chain.tips.proposed.number  # type: ignore[union-attr]
            if part._publisher.describe().get("publishedBlock", tip) != tip:
                yield f"{node.name} is at block {tip}, and has published up to another"
            yield from self._not_on_the_bus(node, part)

    def _not_on_the_bus(self, node: NodeOfWorld, part: Any) -> Iterator[str]:
        """What a publisher refers to, and is not there: a node that begins now would wait for it for ever."""
        if not part._publisher.describe():
            return
        stream, subjects = self.store.streams.get(part._subjects.stream), part._subjects
        if stream is None:
            yield "there is no stream of blocks"
            return
        chain = node.node.view.chain  # type: ignore[union-attr]
        wanted = [subjects.block(node.name, number) for number in range(1, chain.tips.proposed.number + 1)]
        newest = chain.tips.checkpointed.checkpoint.number
        wanted += [subjects.checkpoint(node.name, number) for number in range(1, newest + 1)]
        for subject in wanted:
            message = stream.newest(subject)
            if message is None:
                yield f"{subject} is not on the bus"
                return
            reference = json.loads(message.data)
            for number in range(reference["parts"]):
                if stream.newest(subjects.content(reference["digest"], number)) is None:
                    yield f"{subject} refers to what is not on the bus"
                    return


def _bent(data: bytes, dice: random.Random) -> bytes:
    """A record with another digit somewhere, of the same form."""
    places = [place for place, digit in enumerate(data) if digit in b"0123456789abcdef"]
    for _ in range(20):
        changed = bytearray(data)
        changed[dice.choice(places)] = dice.choice(b"0123456789abcdef")
        try:
            json.loads(changed)
        except ValueError:
            continue
        return bytes(changed)
    return data
