"""Pausing, resuming and going back: the state machine by itself, then on a chain that is followed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.errors import Refused
from fastnode.sources.rollback import SyncOperator
from fastnode.sources.sync_control import StopRequested, SyncControl, SyncState

# ---- the state machine ------------------------------------------------------------------------


class Worker:
    """Passes as often as it can and counts."""

    def __init__(self, control: SyncControl) -> None:
        self.passes = 0
        self._control = control
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._control.sleep(0.001)
                self.passes += 1
        except StopRequested:
            return

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_a_paused_worker_does_nothing_until_it_is_resumed() -> None:
    control = SyncControl()
    worker = Worker(control)
    assert control.pause(10)
    assert control.state is SyncState.PAUSED
    passes = worker.passes
    time.sleep(0.03)
    assert worker.passes == passes
    assert control.resume()
    deadline = time.monotonic() + 60
    while worker.passes == passes:
        assert time.monotonic() < deadline
    control.stop()
    worker.join()


def test_pausing_twice_and_resuming_twice_is_no_fault() -> None:
    control = SyncControl()
    worker = Worker(control)
    assert control.pause(10)
    assert control.pause(10)
    assert control.resume()
    assert not control.resume()
    control.stop()
    worker.join()


def test_a_paused_worker_can_be_stopped() -> None:
    control = SyncControl()
    worker = Worker(control)
    assert control.pause(10)
    control.stop()
    worker.join()


def test_a_busy_worker_is_waited_for_only_so_long() -> None:
    control = SyncControl()
    assert not control.pause(0.01)
    assert control.state is SyncState.PAUSING


def test_a_worker_that_has_left_counts_as_paused() -> None:
    control = SyncControl()
    control.leave()
    assert control.pause(0.0)
    assert control.state is SyncState.PAUSED
    assert control.resume()


def test_a_pause_ends_when_the_worker_leaves() -> None:
    control = SyncControl()
    assert not control.pause(0.0)
    control.leave()
    assert control.state is SyncState.PAUSED


def test_one_operation_at_a_time_and_others_are_told_which() -> None:
    control = SyncControl()
    with control.one_operation("first") as first:
        assert first is None
        with control.one_operation("second") as second:
            assert second == "first"
        with control.one_operation("third") as third:
            assert third == "first"
    with control.one_operation("fourth") as fourth:
        assert fourth is None


# ---- on a chain ---------------------------------------------------------------------------------


def test_a_paused_node_stays_where_it_is_and_catches_up_later(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        operator = SyncOperator(node.control, node.ingestor)
        operator.pause()
        before = node.tips
        with upstream.lock:
            chain.checkpoint(2)
        time.sleep(0.1)
        assert node.tips == before
        assert node.follower.describe()["state"] == "paused"
        operator.resume()
        node.wait_for(chain)


def test_a_rollback_takes_the_chain_back_and_following_brings_it_forth_again(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        operator = SyncOperator(node.control, node.ingestor)
        target = chain.units[3].blocks[-1].number
        operator.roll_back_to(target, resume=False)
        assert node.ingestor.view.tip_number == target
        assert node.ingestor.view.tips.checkpointed.checkpoint.number == 4
        assert node.data.state is not None
        assert node.data.state.block_number == target
        operator.resume()
        node.wait_for(chain)


def test_a_forced_rollback_goes_below_the_finalized_block(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        operator = SyncOperator(node.control, node.ingestor)
        with pytest.raises(Refused, match="Cannot rollback to block 1 as it is before finalized 3"):
            operator.roll_back_to(1)
        assert node.control.state is SyncState.RUNNING
        operator.roll_back_to(1, force=True, resume=False)
        assert node.ingestor.view.tips.checkpointed.block.number == 1
        assert node.ingestor.view.tips.finalized.block.number == 0, "L1 has a root for more of the epoch only"
        operator.resume()
        node.wait_for(chain)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (12, "Target L2 block 12 must be less than current L2 block 12"),
        (99, "Target L2 block 99 must be less than current L2 block 12"),
        (11, "Target L2 block 11 not found"),
        (
            5,
            "Target L2 block 5 is not at a checkpoint boundary. Checkpoint 3 spans blocks 4 to 6. Use block 6 to roll "
            "back to this checkpoint, or block 3 to roll back to the previous one.",
        ),
    ],
)
def test_a_target_that_cannot_be_gone_back_to_is_refused_and_the_sync_goes_on(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, target: int, message: str
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        operator = SyncOperator(node.control, node.ingestor)
        with pytest.raises(Refused) as refusal:
            operator.roll_back_to(target)
        assert refusal.value.message == message
        with upstream.lock:
            chain.propose()
        node.wait_for(chain)


def test_the_genesis_is_no_target(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with pytest.raises(Refused, match="Target L2 block 0 not found"):
            SyncOperator(node.control, node.ingestor).roll_back_to(0, force=True)
