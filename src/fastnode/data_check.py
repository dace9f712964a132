"""``fastnode db check`` over all databases of a data directory: the chain with its indexes, the state trees, and that
they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fastnode.archiver.check import DAMAGE, CheckReport, check_database
from fastnode.archiver.database import reason_of
from fastnode.archiver.queries import ChainView
from fastnode.chain_data import ChainData
from fastnode.errors import StartError
from fastnode.logs.check import check_indexes
from fastnode.world_state.layout import BlockRecord
from fastnode.world_state.state import WORLD_STATE_DIRECTORY, WorldState
from fastnode.world_state.trees import ARCHIVE

__all__ = ["check_data"]

Progress = Callable[[int, int], None]

#: Present in every LevelDB.
_LEVELDB_FILE: Final = "CURRENT"


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
    report = check_database(data.store, progress=on_chain)
    if not data.store.has_chain:
        return report
    if report.clean:  # of a broken chain nothing can be worked out
        with data.store.open_view() as chain:
            problems, notes = check_indexes(chain, progress=on_indexes)
        report.problems.extend(f"the indexes: {problem}" for problem in problems)
        report.notes.extend(notes)
    if not (data.directory.path / WORLD_STATE_DIRECTORY / _LEVELDB_FILE).is_file():
        report.notes.append("there are no state trees yet; the next start builds them from the chain")
        return report
    try:
        state = data.open_state()
        with data.store.open_view() as chain:
            _compare(report, chain, state.view.tip)
        report.problems.extend(_roots(state, on_state))
    except (StartError, *DAMAGE) as error:
        report.problems.append(f"the state trees: {reason_of(error)}")
    return report


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
