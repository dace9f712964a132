"""Order of proofs to check: a bounded queue, fair by client.

    clients without a refused proof   one check each in turn ──┐
    suspects: one lately              one check each in turn ──┴─► as many at once as there are threads

Suspects have every eighth turn, and the turns that the others leave.  A full queue makes room for a client that has
fewer checks in it: the newest check of the client with the most is given up, a suspect's before another one's.  So
the checks of others go on for any number that one client sends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field
from typing import Final

from fastnode.proofs.inputs import Statement
from fastnode.proofs.verdict import Judgement, Verdict
from fastnode.records import dataclass

__all__ = ["VERIFIER_BUSY", "CheckQueue", "answered"]

logger = logging.getLogger(__name__)

VERIFIER_BUSY: Final = "Proof cannot be verified: all proof verifiers are busy"
VERIFIER_FAULT: Final = "Proof cannot be verified: a fault of this node"
VERIFIER_CLOSED: Final = "Proof cannot be verified: the node is stopping"

#: Checks that wait.  Each holds its public inputs and proof: 100 to 150 KB, and its caller the transaction.
WAITING_MAX: Final = 256
#: Time for which a client is a suspect after a refused proof.
SUSPECT_S: Final = 600.0
#: Clients whose refused proofs are remembered.
SUSPECTS_MAX: Final = 10_000
#: Every so many turns one is a suspect's, if others wait too.
_SUSPECT_TURN: Final = 8
#: Time for which a thread without work stays.
_IDLE_S: Final = 30.0


@dataclass(eq=False, slots=True)
class Check:
    """One statement, for all who asked while it waited or ran.  ``client`` is the one whose turn it takes."""

    statement: Statement
    digest: bytes
    client: str
    deadline: float
    result: Future[Verdict] = field(default_factory=lambda: _pending())
    clients: set[str] = field(default_factory=set)


class _Ring:
    """The waiting checks of some clients: one of each in turn."""

    def __init__(self) -> None:
        self.by_client: OrderedDict[str, deque[Check]] = OrderedDict()

    def add(self, check: Check) -> None:
        self.by_client.setdefault(check.client, deque()).append(check)

    def next(self) -> Check | None:
        if not self.by_client:
            return None
        client, checks = next(iter(self.by_client.items()))
        check = checks.popleft()
        if checks:
            self.by_client.move_to_end(client)
        else:
            del self.by_client[client]
        return check

    def remove(self, check: Check) -> None:
        checks = self.by_client[check.client]
        checks.remove(check)
        if not checks:
            del self.by_client[check.client]

    def count_of(self, client: str) -> int:
        return len(self.by_client.get(client, ()))

    def greediest(self) -> deque[Check] | None:
        return max(self.by_client.values(), key=len, default=None)


class CheckQueue:
    """Runs ``judge`` on statements in up to ``threads`` threads, which come and go with the work."""

    def __init__(
        self,
        judge: Callable[[Statement], Verdict],
        *,
        threads: int,
        timeout_s: float,
        waiting_max: int = WAITING_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._judge = judge
        self._threads_max = threads
        self._timeout_s = timeout_s
        self._waiting_max = waiting_max
        self._clock = clock
        self._changed = threading.Condition()
        self._good, self._suspect = _Ring(), _Ring()
        self._suspected_until: OrderedDict[str, float] = OrderedDict()
        self._checks: dict[bytes, Check] = {}
        self._running: set[Check] = set()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._turn = 0
        self._is_closed = False
        #: Checks that were given up because others needed the place, or refused one.
        self.turned_away = 0

    @property
    def waiting_count(self) -> int:
        return len(self._checks) - len(self._running)

    @property
    def running_count(self) -> int:
        return len(self._running)

    # ---- asking --------------------------------------------------------------------------

    def submit(self, statement: Statement, digest: bytes, client: str) -> Future[Verdict]:
        """Never blocks.  The verdict comes when it is this check's turn; it is unknown without a place or time."""
        with self._changed:
            if self._is_closed:
                return answered(Verdict.unknown(VERIFIER_CLOSED))
            check = self._checks.get(digest)
            if check is not None:
                self._join(check, client)
                return check.result
            check = Check(statement, digest, client, self._clock() + self._timeout_s)
            check.clients.add(client)
            if self.waiting_count >= self._waiting_max and not self._make_room(client):
                self.turned_away += 1
                return answered(Verdict.unknown(VERIFIER_BUSY))
            self._checks[digest] = check
            self._ring_of(client).add(check)
            self._wake_thread()
        return check.result

    def _join(self, check: Check, client: str) -> None:
        """Two ask for the same.  A check that waits takes the better turn of the two clients'."""
        check.clients.add(client)
        if check in self._running or client == check.client:
            return
        if self._is_suspect(check.client) and not self._is_suspect(client):
            self._ring_holding(check).remove(check)
            check.client = client
            self._good.add(check)

    def _make_room(self, client: str) -> bool:
        """Give up a check for one of ``client``; False if it is ``client`` that has too many itself."""
        own_ring = self._ring_of(client)
        if own_ring is self._good and (checks := self._suspect.greediest()):
            self._give_up(checks[-1])
            return True
        checks = own_ring.greediest()
        if checks is None or len(checks) <= own_ring.count_of(client) + 1:
            return False
        self._give_up(checks[-1])
        return True

    def _give_up(self, check: Check) -> None:
        self._ring_holding(check).remove(check)
        del self._checks[check.digest]
        self.turned_away += 1
        check.result.set_result(Verdict.unknown(VERIFIER_BUSY))

    def _ring_of(self, client: str) -> _Ring:
        return self._suspect if self._is_suspect(client) else self._good

    def _ring_holding(self, check: Check) -> _Ring:
        """A client may have become a suspect, or ceased to be one, while its checks wait where they are."""
        for ring in (self._good, self._suspect):
            if check in ring.by_client.get(check.client, ()):
                return ring
        raise AssertionError("a waiting check is in one of the rings")

    # ---- suspects ------------------------------------------------------------------------

    def _is_suspect(self, client: str) -> bool:
        until = self._suspected_until.get(client)
        if until is None:
            return False
        if until > self._clock():
            return True
        del self._suspected_until[client]
        return False

    def suspect(self, client: str) -> None:
        """Remember that a proof of this client was refused.  The node's own questions have no client."""
        if not client:
            return
        with self._changed:
            self._suspect_all((client,))

    def _suspect_all(self, clients: set[str] | tuple[str, ...]) -> None:
        for client in clients:
            if client:
                self._suspected_until[client] = self._clock() + SUSPECT_S
                self._suspected_until.move_to_end(client)
                for check in self._good.by_client.pop(client, ()):
                    self._suspect.add(check)
        while len(self._suspected_until) > SUSPECTS_MAX:
            self._suspected_until.popitem(last=False)

    # ---- checking ------------------------------------------------------------------------

    def _wake_thread(self) -> None:
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < self._threads_max:
            thread = threading.Thread(target=self._work, name=f"proof-{len(self._threads)}", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        while (check := self._next()) is not None:
            try:
                verdict = self._judge(check.statement)
            except Exception:
                # A bug.  Its thread and those who wait must not be lost.
                logger.exception("a proof could not be checked")
                verdict = Verdict.unknown(VERIFIER_FAULT)
            with self._changed:
                self._running.discard(check)
                del self._checks[check.digest]
                if verdict.judgement is Judgement.INVALID:
                    self._suspect_all(check.clients)
            check.result.set_result(verdict)

    def _next(self) -> Check | None:
        """The check whose turn it is; None: this thread is not needed any more."""
        with self._changed:
            while True:
                check = None if self._is_closed else self._take()
                if check is not None:
                    self._running.add(check)
                    return check
                self._idle += 1
                woken = not self._is_closed and self._changed.wait(_IDLE_S)
                self._idle -= 1
                if not woken:
                    self._threads.discard(threading.current_thread())
                    return None

    def _take(self) -> Check | None:
        while True:
            check = self._ring_in_turn().next()
            if check is None or self._clock() < check.deadline:
                return check
            del self._checks[check.digest]
            self.turned_away += 1
            check.result.set_result(Verdict.unknown(VERIFIER_BUSY))

    def _ring_in_turn(self) -> _Ring:
        if not (self._good.by_client and self._suspect.by_client):
            return self._good if self._good.by_client else self._suspect
        self._turn += 1
        return self._good if self._turn % _SUSPECT_TURN else self._suspect

    def close(self) -> None:
        """Answer all that wait, and wait for what runs."""
        with self._changed:
            self._is_closed = True
            waiting = [check for check in self._checks.values() if check not in self._running]
            for check in waiting:
                self._ring_holding(check).remove(check)
                del self._checks[check.digest]
            self._changed.notify_all()
            threads = list(self._threads)
        for check in waiting:
            check.result.set_result(Verdict.unknown(VERIFIER_CLOSED))
        for thread in threads:
            thread.join()


def _pending() -> Future[Verdict]:
    """A result that no caller can cancel: others may wait for it too."""
    result: Future[Verdict] = Future()
    result.set_running_or_notify_cancel()
    return result


def answered(verdict: Verdict) -> Future[Verdict]:
    """A verdict that is there already."""
    result = _pending()
    result.set_result(verdict)
    return result
