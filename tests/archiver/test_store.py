"""Opening, adopting a chain, and each thing that can be wrong with a data directory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import orjson
import plyvel
import pytest

from fastnode.archiver import layout
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.errors import BlockRejected, DatabaseError, DataDirectoryError, DecodeError, StartError
from fastnode.protocol import releases
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.sources.chain_file import ChainFileSource

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Json = dict[str, Any]


def write_raw(directory: Path, entries: dict[bytes, bytes]) -> None:
    """Put keys into the chain database behind fastnode's back."""
    path = directory / ARCHIVER_DIRECTORY
    path.mkdir(parents=True, exist_ok=True)
    database = plyvel.DB(str(path), create_if_missing=True)
    for key, value in entries.items():
        database.put(key, value)
    database.close()


# ---- opening -----------------------------------------------------------------------------------


def test_a_new_store_knows_no_chain(tmp_path: Path) -> None:
    with ArchiverStore.open(tmp_path / "new") as store:
        assert not store.has_chain
        with pytest.raises(DatabaseError, match="holds no chain yet"):
            store.open_view()


def test_a_store_that_does_not_exist_is_not_created_unasked(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="holds no fastnode database"):
        ArchiverStore.open(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()


def test_a_second_opening_in_another_process_is_refused(store: ArchiverStore) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from fastnode.archiver.store import ArchiverStore
        from fastnode.errors import DataDirectoryError
        try:
            ArchiverStore.open(Path(sys.argv[1]))
        except DataDirectoryError as error:
            print(error)
        """
    )
    directory = store.path.parent
    result = subprocess.run(
        [sys.executable, "-c", script, str(directory)], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout == f"the data directory {directory} is in use by another fastnode process\n"


def test_a_newer_schema_is_refused_with_both_numbers(tmp_path: Path) -> None:
    write_raw(tmp_path, {layout.KEY_SCHEMA: layout.SCHEMA_NAME + b"99"})
    with pytest.raises(DataDirectoryError, match=f"has schema 99, newer than this fastnode's {layout.SCHEMA_VERSION}"):
        ArchiverStore.open(tmp_path)


def test_a_schema_that_never_was_is_refused(tmp_path: Path) -> None:
    write_raw(tmp_path, {layout.KEY_SCHEMA: layout.SCHEMA_NAME + b"0"})
    with pytest.raises(DataDirectoryError, match="has schema 0, which no fastnode wrote"):
        ArchiverStore.open(tmp_path)


@pytest.mark.parametrize(
    "entries",
    [{b"somebody": b"else"}, {layout.KEY_SCHEMA: b"1"}, {layout.KEY_SCHEMA: layout.SCHEMA_NAME + b"one"}],
)
def test_the_database_of_another_program_is_refused(tmp_path: Path, entries: dict[bytes, bytes]) -> None:
    write_raw(tmp_path, entries)
    with pytest.raises(DataDirectoryError, match="is not a fastnode chain database"):
        ArchiverStore.open(tmp_path)
    # The refusal released it.
    plyvel.DB(str(tmp_path / ARCHIVER_DIRECTORY)).close()


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataDirectoryError, match="cannot use the data directory"):
        ArchiverStore.open(tmp_path / "file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataDirectoryError, match="Permission denied"):
            ArchiverStore.open(tmp_path / "data")
    finally:
        tmp_path.chmod(0o700)


def test_a_database_without_its_manifest_is_called_damaged(store: ArchiverStore) -> None:
    store.close()
    (store.path / "CURRENT").write_text("MANIFEST-999999\n")
    with pytest.raises(DataDirectoryError, match=r"the database .*archiver is damaged|cannot open the database"):
        ArchiverStore.open(store.path.parent)


# ---- adopting ----------------------------------------------------------------------------------


@pytest.fixture
def genesis(sample_path: Path) -> GenesisRecord:
    with ChainFileSource(sample_path) as source:
        return source.genesis


@pytest.fixture
def chain(sample_path: Path) -> ChainRecord:
    with ChainFileSource(sample_path) as source:
        return source.chain


def test_adopting_the_same_chain_again_changes_nothing(
    store: ArchiverStore,
    chain: ChainRecord,
    genesis: GenesisRecord,
    contents: Callable[[ArchiverStore], dict[bytes, bytes]],
) -> None:
    before = contents(store)
    assert store.adopt_chain(chain, genesis) is False
    assert contents(store) == before


def test_what_never_changes_is_known_after_adopting(store: ArchiverStore, sample: SampleChain) -> None:
    info = store.chain
    assert (info.l1_chain_id, info.rollup_version, info.node_version) == (31337, 3658137161, "4.1.2")
    assert (info.epoch_duration, info.slot_duration, info.l1_genesis_time) == (4, 36, 1795221289)
    assert info.node_info == orjson.loads(sample.lines[0])["nodeInfo"]
    assert info.min_fees == {"feePerDaGas": "0", "feePerL2Gas": "10300000"}
    assert info.detailed_execution_results


@pytest.mark.parametrize(
    ("version", "detailed"),
    [("4.1.2", True), ("4.2.99-rc.1", True), ("4.3.0", False), ("10.0", False), ("next", False)],
)
def test_node_versions_before_4_3_have_detailed_execution_results(
    tmp_path: Path, sample: SampleChain, genesis: GenesisRecord, version: str, detailed: bool
) -> None:
    record = orjson.loads(sample.lines[0])
    record["nodeInfo"]["nodeVersion"] = version
    with ArchiverStore.open(tmp_path / "data") as store:
        store.adopt_chain(ChainRecord.from_json(record), genesis)
        assert store.chain.detailed_execution_results is detailed


def test_a_chain_of_a_release_that_is_not_served_is_refused(
    tmp_path: Path, sample: SampleChain, genesis: GenesisRecord
) -> None:
    record = orjson.loads(sample.lines[0])
    record["nodeInfo"]["nodeVersion"] = "5.2.0"
    unknown = replace(FIVE, name="5.x of tomorrow", is_derived=False)
    with patch.object(releases, "_known", (FOUR, unknown)), ArchiverStore.open(tmp_path / "data") as store:
        with pytest.raises(StartError, match=r"is of release 5\.x of tomorrow, this node serves 4\.x only"):
            store.adopt_chain(ChainRecord.from_json(record), genesis)
        assert not store.has_chain


def test_a_chain_goes_by_another_version_of_its_release_from_the_next_view_on(
    tmp_path: Path, chain: ChainRecord, genesis: GenesisRecord
) -> None:
    with ArchiverStore.open(tmp_path / "data") as store:
        store.adopt_chain(chain, genesis)
        with store.open_view() as before:
            assert store.serve_as("4.3.0")
            with store.open_view() as after:
                assert (before.chain.node_version, after.chain.node_version) == ("4.1.2", "4.3.0")
                assert (before.chain.detailed_execution_results, after.chain.detailed_execution_results) == (
                    True,
                    False,
                )
                assert after.chain.node_info == before.chain.node_info | {"nodeVersion": "4.3.0"}
        assert not store.serve_as("4.3.0")
        with pytest.raises(DataDirectoryError, match=r"of release 4\.x, version 5\.0\.0 is of another"):
            store.serve_as("5.0.0")
    with ArchiverStore.open(tmp_path / "data") as store:
        assert store.chain.node_version == "4.3.0"


def test_chains_of_the_first_schema_are_of_release_4(
    tmp_path: Path, chain: ChainRecord, genesis: GenesisRecord
) -> None:
    """They were stored before there was another one."""
    with ArchiverStore.open(tmp_path / "data") as store:
        store.adopt_chain(chain, genesis)
        store.database.write([(layout.KEY_RELEASE, None), (layout.KEY_SCHEMA, layout.SCHEMA_NAME + b"1")])
    with ArchiverStore.open(tmp_path / "data") as store:
        assert store.database.get(layout.KEY_SCHEMA) == layout.SCHEMA_NAME + b"%d" % layout.SCHEMA_VERSION
        assert store.chain.release is FOUR
        assert store.chain.node_version == "4.1.2"


@pytest.mark.parametrize("name", [b"9.x", None, b"\xff"])
def test_a_chain_of_a_release_without_a_record_is_refused(
    tmp_path: Path, chain: ChainRecord, genesis: GenesisRecord, name: bytes | None
) -> None:
    with ArchiverStore.open(tmp_path / "data") as store:
        store.adopt_chain(chain, genesis)
        store.database.write([(layout.KEY_RELEASE, name)])
    with (
        ArchiverStore.open(tmp_path / "data") as store,
        pytest.raises(DataDirectoryError, match="--release-record FILE"),
    ):
        store.open_view()


def change_l1_chain(record: Json) -> None:
    record["nodeInfo"]["l1ChainId"] = 1


def change_rollup(record: Json) -> None:
    record["nodeInfo"]["rollupVersion"] = 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_l1_chain, "holds another chain: its L1 chain id is 31337, the given chain's is 1"),
        (change_rollup, "holds another chain: its rollup version is 3658137161, the given chain's is 5"),
    ],
)
def test_another_chain_is_refused_with_both_values(
    store: ArchiverStore, sample: SampleChain, genesis: GenesisRecord, change: Callable[[Json], None], message: str
) -> None:
    record = orjson.loads(sample.lines[0])
    change(record)
    with pytest.raises(DataDirectoryError, match=message):
        store.adopt_chain(ChainRecord.from_json(record), genesis)


@pytest.mark.parametrize(
    ("key", "message"),
    [("blockHash", "its genesis block hash is 0x"), ("archiveRoot", "its genesis archive root is 0x")],
)
def test_another_genesis_is_refused_with_both_values(
    store: ArchiverStore, sample: SampleChain, chain: ChainRecord, key: str, message: str
) -> None:
    record = orjson.loads(sample.lines[1])
    record[key] = "0x" + "00" * 31 + "09"
    with pytest.raises(DataDirectoryError, match=rf"{message}\w{{64}}, the given chain's is 0x0+09"):
        store.adopt_chain(chain, GenesisRecord.from_json(record))


def test_a_genesis_whose_hash_is_not_its_headers_is_rejected(
    tmp_path: Path, sample: SampleChain, chain: ChainRecord
) -> None:
    record = orjson.loads(sample.lines[1])
    record["blockHash"] = "0x" + "00" * 31 + "09"
    with (
        ArchiverStore.open(tmp_path / "data") as store,
        pytest.raises(BlockRejected, match=r"genesis: blockHash is 0x0+09, its header hashes to 0x"),
    ):
        store.adopt_chain(chain, GenesisRecord.from_json(record))


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("nodeInfo", "l1ChainId", None, r"nodeInfo\.l1ChainId: expected a non-negative integer, got None"),
        ("nodeInfo", "rollupVersion", "x", r"nodeInfo\.rollupVersion: expected"),
        ("l1Constants", "epochDuration", 0, r"l1Constants\.epochDuration: must not be 0"),
        ("l1Constants", "slotDuration", -1, r"l1Constants\.slotDuration: expected"),
        ("l1Constants", "l1GenesisTime", True, r"l1Constants\.l1GenesisTime: expected"),
    ],
)
def test_a_chain_record_without_what_the_node_computes_with_is_refused(
    sample: SampleChain, section: str, key: str, value: Any, message: str
) -> None:
    record = orjson.loads(sample.lines[0])
    record[section][key] = value
    with pytest.raises(DecodeError, match=message):
        ChainRecord.from_json(record)


# ---- closing -----------------------------------------------------------------------------------


def test_the_database_closes_when_its_last_view_goes(store: ArchiverStore) -> None:
    view = store.open_view()
    assert store._database.owners == 2  # the store and the view
    store.close()
    assert view.tip_number == 0
    assert view.block_info(0) is not None
    with pytest.raises(DataDirectoryError, match="in use"):
        ArchiverStore.open(store.path.parent)
    view.close()
    ArchiverStore.open(store.path.parent).close()


def test_a_collected_view_lets_go_of_the_database(store: ArchiverStore) -> None:
    store.open_view()
    assert store._database.owners == 1


def test_closing_twice_is_harmless(store: ArchiverStore) -> None:
    view = store.open_view()
    view.close()
    view.close()
    store.close()
    store.close()


def test_a_closed_store_opens_no_views(store: ArchiverStore) -> None:
    store.close()
    with pytest.raises(DatabaseError, match="is closed"):
        store.open_view()


def test_a_closed_view_says_so(store: ArchiverStore) -> None:
    view = store.open_view()
    view.close()
    with pytest.raises(DatabaseError, match="this view of the chain is closed"):
        view.block_info(0)
    with pytest.raises(DatabaseError, match="this view of the chain is closed"):
        list(view.scan())
