"""``fastnode db check`` over all databases of a data directory: the chain with its indexes, the state trees, that they
agree, the pool and the offenses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastnode.archiver.check import DAMAGE, CheckReport, check_database
from fastnode.archiver.queries import ChainInfo, ChainView
from fastnode.archiver.store import ARCHIVER_DIRECTORY
from fastnode.chain_data import ChainData
from fastnode.errors import StartError
from fastnode.log_index.check import check_indexes
from fastnode.mempool.check import check_pool
from fastnode.mempool.store import POOL_DIRECTORY
from fastnode.protocol.header import StateReference
from fastnode.sentinel.offense_store import OFFENSES_DIRECTORY, OffenseStore
from fastnode.storage.database import reason_of
from fastnode.storage.database_files import is_database
from fastnode.storage.table_files import damaged_tables
from fastnode.world_state.layout import BlockRecord
from fastnode.world_state.state import WORLD_STATE_DIRECTORY, WorldState
from fastnode.world_state.trees import ARCHIVE, L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA

__all__ = ["check_chain", "check_data", "look_at_data"]

Progress = Callable[[int, int], None]


def check_data(
    data: ChainData,
    *,
    on_chain: Progress | None = None,
    on_indexes: Progress | None = None,
    on_state: Progress | None = None,
) -> CheckReport:
    """Work out again everything that is stored and compare.

    ``on_chain(done, total)`` and ``on_indexes(done, total)`` count blocks, ``on_state(done, total)`` the leaves of
    all trees.
    """
    report = check_chain(data, on_chain=on_chain, on_indexes=on_indexes)
    if data.store.has_chain:
        _check_state(report, data, on_state)
        _check_side_databases(report, data)
    _check_tables(report, data)
    return report


def check_chain(
    data: ChainData, *, on_chain: Progress | None = None, on_indexes: Progress | None = None
) -> CheckReport:
    """:func:`check_data` of the chain database and its indexes alone."""
    report = check_database(data.store, progress=on_chain)
    if data.store.has_chain:
        _check_indexes(report, data, on_indexes)
    return report


def look_at_data(data: ChainData) -> CheckReport:
    """Look for what a disk does, in a second per gigabyte: the checksums of all tables, the newest block, the state's
    roots beside its header, and some leaves of each tree with their paths.

    What was changed on purpose, checksums included, is found by :func:`check_data` alone.  Seals are compared, and logs
    read, where a database is opened.
    """
    report = CheckReport()
    if not data.store.has_chain:
        report.notes.append("the database holds no chain yet")
    else:
        try:
            with data.store.open_view() as chain:
                _look_at_newest(report, chain)
        except (StartError, *DAMAGE) as error:
            report.problems.append(f"the chain: {reason_of(error)}")
        _look_at_state(report, data)
        _check_side_databases(report, data)
    _check_tables(report, data)
    return report


def _look_at_newest(report: CheckReport, chain: ChainView) -> None:
    """The newest block is there whole, with the hash that the tips name; the counts are those of the chain."""
    report.blocks = chain.tip_number
    if chain.tip_number == 0:
        return
    block = chain.load_block(chain.tip_number)
    if block is None:
        report.problems.append(f"block {chain.tip_number}: it is not there")
        return
    report.checkpoints = block.checkpoint_number
    named = chain.block_id(chain.tip_number).hash
    if block.header.hash() != named:
        report.problems.append(f"block {chain.tip_number}: its header does not have the hash 0x{named.hex()}")


def _look_at_state(report: CheckReport, data: ChainData) -> None:
    if not _is_there(data.directory.path / WORLD_STATE_DIRECTORY):
        report.notes.append("there are no state trees yet; the next start builds them from the chain")
        return
    try:
        with data.store.open_view() as chain:
            state = data.state
            tip = state.view.tip
            _compare(report, chain, tip)
            block = chain.load_block(tip.number)
            if block is not None:
                _compare_with_header(report, block.header.state, tip)
            report.problems.extend(f"the state trees: {fault}" for fault in state.check_sampled())
    except (StartError, *DAMAGE) as error:
        report.problems.append(f"the state trees: {reason_of(error)}")


def _compare_with_header(report: CheckReport, named: StateReference, tip: BlockRecord) -> None:
    snapshots = {
        NULLIFIER: named.nullifier_tree,
        NOTE_HASH: named.note_hash_tree,
        PUBLIC_DATA: named.public_data_tree,
        L1_TO_L2: named.l1_to_l2_message_tree,
    }
    for tree, snapshot in snapshots.items():
        if (tip.roots[tree.id], tip.sizes[tree.id]) != (snapshot.root, snapshot.next_available_leaf_index):
            report.problems.append(f"the state trees: block {tip.number}: {tree.name}: it is not that of the header")


def _check_indexes(report: CheckReport, data: ChainData, progress: Progress | None) -> None:
    if report.clean:  # of a broken chain nothing can be worked out
        with data.store.open_view() as chain:
            problems, notes = check_indexes(chain, progress=progress)
        report.problems.extend(f"the indexes: {problem}" for problem in problems)
        report.notes.extend(notes)


def _check_tables(report: CheckReport, data: ChainData) -> None:
    """Report which files are damaged: a failed read does not name the table, and a damaged filter only costs time."""
    told = report.notes if report.problems else report.problems
    for folder in (ARCHIVER_DIRECTORY, WORLD_STATE_DIRECTORY, POOL_DIRECTORY, OFFENSES_DIRECTORY):
        path = data.directory.path / folder
        if _is_there(path):
            found = damaged_tables(path)
            told.extend(f"the table {path / name} is damaged: {found[name]}" for name in sorted(found))


def _check_state(report: CheckReport, data: ChainData, progress: Progress | None) -> None:
    if not _is_there(data.directory.path / WORLD_STATE_DIRECTORY):
        report.notes.append("there are no state trees yet; the next start builds them from the chain")
        return
    try:
        state = data.state
        with data.store.open_view() as chain:
            _compare(report, chain, state.view.tip)
        report.problems.extend(_roots(state, progress))
    except (StartError, *DAMAGE) as error:
        report.problems.append(f"the state trees: {reason_of(error)}")


def _check_side_databases(report: CheckReport, data: ChainData) -> None:
    """The databases beside the chain, where there are any."""
    checks = (("the pool", POOL_DIRECTORY, _check_pool), ("the offenses", OFFENSES_DIRECTORY, _check_offenses))
    for name, folder, check in checks:
        path = data.directory.path / folder
        if not _is_there(path):
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


def _is_there(path: Path) -> bool:
    return is_database(path)


def _roots(state: WorldState, progress: Progress | None) -> list[str]:
    return [f"the state trees: {fault}" for fault in state.check(progress=progress)]


def _compare(report: CheckReport, chain: ChainView, state: BlockRecord) -> None:
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
