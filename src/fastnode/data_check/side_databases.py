"""Databases beside the chain, where there are any, and the files of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastnode.archiver.check import DAMAGE, CheckReport
from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.chain_data import ChainData
from fastnode.errors import StartError
from fastnode.mempool.check import check_pool
from fastnode.mempool.store import POOL_DIRECTORY
from fastnode.sentinel.offense_store import OFFENSES_DIRECTORY, OffenseStore
from fastnode.storage.database import reason_of
from fastnode.storage.database_files import is_database
from fastnode.storage.table_files import damaged_tables
from fastnode.world_state.layout import BlockRecord
from fastnode.world_state.state import WORLD_STATE_DIRECTORY
from fastnode.world_state.trees import ARCHIVE

__all__ = ["FOLDERS", "check_side_databases", "check_tables", "compare_state"]

#: Folders of all databases.
FOLDERS: Final = (ARCHIVER_DIRECTORY, WORLD_STATE_DIRECTORY, POOL_DIRECTORY, OFFENSES_DIRECTORY)


def check_side_databases(report: CheckReport, data: ChainData) -> None:
    """The databases beside the chain, where there are any."""
    checks = (("the pool", POOL_DIRECTORY, _check_pool), ("the offenses", OFFENSES_DIRECTORY, _check_offenses))
    for name, folder, check in checks:
        path = data.directory.path / folder
        if not is_database(path):
            continue
        try:
            with data.store.open_view() as chain:
                found = check(path, chain.chain)
            report.problems.extend(f"{name}: {problem}" for problem in found)
        except (StartError, *DAMAGE) as error:
            report.problems.append(f"{name}: {reason_of(error)}")


def _check_pool(path: Path, chain: ChainInfo) -> list[str]:
    return check_pool(path, chain.genesis_block_hash, chain.release)


def _check_offenses(path: Path, chain: ChainInfo) -> list[str]:
    """Opening it reads all of it."""
    OffenseStore.open(path, chain.genesis_block_hash).close()
    return []


def check_tables(report: CheckReport, data: ChainData) -> None:
    """Report which files are damaged: a failed read does not name the table, and a damaged filter only costs time."""
    told = report.notes if report.problems else report.problems
    for folder in FOLDERS:
        path = data.directory.path / folder
        if is_database(path):
            found = damaged_tables(path)
            told.extend(f"the table {path / name} is damaged: {found[name]}" for name in sorted(found))


def compare_state(report: CheckReport, chain: ChainView, state: BlockRecord) -> None:
    """The state's newest block must be one of the chain; being behind it is what a crash leaves."""
    if state.number != chain.tip_number:
        where = f"the state is at block {state.number}, the chain at {chain.tip_number}"
        report.notes.append(f"{where}; the next start brings it there")
    info = chain.block_info(state.number)
    if info is None:
        return  # the chain's own check has named the gap
    where = f"the state trees: block {state.number}"
    if state.block_hash != info.hash:
        report.problems.append(f"{where}: its hash is 0x{state.block_hash.hex()}, in the chain 0x{info.hash.hex()}")
    if state.roots[ARCHIVE.id] != info.archive_root:
        report.problems.append(f"{where}: the archive root differs from the chain's")
