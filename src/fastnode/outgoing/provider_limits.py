"""The limits of a provider, learned from what it refuses: calls per batch, calls per second, blocks per log query.

    granted, seldom ──► raised half way to the smallest amount that was refused, or doubled once that is forgotten
    refused         ──► back to the amount before the raise; halved if that is refused too

Providers state their limits in many ways, or not at all, and count differently: requests, calls of a batch, units of
computing.  So an amount that was refused is not sent again soon, and requests wait here instead of being refused there.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastnode.errors import UpstreamError, UpstreamRejection

__all__ = [
    "BATCH_CALLS_MAX",
    "LOG_BLOCKS_MAX",
    "LearnedLimit",
    "ProviderLimits",
    "is_rate_refusal",
    "is_rate_text",
    "named_in",
    "named_limit",
]

#: Calls of one batch; providers allow between 10 and 1000.
BATCH_CALLS_MAX: Final = 50
#: Blocks of one log query.
LOG_BLOCKS_MAX: Final = 100_000
#: A rate that no provider was seen to limit.
_UNLIMITED: Final = 1_000_000.0
#: Seconds before a limit is raised after it was lowered; doubled by each raise that is refused.
RAISE_FIRST_S: Final = 30.0
RAISE_LONGEST_S: Final = 600.0
#: Such pauses after which a refusal is forgotten: plans are changed, and a busy provider recovers.
_FORGET_PAUSES: Final = 4
_SMALLEST: Final = 1.0
#: Part of a limit whose use shows that the limit itself is granted.
_USED: Final = 0.75
#: Smallest raise that is worth a refusal.
_RAISE_MIN: Final = 1.1
#: Seconds in which calls are counted, and for which a provider that refused without a time is left alone.
WINDOW_S: Final = 1.0
#: The same with some room for requests that overtake each other.
_SPACING_S: Final = 1.05
#: The longest pause that is waited for here; a longer one is up to the health of the endpoint.
HELD_MAX_S: Final = 5.0
#: Seconds for which the times of calls are remembered: an answer may take so long.
_REMEMBERED_S: Final = 60.0

#: "Limit exceeded": of calls, or of what one log query asks for (see :meth:`ProviderLimits.is_rate_refusal`).
_EXCEEDED: Final = -32005
_LOG_QUERY: Final = "eth_getLogs"
_RATE_CODES: Final = frozenset({429, _EXCEEDED, -32016, -32029, -32097})
_RATE_WORDS: Final = re.compile(
    r"rate.?limit|too many requests|requests? (?:per|/) ?sec|calls (?:per|/) ?sec|request rate|compute units|throughput"
    r"|throttl|quota|request (?:count|limit)|(?:exceeded|over) .{0,20}capacity|too fast",
    re.IGNORECASE,
)
#: Words of a refusal of one question that asks for too much, by the code of a rate limit.
_SIZE_WORDS: Final = re.compile(r"block range|results|logs|response size|batch", re.IGNORECASE)
_HEX: Final = re.compile(r"0x[0-9a-f]+", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"(?<![\w.-])(\d{1,3}(?:,\d{3})+|\d+)\s?([kK]\b)?")


def is_rate_refusal(answer: object, method: str = "") -> bool:
    """True for a JSON-RPC error that means: too many calls in too little time.  ``method``: of a single call."""
    if not isinstance(answer, UpstreamRejection):
        return False
    if is_rate_text(answer.message):
        return True
    if answer.code == _EXCEEDED and method == _LOG_QUERY:
        return False
    return answer.code in _RATE_CODES and not _SIZE_WORDS.search(answer.message)


def is_rate_text(text: str) -> bool:
    """True for a text that speaks of too many calls in too little time."""
    return _RATE_WORDS.search(text) is not None


def named_limit(text: str, refused: float) -> int | None:
    """The largest number below ``refused`` in the text of a refusal: most often the limit.  None if there is none."""
    numbers = (
        int(digits.replace(",", "")) * (1000 if thousands else 1)
        for digits, thousands in _AMOUNT.findall(_HEX.sub(" ", text))
    )
    return max((number for number in numbers if 0 < number < refused), default=None)


class LearnedLimit:
    """The largest amount that a provider grants, as far as it is known.  Not for several threads at a time."""

    def __init__(self, largest: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._largest = largest
        self._smallest = min(_SMALLEST, largest)
        self._clock = clock
        self.value = largest
        #: The amount before the last raise, until it is refused.
        self._granted: float | None = None
        self._refused: float | None = None
        self._refused_at = 0.0
        self._raise_at = 0.0
        self._pause_s = RAISE_FIRST_S

    @property
    def is_learned(self) -> bool:
        """True if it was lowered by a refusal that is not forgotten."""
        return self._refused is not None

    def refuse(self, amount: float, named: float | None = None) -> None:
        """``amount`` was refused; ``named``: the limit that the refusal names."""
        now = self._clock()
        lower = amount / 2
        is_raise = self._granted is not None and self._granted < amount
        if named is not None and self._smallest <= named < amount:
            lower = named
        elif is_raise and self._granted is not None:
            lower = self._granted
        self._pause_s = min(2 * self._pause_s, RAISE_LONGEST_S) if is_raise else RAISE_FIRST_S
        self._granted = None
        self.value = max(self._smallest, min(self.value, lower))
        self._refused, self._refused_at, self._raise_at = amount, now, now + self._pause_s

    def grant(self, amount: float) -> None:
        """``amount`` was granted: raise the limit, if it was used and the time has come."""
        if self.value >= self._largest or amount < _USED * self.value:
            return
        now = self._clock()
        if now < self._raise_at:
            return
        if self._refused is not None and now - self._refused_at > _FORGET_PAUSES * self._pause_s:
            self._refused, self._pause_s = None, max(RAISE_FIRST_S, self._pause_s / 2)
        raised = 2 * self.value if self._refused is None else (self.value + self._refused) / 2
        if self._refused is not None and raised < max(_RAISE_MIN * self.value, self.value + self._smallest):
            return
        self._granted, self.value = self.value, min(raised, self._largest)
        self._raise_at = now + self._pause_s


class ProviderLimits:
    """Limits of one endpoint.  Usable from any thread.

    ``calls_per_second`` and ``batch_calls``: what the operator knows of the plan; never exceeded.
    """

    def __init__(
        self,
        *,
        calls_per_second: float | None = None,
        batch_calls: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rate = LearnedLimit(calls_per_second or _UNLIMITED, clock)
        self._batch = LearnedLimit(batch_calls or BATCH_CALLS_MAX, clock)
        self._log_blocks = LearnedLimit(LOG_BLOCKS_MAX, clock)
        #: Blocks of the largest log query that was answered since one was refused.
        self._log_blocks_granted = 1
        #: Until when the provider has asked to be left alone.
        self._held_until = 0.0
        self._reduced_at = -WINDOW_S
        #: Times and counts of the calls that were sent last, or will be.
        self._sent: deque[tuple[float, int]] = deque()
        #: Counts so far: calls, and those of them that were refused because of a limit.
        self.call_count = self.refused_count = 0

    # ---- calls per second ------------------------------------------------------------------------

    def reserve(self, count: int) -> float:
        """Count ``count`` calls as sent next; returns how long to wait before sending them, in seconds."""
        with self._lock:
            now, rate = self._clock(), self._rate.value
            at = max(now, self._held_until)
            if rate < _UNLIMITED:
                at = self._earliest(max(at, self._sent[-1][0] if self._sent else 0.0), count, max(rate, count))
                if at > now:
                    self._rate.grant(rate)
            self._sent.append((at, count))
            while self._sent[0][0] < now - _REMEMBERED_S:
                self._sent.popleft()
            self.call_count += count
            return at - now

    def _earliest(self, at: float, count: int, rate: float) -> float:
        """When ``count`` calls can be sent so that no second has more than ``rate``."""
        for sent_at, number in reversed(self._sent):
            count += number
            if sent_at <= at - _SPACING_S:
                break
            if count > rate:
                return sent_at + _SPACING_S
        return at

    def is_rate_refusal(self, answer: object, call: tuple[str, Sequence[Any]] | None) -> bool:
        """:func:`is_rate_refusal` of a single call, None for a batch as a whole.

        A log query may be refused by a code that is also that of too many blocks: it means the rate of calls if as many
        blocks were granted before.
        """
        if call is None:
            return is_rate_refusal(answer)
        method, parameters = call
        if is_rate_refusal(answer, method):
            return True
        if method != _LOG_QUERY or not is_rate_refusal(answer):
            return False
        blocks = _blocks_of(parameters)
        return blocks is not None and blocks <= self._log_blocks_granted

    def refuse_rate(self, sent_at: float, count: int, retry_after_s: float | None = None) -> None:
        """``count`` calls sent at ``sent_at`` (monotonic) were refused because of those before them."""
        with self._lock:
            self.refused_count += count
            now = self._clock()
            pause = WINDOW_S if retry_after_s is None else min(retry_after_s, HELD_MAX_S)
            self._held_until = max(self._held_until, now + pause)
            if sent_at <= self._reduced_at:  # sent before the last reduction
                return
            amount = sum(number for at, number in self._sent if sent_at - WINDOW_S < at <= max(sent_at, now))
            # A single call that is refused says nothing about rates: the provider is busy, or a daily quota is used up.
            if amount > 1:
                self._rate.refuse(min(amount, self._rate.value))
                self._reduced_at = now

    # ---- calls per batch -------------------------------------------------------------------------

    @property
    def batch_calls(self) -> int:
        """Calls of one request, at most."""
        return max(1, int(min(self._batch.value, self._rate.value)))

    def grant_batch(self, count: int) -> None:
        """A batch of ``count`` was answered."""
        with self._lock:
            self._batch.grant(count)

    def refuse_batch(self, refused: int, granted: int) -> None:
        """``refused`` calls in one request were refused, ``granted`` of them answered."""
        with self._lock:
            self._batch.refuse(refused, granted)

    def note_refused(self, count: int) -> None:
        """Count calls that were refused because of another limit than the rate."""
        with self._lock:
            self.refused_count += count

    # ---- blocks per log query --------------------------------------------------------------------

    @property
    def log_blocks(self) -> int:
        """Blocks of one log query, at most."""
        return max(1, int(self._log_blocks.value))

    def grant_log_blocks(self, count: int) -> None:
        """A log query over ``count`` blocks was answered."""
        with self._lock:
            self._log_blocks_granted = max(self._log_blocks_granted, count)
            self._log_blocks.grant(count)

    def refuse_log_blocks(self, refused: int, granted: int) -> None:
        """A query over ``refused`` blocks was refused, one over ``granted`` of them answered."""
        with self._lock:
            self._log_blocks_granted = granted
            self._log_blocks.refuse(refused, granted)

    def doubt_log_blocks(self) -> None:
        """A log query was refused again and again: the provider may grant fewer blocks than before."""
        with self._lock:
            self._log_blocks_granted = 1

    # ---- for people ------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """For status reports; None: no limit is known."""
        rate = self._rate.value
        return {
            "batchCalls": int(self._batch.value),
            "callsPerSecond": None if rate >= _UNLIMITED else round(rate, 2),
            "logBlocks": self.log_blocks if self._log_blocks.is_learned else None,
            "refusedCalls": self.refused_count,
        }


def _blocks_of(parameters: Sequence[Any]) -> int | None:
    """Blocks of a log query; None where it names them otherwise than by numbers."""
    try:
        query = parameters[0]
        return int(query["toBlock"], 16) - int(query["fromBlock"], 16) + 1
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def named_in(error: UpstreamError, refused: float) -> int | None:
    """:func:`named_limit` of the text of an error."""
    return named_limit(error.message if isinstance(error, UpstreamRejection) else "", refused)
