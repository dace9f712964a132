"""Budgets of clients that count over all nodes of a fleet.

Every node keeps a client's whole budget, and each second it writes on the bus what it granted since, and charges the
client for what the others wrote.  So all of them see the same budget, a second late: what is granted twice within that
second is owed, and the budget is below zero until it has been paid back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import orjson

from fastnode.bus.connection import Bus, Outgoing
from fastnode.bus.subjects import BUS_VERSION, Subjects
from fastnode.errors import FastnodeError, UpstreamError, UpstreamUnavailable
from fastnode.loop import Loop

__all__ = ["ClientBudgets", "LoopEnded", "SharedBudgets"]

logger = logging.getLogger("fastnode.bus")

EXCHANGE_S: Final = 1.0
#: A client that was not seen here for so long is not written any more.
FORGET_S: Final = 20.0
CLIENTS_MAX: Final = 5_000
#: Seconds for which a node's last value is kept when the bus has it no more: a bus that is away is back by then, and
#: nodes that have gone do not come again under their names.
OTHERS_KEPT_S: Final = 600.0
_SPENT: Final = "spent"


class LoopEnded(FastnodeError):  # noqa: N818 - not an error
    """The event loop that keeps the budgets has ended: the node stops."""


class ClientBudgets(Protocol):
    """Budgets of one node; both methods are called in its event loop."""

    def take_spent(self) -> Mapping[str, float]:
        """Costs granted to each client since the last call."""
        ...

    def charge(self, client: str, cost: float) -> None:
        """Another node granted this."""
        ...


class SharedBudgets:
    """``in_loop`` runs a function in the event loop and gives its result; it raises LoopEnded when that has ended."""

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        budgets: Callable[[], ClientBudgets | None],
        *,
        session: str,
        in_loop: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        self._bus = bus
        self._subjects = subjects
        self._budgets = budgets
        self._session = session
        self._in_loop = in_loop
        self._spent: dict[str, float] = {}  # since the start of this process
        self._seen_at: dict[str, float] = {}
        #: By node: its session, what it wrote, and when that was read.
        self._others: dict[str, tuple[Any, dict[str, float], float]] = {}
        self._reason: str | None = None
        self._loop = Loop("fastnode-budgets", self._turn, what="budgets of clients are not shared", clock=bus.clock)

    def start(self) -> None:
        self._loop.start()

    def close(self) -> None:
        self._loop.close()

    @property
    def trouble(self) -> str | None:
        """Reason why budgets are not shared although the bus is there; None while they are."""
        return self._loop.trouble or self._reason

    def _turn(self) -> float:
        try:
            self.exchange()
            self._reason = None
        except UpstreamUnavailable:
            pass  # each node has its own budgets until the bus is back; then what was granted is charged
        except UpstreamError as error:
            self._reason = f"budgets of clients are not shared: {error}"
        except LoopEnded:
            self._loop.interrupt()
        return EXCHANGE_S

    def exchange(self) -> None:
        """Write what was granted here, charge what was granted elsewhere.  UpstreamUnavailable."""
        self._note(self._in_loop(self._take_spent))
        value = {"version": BUS_VERSION, "session": self._session, _SPENT: self._spent}
        subject = self._subjects.value(f"{_SPENT}.{self._bus.options.name}")
        self._bus.publish(Outgoing(subject, orjson.dumps(value)))
        owed = self._owed_to_others(subject)
        if owed:
            self._in_loop(lambda: self._charge(owed))

    def _take_spent(self) -> Mapping[str, float]:
        budgets = self._budgets()
        return {} if budgets is None else budgets.take_spent()

    def _charge(self, owed: Mapping[str, float]) -> None:
        budgets = self._budgets()
        if budgets is not None:
            for client, cost in owed.items():
                budgets.charge(client, cost)

    def _note(self, spent: Mapping[str, float]) -> None:
        now = self._bus.clock.monotonic()
        for client, cost in spent.items():
            self._spent[client] = self._spent.get(client, 0.0) + cost
            self._seen_at[client] = now
        gone = [client for client, seen_at in self._seen_at.items() if now - seen_at > FORGET_S]
        if len(self._spent) - len(gone) > CLIENTS_MAX:
            gone = sorted(self._seen_at, key=self._seen_at.__getitem__)[: len(self._spent) - CLIENTS_MAX]
        for client in gone:
            del self._spent[client], self._seen_at[client]

    def _owed_to_others(self, own_subject: str) -> dict[str, float]:
        owed: dict[str, float] = {}
        now = self._bus.clock.monotonic()
        for message in self._bus.matching(self._subjects.bucket, self._subjects.value(f"{_SPENT}.*")):
            if message.subject == own_subject:
                continue
            try:
                value = orjson.loads(message.data)
                spent = {str(client): float(cost) for client, cost in value[_SPENT].items()}
                session = value["session"]
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
                continue
            known = self._others.get(message.subject)
            before = known[1] if known is not None and known[0] == session else None
            self._others[message.subject] = (session, spent, now)
            if known is None:
                continue  # what it granted before this node heard of it is not charged
            for client, cost in spent.items():
                # A client that it forgot in between begins at nothing again.
                earlier = 0.0 if before is None else before.get(client, 0.0)
                owed[client] = owed.get(client, 0.0) + (cost - earlier if cost >= earlier else cost)
        for subject in [subject for subject, known in self._others.items() if now - known[2] > OTHERS_KEPT_S]:
            del self._others[subject]
        return {client: cost for client, cost in owed.items() if cost > 0}
