"""Scores of peers by the reference's formulas, and its numbers for 36 s slots and a heartbeat of 0.7 s."""

from __future__ import annotations

import pytest
from tests.p2p.vectors import VERSION

from fastnode.p2p.gossip.score_parameters import ScoreParameters, parameters_of
from fastnode.p2p.gossip.scores import PeerScores
from fastnode.p2p.gossip.topics import Topic, topic_name
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.standing import Penalty, Standing

NAMES = {topic: topic_name(topic, VERSION) for topic in Topic}
CHECKPOINTS = NAMES[Topic.CHECKPOINT_PROPOSAL]


@pytest.fixture
def parameters() -> ScoreParameters:
    return parameters_of(NAMES, slot_s=36, heartbeat_s=0.7, committee_size=4)


def test_topics_that_nobody_can_predict_count_only_what_is_invalid(parameters: ScoreParameters) -> None:
    for topic in (Topic.TX, Topic.BLOCK_PROPOSAL):
        of_topic = parameters.topics[NAMES[topic]]
        assert (of_topic.time_weight, of_topic.first_weight, of_topic.deficit_weight) == (0, 0, 0)
        assert of_topic.invalid_weight == -20
        assert of_topic.invalid_decay ** (36 / 0.7 * 4) == pytest.approx(0.01)


def test_who_delivers_nothing_ends_at_minus_34_a_topic_after_25_slots(parameters: ScoreParameters) -> None:
    scores = PeerScores(parameters, lambda peer: 0.0)
    scores.add("peer", "10.0.0.1")
    scores.graft("peer", CHECKPOINTS, 0)
    scores.decay(25 * 36)
    assert scores.score("peer") > 0
    scores.decay(25 * 36 + 1)
    assert scores.score("peer") == pytest.approx(-34 + 8 * (25 * 36 + 1) / 3600)
    scores.prune("peer", CHECKPOINTS)
    assert scores.score("peer") == pytest.approx(-34)


def test_what_is_good_is_capped_at_ten(parameters: ScoreParameters) -> None:
    scores = PeerScores(parameters, lambda peer: 0.0)
    scores.add("peer", "10.0.0.1")
    for topic in (CHECKPOINTS, NAMES[Topic.CHECKPOINT_ATTESTATION]):
        scores.graft("peer", topic, 0)
        for _ in range(500):
            scores.delivered_first("peer", topic)
    assert scores.score("peer") == 10


def test_eleven_peers_of_one_address_lose_5_and_twenty_500(parameters: ScoreParameters) -> None:
    scores = PeerScores(parameters, lambda peer: 0.0)
    expected = {10: 0, 11: -5, 20: -500, 30: -2000}
    for number in range(1, 31):
        scores.add(f"peer {number}", "10.0.0.1")
        if number in expected:
            assert scores.score("peer 1") == expected[number]
    scores.remove("peer 30", 0)  # what is not positive is remembered
    assert scores.score("peer 1") == -2000
    scores.decay(3601)
    assert scores.score("peer 1") == -5 * 19**2


def test_misbehaviour_and_the_application_weigh_ten_times(parameters: ScoreParameters) -> None:
    scores = PeerScores(parameters, {"bad": -50.0}.get)  # type: ignore[arg-type]
    scores.add("bad", "10.0.0.1")
    assert scores.score("bad") == parameters.gossip_threshold
    scores.misbehaved("bad", 3)
    assert scores.score("bad") == -500 - 90
    scores.decay(1)
    assert scores.score("bad") == pytest.approx(-500 - 10 * 0.6**2)


def test_points_fall_by_a_tenth_each_minute_and_decide_who_goes() -> None:
    standing = Standing((50, 2, 10))
    assert standing.penalize("peer", Penalty.LOW_TOLERANCE, 0) == -50
    assert standing.verdict("peer") is None
    assert standing.penalize("peer", Penalty.HIGH_TOLERANCE, 30) == -52
    assert standing.verdict("peer") is Goodbye.LOW_SCORE
    standing.decay(90)  # a minute after the last offence
    assert standing.score("peer") == pytest.approx(-46.8)
    standing.penalize("peer", Penalty.LOW_TOLERANCE, 90)
    standing.penalize("peer", Penalty.MID_TOLERANCE, 90)
    assert standing.verdict("peer") is Goodbye.BANNED
    standing.decay(60 * 100)
    assert standing.score("peer") == 0
