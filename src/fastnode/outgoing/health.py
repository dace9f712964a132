"""The health of one endpoint: whether it can be asked, why not, and when it is asked again.

unknown ──identified──► healthy ◄──────────────────────────┐
   │                     │    │                            │
   │     no answer, busy │    │ answers that are wrong     │ the pause is over: identified again
   ▼                     ▼    ▼                            │
unavailable (asked again after a growing pause)    put aside (a longer pause)
"""

from __future__ import annotations

import enum
import random
import threading
import time
from typing import Final

from fastnode.errors import UpstreamRejection, UpstreamUnavailable
from fastnode.outgoing.quoting import is_same_reason
from fastnode.records import dataclass

__all__ = ["EndpointHealth", "EndpointState", "Patience"]

#: A generator of its own: the module's belongs to the program, which may have seeded it.
_CHANCE: Final = random.Random()
#: Bounds the exponent of a pause; the maximum is reached long before.
_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Pauses in seconds.  Each pause is drawn at random between 0.5 and 1.5 times its value here."""

    unavailable_s: float = 0.5
    unavailable_max_s: float = 30.0
    #: Limit up to which Retry-After of a server is obeyed.
    retry_after_max_s: float = 300.0
    aside_s: float = 30.0
    aside_max_s: float = 600.0
    #: The longest pause while nothing else can be asked: who waits for the only one has nothing to lose by asking.
    alone_s: float = 5.0
    #: For how long one that answers, but has failed at work twice in a row, comes behind others.
    trial_s: float = 15.0
    trial_max_s: float = 600.0


class EndpointState(enum.Enum):
    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNAVAILABLE = "unavailable"
    ASIDE = "put aside"


class EndpointHealth:
    """Usable from any thread.  Every change returns whether the state is new, so that it is logged once."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._failures = 0  # one after the other
        self._times_aside = 0
        self._times_useless = 0
        self._trial_at = 0.0
        #: Reason why the last work with it failed; None when it was of use since.
        self._unproven: str | None = None
        self.state = EndpointState.UNKNOWN
        #: Reason why it is not healthy; empty if it is.
        self.reason = ""
        #: When it entered its state, in seconds since 1970.
        self.since = time.time()
        #: When it may be asked again, on the clock of ``time.monotonic``.
        self.usable_at = 0.0
        #: The same while nothing else can be asked.
        self.usable_alone_at = 0.0
        #: Number of its pauses, and their sum in seconds.
        self.pause_count = 0
        self.paused_s = 0.0

    @property
    def is_healthy(self) -> bool:
        return self.state is EndpointState.HEALTHY

    @property
    def is_put_aside(self) -> bool:
        return self.state is EndpointState.ASIDE

    @property
    def times_aside(self) -> int:
        """Times that it was put aside since it was of use."""
        return self._times_aside

    @property
    def is_resting(self) -> bool:
        """True if it must not be asked yet."""
        return self.usable_at > time.monotonic()

    @property
    def is_last_resort(self) -> bool:
        """True if others come before it: it answers, and has failed at work again and again."""
        return self._unproven is not None and self._trial_at > time.monotonic()

    def is_news(self, reason: str) -> bool:
        """True for another reason than that of its state, or of work that failed; numbers in it do not matter."""
        return not is_same_reason(reason, self.reason) and not is_same_reason(reason, self._unproven)

    def end_pause(self) -> None:
        """Let it be asked now."""
        with self._lock:
            self.usable_at = self.usable_alone_at = time.monotonic()

    def on_identified(self) -> bool:
        """It answers, and it is the expected server.  After work that failed that alone is no news: it may do no more
        than say who it is."""
        with self._lock:
            is_news = self.state is not EndpointState.HEALTHY and self._unproven is None
            if self._unproven is None:
                self._failures = 0
            self._enter(EndpointState.HEALTHY, "", 0.0)
        return is_news

    def on_useless(self, error: Exception) -> None:
        """Work with it has failed, after :meth:`on_error`: pauses grow, and the same is no news, until it is of use."""
        patience = self._patience
        with self._lock:
            self._unproven = str(error)
            if self._times_useless:
                pause = _pause(patience.trial_s, patience.trial_max_s, self._times_useless - 1)
                self._trial_at = time.monotonic() + pause
            self._times_useless += 1

    def on_useful(self) -> bool:
        """Its answers could be used: the next pause is a short one again."""
        with self._lock:
            is_news = self._unproven is not None and self.is_healthy
            self._unproven = None
            self._failures = self._times_aside = self._times_useless = 0
        return is_news

    def on_unavailable(self, reason: str, retry_after_s: float | None = None) -> bool:
        """It gives no answer.  During a pause nothing changes: several requests may have been under way."""
        patience = self._patience
        with self._lock:
            if self.is_resting:
                return False
            pause = _pause(patience.unavailable_s, patience.unavailable_max_s, self._failures)
            if retry_after_s is not None:
                pause = max(pause, min(retry_after_s, patience.retry_after_max_s))
            self._failures += 1
            is_news = self.state is not EndpointState.UNAVAILABLE and not is_same_reason(reason, self._unproven)
            self._enter(EndpointState.UNAVAILABLE, reason, pause)
        return is_news

    def put_aside(self, reason: str) -> float:
        """Its answers are wrong, or contradict what is certain; returns the length of the pause in seconds."""
        patience = self._patience
        with self._lock:
            pause = _pause(patience.aside_s, patience.aside_max_s, self._times_aside)
            self._times_aside += 1
            self._enter(EndpointState.ASIDE, reason, pause)
        return pause

    def on_error(self, error: Exception) -> bool:
        """:meth:`on_unavailable` or :meth:`put_aside`, by the kind of the error; whether that is news."""
        if isinstance(error, UpstreamUnavailable):
            return self.on_unavailable(str(error), error.retry_after_s)
        if isinstance(error, UpstreamRejection):  # what it refuses now it may grant later
            return self.on_unavailable(str(error))
        is_news = self.is_news(str(error))
        self.put_aside(str(error))
        return is_news

    def _enter(self, state: EndpointState, reason: str, pause_s: float) -> None:
        if self.state is not state:
            self.since = time.time()
        self.pause_count += pause_s > 0
        self.paused_s += pause_s
        now = time.monotonic()
        self.state, self.reason, self.usable_at = state, reason, now + pause_s
        self.usable_alone_at = now + min(pause_s, self._patience.alone_s)


def _pause(first_s: float, longest_s: float, times_before: int) -> float:
    pause: float = min(first_s * 2 ** min(times_before, _DOUBLINGS_MAX), longest_s)
    return pause * _CHANCE.uniform(0.5, 1.5)
