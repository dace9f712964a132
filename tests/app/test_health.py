"""How the node's parts add up to its health."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fastnode.app.ground.health import health_of

COMPLETE: Any = SimpleNamespace(state=object())
WITHOUT_STATE: Any = SimpleNamespace(state=None)
FOLLOWING = {"state": "following", "reason": None}


def test_a_node_with_a_chain_and_its_state_is_ready() -> None:
    health = health_of(COMPLETE, FOLLOWING, is_ready=True, is_stopping=False)
    assert health.not_ready is None
    assert health.failing == {}
    assert set(health.components) == {"chain", "state", "stop", "sync"}


def test_a_node_is_not_ready_before_its_state_is() -> None:
    health = health_of(WITHOUT_STATE, None, is_ready=True, is_stopping=False)
    assert set(health.failing) == {"state"}
    assert health.not_ready == health.failing["state"]


def test_a_node_that_has_to_catch_up_is_not_ready_and_nothing_is_wrong() -> None:
    health = health_of(COMPLETE, {"state": "catching up", "reason": None}, is_ready=False, is_stopping=False)
    assert health.failing == {}
    assert health.not_ready == "the chain is not new enough yet"
    sync = {"state": "catching up", "reason": None, "tip": 5, "sourceTip": 900}
    health = health_of(COMPLETE, sync, is_ready=False, is_stopping=False)
    assert health.not_ready == "the chain is not new enough yet: it is at block 5 of 900"
    sync = {"state": "degraded", "reason": "no upstream answers", "tip": 5, "sourceTip": None}
    health = health_of(COMPLETE, sync, is_ready=False, is_stopping=False)
    assert health.not_ready == "the chain is not new enough yet: no upstream answers"


def test_a_node_that_loads_its_chain_file_is_not_ready_and_nothing_is_wrong() -> None:
    view: Any = SimpleNamespace(state=object(), chain=SimpleNamespace(tip_number=16))
    health = health_of(view, None, is_ready=True, is_stopping=False, is_importing=True)
    assert health.failing == {}
    assert health.not_ready == "the chain file is being loaded: it is at block 16"
    faults = {"pool": "the disk is full"}
    health = health_of(view, None, is_ready=True, is_stopping=False, is_importing=True, faults=faults)
    assert health.not_ready == "the disk is full"


def test_a_degraded_node_says_why_and_stays_ready() -> None:
    health = health_of(COMPLETE, {"state": "degraded", "reason": "away"}, is_ready=True, is_stopping=False)
    assert health.failing == {"sync": "away"}
    assert health.not_ready is None


def test_a_node_that_stops_is_not_ready() -> None:
    assert health_of(COMPLETE, None, is_ready=True, is_stopping=True).not_ready == "the node is stopping"


def test_a_node_that_does_not_read_its_l1_says_so_and_stays_ready() -> None:
    for reason in (None, "L1 node 1: cannot connect"):
        health = health_of(COMPLETE, FOLLOWING | {"l1": {"reason": reason}}, is_ready=True, is_stopping=False)
        assert health.failing == ({} if reason is None else {"l1": reason})
        assert "l1" in health.components
        assert health.not_ready is None


def test_a_part_that_cannot_do_its_work_makes_the_node_not_ready() -> None:
    faults = {"pool": None, "state_database": "the database /data/world_state is damaged; remove the folder"}
    health = health_of(COMPLETE, None, is_ready=True, is_stopping=False, faults=faults)
    assert health.not_ready == faults["state_database"]
    assert health.failing == {"state_database": faults["state_database"]}
    assert health.components["pool"] is None


def test_what_is_wrong_with_a_part_that_serving_does_not_need_is_said_and_no_more() -> None:
    troubles = {"snapshots": "the last snapshot was not uploaded", "forwarding": None}
    health = health_of(COMPLETE, None, is_ready=True, is_stopping=False, troubles=troubles)
    assert health.not_ready is None
    assert health.failing == {"snapshots": "the last snapshot was not uploaded"}
    assert health.components["forwarding"] is None
