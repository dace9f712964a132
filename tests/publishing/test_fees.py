"""Prices and gas limits, against those seen of the reference."""

from __future__ import annotations

from fastnode.config.settings import Settings
from fastnode.publishing.account import WatchLimits
from fastnode.publishing.fees import GAS_MAX, GWEI, FeeLimits, L1Prices, Price, gas_limit

LIMITS = FeeLimits()


def prices(base_gwei: float, *, tip_gwei: float = 1, blob_fee: int = 1) -> L1Prices:
    return L1Prices(0, round(base_gwei * GWEI), blob_fee, round(tip_gwei * GWEI))


def gwei(value: float) -> int:
    return round(value * GWEI)


def test_the_first_price_is_the_estimate_and_a_fifth() -> None:
    assert LIMITS.first(prices(0.005), has_blobs=True) == Price(gwei(1.2), gwei(1.2) + 5_625_000, 2)
    assert LIMITS.first(prices(0.005), has_blobs=False).blob_fee_max is None


def test_a_higher_price_is_what_nodes_of_l1_ask_for() -> None:
    """Twice as much with blobs, and what the base fee has become."""
    before = Price(gwei(1.2), gwei(1.206), 2)
    assert LIMITS.again(prices(40), before) == Price(gwei(2.4), gwei(47.4), 4)
    assert LIMITS.again(prices(0.005), before) == Price(gwei(2.4), gwei(2.412), 4)
    plain = Price(gwei(1.2), gwei(1.206))
    assert LIMITS.again(prices(0.005), plain) == Price(gwei(1.8), gwei(1.809))


def test_a_cancellation_offers_more_still() -> None:
    assert LIMITS.again(prices(40), Price(gwei(1.2), gwei(1.206), 2), is_cancellation=True) == Price(
        gwei(3), gwei(48), 5
    )


def test_the_highest_of_several_offers_is_outbid_in_each_part() -> None:
    before = [Price(gwei(1.2), gwei(1.206), 2), Price(gwei(3), gwei(1.1), 1)]
    assert LIMITS.outbid(prices(0.005), before, has_blobs=True) == Price(gwei(6), gwei(6) + 5_625_000, 4)
    # Nodes want twice the price of one with blobs, whatever replaces it.
    assert LIMITS.outbid(prices(0.005), before[:1], has_blobs=False) == Price(gwei(2.4), gwei(2.412))
    plain = Price(gwei(1.2), gwei(1.206))
    assert LIMITS.outbid(prices(0.005), [plain], has_blobs=False) == LIMITS.again(prices(0.005), plain)
    assert LIMITS.outbid(prices(0.005), [], has_blobs=True) == LIMITS.first(prices(0.005), has_blobs=True)


def test_no_price_is_above_the_operator_s_limits_but_a_replacement_s_blob_fee() -> None:
    limits = FeeLimits(fee_max=gwei(10), blob_fee_max=100)
    first = limits.first(prices(500, tip_gwei=50, blob_fee=1_000_000), has_blobs=True)
    assert first == Price(gwei(10), gwei(10), 100)
    assert limits.again(prices(500, blob_fee=1_000_000), first) == Price(gwei(10), gwei(10), 200)


def test_a_blob_fee_that_grows_a_hundredfold_is_offered_at_the_next_attempt() -> None:
    before = LIMITS.first(prices(1, blob_fee=1000), has_blobs=True)
    assert before.blob_fee_max == 1125
    assert LIMITS.again(prices(1, blob_fee=100_000), before).blob_fee_max == 112_500


def test_the_fee_grows_by_an_eighth_for_each_block_that_it_may_wait() -> None:
    assert FeeLimits(stall_s=24).first(prices(64, tip_gwei=0), has_blobs=False).fee_max == gwei(81)


def test_the_least_tip_is_a_setting() -> None:
    limits = FeeLimits.of(Settings(l1_minimum_priority_fee_per_gas_gwei=5, l1_gas_price_max=7))
    assert limits.first(prices(1), has_blobs=False) == Price(gwei(5), gwei(6.125))
    assert limits.fee_max == gwei(7)


def test_the_gas_limit_is_the_one_seen_of_the_reference() -> None:
    assert gas_limit(198_639, blobs=53_001) == 324_471
    assert gas_limit(GAS_MAX) == GAS_MAX
    assert gas_limit(100_000, others=800_000) > 800_000


def test_limits_of_watching_come_from_the_settings() -> None:
    assert WatchLimits.of(Settings()) == WatchLimits()
    assert WatchLimits.of(Settings(l1_tx_monitor_stall_time_ms=500)).stall_s == 0.5
