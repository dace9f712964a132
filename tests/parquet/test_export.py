"""Tables of the recorded chain, as DuckDB reads them, and what a folder of them goes through."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from tests.conftest import PATIENCE_S, clean_environment
from tests.parquet.conftest import load

from fastnode.chain_data import ChainData
from fastnode.development.synthetic_chain import ChainShape, write_synthetic_chain
from fastnode.errors import ExportError, StartError
from fastnode.parquet.export import TablesSummary, TablesWanted, export_tables
from fastnode.parquet.tables import TABLES

NEWEST = 106
FINALIZED = 92
PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"


def export(data: ChainData, path: Path, *, verify: bool = True, **wanted: Any) -> TablesSummary:
    state = data.state.open_range_check() if verify else None
    with data.store.open_view() as view:
        return export_tables(view, path, TablesWanted(**wanted), state=state, progress=lambda *_: None)


def content(path: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def exported(data: ChainData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all tables in ``chain``, in partitions of 40 blocks."""
    folder = tmp_path_factory.mktemp("exported")
    export(data, folder / "chain", last=NEWEST, partition_blocks=40)
    return folder


@pytest.fixture
def query(exported: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Ask DuckDB in that folder."""
    monkeypatch.chdir(exported)
    with duckdb.connect() as connection:
        yield lambda text: connection.sql(text).fetchall()


# ---- what DuckDB reads ---------------------------------------------------------------------------------


def effects_of(blocks: list[dict[str, Any]]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """(block, place, effects) of each recorded transaction."""
    for number, block in enumerate(blocks, 1):
        for index, effect in enumerate(block["body"]["txEffects"]):
            yield number, index, effect


def test_the_sums_and_counts_of_every_block_are_those_of_the_recorded_chain(
    query: Callable[[str], list[tuple[Any, ...]]], recorded_blocks: list[dict[str, Any]]
) -> None:
    fees = query("SELECT block_number, sum(transaction_fee) FROM 'chain/fees/*/*.parquet' GROUP BY ALL ORDER BY ALL")
    expected = defaultdict(int)
    for number, _, effect in effects_of(recorded_blocks):
        expected[number] += int(effect["transactionFee"], 16)
    assert [(number, int(fee)) for number, fee in fees] == sorted(expected.items())
    in_headers = query("SELECT sum(total_fees), sum(tx_count), count(*) FROM 'chain/blocks/*/*.parquet'")
    assert in_headers == [(sum(expected.values()), 137, NEWEST)]
    for table, key in (
        ("note_hashes", "noteHashes"),
        ("nullifiers", "nullifiers"),
        ("l2_to_l1_messages", "l2ToL1Msgs"),
        ("public_writes", "publicDataWrites"),
        ("private_logs", "privateLogs"),
        ("public_logs", "publicLogs"),
    ):
        counted = query(f"SELECT block_number, tx_index, count(*) FROM 'chain/{table}/*/*.parquet' GROUP BY ALL")
        counts = {(number, index): len(effect[key]) for number, index, effect in effects_of(recorded_blocks)}
        assert {(number, index): count for number, index, count in counted} == {k: n for k, n in counts.items() if n}


def test_every_effect_of_the_recorded_chain_is_a_row_in_its_place(
    query: Callable[[str], list[tuple[Any, ...]]], recorded_blocks: list[dict[str, Any]]
) -> None:
    for table, columns, values in (
        ("transactions", "tx_hash, revert_code", lambda e: [(e["txHash"], e["revertCode"])]),
        ("note_hashes", "note_hash", lambda e: [(value,) for value in e["noteHashes"]]),
        ("nullifiers", "nullifier", lambda e: [(value,) for value in e["nullifiers"]]),
        ("l2_to_l1_messages", "message_hash", lambda e: [(value,) for value in e["l2ToL1Msgs"]]),
        ("public_writes", "leaf_slot, value", lambda e: [(w["leafSlot"], w["value"]) for w in e["publicDataWrites"]]),
        ("private_logs", "fields", lambda e: [(log["fields"][: log["emittedLength"]],) for log in e["privateLogs"]]),
        (
            "public_logs",
            "contract_address, fields",
            lambda e: [(x["contractAddress"], x["fields"]) for x in e["publicLogs"]],
        ),
    ):
        expected = [
            (
                number,
                recorded_blocks[number - 1]["header"]["globalVariables"]["timestamp"],
                index,
                effect["txHash"],
                *row,
            )
            for number, index, effect in effects_of(recorded_blocks)
            for row in values(effect)
        ]
        rows = query(
            f"SELECT block_number, timestamp::VARCHAR, tx_index, tx_hash, {columns} FROM 'chain/{table}/*/*.parquet'"
        )
        assert rows == expected, table


def test_leaf_indexes_are_those_of_the_trees(data: ChainData, query: Callable[[str], list[tuple[Any, ...]]]) -> None:
    view = data.state.view
    for tree, table, column in (
        (0, "nullifiers", "nullifier"),
        (1, "note_hashes", "note_hash"),
        (3, "l1_to_l2_messages", "message_hash"),
    ):
        rows = query(f"SELECT {column}, leaf_index, block_number FROM 'chain/{table}/*/*.parquet'")
        assert rows, table
        found = view.find_leaves(tree, [bytes.fromhex(leaf[2:]) for leaf, _, _ in rows], NEWEST)
        assert found == [(index, block) for _, index, block in rows]


def test_messages_and_checkpoints_are_those_of_the_recorded_chain(
    query: Callable[[str], list[tuple[Any, ...]]], recorded: list[dict[str, Any]]
) -> None:
    checkpoints = [line for line in recorded if line["kind"] == "checkpoint"]
    expected = [
        (line["published"]["checkpoint"]["number"], index, message)
        for line in checkpoints
        for index, message in enumerate(line["l1ToL2Messages"])
    ]
    rows = query("SELECT checkpoint_number, message_index, message_hash FROM 'chain/l1_to_l2_messages/*/*.parquet'")
    assert rows == expected
    assert rows
    published = [line["published"] for line in checkpoints]
    headers = [item["checkpoint"]["header"] for item in published]
    rows = query(
        "SELECT checkpoint_number, in_hash, total_mana_used, l1_block_hash FROM 'chain/checkpoints/*/*.parquet'"
    )
    assert rows == [
        (number, header["inHash"], int(header["totalManaUsed"], 16), item["l1"]["blockHash"])
        for number, (header, item) in enumerate(zip(headers, published, strict=True), 1)
    ]


def test_contracts_are_those_that_the_chain_knows(
    data: ChainData, query: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    from fastnode.log_index.contracts import contract_class_json, contract_instance_json

    with data.store.open_view() as view:
        classes = query("SELECT class_id, artifact_hash, bytecode FROM 'chain/contract_classes/*/*.parquet'")
        for class_id, artifact_hash, bytecode in classes:
            stored = json.loads(contract_class_json(view, bytes.fromhex(class_id[2:])) or b"")
            assert stored["artifactHash"] == artifact_hash
            assert len(stored["packedBytecode"]) == -(-len(bytecode) // 3) * 4
        instances = query("SELECT contract_address, class_id, salt FROM 'chain/contract_instances/*/*.parquet'")
        for address, class_id, salt in instances:
            stored = json.loads(contract_instance_json(view, bytes.fromhex(address[2:])) or b"")
            assert (stored["originalContractClassId"], stored["salt"]) == (class_id, salt)
    [(updated, of)] = query("SELECT contract_address, new_class_id FROM 'chain/contract_updates/*/*.parquet'")
    assert updated in {address for address, _, _ in instances}
    assert of in {class_id for class_id, _, _ in classes}
    assert len(classes) > 15
    assert len(instances) > 25


def queries_of_the_page() -> list[str]:
    return re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_five_queries_of_the_page_give_what_the_recorded_chain_has(
    query: Callable[[str], list[tuple[Any, ...]]],
    recorded: list[dict[str, Any]],
    recorded_blocks: list[dict[str, Any]],
) -> None:
    by_day, by_contract, by_size, by_checkpoint, by_class = queries_of_the_page()
    days: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    logs: Counter[str] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    for number, _, effect in effects_of(recorded_blocks):
        seconds = int(recorded_blocks[number - 1]["header"]["globalVariables"]["timestamp"])
        day = days[datetime.fromtimestamp(seconds, UTC).date()]
        day[0] += 1
        day[1] += int(effect["transactionFee"], 16)
        logs.update(log["contractAddress"] for log in effect["publicLogs"])
        sizes[len(effect["nullifiers"]), len(effect["noteHashes"])] += 1
    assert query(by_day) == [(day, count, fee) for day, (count, fee) in sorted(days.items())]
    assert [row[:2] for row in query(by_contract)] == sorted(logs.items(), key=lambda item: (-item[1], item[0]))
    assert [row[:3] for row in query(by_size)] == [(*size, count) for size, count in sorted(sizes.items())]
    assert query(by_checkpoint) == [
        (
            line["published"]["checkpoint"]["number"],
            len(line["l1ToL2Messages"]),
            sum(
                len(e["l2ToL1Msgs"]) for b in line["published"]["checkpoint"]["blocks"] for e in b["body"]["txEffects"]
            ),
        )
        for line in recorded
        if line["kind"] == "checkpoint"
    ]
    classes = query(by_class)
    assert len(classes) == len({row[0] for row in classes})
    assert sum(row[2] for row in classes) > 25


# ---- continuing ---------------------------------------------------------------------------------------


def test_an_export_ends_with_the_newest_final_block_unless_another_is_named(data: ChainData, tmp_path: Path) -> None:
    summary = export(data, tmp_path / "chain", tables=["fees"])
    assert (summary.first, summary.last, summary.is_verified) == (1, FINALIZED, True)


def test_a_chain_that_grew_is_added_to_the_same_bytes(data: ChainData, exported: Path, tmp_path: Path) -> None:
    for last in (15, 79, 106):
        summary = export(data, tmp_path, last=last, partition_blocks=40 if last == 15 else None)
        assert (summary.last, summary.replaced) == (last, range(0))
    assert content(tmp_path) == content(exported / "chain")
    again = export(data, tmp_path)
    assert (again.last, again.rows_written) == (NEWEST, 0)


def test_what_was_not_verified_is_verified_by_the_next_run(data: ChainData, tmp_path: Path) -> None:
    form = {"first": 70, "last": 80, "tables": ["nullifiers", "fees"]}
    assert not export(data, tmp_path, verify=False, **form).is_verified
    summary = export(data, tmp_path, **form)
    assert (summary.is_verified, summary.rows_written) == (True, 0)


def test_a_part_of_the_chain_holds_the_same_rows_and_is_verified(
    data: ChainData, query: Callable[[str], list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    """Block 47 is in the middle of a checkpoint."""
    summary = export(data, tmp_path, first=47, last=60, tables=["nullifiers", "contracts", "l1_to_l2_messages"])
    assert summary.is_verified
    assert {path.name for path in tmp_path.iterdir()} >= {"manifest.json", "nullifiers", "contract_classes"}
    assert not (tmp_path / "blocks").exists()
    rows = query(f"SELECT * EXCLUDE (blocks) FROM '{tmp_path}/nullifiers/*/*.parquet'")
    whole = "SELECT * EXCLUDE (blocks) FROM 'chain/nullifiers/*/*.parquet' WHERE block_number BETWEEN 47 AND 60"
    assert rows == query(whole)
    assert rows


def test_a_file_that_is_gone_or_cut_is_written_anew(data: ChainData, tmp_path: Path) -> None:
    export(data, tmp_path, verify=False, last=59, tables=["transactions", "messages"], partition_blocks=20)
    whole = content(tmp_path)
    files = sorted(tmp_path.glob("*/*/part.parquet"))
    files[3].unlink()
    files[-1].write_bytes(files[-1].read_bytes()[:-1])
    assert export(data, tmp_path, verify=False, last=59).rows_written > 0
    assert content(tmp_path) == whole


@pytest.fixture(scope="module")
def two_chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ChainData, ChainData]]:
    """Two ends of a chain with the same genesis: 12 blocks of one transaction, 9 of two."""
    folder = tmp_path_factory.mktemp("forked")
    opened = []
    for name, shape in (("one", ChainShape(blocks=12, txs=1)), ("two", ChainShape(blocks=9, txs=2))):
        write_synthetic_chain(folder / f"{name}.jsonl", shape)
        opened.append(load(folder / name, folder / f"{name}.jsonl"))
    yield opened[0], opened[1]
    for data in opened:
        data.close()


def test_blocks_that_a_reorg_replaced_are_written_anew_and_told(
    two_chains: tuple[ChainData, ChainData], tmp_path: Path
) -> None:
    before, after = two_chains
    form = {"partition_blocks": 5, "tables": ["transactions", "note_hashes", "messages"]}
    export(before, tmp_path / "chain", last=12, **form)
    summary = export(after, tmp_path / "chain", last=9)
    assert (summary.replaced, summary.last) == (range(1, 13), 9)
    export(after, tmp_path / "new", last=9, **form)
    assert content(tmp_path / "chain") == content(tmp_path / "new")


def test_a_chain_that_was_rolled_back_loses_the_rows_that_it_has_no_more(
    data: ChainData, short_chain: Path, tmp_path: Path
) -> None:
    form = {"partition_blocks": 10, "tables": ["blocks", "nullifiers"], "verify": False}
    export(data, tmp_path / "chain", last=NEWEST, **form)
    with load(tmp_path / "data", short_chain) as short:
        summary = export(short, tmp_path / "chain", last=16, verify=False)
        assert (summary.replaced, summary.last) == (range(10, NEWEST + 1), 16)
        export(short, tmp_path / "new", last=16, **form)
    assert content(tmp_path / "chain") == content(tmp_path / "new")


# ---- interrupted --------------------------------------------------------------------------------------

#: Exports again and again in processes of its own that kill themselves before some call to the file system, until one
#: comes to its end; prints how many were killed.
KILLED = """
import hashlib, json, os, random, signal, sys
from pathlib import Path
from fastnode.chain_data import ChainData
from fastnode.parquet.export import TablesWanted, export_tables

data, base, rounds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
chance = random.Random(42)
TABLES = ["blocks", "nullifiers", "public_logs", "messages"]

def counted(real, left):
    def call(*arguments, **more):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **more)
    return call

def export(folder, calls):
    left = [0]
    with ChainData.open(data, create=False) as opened, opened.store.open_view() as view:
        os.fsync = counted(os.fsync, left)
        for name in ("replace", "unlink", "mkdir", "write_bytes"):
            setattr(Path, name, counted(getattr(Path, name), left))
        left[0] = calls
        wanted = TablesWanted(last=12, partition_blocks=4, tables=TABLES)
        export_tables(view, folder, wanted, state=None, progress=lambda *_: None)

def ends(folder, calls):
    child = os.fork()
    if child == 0:
        try:
            export(folder, calls)
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code == 0

def content(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}

def check(folder):
    # What the manifest names is whole at every instant.
    if not (folder / "manifest.json").exists():
        return
    for item in json.loads((folder / "manifest.json").read_bytes())["partitions"]:
        first = item["firstBlock"] // 4 * 4
        for table, file in item["files"].items():
            path = folder / table / f"blocks={first:08}-{first + 3:08}" / "part.parquet"
            assert hashlib.sha256(path.read_bytes()).hexdigest() == file["sha256"]

assert ends(base / "whole", -1)
kills = 0
for number in range(rounds):
    folder = base / f"round {number}"
    while not ends(folder, chance.randrange(1, 200)):
        kills += 1
        check(folder)
    assert content(folder) == content(base / "whole")
print(kills)
"""


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=pytest.mark.long)], ids=["a few times", "many times"])
def test_an_export_that_is_killed_at_any_instant_gives_the_same_files_in_the_end(rounds: int, tmp_path: Path) -> None:
    write_synthetic_chain(tmp_path / "chain.jsonl", ChainShape(blocks=12, txs=2))
    load(tmp_path / "data", tmp_path / "chain.jsonl").close()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "data"), str(tmp_path), str(rounds)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S + 10 * rounds,
        env=clean_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= rounds


def test_a_full_disk_is_told_with_the_file_and_the_next_run_goes_on(data: ChainData, tmp_path: Path) -> None:
    form = {"partition_blocks": 40, "tables": ["blocks", "public_logs"], "verify": False}
    export(data, tmp_path / "whole", last=NEWEST, **form)
    export(data, tmp_path / "chain", last=40, **form)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
    try:
        with pytest.raises(ExportError, match=r"part\.parquet\.new cannot be written: File too large"):
            export(data, tmp_path / "chain", last=NEWEST, verify=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.rglob("*.new"))
    assert export(data, tmp_path / "chain", last=40, verify=False).last == 40
    export(data, tmp_path / "chain", last=NEWEST, verify=False)
    assert content(tmp_path / "chain") == content(tmp_path / "whole")


# ---- refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [(5, 4), (1, 107), (107, 107), (107, None)])
def test_blocks_that_are_not_there_are_refused_and_nothing_is_made(
    data: ChainData, tmp_path: Path, blocks: tuple[int, int | None]
) -> None:
    with pytest.raises(StartError, match="cannot be exported: the chain has blocks 1 to 106"):
        export(data, tmp_path / "chain", first=blocks[0], last=blocks[1])
    assert not (tmp_path / "chain").exists()


def test_a_chain_without_a_final_block_asks_for_the_last_one(tmp_path: Path) -> None:
    write_synthetic_chain(tmp_path / "chain.jsonl", ChainShape(blocks=2, txs=1))
    with load(tmp_path / "data", tmp_path / "chain.jsonl") as data:
        with pytest.raises(StartError, match="no block of the chain is final yet; --to names the last block"):
            export(data, tmp_path / "out")
        assert export(data, tmp_path / "out", last=2).is_verified


def test_a_folder_of_another_chain_or_form_is_refused(
    data: ChainData, two_chains: tuple[ChainData, ChainData], exported: Path
) -> None:
    before = content(exported / "chain")
    with pytest.raises(ExportError, match="holds another chain: its "):
        export(two_chains[0], exported / "chain", last=12)
    for wanted, said in (
        ({"tables": ["blocks"]}, "holds the tables blocks, checkpoints"),
        ({"first": 2}, "holds blocks from 1 on"),
        ({"partition_blocks": 41}, "holds partitions of 40 blocks"),
    ):
        with pytest.raises(ExportError, match=said):
            export(data, exported / "chain", last=NEWEST, **wanted)
    assert content(exported / "chain") == before


def test_a_folder_with_files_of_somebody_else_is_refused(data: ChainData, tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").write_text("years of work")
    with pytest.raises(ExportError, match=r"holds 'thesis\.odt' and no export"):
        export(data, tmp_path, last=3)
    assert content(tmp_path) == {"thesis.odt": b"years of work"}
    with pytest.raises(ExportError, match="cannot be used: Not a directory"):
        export(data, tmp_path / "thesis.odt" / "chain", last=3)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format":2}', '{"format":1}', '{"format":1,"partitions":3}'])
def test_a_manifest_that_makes_no_sense_is_named(data: ChainData, tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ExportError, match=r"manifest\.json cannot be read"):
        export(data, tmp_path, last=3)
    assert (tmp_path / "manifest.json").read_text() == text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((("partitionBlocks",), value) for value in (-5, 0, "40", 1.5, True, None, 1 << 70)),
        *((("firstBlock",), value) for value in (0, -1, "1", 5)),
        *((("tables",), value) for value in ("blocks", [], ["../.."], ["blocks", "blocks"], [1])),
        *((("chain",), value) for value in (None, 7)),
        *((("partitions",), value) for value in (7, [7], [{}])),
        *((("partitions", 0, "firstBlock"), value) for value in (0, 2, "1")),
        *((("partitions", 0, "lastBlock"), value) for value in (0, 41, None)),
        *((("partitions", 0, "verified"), value) for value in (1, "true")),
        *((("partitions", 0, "lastBlockHash"), value) for value in (7, "0x")),
        *((("partitions", 0, "files"), value) for value in ({}, [], {"blocks": 7})),
        *((("partitions", 0, "files", "blocks", "bytes"), value) for value in (-1, "7")),
        *((("partitions", 0, "files", "blocks", "sha256"), value) for value in (7, "..")),
    ],
)
def test_a_value_of_a_manifest_that_no_export_writes_is_named(
    data: ChainData, exported: Path, tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    manifest = json.loads((exported / "chain" / "manifest.json").read_bytes())
    record = manifest
    for key in path[:-1]:
        record = record[key]
    assert path[-1] in record
    record[path[-1]] = value
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ExportError, match=r"manifest\.json cannot be read \(.+\); begin with an empty folder"):
        export(data, tmp_path, last=NEWEST)


@pytest.mark.parametrize(
    "link", ["blocks", "blocks/blocks=00000000-00000039", "blocks/blocks=00000000-00000039/part.parquet"]
)
def test_a_symbolic_link_in_a_folder_is_refused_and_not_followed(
    data: ChainData, exported: Path, tmp_path: Path, link: str
) -> None:
    folder = Path(shutil.copytree(exported / "chain", tmp_path / "chain"))
    (folder / link).rename(tmp_path / "elsewhere")
    (folder / link).symlink_to(tmp_path / "elsewhere")
    before = content(tmp_path)
    with pytest.raises(ExportError, match=f"{link} is a symbolic link"):
        export(data, folder, last=NEWEST)
    assert content(tmp_path) == before


def test_two_exports_do_not_share_a_folder(data: ChainData, tmp_path: Path) -> None:
    from fastnode.parquet.folder import ExportFolder

    with ExportFolder.open(tmp_path), pytest.raises(ExportError, match="is in use by another export"):
        export(data, tmp_path, last=3)


def test_every_table_is_there_whatever_it_holds(exported: Path) -> None:
    for table in TABLES:
        ranges = [path.parent.name for path in sorted((exported / "chain" / table.name).glob("*/part.parquet"))]
        assert ranges == [f"blocks={start:08}-{start + 39:08}" for start in (0, 40, 80)]


def test_the_page_names_every_column() -> None:
    from fastnode.development.parquet_page import render_page

    page = PAGE.read_text(encoding="utf-8")
    assert render_page(page) == page
    assert len(queries_of_the_page()) == 5
