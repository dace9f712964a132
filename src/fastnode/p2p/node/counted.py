"""Names of everything that is counted on the network, so that counters can be there before anything is."""

from __future__ import annotations

from itertools import product
from typing import Final

from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.node.request_limits import Request, Status

__all__ = ["EVENTS", "MESSAGES", "PROPOSED_BLOCKS", "REQUESTS"]

#: Events of connections, peers and discovery.
EVENTS: Final = (
    "accepted",
    "connected",
    "dialled",
    "discovered",
    "discovery handshakes",
    "discovery lookups",
    "discovery packets dropped",
    "discovery packets refused",
    "displaced",
    "internal errors",
    "lost",
    "refused",
    *(f"left {goodbye.name.lower()}" for goodbye in Goodbye),
    *(f"penalty {penalty.name.lower()}" for penalty in Penalty),
)
_OF_ANY_TOPIC: Final = ("broken promises", "graylisted", "left out")
_OF_A_TOPIC: Final = (
    *("duplicate", "forwarded", "given", "invalid", "no room", "passed over", "published", "received"),
    *(verdict.value for verdict in Verdict),
)
#: Messages of gossip, by topic and by what becomes of them.
MESSAGES: Final = (
    *(("", outcome) for outcome in _OF_ANY_TOPIC),
    *((topic.value, outcome) for topic, outcome in product(Topic, _OF_A_TOPIC)),
)
_STATUSES: Final = tuple(status.name.lower() for status in Status)
#: Requests, by direction, name and status.
REQUESTS: Final = (
    *(("in", request.value, status) for request, status in product(Request, _STATUSES)),
    *(("out", request.value, status) for request, status in product(Request, (*_STATUSES, "timeout"))),
    *(("in", Request.GOODBYE.value, goodbye.name.lower()) for goodbye in Goodbye),
    ("out", Request.GOODBYE.value, "sent"),
)
#: Blocks of proposals, by what becomes of them.
PROPOSED_BLOCKS: Final = (
    *(
        "invalid",
        "known",
        "late",
        "not executed",
        "not judged",
        "rejected",
        "stored",
        "too many",
        "transactions missing",
    ),
)
