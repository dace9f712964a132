"""Check of a downloaded snapshot of leaves, and the making of its trees.

    chain database ──► every block, checkpoint and index worked out again
    leaves         ──► trees after a block of it ──► five roots beside the block's header and its archive
    blocks after   ──► applied one by one, their roots beside their headers

Leaves of the archive are the hashes of the blocks that are there: an archive root that L1 has is of these headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from fastnode.archiver.queries import ChainView, stored_info
from fastnode.chain_data import ChainData
from fastnode.data_check import check_chain
from fastnode.errors import BlockRejected, DatabaseError, SnapshotError, StartError, VerificationError
from fastnode.protocol.header import BlockHeader
from fastnode.snapshots.contents import OPTIONS, named_problems, require_told
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import SHIPPED, LeafSnapshot, PartList
from fastnode.world_state.layout import LEAF_ROW_BYTES, BlockRecord, u48
from fastnode.world_state.rebuild import rebuild
from fastnode.world_state.trees import ARCHIVE, Tree

__all__ = ["verify_leaves"]

#: Rows that are read at a time.
_ROWS: Final = 8192

Progress = Callable[[int, int], None]


def verify_leaves(
    directory: Path, network: Network, snapshot: LeafSnapshot, parts: PartList, *, on_progress: Progress
) -> None:
    """Check the chain database in ``directory`` and make the state beside it; SnapshotError unless all is right and is
    what ``snapshot`` says."""
    try:
        with ChainData.open(directory, create=False, options=OPTIONS) as data:
            report = check_chain(data, progress=on_progress)
            if report.problems:
                raise SnapshotError(f"its databases are wrong: {named_problems(report)}")
            if not data.store.has_chain:
                raise SnapshotError("its chain database is empty")
            _make_trees(data, directory, snapshot, parts, on_progress)
            data.open_ingestor(verify=False).catch_up()
    except (StartError, DatabaseError) as error:
        raise error if isinstance(error, SnapshotError) else SnapshotError(f"it cannot be used: {error}") from error
    except VerificationError as error:
        raise SnapshotError(str(error)) from error
    except BlockRejected as error:
        raise SnapshotError(f"its blocks do not follow from its leaves: {error}") from error
    require_told(directory, network, snapshot)


def _make_trees(
    data: ChainData, directory: Path, snapshot: LeafSnapshot, parts: PartList, on_progress: Progress
) -> None:
    block, total, done = snapshot.state_block_number, max(1, parts.leaf_bytes), 0

    def on_leaves(tree: Tree, count: int) -> None:
        nonlocal done
        done += count * LEAF_ROW_BYTES[tree.id]
        on_progress(min(done, total), total)

    with data.store.open_view() as view:
        info = view.block_info(block)
        if block < 1 or info is None or f"0x{info.hash.hex()}" != snapshot.state_block_hash:
            raise SnapshotError(f"its chain has no block {block} with the hash {snapshot.state_block_hash}")

        def rows_of(tree: Tree) -> Iterable[bytes]:
            if tree.id == ARCHIVE.id:
                return _archive_rows(view, block)
            return _rows(directory / "parts", parts, tree)

        rebuild(
            directory,
            data.store.load_genesis(),
            _records(view, block),
            rows_of,
            data.store.chain.release.trees,
            on_leaves=on_leaves,
        )


def _records(view: ChainView, last: int) -> Iterator[BlockRecord]:
    """Roots and sizes after the blocks from 1 on, as their headers have them."""
    for number in range(1, last + 1):
        block = view.block(number)
        if block is None:
            raise SnapshotError(f"its chain has no block {number}")
        header = view.header_json(number)
        assert header is not None
        state = BlockHeader.from_json(orjson.loads(header), "header").state
        archive = orjson.loads(block.archive_json)
        trees = (state.nullifier_tree, state.note_hash_tree, state.public_data_tree, state.l1_to_l2_message_tree)
        yield BlockRecord(
            number=number,
            roots=(*(tree.root for tree in trees), block.info.archive_root),
            sizes=(*(tree.next_available_leaf_index for tree in trees), int(archive["nextAvailableLeafIndex"])),
            block_hash=block.info.hash,
            checkpoint_number=block.info.checkpoint_number,
        )


def _archive_rows(view: ChainView, last: int) -> Iterator[bytes]:
    numbers = iter(range(last + 1))
    while some := list(islice(numbers, _ROWS)):
        yield b"".join([u48(number) + stored_info(view, number).hash for number in some])


def _rows(folder: Path, parts: PartList, tree: Tree) -> Iterator[bytes]:
    for facts in parts.leaves[SHIPPED.index(tree)]:
        with (folder / facts.sha256).open("rb") as rows:
            while some := rows.read(_ROWS * LEAF_ROW_BYTES[tree.id]):
                yield some
