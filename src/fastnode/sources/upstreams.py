"""Other nodes that blocks come from: which network they are on, and which of them is followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeAlias

from fastnode.archiver.queries import ChainInfo
from fastnode.archiver.source import check_node_info
from fastnode.errors import DecodeError, OtherNetwork, UpstreamFault, UpstreamForbidden, UpstreamRejection
from fastnode.outgoing.client import METHOD_NOT_FOUND, ClientLimits, Reply, RpcCall
from fastnode.outgoing.failover import Endpoint, Failover
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.protocol.releases import Release, known, of_version
from fastnode.sources.dialects import phrased
from fastnode.values.lineage import LINEAGE_HEADER, Lineage
from fastnode.values.namespaces import newer_name

__all__ = ["UNTRIED_ADVICE", "Upstream", "Upstreams", "check_identity"]

#: To follow a refusal of a node whose release was not tried.
UNTRIED_ADVICE: Final = "--untried-upstreams follows it all the same, though no published node of it was tried"

#: Asked of every upstream at first; only a fastnode has the second method.
#: What an admin port says that asks for a key: of this node, and of the published one.
_KEY_MISSING: Final = "Unauthorized: invalid or missing API key"
_IDENTITY_CALLS: Final[Sequence[RpcCall]] = (("node_getNodeInfo", []), ("fastnode_getSyncStatus", []))


def _is_unknown(answer: object) -> bool:
    return isinstance(answer, UpstreamRejection) and answer.code == METHOD_NOT_FOUND


def _by_newer_names(calls: Sequence[RpcCall]) -> list[RpcCall]:
    return [(newer_name(name) or name, parameters) for name, parameters in calls]


class Upstream(Endpoint):
    """One other node.  ``expected`` gives the network that it must be on; None: any will do.

    ``lineage``: of the node that follows it, which it must not be, and must not follow.  ``takes_untried``: it may be
    of a release that no published node was tried with.
    """

    kind: ClassVar[str] = "upstream"

    def __init__(
        self,
        url: str,
        network: Network,
        name: str = "upstream",
        *,
        expected: Callable[[], ChainInfo | None] = lambda: None,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
        lineage: Lineage | None = None,
        takes_untried: bool = False,
    ) -> None:
        super().__init__(url, network, name, limits=limits, patience=patience)
        self._expected = expected
        self._takes_untried = takes_untried
        self._lineage = lineage
        #: It was found to be the node that follows it.
        self.is_this_node = False
        #: True if it knows methods by their newer names; None before it has answered one.
        self._has_newer_names: bool | None = None
        self.is_fastnode = False
        #: Its release, when it was asked last; None for a version that is not said.
        self.release: Release | None = None
        #: It has said so when it was asked last.
        self.is_of_other_network = False
        self.node_info: dict[str, Any] = {}
        #: The headers of its answers, by their names in lower case: some say what its network is.
        self.version_headers: Mapping[str, str] = {}
        #: Its newest block when it was asked last; None before that.
        self.tip_number: int | None = None

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """Calls and answers are those of 4.x, whatever methods it has."""
        if self.release is None:
            return self._ask_by_its_names(calls)
        there, reads = phrased(self.release.method_set, calls)
        reply = self._ask_by_its_names(there)
        pairs = zip(reads, reply.answers, strict=True)
        answers = [answer if isinstance(answer, UpstreamRejection) else read(answer) for read, answer in pairs]
        return replace(reply, answers=answers)

    def _ask_by_its_names(self, calls: Sequence[RpcCall]) -> Reply:
        """By the names that it knows methods by; until that is seen, what it does not know is asked once more."""
        if self._has_newer_names:
            return super().ask(_by_newer_names(calls))
        reply = super().ask(calls)
        if self._has_newer_names is not None:
            return reply
        answers = zip(calls, reply.answers, strict=True)
        unknown = [_is_unknown(answer) for (name, _), answer in answers if newer_name(name) is not None]
        if not all(unknown):
            self._has_newer_names = False
        elif unknown:
            newer = super().ask(_by_newer_names(calls))
            if not all(map(_is_unknown, newer.answers)):
                self._has_newer_names = True
                return newer
        return reply

    def on_headers(self, headers: Mapping[str, str]) -> None:
        if self._lineage is None:
            return
        reason = self._lineage.hear(self.name, headers)
        if reason is not None:
            self.is_this_node = headers.get(LINEAGE_HEADER, "").startswith(self._lineage.own)
            raise UpstreamFault(reason)

    def put_aside(self, reason: str) -> None:
        if self._lineage is not None:
            self._lineage.forget(self.name)
        super().put_aside(reason)

    def identify(self) -> None:
        """UpstreamFault names both sides of a difference."""
        self._has_newer_names = self.release = None  # another release may answer there by now
        try:
            reply = self.ask(_IDENTITY_CALLS)
        except (UpstreamForbidden, UpstreamRejection) as refusal:
            if _KEY_MISSING in str(refusal):
                raise UpstreamFault(f"{_KEY_MISSING}; is it an admin port? give the node's public port") from None
            raise
        info, sync = reply.answers
        if isinstance(info, UpstreamRejection):
            raise info
        if not isinstance(info, dict):
            raise UpstreamFault("node_getNodeInfo gave no record")
        if isinstance(sync, UpstreamRejection) and sync.code != METHOD_NOT_FOUND:
            raise sync
        self.is_fastnode = isinstance(sync, dict)
        try:
            self.release = check_identity(info, self._expected(), takes_untried=self._takes_untried)
        except OtherNetwork:
            self.is_of_other_network = True
            raise
        self.node_info, self.version_headers, self.is_of_other_network = info, reply.headers, False

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return super().describe() | {
            "isFastnode": self.is_fastnode,
            "nodeVersion": self.node_info.get("nodeVersion"),
            "isUntried": self.release is not None and not self.release.is_served,
            "tip": self.tip_number,
        }

    def _log_facts(self) -> dict[str, Any]:
        version = self.node_info.get("nodeVersion")
        facts = {} if version is None else {"version": version, "is_fastnode": self.is_fastnode}
        return {"upstream": self.name, "url": self._url_shown} | facts


#: All of them, in the order of preference.
Upstreams: TypeAlias = Failover[Upstream]


def check_identity(info: dict[str, Any], expected: ChainInfo | None, *, takes_untried: bool = False) -> Release | None:
    """The release of its version, None where that is not said; OtherNetwork names both sides of a difference.

    UpstreamFault for a record of which no chain could be begun, where none is stored yet.
    """
    version = str(info.get("nodeVersion") or "")
    release = of_version(version)
    if version and not (release is not None and release.may_be_asked(takes_untried=takes_untried)):
        followed = ", ".join(one.name for one in known() if one.is_served)
        advice = "" if release is None or not release.is_derived else f"; {UNTRIED_ADVICE}"
        raise OtherNetwork(f"its node version is {version}, this node follows versions {followed}{advice}")
    if expected is None:
        try:
            check_node_info(info)
        except DecodeError as error:
            raise UpstreamFault(str(error)) from error
        return release
    if release is not None and release.major != expected.release.major:  # its roots say the rest
        raise OtherNetwork(f"its node version is {version}, the stored chain is of release {expected.release.name}")
    ours = expected.node_info
    for name, path in (
        ("L1 chain id", ("l1ChainId",)),
        ("rollup version", ("rollupVersion",)),
        ("rollup address", ("l1ContractAddresses", "rollupAddress")),
    ):
        stored, theirs = _member(ours, path), _member(info, path)
        if stored is not None and stored != theirs:
            raise OtherNetwork(f"it is on another network: its {name} is {theirs}, the stored chain's is {stored}")
    return release


def _member(record: dict[str, Any], path: Sequence[str]) -> str | None:
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return None if value is None else str(value).lower()
