"""The worker's end: a thread that follows the primary, and questions to it from any thread.

connect ─► COPY: open it ─► BATCH ... VIEW ... ─► the primary has gone, or the copy cannot follow
   ▲                                                                     │
   └────────────── requests are answered from the last view ◄───────────┘
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from fastnode import interpreter
from fastnode.errors import FastnodeError
from fastnode.log import log_facts
from fastnode.workers.calls import away, raised
from fastnode.workers.facts import Facts
from fastnode.workers.frames import MARKED, NEW_COPY, POOL, Change, Connection, Kind, Shown, batch_of, frame

__all__ = ["Follows", "Link"]

logger = logging.getLogger("fastnode.workers")

#: Between two attempts to connect, or to open a copy; twice as long each time that one does not last a while: a copy
#: that cannot be written, say, is no better when it is made again at once.
_RETRY_S: Final = 0.1
_RETRY_MAX_S: Final = 5.0
_WHILE_S: Final = 10.0
#: So many of the pool, of two transactions that have come, take less time than to give way.
_FEW_CHANGES: Final = 4
#: A question is given up after this: a primary that answers no more has another fault than a restart.
ANSWER_TIME_S: Final = 60.0


class Follows(Protocol):
    """Receiver of what a worker is sent; called in the thread of the link."""

    def on_copy(self, path: Path) -> None: ...
    def on_batch(self, database: int, changes: list[Change]) -> None: ...
    def on_view(self, shown: Shown) -> bool:
        """False: a new copy is wanted."""

    def after_view(self) -> None:
        """Do work that may take long, once requests are answered from the view."""

    def on_facts(self, facts: Facts) -> None: ...
    def on_names(self, signatures: list[str]) -> None: ...
    def on_away(self) -> None: ...


class _Question:
    __slots__ = ("_waiting", "outcome")

    def __init__(self) -> None:
        # A bare lock serves as an event that one thread waits for: an Event has three, and wakes it up twice.
        self._waiting = threading.Lock()
        self._waiting.acquire()
        self.outcome: tuple[bool, Any] | None = None

    def wait(self) -> None:
        self._waiting.acquire(timeout=ANSWER_TIME_S)

    def end(self) -> None:
        """With the outcome, or without one."""
        with contextlib.suppress(RuntimeError):  # it has ended before
            self._waiting.release()


class Link:
    """``address`` is the socket of the primary, ``number`` that of this worker.  ``start`` it once.

    The thread calls ``on_begin`` before anything else.  A block waits for ``delay_s`` after it was shown, so that not
    all workers of a machine repeat it at the same time.
    """

    def __init__(
        self,
        address: Path,
        number: int,
        follows: Follows,
        *,
        on_begin: Callable[[], object] = lambda: None,
        delay_s: float = 0.0,
    ) -> None:
        self._on_begin = on_begin
        self._delay_s = delay_s
        self._address = address
        self._number = number
        self._follows = follows
        self._connection: Connection | None = None
        #: True once the primary has said something on this connection: until then it only waits to be accepted.
        self._is_heard = False
        #: True between a new copy and its first view: requests are answered from the copy before.
        self._awaits_view = False
        #: Marks that came meanwhile.
        self._passed_marks: list[int] = []
        self._sending = threading.Lock()
        self._questions: dict[int, _Question] = {}
        self._numbers = count(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fastnode-link", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        connection = self._connection
        if connection is not None:
            connection.shut_down()
        self._thread.join()

    def renew(self) -> None:
        """Ask for a new copy; requests and questions are answered as before meanwhile."""
        self.tell(NEW_COPY)

    @property
    def is_connected(self) -> bool:
        return self._is_heard

    # ---- questions -----------------------------------------------------------------------------

    def ask(self, name: str, *arguments: Any) -> Any:
        """The primary's answer, after everything that it rests on has been repeated here.  Refused, with the primary's
        reasons, or because it is away.
        """
        question, number = _Question(), next(self._numbers)
        self._questions[number] = question
        try:
            if not self._send(frame(Kind.CALL, (number, name, arguments))):
                raise away()
            question.wait()
        finally:
            self._questions.pop(number, None)
        if question.outcome is None:
            raise away()
        is_answer, content = question.outcome
        if not is_answer:
            raise raised(content)
        return content

    def tell(self, name: str, *arguments: Any) -> None:
        """Nothing is answered, and nothing is said if the primary is away."""
        self._send(frame(Kind.CALL, (0, name, arguments)))

    def _send(self, data: bytes) -> bool:
        connection = self._connection
        if connection is None or not self._is_heard:
            return False
        try:
            with self._sending:
                connection.send(data)
        except OSError:
            return False
        return True

    # ---- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        self._on_begin()
        pause_s = _RETRY_S
        while not self._stop.is_set():
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.connect(str(self._address))
            except OSError:
                sock.close()
                self._stop.wait(_RETRY_S)
                continue
            begun = time.monotonic()
            self._follow(Connection(sock))
            lasted = time.monotonic() - begun > _WHILE_S
            pause_s = _RETRY_S if lasted else min(_RETRY_MAX_S, 2 * pause_s)
            self._stop.wait(pause_s)

    def _follow(self, connection: Connection) -> None:
        self._connection = connection
        try:
            connection.send(frame(Kind.HELLO, (self._number, os.getpid())))
            while not self._stop.is_set() and (received := connection.receive()) is not None:
                self._is_heard = True
                if received[0] is Kind.BLOCK:
                    self._stop.wait(max(0.0, pickle.loads(received[1]) / 1e9 + self._delay_s - time.monotonic()))
                    continue
                if not self._take(*received):
                    break
        except FastnodeError as error:
            logger.warning("a new copy is needed", extra=log_facts(reason=str(error)))
        except OSError as error:
            logger.warning("the primary cannot be followed", extra=log_facts(reason=error.strerror or str(error)))
        finally:
            self._connection, self._is_heard = None, False
            self._awaits_view = False
            self._passed_marks.clear()
            connection.close()
            for question in list(self._questions.values()):
                question.end()
            self._follows.on_away()

    def _take(self, kind: Kind, payload: bytes) -> bool:
        if kind is Kind.REPLY:
            for number, outcome in pickle.loads(payload):
                question = self._questions.get(number)
                if question is not None:
                    question.outcome = outcome
                    question.end()
            return True
        if kind is Kind.BATCH:
            self._repeat(*batch_of(payload))
            return True
        if kind is Kind.MARK:
            self._passed_marks.append(pickle.loads(payload))
            self._tell_marks()
            return True
        with interpreter.LOOP.asked_soon():
            return self._learn(kind, pickle.loads(payload))

    def _tell_marks(self) -> None:
        """Once requests are answered from all that came before the marks."""
        if self._awaits_view:
            return
        for mark in self._passed_marks:
            self.tell(MARKED, mark)
        self._passed_marks.clear()

    def _repeat(self, database: int, changes: list[Change]) -> None:
        if database == POOL and len(changes) <= _FEW_CHANGES:
            self._follows.on_batch(database, changes)
            return
        with interpreter.LOOP.asked_soon():
            interpreter.step_aside()
            self._follows.on_batch(database, changes)
            interpreter.step_aside()

    def _learn(self, kind: Kind, content: Any) -> bool:
        follows = self._follows
        if kind is Kind.VIEW:
            is_followed = follows.on_view(content)
            self._awaits_view = False
            self._tell_marks()
            follows.after_view()
            return is_followed
        if kind is Kind.FACTS:
            follows.on_facts(content)
        elif kind is Kind.COPY:
            self._awaits_view = True
            follows.on_copy(content)
        elif kind is Kind.NAMES:
            follows.on_names(content)
        return True
