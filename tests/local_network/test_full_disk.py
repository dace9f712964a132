"""A local network whose disk is full: it says so, changes nothing, and goes on when there is room."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.local_network.local_chain import NOW, LocalChain
from tests.local_network.test_network import wait_until

from fastnode.errors import DatabaseFull, DatabaseUnwritable
from fastnode.local_network import kept_state
from fastnode.local_network.changes import Changes
from fastnode.local_network.kept_state import OpenMessage
from fastnode.storage import database

MESSAGE = OpenMessage(*[b"\2" * 20, b"\2" * 32, b"\2" * 32, b"\2" * 32])
WAITS = "the local network waits for room on the disk"


def test_blocks_wait_for_room_and_are_built_when_there_is_some(
    quiet_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fastnode.local_network.network.ROOM_CHECK_S", 0.01)
    real = database.free_bytes
    monkeypatch.setattr(database, "free_bytes", lambda path: 0)
    tip = quiet_chain.tip
    quiet_chain.changes.set_interval(0.01)
    wait_until(lambda: WAITS in caplog.messages)
    with pytest.raises(DatabaseFull):
        quiet_chain.changes.mine()
    assert quiet_chain.tip == tip
    monkeypatch.setattr(database, "free_bytes", real)
    wait_until(lambda: quiet_chain.tip > tip)
    quiet_chain.changes.set_interval(0)
    assert quiet_chain.changes.mine(2) >= tip + 2
    assert caplog.messages.count(WAITS) == 1


def test_a_disk_that_is_full_again_behind_the_same_block_is_told_of_again(
    quiet_chain: LocalChain, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The block may be the newest one once more: those above it were taken back."""
    monkeypatch.setattr("fastnode.local_network.network.ROOM_CHECK_S", 0.01)
    real, tip = database.free_bytes, quiet_chain.tip
    for count in (1, 2):
        monkeypatch.setattr(database, "free_bytes", lambda path: 0)
        quiet_chain.changes.set_interval(0.01)
        wait_until(lambda count=count: caplog.messages.count(WAITS) == count)  # type: ignore[misc]
        assert quiet_chain.tip == tip
        monkeypatch.setattr(database, "free_bytes", real)
        wait_until(lambda: quiet_chain.tip > tip)
        quiet_chain.changes.set_interval(0)
        quiet_chain.network.do(lambda: quiet_chain.network.undo_above(tip, keep_txs=False, force=True))
        assert quiet_chain.tip == tip


@pytest.mark.parametrize(
    "change",
    [
        lambda changes: changes.advance_time(100),
        lambda changes: changes.set_coinbase(b"\7" * 20),
        lambda changes: changes.set_min_fee(7),
        lambda changes: changes.set_l1_fees(10**12, 10**12),
        lambda changes: changes.snapshot(),
        lambda changes: changes.send_message(MESSAGE, mine=False),
        lambda changes: changes.consume_message(1, 2),
        lambda changes: changes.set_automine(True),
    ],
    ids=["time", "coinbase", "fee", "fees of L1", "snapshot", "message", "consumed", "automine"],
)
@pytest.mark.parametrize(("code", "refusal"), [(errno.ENOSPC, DatabaseFull), (errno.EIO, DatabaseUnwritable)])
def test_what_cannot_be_written_down_is_not_changed(
    quiet_chain: LocalChain,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Changes], object],
    code: int,
    refusal: type[Exception],
) -> None:
    network = quiet_chain.network

    def values() -> object:
        l1_fees, fixed = network.fees.l1_fees, network.fees.fixed
        return network.kept.to_json(), network.clock.now(), network.miner.coinbase, l1_fees, fixed

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(code, os.strerror(code))

    before = values()
    with monkeypatch.context() as patched:
        patched.setattr(kept_state, "replace_checked_file", refuse)
        with pytest.raises(refusal, match="cannot be written"):
            change(quiet_chain.changes)
    assert values() == before
    change(quiet_chain.changes)
    assert values() != before
    assert quiet_chain.wall.now == NOW
