"""How the node is, as its probes tell it.

    GET /livez    200 as long as the event loop runs: restart what does not answer
    GET /readyz   200 if requests should be sent here, else 503: a load balancer asks this
    GET /status   200 OK, or 503 when something is wrong; what, for those who accept JSON, and why it is not ready

/readyz is about serving now: it fails until there is a chain with its state that is new enough, and again from the
moment the node is told to stop.  /status is about what an operator should look at: a node whose upstreams are all
away still serves what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import orjson

__all__ = ["PROBE_PATHS", "Health", "answer_probe"]

STATUS: Final = b"/status"
LIVE: Final = b"/livez"
READY: Final = b"/readyz"
#: Notes that the text of /status has too; what compares it with OK is to notice a pause and nothing lasting.
_NOTES_OF_TEXT: Final = ("sync",)
PROBE_PATHS: Final = frozenset({STATUS, LIVE, READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``components`` maps each part of the node to what is wrong with it, None for nothing.

    ``not_ready`` says why no request should be sent here, None if they may come.  ``notes`` say what is not wrong, but
    not as usual either: that an operator has paused a part, or that it does only some of its work.  ``states`` tells of
    some components how they are, also when nothing is wrong with them.
    """

    components: Mapping[str, str | None] = field(default_factory=dict)
    not_ready: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)

    @property
    def failing(self) -> dict[str, str]:
        return {name: reason for name, reason in self.components.items() if reason is not None}


def answer_probe(path: bytes, health: Health, *, as_json: bool) -> tuple[HTTPStatus, bytes]:
    """Status and body for one of the probe paths."""
    if path == LIVE:
        failing: dict[str, str] = {}
    elif path == READY:
        failing = {} if health.not_ready is None else {"ready": health.not_ready}
    else:
        failing = health.failing
    status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
    if not as_json:
        notes = _notes_of_text(health) if path == STATUS else []
        return status, "\n".join([*(failing.values() or ["OK"]), *notes]).encode()
    body: dict[str, object] = {"ok": not failing}
    if path == STATUS:
        body["components"] = {name: _component(health, name, reason) for name, reason in health.components.items()}
        if health.notes:
            body["notes"] = dict(health.notes)
        if health.not_ready is not None:
            body["notReady"] = health.not_ready
    if path == READY and failing:
        body["reason"] = health.not_ready
    return status, orjson.dumps(body)


def _notes_of_text(health: Health) -> list[str]:
    notes = [f"{name}: {health.notes[name]}" for name in _NOTES_OF_TEXT if name in health.notes]
    if health.not_ready is not None and health.not_ready not in health.failing.values():
        notes.append(f"not ready: {health.not_ready}")
    return notes


def _component(health: Health, name: str, reason: str | None) -> dict[str, object]:
    told = {"reason": reason, "state": health.states.get(name)}
    return {"ok": reason is None} | {key: value for key, value in told.items() if value is not None}
