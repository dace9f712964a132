"""Making a snapshot of leaves: the files of the chain database, and the leaves of the state from a view of it.

Parts are named by their content.  A part that is there already is used again: from a snapshot before this one, whose
tables are mostly the same, or from an attempt that was killed.  What no snapshot names is removed once it is a day old.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.archiver.layout import SCHEMA_VERSION as ARCHIVER_SCHEMA
from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.errors import SnapshotError
from fastnode.log import log_facts
from fastnode.snapshots.archive import CHUNK_BYTES, ArchiveFacts
from fastnode.snapshots.contents import ChainContents, read_chain_contents
from fastnode.snapshots.create import OnProgress, copied, free_timestamp, ignore_progress, told_of_the_disk
from fastnode.snapshots.leaf_index import (
    LIST_BYTES_MAX,
    PART_ROWS,
    SHIPPED,
    LeafIndex,
    LeafSnapshot,
    PartList,
    facts_of,
    part_name,
)
from fastnode.snapshots.location import Location
from fastnode.storage.leveldb_copy import settle_copy
from fastnode.world_state.layout import LEAF_ROW_BYTES
from fastnode.world_state.state import WORLD_STATE_DIRECTORY, WorldState
from fastnode.world_state.trees import Tree

if TYPE_CHECKING:
    from fastnode.world_state.leaves import LeavesOfBlock

__all__ = ["create_leaf_snapshot", "leaves_to_ship"]

logger = logging.getLogger(__name__)

#: Age at which a part that no snapshot names is removed, in seconds.  It may be of an upload that goes on.
_LEFT_AFTER_S: Final = 86_400.0
#: A younger one may be used again: it stays for longer than the rest of this upload takes.
_USED_BEFORE_S: Final = _LEFT_AFTER_S / 2


def leaves_to_ship(store: ArchiverStore, state: WorldState) -> LeavesOfBlock:
    """The leaves after the newest block that is final, or else proven, or else on L1, of those with history.

    What comes after it is caught up by the receiver, who can undo that and no more.  SnapshotError without one.
    """
    with store.open_view() as view:
        if (state.block_number, state.block_hash) != (view.tip_number, view.block_id(view.tip_number).hash):
            raise SnapshotError(
                "the state trees are not at the chain's newest block; they get there when the node runs"
            )
        tips, oldest = view.tips, state.view.oldest
        for tip in (tips.finalized, tips.proven, tips.checkpointed):
            if tip.block.number >= max(1, oldest):
                return state.leaves_at(tip.block.number)
    if tips.checkpointed.block.number == 0:
        raise SnapshotError("the chain has no whole checkpoint yet: nothing could confirm a snapshot of its leaves")
    raise SnapshotError(
        f"the state has history from block {oldest} on, the newest checkpoint ends with block "
        f"{tips.checkpointed.block.number}: a snapshot of leaves is made once there is a newer one"
    )


def create_leaf_snapshot(
    directory: Path,
    location: Location,
    pause: AbstractContextManager[object],
    leaves: Callable[[], LeavesOfBlock],
    *,
    on_progress: OnProgress = ignore_progress,
) -> LeafSnapshot:
    """Copy the chain database of the locked data directory within ``pause``, call ``leaves`` there, and upload both.

    SnapshotError when the location or the disk refuses, or there is nothing to copy.
    """
    with told_of_the_disk(directory), copied(directory, pause, (ARCHIVER_DIRECTORY,), leaves) as (copy, found):
        contents = read_chain_contents(copy)
        settle_copy(copy / ARCHIVER_DIRECTORY)
        size_max = sum(file.stat().st_size for file in (directory / WORLD_STATE_DIRECTORY).iterdir())
        return _Upload(copy / ARCHIVER_DIRECTORY, contents, found, location, on_progress).run(size_max)


class _Upload:
    def __init__(
        self,
        chain: Path,
        contents: ChainContents,
        leaves: LeavesOfBlock,
        location: Location,
        on_progress: OnProgress,
    ) -> None:
        self._chain = chain
        self._contents = contents
        self._leaves = leaves
        self._location = location
        self._network = contents.network
        self._on_progress = on_progress
        self._done = 0
        self._chain_bytes = sum(file.stat().st_size for file in chain.iterdir())
        #: Size and age of each part that is at the location, by SHA-256.
        self._there: dict[str, tuple[int, float]] = {}
        #: Parts that are there and that a snapshot names; not looked for yet: None.
        self._named: set[str] | None = None
        self._used_again = 0

    def run(self, leaf_bytes_max: int) -> LeafSnapshot:
        location, contents, record = self._location, self._contents, self._leaves.record
        index = location.read_leaf_index(self._network)  # one that cannot be added to is found before the upload
        self._there = location.ages(self._network, "parts")
        if location.kept_max is not None:
            self._leave_newest(index, location.kept_max - 1)
        files = {file.name: self._facts_of_file(file) for file in sorted(self._chain.iterdir())}
        missing = sum(facts.bytes for facts in files.values() if not self._is_there(facts))
        location.require_room(missing, missing + leaf_bytes_max)
        # Leaves first: they hold a view of the state, and are the smaller part.
        leaves = tuple(tuple(self._put_leaves(tree)) for tree in SHIPPED)
        for name, facts in files.items():
            self._put_file(self._chain / name, facts)
        parts = PartList(files, leaves)
        text = parts.to_bytes()
        if len(text) > LIST_BYTES_MAX:
            raise SnapshotError(f"the list of its {len(files)} files has more than {LIST_BYTES_MAX} bytes")
        snapshot = LeafSnapshot(
            l1_block_number=contents.l1_block_number,
            l2_block_hash=contents.block_hash,
            l2_block_number=contents.block_number,
            state_block_hash=f"0x{record.block_hash.hex()}",
            state_block_number=record.number,
            timestamp_ms=free_timestamp(index.snapshots, contents.block_hash),
            schema=ARCHIVER_SCHEMA,
            bytes=parts.size,
            parts=facts_of(text),
        )
        location.write_file(self._network, snapshot.list_name, text)
        # Last, and read again: an index never names what is not there, nor loses what came meanwhile.
        location.write_index(location.read_leaf_index(self._network).with_snapshot(snapshot).newest(location.kept_max))
        self._remove_left({facts.sha256 for facts in parts})
        shown = log_facts(block=record.number, leaf_bytes=parts.leaf_bytes, parts_used_again=self._used_again)
        logger.info("leaves uploaded", extra=shown)
        return snapshot

    def _put_leaves(self, tree: Tree) -> Iterator[ArchiveFacts]:
        """Parts of so many leaves: they do not depend on how many are read at a time."""
        part_bytes, waiting = PART_ROWS * LEAF_ROW_BYTES[tree.id], bytearray()
        for rows in self._leaves.rows(tree):
            waiting += rows
            if len(waiting) >= part_bytes:
                yield self._put_part(bytes(waiting[:part_bytes]))
                del waiting[:part_bytes]
        if waiting:
            yield self._put_part(bytes(waiting))

    def _put_part(self, content: bytes) -> ArchiveFacts:
        facts = facts_of(content)
        if not self._is_used_again(facts):
            self._location.write_archive(self._network, part_name(facts), [content])
        self._advance(facts.bytes)
        return facts

    def _facts_of_file(self, file: Path) -> ArchiveFacts:
        self._advance(0)
        digest, count = hashlib.sha256(), 0
        for chunk in _chunks(file):
            digest.update(chunk)
            count += len(chunk)
        return ArchiveFacts(count, digest.hexdigest())

    def _put_file(self, file: Path, facts: ArchiveFacts) -> None:
        if self._is_used_again(facts):
            self._advance(facts.bytes)
        else:
            chunks = _told(_chunks(file), self._advance)
            self._location.write_archive(self._network, part_name(facts), chunks)

    def _advance(self, count: int) -> None:
        self._done += count
        self._on_progress(self._done, max(self._done, self._chain_bytes))

    # ---- parts that are there already --------------------------------------------------------

    def _is_there(self, facts: ArchiveFacts) -> bool:
        """True for a part that may be used again."""
        told, age = self._there.get(facts.sha256, (-1, 0.0))
        is_same = self._location.is_same_size(told, facts.bytes)
        return is_same and (age < _USED_BEFORE_S or facts.sha256 in self._names())

    def _is_used_again(self, facts: ArchiveFacts) -> bool:
        """Likewise, and count it."""
        is_there = self._is_there(facts)
        self._used_again += is_there
        return is_there

    def _leave_newest(self, index: LeafIndex, count: int) -> None:
        """Remove all but so many snapshots, and what none of these names: the next one gets their room."""
        left = index.newest(count)
        if left != index:
            self._location.write_index(left)
        for snapshot in index.snapshots[count:]:
            self._location.remove(self._network, snapshot.list_name)
        for name in sorted(self._there.keys() - self._names()):
            self._location.remove(self._network, f"parts/{name}")
            del self._there[name]

    def _names(self) -> set[str]:
        """The parts of all snapshots, as far as they are there."""
        if self._named is None:
            self._named = set(_named_parts(self._location, self._location.read_leaf_index(self._network)))
            self._named &= self._there.keys()
        return self._named

    def _remove_left(self, own: set[str]) -> None:
        old = {name for name, (_, age) in self._there.items() if age > _LEFT_AFTER_S} - own
        if not old:
            return
        try:
            for name in sorted(old - self._names()):
                self._location.remove(self._network, f"parts/{name}")
        except SnapshotError as error:  # the snapshot is whole all the same
            logger.warning("parts that no snapshot has stay", extra=log_facts(reason=str(error)))


def _named_parts(location: Location, index: LeafIndex) -> Iterator[str]:
    """SnapshotError when a list cannot be read: then nobody knows what it names."""
    for snapshot in index.snapshots:
        text = location.read_file(index.network, snapshot.list_name, LIST_BYTES_MAX, snapshot.list_name)
        if text is not None:
            yield from (facts.sha256 for facts in PartList.from_bytes(text))


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as content:
        yield from iter(partial(content.read, CHUNK_BYTES), b"")


def _told(chunks: Iterator[bytes], on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        on_bytes(len(chunk))
