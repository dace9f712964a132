"""Parameters of gossipsub's scores of peers, with the numbers of release 4.x.

    P1  time in the mesh                    up to 8 a topic
    P2  messages delivered first            up to 25
    P3  too few deliveries in the mesh      up to -34; P3b keeps it after a prune
    P4  invalid messages                    -20 n^2
    P5  application score                   x 10
    P6  more than 10 peers of one address   -5 (n - 10)^2
    P7  behaviour                           -10 n^2

The decays are worked out for one heartbeat and applied each second, as in the reference.
"""

from __future__ import annotations

from typing import Final

from fastnode.p2p.gossip.topics import Topic
from fastnode.records import dataclass

__all__ = ["ScoreParameters", "TopicParameters", "parameters_of"]

_P1_MAX: Final = 8
_P1_CAP_S: Final = 3600
_P2_MAX: Final = 25
_P2_DECAY_SLOTS: Final = 2
_P3_MAX: Final = -(_P1_MAX + _P2_MAX + 1)
_INVALID_WEIGHT: Final = -20
_INVALID_DECAY_SLOTS: Final = 4
#: Part of what arrives on average that is asked of each peer.
_CONSERVATIVE: Final = 0.3
#: Decay windows in the mesh before P3 counts.
_ACTIVATION_WINDOWS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicParameters:
    """Parameters of one topic; times in seconds.  By default nothing counts but invalid messages."""

    invalid_decay: float
    invalid_weight: float = _INVALID_WEIGHT
    time_quantum_s: float = 1
    time_cap: float = 0
    time_weight: float = 0
    first_decay: float = 0.5
    first_cap: float = 0
    first_weight: float = 0
    #: Weight of P3 and of P3b.
    deficit_weight: float = 0
    deficit_decay: float = 0.5
    deliveries_threshold: float = 0
    deliveries_cap: float = 0
    deliveries_window_s: float = 5
    activation_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParameters:
    topics: dict[str, TopicParameters]
    topic_score_cap: float = 10
    application_weight: float = 10
    colocation_threshold: int = 10
    #: 0: any number of peers may have one address.
    colocation_weight: float = -5
    behaviour_weight: float = -10
    behaviour_decay: float = 0.2
    decay_to_zero: float = 0.1
    #: Time that a score that is not positive outlives its connection, in seconds.
    retain_s: float = 3600
    #: Below: in no mesh / no ihave and iwant / nothing of ours / nothing at all.
    gossip_threshold: float = -500
    publish_threshold: float = -1000
    graylist_threshold: float = -2000
    #: A mesh whose median is below gets better peers.
    opportunistic_threshold: float = 5


def parameters_of(
    names: dict[Topic, str],
    *,
    slot_s: float,
    heartbeat_s: float,
    committee_size: int,
    block_proposals_per_slot: int = 0,
    colocation_weight: float = -5,
) -> ScoreParameters:
    """For a network whose topics have these names."""
    expected = {
        Topic.TX: 0,
        Topic.BLOCK_PROPOSAL: block_proposals_per_slot,
        Topic.CHECKPOINT_PROPOSAL: 1,
        Topic.CHECKPOINT_ATTESTATION: committee_size,
    }
    return ScoreParameters(
        topics={name: _topic(expected[topic], slot_s, heartbeat_s) for topic, name in names.items()},
        colocation_weight=colocation_weight,
    )


def _decay(slots: float, slot_s: float, heartbeat_s: float) -> float:
    """So that a counter is at one hundredth after ``slots``."""
    return float(0.01 ** (heartbeat_s / (slot_s * slots)))


def _topic(expected_per_slot: int, slot_s: float, heartbeat_s: float) -> TopicParameters:
    invalid_decay = _decay(_INVALID_DECAY_SLOTS, slot_s, heartbeat_s)
    if expected_per_slot == 0:
        # With rewards alone a peer could do wrong elsewhere for free.
        return TopicParameters(invalid_decay=invalid_decay)
    window = 5 if expected_per_slot <= 1 else 3 if expected_per_slot <= 10 else 2
    decay = _decay(window, slot_s, heartbeat_s)
    threshold = _CONSERVATIVE * expected_per_slot * heartbeat_s / slot_s / (1 - decay)
    first_decay = _decay(_P2_DECAY_SLOTS, slot_s, heartbeat_s)
    first_cap = 1 / (1 - first_decay)
    time_cap = _P1_CAP_S / slot_s
    return TopicParameters(
        invalid_decay=invalid_decay,
        time_quantum_s=slot_s,
        time_cap=time_cap,
        time_weight=_P1_MAX / time_cap,
        first_decay=first_decay,
        first_cap=first_cap,
        first_weight=_P2_MAX / first_cap,
        deficit_weight=_P3_MAX / (threshold * threshold),
        deficit_decay=decay,
        deliveries_threshold=threshold,
        deliveries_cap=max(threshold * (8 if expected_per_slot > 10 else 4), 2),
        activation_s=slot_s * window * _ACTIVATION_WINDOWS,
    )
