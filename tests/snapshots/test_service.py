"""One upload at a time, and the end of one that is under way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from fastnode.errors import Refused
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, find_snapshots
from fastnode.snapshots.service import SnapshotUploads
from fastnode.sources.rollback import COPYING, ROLLING_BACK, SyncOperator
from fastnode.sources.sync_control import SyncControl, SyncState
from fastnode.storage import database

PATIENCE_S = 60.0


class Gate:
    """A rest that is entered and left when the test says so."""

    def __init__(self) -> None:
        self.entered, self.may_leave = threading.Event(), threading.Event()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.entered.set()
        assert self.may_leave.wait(PATIENCE_S)
        yield


def test_a_second_upload_is_refused_until_the_first_is_complete(old: Path, tmp_path: Path) -> None:
    gate = Gate()
    uploads = SnapshotUploads(old, gate, (f"file://{tmp_path}",))
    url = f"file://{tmp_path}/location"
    uploads.start(url)
    assert gate.entered.wait(PATIENCE_S)
    with pytest.raises(Refused) as caught:
        uploads.start(url)
    assert str(caught.value) == "Snapshot upload already in progress. Cannot start another one until complete."
    gate.may_leave.set()
    assert uploads.wait(PATIENCE_S)
    uploads.start(url)
    assert uploads.wait(PATIENCE_S)
    location = Location.to_read(url)
    assert len(find_snapshots(location, choose_network(location))) == 2


def test_a_stop_ends_an_upload_and_nothing_of_it_is_listed(
    old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    uploads = SnapshotUploads(old, gate, (f"file://{tmp_path}",))
    (tmp_path / "location").mkdir()
    uploads.start(f"file://{tmp_path}/location")
    assert gate.entered.wait(PATIENCE_S)
    threading.Timer(0.1, gate.may_leave.set).start()
    with caplog.at_level(logging.WARNING):
        uploads.close()
    assert uploads.wait(PATIENCE_S)
    assert "snapshot given up: the node stops" in caplog.messages
    location = Location.to_read(f"file://{tmp_path}/location")
    assert [find_snapshots(location, network) for network in location.networks()] in ([], [[]])
    assert not list(old.glob("snapshot-*"))


def test_what_goes_wrong_is_one_line_in_the_log(old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @contextmanager
    def never_rests() -> Iterator[None]:
        raise Refused("Ingestion did not come to rest")
        yield

    uploads = SnapshotUploads(old, never_rests, (f"file://{tmp_path}",))
    uploads.start(f"file://{tmp_path}/location")
    assert uploads.wait(PATIENCE_S)
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == ["snapshot failed"]
    assert not list(old.glob("snapshot-*"))
    reason = f"the last snapshot was not uploaded to file://{tmp_path}/location: Ingestion did not come to rest"
    assert uploads.troubles() == {"snapshots": reason}


def test_an_upload_to_a_disk_without_room_for_it_is_not_begun(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the room that the databases need on the same disk."""
    monkeypatch.setattr(database, "free_bytes", lambda path: database.ROOM_BYTES + 1000)
    uploads = SnapshotUploads(old, nullcontext, (f"file://{tmp_path}",))
    uploads.start(f"file://{tmp_path}/location")
    assert uploads.wait(PATIENCE_S)
    assert uploads.outcomes == {"failed": 1}
    assert "MiB more must be free on its disk" in str(uploads.failure)
    assert not list((tmp_path / "location").rglob("*.tar*"))
    monkeypatch.undo()
    uploads.start(f"file://{tmp_path}/location")
    assert uploads.wait(PATIENCE_S)
    assert uploads.troubles() == {"snapshots": None}


# ---- the rest that the node gives ------------------------------------------------------------------------


class FakeIngestor:
    class view:  # noqa: N801 - an attribute of the ingestor
        tip_number = 7


@pytest.fixture
def control() -> SyncControl:
    """Of a worker that has left: pausing succeeds at once."""
    made = SyncControl()
    made.leave()
    return made


def test_ingestion_rests_within_and_goes_on_afterwards(control: SyncControl) -> None:
    operator = SyncOperator(control, FakeIngestor())  # type: ignore[arg-type]
    with operator.at_rest():
        assert control.state is SyncState.PAUSED
    assert control.state is SyncState.RUNNING
    operator.pause()
    with operator.at_rest():
        assert control.state is SyncState.PAUSED
    assert control.state is SyncState.PAUSED


def test_ingestion_goes_on_after_a_failure_too(control: SyncControl) -> None:
    operator = SyncOperator(control, FakeIngestor())  # type: ignore[arg-type]
    with pytest.raises(OSError, match="disk"), operator.at_rest():
        raise OSError("disk")
    assert control.state is SyncState.RUNNING


def test_of_a_rollback_and_a_copy_the_second_is_told_about_the_first(control: SyncControl) -> None:
    operator = SyncOperator(control, FakeIngestor())  # type: ignore[arg-type]
    for running, message, code in (
        (ROLLING_BACK, "A rollback is running; try again when it is done", "ROLLBACK_RUNNING"),
        (COPYING, "The databases are being copied for a snapshot; try again when it is done", "SNAPSHOT_RUNNING"),
    ):
        with control.one_operation(running):
            with pytest.raises(Refused) as failure, operator.at_rest():
                pytest.fail("it rested")
            assert (failure.value.message, failure.value.data) == (message, {"code": code})
            with pytest.raises(Refused) as failure:
                operator.roll_back_to(3)
            assert (failure.value.message, failure.value.data) == (message, {"code": code})
    assert control.state is SyncState.RUNNING


def test_a_node_that_stops_does_not_come_back_to_life(control: SyncControl) -> None:
    operator = SyncOperator(control, FakeIngestor())  # type: ignore[arg-type]
    control.stop()
    with pytest.raises(Refused, match="The node is stopping"), operator.at_rest():
        pytest.fail("it rested")
    assert control.state is SyncState.STOPPING
