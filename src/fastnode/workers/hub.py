"""The primary's end: workers connect, get a copy and what follows it, and ask what only the primary can answer."""

from __future__ import annotations

import logging
import pickle
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Final

from fastnode.errors import FastnodeError
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.records import dataclass
from fastnode.workers.counters import Counters, Totals
from fastnode.workers.facts import Facts
from fastnode.workers.feed import Feed, Follower
from fastnode.workers.frames import MARKED, NEW_COPY, Connection, Kind, frame
from fastnode.workers.groups import Asked, Group, Outcome, Together, outcome_of
from fastnode.workers.marks import Marks

__all__ = ["COPIES_DIRECTORY", "Hub", "WorkerReport"]

logger = logging.getLogger("fastnode.workers")

#: Below the data directory: hard links work there.
COPIES_DIRECTORY: Final = "workers"
#: Interval of checks whether the facts have changed, and interval at which they are sent in any case, in seconds.
_LOOK_INTERVAL_S: Final = 0.25
#: While block follows block the record is made once in so long, not with each.
LOOK_PAUSE_S: Final = 0.02
FACTS_INTERVAL_S: Final = 1.0
#: Questions under way, for each worker: most wait for the disk, or for another node.
_QUESTIONS_PER_WORKER: Final = 8
_QUESTIONS_MAX: Final = 64
#: For how long an answer of the admin port waits for workers.
SEEN_TIME_S: Final = 10.0


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """Report of a worker, sent each second, and what is known of its connection."""

    number: int
    pid: int
    #: Its own words: ``tip``, ``connections``, ``calls`` and more; empty before the first.
    facts: dict[str, Any]
    #: Place of its connection among all that have come.
    place: int = 0
    behind_bytes: int = 0


class _Door:
    """Socket at which workers come.  It is the supervisor's too, so that to shut it down would be the end of it for the
    next primary: there is another socket, from which something can be read when the hub stops.

        OPEN ── interrupt ──► INTERRUPTED, where nobody waits any longer ── close ──► CLOSED
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._stopped = socket.socketpair()
        listener.setblocking(False)
        self._come = select.poll()
        for sock in (listener, self._stopped[0]):
            self._come.register(sock, select.POLLIN)

    def accept(self) -> socket.socket | None:
        """Wait for one who comes; None: there is nobody, or the hub stops.  OSError."""
        self._come.poll()
        try:
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return None
        accepted.setblocking(True)
        return accepted

    def interrupt(self) -> None:
        self._stopped[1].close()

    def close(self) -> None:
        """After the last :meth:`accept`."""
        self._stopped[0].close()


class Hub:
    """``facts`` gives the present record; ``answers`` has a function for each question by name.

        a worker: CONNECTED ── its number ──► COPYING ── it has a copy ──► REPORTED, told of all that is written
                      │                          │  ▲                          │  │
                      │                          │  └── it asks for a new one ─┘  │
                      └── no number ──► GONE ◄───┴── no copy, its end, too slow ──┘   and comes again

    A link has a thread of its own, in which these follow each other; a worker that is REPORTED is in ``_reports``.

    Questions of ``together`` are answered as many at a time as wait.
    ``on_counted`` is told of what a worker had counted before, None for a new one, and has counted now.
    """

    def __init__(
        self,
        listener: socket.socket,
        directory: Path,
        feed: Feed,
        *,
        workers: int,
        facts: Callable[[], Facts],
        answers: Mapping[str, Callable[..., Any]],
        names: Callable[[], list[str]],
        together: Sequence[Together] = (),
        totals: Totals | None = None,
        on_counted: Callable[[Counters | None, Counters], None] = lambda before, after: None,
        clock: Clock = CLOCK,
    ) -> None:
        self._totals = totals
        self._on_counted = on_counted
        self.feed = feed
        self.wanted = workers
        self._directory = directory / COPIES_DIRECTORY
        self._facts = facts
        self._answers = answers
        self._names = names
        self._groups = {each.name: Group(each, self._reply, self._in_thread) for each in together}
        self._copies = count(time.time_ns())
        self._executor = ThreadPoolExecutor(
            min(_QUESTIONS_MAX, _QUESTIONS_PER_WORKER * workers), thread_name_prefix="fastnode-worker-questions"
        )
        self._lock = threading.Lock()
        self._places = count()
        self._reports: dict[Follower, WorkerReport] = {}
        self._marks = Marks()
        self._door = _Door(listener)
        self._accepting = Loop(
            "fastnode-workers", self._accept, what="workers cannot connect", clock=clock, longest_s=0.5
        )
        #: Held while facts are read and sent, so that older facts are never sent after newer ones.
        self._facts_lock = threading.Lock()
        #: Facts told last, and when.
        self._told: tuple[Facts | None, float] = None, 0.0
        self._telling = Loop(
            "fastnode-worker-facts", self._tell, what="workers are not told how the node is", clock=clock
        )

    def invariant(self) -> None:
        """AssertionError unless no place is taken twice."""
        with self._lock:
            assert len({report.place for report in self._reports.values()}) == len(self._reports)

    def start(self) -> None:
        for group in self._groups.values():
            group.start()
        self._accepting.start()
        self._telling.start()

    def close(self) -> None:
        """Workers notice at once."""
        for loop in (self._accepting, self._telling):
            loop.interrupt()
        self._marks.close()
        self._door.interrupt()
        with self._lock:
            followers = list(self._reports)
        for follower in followers:
            follower.close()
        for loop in (self._accepting, self._telling):
            loop.close()
        self._door.close()
        for group in self._groups.values():
            group.close()
        self._executor.shutdown(wait=True, cancel_futures=True)

    def look_again(self) -> None:
        """Something that the facts tell may have changed."""
        self._telling.wake()

    def register_names(self, signatures: list[str]) -> None:
        """For every worker."""
        self.feed.tell(frame(Kind.NAMES, signatures))

    def wait_until_seen(self, timeout_s: float = SEEN_TIME_S) -> None:
        """Wait until each worker answers from what has been shown so far and from the present facts.  A worker that
        does not in time, say because its process has ended and the next one has no copy yet, is logged.
        """
        with self._facts_lock:
            self._tell_facts(self._facts())
        late = self._marks.wait(lambda mark: self.feed.tell(frame(Kind.MARK, mark)), timeout_s)
        if late:
            logger.warning("workers are behind what is answered elsewhere", extra=log_facts(workers=len(late)))

    # ---- what is told of workers -----------------------------------------------------------------

    def reports(self) -> list[WorkerReport]:
        """Reports of the workers that are connected, by number."""
        found = []
        for follower, report in self._present():
            report.behind_bytes = follower.behind_bytes
            found.append(report)
        return sorted(found, key=lambda report: report.number)

    @property
    def all_serve(self) -> bool:
        return sum(1 for report in self.reports() if report.facts.get("serves")) == self.wanted

    def troubles(self) -> dict[str, str | None]:
        """Trouble that an operator should look at; None for nothing."""
        serving = sum(1 for report in self.reports() if report.facts.get("serves"))
        text = f"{serving} of {self.wanted} workers serve"
        missing = None if serving == self.wanted else text
        return {"workers": self._accepting.trouble or self._telling.trouble or missing}

    def _present(self) -> list[tuple[Follower, WorkerReport]]:
        """Each worker by its newest connection: that of a killed process may end later than the next begins."""
        with self._lock:
            found = sorted(self._reports.items(), key=lambda each: each[1].place)
        return list({report.number: (follower, report) for follower, report in found}.values())

    # ---- threads -----------------------------------------------------------------------------------

    def _accept(self) -> float:
        """Take a worker that comes; raises OSError when no descriptor is left, say, and takes it a little later."""
        accepted = self._door.accept()
        if accepted is not None:
            threading.Thread(
                target=self._serve,
                args=(Connection(accepted), next(self._places)),
                name="fastnode-worker-link",
                daemon=True,
            ).start()
        return 0.0

    def _serve(self, connection: Connection, place: int) -> None:
        """One worker, until it goes."""
        follower = Follower(connection)
        try:
            first = connection.receive()
            if first is None or first[0] is not Kind.HELLO:
                return
            number, pid = pickle.loads(first[1])
            report = WorkerReport(number=number, pid=pid, facts={}, place=place)
            if self._begin(follower, number):
                with self._lock:
                    self._reports[follower] = report
                self._listen(connection, follower, report)
        finally:
            self.feed.remove(follower)
            with self._lock:
                gone = self._reports.pop(follower, None)
                is_last = gone is not None and all(each.number != gone.number for each in self._reports.values())
                if gone is not None and is_last and self._totals is not None:
                    self._totals.present.pop(gone.number, None)
            if follower.was_too_slow:
                logger.warning("a worker was too far behind and gets a new copy", extra=log_facts(worker=number))
            connection.close()

    def _begin(self, follower: Follower, number: int) -> bool:
        self._marks.connected(number)
        follower.put(frame(Kind.FACTS, self._facts()))
        follower.put(frame(Kind.NAMES, self._names()))
        if not self._copy_for(follower, number):
            return False
        with self._facts_lock:
            follower.put(frame(Kind.FACTS, self._facts()))  # what was sent while the copy was made did not reach it
        for mark in self._marks.open_marks:
            follower.put(frame(Kind.MARK, mark))
        threading.Thread(target=follower.send_all, name="fastnode-worker-feed", daemon=True).start()
        return True

    def _copy_for(self, follower: Follower, number: int) -> bool:
        target = self._directory / f"{number}-{next(self._copies)}"
        try:
            seconds = self.feed.add(follower, target)
        except (FastnodeError, OSError) as error:
            logger.error("no copy for a worker", extra=log_facts(worker=number, reason=str(error)))
            self._accepting.rest(1.0)  # it comes again at once
            return False
        logger.info("copy for a worker", extra=log_facts(worker=number, held_ms=round(1000 * seconds, 1)))
        return True

    def _listen(self, connection: Connection, follower: Follower, report: WorkerReport) -> None:
        while (received := connection.receive()) is not None:
            kind, payload = received
            if kind is not Kind.CALL:
                return
            question, name, arguments = pickle.loads(payload)
            if name == "report":
                self._note(report, *arguments)
                continue
            if name == MARKED:
                self._marks.come(report.number, *arguments)
                continue
            if name == NEW_COPY:
                if not self._copy_for(follower, report.number):
                    return
                continue
            group = self._groups.get(name)
            if group is not None:
                group.put(Asked(follower, question, arguments))
            elif not self._in_thread(self._answer, follower, question, name, arguments):
                return

    def _in_thread(self, function: Callable[..., None], *arguments: Any) -> bool:
        """False: the node stops."""
        try:
            self._executor.submit(function, *arguments)
        except RuntimeError:
            return False
        return True

    def _note(self, report: WorkerReport, facts: dict[str, Any], counters: Counters) -> None:
        report.facts = facts
        if self._totals is not None:
            self._on_counted(self._totals.note(report.number, report.pid, counters), counters)
            self._totals.present[report.number] = facts["connections"], facts["kept_bytes"]

    def _answer(self, follower: Follower, question: int, name: str, arguments: tuple[Any, ...]) -> None:
        outcome = outcome_of(name, self._answers[name], *arguments)
        if question:
            self._reply(follower, [(question, outcome)])

    def _reply(self, follower: Follower, outcomes: list[tuple[int, Outcome]]) -> None:
        """Behind all batches that the answers rest on."""
        follower.put(frame(Kind.REPLY, outcomes))

    def _tell(self) -> float:
        with self._facts_lock:
            facts, (told, told_at) = self._facts(), self._told
            if facts != told or self._telling.clock.monotonic() - told_at > FACTS_INTERVAL_S:
                self._tell_facts(facts)
        self._telling.rest(LOOK_PAUSE_S)
        return _LOOK_INTERVAL_S

    def _tell_facts(self, facts: Facts) -> None:
        """With the lock of the facts held."""
        self.feed.tell(frame(Kind.FACTS, facts))
        self._told = facts, self._telling.clock.monotonic()
