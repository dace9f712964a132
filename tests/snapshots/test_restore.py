"""Restoring: what is found, what is refused, and that the old data stays until the new is verified."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tarfile
from pathlib import Path

import pytest
from tests.snapshots.forged import archive, forge_index, network_folder, rewrite_index

from fastnode.archiver import layout as archiver
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import SnapshotError
from fastnode.snapshots import restore as restoring
from fastnode.snapshots import verification
from fastnode.snapshots.index import KEYS, Index, Network, can_read
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, download, find_snapshots, restore_snapshot
from fastnode.snapshots.stored_chain import stored_chain
from fastnode.storage.database import ROOM_BYTES
from fastnode.world_state import layout as world_state

#: Newest block of the directory that a snapshot replaces.
OLD_TIP = 3


def newest_block(directory: Path) -> int:
    """After a check that everything is right."""
    with ChainData.open(directory, create=False) as data:
        report = check_data(data)
        assert report.problems == []
        assert report.notes == []
        return report.blocks


def restore(directory: Path, folder: Path) -> None:
    location = Location.to_read(f"file://{folder}")
    network = choose_network(location)
    restore_snapshot(directory, location, network, find_snapshots(location, network)[0])


def test_a_disk_without_room_is_told_before_anything_is_fetched(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.storage.database.free_bytes", lambda path: ROOM_BYTES + 1000)
    target = tmp_path / "new"
    target.mkdir()
    with pytest.raises(SnapshotError, match=f"MiB more must be free on the disk of {target}"):
        restore(target, snapshot)
    assert list(target.iterdir()) == []


# ---- what works ------------------------------------------------------------------------------------


def test_an_empty_directory_becomes_what_the_snapshot_was_made_of(snapshot: Path, tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.mkdir()
    restore(target, snapshot)
    assert newest_block(target) == 16
    assert sorted(entry.name for entry in target.iterdir()) == ["archiver", "fastnode.lock", "world_state"]


def test_an_old_chain_and_what_belongs_to_it_give_way(snapshot: Path, old: Path) -> None:
    for database in ("p2p", "offenses"):
        (old / database).mkdir()
        (old / database / "CURRENT").touch()
    for mark in ("tag_filter", "sample-chain", "sample-chain.unfinished"):
        (old / mark).touch()
    (old / "admin").mkdir()
    restore(old, snapshot)
    assert newest_block(old) == 16
    assert sorted(entry.name for entry in old.iterdir()) == ["admin", "archiver", "fastnode.lock", "world_state"]


def test_a_snapshot_may_be_moved_to_another_place(snapshot: Path, tmp_path: Path) -> None:
    elsewhere = shutil.move(snapshot, tmp_path / "elsewhere")
    target = tmp_path / "new"
    target.mkdir()
    restore(target, elsewhere)
    assert newest_block(target) == 16


def test_a_location_may_name_the_folder_of_one_network(snapshot: Path) -> None:
    folder = network_folder(snapshot)
    location = Location.to_read(f"file://{folder}")
    assert choose_network(location).folder == folder.name
    assert len(find_snapshots(location, choose_network(location))) == 1


def test_what_a_directory_holds_is_known_without_opening_the_node(old: Path, tmp_path: Path) -> None:
    stored = stored_chain(old)
    assert stored is not None
    assert stored.block_number == OLD_TIP
    assert stored.l1_block_number > 0
    (tmp_path / "empty").mkdir()
    assert stored_chain(tmp_path / "empty") is None


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("seed", range(6))
def test_one_flipped_bit_in_an_archive_is_found(snapshot: Path, old: Path, key: str, seed: int) -> None:
    file = archive(snapshot, key)
    content = bytearray(file.read_bytes())
    position = random.Random(seed).randrange(len(content))
    content[position] ^= 1 << seed
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match=rf"{key}-.*(SHA-256|longer|bytes|archive|does not belong|twice)"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP
    assert not (old / "restore.part").exists()


def test_every_flipped_bit_in_the_index_is_found_or_changes_nothing(snapshot: Path) -> None:
    file = network_folder(snapshot) / "index.json"
    text = file.read_bytes()
    network = Network.of_folder(network_folder(snapshot).name)
    assert network is not None
    whole = Index.from_bytes(text, network)
    harmless = 0
    for position in range(len(text)):
        spoilt = bytearray(text)
        spoilt[position] ^= 1 << position % 8
        try:
            assert Index.from_bytes(bytes(spoilt), network) == whole
            harmless += 1
        except SnapshotError:
            pass
    # A blank between two tokens may become another.
    assert harmless < text.count(b" ") + text.count(b"\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "bytes, the index says"),
        (lambda content: content[: len(content) // 2], "bytes, the index says"),
        (lambda content: b"", "has 0 bytes, the index says"),
        (lambda content: content + b"\0", "it is longer than"),
    ],
)
def test_an_archive_of_another_length_is_found(snapshot: Path, old: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    file = archive(snapshot, "world-state")
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(SnapshotError, match=message):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_an_archive_that_is_missing_is_named(snapshot: Path, old: Path) -> None:
    archive(snapshot, "archiver").unlink()
    with pytest.raises(SnapshotError, match=r"lacks the file archiver-\d{14}-0x"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_databases_that_are_wrong_are_refused_however_well_they_are_packed(
    snapshot: Path, old: Path, tmp_path: Path, short_directory: Path
) -> None:
    """The archives, checksums and index are in order; the state is that of another block."""
    from fastnode.snapshots.archive import ArchiveWriter

    writer = ArchiveWriter(short_directory / "world_state")
    for name in ("LOCK", "LOG", "LOG.old", "fastnode.seal", "fastnode.written"):
        (short_directory / "world_state" / name).unlink(missing_ok=True)
    archive(snapshot, "world-state").write_bytes(b"".join(writer))
    rewrite_index(snapshot, {"world-state": writer.facts})
    with pytest.raises(SnapshotError, match=f"state trees are at block {OLD_TIP}"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


@pytest.mark.parametrize("key", KEYS)
def test_a_value_changed_inside_a_database_is_refused(snapshot: Path, old: Path, tmp_path: Path, key: str) -> None:
    import plyvel

    from fastnode.snapshots.archive import ArchiveWriter
    from fastnode.storage.leveldb_copy import settle_copy

    unpacked = tmp_path / "unpacked"
    with tarfile.open(archive(snapshot, key)) as packed:
        packed.extractall(unpacked, filter="data")
    database = plyvel.DB(str(unpacked))
    for name, value in list(database):
        if len(value) >= 32 and name[:1] not in (b"C", b"G", b"M"):  # the chain's name and genesis are no secret
            database.put(name, value[:12] + bytes([value[12] ^ 1]) + value[13:])
    database.close()
    settle_copy(unpacked)
    writer = ArchiveWriter(unpacked)
    archive(snapshot, key).write_bytes(b"".join(writer))
    rewrite_index(snapshot, {key: writer.facts})
    with pytest.raises(SnapshotError, match=r"databases (are wrong|cannot be used)"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_a_table_with_a_forged_footer_ends_no_node(snapshot: Path, old: Path, tmp_path: Path) -> None:
    """LevelDB takes as much memory as the footer says that the index has."""
    from fastnode.snapshots.archive import ArchiveWriter

    unpacked = tmp_path / "unpacked"
    with tarfile.open(archive(snapshot, "world-state")) as packed:
        packed.extractall(unpacked, filter="data")
    table = max(unpacked.glob("*.ldb"), key=lambda file: file.stat().st_size)
    content = bytearray(table.read_bytes())
    content[-48:-8] = b"\0\0\0" + b"\xff" * 8 + b"\x3f" + bytes(28)
    table.write_bytes(content)
    writer = ArchiveWriter(unpacked)
    archive(snapshot, "world-state").write_bytes(b"".join(writer))
    rewrite_index(snapshot, {"world-state": writer.facts})
    with pytest.raises(SnapshotError, match=f"databases are wrong: the table world_state/{table.name}: "):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_what_ends_the_process_that_verifies_is_a_refusal(
    snapshot: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(SnapshotError, match="what read them ended with exit status 1"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


@pytest.mark.parametrize("seed", range(3))
def test_a_small_archive_does_not_keep_its_verification_busy(
    snapshot: Path, old: Path, tmp_path: Path, seed: int
) -> None:
    """A table whose index leads to one block again and again, with right checksums everywhere."""
    dice = random.Random(seed)
    repeated = dice.randint(2, 200_000)
    forge_index(snapshot, dice.choice(KEYS), tmp_path / "unpacked", lambda blocks: [dice.choice(blocks)] * repeated)
    with pytest.raises(SnapshotError, match=r"databases are wrong: .* begins before the end of the one before it"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_a_verification_has_a_limit_of_processor_time(
    snapshot: Path, old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = tmp_path / "endless"
    program = (
        "from fastnode.snapshots import verification as v; v._verify = lambda *_: all(iter(lambda: 1, 0)); v._main()"
    )
    endless.write_text(f'#!/bin/sh\nexec {sys.executable} -c \'{program}\' "$4" "$5"\n')
    endless.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(endless))
    monkeypatch.setattr(verification, "TIME_S_MIN", 1)
    monkeypatch.setattr(verification, "BYTES_PER_S", 1 << 40)
    with pytest.raises(SnapshotError, match="to read them takes more than 1 s of a processor"):
        restore(old, snapshot)
    assert newest_block(old) == OLD_TIP


def test_a_snapshot_of_another_network_is_refused_before_anything_is_fetched(
    snapshot: Path, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Network(1, 2, "0x" + "ab" * 20)
    network_folder(snapshot).rename(snapshot / other.folder)
    monkeypatch.setattr(restoring, "download", lambda *_: pytest.fail("something was fetched"))
    with pytest.raises(SnapshotError, match=r"another network \(l1ChainId 31337, .*\) than wanted \(l1ChainId 1, "):
        restore(old, snapshot)


def test_a_snapshot_that_lies_about_its_network_is_refused(snapshot: Path, tmp_path: Path) -> None:
    network = Network.of_folder(network_folder(snapshot).name)
    assert network is not None
    other = Network(network.l1_chain_id, network.rollup_version + 1, network.rollup_address)
    [item] = Index.from_bytes((network_folder(snapshot) / "index.json").read_bytes(), network).snapshots
    network_folder(snapshot).rename(snapshot / other.folder)
    (snapshot / other.folder / "index.json").write_bytes(Index(other, (item,)).to_bytes())
    with pytest.raises(SnapshotError, match=f"it is of the network {network.folder}, not of {other.folder}"):
        download(tmp_path / "part", Location.to_read(f"file://{snapshot}"), other, item)


def test_a_snapshot_of_another_schema_is_not_offered(snapshot: Path) -> None:
    from dataclasses import replace

    location = Location.to_read(f"file://{snapshot}")
    network = choose_network(location)
    index = location.read_index(network)
    [item] = index.snapshots
    newer = replace(item, schemas=item.schemas | {"worldState": item.schemas["worldState"] + 1})
    Location.to_write(f"file://{snapshot}").write_index(index.with_snapshot(newer))
    assert len(location.read_index(network).snapshots) == 2
    assert find_snapshots(location, network) == [item]


@pytest.mark.parametrize(
    ("schemas", "is_read"),
    [
        ({"archiver": 3, "worldState": 2}, True),
        ({"archiver": 1, "worldState": 2}, True),
        ({"archiver": 4, "worldState": 2}, False),
        ({"archiver": 0, "worldState": 2}, False),
        ({"archiver": 3}, False),
        ({"archiver": 3, "worldState": 2, "more": 1}, False),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_snapshots_of_older_schemas_are_read_too(schemas: dict[str, int], is_read: bool) -> None:
    assert can_read(schemas, {"archiver": 3, "worldState": 2}) is is_read


@pytest.mark.parametrize("text", ["", "{", "[]", '{"l1ChainId": 31337}', "\0\1\2"])
def test_an_index_that_is_none_is_refused(snapshot: Path, text: str) -> None:
    (network_folder(snapshot) / "index.json").write_text(text)
    with pytest.raises(SnapshotError, match="the index is damaged"):
        Location.to_read(f"file://{snapshot}").read_index(Network.of_folder(network_folder(snapshot).name))  # type: ignore[arg-type]


def test_several_networks_must_be_told_apart(snapshot: Path, tmp_path: Path) -> None:
    (snapshot / Network(1, 2, "0x" + "ab" * 20).folder).mkdir()
    (snapshot / Network(1, 2, "0x" + "ab" * 20).folder / "index.json").write_text("{}")
    (snapshot / "fastnode-of-something-else").mkdir()
    with pytest.raises(SnapshotError, match=r"several networks, name one: fastnode-1-2-0xab.*, fastnode-31337-"):
        choose_network(Location.to_read(f"file://{snapshot}"))
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SnapshotError, match="has no snapshots"):
        choose_network(Location.to_read(f"file://{tmp_path}/nothing"))


def test_the_index_is_readable_by_people_and_by_other_programs(made_snapshot: Path) -> None:
    index = json.loads((network_folder(made_snapshot) / "index.json").read_text())
    [item] = index["snapshots"]
    assert list(index) == ["l1ChainId", "rollupVersion", "rollupAddress", "snapshots"]
    assert item["l2BlockNumber"] == 16
    assert item["schemaVersions"] == {"archiver": archiver.SCHEMA_VERSION, "worldState": world_state.SCHEMA_VERSION}
    for key in KEYS:
        file = archive(made_snapshot, key)
        assert item["dataUrls"][key] == file.as_uri()
        assert item["files"][key]["bytes"] == file.stat().st_size
