"""Local networks for test suites, as they are started there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fastnode import testing
from fastnode.errors import NoAnswer, RpcError, StartError
from fastnode.local_network.accounts import SPONSORED_FPC, TEST_ACCOUNTS
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import FOUR
from fastnode.sources.genesis_funds import FUNDS, usual_accounts
from fastnode.testing import RunningNetwork, local_network

SUITE = """
import pytest

def test_one(fastnode_network):
    assert fastnode_network.block_number == 1
    assert fastnode_network.mine(2) == 3

def test_two_begins_where_one_did(fastnode_network):
    assert fastnode_network.block_number == 1
    fastnode_network.warp("+1000")
"""


def test_a_network_is_a_process_with_accounts_that_ends_with_its_block() -> None:
    with local_network() as network:
        assert network.block_number == 5
        assert [account.address for account in network.accounts] == [
            "0x" + item.address.hex() for item in TEST_ACCOUNTS
        ]
        assert network.contracts["sponsoredFPC"] == hex_text(SPONSORED_FPC)
        assert network.mine(2) == 7
        assert network.call_admin("nodeAdmin_getConfig")["minTxsPerBlock"] == 1
    with pytest.raises(NoAnswer):
        network.mine()


def test_a_network_begins_with_the_accounts_of_its_version_where_these_are_others() -> None:
    version = "4.3.0-nightly.20260417"
    usual = usual_accounts(version)
    with local_network("--release", version, in_process=True) as network:
        assert [account.address for account in network.accounts] == list(map(hex_text, usual.test_accounts))
        assert [account.secret for account in network.accounts] == [hex_text(each.secret) for each in TEST_ACCOUNTS]
        assert network.contracts["sponsoredFPC"] == hex_text(usual.sponsored_fpc)
        for address in (*usual.test_accounts, usual.sponsored_fpc):
            slot = balance_slot(address, FOUR.addresses.fee_juice)
            leaf = network.call("node_getPublicDataWitness", "latest", hex_text(slot))["leafPreimage"]["leaf"]
            assert int(leaf["value"], 16) == FUNDS


def test_a_network_can_be_a_thread_of_the_suite() -> None:
    before = threading.enumerate()
    with local_network("--no-test-accounts", in_process=True) as network:
        assert network.accounts == ()
        assert network.block_number == 1
    # Threads of others may have ended meanwhile.
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def test_a_thread_that_ends_after_a_failed_start_leaves_the_error_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    is_joined = threading.Event()
    run, join = testing._NodeThread.run, testing._NodeThread.join

    def run_on(thread: testing._NodeThread) -> None:
        run(thread)
        assert is_joined.wait(testing.PATIENCE_S)  # its loop is closed, and it has not ended

    def join_in(thread: testing._NodeThread, timeout: float | None = None) -> None:
        is_joined.set()
        join(thread, timeout)

    monkeypatch.setattr(testing._NodeThread, "run", run_on)
    monkeypatch.setattr(testing._NodeThread, "join", join_in)
    with pytest.raises(StartError, match="expected ADDRESS"), local_network("--prefund=nobody", in_process=True):
        pass
    assert is_joined.is_set()


def test_what_happens_in_a_block_that_is_rolled_back_never_happened(running: RunningNetwork) -> None:
    before = running.block_number
    with running.rolled_back():
        running.mine(3)
        running.warp("+86400")
    assert running.block_number == before


def test_what_the_node_refuses_is_an_error_with_its_words(running: RunningNetwork) -> None:
    with pytest.raises(RpcError, match="blocks must be from 0 to 10000") as refused:
        running.mine(1_000_000)
    assert refused.value.code == -32602


def test_a_network_that_does_not_start_says_why() -> None:
    for in_process in (True, False):
        network = local_network("--prefund=nobody", in_process=in_process)
        with pytest.raises(StartError, match="expected ADDRESS or ADDRESS:AMOUNT"), network:
            pass


def test_pytest_has_the_fixture_by_itself(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfastnode_flags =\n    --no-test-accounts\n")
    arguments = ["-q", "-p", "fastnode.pytest_plugin", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def running() -> object:
    with local_network(in_process=True) as network:
        yield network
