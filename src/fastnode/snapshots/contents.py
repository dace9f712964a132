"""Contents of the databases of a snapshot, and the check of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from fastnode.archiver.check import CheckReport
from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import StoredCheckpoint
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.data_check import check_data
from fastnode.errors import DatabaseError, SnapshotError, StartError
from fastnode.protocol.checkpoint import L1PublishedData
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.records import dataclass
from fastnode.snapshots.index import Network, Snapshot

__all__ = [
    "OPTIONS",
    "ChainContents",
    "Contents",
    "named_problems",
    "newest_l1_block",
    "read_chain_contents",
    "read_contents",
    "require_told",
    "verify_contents",
]

#: A look at the contents needs no caches.
OPTIONS: Final = ChainOptions(world_state_cache_mb=1, tag_filter_mb=1)

_NO_L1_BLOCK: Final = L1PublishedData(0, 0, bytes(FIELD_BYTES))
#: Problems that a message names.
_PROBLEMS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainContents:
    """Contents of the chain database."""

    network: Network
    block_number: int
    block_hash: str
    #: The newest complete checkpoint, its last block, the archive root after it and the L1 block that brought it; 0 if
    #: there is none.
    checkpoint_number: int
    checkpoint_block_number: int
    checkpoint_block_hash: str
    archive_root: bytes
    l1_block_number: int
    l1_block_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents(ChainContents):
    """Contents of both databases."""

    state_block_number: int
    state_block_hash: str
    #: The oldest block that the state can be asked for and go back to.
    oldest_block_number: int
    oldest_block_hash: str

    @property
    def state_is_behind(self) -> bool:
        """Or of another branch."""
        return (self.state_block_number, self.state_block_hash) != (self.block_number, self.block_hash)


def read_chain_contents(directory: Path) -> ChainContents:
    """Contents of the chain database in ``directory``; SnapshotError if it cannot be opened."""
    try:
        with ChainData.open(directory, create=False, options=OPTIONS) as data:
            return ChainContents(**_chain_facts(data))
    except (StartError, DatabaseError) as error:
        raise SnapshotError(str(error)) from error


def read_contents(directory: Path) -> Contents:
    """Contents of the databases in ``directory``; SnapshotError if they cannot be opened."""
    try:
        with ChainData.open(directory, create=False, options=OPTIONS) as data:
            return _contents(data)
    except (StartError, DatabaseError) as error:
        raise SnapshotError(str(error)) from error


def verify_contents(
    directory: Path, network: Network, snapshot: Snapshot, *, on_progress: Callable[[int, int], None] | None = None
) -> None:
    """Work out every hash and every root again; SnapshotError unless all is right and is what ``snapshot`` says."""
    try:
        with ChainData.open(directory, create=False, options=OPTIONS) as data:
            report = check_data(data, progress=on_progress)
            if report.problems:
                raise SnapshotError(f"its databases are wrong: {named_problems(report)}")
    except (StartError, DatabaseError) as error:
        raise SnapshotError(f"its databases cannot be used: {error}") from error
    require_told(directory, network, snapshot)


class Told(Protocol):
    """Facts of a snapshot that its index tells."""

    @property
    def l2_block_number(self) -> int: ...

    @property
    def l2_block_hash(self) -> str: ...

    @property
    def l1_block_number(self) -> int: ...


def named_problems(report: CheckReport) -> str:
    """The first problems of a report, in one line."""
    return "; ".join(report.problems[:_PROBLEMS_SHOWN])


def require_told(directory: Path, network: Network, snapshot: Told) -> None:
    """SnapshotError unless the databases in ``directory`` are at the block that the index tells, of this network."""
    contents = read_contents(directory)
    if contents.network != network:
        raise SnapshotError(f"it is of the network {contents.network.folder}, not of {network.folder}")
    found = (contents.block_number, contents.block_hash, contents.l1_block_number)
    if found != (snapshot.l2_block_number, snapshot.l2_block_hash, snapshot.l1_block_number):
        raise SnapshotError(
            f"its newest block is {contents.block_number} ({contents.block_hash}) of L1 block "
            f"{contents.l1_block_number}, which is not what the index says"
        )
    if contents.state_is_behind:
        raise SnapshotError(f"its state trees are at block {contents.state_block_number}, not at the newest one")


def _contents(data: ChainData) -> Contents:
    facts, state = _chain_facts(data), data.state
    return Contents(
        **facts,
        state_block_number=state.block_number,
        state_block_hash=f"0x{state.block_hash.hex()}",
        oldest_block_number=state.view.oldest,
        oldest_block_hash=f"0x{state.view.block_hash(state.view.oldest).hex()}",
    )


def _chain_facts(data: ChainData) -> dict[str, Any]:
    """The fields of :class:`ChainContents`."""
    if not data.store.has_chain:
        raise SnapshotError(f"the database {data.store.path} holds no chain")
    with data.store.open_view() as view:
        newest = view.block_info(view.tip_number)
        if newest is None:
            raise SnapshotError(f"the database {data.store.path} lacks its newest block")
        checkpoint = view.checkpoint(view.tips.checkpointed.checkpoint.number)
        l1 = _NO_L1_BLOCK if checkpoint is None else _l1_of(checkpoint)
        last = view.tips.checkpointed.block
        root = view.chain.genesis_archive_root if checkpoint is None else checkpoint.archive_root
        return {
            "network": Network.of(data.store.chain),
            "block_number": newest.number,
            "block_hash": f"0x{newest.hash.hex()}",
            "checkpoint_number": 0 if checkpoint is None else checkpoint.number,
            "checkpoint_block_number": last.number,
            "checkpoint_block_hash": f"0x{last.hash.hex()}",
            "archive_root": root,
            "l1_block_number": l1.block_number,
            "l1_block_hash": l1.block_hash,
        }


def newest_l1_block(view: ChainView) -> int:
    """The L1 block of the newest complete checkpoint; 0 if there is none."""
    checkpoint = view.checkpoint(view.tips.checkpointed.checkpoint.number)
    return 0 if checkpoint is None else _l1_of(checkpoint).block_number


def _l1_of(checkpoint: StoredCheckpoint) -> L1PublishedData:
    return L1PublishedData.from_json(orjson.loads(checkpoint.l1_json), "l1")
