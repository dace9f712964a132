"""Whom to dial, and when."""

from __future__ import annotations

from fastnode.p2p.node.dialling import DialPlan
from fastnode.p2p.node.options import StaticPeer

PEER = StaticPeer("192.0.2.1", 40400)


def attempts(plan: DialPlan, connected: set[str], end_s: int = 600) -> list[int]:
    """Seconds at which a peer is dialled that never answers."""
    times = []
    for now in range(end_s):
        for candidate in plan.due(connected, float(now), has_room=True):
            times.append(now)
            plan.failed(candidate, float(now))
    return times


def test_a_named_peer_that_does_not_answer_is_dialled_every_four_seconds_while_peers_are_few() -> None:
    times = attempts(DialPlan([PEER]), {"a", "b", "c"}, end_s=60)
    assert times == [0, 2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58]


def test_where_there_are_enough_it_is_dialled_ever_more_seldom() -> None:
    assert attempts(DialPlan([PEER]), {"a", "b", "c", "d"}) == [
        0,
        2,
        6,
        14,
        30,
        62,
        122,
        182,
        242,
        302,
        362,
        422,
        482,
        542,
    ]


def test_a_peer_that_was_never_one_is_tried_three_times_and_then_after_five_minutes() -> None:
    plan = DialPlan([])
    plan.discovered(PEER, 0.0)
    assert attempts(plan, set(), end_s=300) == [0, 1, 2]
