"""Gossipsub scores of peers, by the reference's formulas (score_parameters.py), without a clock of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Final

from fastnode.p2p.gossip.score_parameters import ScoreParameters, TopicParameters
from fastnode.records import dataclass

__all__ = ["PeerScores"]

#: Peers that have gone and whose scores are kept; the oldest are forgotten first.
GONE_MAX: Final = 5000


@dataclass(slots=True)
class _TopicCounts:
    is_in_mesh: bool = False
    grafted_at: float = 0.0
    mesh_s: float = 0.0
    is_active: bool = False
    first: float = 0.0
    deliveries: float = 0.0
    failure: float = 0.0
    invalid: float = 0.0


@dataclass(slots=True)
class _PeerCounts:
    address: str
    behaviour: float = 0.0
    #: None while it is connected.
    forgotten_at: float | None = None
    topics: dict[str, _TopicCounts] = field(default_factory=dict)


class PeerScores:
    """``application``: the score that the node itself gives a peer.  Times are of one monotonic clock, in s."""

    def __init__(self, parameters: ScoreParameters, application: Callable[[str], float]) -> None:
        self.parameters = parameters
        self._application = application
        self._peers: dict[str, _PeerCounts] = {}
        self._of_address: dict[str, set[str]] = {}

    # ---- who is there ------------------------------------------------------------------------

    def add(self, peer: str, address: str) -> None:
        """A peer has connected, perhaps not for the first time."""
        counts = self._peers.get(peer)
        if counts is None:
            counts = self._peers[peer] = _PeerCounts(address)
        elif counts.address != address:
            self._leave_address(peer, counts.address)
            counts.address = address
        counts.forgotten_at = None
        self._of_address.setdefault(address, set()).add(peer)

    def remove(self, peer: str, now: float) -> None:
        """It has gone: a good score goes with it, a bad one waits for it."""
        counts = self._peers.get(peer)
        if counts is None:
            return
        if self.score(peer) > 0:
            self._forget(peer)
            return
        for topic, topic_counts in counts.topics.items():
            topic_counts.first = 0
            self._leave_mesh(topic_counts, self.parameters.topics[topic])
        counts.forgotten_at = now + self.parameters.retain_s
        # Behind those that have gone before, so that the oldest are found first.
        self._peers[peer] = self._peers.pop(peer)
        self._bound_gone()

    def _bound_gone(self) -> None:
        gone = [peer for peer, counts in self._peers.items() if counts.forgotten_at is not None]
        for peer in gone[: max(0, len(gone) - GONE_MAX)]:
            self._forget(peer)

    def _forget(self, peer: str) -> None:
        self._leave_address(peer, self._peers.pop(peer).address)

    def _leave_address(self, peer: str, address: str) -> None:
        peers = self._of_address.get(address)
        if peers is not None:
            peers.discard(peer)
            if not peers:
                del self._of_address[address]

    # ---- what they do ------------------------------------------------------------------------

    def graft(self, peer: str, topic: str, now: float) -> None:
        counts = self._counts(peer, topic)
        if counts is not None:
            counts.is_in_mesh, counts.grafted_at, counts.mesh_s, counts.is_active = True, now, 0.0, False

    def prune(self, peer: str, topic: str) -> None:
        counts = self._counts(peer, topic)
        if counts is not None:
            self._leave_mesh(counts, self.parameters.topics[topic])

    @staticmethod
    def _leave_mesh(counts: _TopicCounts, parameters: TopicParameters) -> None:
        if counts.is_in_mesh and counts.is_active and counts.deliveries < parameters.deliveries_threshold:
            counts.failure += (parameters.deliveries_threshold - counts.deliveries) ** 2
        counts.is_in_mesh = counts.is_active = False

    def delivered_first(self, peer: str, topic: str) -> None:
        counts = self._counts(peer, topic)
        if counts is not None:
            parameters = self.parameters.topics[topic]
            counts.first = min(parameters.first_cap, counts.first + 1)
            self._count_delivery(counts, parameters)

    def delivered_again(self, peers: Iterable[str], topic: str) -> None:
        """In time: while the message was looked at, or within the window after."""
        for peer in peers:
            counts = self._counts(peer, topic)
            if counts is not None:
                self._count_delivery(counts, self.parameters.topics[topic])

    @staticmethod
    def _count_delivery(counts: _TopicCounts, parameters: TopicParameters) -> None:
        if counts.is_in_mesh:
            counts.deliveries = min(parameters.deliveries_cap, counts.deliveries + 1)

    def delivered_invalid(self, peers: Iterable[str], topic: str) -> None:
        for peer in peers:
            counts = self._counts(peer, topic)
            if counts is not None:
                counts.invalid += 1

    def misbehaved(self, peer: str, count: int = 1) -> None:
        """A GRAFT during the back-off, or a promise that was not kept."""
        counts = self._peers.get(peer)
        if counts is not None:
            counts.behaviour += count

    def _counts(self, peer: str, topic: str) -> _TopicCounts | None:
        counts = self._peers.get(peer)
        if counts is None or topic not in self.parameters.topics:
            return None
        found = counts.topics.get(topic)
        if found is None:
            found = counts.topics[topic] = _TopicCounts()
        return found

    # ---- time ------------------------------------------------------------------------------------

    def decay(self, now: float) -> None:
        """To be called each second."""
        zero = self.parameters.decay_to_zero
        for peer, counts in list(self._peers.items()):
            if counts.forgotten_at is not None:
                if now > counts.forgotten_at:
                    self._forget(peer)
                continue
            for topic, topic_counts in counts.topics.items():
                self._decay_topic(topic_counts, self.parameters.topics[topic], now)
            counts.behaviour = _decayed(counts.behaviour, self.parameters.behaviour_decay, zero)

    def _decay_topic(self, counts: _TopicCounts, parameters: TopicParameters, now: float) -> None:
        zero = self.parameters.decay_to_zero
        counts.first = _decayed(counts.first, parameters.first_decay, zero)
        counts.deliveries = _decayed(counts.deliveries, parameters.deficit_decay, zero)
        counts.failure = _decayed(counts.failure, parameters.deficit_decay, zero)
        counts.invalid = _decayed(counts.invalid, parameters.invalid_decay, zero)
        if counts.is_in_mesh:
            counts.mesh_s = now - counts.grafted_at
            counts.is_active |= counts.mesh_s > parameters.activation_s

    # ---- the score -------------------------------------------------------------------------------

    def score(self, peer: str, *, counts_deficits: bool = True) -> float:
        """0 for a peer that is not known.  Without deficits: as if it had delivered all that was expected of it."""
        counts = self._peers.get(peer)
        if counts is None:
            return 0.0
        parameters = self.parameters
        score = sum(
            _topic_score(found, parameters.topics[topic], counts_deficits) for topic, found in counts.topics.items()
        )
        score = min(score, parameters.topic_score_cap)
        score += self._application(peer) * parameters.application_weight
        surplus = len(self._of_address.get(counts.address, ())) - parameters.colocation_threshold
        if surplus > 0:
            score += surplus * surplus * parameters.colocation_weight
        return score + counts.behaviour * counts.behaviour * parameters.behaviour_weight


def _decayed(value: float, factor: float, zero: float) -> float:
    value *= factor
    return value if value >= zero else 0.0


def _topic_score(counts: _TopicCounts, parameters: TopicParameters, counts_deficits: bool) -> float:
    score = 0.0
    if counts.is_in_mesh:
        score += min(counts.mesh_s / parameters.time_quantum_s, parameters.time_cap) * parameters.time_weight
    score += min(counts.first, parameters.first_cap) * parameters.first_weight
    if counts_deficits:
        if counts.is_active and counts.deliveries < parameters.deliveries_threshold:
            score += (parameters.deliveries_threshold - counts.deliveries) ** 2 * parameters.deficit_weight
        score += counts.failure * parameters.deficit_weight
    return score + counts.invalid * counts.invalid * parameters.invalid_weight
