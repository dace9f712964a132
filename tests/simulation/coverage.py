"""States and transitions of the nodes that a seed reaches: counted while somebody asks for them, and never else.

A watched attribute becomes a descriptor that notes what it changes from and to; a watched method notes what it is
called with.  What is drawn here or above its class, and reached by no seed, is what the simulation does not try.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fastnode.bus.upstream import BusUpstream, Hearing
from fastnode.http.phases import TRANSITIONS, Phase
from fastnode.http.reader import ReadState, RequestReader
from fastnode.http.stream import HttpStream
from fastnode.loop import Setbacks
from fastnode.mempool.entries import TxState
from fastnode.mempool.pool import TxPool
from fastnode.outgoing.health import EndpointHealth, EndpointState
from fastnode.p2p.discovery.service import Discovery, Reading
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.node.swarm import Swarm, SwarmState
from fastnode.p2p.transport.link import Link, LinkState
from fastnode.proofs.verifier import BbVerifier, VerifierState
from fastnode.publishing.account import AccountState
from fastnode.publishing.publisher import L1Publisher
from fastnode.publishing.requests import OutcomeKind
from fastnode.sequencing.record import SlotOutcome, SlotRecord
from fastnode.serving.server import HttpServer
from fastnode.sources.follower import Follower
from fastnode.sources.follower import Stage as FollowerStage
from fastnode.sources.sync_control import SyncControl, SyncState

__all__ = ["reached", "table", "watch"]

_ARROW: Final = " -> "
_reached: Final[set[str]] = set()


@dataclass(frozen=True)
class Watched:
    """``read`` takes the state out of what the attribute holds; ``drawn``: transitions, as "OLD -> NEW"."""

    owner: type
    attribute: str
    states: type[Enum]
    read: Callable[[Any], Any] = lambda value: value
    drawn: tuple[str, ...] = ()


def _drawn(*rows: str) -> tuple[str, ...]:
    """Rows as "A B C": from A to B, and from there to C."""
    paths = [row.split() for row in rows]
    return tuple(_ARROW.join(pair) for path in paths for pair in itertools.pairwise(path))


_ATTRIBUTES: Final = (
    Watched(
        HttpStream,
        "_phase",
        Phase,
        drawn=tuple(f"{old.name}{_ARROW}{new.name}" for (old, _), new in TRANSITIONS.items()),
    ),
    Watched(RequestReader, "state", ReadState, drawn=_drawn("IDLE HEAD BODY IDLE ENDED", "HEAD ENDED")),
    Watched(
        HttpServer,
        "_stage",
        Enum("ServerStage", "NEW LISTENING REPLACED STOPPING"),
        lambda value: type(value).__name__.upper(),
        _drawn("NEW LISTENING REPLACED STOPPING", "LISTENING STOPPING"),
    ),
    Watched(Follower, "_standing", FollowerStage, lambda value: value.stage, _drawn("NEW CATCHING_UP CAUGHT_UP")),
    Watched(
        SyncControl,
        "_state",
        SyncState,
        drawn=_drawn("RUNNING PAUSING PAUSED RUNNING STOPPING", "PAUSING RUNNING", "PAUSED STOPPING"),
    ),
    Watched(
        EndpointHealth,
        "state",
        EndpointState,
        drawn=_drawn("UNKNOWN HEALTHY UNAVAILABLE HEALTHY ASIDE HEALTHY", "UNKNOWN UNAVAILABLE"),
    ),
    Watched(
        L1Publisher,
        "_standing",
        AccountState,
        lambda value: value.state,
        _drawn("IDLE SENT SPEED_UP MINED SENT MINED", "SENT CANCELLED MINED", "SPEED_UP CANCELLED NOT_MINED SENT"),
    ),
    Watched(
        Link, "_state", LinkState, drawn=_drawn("DIALLED HANDSHAKE READY CLOSED", "DIALLED CLOSED", "HANDSHAKE CLOSED")
    ),
    Watched(Swarm, "_state", SwarmState, drawn=_drawn("NEW LISTENING STOPPING", "NEW STOPPING")),
    Watched(Discovery, "_reading", Reading, drawn=_drawn("NEW READING RESTING READING CLOSED", "RESTING CLOSED")),
    Watched(BusUpstream, "_hearing", Hearing, drawn=_drawn("DEAF STALE FRESH STALE")),
    Watched(BbVerifier, "_state", VerifierState, drawn=_drawn("PREPARING READY", "PREPARING FAILED PREPARING")),
    Watched(
        Setbacks,
        "reason",
        Enum("Going", "GOES PAUSES"),
        lambda value: "GOES" if value is None else "PAUSES",
        _drawn("GOES PAUSES GOES"),
    ),
)

#: Called with one of these among its arguments.
_CALLS: Final[tuple[tuple[type, str, type[Enum]], ...]] = (
    (SlotRecord, "note", SlotOutcome),
    (Swarm, "penalize", Penalty),
    (Swarm, "leave", Goodbye),
)


def _note(owner: type, old: Any, new: Any) -> None:
    name, now = owner.__name__, getattr(new, "name", new)
    _reached.add(f"{name} {now}")
    if old is not None and old != new:
        _reached.add(f"{name} {getattr(old, 'name', old)}{_ARROW}{now}")


def watch() -> None:
    """Begin, in this process and for good."""
    for watched in _ATTRIBUTES:
        setattr(watched.owner, watched.attribute, _Attribute(watched))
    for owner, method, kind in _CALLS:
        _watch_calls(owner, method, kind)
    finish, put = L1Publisher._finish, TxPool._put

    def finished(self: L1Publisher, what: str, outcome: Any) -> Any:
        _note(L1Publisher, None, f"outcome {outcome.kind.name}")
        return finish(self, what, outcome)

    def kept(self: TxPool, entry: Any) -> None:
        before = self._entries.get(entry.hash)
        _note(TxPool, None if before is None else TxState(before.state), TxState(entry.state))
        put(self, entry)

    L1Publisher._finish, TxPool._put = finished, kept  # type: ignore[method-assign]


class _Attribute:
    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        #: That of a class with slots; None: it is among the members of the object.
        self._slot: Any = vars(watched.owner).get(watched.attribute)

    def __get__(self, owner: Any, _: Any = None) -> Any:
        if owner is None:
            return self
        if self._slot is not None:
            return self._slot.__get__(owner)
        try:
            return vars(owner)[self._watched.attribute]
        except KeyError:
            raise AttributeError(self._watched.attribute) from None

    def __set__(self, owner: Any, value: Any) -> None:
        watched = self._watched
        try:
            old = watched.read(self.__get__(owner))
        except AttributeError:
            old = None
        _note(watched.owner, old, watched.read(value))
        if self._slot is not None:
            self._slot.__set__(owner, value)
        else:
            vars(owner)[watched.attribute] = value


def _watch_calls(owner: type, method: str, kind: type[Enum]) -> None:
    plain = getattr(owner, method)

    def told(self: Any, *arguments: Any, **named: Any) -> Any:
        for each in (*arguments, *named.values()):
            if isinstance(each, kind):
                _note(owner, None, f"{method} {each.name}")
        return plain(self, *arguments, **named)

    setattr(owner, method, told)


def reached() -> list[str]:
    return sorted(_reached)


def _all() -> Iterator[str]:
    """All that there is to reach, as far as it is known beforehand."""
    for watched in _ATTRIBUTES:
        yield from (f"{watched.owner.__name__} {state.name}" for state in watched.states)
        yield from (f"{watched.owner.__name__} {transition}" for transition in watched.drawn)
    for owner, method, kind in _CALLS:
        yield from (f"{owner.__name__} {method} {each.name}" for each in kind)
    yield from (f"L1Publisher outcome {each.name}" for each in OutcomeKind)
    yield from (f"TxPool {each.name}" for each in TxState)


def table(found: Counter[str], seeds: int) -> Iterable[str]:
    """Lines: a state or transition, and in how many of the seeds it was reached; then those that none has reached."""
    width = max(map(len, {*found, *_all()}))
    yield f"{'state or transition':<{width}}  of {seeds} seeds"
    yield from (f"{name:<{width}}  {found[name]}" for name in sorted(found))
    missing = sorted(set(_all()) - set(found))
    yield f"reached by no seed: {len(missing)}"
    yield from missing
