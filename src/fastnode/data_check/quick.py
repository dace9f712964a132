"""The quick look of ``fastnode db check --quick``: for what a disk does, not for what was changed on purpose."""

from __future__ import annotations

from fastnode.archiver.check import DAMAGE, CheckReport
from fastnode.archiver.queries import ChainView
from fastnode.chain_data import ChainData
from fastnode.data_check.side_databases import check_side_databases, check_tables, compare_state
from fastnode.errors import StartError
from fastnode.protocol.header import StateReference
from fastnode.storage.database import reason_of
from fastnode.storage.database_files import is_database
from fastnode.world_state.layout import BlockRecord
from fastnode.world_state.state import WORLD_STATE_DIRECTORY
from fastnode.world_state.trees import L1_TO_L2, NOTE_HASH, NULLIFIER, PUBLIC_DATA

__all__ = ["look_at_data"]


def look_at_data(data: ChainData) -> CheckReport:
    """Look for what a disk does, in a second per gigabyte: the checksums of all tables, the newest block, the state's
    roots beside its header, and some leaves of each tree with their paths.

    What was changed on purpose, checksums included, is found by the whole check alone.  Seals are compared, and logs
    read, where a database is opened.
    """
    report, has_chain = CheckReport(), True
    try:
        has_chain = data.store.has_chain
        if not has_chain:
            report.notes.append("the database holds no chain yet")
        else:
            with data.store.open_view() as chain:
                _look_at_newest(report, chain)
    except (StartError, *DAMAGE) as error:
        report.problems.append(f"the chain: {reason_of(error)}")
    if has_chain:
        _look_at_state(report, data)
        check_side_databases(report, data)
    check_tables(report, data)
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
    if not is_database(data.directory.path / WORLD_STATE_DIRECTORY):
        report.notes.append("there are no state trees yet; the next start builds them from the chain")
        return
    try:
        with data.store.open_view() as chain:
            state = data.state
            tip = state.view.tip
            compare_state(report, chain, tip)
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
