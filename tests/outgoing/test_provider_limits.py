"""Limits of a provider: lowered by what it refuses, raised seldom, remembered."""

from __future__ import annotations

import random

import pytest

from fastnode.errors import UpstreamRejection
from fastnode.outgoing.provider_limits import LearnedLimit, ProviderLimits, is_rate_refusal, named_limit


class ModelClock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Provider:
    """Grants so many calls in any second, and counts those that it refuses."""

    def __init__(self, clock: ModelClock, per_second: float) -> None:
        self._clock = clock
        self.per_second = per_second
        self._granted: list[tuple[float, int]] = []
        self.calls = self.refused = 0

    def grants(self, count: int) -> bool:
        now = self._clock.now
        self._granted = [(at, number) for at, number in self._granted if at > now - 1]
        self.calls += count
        if sum(number for _, number in self._granted) + count > self.per_second:
            self.refused += count
            return False
        self._granted.append((now, count))
        return True


def ask(limits: ProviderLimits, provider: Provider, clock: ModelClock, count: int) -> None:
    """Until all have been answered, as an endpoint does it."""
    while count:
        part = min(count, limits.batch_calls)
        clock.now += limits.reserve(part)
        sent_at = clock.now
        if provider.grants(part):
            limits.grant_batch(part)
            count -= part
        else:
            limits.refuse_rate(sent_at, part)
        clock.now += 0.05


@pytest.mark.parametrize("per_second", [2, 5, 15, 40, 100])
def test_at_most_a_tenth_of_the_calls_is_refused_whatever_a_provider_grants(per_second: int) -> None:
    """A hour of polls of one to sixty calls each; the first minute is for learning."""
    clock, chance = ModelClock(), random.Random(per_second)
    provider, limits = Provider(clock, per_second), ProviderLimits(clock=clock)
    while clock.now < 1_060:
        ask(limits, provider, clock, chance.choice([1, 2, 33, 60]))
    provider.calls = provider.refused = 0
    begun = clock.now
    while clock.now < begun + 3_600:
        ask(limits, provider, clock, chance.choice([1, 2, 33, 60]))
    assert provider.refused <= provider.calls / 10
    granted = (provider.calls - provider.refused) / (clock.now - begun)
    assert granted > per_second / 3, "what is granted is used"


def test_a_provider_that_grants_more_is_used_more_after_a_while() -> None:
    clock = ModelClock()
    provider, limits = Provider(clock, 10), ProviderLimits(clock=clock)
    for _ in range(100):
        ask(limits, provider, clock, 40)
    provider.per_second = 1_000
    for _ in range(1_000):
        ask(limits, provider, clock, 40)
    begun, before = clock.now, provider.calls
    for _ in range(50):
        ask(limits, provider, clock, 40)
    assert (provider.calls - before) / (clock.now - begun) > 40


def test_what_the_operator_knows_is_never_exceeded() -> None:
    clock = ModelClock()
    provider, limits = Provider(clock, 15), ProviderLimits(calls_per_second=15, batch_calls=10, clock=clock)
    for _ in range(1_000):
        assert limits.batch_calls <= 10
        ask(limits, provider, clock, 33)
    assert provider.refused == 0


def test_a_single_call_that_is_refused_says_nothing_about_rates() -> None:
    """A daily quota is used up: when it is there again the rate is what it was."""
    clock = ModelClock()
    limits = ProviderLimits(clock=clock)
    for _ in range(100):
        clock.now += limits.reserve(1)
        limits.refuse_rate(clock.now, 1)
        clock.now += 5
    assert limits.describe() == {"batchCalls": 50, "callsPerSecond": None, "logBlocks": None, "refusedCalls": 100}


def test_requests_that_were_under_way_lower_the_rate_once() -> None:
    clock = ModelClock()
    limits = ProviderLimits(clock=clock)
    for _ in range(16):
        assert limits.reserve(4) == 0
    for _ in range(16):
        limits.refuse_rate(clock.now, 4)
    assert limits.describe()["callsPerSecond"] == 32


def test_a_limit_is_searched_between_what_was_granted_and_what_was_refused() -> None:
    clock = ModelClock()
    limit = LearnedLimit(100_000, clock)
    largest = 1_700
    refused = asked = 0
    for _ in range(5_000):
        asked += 1
        if limit.value > largest:
            refused += 1
            limit.refuse(limit.value)
        else:
            limit.grant(limit.value)
        clock.now += 5
    assert refused < asked / 100
    assert largest / 2 < limit.value <= largest * 2


@pytest.mark.parametrize(
    ("text", "refused", "limit"),
    [
        ("block range is too large, the limit is 1000", 2_000, 1_000),
        ("exceed maximum block range: 5000", 20_000, 5_000),
        ("eth_getLogs is limited to a 10,000 range", 100_000, 10_000),
        ("You can make eth_getLogs requests with up to a 2K block range", 100_000, 2_000),
        ("query returned more than 10000 results. Try with this block range [0x1b4, 0x1c8].", 2_000, None),
        ("batch size is too large: 33 > 20", 33, 20),
        ("no numbers here", 100, None),
        ("code -32005", 50_000, None),
    ],
)
def test_the_limit_that_a_refusal_names_is_found(text: str, refused: int, limit: int | None) -> None:
    assert named_limit(text, refused) == limit


@pytest.mark.parametrize(
    ("code", "text", "method", "is_rate"),
    [
        (429, "slow down", "eth_call", True),
        (-32005, "limit exceeded", "eth_call", True),
        (-32005, "limit exceeded", "eth_getLogs", False),
        (-32005, "query returned more than 10000 results", "eth_getLogs", False),
        (-32005, "daily request count exceeded, request rate limited", "eth_getLogs", True),
        (-32029, "Too Many Requests", "eth_call", True),
        (-32000, "Your app has exceeded its compute units per second capacity", "eth_call", True),
        (-32007, "15/second request limit reached", "eth_call", True),
        (-32000, "execution reverted", "eth_call", False),
        (-32000, "missing trie node", "eth_call", False),
        (-32602, "block range too large", "eth_getLogs", False),
    ],
)
def test_refusals_for_the_rate_are_told_from_others(code: int, text: str, method: str, is_rate: bool) -> None:
    assert is_rate_refusal(UpstreamRejection(code, text), method) == is_rate
