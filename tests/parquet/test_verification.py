"""Rows that differ, and stored blocks that do not give what their headers name, are found and named."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.parquet.conftest import load

from fastnode.archiver import layout
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import DatabaseError, ExportError
from fastnode.parquet import verification
from fastnode.parquet.columns import digest_of_rows, stripes
from fastnode.parquet.export import TablesSummary, TablesWanted, export_tables
from fastnode.parquet.files import TableFile, plain
from fastnode.parquet.tables import TABLES
from fastnode.parquet.verification import Verifier
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

BLOCKS = 6
SHAPE = ChainShape(blocks=BLOCKS, txs=2, nullifiers=3, writes=3, private_logs=2, public_logs=2, l2_to_l1=1, l1_to_l2=3)


@pytest.fixture(scope="module")
def chain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "chain.jsonl"
    write_synthetic_chain(path, SHAPE)
    return path


@pytest.fixture(scope="module")
def made(chain_file: Path) -> Iterator[ChainData]:
    with load(chain_file.parent / "data", chain_file) as data:
        yield data


def export(data: ChainData, path: Path, **wanted: Any) -> TablesSummary:
    with data.store.open_view() as view:
        return export_tables(
            view,
            path,
            TablesWanted(last=BLOCKS, **wanted),
            state=data.state.open_range_check(),
            progress=lambda *_: None,
        )


@pytest.fixture(scope="module")
def folder(made: ChainData, chain_file: Path) -> Path:
    export(made, chain_file.parent / "tables")
    return chain_file.parent / "tables"


def another(value: Any) -> Any:
    """A value of the same kind."""
    if value is None:
        return 7
    if isinstance(value, str):
        return value[:-1] + ("1" if value[-1] == "0" else "0")
    if isinstance(value, list):
        return [*value[:-1], another(value[-1])]
    if isinstance(value, bytes):
        return value + b"\0"
    if isinstance(value, int | Decimal):
        return value + 1
    return value.replace(year=value.year + 1)


COLUMNS = [(table.name, column.name) for table in TABLES for column in table.columns]


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.long)], ids=["some columns", "all columns"])
def test_each_value_of_each_column_that_is_changed_is_named_with_its_block(
    made: ChainData, folder: Path, tmp_path: Path, share: int
) -> None:
    files = {table.name: next((folder / table.name).glob("*/part.parquet")) for table in TABLES}
    tried = 0
    with made.store.open_view() as view:
        state = made.state.open_range_check()
        for table, column in COLUMNS[::share]:
            verifier = Verifier(view, state, [known for known in TABLES if known.name == table])
            rows = pq.read_table(files[table], partitioning=None)
            if not len(rows) or rows.column(column)[len(rows) // 2].as_py() is None:
                continue
            values = rows.column(column).to_pylist()
            place = len(values) // 2
            values[place] = another(values[place])
            at = rows.schema.get_field_index(column)
            changed = tmp_path / "part.parquet"
            kind = rows.schema.field(at)
            pq.write_table(rows.set_column(at, kind, pa.array(values, kind.type)), changed)
            with pytest.raises(ExportError, match=rf"table {table}: ") as raised:
                verifier.check({table: changed}, 1, BLOCKS, lambda _: None)
            block = rows.column("block_number")[place].as_py()
            said = re.match(r"block (\d+), ", str(raised.value))
            assert said is not None
            if column != "block_number":
                assert int(said[1]) == block
                assert f"table {table}: {column} is " in str(raised.value)
            tried += 1
    assert tried > 100 // share


@pytest.mark.parametrize("change", ["lost", "double", "swapped", "more"])
def test_a_row_too_many_or_too_few_is_found(made: ChainData, folder: Path, tmp_path: Path, change: str) -> None:
    files = {table.name: next((folder / table.name).glob("*/part.parquet")) for table in TABLES}
    rows = pq.read_table(files["nullifiers"], partitioning=None)
    count = len(rows)
    parts = {
        "lost": [rows.slice(0, count - 1)],
        "double": [rows.slice(0, 5), rows.slice(4)],
        "swapped": [rows.slice(0, 3), rows.slice(4, 1), rows.slice(3, 1), rows.slice(5)],
        "more": [rows, rows.slice(count - 1)],
    }
    changed = tmp_path / "part.parquet"
    pq.write_table(pa.concat_tables(parts[change]), changed)
    with made.store.open_view() as view, pytest.raises(ExportError, match=r"block \d+, table nullifiers: "):
        Verifier(view, made.state.open_range_check(), TABLES).check(
            files | {"nullifiers": changed}, 1, BLOCKS, lambda _: None
        )


def test_verify_all_names_a_changed_row_and_a_changed_file(made: ChainData, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(folder, copy)
    file = next((copy / "fees").glob("*/part.parquet"))
    whole = file.read_bytes()
    rows = pq.read_table(file, partitioning=None)
    at = len(whole) // 3
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert export(made, copy).rows_written == 0
    with pytest.raises(ExportError, match=r"fees.*(cannot be read|is not what was written|table fees)"):
        export(made, copy, verify_all=True)
    pq.write_table(rows, file)  # the same rows in another form
    file.write_bytes(file.read_bytes().ljust(len(whole), b"\0")[: len(whole)])
    file.unlink()
    assert export(made, copy, verify_all=True).is_verified
    assert file.read_bytes() == whole


@pytest.mark.parametrize("rounds", [10, pytest.param(300, marks=pytest.mark.long)], ids=["a few", "many"])
def test_no_changed_byte_of_a_file_goes_unnoticed(made: ChainData, folder: Path, tmp_path: Path, rounds: int) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(folder, copy)
    chance = random.Random(42)
    files = sorted(copy.glob("*/*/part.parquet"))
    for _ in range(rounds):
        file = chance.choice(files)
        whole = file.read_bytes()
        at = chance.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
        with pytest.raises(ExportError, match=f"{file.parent.parent.name}"):
            export(made, copy, verify_all=True)
        file.write_bytes(whole)
    assert export(made, copy, verify_all=True).is_verified


# ---- files that change between their writing and their reading --------------------------------------------


def changing(monkeypatch: pytest.MonkeyPatch, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Let the file of a table hold other rows than were written as soon as it is closed."""
    close = TableFile.close

    def close_and_change(self: TableFile) -> tuple[int, int, str]:
        closed = close(self)
        if self.path.parent.parent.name == table:
            rows = pq.read_table(self.path, partitioning=None)
            pq.write_table(change(rows), self.path, row_group_size=max(1, len(rows) // 3))
        return closed

    monkeypatch.setattr(TableFile, "close", close_and_change)


def with_another(column: str) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        values = rows.column(column).to_pylist()
        if not values or values[len(values) // 2] is None:
            raise LookupError("nothing to change")
        values[len(values) // 2] = another(values[len(values) // 2])
        at = rows.schema.get_field_index(column)
        return rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))

    return change


@pytest.mark.parametrize("share", [24, pytest.param(1, marks=pytest.mark.long)], ids=["some columns", "all columns"])
def test_a_value_that_changed_after_it_was_written_is_named_with_its_block(
    made: ChainData, tmp_path: Path, share: int
) -> None:
    tried = 0
    for number, (table, column) in enumerate(COLUMNS[1::share]):
        with pytest.MonkeyPatch.context() as patch:
            try:
                changing(patch, table, with_another(column))
                with pytest.raises(ExportError, match=rf"block \d+, table {table}: "):
                    export(made, tmp_path / str(number))
            except LookupError:
                continue
        tried += 1
        assert not list((tmp_path / str(number)).rglob("part.parquet"))
    assert tried > 80 // share


@pytest.mark.parametrize("change", ["lost", "double", "more"])
def test_a_row_that_came_or_went_after_it_was_written_is_named(
    made: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    changes: dict[str, Callable[[pa.Table], pa.Table]] = {
        "lost": lambda rows: rows.slice(0, len(rows) - 1),
        "double": lambda rows: pa.concat_tables([rows.slice(0, 5), rows.slice(4)]),
        "more": lambda rows: pa.concat_tables([rows, rows.slice(len(rows) - 1)]),
    }
    changing(monkeypatch, "nullifiers", changes[change])
    with pytest.raises(ExportError, match=r"block \d+, table nullifiers: "):
        export(made, tmp_path / "out")


def test_the_same_rows_in_another_form_are_verified(
    made: ChainData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changing(monkeypatch, "private_logs", lambda rows: rows)
    assert export(made, tmp_path / "out").is_verified


def test_a_checksum_is_that_of_the_values_and_of_nothing_else(made: ChainData) -> None:
    with made.store.open_view() as view:
        [(_, tables)] = stripes(view, TABLES, 1, BLOCKS)
    tried = 0
    for rows in tables.values():
        expected = digest_of_rows(rows)
        half = len(rows) // 2
        pieces = pa.concat_tables([rows.slice(0, half), rows.slice(half)])
        beside = pa.concat_tables([rows, rows]).slice(len(rows))
        for same in (plain(rows), pieces, plain(pieces), beside, plain(beside).combine_chunks()):
            assert digest_of_rows(same) == expected
        assert digest_of_rows(rows.slice(1)) != expected or not len(rows)
        for name in rows.schema.names if len(rows) else ():
            changed = plain(rows)
            at, values = changed.schema.get_field_index(name), changed.column(name).to_pylist()
            kind = changed.schema.field(at)
            if values[half] is None:
                continue
            for value in [another(values[half]), *([None] if kind.nullable else [])]:
                others = [*values[:half], value, *values[half + 1 :]]
                assert digest_of_rows(changed.set_column(at, kind, pa.array(others, kind.type))) != expected
                tried += 1
    assert tried > 100
    texts = [pa.table({"a": pa.array(values)}) for values in (["ab", "c"], ["a", "bc"], ["abc", ""], ["ab", None])]
    lists = [pa.table({"a": pa.array(values)}) for values in ([["a", "b"], []], [["a"], ["b"]], [["ab"], []])]
    assert len({digest_of_rows(rows) for rows in (*texts, *lists)}) == 7


# ---- stored blocks that are damaged ------------------------------------------------------------------


def of_effect(key: str) -> Callable[[dict[str, Any]], None]:
    def change(effect: dict[str, Any]) -> None:
        value = effect[key]
        if isinstance(value, str):
            effect[key] = another(value)
        elif isinstance(value[0], str):
            value[0] = another(value[0])
        elif "fields" in value[0]:
            value[0]["fields"][1] = another(value[0]["fields"][1])
        else:
            value[0]["value"] = another(value[0]["value"])

    return change


EFFECTS = (
    *("txHash", "transactionFee", "noteHashes", "nullifiers", "l2ToL1Msgs"),
    *("publicDataWrites", "privateLogs", "publicLogs"),
)


@pytest.fixture
def copied(made: ChainData, chain_file: Path, tmp_path: Path) -> Iterator[Callable[[], ChainData]]:
    opened = []

    def copy() -> ChainData:
        opened.append(load(tmp_path / f"data {len(opened)}", chain_file))
        return opened[-1]

    yield copy
    for data in opened:
        data.close()


def test_a_stored_effect_that_is_changed_is_named_by_its_block(copied: Callable[[], ChainData], tmp_path: Path) -> None:
    data = copied()
    key = layout.effect_key(4, 1)
    stored = data.store.database.get(key) or b""
    for number, name in enumerate(EFFECTS):
        effect = orjson.loads(stored)
        of_effect(name)(effect)
        data.store.database.write([(key, orjson.dumps(effect))])
        with pytest.raises(ExportError, match=r"block 4: its rows do not give the hash of its effects"):
            export(data, tmp_path / f"out {number}")
        manifest = orjson.loads((tmp_path / f"out {number}" / "manifest.json").read_bytes())
        assert manifest["partitions"] == []
        assert not list((tmp_path / f"out {number}").rglob("part.parquet"))
    for text in (
        b"",
        b"{",
        b"[]",
        b"{}",
        stored.replace(b"0x", b"0y", 5),
        stored.replace(b'"nullifiers":[', b'"nullifiers":[7,'),
    ):
        data.store.database.write([(key, text)])
        with pytest.raises((DatabaseError, ExportError), match=r"blocks? [1-6].*(damaged|run `fastnode db check`)"):
            export(data, tmp_path / "out")
    data.store.database.write([(key, None)])
    with pytest.raises(DatabaseError, match="block 4 has 1 of 2 transactions"):
        export(data, tmp_path / "out")
    data.store.database.write([(key, stored)])
    assert export(data, tmp_path / "out").is_verified


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("noteHashes", "block 4: its rows do not give the root of the note hash tree"),
        ("nullifiers", r"nullifier tree: 0x[0-9a-f]{64} is not in the tree, expected as leaf \d+"),
        ("publicDataWrites", "the public writes do not give the root of block 6"),
    ],
)
def test_the_roots_alone_find_what_differs(
    copied: Callable[[], ChainData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, said: str
) -> None:
    """As if the hash over the effects had been right."""
    monkeypatch.setattr(verification.Verifier, "_check_blobs", lambda *_: None)
    data = copied()
    assert export(data, tmp_path / "sound").is_verified
    place = layout.effect_key(4, 1)
    effect = orjson.loads(data.store.database.get(place) or b"")
    of_effect(key)(effect)
    data.store.database.write([(place, orjson.dumps(effect))])
    with pytest.raises(ExportError, match=said):
        export(data, tmp_path / "changed")


def test_messages_and_hashes_that_differ_are_named(copied: Callable[[], ChainData], tmp_path: Path) -> None:
    data = copied()
    database = data.store.database
    messages = layout.l1_to_l2_key(1)
    stored = database.get(messages) or b""
    database.write([(messages, bytes(31) + b"\7" + stored[32:])])
    with pytest.raises(ExportError, match="checkpoint 1: its messages from L1 do not give the inHash of its header"):
        export(data, tmp_path / "out")
    database.write([(messages, stored)])
    block = layout.block_key(3)
    record = database.get(block) or b""
    changed = re.sub(rb'("sponge[^"]*":"0x)(..)', lambda m: m[1] + (b"00" if m[2] != b"00" else b"01"), record)
    assert changed != record
    database.write([(block, changed)])
    with pytest.raises(ExportError, match="block 3: its header has another hash"):
        export(data, tmp_path / "out")


def test_without_history_the_public_writes_before_it_are_told(chain_file: Path, tmp_path: Path) -> None:
    options = ChainOptions(world_state_checkpoint_history=1)
    with ChainData.open(tmp_path / "data", options=options) as data:
        adopt_chain_file(data.store, chain_file)
        import_chain_file(data.open_ingestor(verify=False), chain_file)
        assert data.state.view.oldest > 2
        summary = export(data, tmp_path / "out", partition_blocks=2)
        assert summary.is_verified
        assert summary.without_history >= 1
