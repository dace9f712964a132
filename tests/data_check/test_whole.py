"""``db check`` over both databases: that the state belongs to the chain, and what a crash may leave."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mempool.made import made_txs

from fastnode.archiver.check import CheckReport
from fastnode.archiver.layout import KEY_CHAIN, KEY_GENESIS
from fastnode.chain_data import ChainData
from fastnode.data_check import check_data, look_at_data
from fastnode.errors import FastnodeError
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.store import PoolStore, entry_key, json_key
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.storage.database import KEY_BYTES_MAX, SharedDatabase, open_leveldb
from fastnode.storage.side_database import open_side_database
from fastnode.world_state.layout import BLOCK, u32

TIP = 106


@pytest.fixture
def directory(chain_directory: Path, tmp_path: Path) -> Path:
    return shutil.copytree(chain_directory, tmp_path / "data")


def check(directory: Path) -> CheckReport:
    with ChainData.open(directory, create=False) as data:
        return check_data(data)


def test_a_whole_directory_is_clean(directory: Path) -> None:
    report = check(directory)
    assert (report.problems, report.notes) == ([], [])
    assert report.blocks == TIP


def look(directory: Path) -> CheckReport:
    with ChainData.open(directory, create=False) as data:
        return look_at_data(data)


def test_a_quick_look_at_a_whole_directory_finds_nothing(directory: Path) -> None:
    report = look(directory)
    assert (report.problems, report.notes) == ([], [])
    assert report.blocks == TIP


def test_progress_ends_where_it_said_that_the_end_is(directory: Path) -> None:
    calls: list[tuple[int, int]] = []
    with ChainData.open(directory, create=False) as data:
        check_data(data, progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > 0


def test_a_state_that_is_behind_is_a_note_and_no_fault(directory: Path) -> None:
    with ChainData.open(directory) as data:
        data.open_ingestor(verify=False)
        assert data.state is not None
        data.state.undo_above(TIP - 1)
    report = check(directory)
    assert report.clean
    assert report.notes == [f"the state is at block {TIP - 1}, the chain at {TIP}; the next start brings it there"]


def test_a_state_that_is_ahead_is_a_note_and_no_fault(directory: Path, chain_directory: Path) -> None:
    """An older backup of the chain was put back."""
    with ChainData.open(directory) as data:
        data.open_ingestor(verify=False).undo_above(TIP - 3)
    shutil.rmtree(directory / "world_state")
    shutil.copytree(chain_directory / "world_state", directory / "world_state")
    report = check(directory)
    assert report.clean
    assert report.notes == [f"the state is at block {TIP}, the chain at {TIP - 3}; the next start brings it there"]
    with ChainData.open(directory) as data:
        ingestor = data.open_ingestor(verify=False)
        ingestor.catch_up()
        assert data.state is not None
        assert data.state.block_number == TIP - 3
    assert check(directory).notes == []


def test_missing_state_trees_are_a_note(directory: Path) -> None:
    shutil.rmtree(directory / "world_state")
    report = check(directory)
    assert report.clean
    assert report.notes == ["there are no state trees yet; the next start builds them from the chain"]
    assert not (directory / "world_state").exists()


@pytest.mark.parametrize("examine", [check, look], ids=["whole", "quick"])
def test_a_changed_root_of_the_state_is_found(directory: Path, examine: Callable[[Path], CheckReport]) -> None:
    with open_leveldb(directory / "world_state", create=False) as database:
        record = bytearray(database.get(BLOCK + u32(TIP)))
        record[3] ^= 1  # in the first root
        database.put(BLOCK + u32(TIP), bytes(record))
    report = examine(directory)
    assert any(problem.startswith(f"the state trees: block {TIP}: ") for problem in report.problems)


@pytest.mark.parametrize("examine", [check, look], ids=["whole", "quick"])
def test_a_state_of_another_block_is_found(directory: Path, examine: Callable[[Path], CheckReport]) -> None:
    with open_leveldb(directory / "world_state", create=False) as database:
        record = bytearray(database.get(BLOCK + u32(TIP)))
        record[-20] ^= 1  # in the block hash
        database.put(BLOCK + u32(TIP), bytes(record))
    assert any("its hash is 0x" in problem for problem in examine(directory).problems)


def test_state_trees_that_cannot_be_opened_are_a_problem(directory: Path) -> None:
    shutil.rmtree(directory / "world_state")
    (directory / "world_state").mkdir()
    (directory / "world_state" / "CURRENT").write_text("MANIFEST-000099\n")
    assert any(problem.startswith("the state trees: ") for problem in check(directory).problems)


def cut_off(table: Path) -> None:
    """What a disk that lost the end of a file leaves."""
    table.write_bytes(table.read_bytes()[:100])


def overwrite(table: Path) -> None:
    """The content is gone; footer and index, at the end, are as they were."""
    data = bytearray(table.read_bytes())
    data[: len(data) * 9 // 10] = b"\xff" * (len(data) * 9 // 10)
    table.write_bytes(data)


def damage(database: Path, how: Callable[[Path], None]) -> None:
    with open_leveldb(database, create=False) as opened:
        opened.compact_range(start=b"\0", stop=b"\xff" * KEY_BYTES_MAX)
    tables = list(database.glob("*.ldb"))
    assert tables
    for table in tables:
        how(table)


@pytest.mark.parametrize("examine", [check, look], ids=["whole", "quick"])
@pytest.mark.parametrize("how", [cut_off, overwrite])
def test_damaged_files_of_the_state_are_a_problem_that_says_what_to_do(
    directory: Path, how: Callable[[Path], None], examine: Callable[[Path], CheckReport]
) -> None:
    damage(directory / "world_state", how)
    (problem,) = examine(directory).problems
    assert problem.startswith("the state trees: ")
    assert problem.endswith("remove the folder, and the next start rebuilds it from the chain")


@pytest.mark.parametrize("how", [cut_off, overwrite])
def test_a_chain_whose_files_are_damaged_is_named_before_anything_is_read_from_it(
    directory: Path, how: Callable[[Path], None]
) -> None:
    damage(directory / "archiver", how)
    with pytest.raises(FastnodeError, match=rf"{directory}/archiver.* damaged.*restore it, or remove it"):
        check(directory)


@pytest.mark.parametrize("seed", range(8))
def test_a_quick_look_sees_a_flipped_bit_of_any_table(directory: Path, seed: int) -> None:
    """Wherever it is: a table is named, or what LevelDB says of it."""
    chance = random.Random(seed)
    database = directory / chance.choice(["archiver", "world_state"])
    with open_leveldb(database, create=False) as opened:
        opened.compact_range(start=b"\0", stop=b"\xff" * KEY_BYTES_MAX)
    table = chance.choice(sorted(database.glob("*.ldb")))
    content = bytearray(table.read_bytes())
    content[chance.randrange(len(content) - 48)] ^= 1 << chance.randrange(8)  # its footer has bytes without a meaning
    table.write_bytes(content)
    try:
        problems = look(directory).problems
    except FastnodeError as error:
        problems = [str(error)]
    assert problems


def test_a_genesis_that_cannot_be_read_is_damage_and_no_bug(directory: Path) -> None:
    with open_leveldb(directory / "archiver", create=False) as database:
        database.put(KEY_GENESIS, b"\xff")
    problems = check(directory).problems
    assert any(
        problem.startswith(f"the state trees: the database {directory}/archiver is damaged") for problem in problems
    )


def test_a_chain_that_has_lost_its_genesis_is_not_taken_for_an_empty_one(directory: Path) -> None:
    with open_leveldb(directory / "archiver", create=False) as database:
        database.delete(KEY_CHAIN)
    assert any("is damaged (its genesis is missing)" in problem for problem in check(directory).problems)


# ---- beside the chain ---------------------------------------------------------------------------


@pytest.fixture
def pool(directory: Path) -> Path:
    """The pool of ``directory``, with two transactions."""
    path = directory / "p2p"
    with ChainData.open(directory, create=False) as data, data.store.open_view() as chain:
        store = PoolStore.open(path, chain.chain.genesis_block_hash)
    for value in made_txs(2):
        tx = Tx.from_json(value, FOUR)
        store.commit(
            store.stage(
                [(entry_key(tx.hash), PoolEntry.of(tx, FOUR).encode()), (json_key(tx.hash), tx.to_json_bytes())]
            )
        )
    store.close()
    return path


def keys_of(path: Path, prefix: bytes) -> list[bytes]:
    with open_leveldb(path, create=False) as database, database.iterator(prefix=prefix, include_value=False) as keys:
        return list(keys)


def put_first(path: Path, prefix: bytes, value: Callable[[bytes, bytes], bytes]) -> str:
    """Give the first key of a kind the value that follows from its hash and its present value; the hash as text."""
    key = keys_of(path, prefix)[0]
    with open_leveldb(path, create=False) as database:
        database.put(key, value(key[1:], database.get(key)))
    return "0x" + key[1:].hex()


def test_a_pool_that_holds_what_was_sent_is_clean(directory: Path, pool: Path) -> None:
    assert len(keys_of(pool, json_key(b""))) == 2
    assert check(directory).problems == []


def test_a_transaction_that_is_missing_is_found(directory: Path, pool: Path) -> None:
    key = keys_of(pool, json_key(b""))[0]
    with open_leveldb(pool, create=False) as database:
        database.delete(key)
    assert check(directory).problems == [f"the pool: transaction 0x{key[1:].hex()}: it is missing"]


def test_a_transaction_without_a_record_is_found(directory: Path, pool: Path) -> None:
    key = keys_of(pool, entry_key(b""))[0]
    with open_leveldb(pool, create=False) as database:
        database.delete(key)
    assert check(directory).problems == [f"the pool: transaction 0x{key[1:].hex()}: it has no record"]


def test_a_transaction_under_another_hash_is_found(directory: Path, pool: Path) -> None:
    first, second = keys_of(pool, json_key(b""))
    with open_leveldb(pool, create=False) as database:
        database.put(first, database.get(second))
    assert check(directory).problems == [f"the pool: transaction 0x{first[1:].hex()}: its hash is 0x{second[1:].hex()}"]


def test_a_record_that_says_something_else_is_found(directory: Path, pool: Path) -> None:
    def dearer(tx_hash: bytes, record: bytes) -> bytes:
        entry = PoolEntry.decode(tx_hash, record)
        return replace(entry, priority_fee=entry.priority_fee + 1).encode()

    changed = put_first(pool, entry_key(b""), dearer)
    assert check(directory).problems == [f"the pool: transaction {changed}: its record says something else"]


def test_a_transaction_that_cannot_be_decoded_is_found(directory: Path, pool: Path) -> None:
    changed = put_first(pool, json_key(b""), lambda *_: b"{")
    (problem,) = check(directory).problems
    assert problem.startswith(f"the pool: transaction {changed}: it cannot be decoded: ")


def test_a_record_that_cannot_be_read_is_found(directory: Path, pool: Path) -> None:
    changed = put_first(pool, entry_key(b""), lambda *_: b"?")
    (problem,) = check(directory).problems
    assert problem.startswith(f"the pool: the pool's record of tx {changed} is damaged")


def test_a_deleted_transaction_has_no_content(directory: Path, pool: Path) -> None:
    def deleted(tx_hash: bytes, record: bytes) -> bytes:
        return PoolEntry.decode(tx_hash, record).moved(TxState.DELETED).encode()

    changed = put_first(pool, entry_key(b""), deleted)
    assert check(directory).problems == [f"the pool: transaction {changed}: it is deleted and still there"]


@pytest.mark.parametrize(("folder", "name"), [("p2p", "the pool"), ("offenses", "the offenses")])
def test_a_side_database_of_another_chain_is_a_problem(directory: Path, folder: str, name: str) -> None:
    opened: SharedDatabase = open_side_database(directory / folder, bytes(32), migrations=(), content="anything")
    opened.release()
    (problem,) = check(directory).problems
    assert problem.startswith(f"{name}: {directory}/{folder} holds ")
    assert problem.endswith("of another chain; use another data directory")


@pytest.mark.parametrize("how", [cut_off, overwrite])
def test_a_pool_whose_files_are_damaged_is_a_problem_that_says_what_to_do(
    directory: Path, pool: Path, how: Callable[[Path], None]
) -> None:
    damage(pool, how)
    (problem,) = check(directory).problems
    assert problem.startswith("the pool: ")
    assert problem.endswith("remove the folder: it only holds unmined transactions")


def test_an_empty_directory_has_nothing_to_check(tmp_path: Path) -> None:
    with ChainData.open(tmp_path):
        pass
    report = check(tmp_path)
    assert report.clean
    assert report.notes == ["the database holds no chain yet"]
