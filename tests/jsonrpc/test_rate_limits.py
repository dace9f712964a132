"""Clients and their budgets, on a clock that the test moves."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import Clock

from fastnode.errors import MethodNotFound, RateLimited
from fastnode.jsonrpc.rate_limit_rules import Rate, read_rate_limit_rules
from fastnode.jsonrpc.rate_limits import BYTES_PER_COST, Bucket, Client, RateLimits

METHODS = ("cheap", "dear", "secret")
RULES = """
[address]
rate = 10
burst = 20
count-max = 3
[keys.partner]
sha256 = "{partner}"
rate = 100
[keys.unlimited]
sha256 = "{unlimited}"
[costs]
dear = 5
[methods]
deny = ["secret"]
[proxies]
trusted = ["10.0.0.0/8"]
"""


def limits_of(tmp_path: Path, clock: Clock, text: str = RULES) -> RateLimits:
    file = tmp_path / "limits.toml"
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("partner", "unlimited")}
    file.write_text(text.format(**digests))
    return RateLimits(read_rate_limit_rules(file, METHODS), clock=clock)


@pytest.fixture
def limits(tmp_path: Path, clock: Clock) -> RateLimits:
    return limits_of(tmp_path, clock)


def client_at(limits: RateLimits, peer: str, **headers: str) -> Client:
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    client = limits.client_of(peer, fields)
    assert client is not None
    return client


# ---- budgets -----------------------------------------------------------------------------------


def test_a_budget_is_spent_by_cost_and_refilled_with_time(limits: RateLimits, clock: Clock) -> None:
    client = client_at(limits, "1.2.3.4")
    assert [client.refusal_of("dear") for _ in range(4)] == [None] * 4
    refusal = client.refusal_of("dear")
    assert isinstance(refusal, RateLimited)
    assert refusal.message == "Rate limit exceeded: dear costs 5; try again in 0.5 s"
    assert refusal.data == {"code": "RATE_LIMITED", "retryAfterMs": 500}
    clock.now += 0.5
    assert client.refusal_of("dear") is None
    assert client.refusal_of("cheap") is not None


def test_over_ten_seconds_a_client_gets_its_rate_and_one_burst(limits: RateLimits, clock: Clock) -> None:
    client = client_at(limits, "1.2.3.4")
    rng = random.Random(7)
    end, answered = clock.now + 10, 0
    while clock.now < end:
        answered += client.refusal_of("cheap") is None
        clock.now += rng.expovariate(500)
    assert answered == pytest.approx(20 + 10 * 10, rel=0.05)


@given(
    rate=st.floats(0.1, 1e4),
    burst=st.floats(1, 1e4),
    steps=st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=50),
)
def test_a_bucket_never_gives_more_than_burst_and_rate_allow(
    rate: float, burst: float, steps: list[tuple[float, float]]
) -> None:
    bucket = Bucket(Rate(rate, burst), 0.0)
    now = taken = 0.0
    for pause, cost in steps:
        now += pause
        wait = bucket.take(cost, now)
        if wait == 0:
            taken += cost
        elif cost <= burst:
            # A promise is kept.
            assert Bucket.take(_copy(bucket, rate, burst, now), cost, now + wait * (1 + 1e-6) + 1e-9) == 0
    assert taken <= burst + rate * now + 1e-6 * (1 + taken)


def _copy(bucket: Bucket, rate: float, burst: float, now: float) -> Bucket:
    copy = Bucket(Rate(rate, burst), now)
    copy.tokens = bucket.tokens
    return copy


def test_what_is_no_call_is_charged_too(limits: RateLimits) -> None:
    client = client_at(limits, "1.2.3.4")
    for name in [None, "unknown", "secret"] * 7:
        client.refusal_of(name)
    assert isinstance(client.refusal_of("cheap"), RateLimited)


def test_a_large_body_is_not_read_for_an_empty_bucket(limits: RateLimits, clock: Clock) -> None:
    client = client_at(limits, "1.2.3.4")
    assert client.refusal_of_body(100_000) is None
    for _ in range(20):
        client.refusal_of("cheap")
    assert client.refusal_of_body(100) is None
    refusal = client.refusal_of_body(100_000)
    assert refusal is not None
    assert refusal.wait_s == pytest.approx(0.3)  # reading it costs 3
    clock.now += 0.4
    assert client.refusal_of_body(100_000) is None


def test_reading_a_long_body_costs_and_leaves_enough_for_any_call(limits: RateLimits, clock: Clock) -> None:
    client = client_at(limits, "1.2.3.4")
    assert client.refusal_of_body(10 * BYTES_PER_COST) is None
    assert client.usage.cost == 10
    clock.now += 100
    assert client.refusal_of_body(1000 * BYTES_PER_COST) is None
    dearest = max(limits.rules.prices, key=limits.rules.prices.__getitem__)
    assert client.refusal_of(dearest) is None


# ---- who asks ----------------------------------------------------------------------------------


def test_addresses_have_a_budget_each(limits: RateLimits) -> None:
    first, second = client_at(limits, "1.2.3.4"), client_at(limits, "1.2.3.5")
    for _ in range(21):
        first.refusal_of("cheap")
    assert second.refusal_of("cheap") is None
    assert client_at(limits, "1.2.3.4") is first


def test_a_network_of_ipv6_is_one_client(limits: RateLimits) -> None:
    assert client_at(limits, "2001:db8::1") is client_at(limits, "2001:db8::ffff:2")
    assert client_at(limits, "2001:db8::1") is not client_at(limits, "2001:db8:0:1::1")
    assert client_at(limits, "::ffff:1.2.3.4") is client_at(limits, "1.2.3.4")


def test_only_so_many_addresses_are_remembered(limits: RateLimits) -> None:
    first = client_at(limits, "1.1.1.1")
    for number in range(2, 4):
        client_at(limits, f"1.1.1.{number}")
        assert client_at(limits, "1.1.1.1") is first
    client_at(limits, "1.1.1.9")
    assert limits.address_count == 3
    assert client_at(limits, "1.1.1.1") is first  # it was seen after the second
    client_at(limits, "1.1.1.2")
    client_at(limits, "1.1.1.8")
    client_at(limits, "1.1.1.9")
    assert client_at(limits, "1.1.1.1") is not first


@pytest.mark.parametrize(
    "headers",
    [
        {"x_api_key": "partner"},
        {"authorization": "Bearer partner"},
        {"authorization": "bearer   partner "},
        {"x_api_key": "partner", "authorization": "Bearer wrong"},
        {"x_api_key": " ", "authorization": "Bearer partner"},
    ],
)
def test_a_key_has_its_own_budget_from_any_address(limits: RateLimits, headers: dict[str, str]) -> None:
    client = client_at(limits, "1.2.3.4", **headers)
    assert client.name == "partner"
    assert client_at(limits, "9.9.9.9", **headers) is client
    for _ in range(100):
        assert client.refusal_of("cheap") is None
    assert client.refusal_of("cheap") is not None


def test_a_key_without_a_rate_has_no_end(limits: RateLimits) -> None:
    client = client_at(limits, "1.2.3.4", x_api_key="unlimited")
    assert all(client.refusal_of("dear") is None for _ in range(10_000))


def test_a_wrong_key_names_no_client(limits: RateLimits) -> None:
    assert limits.client_of("1.2.3.4", {b"x-api-key": b"wrong"}) is None
    assert limits.client_of("1.2.3.4", {b"x-api-key": b"wrong", b"authorization": b"Bearer partner"}) is None
    assert limits.client_of("1.2.3.4", {b"authorization": b"Basic cGFydG5lcg=="}) is not None  # no key at all


def test_where_keys_are_required_an_address_names_no_client(tmp_path: Path, clock: Clock) -> None:
    limits = limits_of(tmp_path, clock, "requires-key = true\n" + RULES)
    assert limits.client_of("1.2.3.4", {}) is None
    assert client_at(limits, "1.2.3.4", x_api_key="partner").name == "partner"


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("1.2.3.4", "5.6.7.8", "1.2.3.4"),  # anybody may write the header
        ("10.0.0.1", "5.6.7.8", "5.6.7.8"),
        ("::ffff:10.0.0.1", "5.6.7.8", "5.6.7.8"),
        ("10.0.0.1", "6.6.6.6, 5.6.7.8", "5.6.7.8"),  # the first one is what the client wrote itself
        ("10.0.0.1", "5.6.7.8, 10.0.0.2", "5.6.7.8"),
        ("10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "5.6.7.8, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "2001:db8::1", "2001:db8::/64"),
    ],
)
def test_the_address_behind_a_trusted_proxy_counts(limits: RateLimits, peer: str, forwarded: str, address: str) -> None:
    assert client_at(limits, peer, x_forwarded_for=forwarded).name == address


# ---- methods and origins --------------------------------------------------------------------------


def test_a_denied_method_is_not_available_and_an_unknown_one_is_left_to_the_table(limits: RateLimits) -> None:
    client = client_at(limits, "1.2.3.4")
    refusal = client.refusal_of("secret")
    assert isinstance(refusal, MethodNotFound)
    assert refusal.message == "Method not available: secret is not offered to this client"
    assert client.refusal_of("unknown") is None


def test_origins_are_any_or_those_of_the_list(limits: RateLimits, tmp_path: Path, clock: Clock) -> None:
    assert limits.allowed_origin({b"origin": b"https://a.example"}) == "*"
    listed = limits_of(tmp_path, clock, '[cors]\norigins = ["https://a.example"]')
    assert listed.allowed_origin({b"origin": b"https://a.example"}) == "https://a.example"
    assert listed.allowed_origin({b"origin": b"https://b.example"}) is None
    assert listed.allowed_origin({}) is None
