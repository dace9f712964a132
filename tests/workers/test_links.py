"""A link between a hub and a worker, over a real socket: what it carries, and what happens when one end goes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.workers.nodes import until

from fastnode.errors import DatabaseFull, Refused, RpcError, UpstreamVerdict
from fastnode.workers.feed import Feed, Follower
from fastnode.workers.frames import Change, Connection, Kind, Shown, batch_frame, batch_of, frame
from fastnode.workers.hub import Hub
from fastnode.workers.link import Link


class Notes:
    """What a link brings."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []
        self.changed = threading.Condition()

    def _note(self, kind: str, content: Any) -> None:
        with self.changed:
            self.seen.append((kind, content))
            self.changed.notify_all()

    def on_copy(self, path: Path) -> None:
        self._note("copy", path)

    def on_batch(self, database: int, changes: list[Change]) -> None:
        self._note("batch", (database, changes))

    def on_view(self, shown: Shown) -> bool:
        self._note("view", shown)
        return True

    def after_view(self) -> None:
        pass

    def on_facts(self, facts: Any) -> None:
        self._note("facts", facts)

    def on_names(self, signatures: list[str]) -> None:
        self._note("names", signatures)

    def on_away(self) -> None:
        self._note("away", None)

    def wait_for(self, kind: str, content: Any = ...) -> Any:
        with self.changed:
            assert self.changed.wait_for(lambda: self._find(kind, content) is not None, PATIENCE_S), (kind, self.seen)
        return self._find(kind, content)

    def _find(self, kind: str, content: Any) -> Any:
        return next((seen for seen in self.seen if seen[0] == kind and content in (..., seen[1])), None)


def refuse(error: Exception) -> Callable[[], None]:
    def answer() -> None:
        raise error

    return answer


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "primary"))
        listener.listen()
        made = Hub(
            listener,
            tmp_path,
            Feed(()),
            workers=1,
            facts=lambda: "facts",  # type: ignore[arg-type,return-value]
            answers={
                "sum": lambda *numbers: sum(numbers),
                "refused": refuse(Refused("no", data={"code": "NO"})),
                "verdict": refuse(UpstreamVerdict("theirs", code=-7, data=[1])),
                "full": refuse(DatabaseFull("p2p is full")),
                "fault": refuse(KeyError("secret")),
                "register": lambda signature: made.register_names([signature]),
            },
            names=lambda: ["first()"],
        )
        made.start()
        yield made
        made.close()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def link(hub: Hub, notes: Notes, tmp_path: Path) -> Iterator[Link]:
    made = Link(tmp_path / "primary", 1, notes)
    made.start()
    notes.wait_for("copy")
    until(hub.reports, "the hub does not know its worker")
    yield made
    made.close()


def test_a_worker_gets_facts_and_names_before_its_copy(link: Link, notes: Notes) -> None:
    assert [kind for kind, _ in notes.seen][:3] == ["facts", "names", "copy"]


def test_a_worker_waits_for_its_turn_to_repeat_a_block(hub: Hub, notes: Notes, tmp_path: Path) -> None:
    delay_s = 2 * PATIENCE_S
    link = Link(tmp_path / "primary", 1, notes, delay_s=delay_s)
    link.start()
    try:
        notes.wait_for("copy")
        shown_at = time.monotonic_ns() - int((delay_s - 0.2) * 1e9)
        hub.feed.tell(frame(Kind.BLOCK, shown_at) + batch_frame(0, [(b"first", b"")]))
        notes.wait_for("batch")
        assert time.monotonic_ns() - shown_at >= delay_s * 1e9
        hub.feed.tell(frame(Kind.BLOCK, shown_at) + batch_frame(0, [(b"second", b"")]))  # it is late already
        notes.wait_for("batch", (0, [(b"second", b"")]))  # in less than the delay
    finally:
        link.close()


def test_a_connection_of_a_killed_worker_that_is_served_late_takes_nothing_from_the_next(tmp_path: Path) -> None:
    """Both wait where workers come, until there is a primary; each is served in a thread of its own."""
    late, goes_on = threading.Event(), threading.Event()

    def facts() -> str:
        if not late.is_set():
            late.set()
            goes_on.wait(PATIENCE_S)
        return "facts"

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "primary"))
        listener.listen()
        hub = Hub(
            listener,
            tmp_path,
            Feed(()),
            workers=1,
            facts=facts,  # type: ignore[arg-type]
            answers={},
            names=list,
        )
        hub._accepting.start()
        with socket.socket(socket.AF_UNIX) as killed, socket.socket(socket.AF_UNIX) as lives:
            killed.connect(str(tmp_path / "primary"))
            killed.sendall(frame(Kind.HELLO, (1, 111)))
            assert late.wait(PATIENCE_S)
            lives.connect(str(tmp_path / "primary"))
            lives.sendall(frame(Kind.HELLO, (1, 222)))
            until(lambda: len(hub._reports) == 1, "the next worker is not served")
            goes_on.set()
            until(lambda: len(hub._reports) == 2, "the first worker is not served")
            assert [report.pid for report in hub.reports()] == [222]
            killed.close()
            until(lambda: len(hub._reports) == 1, "the end of the first worker is not seen")
            assert [report.pid for report in hub.reports()] == [222]
            hub.invariant()
            hub.close()


def test_questions_are_answered_and_refusals_are_what_the_client_is_told(link: Link) -> None:
    assert link.ask("sum", 1, 2, 3) == 6
    with pytest.raises(Refused, match="no") as refused:
        link.ask("refused")
    assert refused.value.data == {"code": "NO"}
    with pytest.raises(UpstreamVerdict) as verdict:
        link.ask("verdict")
    assert (verdict.value.code, verdict.value.data) == (-7, [1])
    with pytest.raises(RpcError, match="disk of this node is full"):
        link.ask("full")
    with pytest.raises(RuntimeError) as fault:
        link.ask("fault")
    assert "secret" not in str(fault.value)


def test_an_answer_comes_after_all_that_it_rests_on(hub: Hub, link: Link, notes: Notes) -> None:
    """What is told before an answer is seen before it."""
    link.ask("register", "second(Field)")
    assert ("names", ["second(Field)"]) in notes.seen


def test_a_new_copy_comes_while_questions_are_answered(hub: Hub, link: Link, notes: Notes) -> None:
    [before] = [content for kind, content in notes.seen if kind == "copy"]
    link.renew()
    assert link.ask("sum", 1, 2) == 3  # behind the call for the copy
    copies = [content for kind, content in notes.seen if kind == "copy"]
    assert len(copies) == len(set(copies)) == 2
    assert copies[0] == before
    assert not any(kind == "away" for kind, _ in notes.seen)
    assert len(hub.reports()) == len(hub.feed._followers) == 1


def test_a_new_copy_that_cannot_be_made_is_asked_for_again(
    hub: Hub, link: Link, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = hub.feed.add

    def fail_once(follower: Follower, target: Path) -> float:
        monkeypatch.setattr(hub.feed, "add", add)
        raise DatabaseFull("the disk is full")

    monkeypatch.setattr(hub.feed, "add", fail_once)
    link.renew()
    notes.wait_for("away")
    until(lambda: [kind for kind, _ in notes.seen].count("copy") == 2, "no second copy")


def test_a_worker_that_gets_a_new_copy_is_waited_for_until_it_answers_from_it(
    hub: Hub, link: Link, notes: Notes
) -> None:
    for follower, _ in hub._present():
        follower.close()
    notes.wait_for("away")

    def late(timeout_s: float) -> set[int]:
        return hub._marks.wait(lambda mark: hub.feed.tell(frame(Kind.MARK, mark)), timeout_s)

    until(lambda: [kind for kind, _ in notes.seen].count("copy") == 2, "no second copy")
    assert late(0.1) == {1}, "it has a copy, and no view of it"
    until(lambda: len(hub.feed._followers) == 1, "the worker does not follow")
    hub.feed.tell(frame(Kind.VIEW, Shown(7, bytes(32), True, 1)))
    assert late(PATIENCE_S) == set()


def test_without_a_primary_a_question_is_refused_at_once_and_a_new_one_is_found(
    hub: Hub, link: Link, notes: Notes
) -> None:
    for follower, _ in hub._present():
        follower.close()
    notes.wait_for("away")
    begun = time.monotonic()
    while True:
        try:
            assert link.ask("sum", 1) == 1
            break
        except Refused as error:
            assert error.data["code"] == "BUSY"  # noqa: PT017
            assert time.monotonic() - begun < PATIENCE_S
    assert [kind for kind, _ in notes.seen].count("copy") == 2


def test_questions_under_way_when_the_primary_goes_are_refused(hub: Hub, link: Link, notes: Notes) -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait() -> None:
        entered.set()
        leave.wait(PATIENCE_S)

    hub._answers = {**hub._answers, "wait": wait}
    errors: list[Exception] = []

    def ask() -> None:
        try:
            link.ask("wait")
        except Refused as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert entered.wait(PATIENCE_S)
    for follower, _ in hub._present():
        follower.close()
    asking.join(PATIENCE_S)
    leave.set()
    assert len(errors) == 1


def test_a_follower_that_falls_behind_is_dropped_and_its_memory_with_it() -> None:
    ours, theirs = socket.socketpair()
    follower = Follower(Connection(ours), bytes_max=1 << 20)
    sending = threading.Thread(target=follower.send_all)
    sending.start()
    data = batch_frame(0, [(b"key", bytes(100_000))])
    for _ in range(100):  # nobody reads
        follower.put(data)
    sending.join(PATIENCE_S)
    assert not sending.is_alive()
    assert (follower.is_closed, follower.was_too_slow) == (True, True)
    follower.put(data)
    ours.close()
    theirs.close()


def test_what_the_system_takes_is_sent_by_whoever_has_it_and_the_rest_follows_in_order() -> None:
    ours, theirs = socket.socketpair()
    reader = Connection(theirs)
    follower = Follower(Connection(ours))
    follower.put(batch_frame(0, [(b"0", b"")]))  # nobody sends what waits
    received = reader.receive()
    assert received is not None
    assert batch_of(received[1]) == (0, [(b"0", b"")])
    count = 20
    for number in range(count):  # more than the system takes
        follower.put(batch_frame(0, [(b"%d" % number, bytes(200_000))]))
    assert follower.behind_bytes > 0
    sending = threading.Thread(target=follower.send_all)
    sending.start()
    for number in range(count):
        received = reader.receive()
        assert received is not None
        assert batch_of(received[1]) == (0, [(b"%d" % number, bytes(200_000))])
    follower.put(b"")
    until(lambda: not follower.behind_bytes, "something waits still")
    follower.close()
    sending.join(PATIENCE_S)
    reader.close()
    ours.close()


def test_frames_are_whole_or_nothing() -> None:
    ours, theirs = socket.socketpair()
    reader = Connection(theirs)
    changes: list[Change] = [(b"a", b"1"), (b"b", None), (b"", b"")]
    ours.sendall(batch_frame(2, changes) + frame(Kind.VIEW, Shown(7, bytes(32), True, 1)))
    received = reader.receive()
    assert received is not None
    assert batch_of(received[1]) == (2, changes)
    received = reader.receive()
    assert received is not None
    assert received[0] is Kind.VIEW
    ours.sendall(batch_frame(1, changes)[:-1])
    ours.close()
    assert reader.receive() is None
    reader.close()
