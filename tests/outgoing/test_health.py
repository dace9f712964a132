"""The health of an endpoint: when it rests, for how long, and what is news."""

from __future__ import annotations

import time

import pytest

from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.health import EndpointHealth, EndpointState, Patience

PATIENCE = Patience(unavailable_s=1.0, unavailable_max_s=8.0, retry_after_max_s=60.0, aside_s=100.0, aside_max_s=300.0)


@pytest.fixture
def health() -> EndpointHealth:
    return EndpointHealth(PATIENCE)


def pause(health: EndpointHealth) -> float:
    return health.usable_at - time.monotonic()


def end_pause(health: EndpointHealth) -> None:
    health.usable_at = 0.0


def test_an_endpoint_is_unknown_and_may_be_asked_at_first(health: EndpointHealth) -> None:
    assert health.state is EndpointState.UNKNOWN
    assert not health.is_resting


def test_one_that_does_not_answer_rests_for_a_growing_while_up_to_a_maximum(health: EndpointHealth) -> None:
    for expected in (1, 2, 4, 8, 8, 8):
        health.on_unavailable("away")
        assert 0.4 * expected < pause(health) <= 1.5 * expected
        end_pause(health)


def test_several_failures_at_once_count_once(health: EndpointHealth) -> None:
    assert health.on_unavailable("away") is True
    assert not any(health.on_unavailable("away") for _ in range(20))
    assert pause(health) <= 1.5


def test_a_failure_is_news_once(health: EndpointHealth) -> None:
    assert health.on_unavailable("away")
    end_pause(health)
    assert not health.on_unavailable("away")
    assert health.on_identified()
    assert not health.on_identified()
    assert health.on_unavailable("away")


def test_what_a_server_asks_for_is_obeyed_up_to_a_limit(health: EndpointHealth) -> None:
    health.on_unavailable("busy", 30.0)
    assert 29 < pause(health) <= 30
    end_pause(health)
    health.on_unavailable("busy", 1e9)
    assert 59 < pause(health) <= 60


def test_one_whose_answers_are_wrong_rests_longer_until_it_is_of_use_again(health: EndpointHealth) -> None:
    for expected in (100, 200, 300):
        assert 0.5 * expected <= health.put_aside("wrong") <= 1.5 * expected
        health.on_identified()
    health.on_useful()
    assert health.put_aside("wrong") <= 150


def test_one_that_is_put_aside_and_away_after_its_pause_is_unavailable(health: EndpointHealth) -> None:
    health.put_aside("wrong")
    health.on_unavailable("away")
    assert health.state is EndpointState.ASIDE
    end_pause(health)
    health.on_unavailable("away")
    assert (health.state, health.reason) == (EndpointState.UNAVAILABLE, "away")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (UpstreamUnavailable("away"), EndpointState.UNAVAILABLE),
        (UpstreamRejection(-32000, "not now"), EndpointState.UNAVAILABLE),
        (UpstreamFault("nonsense"), EndpointState.ASIDE),
    ],
)
def test_the_kind_of_an_error_decides(health: EndpointHealth, error: Exception, state: EndpointState) -> None:
    assert health.on_error(error)
    assert health.state is state
    assert health.reason == str(error)
