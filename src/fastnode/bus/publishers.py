"""The publishers on the bus as one node sees them: what each says of its chain, and which of them is followed.

The one that is followed stays it until it falls silent, gives what does not verify, or has been behind another for a
while.  One that gave what does not verify is left alone for a growing while, like an upstream.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from fastnode.bus.subjects import Reference
from fastnode.errors import DecodeError, UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.health import EndpointHealth, EndpointState, Patience
from fastnode.protocol.tips import L2Tips
from fastnode.records import dataclass

__all__ = ["At", "KnownPublisher", "Publishers"]

#: A publisher speaks every two seconds.
SILENT_S: Final = 7.0
#: For how long one may be behind another before that one is followed.
BEHIND_S: Final = 3.0
#: Time for which nothing that is pushed in a publisher's name counts, after some of it was wrong.
DISTRUST_S: Final = 60.0
PUBLISHERS_MAX: Final = 64
_MILLISECONDS_MAX: Final = 1 << 52


@dataclass(frozen=True, slots=True)
class At:
    """Tips and terms of a chain, as its publisher says."""

    tips: L2Tips
    raw: dict[str, Any]
    #: When the newest block was committed there, in seconds since 1970; 0: not known.
    committed_at: float

    @classmethod
    def of(cls, record: dict[str, Any]) -> At:
        """UpstreamFault."""
        try:
            tips = L2Tips.from_json(record.get("tips"), "tips")
        except DecodeError as error:
            raise UpstreamFault(str(error)) from error
        committed = record.get("committedAt")
        if not isinstance(committed, int) or not 0 <= committed < _MILLISECONDS_MAX:
            committed = 0
        return cls(tips, record, committed / 1000)


class KnownPublisher:
    def __init__(self, name: str, patience: Patience) -> None:
        self.name = name
        self.at: At | None = None
        #: Reason why what it says cannot be used; None if it can.
        self.fault: str | None = None
        self.heard_at = 0.0
        #: Until then only its stored words count: pushed ones, which anybody may have said, were wrong.
        self.distrusted_until = 0.0
        #: Place of its newest ``at`` in the stream.
        self.sequence = 0
        self.health = EndpointHealth(patience)
        #: By subject; what it says of its blocks and checkpoints, as far as that was heard.
        self.references: dict[str, Reference] = {}

    @property
    def number(self) -> int:
        return -1 if self.at is None else self.at.tips.proposed.number

    @property
    def is_pushed_trusted(self) -> bool:
        """True while words count that were pushed in its name."""
        return time.monotonic() >= self.distrusted_until

    def distrust_pushed(self) -> None:
        """Let only stored words count for a while: those that were pushed are forgotten."""
        self.distrusted_until = time.monotonic() + DISTRUST_S
        self.references.clear()
        self.sequence = 0

    @property
    def is_silent(self) -> bool:
        return time.monotonic() - self.heard_at > SILENT_S

    @property
    def is_ignored(self) -> bool:
        return self.health.state is EndpointState.ASIDE and self.health.is_resting

    def why_not(self) -> str | None:
        """Reason why it cannot be followed now; None if it can."""
        if self.is_ignored:
            return f"publisher {self.name} is ignored: {self.health.reason}"
        if self.fault is not None:
            return f"publisher {self.name}: {self.fault}"
        if self.at is None or self.is_silent:
            return f"publisher {self.name} is silent"
        return None

    def is_forgiven(self) -> bool:
        """True if it can be followed again because there is no other and it has been ignored for a while."""
        if not self.is_ignored or self.health.usable_alone_at > time.monotonic():
            return False
        self.health.end_pause()
        return self.why_not() is None

    def describe(self) -> dict[str, Any]:
        state = "ignored" if self.is_ignored else "silent" if self.is_silent else "publishing"
        return {
            "name": self.name,
            "state": state,
            "tip": None if self.at is None else self.number,
            "reason": self.health.reason if self.is_ignored else self.fault,
        }


class Publishers:
    """All that were heard.  Usable from any thread."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._all: dict[str, KnownPublisher] = {}
        self._behind_since: float | None = None
        self.followed: KnownPublisher | None = None

    def heard(self, name: str) -> KnownPublisher | None:
        """The publisher of this name; None when there are too many."""
        with self._lock:
            known = self._all.get(name)
            if known is None:
                if len(self._all) >= PUBLISHERS_MAX:
                    gone = next((each for each in self._all.values() if each.is_silent and not each.is_ignored), None)
                    if gone is None:
                        return None
                    del self._all[gone.name]
                known = self._all[name] = KnownPublisher(name, self._patience)
            return known

    def known(self, name: str) -> KnownPublisher | None:
        return self._all.get(name)

    def all(self) -> list[KnownPublisher]:
        with self._lock:
            return list(self._all.values())

    def choose(self) -> KnownPublisher:
        """Publisher to follow now; UpstreamUnavailable says why there is none."""
        reasons = {each: each.why_not() for each in self.all()}
        usable = [each for each, reason in reasons.items() if reason is None]
        if not usable:
            # Nothing is lost by asking ignored ones while there are no others.
            usable = [each for each in reasons if each.is_forgiven()]
        if not usable:
            raise UpstreamUnavailable("; ".join(filter(None, reasons.values())) or "no publisher has been heard")
        best = max(usable, key=lambda each: (each.number, each.name))
        current = self.followed
        if current not in usable:
            self._follow(best)
            return best
        assert current is not None
        if best.number <= current.number:
            self._behind_since = None
            return current
        now = time.monotonic()
        if self._behind_since is None:
            self._behind_since = now
        if now - self._behind_since < BEHIND_S:
            return current
        self._follow(best)
        return best

    def _follow(self, publisher: KnownPublisher) -> None:
        self._behind_since = None
        self.followed = publisher

    def forget_references(self) -> None:
        """Some may have changed unheard."""
        for each in self.all():
            each.references.clear()

    def describe(self) -> list[dict[str, Any]]:
        followed = self.followed
        return [each.describe() | {"isFollowed": each is followed} for each in self.all()]
