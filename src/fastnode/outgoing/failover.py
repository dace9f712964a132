"""Several endpoints for the same purpose: which of them is asked, and which one next when it fails.

The order of the URLs is an order of preference: the first that can be asked is asked.  One that gives no answer
is not asked for a growing pause, one with wrong answers for longer (:mod:`fastnode.outgoing.health`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, ClassVar, Generic, TypeVar

from fastnode.errors import DecodeError, FastnodeError, UpstreamError, UpstreamFault, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.outgoing.client import ClientLimits, Reply, RpcCall, RpcClient
from fastnode.outgoing.health import EndpointHealth, EndpointState, Patience
from fastnode.outgoing.network import Network
from fastnode.values.urls import without_secrets

__all__ = ["Endpoint", "Failover"]

logger = logging.getLogger("fastnode.outgoing")

T = TypeVar("T")
E = TypeVar("E", bound="Endpoint")


class Endpoint:
    """One URL with its client and its health.  Usable from any thread.

    ``name`` is what clients see of it; its URL appears in the log only.  A subclass says what it must be:
    :meth:`identify`.
    """

    #: Name of an endpoint of this kind in the log: ``upstream unavailable``.
    kind: ClassVar[str] = "endpoint"

    def __init__(
        self,
        url: str,
        network: Network,
        name: str,
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.name = name
        self._url_shown = without_secrets(url)
        self._network = network
        self._client = RpcClient(url, network, limits, on_headers=self.on_headers)
        self.health = EndpointHealth(patience or Patience())
        self._setbacks = Setbacks(f"{self.kind} {name}: its answers make no sense")

    # ---- asking ------------------------------------------------------------------------------

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """As ``RpcClient.ask``; an endpoint that gives no answer is not chosen again for a while."""
        try:
            return self._client.ask(calls)
        except UpstreamUnavailable as error:
            self.on_error(error)
            raise

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
        self.health.put_aside(reason)
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


class Failover(Generic[E]):
    """All of them, in the order of preference.  Usable from any thread.

    With an ``executor`` those that are not healthy are identified there as long as another one is healthy, so that
    one that never answers does not delay the work.
    """

    def __init__(self, endpoints: Sequence[E], executor: Executor | None = None) -> None:
        self.all = tuple(endpoints)
        self._executor = executor
        self._probed: set[E] = set()  # being identified

    def choose(self) -> E | None:
        """The first that can be asked; None when there is none just now."""
        return next(self.usable(), None)

    def usable(self) -> Iterator[E]:
        """Endpoints that can be asked, each identified by the time it is given."""
        healthy = self.healthy()
        if self._executor is None or not healthy:
            yield from (each for each in self.all if each.health.is_healthy or self._is_back(each))
            return
        for each in self.all:
            if each not in healthy:
                self._probe_later(each)
        # One by one, as an endpoint may be put aside while those before it are asked.
        yield from (each for each in healthy if each.health.is_healthy)

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
        if each in self._probed or each.health.is_resting:
            return
        assert self._executor is not None
        self._probed.add(each)
        try:
            self._executor.submit(self._probe, each)
        except RuntimeError:  # the node is stopping
            self._probed.discard(each)

    def _probe(self, each: E) -> None:
        try:
            self._is_back(each)
        finally:
            self._probed.discard(each)

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
