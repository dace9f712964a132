"""Clients and what each may still ask: API keys, budgets by key and by address, lists of methods, origins.

A client is a key, or without one an address.  Each has a token bucket; a call takes its method's cost from it, the
calls of a batch one by one, before the first is answered.  A call that finds too little is answered with an error that
says when to come back, and the others of its batch are answered as always.  A request of which nothing could be
answered is refused with HTTP 429.

    request -> headers, address -> client -> price of the method -> bucket -> answered, or -32005 and when to come back

The rules never change; a new file makes a new :class:`RateLimits`, whose buckets are full.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import random
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final

from fastnode.errors import MethodNotFound, RateLimited, RpcError
from fastnode.jsonrpc.rate_limit_rules import KeyRule, Rate, RateLimitRules

__all__ = [
    "ADDRESSES",
    "BYTES_PER_COST",
    "KEY_HEADERS",
    "Bucket",
    "Client",
    "MakeBucket",
    "RateLimits",
    "Usage",
    "refusal_delay",
]

#: A refused request is held back at least this long: a client that ignores Retry-After is slowed, and costs others
#: nothing.
REFUSAL_DELAY_S: Final = 0.1
#: A longer body is not read for a client whose bucket is empty.
UNREAD_BYTES_MIN: Final = 1024
#: Reading so many bytes of a body costs 1.
BYTES_PER_COST: Final = 32 * 1024

#: Stands for all clients without a key; no key has such a name.
ADDRESSES: Final = "(address)"

#: Headers that have nothing but a key, in lower case; the first that is not empty counts.
KEY_HEADERS: Final = (b"x-api-key", b"x-aztec-api-key")

#: A generator of its own: the module's belongs to the program, which may have seeded it.
_CHANCE: Final = random.Random()
_BEARER: Final = re.compile(rb"bearer +(.*)", re.IGNORECASE | re.DOTALL)
#: A subscriber to IPv6 has at least this prefix.
_IPV6_HOST_BITS: Final = 64


def refusal_delay() -> float:
    """Seconds to hold a refused request back: each another time, so that many do not come again at once."""
    return REFUSAL_DELAY_S * _CHANCE.uniform(1.0, 2.0)


class Bucket:
    """A budget: full at first, refilled with time.  Times in seconds on one clock."""

    __slots__ = ("_at", "burst", "per_second", "tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self.per_second = rate.per_second
        self.burst = rate.burst
        self.tokens = rate.burst
        self._at = now

    def take(self, cost: float, now: float) -> float:
        """0.0 if the cost has been taken; else nothing has, and it is there after this many seconds."""
        tokens = self.tokens + (now - self._at) * self.per_second
        if tokens > self.burst:
            tokens = self.burst
        self._at = now
        if tokens < cost:
            self.tokens = tokens
            return (cost - tokens) / self.per_second
        self.tokens = tokens - cost
        return 0.0

    def give(self, cost: float) -> None:
        """Take back what was taken; of less than 0, take it whatever there is."""
        self.tokens += cost


def _own_bucket(_name: str, rate: Rate, now: float) -> Bucket:
    return Bucket(rate, now)


#: The budget of the client with this name.
MakeBucket = Callable[[str, Rate, float], Bucket]


class Usage:
    """Use so far by one key, or by all addresses together."""

    __slots__ = ("calls", "cost", "refused")

    def __init__(self) -> None:
        self.calls = self.refused = 0
        self.cost = 0.0


class Client:
    """One client.  ``name`` is the key's, or the address."""

    __slots__ = ("_bucket", "_clock", "_prices", "_rules", "_spent", "name", "usage")

    def __init__(
        self,
        name: str,
        rules: RateLimitRules,
        prices: Mapping[str, float],
        rate: Rate | None,
        clock: Callable[[], float],
        usage: Usage,
        make_bucket: MakeBucket,
        spent: dict[str, float] | None = None,
    ) -> None:
        self.name = name
        self._spent = spent
        self.usage = usage
        self._rules = rules
        self._prices = prices
        self._clock = clock
        self._bucket = None if rate is None else make_bucket(name, rate, clock())

    def refusal_of(self, method: str | None) -> RpcError | None:
        """Charge a call; the error if it must not be made.  None: something other than a call, which takes time too."""
        price = None if method is None else self._prices.get(method)
        cost = self._rules.default_cost if price is None else price
        bucket = self._bucket
        if bucket is not None:
            wait_s = bucket.take(cost, self._clock())
            if wait_s:
                self.usage.refused += 1
                return _over_budget(method, cost, wait_s)
        self._count(cost, 1)
        if price is None and method is not None and method in self._rules.methods:
            return MethodNotFound(f"Method not available: {method} is not offered to this client")
        return None

    def budget_fields(self) -> list[tuple[str, str]]:
        """The headers that say what the budget is, and what is left of it: whole costs; none without a budget."""
        bucket = self._bucket
        if bucket is None:
            return []
        seconds = max(1, math.ceil(bucket.burst / bucket.per_second))
        return [
            ("RateLimit-Policy", f'"cost";q={int(bucket.burst)};w={seconds}'),
            ("RateLimit", f'"cost";r={max(0, int(bucket.tokens))}'),
        ]

    def may_call(self, method: str) -> bool:
        """True if the method is offered to this client, with or without budget."""
        return method in self._prices

    def pay(self, method: str) -> bool:
        """Charge a call that can be made.  Otherwise False, and nothing is charged."""
        price, bucket = self._prices.get(method), self._bucket
        if price is None or (bucket is not None and bucket.take(price, self._clock())):
            return False
        # Fast path: as _count, without the call, which would be a tenth of all that a call costs here.
        usage = self.usage
        usage.calls += 1
        usage.cost += price
        if self._spent is not None:
            self._spent[self.name] = self._spent.get(self.name, 0.0) + price
        return True

    def _count(self, cost: float, calls: int) -> None:
        self.usage.calls += calls
        self.usage.cost += cost
        if self._spent is not None:
            self._spent[self.name] = self._spent.get(self.name, 0.0) + cost

    def charge(self, cost: float) -> None:
        """Another node has granted this: it is owed, if there is no such budget."""
        bucket = self._bucket
        if bucket is not None:
            bucket.take(0.0, self._clock())
            bucket.give(-cost)

    def refusal_of_body(self, size: int) -> RateLimited | None:
        """The error for a body of ``size`` bytes, inflated, that is not worth reading; a long one is charged."""
        bucket = self._bucket
        if bucket is None or size < UNREAD_BYTES_MIN:
            return None
        # The rest of the burst must do for any call that the body can hold.
        reading = min(size // BYTES_PER_COST, max(0.0, bucket.burst - max(self._prices.values(), default=0.0)))
        cost = max(reading, min(self._prices.values(), default=self._rules.default_cost))
        wait_s = bucket.take(0.0, self._clock()) or (cost - bucket.tokens) / bucket.per_second
        if wait_s > 0:
            return _over_budget(None, cost, wait_s)
        bucket.give(-reading)
        self._count(reading, 0)
        return None


def _over_budget(method: str | None, cost: float, wait_s: float) -> RateLimited:
    what = "" if method is None else f": {method} costs {cost:g}"
    return RateLimited(f"Rate limit exceeded{what}; try again in {_rounded(wait_s):g} s", wait_s)


def _rounded(seconds: float) -> float:
    return math.ceil(seconds * 1000) / 1000


class RateLimits:
    """The clients of one port under one set of rules; ``make_bucket``: where their budgets are.

    ``are_shared``: what is granted is written down, for other nodes that charge it too.
    """

    def __init__(
        self,
        rules: RateLimitRules,
        *,
        clock: Callable[[], float] = time.monotonic,
        make_bucket: MakeBucket = _own_bucket,
        are_shared: bool = False,
    ) -> None:
        self.rules = rules
        self._clock = clock
        self._make_bucket = make_bucket
        #: By name; keys go before addresses, whose names no key may have.
        self._spent: dict[str, float] | None = {} if are_shared else None
        #: By key, and without one under :data:`ADDRESSES`.
        self.usage = {ADDRESSES: Usage()}
        self._keys = {key.digest: (key.digest, self._client_of_key(key)) for key in rules.keys}
        #: By falling time since they were seen; an address that is forgotten begins with a full bucket.
        self._addresses: OrderedDict[str, Client] = OrderedDict()
        self._by_address = self.usage[ADDRESSES]

    def _client_of_key(self, key: KeyRule) -> Client:
        usage = self.usage[key.name] = Usage()
        return Client(key.name, self.rules, key.prices, key.rate, self._clock, usage, self._make_bucket, self._spent)

    @property
    def address_count(self) -> int:
        """Addresses that are remembered."""
        return len(self._addresses)

    # ---- several nodes -----------------------------------------------------------------------

    def take_spent(self) -> dict[str, float]:
        """Grants to each client since this was asked last."""
        spent = dict(self._spent or {})
        if self._spent is not None:
            self._spent.clear()
        return spent

    def charge(self, name: str, cost: float) -> None:
        """Another node granted a client this."""
        for _, client in self._keys.values():
            if client.name == name:
                client.charge(cost)
                return
        try:
            ip_address(name.partition("/")[0])
        except ValueError:
            return  # a key that this node does not have
        self._client_at(name).charge(cost)

    # ---- who asks ----------------------------------------------------------------------------

    def client_of(self, address: str, headers: Mapping[bytes, bytes]) -> Client | None:
        """None for a wrong key, or for none where one is asked for.

        ``address`` is that of the other end of the connection; ``headers`` has lower-case names.
        """
        presented = _presented_key(headers)
        if presented:
            return self._client_with(presented)
        if self.rules.requires_key:
            return None
        return self._client_at(self._address_behind(address, headers.get(b"x-forwarded-for")))

    def _client_with(self, key: bytes) -> Client | None:
        """The look-up is by a hash, so how long it takes says nothing about any key."""
        digest = hashlib.sha256(key).digest()
        found = self._keys.get(digest)
        return found[1] if found is not None and hmac.compare_digest(found[0], digest) else None

    def _client_at(self, address: str) -> Client:
        address = _subscriber(address)
        clients = self._addresses
        client = clients.get(address)
        if client is not None:
            clients.move_to_end(address)
            return client
        rules = self.rules
        client = Client(
            address,
            rules,
            rules.prices,
            rules.address_rate,
            self._clock,
            self._by_address,
            self._make_bucket,
            self._spent,
        )
        clients[address] = client
        if len(clients) > self.rules.addresses_max:
            clients.popitem(last=False)
        return client

    def _address_behind(self, address: str, forwarded: bytes | None) -> str:
        """The client's address: the last one that no trusted proxy has."""
        if forwarded is None or not self._is_trusted(address):
            return address
        for text in reversed(forwarded.decode("latin-1").split(",")):
            try:
                address = str(ip_address(text.strip()))
            except ValueError:
                return address
            if not self._is_trusted(address):
                return address
        return address

    def _is_trusted(self, address: str) -> bool:
        if not self.rules.trusted_proxies:
            return False
        try:
            parsed = ip_address(address)
        except ValueError:  # a socket of the file system
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self.rules.trusted_proxies)

    # ---- browsers ----------------------------------------------------------------------------

    def allowed_origin(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Value of Access-Control-Allow-Origin; None for no header."""
        origins = self.rules.origins
        if origins is None:
            return "*"
        origin = headers.get(b"origin", b"").decode("latin-1")
        return origin if origin in origins else None


def _presented_key(headers: Mapping[bytes, bytes]) -> bytes:
    """That of the first of KEY_HEADERS which is not empty, else the token of ``Authorization: Bearer``; or empty."""
    for name in KEY_HEADERS:
        key = headers.get(name, b"").strip()
        if key:
            return key
    bearer = _BEARER.fullmatch(headers.get(b"authorization", b"").strip())
    return b"" if bearer is None else bearer[1].strip()


def _subscriber(address: str) -> str:
    """The address, or of IPv6 its network."""
    if ":" not in address:
        return address
    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    prefix = int(parsed) >> _IPV6_HOST_BITS << _IPV6_HOST_BITS
    return f"{IPv6Address(prefix)}/{128 - _IPV6_HOST_BITS}"
