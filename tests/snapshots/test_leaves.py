"""Snapshots of leaves: what they bring, what is used again, and that nothing of them is believed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.snapshots.conftest import create_leaves

from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import DatabaseError, SnapshotError, SnapshotUnconfirmed
from fastnode.snapshots import leaf_restore
from fastnode.snapshots.archive import ArchiveFacts
from fastnode.snapshots.contents import Contents
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_create import leaves_to_ship
from fastnode.snapshots.leaf_index import LeafIndex, LeafSnapshot, PartList, facts_of
from fastnode.snapshots.leaf_restore import download_leaves, find_leaf_snapshots, restore_leaves, unconfirmed
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import Confirm, choose_network, ignore_progress
from fastnode.snapshots.startup import start_from_snapshot
from fastnode.storage.replacement import PART_FOLDER, finish_replacement

DAMAGES = 200 if os.environ.get("FASTNODE_LONG") == "1" else 12
SEED = int(os.environ.get("FASTNODE_SEED", "41"))
NEWEST = 16
DAY_S = 86_400.0


def location_of(folder: Path) -> tuple[Location, Network, LeafSnapshot]:
    location = Location.to_read(f"file://{folder}")
    network = choose_network(location)
    return location, network, find_leaf_snapshots(location, network)[0]


def restore(directory: Path, folder: Path, confirm: Callable[[Contents], None] = unconfirmed) -> None:
    directory.mkdir(exist_ok=True)
    restore_leaves(directory, *location_of(folder), confirm=confirm)


def fetch(target: Path, folder: Path, on_progress: Callable[[str, int, int], None] = ignore_progress) -> None:
    """Refused before a process of its own looks at it."""
    target.parent.mkdir(exist_ok=True)
    download_leaves(target, *location_of(folder), on_progress=on_progress)


def network_folder(folder: Path) -> Path:
    [found] = folder.iterdir()
    return found


def parts_of(folder: Path) -> list[Path]:
    return sorted((network_folder(folder) / "parts").iterdir())


def list_of(folder: Path) -> PartList:
    [file] = network_folder(folder).glob("leaves-*.json")
    return PartList.from_bytes(file.read_bytes())


def rewrite(folder: Path, text: bytes, **facts: Any) -> None:
    """A list and an index with right checksums for other parts."""
    network = Network.of_folder(network_folder(folder).name)
    assert network is not None
    file = network_folder(folder) / "leaves.json"
    snapshot = LeafIndex.from_bytes(file.read_bytes(), network).snapshots[0]
    (network_folder(folder) / snapshot.list_name).write_bytes(text)
    file.write_bytes(LeafIndex(network, (replace(snapshot, **{"parts": facts_of(text), **facts}),)).to_bytes())


def put(folder: Path, content: bytes) -> ArchiveFacts:
    facts = facts_of(content)
    (network_folder(folder) / "parts" / facts.sha256).write_bytes(content)
    return facts


def require_whole(directory: Path) -> None:
    with ChainData.open(directory, create=False) as data:
        report = check_data(data)
        assert (report.problems, report.notes, report.blocks) == ([], [], NEWEST)


# ---- what works ------------------------------------------------------------------------------------


def test_an_empty_directory_gets_the_chain_and_the_state_of_one_block(leaves: Path, tmp_path: Path) -> None:
    seen: list[Contents] = []
    restore(tmp_path / "new", leaves, seen.append)
    require_whole(tmp_path / "new")
    assert sorted(entry.name for entry in (tmp_path / "new").iterdir()) == ["archiver", "fastnode.lock", "world_state"]
    assert (seen[0].oldest_block_number, seen[0].checkpoint_number) == (NEWEST, 8)
    with ChainData.open(tmp_path / "new", create=False) as data:
        assert data.state.view.oldest == NEWEST
        with pytest.raises(DatabaseError, match=f"keeps history from block {NEWEST} on"):
            data.state.undo_above(NEWEST - 1)


def test_blocks_after_a_final_one_are_caught_up_and_can_be_undone(
    long_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = Path(shutil.copytree(long_directory, tmp_path / "data"))
    with ChainData.open(directory, create=False) as data:
        ingestor = data.open_ingestor(verify=False)
        tips = data.store.open_view().tips
        final = data.store.open_view().tip_of_checkpoint(5)
        ingestor.set_tips(replace(tips, proven=final, finalized=final))
    snapshot = create_leaves(directory, tmp_path / "location")
    assert (snapshot.state_block_number, snapshot.l2_block_number) == (final.block.number, NEWEST)
    restore(tmp_path / "new", tmp_path / "location")
    require_whole(tmp_path / "new")
    with ChainData.open(tmp_path / "new", create=False) as data:
        assert (data.state.view.oldest, data.state.block_number) == (final.block.number, NEWEST)
        data.state.undo_above(final.block.number)
        assert data.state.check() == []
        with pytest.raises(DatabaseError, match=f"keeps history from block {final.block.number} on"):
            data.state.undo_above(final.block.number - 1)


def test_a_snapshot_made_again_uses_the_parts_that_are_there(made_leaves: Path, leaves: Path) -> None:
    before = {part.name: part.stat().st_mtime_ns for part in parts_of(leaves)}
    create_leaves(made_leaves.parent / "data", leaves)
    after = {part.name: part.stat().st_mtime_ns for part in parts_of(leaves)}
    assert before.items() <= after.items()
    # An opened database has another manifest.
    assert sum((network_folder(leaves) / "parts" / name).stat().st_size for name in after.keys() - before) < 1000
    location, network, _ = location_of(leaves)
    assert len(find_leaf_snapshots(location, network)) == 2


def test_parts_that_no_snapshot_has_go_a_day_later(made_leaves: Path, leaves: Path) -> None:
    left = network_folder(leaves) / "parts" / ("0" * 64)
    left.write_bytes(b"of an upload that was killed")
    create_leaves(made_leaves.parent / "data", leaves)
    assert left.exists()
    for part in parts_of(leaves):
        os.utime(part, (time.time() - 2 * DAY_S,) * 2)
    create_leaves(made_leaves.parent / "data", leaves)
    assert not left.exists()
    lists = [PartList.from_bytes(file.read_bytes()) for file in network_folder(leaves).glob("leaves-*.json")]
    assert {facts.sha256 for each in lists for facts in each} == {part.name for part in parts_of(leaves)}


def test_a_chain_without_a_checkpoint_has_no_leaves_to_ship(tmp_path: Path, sample_chain: Path) -> None:
    from tests.snapshots.conftest import import_checkpoints

    directory = import_checkpoints(sample_chain, 0, tmp_path / "data")
    with (
        ChainData.open(directory, create=False) as data,
        pytest.raises(SnapshotError, match="has no whole checkpoint yet"),
    ):
        leaves_to_ship(data.store, data.state)


# ---- going on --------------------------------------------------------------------------------------


def test_parts_that_were_fetched_are_not_fetched_again(leaves: Path, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(what: str, done: int, total: int) -> None:
        if done:
            raise Killed

    directory = tmp_path / "new"
    with pytest.raises(Killed):
        fetch(directory / PART_FOLDER, leaves, kill)
    finish_replacement(directory, keeps_part=True)
    there = {file.name for file in (directory / PART_FOLDER / "parts").iterdir()}
    assert there
    for name in there:
        (network_folder(leaves) / "parts" / name).unlink()
    restore(directory, leaves)
    require_whole(directory)


def test_a_part_that_was_damaged_on_the_way_home_is_fetched_again(leaves: Path, tmp_path: Path) -> None:
    directory = tmp_path / "new"

    def stop(what: str, done: int, total: int) -> None:
        if what == "verifying":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(directory / PART_FOLDER, leaves, stop)
    for file in (directory / PART_FOLDER / "parts").iterdir():
        file.write_bytes(bytes(file.stat().st_size))
    (directory / PART_FOLDER / "archiver" / "000099.ldb").write_bytes(b"of the process that was killed")
    restore(directory, leaves)
    require_whole(directory)


def test_another_snapshot_does_not_use_what_one_has_left(leaves: Path, tmp_path: Path) -> None:
    part = tmp_path / "new" / PART_FOLDER
    (part / "world_state").mkdir(parents=True)
    (part / "world_state" / "CURRENT").write_bytes(b"something else")
    (part / "leaves.json").write_bytes(b"{}")
    restore(tmp_path / "new", leaves)
    require_whole(tmp_path / "new")


# ---- what is refused -------------------------------------------------------------------------------


def test_one_flipped_bit_in_any_part_is_found(leaves: Path, tmp_path: Path) -> None:
    generator = random.Random(41)
    for part in parts_of(leaves):
        whole = part.read_bytes()
        for _ in range(3 if whole else 0):
            bit = generator.randrange(8 * len(whole))
            part.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
            shutil.rmtree(tmp_path / "new", ignore_errors=True)
            with pytest.raises(SnapshotError, match=f"parts/{part.name}: its SHA-256 is another one"):
                fetch(tmp_path / "new" / "part", leaves)
        part.write_bytes(whole)


def test_one_flipped_bit_in_the_index_or_the_list_is_found(leaves: Path, tmp_path: Path) -> None:
    generator = random.Random(7)
    for file in network_folder(leaves).glob("*.json"):
        whole = file.read_bytes()
        for _ in range(40):
            bit = generator.randrange(8 * len(whole))
            file.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
            try:
                found = find_leaf_snapshots(*location_of(leaves)[:2])
            except (SnapshotError, IndexError):
                continue
            if file.name == "leaves.json" and found == find_leaf_snapshots(*location_of(leaves)[:2]):
                continue  # a blank more or less
            with pytest.raises(SnapshotError):
                fetch(tmp_path / "new" / "part", leaves)
        file.write_bytes(whole)


def damage(folder: Path, dice: random.Random) -> str:
    """Change a file of a location, or let two parts take each other's place; says what was done."""
    files = [file for file in sorted(network_folder(folder).rglob("*")) if file.is_file() and file.stat().st_size]
    file, kind = dice.choice(files), dice.choice(["flipped", "cut", "zeros", "gone", "swapped"])
    content = bytearray(file.read_bytes())
    place = dice.randrange(len(content))
    if kind == "gone":
        file.unlink()
    elif kind == "swapped":
        other = dice.choice([one for one in files if one != file])
        file.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        if kind == "flipped":
            content[place] ^= 1 << dice.randrange(8)
        elif kind == "cut":
            del content[place:]
        else:
            content[place : place + 4096] = bytes(len(content[place : place + 4096]))
        file.write_bytes(content)
    return f"{file.name} {kind}"


def test_whatever_is_damaged_in_a_location_is_refused_or_makes_no_difference(leaves: Path, tmp_path: Path) -> None:
    def fetched() -> dict[str, bytes]:
        target = tmp_path / "new" / "part"
        shutil.rmtree(target.parent, ignore_errors=True)
        fetch(target, leaves)
        return {str(file.relative_to(target)): file.read_bytes() for file in target.rglob("*") if file.is_file()}

    expected, whole = fetched(), tmp_path / "whole"
    shutil.copytree(leaves, whole)
    refused: list[tuple[str, str]] = []
    for number in range(DAMAGES):
        shutil.rmtree(leaves)
        shutil.copytree(whole, leaves)
        what = damage(leaves, random.Random(f"{SEED} {number}"))
        try:
            assert fetched() == expected, what
        except SnapshotError as error:
            refused.append((what, str(error)))
        except IndexError:  # nothing is offered
            refused.append((what, str(leaves)))
    assert len(refused) > DAMAGES // 4
    assert [what for what, text in refused if str(leaves) not in text] == []


@pytest.mark.parametrize("change", [lambda part: part + b"\0", lambda part: part[:-1], lambda part: b""])
def test_a_part_of_another_length_is_found(leaves: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    part = max(parts_of(leaves), key=lambda file: file.stat().st_size)
    part.write_bytes(change(part.read_bytes()))
    with pytest.raises(SnapshotError, match=f"parts/{part.name}: it (is longer than|has [0-9]+ bytes)"):
        fetch(tmp_path / "new" / "part", leaves)


def test_a_part_that_is_missing_is_named(leaves: Path, tmp_path: Path) -> None:
    part = parts_of(leaves)[0]
    part.unlink()
    with pytest.raises(SnapshotError, match=f"lacks the file parts/{part.name}"):
        fetch(tmp_path / "new" / "part", leaves)


@pytest.mark.parametrize(("tree", "name"), [(0, "nullifier tree"), (2, "public data tree")])
def test_other_leaves_are_refused_by_their_tree_however_well_they_are_packed(
    leaves: Path, tmp_path: Path, tree: int, name: str
) -> None:
    parts = list_of(leaves)
    rows = bytearray((network_folder(leaves) / "parts" / parts.leaves[tree][0].sha256).read_bytes())
    rows[-1] ^= 1
    changed = [list(each) for each in parts.leaves]
    changed[tree] = [put(leaves, bytes(rows))]
    rewrite(leaves, PartList(parts.files, changed).to_bytes())
    with pytest.raises(SnapshotError, match=f"the {name}: "):
        restore(tmp_path / "new", leaves)
    assert list((tmp_path / "new").iterdir()) == []


def test_what_nobody_confirms_is_refused_and_the_old_chain_stays(leaves: Path, old: Path) -> None:
    def contradict(contents: Contents) -> None:
        raise SnapshotError("its newest checkpoint is not the one on L1")

    with pytest.raises(SnapshotError, match="leaves of block 16: its newest checkpoint is not the one on L1"):
        restore(old, leaves, contradict)
    with ChainData.open(old, create=False) as data:
        assert check_data(data).problems == []
        assert data.state.block_number == 3


def test_a_start_waits_with_what_it_has_fetched_while_nobody_answers(
    leaves: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaf_restore, "_FIRST_PAUSE_S", 0.01)
    asked = 0

    def confirm(contents: Contents) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:  # fetched again it would not be found
            shutil.rmtree(network_folder(leaves) / "parts")
        if asked < 4:
            raise SnapshotUnconfirmed("L1 does not say whether it is true: it is silent")

    urls = [f"file://{leaves}"]
    assert start_from_snapshot(
        "snapshot", urls, tmp_path / "new", learn_network=lambda: None, form="leaves", confirm_leaves=confirm
    )
    assert asked == 4
    assert caplog.text.count("snapshot not confirmed yet: the download is kept") == 3
    require_whole(tmp_path / "new")


def test_a_start_that_ends_while_nobody_answers_goes_on_the_next_time(leaves: Path, tmp_path: Path) -> None:
    is_stopped = False

    def silent(contents: Contents) -> None:
        nonlocal is_stopped
        is_stopped = True
        raise SnapshotUnconfirmed("no followed node says whether it is true")

    def start(confirm: Confirm, has_ended: Callable[[], bool]) -> bool:
        return start_from_snapshot(
            "snapshot",
            [f"file://{leaves}"],
            tmp_path / "new",
            learn_network=lambda: None,
            form="leaves",
            confirm_leaves=confirm,
            is_stopped=has_ended,
        )

    assert not start(silent, lambda: is_stopped)
    for facts in chain.from_iterable(list_of(leaves).leaves):  # fetched again they would not be found
        (network_folder(leaves) / "parts" / facts.sha256).unlink()
    assert start(lambda contents: None, lambda: False)
    require_whole(tmp_path / "new")


def test_a_start_leaves_them_alone_while_nobody_confirms_them(
    leaves: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    urls = [f"file://{leaves}"]
    assert not start_from_snapshot("snapshot", urls, tmp_path / "new", learn_network=lambda: None, form="leaves")
    assert "neither L1 (--l1-rpc-urls) nor a followed node (--upstream-url) is there to confirm them" in caplog.text


# ---- hostile lists ---------------------------------------------------------------------------------

SHA: str = hashlib.sha256(b"").hexdigest()


def hostile(**changes: Any) -> dict[str, Any]:
    return {"archiver": [{"name": "CURRENT", "bytes": 5, "sha256": SHA}], "trees": [[], [], [], []]} | changes


@pytest.mark.parametrize(
    "value",
    [
        hostile(archiver=[{"name": "../../etc/passwd", "bytes": 5, "sha256": SHA}]),
        hostile(archiver=[{"name": "/etc/passwd", "bytes": 5, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT\n", "bytes": 5, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": 5, "sha256": "../" + SHA[3:]}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": 1 << 60, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": -1, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": 1.5, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": True, "sha256": SHA}]),
        hostile(archiver=[{"name": "CURRENT", "bytes": 5, "sha256": SHA}] * 2),
        hostile(trees=[[{"bytes": 38, "sha256": SHA}] * 2, [], [], []]),
        hostile(trees=[[{"bytes": 39, "sha256": SHA}], [], [], []]),
        hostile(trees=[[{"bytes": 38 << 40, "sha256": SHA}], [], [], []]),
        hostile(trees=[[], [], []]),
        hostile(trees=[[], [], [], [], []]),
        hostile(trees=7),
        [],
        None,
    ],
)
def test_a_hostile_list_is_refused_before_anything_is_fetched(leaves: Path, tmp_path: Path, value: Any) -> None:
    rewrite(leaves, orjson.dumps(value) if value != hostile() else b"")
    with pytest.raises(SnapshotError, match="the list of its parts has"):
        fetch(tmp_path / "new" / "part", leaves)
    assert [entry.name for entry in (tmp_path / "new" / "part").iterdir()] == ["leaves.json"]


def test_a_list_that_is_larger_than_the_index_says_is_not_taken_into_memory(leaves: Path, tmp_path: Path) -> None:
    rewrite(leaves, b" " * 5000, parts=ArchiveFacts(1000, SHA))
    with pytest.raises(SnapshotError, match="is larger than 1000 bytes"):
        fetch(tmp_path / "new" / "part", leaves)


def test_more_bytes_than_the_disk_has_are_refused_before_anything_is_fetched(leaves: Path, tmp_path: Path) -> None:
    parts = list_of(leaves)
    files = dict(parts.files) | {"000123.ldb": ArchiveFacts(1 << 49, SHA)}
    forged = PartList(files, parts.leaves)
    rewrite(leaves, forged.to_bytes(), bytes=forged.size)
    with pytest.raises(SnapshotError, match="MiB more must be free"):
        fetch(tmp_path / "new" / "part", leaves)
    assert list((tmp_path / "new" / "part" / "archiver").iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("l2BlockHash", "../" * 22),
        ("timestamp", 1 << 60),
        ("l2BlockNumber", 1 << 60),
        ("stateBlockNumber", -1),
        ("bytes", 1 << 60),
        ("list", {"bytes": 1 << 60, "sha256": SHA}),
        ("list", {"bytes": 5, "sha256": "/etc/passwd"}),
        ("list", None),
    ],
)
def test_a_hostile_index_is_refused(leaves: Path, field: str, value: Any) -> None:
    from fastnode.snapshots.index import checksum_of

    location, network, _ = location_of(leaves)
    file = network_folder(leaves) / "leaves.json"
    index = json.loads(file.read_bytes())
    [entry] = index["snapshots"]
    entry[field] = value
    del entry["checksum"]
    entry["checksum"] = checksum_of(network, entry)
    file.write_bytes(json.dumps(index).encode())
    with pytest.raises(SnapshotError, match="the index is damaged"):
        location.read_leaf_index(network)
