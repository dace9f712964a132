"""Several endpoints for the same purpose: which of them is asked, and which one next when it fails.

The order of the URLs is an order of preference: the first that can be asked is asked.  One that gives no answer
is not asked for a growing pause, one with wrong answers for longer (:mod:`fastnode.outgoing.health`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from fastnode.errors import (
    DecodeError,
    FastnodeError,
    UpstreamError,
    UpstreamFault,
    UpstreamRateLimited,
    UpstreamRejection,
    UpstreamUnavailable,
)
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.outgoing.client import ClientLimits, Reply, RpcCall, RpcClient
from fastnode.outgoing.health import EndpointHealth, EndpointState, Patience
from fastnode.outgoing.network import Network
from fastnode.outgoing.provider_limits import ProviderLimits
from fastnode.values.urls import without_secrets

__all__ = ["Endpoint", "Failover", "begin_probe"]

logger = logging.getLogger("fastnode.outgoing")

#: Seconds by which an endpoint may answer before the next one is asked as well, while none is healthy.
_HEAD_START_S: Final = 1.0

T = TypeVar("T")
E = TypeVar("E", bound="Endpoint")


class Endpoint:
    """One URL with its client and its health.  Usable from any thread.

    ``name`` is what clients see of it; its URL appears in the log only.  A subclass says what it must be:
    :meth:`identify`.
    """

    #: Name of an endpoint of this kind in the log: ``upstream unavailable``.
    kind: ClassVar[str] = "endpoint"
    #: True if its limits are counted in calls, false if in requests, which may have several.
    counts_calls: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        network: Network,
        name: str,
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
        provider_limits: ProviderLimits | None = None,
    ) -> None:
        self.name = name
        self._url_shown = without_secrets(url)
        self._network = network
        self._client = RpcClient(url, network, limits, on_headers=self.on_headers)
        self.health = EndpointHealth(patience or Patience())
        #: What it grants, as far as it is known.
        self.provider_limits = provider_limits or ProviderLimits()
        self._setbacks = Setbacks(f"{self.kind} {name}: its answers make no sense")

    # ---- asking ------------------------------------------------------------------------------

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """As ``RpcClient.ask``, when its limits allow that; an endpoint that gives no answer is not chosen again for a
        while."""
        try:
            return self.ask_within_limits(calls)
        except UpstreamUnavailable as error:
            self.on_error(error)
            raise

    def ask_within_limits(self, calls: Sequence[RpcCall]) -> Reply:
        """As :meth:`ask`, without a consequence for its health: UpstreamRateLimited if all calls are refused for their
        number, some may be refused alone."""
        limits = self.provider_limits
        count = len(calls) if self.counts_calls else 1
        pause = limits.reserve(count)
        if pause > 0:
            self._network.wait(pause)
        sent_at = time.monotonic()
        try:
            reply = self._client.ask(calls)
        except UpstreamRateLimited as error:
            limits.refuse_rate(sent_at, count, error.retry_after_s)
            raise
        except UpstreamRejection as error:
            if not limits.is_rate_refusal(error, calls[0] if len(calls) == 1 else None):
                raise
            limits.refuse_rate(sent_at, count)
            raise UpstreamRateLimited(f"it limits requests: {error.message}") from error
        pairs = zip(calls, reply.answers, strict=True)
        refused = [answer for call, answer in pairs if limits.is_rate_refusal(answer, call)]
        if refused:
            limits.refuse_rate(sent_at, min(count, len(refused)))
            if len(refused) == len(calls):
                raise UpstreamRateLimited(f"it limits requests: {refused[0].message}")
        return reply

    def call(self, method: str, *parameters: Any) -> Any:
        """The result of one call, None for nothing found; UpstreamError."""
        return self.ask([(method, parameters)]).results()[0]

    def identify(self) -> None:
        """Ask what it is; UpstreamError unless it is what it should be.  Called before it is used again."""

    def on_headers(self, headers: Mapping[str, str]) -> None:
        """Look at the headers of an answer, by their names in lower case; UpstreamError when it is of no use."""

    # ---- health ------------------------------------------------------------------------------

    def make_healthy(self) -> None:
        """Identify it, and use it from now on; UpstreamError or DecodeError."""
        self.identify()
        if self.health.on_identified():
            self._log_healthy()

    def on_useful(self) -> None:
        """Work with it was done."""
        self._setbacks.end()
        if self.health.on_useful():
            self._log_healthy()

    def on_error(self, error: UpstreamError | DecodeError) -> None:
        """It gave no answer, or a wrong one."""
        if self._network.is_closed:
            return
        is_news = self.health.on_error(error)
        if is_news and self.health.state is EndpointState.UNAVAILABLE:
            logger.warning(f"{self.kind} unavailable", extra=log_facts(**self._log_facts(), reason=str(error)))
        elif is_news:
            self._log_put_aside()

    def on_nonsense(self, error: Exception) -> UpstreamFault:
        """Reading its answers has raised what nobody expects; the fault to go on with."""
        self._setbacks.note(error)
        return UpstreamFault(f"its answers make no sense ({type(error).__name__})")

    def put_aside(self, reason: str) -> None:
        """Its answers are wrong, or contradict what is certain: do not ask it for a while."""
        is_news = self.health.is_news(reason)
        self.health.put_aside(reason)
        if is_news:
            self._log_put_aside()

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        health = self.health
        return {
            "name": self.name,
            "state": health.state.value,
            "reason": health.reason or None,
            "since": int(health.since),
        }

    def _log_healthy(self) -> None:
        logger.info(f"{self.kind} healthy", extra=log_facts(**self._log_facts()))

    def _log_put_aside(self) -> None:
        health = self.health
        now = time.monotonic()
        seconds, alone = (round(max(0.0, at - now), 1) for at in (health.usable_at, health.usable_alone_at))
        # Both: which one holds depends on the others, at any moment of the pause.
        extra = log_facts(**self._log_facts(), reason=health.reason, seconds=seconds, seconds_if_alone=alone)
        logger.error(f"{self.kind} put aside", extra=extra)

    def _log_facts(self) -> dict[str, Any]:
        return {"endpoint": self.name, "url": self._url_shown}


def begin_probe(work: Callable[[], None]) -> None:
    """Identify an endpoint in a thread of its own, which ends with the request: closing the network ends that."""
    threading.Thread(target=work, name="fastnode-probe", daemon=True).start()


class Failover(Generic[E]):
    """All of them, in the order of preference.  Usable from any thread.

    ``begin`` starts work in another thread: endpoints that are not healthy are identified there, so that one that never
    answers does not delay the work.  The healthy ones are asked meanwhile; where there is none, the first that answers,
    each a moment after the one before it.  None: they are identified by the thread that asks for one.
    """

    def __init__(self, endpoints: Sequence[E], begin: Callable[[Callable[[], None]], object] | None = None) -> None:
        self.all = tuple(endpoints)
        self._begin = begin
        self._probed: set[E] = set()  # being identified
        self._changed = threading.Condition()

    def choose(self) -> E | None:
        """The first that can be asked; None when there is none just now."""
        return next(self.usable(), None)

    def usable(self) -> Iterator[E]:
        """Endpoints that can be asked, each identified by the time it is given."""
        if self._begin is None or len(self.all) == 1:
            yield from (each for each in self.all if each.health.is_healthy or self._is_back(each))
            return
        given: set[E] = set()
        # One by one, as an endpoint may be put aside while those before it are asked.
        while healthy := self._new_healthy(given) or self._first_to_answer(given):
            for each in self.all:
                if each not in healthy and each not in given:
                    self._probe_later(each)
            first = min(healthy, key=lambda each: each.health.is_last_resort)
            given.add(first)
            yield first

    def _new_healthy(self, given: set[E]) -> list[E]:
        return [each for each in self.healthy() if each not in given]

    def _first_to_answer(self, given: set[E]) -> list[E]:
        """Identify all others that may be asked, in their order, until one is healthy."""
        others = [each for each in self.all if each not in given]
        for each in others:
            if not self._rests(each):
                self._probe_later(each)
            with self._changed:
                self._changed.wait_for(lambda: self._new_healthy(given) or each not in self._probed, _HEAD_START_S)  # noqa: B023
            if self._new_healthy(given):
                break
        with self._changed:
            self._changed.wait_for(lambda: self._new_healthy(given) or not self._probed.intersection(others))
        return self._new_healthy(given)

    def run(self, work: Callable[[E], T]) -> T:
        """The result of ``work`` with the first endpoint that can do it; it starts over with each.

        UpstreamUnavailable says why none can.  What else of this program's own errors ``work`` raises goes to the
        caller; any other exception means that an answer makes no sense.
        """
        for each in self.usable():
            try:
                result = work(each)
            except (UpstreamError, DecodeError) as error:
                self._give_up(each, error)
            except FastnodeError:
                raise
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._give_up(each, each.on_nonsense(error))
            else:
                each.on_useful()
                return result
        raise UpstreamUnavailable(self.reasons() or "no endpoint is configured")

    def _give_up(self, each: E, error: UpstreamError | DecodeError) -> None:
        each.on_error(error)
        each.health.on_useless(error)

    def healthy(self) -> list[E]:
        """Endpoints known to answer; asks none."""
        return [each for each in self.all if each.health.is_healthy]

    def seconds_until_usable(self) -> float:
        if not self.all:
            return 0.0
        usable_at = min(each.health.usable_at for each in self.all)
        usable_alone_at = min(each.health.usable_alone_at for each in self.all)
        return max(0.0, min(usable_at, usable_alone_at) - time.monotonic())

    def reasons(self) -> str:
        """Reason for each endpoint that is not healthy."""
        return "; ".join(
            f"{each.name} is {each.health.state.value}: {each.health.reason}" for each in self.all if each.health.reason
        )

    def describe(self) -> list[dict[str, Any]]:
        return [each.describe() for each in self.all]

    def _probe_later(self, each: E) -> None:
        with self._changed:
            if each in self._probed or each.health.is_resting:
                return
            self._probed.add(each)
        assert self._begin is not None
        try:
            self._begin(lambda: self._probe(each))
        except RuntimeError:  # no further thread can be started
            self._end_probe(each)

    def _probe(self, each: E) -> None:
        try:
            self._is_back(each)
        finally:
            self._end_probe(each)

    def _end_probe(self, each: E) -> None:
        with self._changed:
            self._probed.discard(each)
            self._changed.notify_all()

    def _is_back(self, each: E) -> bool:
        if self._rests(each):
            return False
        try:
            each.make_healthy()
        except UpstreamUnavailable as error:
            each.on_error(error)
            return False
        except (UpstreamError, DecodeError) as error:
            each.put_aside(str(error))
            return False
        except FastnodeError:
            raise
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            each.put_aside(str(each.on_nonsense(error)))
            return False
        return True

    def _rests(self, each: E) -> bool:
        """True if it must not be asked yet; the pauses of all are shorter when there is none that can be asked."""
        if not each.health.is_resting:
            return False
        others = [other.health for other in self.all if other is not each]
        if any(other.is_healthy or not other.is_resting for other in others):
            return True
        if each.health.usable_alone_at > time.monotonic():
            return True
        each.health.end_pause()
        return False
