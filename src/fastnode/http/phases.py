"""Phases of a connection, with every transition between them in one table.

    OPEN ---- hand over ----> STREAMING ----- close ----.
      |---- last answer ----> LINGERING ----- close ----|
      '---- close -----------------------------------> CLOSING

    A connection is lost in every phase but CLOSED, which is the last one.

An event that has no place in the table is a fault of the program: it raises, and the connection is cut off.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["TRANSITIONS", "Event", "ImpossibleEvent", "Phase", "after"]


class Phase(Enum):
    OPEN = "requests are read and answered"
    STREAMING = "somebody else has the transport"
    LINGERING = "the last answer is out: data that comes is dropped"
    CLOSING = "written data is still being sent, nothing else happens"
    CLOSED = "the transport is gone"


class Event(Enum):
    HAND_OVER = "the rest of the connection is an answer without an end"
    LAST_ANSWER = "the last answer has been written"
    CLOSE = "the connection is to end when written data has been sent"
    LOST = "the transport is gone"


class ImpossibleEvent(RuntimeError):  # noqa: N818
    """An event that cannot happen in the phase of the connection."""


TRANSITIONS: Final[dict[tuple[Phase, Event], Phase]] = {
    (Phase.OPEN, Event.HAND_OVER): Phase.STREAMING,
    (Phase.OPEN, Event.LAST_ANSWER): Phase.LINGERING,
    (Phase.OPEN, Event.CLOSE): Phase.CLOSING,
    (Phase.STREAMING, Event.CLOSE): Phase.CLOSING,
    (Phase.LINGERING, Event.CLOSE): Phase.CLOSING,
    (Phase.OPEN, Event.LOST): Phase.CLOSED,
    (Phase.STREAMING, Event.LOST): Phase.CLOSED,
    (Phase.LINGERING, Event.LOST): Phase.CLOSED,
    (Phase.CLOSING, Event.LOST): Phase.CLOSED,
}


def after(phase: Phase, event: Event) -> Phase:
    """The phase that follows.  ImpossibleEvent."""
    following = TRANSITIONS.get((phase, event))
    if following is None:
        raise ImpossibleEvent(f"a connection in the phase {phase.name} has the event {event.name}")
    return following
