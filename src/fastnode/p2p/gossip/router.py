"""gossipsub 1.1 as a state machine, without sockets and without a clock.

    peers        who is connected, what they subscribe to
    mesh         for each topic, with whom messages are exchanged as they come
    cache, seen  gossip_cache.py
    back-off     how long a peer that was pruned, or has pruned us, is not grafted

What comes goes in with :meth:`Gossip.receive`, which returns the messages to be judged; what they are worth comes
back with :meth:`Gossip.judge`; what is to be sent is taken with :meth:`Gossip.take_output`.  Messages carry data and
topic only (StrictNoSign).  Numbers are those of release 4.x (facts of the network, section 3).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from fastnode.errors import PeerFault
from fastnode.kernels import peer_frames
from fastnode.p2p.gossip import wire
from fastnode.p2p.gossip.cache import KeptMessages, MessageCache, Pending, PendingMessages, SeenMessages, Verdict
from fastnode.p2p.gossip.scores import PeerScores
from fastnode.p2p.gossip.topics import Topic, decompressed, message_id, pack
from fastnode.p2p.gossip.wire import PRUNE_BACKOFF_S, GossipOptions, Incoming
from fastnode.p2p.transport.limits import Limits
from fastnode.records import dataclass

__all__ = ["Gossip"]

#: Numbers of the network.
_BACKOFF_SLACK_S: Final = 1.0
_BACKOFF_MAX_S: Final = 3600
_GRAFT_FLOOD_S: Final = 10.0
_IHAVE_IDS_MAX: Final = 5000
_IHAVE_MESSAGES_MAX: Final = 10
#: Offers to one peer between two heartbeats; with those of the heartbeats, one for each topic, no more than it reads.
_OFFERS_MAX: Final = 4
_PROMISE_S: Final = 3.0
_GOSSIP_FACTOR: Final = 0.25
_BEST_KEPT: Final = 4
_OUTBOUND_MIN: Final = 2
_OPPORTUNISTIC_BEATS: Final = 60
_OPPORTUNISTIC_PEERS: Final = 2


@dataclass(slots=True)
class _Peer:
    is_outbound: bool
    is_direct: bool
    topics: set[str] = field(default_factory=set)
    ihave_messages: int = 0
    asked_ids: int = 0
    offers: int = 0


class Gossip:
    """Gossip of one node.  ``names``: the topics that it takes part in.  ``frames_topic``: whether ids of messages
    count the bytes of the topic."""

    def __init__(
        self,
        names: Mapping[Topic, str],
        scores: PeerScores,
        *,
        options: GossipOptions | None = None,
        limits: Limits | None = None,
        dice: random.Random | None = None,
        frames_topic: bool = False,
    ) -> None:
        self._frames_topic = frames_topic
        self.options = options or GossipOptions()
        self.scores = scores
        self._limits = limits or Limits()
        self._dice = dice or random.SystemRandom()
        self._names = dict(names)
        self._topics = {name: topic for topic, name in names.items()}
        self._peers: dict[str, _Peer] = {}
        self.mesh: dict[str, set[str]] = {name: set() for name in self._topics}
        self._backoff: dict[tuple[str, str], float] = {}  # topic, peer
        self._seen = SeenMessages(self.options.seen_ttl_s, self.options.seen_count_max * len(self._names))
        self._cache = MessageCache(self.options.cache_windows, self.options.gossiped_windows)
        self._kept = KeptMessages()
        self._pending = PendingMessages()
        self._promises: dict[bytes, dict[str, float]] = {}
        self._output: dict[str, list[bytes]] = {}
        self._beats = 0
        self._beat_at: float | None = None
        #: Counts of events: (topic, "received" | "published" | "forwarded" | "duplicate" | a verdict | ...).
        self.counts: Counter[tuple[str, str]] = Counter()

    # ---- peers -------------------------------------------------------------------------------

    def add_peer(self, peer: str, address: str, *, is_outbound: bool, is_direct: bool = False) -> None:
        """It is connected, and messages can be sent to it from now on."""
        self._peers[peer] = _Peer(is_outbound, is_direct)
        self.scores.add(peer, address)
        self._send(peer, wire.subscriptions(self._topics))

    def remove_peer(self, peer: str, now: float) -> None:
        if self._peers.pop(peer, None) is None:
            return
        for mesh in self.mesh.values():
            mesh.discard(peer)
        for promised in self._promises.values():
            promised.pop(peer, None)
        self._output.pop(peer, None)
        self._kept.forget_peer(peer)
        self.scores.remove(peer, now)

    def knows(self, peer: str) -> bool:
        return peer in self._peers

    def mesh_sizes(self) -> dict[Topic, int]:
        return {topic: len(self.mesh[name]) for topic, name in self._names.items()}

    @property
    def held_bytes(self) -> int:
        return self._pending.held_bytes + self._cache.held_bytes + self._kept.held_bytes

    # ---- output ------------------------------------------------------------------------------

    def take_output(self) -> list[tuple[str, bytes]]:
        """Peers, and complete messages to send them, each behind its length."""
        out = [(peer, rpc) for peer, rpcs in self._output.items() for rpc in rpcs]
        self._output.clear()
        return out

    def _send(self, peer: str, rpc: bytes) -> None:
        self._output.setdefault(peer, []).append(peer_frames.write_varint(len(rpc)) + rpc)

    def _control(self, peer: str, *parts: tuple[int, bytes]) -> None:
        if parts:
            self._send(peer, wire.control(*parts))

    # ---- input -------------------------------------------------------------------------------

    def receive(self, peer: str, rpc: bytes, now: float) -> list[Incoming]:
        """Messages to be judged.  PeerFault for what is no message of gossip."""
        state = self._peers.get(peer)
        if state is None:
            return []
        if not state.is_direct and self.scores.score(peer) < self.scores.parameters.graylist_threshold:
            self.counts["", "graylisted"] += 1
            return []
        limits = self._limits
        try:
            subscriptions, messages, ihave, iwant, graft, prune, left_out = peer_frames.read_rpc(
                rpc, items_max=limits.rpc_items_max, ids_max=limits.rpc_ids_max, topic_bytes_max=200
            )
        except ValueError as error:
            raise PeerFault(f"gossip: {error}") from error
        if left_out:
            self.counts["", "left out"] += left_out
        self._subscribe(peer, state, subscriptions, now)
        taken = [found for message in messages if (found := self._take(peer, *message, now)) is not None]
        self._on_iwant(peer, iwant)
        self._control(
            peer,
            *self._on_ihave(peer, state, ihave, now),
            *self._on_graft(peer, state, graft, now),
        )
        self._on_prune(peer, prune, now)
        return taken

    def _subscribe(self, peer: str, state: _Peer, subscriptions: list[tuple[bool, bytes]], now: float) -> None:
        for is_wanted, raw in subscriptions:
            name = raw.decode("utf-8", "replace")
            if name not in self._topics:
                continue
            if is_wanted:
                if name not in state.topics:
                    self._give_kept(peer, name, now)
                state.topics.add(name)
            else:
                state.topics.discard(name)
                self._leave(peer, name)

    def _take(self, peer: str, raw_topic: bytes, sent: bytes, is_bare: bool, now: float) -> Incoming | None:
        name = raw_topic.decode("utf-8", "replace")
        topic = self._topics.get(name)
        if topic is None:
            return None
        try:
            if not is_bare:
                raise PeerFault("a message is signed")
            data = decompressed(topic, sent)
        except PeerFault:
            self.counts[topic.value, "invalid"] += 1
            self.scores.delivered_invalid((peer,), name)
            return None
        identity = message_id(name, data, frames_topic=self._frames_topic)
        self._promises.pop(identity, None)
        if identity in self._seen:
            self._take_again(peer, identity, topic, now)
            return None
        if not self._pending.add(identity, Pending(topic, sent, peer, len(sent) + len(data))):
            self.counts[topic.value, "no room"] += 1
            return None
        self.counts[topic.value, "received"] += 1
        self._seen.add(identity, name, now)
        return Incoming(topic, identity, data, peer)

    def _take_again(self, peer: str, identity: bytes, topic: Topic, now: float) -> None:
        self.counts[topic.value, "duplicate"] += 1
        seen = self._seen.get(identity)
        if seen is None or peer in seen.peers:
            return
        if seen.verdict is Verdict.REJECT:
            self.scores.delivered_invalid((peer,), seen.topic)
            return
        seen.peers.add(peer)
        window = self.scores.parameters.topics[seen.topic].deliveries_window_s
        if seen.verdict is Verdict.ACCEPT and now - seen.judged_at <= window:
            self.scores.delivered_again((peer,), seen.topic)

    # ---- control -----------------------------------------------------------------------------

    def _on_ihave(
        self, peer: str, state: _Peer, ihave: list[tuple[bytes, list[bytes]]], now: float
    ) -> list[tuple[int, bytes]]:
        if not ihave or self.scores.score(peer) < self.scores.parameters.gossip_threshold:
            return []
        state.ihave_messages += 1
        if state.ihave_messages > _IHAVE_MESSAGES_MAX:
            return []
        offered = (
            identity for topic, ids in ihave if topic.decode("utf-8", "replace") in self.mesh for identity in ids
        )
        wanted = list(dict.fromkeys(identity for identity in offered if identity not in self._seen))
        wanted = wanted[: max(0, _IHAVE_IDS_MAX - state.asked_ids)]
        if not wanted:
            return []
        state.asked_ids += len(wanted)
        # One of them is remembered as a promise, as the reference does: to remember all would be their choice.
        promise = self._dice.choice(wanted)
        self._promises.setdefault(promise, {}).setdefault(peer, now + _PROMISE_S)
        return [wire.iwant(wanted)]

    def _on_iwant(self, peer: str, ids: list[bytes]) -> None:
        if not ids or self.scores.score(peer) < self.scores.parameters.gossip_threshold:
            return
        for identity in dict.fromkeys(ids):
            found = self._cache.get_for(peer, identity)
            if found is not None:
                self.counts[self._topics[found[0]].value, "given"] += 1
                self._send(peer, wire.message(*found))

    def _on_graft(self, peer: str, state: _Peer, topics: list[bytes], now: float) -> list[tuple[int, bytes]]:
        refused = []
        for raw in dict.fromkeys(topics):
            name = raw.decode("utf-8", "replace")
            if name not in self.mesh or peer in self.mesh[name]:
                continue
            if self._accepts(peer, state, name, now):
                self._join(peer, name, now)
            else:
                self._backoff[name, peer] = now + PRUNE_BACKOFF_S
                refused.append(wire.prune(name))
        return refused

    def _accepts(self, peer: str, state: _Peer, name: str, now: float) -> bool:
        """True if a GRAFT is taken; during the back-off it is held against the peer."""
        until = self._backoff.get((name, peer), 0.0)
        if now < until and not state.is_direct:
            # At once after the prune it counts twice.
            is_flood = now < until - PRUNE_BACKOFF_S + _GRAFT_FLOOD_S
            self.scores.misbehaved(peer, 2 if is_flood else 1)
            return False
        is_full = len(self.mesh[name]) >= self.options.degree_high and not state.is_outbound
        return not state.is_direct and not is_full and self._suits(peer, len(self.mesh[name]), self.scores.score(peer))

    def _suits(self, peer: str, others: int, score: float) -> bool:
        """True if a peer may be in a mesh of so many others.  One that has delivered too little, and nothing wrong,
        is better than none, and what is lost with a prune is not had again for a minute."""
        return score >= 0 or (others < self.options.degree_low and self.scores.score(peer, counts_deficits=False) >= 0)

    def _on_prune(self, peer: str, prune: list[tuple[bytes, int]], now: float) -> None:
        for raw, backoff in prune:
            name = raw.decode("utf-8", "replace")
            if name in self.mesh:
                self._leave(peer, name)
                self._backoff[name, peer] = now + min(backoff or PRUNE_BACKOFF_S, _BACKOFF_MAX_S)

    def _join(self, peer: str, name: str, now: float) -> None:
        self.mesh[name].add(peer)
        self.scores.graft(peer, name, now)

    def _leave(self, peer: str, name: str) -> None:
        if peer in self.mesh[name]:
            self.mesh[name].discard(peer)
            self.scores.prune(peer, name)

    # ---- messages ----------------------------------------------------------------------------

    def judge(self, identity: bytes, verdict: Verdict, now: float) -> int:
        """Apply the verdict on a message; to how many peers it was forwarded.  No-op for one that was judged before."""
        pending = self._pending.pop(identity)
        if pending is None:
            return 0
        name = self._names[pending.topic]
        self.counts[pending.topic.value, verdict.value] += 1
        seen = self._seen.get(identity)
        others = set() if seen is None else seen.peers
        if seen is not None:
            seen.verdict, seen.judged_at = verdict, now
        if verdict is Verdict.REJECT:
            self.scores.delivered_invalid({pending.peer, *others}, name)
            return 0
        if verdict is Verdict.IGNORE:
            return 0
        self.scores.delivered_first(pending.peer, name)
        self.scores.delivered_again(others - {pending.peer}, name)
        self._cache.put(identity, name, pending.sent)
        return self._spread(name, identity, pending.sent, {pending.peer, *others}, self._forward_to(name), "forwarded")

    def pass_over(self, identity: bytes) -> bool:
        """Do not judge what a banned peer has sent; it may come again from others.  False if one of them has sent it
        already: then it is to be judged."""
        seen = self._seen.get(identity)
        if seen is not None and seen.peers:
            return False
        pending = self._pending.pop(identity)
        if pending is not None:
            self.counts[pending.topic.value, "passed over"] += 1
            self._seen.forget(identity)
        return True

    def _give_kept(self, peer: str, name: str, now: float) -> None:
        """Send a peer, which takes part in the topic from now on, what this node has published there."""
        sent = self._kept.take_for(peer, name, now)
        for each in sent:
            self._send(peer, wire.message(name, each))
        self.counts[self._topics[name].value, "published"] += len(sent)

    def publish(self, topic: Topic, payload: bytes, now: float, *, until: float = 0.0) -> int | None:
        """To how many peers a message of ours went; None if it was seen before.

        ``until``: who takes part in the topic later, and before then, gets it too, as one that has just lost its
        connection.  Otherwise one that went to no peer may be tried again.
        """
        name = self._names.get(topic)
        if name is None:
            return 0
        data, sent = pack(payload)
        identity = message_id(name, data, frames_topic=self._frames_topic)
        if identity in self._seen:
            return None
        peers = self._publish_to(name)
        if now < until:
            self._kept.put(name, sent, until, set(peers))
        elif not peers:
            return 0
        seen = self._seen.add(identity, name, now)
        seen.verdict, seen.judged_at = Verdict.ACCEPT, now
        self._cache.put(identity, name, sent)
        return self._spread(name, identity, sent, set(), peers, "published")

    def _forward_to(self, name: str) -> set[str]:
        direct = {peer for peer, state in self._peers.items() if state.is_direct and name in state.topics}
        return self.mesh[name] | direct

    def _publish_to(self, name: str) -> set[str]:
        threshold = self.scores.parameters.publish_threshold
        chosen = self._forward_to(name)
        others = [
            peer
            for peer, state in self._peers.items()
            if name in state.topics and peer not in chosen and self.scores.score(peer) >= threshold
        ]
        if self.options.flood_publish:
            return chosen | set(others)
        missing = max(0, self.options.degree - len(chosen))
        return chosen | set(self._sample(others, missing))

    def _spread(self, name: str, identity: bytes, sent: bytes, known: set[str], chosen: set[str], what: str) -> int:
        """Send it to the chosen ones, and offer it to others, except those to which it is known."""
        rpc, peers = wire.message(name, sent), chosen - known
        for peer in peers:
            self._send(peer, rpc)
        for peer in self._sample(self._outside(name, known | chosen), self.options.degree_lazy):
            # At once: who is in no mesh of this node would hear of it at the next heartbeat only.
            if self._peers[peer].offers < _OFFERS_MAX:
                self._peers[peer].offers += 1
                self._control(peer, wire.ihave(name, [identity]))
        self.counts[self._topics[name].value, what] += len(peers)
        return len(peers)

    def _outside(self, name: str, others: set[str]) -> list[str]:
        """Peers that take part in a topic and hear gossip of it, without ``others``."""
        threshold = self.scores.parameters.gossip_threshold
        return [
            peer
            for peer, state in self._peers.items()
            if name in state.topics
            and peer not in others
            and not state.is_direct
            and self.scores.score(peer) >= threshold
        ]

    # ---- heartbeat ---------------------------------------------------------------------------

    def heartbeat(self, now: float) -> None:
        """To be called every ``heartbeat_s``."""
        self._beats += 1
        # When this node did not run in time, what peers have delivered meanwhile is not read yet.
        late_s = 0.0 if self._beat_at is None else now - self._beat_at - self.options.heartbeat_s
        self._beat_at = now
        if late_s > self.options.heartbeat_s:
            self._promises = {
                identity: {peer: until + late_s for peer, until in promised.items()}
                for identity, promised in self._promises.items()
            }
        self._count_broken_promises(now)
        for state in self._peers.values():
            state.ihave_messages = state.asked_ids = state.offers = 0
        self._backoff = {key: until for key, until in self._backoff.items() if now < until + _BACKOFF_SLACK_S}
        score = {peer: self.scores.score(peer) for peer in self._peers}
        changes: dict[str, list[tuple[int, bytes]]] = {}
        for name in self.mesh:
            self._tend_mesh(name, score, now, changes)
        for peer, parts in changes.items():
            self._control(peer, *parts)
        for name in self.mesh:
            self._gossip(name)
        self._cache.shift()
        self._kept.forget_old(now)
        self._seen.forget_old(now)

    def _count_broken_promises(self, now: float) -> None:
        for identity, promised in list(self._promises.items()):
            for peer, until in list(promised.items()):
                if now > until:
                    self.scores.misbehaved(peer)
                    self.counts["", "broken promises"] += 1
                    del promised[peer]
            if not promised:
                del self._promises[identity]

    def _tend_mesh(
        self, name: str, score: dict[str, float], now: float, changes: dict[str, list[tuple[int, bytes]]]
    ) -> None:
        options, mesh = self.options, self.mesh[name]

        def prune(peer: str) -> None:
            self._leave(peer, name)
            self._backoff[name, peer] = now + PRUNE_BACKOFF_S
            changes.setdefault(peer, []).append(wire.prune(name))

        def graft(peers: Iterable[str]) -> None:
            for peer in peers:
                self._join(peer, name, now)
                changes.setdefault(peer, []).append(wire.graft(name))

        for peer in sorted(mesh, key=lambda peer: score[peer]):
            if not self._suits(peer, len(mesh) - 1, score[peer]):
                prune(peer)
        if len(mesh) < options.degree_low:
            graft(self._sample(self._graftable(name, score, now), options.degree - len(mesh)))
        if len(mesh) > options.degree_high:
            for peer in self._surplus(mesh, score):
                prune(peer)
        outbound = sum(self._peers[peer].is_outbound for peer in mesh)
        if len(mesh) >= options.degree_low and outbound < _OUTBOUND_MIN:
            found = [peer for peer in self._graftable(name, score, now) if self._peers[peer].is_outbound]
            graft(self._sample(found, _OUTBOUND_MIN - outbound))
        if self._beats % _OPPORTUNISTIC_BEATS == 0 and len(mesh) > 1:
            median = sorted(score[peer] for peer in mesh)[len(mesh) // 2]
            if median < self.scores.parameters.opportunistic_threshold:
                better = [peer for peer in self._graftable(name, score, now) if score[peer] > median]
                graft(self._sample(better, _OPPORTUNISTIC_PEERS))

    def _graftable(self, name: str, score: dict[str, float], now: float) -> list[str]:
        mesh = self.mesh[name]
        return [
            peer
            for peer, state in self._peers.items()
            if name in state.topics
            and peer not in mesh
            and not state.is_direct
            and self._suits(peer, len(mesh), score[peer])
            and now >= self._backoff.get((name, peer), 0.0) + _BACKOFF_SLACK_S
        ]

    def back_offs(self, now: float) -> dict[tuple[str, str], float]:
        """Topics and peers that may not be grafted yet, and for how many seconds."""
        return {key: until - now for key, until in self._backoff.items() if until > now}

    def keep_back_offs(self, remaining_s: Mapping[tuple[str, str], float], now: float) -> None:
        """Take over back-offs of the last run: a GRAFT before their end would be held against this node."""
        for (name, peer), seconds in remaining_s.items():
            if name in self.mesh and 0 < seconds <= _BACKOFF_MAX_S:
                self._backoff[name, peer] = now + seconds

    def _surplus(self, mesh: set[str], score: dict[str, float]) -> list[str]:
        """Peers to prune of a mesh that is too large: not the best, nor the last ones that this node has dialled."""
        ranked = sorted(mesh, key=lambda peer: score[peer], reverse=True)
        kept, rest = ranked[:_BEST_KEPT], ranked[_BEST_KEPT:]
        self._dice.shuffle(rest)
        outbound = sum(self._peers[peer].is_outbound for peer in kept)
        rest.sort(key=lambda peer: self._peers[peer].is_outbound and outbound < _OUTBOUND_MIN, reverse=True)
        return rest[self.options.degree - len(kept) :]

    def _gossip(self, name: str) -> None:
        """Tell some who are not in the mesh what there is."""
        ids = self._cache.gossiped_ids(name)[:_IHAVE_IDS_MAX]
        if not ids:
            return
        others = self._outside(name, self.mesh[name])
        count = max(self.options.degree_lazy, int(_GOSSIP_FACTOR * len(others)))
        for peer in self._sample(others, count):
            self._control(peer, wire.ihave(name, ids))

    def _sample(self, peers: list[str], count: int) -> list[str]:
        return self._dice.sample(peers, min(count, len(peers))) if count > 0 else []
