"""The connections of a node: how many there are, who waits, and which are closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fastnode.config.settings import Settings
from fastnode.errors import HaDatabaseError, SettingError
from fastnode.ha.connection import connect
from fastnode.ha.duties import CleanUpAges, Duty, DutyLocks, DutyType
from fastnode.ha.pool import ConnectionPool, PoolLimits

#: Longest wait in a test that is in order.
SOON_S = 60.0


class FakeConnection:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Server:
    """Counts what it is asked for; refuses while ``is_down``."""

    def __init__(self) -> None:
        self.opened: list[FakeConnection] = []
        self.is_down = False

    def open(self, _url: str) -> Any:
        if self.is_down:
            raise HaDatabaseError("down")
        self.opened.append(FakeConnection())
        return self.opened[-1]

    @property
    def alive(self) -> int:
        return sum(not connection.closed for connection in self.opened)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def pools() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def pool(server: Server, pools: ExitStack, **limits: Any) -> ConnectionPool:
    made = ConnectionPool("", PoolLimits(**limits), open_one=server.open)
    pools.callback(made.close)
    return made


def wait_until(server: Server, alive: int) -> None:
    deadline = time.monotonic() + SOON_S
    while server.alive != alive and time.monotonic() < deadline:
        time.sleep(0.005)
    assert server.alive == alive


@pytest.mark.parametrize(("fewest", "at_once"), [(0, 1), (1, 1), (4, 4)])
def test_the_fewest_connections_are_there_from_the_beginning(
    server: Server, pools: ExitStack, fewest: int, at_once: int
) -> None:
    assert pool(server, pools, connections_min=fewest).count == server.alive == at_once


def test_one_after_the_other_needs_one_connection(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools)
    for _ in range(5):
        with connections.connection():
            pass
    assert len(server.opened) == 1


def test_no_more_than_the_most_are_open_and_who_comes_later_waits(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools, connections_max=2)
    got = threading.Event()

    def third() -> None:
        with connections.connection():
            got.set()

    waiting = threading.Thread(target=third)
    with connections.connection(), connections.connection():
        waiting.start()
        assert not got.wait(0.05)
    assert got.wait(SOON_S)
    waiting.join()
    assert len(server.opened) == 2


def test_who_waits_too_long_is_told(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools, connections_max=1, wait_s=0.01)
    with (
        connections.connection(),
        pytest.raises(HaDatabaseError, match=r"no connection .* was free within 0\.01 s"),
        connections.connection(),
    ):
        pytest.fail("it got one")


def test_idle_connections_are_closed_down_to_the_fewest(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools, connections_min=1, connections_max=4, idle_s=0.02)
    with ExitStack() as used:
        for _ in range(4):
            used.enter_context(connections.connection())
        assert server.alive == 4
    wait_until(server, 1)
    assert connections.count == 1


def test_without_an_idle_time_none_is_closed(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools, idle_s=0)
    with connections.connection(), connections.connection():
        pass
    time.sleep(0.05)
    assert server.alive == 2


def test_a_broken_connection_is_not_used_again(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools)
    with connections.connection() as first:
        first.close()
    with connections.connection() as second:
        assert second is not first
    second.close()  # while it is idle
    with connections.connection() as third:
        assert third is not second
    assert connections.count == 1


def test_a_failed_connection_frees_its_place_in_the_pool(server: Server, pools: ExitStack) -> None:
    connections = pool(server, pools, connections_max=1)
    connections.drop_idle()
    server.is_down = True
    for _ in range(3):
        with pytest.raises(HaDatabaseError, match="down"), connections.connection():
            pytest.fail("it got one")
    server.is_down = False
    with connections.connection():
        assert connections.count == 1


def test_a_server_that_is_down_at_first_leaves_nothing_open(server: Server) -> None:
    def open_two(url: str) -> Any:
        server.is_down = len(server.opened) == 2
        return server.open(url)

    with pytest.raises(HaDatabaseError, match="down"):
        ConnectionPool("", PoolLimits(connections_min=3), open_one=open_two)
    assert server.alive == 0


def test_closing_ends_waiting_and_closes_what_comes_back(server: Server) -> None:
    connections = ConnectionPool("", PoolLimits(connections_max=1), open_one=server.open)
    failures: list[HaDatabaseError] = []

    def wait() -> None:
        try:
            with connections.connection():
                pass
        except HaDatabaseError as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    with connections.connection():
        waiting.start()
        time.sleep(0.02)
        connections.close()
        waiting.join(SOON_S)
        assert len(failures) == 1
    connections.close()
    assert server.alive == 0


# ---- on a real server -----------------------------------------------------------------------------------------


def test_the_settings_are_those_of_the_locks(database: str) -> None:
    settings = Settings(
        validator_ha_database_url=database,
        validator_ha_node_id="a",
        validator_ha_polling_interval_ms=20,
        validator_ha_signing_timeout_ms=40,
        validator_ha_max_stuck_duties_age_ms=1500,
        validator_ha_old_duties_max_age_h=2,
        validator_ha_pool_max=3,
        validator_ha_pool_min=2,
        validator_ha_pool_idle_timeout_ms=5000,
        validator_ha_pool_connection_timeout_ms=250,
    )
    with DutyLocks.of(settings) as locks:
        assert (locks._node_id, locks._polling_interval_s, locks._signing_timeout_s) == ("a", 0.02, 0.04)
        assert locks._ages == CleanUpAges(stuck_s=1.5, signed_s=7200.0)
        assert locks._pool._limits == PoolLimits(connections_min=2, connections_max=3, idle_s=5.0, wait_s=0.25)
        with connect(database) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            ).fetchone()
        assert row == (2,)
        locks.take(Duty(rollup=b"\1" * 20, validator=b"\2" * 20, slot=1, type=DutyType.ATTESTATION), b"\3" * 32)
        assert locks.clean_up() == 0


def test_without_ages_nothing_is_cleaned_up(database: str) -> None:
    with DutyLocks(database, node_id="a") as locks:
        locks.take(Duty(rollup=b"\1" * 20, validator=b"\2" * 20, slot=1, type=DutyType.ATTESTATION), b"\3" * 32)
        assert locks.clean_up() == 0
    with DutyLocks(database, node_id="a", ages=CleanUpAges(stuck_s=0.0, signed_s=0.0)) as locks:
        assert locks.clean_up() == 1


@pytest.mark.parametrize("missing", ["validator_ha_database_url", "validator_ha_node_id"])
def test_locks_need_a_database_and_a_name(missing: str) -> None:
    given = {"validator_ha_database_url": "postgresql://host/name", "validator_ha_node_id": "a"} | {missing: None}
    with pytest.raises(SettingError, match="redundant validators need"):
        DutyLocks.of(Settings(**given))  # type: ignore[arg-type]
