"""Health of the node, as its probes tell it.

    GET /livez    200 as long as the event loop runs: restart what does not answer
    GET /readyz   200 if requests should be sent here, else 503: a load balancer asks this
    GET /status   200 OK, or 503 when something is wrong; what, for those who accept JSON, and why it is not ready

/readyz is about serving now: it fails until there is a chain with its state that is new enough, and again from the
moment the node is told to stop.  /status is about what an operator should look at: a node whose upstreams are all
away still serves what it has.  The answer of /readyz names what is wrong with any status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Final, NamedTuple

import orjson

from fastnode.records import dataclass

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
        told = _Told(None, {}, {})
    elif path == READY:
        told = _ready(health)
    else:
        told = _status(health)
    status = HTTPStatus.OK if told.wrong is None else HTTPStatus.SERVICE_UNAVAILABLE
    if as_json:
        return status, orjson.dumps({"ok": told.wrong is None, **told.members})
    lines = [told.wrong or "OK", *(f"{name}: {text}" for name, text in told.also.items())]
    return status, "\n".join(lines).encode()


class _Told(NamedTuple):
    """``wrong``: why the answer is 503; ``also``: further lines of the text; ``members``: of the JSON."""

    wrong: str | None
    also: Mapping[str, str]
    members: Mapping[str, object]


def _ready(health: Health) -> _Told:
    reason, failing = health.not_ready, health.failing
    members = ({} if reason is None else {"reason": reason}) | ({"failing": failing} if failing else {})
    return _Told(reason, {name: text for name, text in failing.items() if text != reason}, members)


def _status(health: Health) -> _Told:
    failing, not_ready = health.failing, health.not_ready
    members: dict[str, object] = {
        "components": {name: _component(health, name, reason) for name, reason in health.components.items()}
    }
    if health.notes:
        members["notes"] = dict(health.notes)
    also = {name: health.notes[name] for name in _NOTES_OF_TEXT if name in health.notes}
    if not_ready is not None:
        members["notReady"] = not_ready
        if not_ready not in failing.values():
            also["not ready"] = not_ready
    return _Told("\n".join(failing.values()) or None, also, members)


def _component(health: Health, name: str, reason: str | None) -> dict[str, object]:
    told = {"reason": reason, "state": health.states.get(name)}
    return {"ok": reason is None} | {key: value for key, value in told.items() if value is not None}
