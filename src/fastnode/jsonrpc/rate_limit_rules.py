"""The file of limits for those who serve others (``--rpc-limits``): what it may say, and the rules made of it.

TOML, or JSON with the same tables.  Everything may be left out::

    requires-key = false            # true: no request is answered without a key

    [address]                       # clients without a key, each by its address (IPv6: by its /64)
    rate = 50                       # cost per second
    burst = 100                     # cost at once; default: the rate, and at least the dearest method
    count-max = 65536               # addresses that are remembered

    [keys]
    in-path = false                 # true: a key may also be in the path, /v1/KEY

    [keys.partner]                  # a client that sends the key: x-api-key, x-aztec-api-key, Authorization: Bearer
    sha256 = "..."                  # of the key's text: printf %s "$KEY" | sha256sum
    rate = 1000                     # without a rate: no budget
    burst = 2000
    allow = ["node_*"]              # beside the lists below
    deny = []

    [costs]                         # of a call; those that are not named keep DEFAULT_COSTS
    default = 1
    node_getBlocks = 20

    [methods]                       # names, or patterns with *
    allow = ["node_*"]
    deny = ["node_sendTx"]

    [cors]
    origins = ["https://wallet.example"]

    [proxies]                       # whose X-Forwarded-For is believed
    trusted = ["10.0.0.0/8"]

Every mistake is a SettingError that names the file, the key and the value.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final, TypeAlias

from fastnode.errors import SettingError
from fastnode.files import system_reason
from fastnode.records import dataclass

__all__ = ["DEFAULT_COSTS", "PRESETS", "KeyRule", "Rate", "RateLimitRules", "read_rate_limit_rules"]

Network: TypeAlias = IPv4Network | IPv6Network

#: Costs of calls that take far more than a look-up, which costs 1: all that may need a thread.
DEFAULT_COSTS: Final[Mapping[str, float]] = {
    "node_findLeavesIndexes": 3,
    "node_getBlocks": 10,
    "node_getCheckpointedBlocks": 10,
    "node_getCheckpoint": 5,
    "node_getCheckpointAttestationsForSlot": 2,
    "node_getCheckpoints": 10,
    "node_getCheckpointsData": 5,
    "node_getCheckpointsDataForEpoch": 5,
    "node_getEncodedEnr": 2,
    "node_getL2ToL1MembershipWitness": 10,
    "node_getL2ToL1Messages": 10,
    "node_getPrivateLogsByTags": 3,
    "node_getProposalsForSlot": 2,
    "node_getPublicLogsByTags": 3,
    "node_getPublicLogsByTagsFromContract": 3,
    "node_getPublicLogs": 10,
    "node_getContractClassLogs": 10,
    "node_getPendingTxs": 10,
    "node_getTxEffectMembershipWitness": 5,
    "node_getTxsByHash": 5,
    "node_getValidatorStats": 5,
    "node_getValidatorStatsBatch": 20,
    "node_getValidatorsStats": 20,
    "fastnode_getKeptTx": 5,
    "fastnode_getPublicEvents": 10,
    "fastnode_registerArtifact": 50,
    "fastnode_traceBlock": 50,
    "fastnode_traceCall": 50,
    "fastnode_traceTransaction": 50,
    "node_isValidTx": 20,
    "node_registerContractFunctionSignatures": 5,
    "node_sendTx": 20,
    "node_simulatePublicCalls": 50,
    "rpc.discover": 5,
}

ADDRESSES_MAX: Final = 65_536
_COST_MAX: Final = 1e9
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII | re.IGNORECASE)
_KEY_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s]+|null", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """A budget: ``per_second`` flows in, up to ``burst``."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """A client with a key; ``prices`` has the cost of each method that it may call."""

    name: str
    digest: bytes = field(repr=False)
    rate: Rate | None
    prices: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitRules:
    """The rules of a file.  ``prices`` are those of clients without a key; None as origins: every one."""

    requires_key: bool = False
    #: A key may be in the path.
    keys_in_path: bool = False
    keys: tuple[KeyRule, ...] = ()
    address_rate: Rate | None = None
    addresses_max: int = ADDRESSES_MAX
    default_cost: float = 1.0
    methods: frozenset[str] = frozenset()
    prices: Mapping[str, float] = field(default_factory=dict)
    origins: frozenset[str] | None = None
    trusted_proxies: tuple[Network, ...] = ()


#: The rules that a name stands for in place of a file.
PRESETS: Final[Mapping[str, str]] = {
    # A wallet asks for some 50 calls in a burst and then for a few a second; a sync for 100 tags at a time.
    "preset:public": """
        [address]
        rate = 100
        burst = 400
    """,
}


def read_rate_limit_rules(path: Path, methods: Collection[str]) -> RateLimitRules:
    """The rules of a file, or of one of PRESETS, for a port that serves ``methods``."""
    preset = PRESETS.get(str(path))
    if preset is not None:
        return _Reader(path, frozenset(methods)).rules(tomllib.loads(preset))
    if str(path).startswith("preset:"):
        raise SettingError(f"rpc-limits: there is no {path}; known are {', '.join(PRESETS)}, and paths of files")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = system_reason(path, error) if isinstance(error, OSError) else error
        raise SettingError(f"rpc-limits: {path} cannot be read: {reason}") from None
    try:
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingError(f"rpc-limits: {path}: {error}") from None
    return _Reader(path, frozenset(methods)).rules(content)


class _Reader:
    """Reads the tables of one file; ``where`` is always the key as an operator writes it."""

    def __init__(self, path: Path, methods: frozenset[str]) -> None:
        self._path = path
        self._methods = methods

    def _fail(self, where: str, reason: str) -> SettingError:
        return SettingError(f"rpc-limits: {self._path}: {where}{': ' if where else ''}{reason}")

    # ---- tables ------------------------------------------------------------------------------

    def rules(self, content: Any) -> RateLimitRules:
        root = self._table("", content, {"requires-key", "address", "keys", "costs", "methods", "cors", "proxies"})
        default, costs = self._costs(root.get("costs", {}))
        lists = self._table("methods", root.get("methods", {}), {"allow", "deny"})
        allowed = self._allowed("methods", lists, self._methods)
        prices = {name: costs.get(name, default) for name in allowed}
        named = dict(self._table("keys", root.get("keys", {}), None))
        in_path = self._flag("keys.in-path", named.pop("in-path", False))
        keys = self._keys(named, prices)
        address = self._table("address", root.get("address", {}), {"rate", "burst", "count-max"})
        cors = self._table("cors", root.get("cors", {}), {"origins"})
        proxies = self._table("proxies", root.get("proxies", {}), {"trusted"})
        requires_key = self._flag("requires-key", root.get("requires-key", False))
        if requires_key and not keys:
            raise self._fail("requires-key", "there is no key in [keys], so no request could be answered")
        return RateLimitRules(
            requires_key=requires_key,
            keys_in_path=in_path,
            keys=keys,
            address_rate=self._rate("address", address, prices),
            addresses_max=self._count("address.count-max", address.get("count-max", ADDRESSES_MAX)),
            default_cost=default,
            methods=self._methods,
            prices=prices,
            origins=self._origins(cors["origins"]) if "origins" in cors else None,
            trusted_proxies=tuple(map(self._network, self._texts("proxies.trusted", proxies.get("trusted", [])))),
        )

    def _keys(self, content: Any, prices: Mapping[str, float]) -> tuple[KeyRule, ...]:
        keys: dict[bytes, KeyRule] = {}
        for name, table in self._table("keys", content, None).items():
            where = f"keys.{name}"
            if _KEY_NAME.fullmatch(name) is None:
                raise self._fail(where, "a name is 1 to 64 letters, digits, '.', '_' or '-'")
            fields = self._table(where, table, {"sha256", "rate", "burst", "allow", "deny"})
            digest = self._digest(f"{where}.sha256", fields.get("sha256"))
            if digest in keys:
                raise self._fail(f"{where}.sha256", f"the same key as keys.{keys[digest].name}")
            allowed = self._allowed(where, fields, prices)
            own = {method: prices[method] for method in allowed}
            keys[digest] = KeyRule(name=name, digest=digest, rate=self._rate(where, fields, own), prices=own)
        return tuple(keys.values())

    def _costs(self, content: Any) -> tuple[float, dict[str, float]]:
        table = self._table("costs", content, None)
        default = self._number("costs.default", table.get("default", 1), minimum=0)
        given = {
            pattern: self._number(f"costs.{pattern}", cost, minimum=0)
            for pattern, cost in table.items()
            if pattern != "default"
        }
        costs = {name: cost for name, cost in DEFAULT_COSTS.items() if name in self._methods}
        # A name wins over a pattern, a later pattern over an earlier one.
        for pattern in sorted(given, key=lambda pattern: "*" not in pattern):
            for name in self._matching(f"costs.{pattern}", pattern):
                costs[name] = given[pattern]
        return default, costs

    def _rate(self, where: str, table: Mapping[str, Any], prices: Mapping[str, float]) -> Rate | None:
        if "rate" not in table:
            if "burst" in table:
                raise self._fail(f"{where}.burst", "needs a rate beside it")
            return None
        per_second = self._number(f"{where}.rate", table["rate"], minimum=1e-6)
        dearest = max(prices, key=prices.__getitem__, default=None)
        most = 0.0 if dearest is None else prices[dearest]
        if "burst" not in table:
            return Rate(per_second, max(per_second, most, 1.0))
        burst = self._number(f"{where}.burst", table["burst"], minimum=1e-6)
        if burst < most:
            raise self._fail(
                f"{where}.burst", f"{burst:g} is less than {dearest} costs ({most:g}), so it could never be called"
            )
        return Rate(per_second, burst)

    # ---- methods -----------------------------------------------------------------------------

    def _allowed(self, where: str, table: Mapping[str, Any], names: Iterable[str]) -> list[str]:
        allow = self._patterns(f"{where}.allow", table.get("allow", ["*"]))
        deny = self._patterns(f"{where}.deny", table.get("deny", []))
        return [name for name in names if name in allow and name not in deny]

    def _patterns(self, where: str, content: Any) -> set[str]:
        found: set[str] = set()
        for pattern in self._texts(where, content):
            found.update(self._matching(where, pattern))
        return found

    def _matching(self, where: str, pattern: str) -> list[str]:
        found = [name for name in self._methods if fnmatchcase(name, pattern)]
        if not found:
            raise self._fail(where, f"there is no method {_shown(pattern)}")
        return found

    # ---- values ------------------------------------------------------------------------------

    def _table(self, where: str, content: Any, known: set[str] | None) -> dict[str, Any]:
        if type(content) is not dict:
            raise self._fail(where, f"must be a table, got {_shown(content)}")
        for key in content:
            if known is not None and key not in known:
                raise self._fail(f"{where}.{key}" if where else key, f"unknown; known are {', '.join(sorted(known))}")
        return content

    def _flag(self, where: str, value: Any) -> bool:
        if type(value) is not bool:
            raise self._fail(where, f"must be true or false, got {_shown(value)}")
        return value

    def _number(self, where: str, value: Any, *, minimum: float) -> float:
        is_number = type(value) in (int, float) and math.isfinite(value)
        if not is_number or not minimum <= value <= _COST_MAX:
            raise self._fail(where, f"must be a number from {minimum:g} to {_COST_MAX:g}, got {_shown(value)}")
        return float(value)

    def _count(self, where: str, value: Any) -> int:
        if type(value) is not int or not 1 <= value <= 100_000_000:
            raise self._fail(where, f"must be a whole number from 1 to 100000000, got {_shown(value)}")
        return int(value)

    def _texts(self, where: str, value: Any) -> list[str]:
        if type(value) is not list or not all(type(item) is str for item in value):
            raise self._fail(where, f"must be a list of texts, got {_shown(value)}")
        return value

    def _digest(self, where: str, value: Any) -> bytes:
        if type(value) is not str or _DIGEST.fullmatch(value) is None:
            # The value is not repeated: it may be the key itself.
            raise self._fail(where, "must be the SHA-256 of a key: 64 hex digits")
        return bytes.fromhex(value)

    def _origins(self, value: Any) -> frozenset[str] | None:
        origins = self._texts("cors.origins", value)
        for origin in origins:
            if origin != "*" and _ORIGIN.fullmatch(origin) is None:
                raise self._fail(
                    "cors.origins", f"must be like https://host or https://host:port, got {_shown(origin)}"
                )
        return None if "*" in origins else frozenset(origins)

    def _network(self, text: str) -> Network:
        try:
            return ip_network(text)
        except ValueError as error:
            raise self._fail("proxies.trusted", f"must be an address or a network: {error}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
