"""Other nodes that blocks come from: which of them can be asked, and why not.

    unknown ──identified──► healthy ◄──────────────────────────┐
       │                     │    │                            │
       │     no answer, busy │    │ answers that are wrong     │ time is up: identified again
       ▼                     ▼    ▼                            │
    unavailable (asked again after a growing pause)    put aside (a longer pause)

The order of the URLs is an order of preference: the first that is healthy is asked.
"""

from __future__ import annotations

import enum
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from fastnode.archiver.queries import ChainInfo
from fastnode.errors import SettingError, UpstreamError, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.log import fields
from fastnode.outgoing.client import METHOD_NOT_FOUND, ClientLimits, Reply, RpcCall, RpcClient
from fastnode.outgoing.network import NetworkThread

__all__ = ["Patience", "Upstream", "UpstreamState", "Upstreams", "check_url", "without_secrets"]

logger = logging.getLogger(__name__)

#: The generation of nodes whose blocks and rules this node knows.
NODE_VERSION_MAJOR: Final = "4"
#: Of a pause; by then it has long reached its maximum.
DOUBLINGS_MAX: Final = 16
#: Asked of every upstream at first; only a fastnode has the second method.
_IDENTITY_CALLS: Final[Sequence[RpcCall]] = (("node_getNodeInfo", []), ("fastnode_getSyncStatus", []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Pauses, in seconds; each is drawn between half and one and a half of what stands here."""

    unavailable_s: float = 0.5
    unavailable_max_s: float = 30.0
    #: What a server asks for with Retry-After is obeyed up to this.
    retry_after_max_s: float = 300.0
    #: A chain that only got shorter, with no other block in place of ours, is believed when it has said so for this
    #: long: it may be a node that was started from an old backup.
    shortening_s: float = 12.0
    #: When the answers are right but of no use, such as a checkpoint whose messages nobody has.
    blocked_s: float = 2.0
    #: For how long L1 may be silent, or behind an upstream, before the status says so.
    l1_grace_s: float = 5.0
    aside_s: float = 30.0
    aside_max_s: float = 600.0


class UpstreamState(enum.Enum):
    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNAVAILABLE = "unavailable"
    ASIDE = "put aside"


@dataclass(slots=True)
class _Health:
    state: UpstreamState = UpstreamState.UNKNOWN
    reason: str = ""
    since: float = field(default_factory=time.time)
    usable_at: float = 0.0  # time.monotonic()
    failures: int = 0  # one after the other
    times_aside: int = 0


class Upstream:
    """One other node.  Usable from any thread.

    ``name`` stands for it wherever clients can look; its URL is in the log only.
    """

    def __init__(
        self,
        url: str,
        network: NetworkThread,
        name: str = "upstream",
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.name = name
        self._url_shown = without_secrets(url)
        self.is_fastnode = False
        self.node_info: dict[str, Any] = {}
        #: What its answers say of its network, by lower-case name of the header.
        self.version_headers: Mapping[str, str] = {}
        #: Its newest block when it was asked last.
        self.tip_number: int | None = None
        self._network = network
        self._client = RpcClient(url, network, limits)
        self._patience = patience or Patience()
        self._health = _Health()
        self._lock = threading.Lock()

    # ---- asking ------------------------------------------------------------------------------

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """As ``RpcClient.ask``; an upstream that gives no answer is not chosen again for a while."""
        try:
            return self._client.ask(calls)
        except UpstreamUnavailable as error:
            if not self._network.is_closed:
                self._on_unavailable(error)
            raise

    def call(self, method: str, *parameters: Any) -> Any:
        """The result of one call, None for nothing found; UpstreamError."""
        return self.ask([(method, parameters)]).results()[0]

    def identify(self, expected: ChainInfo | None) -> None:
        """Ask what it is, and make sure that it is on the ``expected`` network (None: any will do).

        UpstreamFault names both sides of a difference.
        """
        reply = self.ask(_IDENTITY_CALLS)
        info, sync = reply.answers
        if isinstance(info, UpstreamRejection):
            raise info
        if not isinstance(info, dict):
            raise UpstreamFault("node_getNodeInfo gave no record")
        if isinstance(sync, UpstreamRejection) and sync.code != METHOD_NOT_FOUND:
            raise sync
        self.is_fastnode = isinstance(sync, dict)
        self.node_info, self.version_headers = info, reply.headers
        _check_identity(info, expected)
        self._on_healthy()

    # ---- health ------------------------------------------------------------------------------

    @property
    def state(self) -> UpstreamState:
        return self._health.state

    @property
    def reason(self) -> str:
        """Why it is not healthy; empty if it is."""
        return self._health.reason

    @property
    def usable_at(self) -> float:
        """When it may be asked again, on the clock of ``time.monotonic``."""
        return self._health.usable_at

    def put_aside(self, reason: str) -> None:
        """It lied, or contradicts what is certain: leave it alone for a while."""
        with self._lock:
            health = self._health
            pause = min(
                self._patience.aside_s * 2 ** min(health.times_aside, DOUBLINGS_MAX), self._patience.aside_max_s
            )
            pause *= _jitter()
            self._enter(UpstreamState.ASIDE, reason, pause)
            health.times_aside += 1
        facts = fields(upstream=self.name, url=self._url_shown, reason=reason, seconds=round(pause, 1))
        logger.error("upstream put aside", extra=facts)

    def forgive(self) -> None:
        """It has been of use: the next pause is a short one again."""
        self._health.times_aside = 0

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        health = self._health
        return {
            "name": self.name,
            "state": health.state.value,
            "reason": health.reason or None,
            "since": int(health.since),
            "isFastnode": self.is_fastnode,
            "nodeVersion": self.node_info.get("nodeVersion"),
            "tip": self.tip_number,
        }

    def _on_unavailable(self, error: UpstreamUnavailable) -> None:
        patience = self._patience
        with self._lock:
            health = self._health
            if health.state is UpstreamState.ASIDE:
                return
            health.failures += 1
            pause = min(
                patience.unavailable_s * 2 ** min(health.failures - 1, DOUBLINGS_MAX), patience.unavailable_max_s
            )
            pause *= _jitter()
            if error.retry_after_s is not None:
                pause = max(pause, min(error.retry_after_s, patience.retry_after_max_s))
            is_news = health.state is not UpstreamState.UNAVAILABLE
            self._enter(UpstreamState.UNAVAILABLE, str(error), pause)
        if is_news:
            facts = fields(upstream=self.name, url=self._url_shown, reason=str(error))
            logger.warning("upstream unavailable", extra=facts)

    def _on_healthy(self) -> None:
        with self._lock:
            before = self._health.state
            self._health.failures = 0
            self._enter(UpstreamState.HEALTHY, "", 0.0)
        if before is not UpstreamState.HEALTHY:
            version, kind = self.node_info.get("nodeVersion"), self.is_fastnode
            facts = fields(upstream=self.name, url=self._url_shown, version=version, is_fastnode=kind)
            logger.info("upstream healthy", extra=facts)

    def _enter(self, state: UpstreamState, reason: str, pause_s: float) -> None:
        health = self._health
        if health.state is not state:
            health.since = time.time()
        health.state, health.reason, health.usable_at = state, reason, time.monotonic() + pause_s


class Upstreams:
    """All of them, in the order of preference.

    ``expected`` gives the network they must be on; None before the chain is known.  While one of them is healthy the
    others are looked after on ``executor``, so that one that swallows requests does not hold up the chain.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        expected: Callable[[], ChainInfo | None],
        executor: Executor | None = None,
    ) -> None:
        self.all = tuple(upstreams)
        self._expected = expected
        self._executor = executor
        self._probed: set[Upstream] = set()  # being looked after

    def choose(self) -> Upstream | None:
        """The first that answers and is on the right network; None when there is none just now."""
        return next(self.usable(), None)

    def usable(self) -> Iterator[Upstream]:
        """Those that can be asked, each identified by the time it is given."""
        healthy = self.healthy()
        if self._executor is None or not healthy:
            yield from (upstream for upstream in self.all if upstream in healthy or self._is_back(upstream))
            return
        for upstream in self.all:
            if upstream not in healthy:
                self._probe_later(upstream)
        # One by one, as an upstream may be put aside while those before it are asked.
        yield from (upstream for upstream in healthy if upstream.state is UpstreamState.HEALTHY)

    def healthy(self) -> list[Upstream]:
        """Those known to answer; asks nobody."""
        return [upstream for upstream in self.all if upstream.state is UpstreamState.HEALTHY]

    def seconds_until_usable(self) -> float:
        now = time.monotonic()
        return max(0.0, min(upstream.usable_at for upstream in self.all) - now)

    def reasons(self) -> str:
        """Why each of those that are not healthy is not."""
        return "; ".join(f"{item.name} is {item.state.value}: {item.reason}" for item in self.all if item.reason)

    def describe(self) -> list[dict[str, Any]]:
        return [upstream.describe() for upstream in self.all]

    def _probe_later(self, upstream: Upstream) -> None:
        if upstream in self._probed or upstream.usable_at > time.monotonic():
            return
        assert self._executor is not None
        self._probed.add(upstream)
        try:
            self._executor.submit(self._probe, upstream)
        except RuntimeError:  # the node is stopping
            self._probed.discard(upstream)

    def _probe(self, upstream: Upstream) -> None:
        try:
            self._is_back(upstream)
        finally:
            self._probed.discard(upstream)

    def _is_back(self, upstream: Upstream) -> bool:
        if upstream.usable_at > time.monotonic():
            return False
        try:
            upstream.identify(self._expected())
        except UpstreamUnavailable:
            return False
        except UpstreamError as error:
            upstream.put_aside(str(error))
            return False
        return True


def check_url(url: str, flag: str = "--upstream-url") -> str:
    """``url``, if it can be one of a node; SettingError, which names the flag, otherwise."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise SettingError(f"{flag} {without_secrets(url)!r} is no http:// or https:// URL")
    return url


def _check_identity(info: dict[str, Any], expected: ChainInfo | None) -> None:
    version = str(info.get("nodeVersion") or "")
    if version and version.split(".")[0] != NODE_VERSION_MAJOR:
        raise UpstreamFault(f"its node version is {version}, this node follows versions {NODE_VERSION_MAJOR}.x")
    if expected is None:
        return
    ours = expected.node_info
    for name, path in (
        ("L1 chain id", ("l1ChainId",)),
        ("rollup version", ("rollupVersion",)),
        ("rollup address", ("l1ContractAddresses", "rollupAddress")),
    ):
        stored, theirs = _member(ours, path), _member(info, path)
        if stored is not None and stored != theirs:
            raise UpstreamFault(f"it is on another network: its {name} is {theirs}, the stored chain's is {stored}")


def _member(record: dict[str, Any], path: Sequence[str]) -> str | None:
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else str(value).lower()


def without_secrets(url: str) -> str:
    """For logs and status: providers put keys into the user part, the path and the query."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    path = parts.path if len(parts.path) <= 1 else "/..."
    return urlunsplit((parts.scheme, host + port, path.rstrip("/"), "", ""))


def _jitter() -> float:
    return random.uniform(0.5, 1.5)
