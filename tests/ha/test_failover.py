"""Duties of two nodes while connections break in each statement, a pooler shares connections, and servers restart."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest
from tests.ha.conftest import own_server
from tests.ha.pooler import SOON_S, Address, CuttingProxy, Pooler

from fastnode.errors import DutyAlreadySigned, DutyError, HaDatabaseError, HaDatabaseUnreachable
from fastnode.ha import duties
from fastnode.ha.connection import connect, disconnect_after
from fastnode.ha.duties import Duty, DutyLocks, DutyType
from fastnode.ha.migrations import migrate_up

ROLLUP, VALIDATOR = b"\x01" * 20, b"\x02" * 20
SLOTS = 40


def duty_of(slot: int, type: DutyType = DutyType.ATTESTATION) -> Duty:
    return Duty(rollup=ROLLUP, validator=VALIDATOR, slot=slot, type=type)


def message_of(slot: int) -> bytes:
    return hashlib.sha256(b"%d" % slot).digest()


def signature_by(node: str) -> bytes:
    return node.encode().ljust(65, b"\0")


def signed_slots(url: str) -> list[tuple[int, str, str]]:
    with connect(url) as connection:
        return connection.execute("SELECT slot, status, node_id FROM validator_duties ORDER BY slot").fetchall()  # type: ignore[return-value]


@pytest.fixture(params=["direct", "transaction", "session"])
def proxied(request: pytest.FixtureRequest, server_url: str, database: str) -> Iterator[tuple[str, CuttingProxy]]:
    """The database's URL through a proxy that cuts connections: of the node, or of PgBouncer."""
    with ExitStack() as stack:
        proxy = stack.enter_context(CuttingProxy(Address.of(server_url)))
        if request.param == "direct":
            yield proxy.address.url(database), proxy
            return
        program = request.getfixturevalue("pgbouncer")
        pooler = stack.enter_context(Pooler(program, proxy.address, request.param, pool_size=4))
        yield pooler.url(database), proxy


@pytest.mark.parametrize("after", [False, True], ids=["before-the-statement", "after-the-statement"])
def test_a_connection_that_breaks_in_any_statement_changes_nothing(
    proxied: tuple[str, CuttingProxy], database: str, after: bool
) -> None:
    """Each statement of the life of duties is cut once, until a whole life needs fewer."""
    url, proxy = proxied
    with (
        DutyLocks(url, node_id="a", signing_timeout_s=0.0, polling_interval_s=0.01) as first,
        DutyLocks(url, node_id="b", signing_timeout_s=0.0, polling_interval_s=0.01) as second,
    ):
        for number in range(100):
            proxy.cut(number, after=after)
            sign_and_fail(first, second, database)
            if not proxy.has_cut:
                break
    # Two nodes take, finish, yield, fail and clean up: at least this many statements were cut.
    assert number >= 9


def sign_and_fail(first: DutyLocks, second: DutyLocks, database: str) -> None:
    lock = first.take(duty_of(1), message_of(1))
    first.finish(lock, signature_by("a"))
    with pytest.raises(DutyAlreadySigned, match="signed by node a") as caught:
        second.take(duty_of(1), message_of(1))
    assert caught.value.signature == signature_by("a")
    first.fail(first.take(duty_of(2), message_of(2)), "the signer did not answer")
    second.finish(second.take(duty_of(2), message_of(2)), signature_by("b"))
    first.take(duty_of(3), message_of(3))
    first.clean_up(stuck_s=0.0)
    assert signed_slots(database) == [(1, "signed", "a"), (2, "signed", "b")]
    for node in (first, second):
        node.clean_up_others(b"\x09" * 20)
    assert signed_slots(database) == []


def sign_slots(url: str, database: str, *, at: dict[int, threading.Event] | None = None) -> None:
    """Two nodes try to sign each slot at once; sets the events of slots when both are there."""
    gate = threading.Barrier(2)
    published: list[tuple[int, str]] = []

    def run(node: str) -> None:
        with DutyLocks(url, node_id=node, polling_interval_s=0.01, signing_timeout_s=SOON_S) as locks:
            for slot in range(SLOTS):
                gate.wait(SOON_S)
                if at and slot in at:
                    at[slot].set()
                for type in (DutyType.CHECKPOINT_PROPOSAL, DutyType.ATTESTATION):
                    try:
                        locks.finish(locks.take(duty_of(slot, type), message_of(slot)), signature_by(node))
                    except DutyError:
                        continue
                    published.append((slot, type))

    with ThreadPoolExecutor(2) as threads:
        for running in [threads.submit(run, node) for node in ("a", "b")]:
            running.result(SLOTS * SOON_S)
    expected = [(slot, type) for slot in range(SLOTS) for type in ("ATTESTATION", "CHECKPOINT_PROPOSAL")]
    assert sorted(published) == expected
    assert [row[:2] for row in signed_slots(database)] == [(slot, "signed") for slot, _ in expected]


def test_two_nodes_behind_a_transaction_pooler_sign_every_slot_once(database: str, transaction_pooler: Pooler) -> None:
    sign_slots(transaction_pooler.url(database), database)


def test_two_nodes_behind_a_session_pooler_sign_every_slot_once(database: str, session_pooler: Pooler) -> None:
    sign_slots(session_pooler.url(database), database)


@pytest.mark.parametrize("mode", ["direct", "transaction", "session"])
def test_two_nodes_sign_every_slot_once_while_the_server_restarts(
    mode: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duties, "DATABASE_TIMEOUT_S", SOON_S)  # servers start slowly on a busy machine
    with ExitStack() as stack:
        server = stack.enter_context(own_server())
        url = database = server.get_uri()
        if mode != "direct":
            program = request.getfixturevalue("pgbouncer")
            url = stack.enter_context(Pooler(program, Address.of(database), mode, pool_size=4)).url(database)
        with connect(database) as connection:
            migrate_up(connection)
        begun = {5: threading.Event(), 20: threading.Event()}
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(sign_slots, url, database, at=begun)
            for event in begun.values():
                assert event.wait(SOON_S)
                server.stop()
                server.start()
            running.result(SLOTS * SOON_S)


# ---- an unavailable server --------------------------------------------------------------------------------


def test_a_server_that_accepts_and_never_answers_is_given_up(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duties, "DATABASE_TIMEOUT_S", 0.3)
    with DutyLocks(database, node_id="a", polling_interval_s=0.01) as locks:
        with pytest.raises(HaDatabaseUnreachable, match="unavailable"):
            locks._ask(lambda connection: connection.execute("SELECT pg_sleep(600)"))
        locks.finish(locks.take(duty_of(1), message_of(1)), signature_by("a"))
    assert signed_slots(database) == [(1, "signed", "a")]


def test_a_server_that_has_become_a_standby_is_left_for_the_new_one(database: str) -> None:
    with DutyLocks(database, node_id="a", polling_interval_s=0.01) as locks:
        with connect(database) as connection:
            connection.execute("SELECT count(*) FROM validator_duties")
        refused = 0

        def ask_a_standby_first(connection: duties.Connection) -> int:
            nonlocal refused
            if not refused:
                refused += 1
                connection.execute("SET default_transaction_read_only = on")
            return connection.execute("DELETE FROM validator_duties").rowcount

        assert locks._ask(ask_a_standby_first) == 0
        assert refused == 1


def test_a_statement_that_the_server_refuses_is_not_repeated(database: str) -> None:
    asked = 0
    with DutyLocks(database, node_id="a") as locks:

        def ask(connection: duties.Connection) -> object:
            nonlocal asked
            asked += 1
            return connection.execute("SELECT no_such_function()")

        with pytest.raises(HaDatabaseError, match="no_such_function"):
            locks._ask(ask)
    assert asked == 1


def test_an_answer_in_time_leaves_the_connection_open(database: str) -> None:
    with connect(database) as connection:
        with disconnect_after(connection, SOON_S):
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SELECT 2").fetchone() == (2,)


# ---- what a session leaves behind -----------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "used"), [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")])
def test_locks_are_durable_whatever_the_database_says(database: str, given: str, used: str) -> None:
    """A trigger records the setting that the transaction of each statement commits with."""
    with connect(database) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit TO {given}".encode())
        connection.execute("CREATE TABLE commits (what text, setting text)")
        connection.execute(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO commits VALUES (TG_OP, current_setting('synchronous_commit')); RETURN NULL; END $$"
        )
        connection.execute(
            "CREATE TRIGGER note AFTER INSERT OR UPDATE ON validator_duties FOR EACH ROW EXECUTE FUNCTION note()"
        )
    with DutyLocks(database, node_id="a") as locks:
        locks.finish(locks.take(duty_of(1), message_of(1)), signature_by("a"))
        after = locks._ask(lambda connection: connection.execute("SHOW synchronous_commit").fetchone())
    with connect(database) as connection:
        assert connection.execute("SELECT * FROM commits").fetchall() == [("INSERT", used), ("UPDATE", used)]
    assert after == (given,)


def test_a_connection_leaves_no_state_on_the_server(database: str) -> None:
    with psycopg.connect(database) as fresh:
        settings = "SELECT name, setting FROM pg_settings WHERE name <> 'application_name' ORDER BY name"
        before = fresh.execute(settings).fetchall()
    with DutyLocks(database, node_id="a") as locks:
        for slot in range(20):
            locks.finish(locks.take(duty_of(slot), message_of(slot)), signature_by("a"))
        locks.clean_up(stuck_s=1000.0)
        assert locks._ask(lambda connection: connection.execute(settings).fetchall()) == before
        assert (
            locks._ask(lambda connection: connection.execute("SELECT * FROM pg_prepared_statements").fetchall()) == []
        )
