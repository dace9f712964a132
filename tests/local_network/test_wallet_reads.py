"""Empty blocks for messages wait for wallets that are at work, for a while."""

from __future__ import annotations

import pytest

from fastnode.local_network.wallet_reads import LONGEST_S, QUIET_S, READS_OF_WALLETS, WalletReads
from fastnode.testing import local_network


class Wallets:
    """Reads and a clock, both moved by hand."""

    def __init__(self) -> None:
        self.now, self.count = 1_000.0, 0
        self.reads = WalletReads(clock=lambda: self.now)
        self.reads.count = lambda: self.count

    def allows(self, after_s: float, *, is_wanted: bool = True, reads: int = 0) -> bool:
        self.now += after_s
        self.count += reads
        return self.reads.allow(is_wanted=is_wanted)


@pytest.fixture
def wallets() -> Wallets:
    return Wallets()


def test_a_block_that_is_wanted_waits_for_a_wallet_that_may_begin_now(wallets: Wallets) -> None:
    assert not wallets.allows(0)
    assert not wallets.allows(QUIET_S - 0.1)
    assert wallets.allows(0.2)


def test_each_read_makes_it_wait_on(wallets: Wallets) -> None:
    wallets.allows(0)
    assert not wallets.allows(QUIET_S - 0.1, reads=3)
    assert not wallets.allows(QUIET_S - 0.1)
    assert wallets.allows(0.2)


def test_it_does_not_wait_for_ever(wallets: Wallets) -> None:
    tries = [wallets.allows(0.5, reads=1) for _ in range(int(2 * LONGEST_S))]
    assert not any(tries)
    assert wallets.allows(0.6, reads=1)


def test_what_is_not_wanted_is_not_built_and_the_next_waits_anew(wallets: Wallets) -> None:
    wallets.allows(0)
    assert not wallets.allows(LONGEST_S, is_wanted=False)
    assert not wallets.allows(0.1)


def test_where_nobody_counts_nothing_waits() -> None:
    assert WalletReads().allow(is_wanted=True)


def test_a_network_counts_what_wallets_read() -> None:
    with local_network("--no-test-accounts", in_process=True) as network:
        methods = {method["name"] for method in network.call("rpc.discover")["methods"]}
        assert set(READS_OF_WALLETS) <= methods
