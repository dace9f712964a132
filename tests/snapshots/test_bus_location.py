"""Snapshots of leaves on the bus: made, kept, fetched, gone on with; and nothing there is believed."""

from __future__ import annotations

import random
import shutil
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from tests.bus.nats import NatsServer, open_bus
from tests.snapshots.conftest import create_leaves_at
from tests.snapshots.test_leaves import require_whole

from fastnode.bus.connection import Bus, Message, Outgoing
from fastnode.bus.subjects import Subjects
from fastnode.chain_data import ChainData
from fastnode.errors import SnapshotError
from fastnode.extras import LazyModule
from fastnode.snapshots import location as locations
from fastnode.snapshots.bus_location import BusLocation, bus_locations
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import LeafIndex, LeafSnapshot, PartList, facts_of, part_name
from fastnode.snapshots.leaf_restore import find_leaf_snapshots, is_begun, restore_leaves, unconfirmed
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.storage.replacement import PART_FOLDER

ROOM: Final = 64 << 20
PUBLISHER: Final = "publisher-1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    yield server
    server.stop()


@pytest.fixture
def bus(server: NatsServer) -> Iterator[Bus]:
    bus = open_bus(server.url, name=PUBLISHER)
    yield bus
    bus.close()


@pytest.fixture
def source(long_directory: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(long_directory, tmp_path / "source"))


@pytest.fixture
def network(source: Path) -> Network:
    with ChainData.open(source, create=False) as data:
        return Network.of(data.store.chain)


@pytest.fixture
def own(bus: Bus, network: Network) -> BusLocation:
    """The publisher's, to be filled."""
    return BusLocation.to_fill(bus, network, ROOM)


@pytest.fixture
def filled(own: BusLocation, source: Path) -> BusLocation:
    create_leaves_at(source, own)
    return own


def go_on() -> None:
    pass


def restore(directory: Path, bus: Bus, network: Network) -> None:
    [location] = bus_locations(bus, network, go_on)
    directory.mkdir(exist_ok=True)
    [snapshot, *_] = find_leaf_snapshots(location, network)
    restore_leaves(directory, location, network, snapshot, confirm=unconfirmed)


def list_of(location: BusLocation, network: Network, snapshot: LeafSnapshot) -> PartList:
    text = location.read_file(network, snapshot.list_name, 1 << 20, "the list")
    assert text is not None
    return PartList.from_bytes(text)


def stored(bus: Bus, network: Network) -> list[Message]:
    """All pieces of all files."""
    stream = Subjects.of({"l1ChainId": network.l1_chain_id, "rollupVersion": network.rollup_version}).leaf_stream
    found: list[Message] = []
    while some := bus.since(stream, found[-1].sequence + 1 if found else 1, f"{stream}.>"):
        found += some
    return found


def names_of(location: BusLocation, network: Network) -> set[str]:
    return set(location.ages(network, "parts"))


# ---- what works ------------------------------------------------------------------------------------


def test_a_directory_is_made_of_the_leaves_on_the_bus_without_a_package_for_object_stores(
    bus: Bus, filled: BusLocation, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("obstore", "exceptions", "stores"):
        monkeypatch.setattr(locations, name, LazyModule("not_installed"))
    restore(tmp_path / "new", bus, network)
    require_whole(tmp_path / "new")
    filled.store.remove(f"{network.folder}/parts")
    with pytest.raises(SnapshotError, match="lacks the file parts/"):
        restore(tmp_path / "other", bus, network)
    with pytest.raises(SnapshotError, match="the index is larger than 1 bytes"):
        filled.read_file(network, "leaves.json", 1, "the index")

    def end() -> None:
        raise SnapshotError("the node stops")

    [stopping] = bus_locations(bus, network, go_on)
    with pytest.raises(SnapshotError, match="the node stops"):
        list(replace(stopping, check=end).read_archive(network, "leaves.json"))


def test_the_two_newest_stay_and_share_their_parts(own: BusLocation, network: Network, source: Path) -> None:
    made = [create_leaves_at(source, own) for _ in range(4)]
    left = own.read_leaf_index(network).snapshots
    assert left == (made[3], made[2])
    lists = [list_of(own, network, snapshot) for snapshot in left]
    assert names_of(own, network) == {facts.sha256 for each in lists for facts in each}
    names = {snapshot.list_name for snapshot in left}
    for gone in {snapshot.list_name for snapshot in made} - names:
        assert own.read_file(network, gone, 1 << 20, "the list") is None
    shared = {facts.sha256 for facts in lists[0]} & {facts.sha256 for facts in lists[1]}
    assert len(shared) >= len(list(lists[0])) - 3  # an opened database has another manifest and log


def test_what_a_broken_off_upload_has_left_goes(own: BusLocation, network: Network, source: Path) -> None:
    own.write_archive(network, f"parts/{'0' * 64}", [b"of an upload that was killed"])
    create_leaves_at(source, own)
    assert "0" * 64 not in names_of(own, network)


def test_a_snapshot_that_does_not_fit_is_refused_before_anything_is_sent(
    bus: Bus, network: Network, source: Path
) -> None:
    small = BusLocation.to_fill(bus, network, 256 << 10)
    with pytest.raises(SnapshotError, match=r"[0-9]+ MiB more must be free on the bus \(--bus-leaves-mb\)"):
        create_leaves_at(source, small)
    assert stored(bus, network) == []


# ---- going on --------------------------------------------------------------------------------------


def test_parts_that_are_there_are_not_fetched_again(
    bus: Bus, filled: BusLocation, network: Network, tmp_path: Path
) -> None:
    """Where the bus has lost them meanwhile, nobody notices."""

    class Killed(BaseException):
        pass

    def kill(what: str, done: int, total: int) -> None:
        if done > total // 2:
            raise Killed

    [location] = bus_locations(bus, network, go_on)
    [snapshot] = find_leaf_snapshots(location, network)
    directory = tmp_path / "new"
    directory.mkdir()
    with pytest.raises(Killed):
        restore_leaves(directory, location, network, snapshot, confirm=unconfirmed, on_progress=kill)
    assert is_begun(directory, network, snapshot)
    there = list((directory / PART_FOLDER / "parts").iterdir())
    assert there
    for file in there:
        filled.remove(network, f"parts/{file.name}")
    restore(directory, bus, network)
    require_whole(directory)


def test_a_bus_that_is_lost_in_the_middle_is_waited_for(
    server: NatsServer, bus: Bus, filled: BusLocation, network: Network, tmp_path: Path
) -> None:
    is_lost, back = threading.Event(), threading.Timer(0.5, server.start)

    def lose(what: str, done: int, total: int) -> None:
        if done > total // 2 and not is_lost.is_set():
            is_lost.set()
            server.stop(signal.SIGKILL)
            back.start()

    [location] = bus_locations(bus, network, go_on)
    [snapshot] = find_leaf_snapshots(location, network)
    (tmp_path / "new").mkdir()
    restore_leaves(tmp_path / "new", location, network, snapshot, confirm=unconfirmed, on_progress=lose)
    back.join()
    assert is_lost.is_set()
    require_whole(tmp_path / "new")


# ---- what is refused -------------------------------------------------------------------------------


def test_one_flipped_bit_in_any_piece_is_found(bus: Bus, filled: BusLocation, network: Network, tmp_path: Path) -> None:
    generator = random.Random(41)
    pieces = [message for message in stored(bus, network) if message.data]
    assert len(pieces) > 5
    for message in pieces:
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        bit = generator.randrange(8 * len(message.data))
        wrong = bytearray(message.data)
        wrong[bit // 8] ^= 1 << bit % 8
        bus.publish(Outgoing(message.subject, bytes(wrong)))
        if "leaves.json" in message.subject:
            assert not is_read_as_before(filled, network, message.data)
        else:
            with pytest.raises(SnapshotError, match="its SHA-256 is"):
                restore(tmp_path / "new", bus, network)
        bus.publish(Outgoing(message.subject, message.data))
    restore(tmp_path / "new", bus, network)
    require_whole(tmp_path / "new")


def is_read_as_before(location: BusLocation, network: Network, text: bytes) -> bool:
    try:
        return location.read_leaf_index(network).snapshots == LeafIndex.from_bytes(text, network).snapshots
    except SnapshotError:
        return False


def test_leaves_of_another_state_are_refused_however_well_they_are_packed(
    bus: Bus, filled: BusLocation, network: Network, tmp_path: Path
) -> None:
    [snapshot] = filled.read_leaf_index(network).snapshots
    parts = list_of(filled, network, snapshot)
    rows = bytearray(b"".join(filled.read_archive(network, part_name(parts.leaves[0][0]))))
    rows[-1] ^= 1
    other = facts_of(bytes(rows))
    filled.write_archive(network, part_name(other), [bytes(rows)])
    text = PartList(parts.files, ((other,), *parts.leaves[1:])).to_bytes()
    filled.write_file(network, snapshot.list_name, text)
    with pytest.raises(SnapshotError, match=r"list|SHA-256"):
        restore(tmp_path / "new", bus, network)
    filled.write_index(LeafIndex(network, (replace(snapshot, parts=facts_of(text)),)))
    with pytest.raises(SnapshotError, match="the nullifier tree: "):
        restore(tmp_path / "new", bus, network)


def test_a_start_goes_on_without_what_a_liar_has(
    server: NatsServer,
    bus: Bus,
    filled: BusLocation,
    network: Network,
    source: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its snapshot says that it is newer, so it is tried first."""
    liar = open_bus(server.url, name="liar")
    false = BusLocation.to_fill(liar, network, ROOM)
    snapshot = create_leaves_at(source, false)
    false.write_index(LeafIndex(network, (replace(snapshot, l1_block_number=snapshot.l1_block_number + 1),)))
    assert start_from_snapshot(
        "snapshot",
        [],
        tmp_path / "new",
        learn_network=lambda: network,
        form="leaves",
        confirm_leaves=lambda contents: None,
        others_of_leaves=lambda network, check: bus_locations(bus, network, check),
    )
    [refused] = [record.facts["reason"] for record in caplog.records if record.msg == "a snapshot cannot be used"]  # type: ignore[attr-defined]
    assert refused.startswith("bus://liar: the snapshot of leaves of block 16: its newest block is ")
    require_whole(tmp_path / "new")
    liar.close()


def test_what_nobody_offers_is_no_warning(
    bus: Bus, network: Network, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert not start_from_snapshot(
        "snapshot",
        [],
        tmp_path / "new",
        learn_network=lambda: network,
        form="leaves",
        confirm_leaves=lambda contents: None,
        others_of_leaves=lambda network, check: bus_locations(bus, network, check),
    )
    assert caplog.text == ""
