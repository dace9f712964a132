"""A local network that begins with a copy of another chain: of a chain file, a data directory or a node.

Every block of the copy is verified as it is taken over.  The copy keeps the rollup version and the addresses of its
source, so that wallets go on with what they know; nothing follows the source afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.archiver import layout
from fastnode.archiver.ingest import Ingestor
from fastnode.archiver.source import ChainRecord, CheckpointRecord, GenesisRecord, Record
from fastnode.archiver.store import ArchiverStore
from fastnode.errors import FastnodeError, Refused, SettingError, StartError, UpstreamError
from fastnode.log import log_facts
from fastnode.records import dataclass
from fastnode.sources.chain_export import stored_records
from fastnode.sources.chain_file import ChainFileSource
from fastnode.storage.data_directory import DataDirectory
from fastnode.values.urls import without_secrets

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.local_network.options import Fork

__all__ = ["SNAPSHOT", "SNAPSHOTS", "ForkedChain", "check_fork", "open_fork"]

logger = logging.getLogger(__name__)

#: Prefix of a snapshot for --fork-from, and the locations that can be nothing else.
SNAPSHOT: Final = "snapshot:"
SNAPSHOTS: Final = (SNAPSHOT, "file://", "s3://", "gs://")
#: Pages of a node that are fetched ahead.
FETCHING_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class ForkedChain:
    """A chain to copy: the network, without a demand for proofs, and its records."""

    chain: ChainRecord
    genesis: GenesisRecord
    #: The source as it is shown: no secrets of a URL.
    name: str
    _source: _FileOrDirectory | _Node

    @property
    def newest(self) -> int | None:
        """Newest block of the source, as far as it is known."""
        return self._source.newest

    def copy_into(self, ingestor: Ingestor, newest: int | None) -> int:
        """Take over the checkpoints up to block ``newest``, or all; returns the newest block.

        StartError when the source lacks that block or ends before its time.
        """
        try:
            for record in self._source.records(ingestor):
                if isinstance(record, CheckpointRecord):
                    last = record.block_headers[-1].global_variables.block_number
                    if newest is not None and last > newest:
                        break
                    ingestor.apply(record)
        except UpstreamError as error:
            raise StartError(f"--fork-from: {error}") from error
        tip = ingestor.view.tip_number
        if newest is not None and tip < newest and not self._source.has_block(newest):
            raise SettingError(f"--fork-block-number {newest}: the newest block there is {tip}")
        logger.info("forked", extra=log_facts(tip=tip, rollup_version=self.chain.node_info["rollupVersion"]))
        return tip


class _FileOrDirectory:
    """Records that are all here."""

    def __init__(self, records: Iterable[Record], newest: int | None) -> None:
        self._records = records
        self.newest = newest
        self._seen = 0

    def records(self, _ingestor: Ingestor) -> Iterator[Record]:
        for record in self._records:
            if isinstance(record, CheckpointRecord):
                self._seen = record.block_headers[-1].global_variables.block_number
            yield record

    def has_block(self, number: int) -> bool:
        return number <= max(self._seen, self.newest or 0)


class _Node:
    """Another node, asked until nothing new comes."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        from fastnode.outgoing.network import Network
        from fastnode.sources.genesis import learn_chain
        from fastnode.sources.upstream import UpstreamSource
        from fastnode.sources.upstreams import Upstream

        upstream = Upstream(url, stack.enter_context(Network()), "--fork-from")
        try:
            upstream.identify()
            self.chain, self.genesis = learn_chain(upstream)
            (tip,) = upstream.ask([("node_getBlockNumber", [])]).answers
        except UpstreamError as error:
            raise StartError(f"--fork-from {url}: {error}") from error
        self.newest = tip if isinstance(tip, int) else None
        threads = stack.enter_context(ThreadPoolExecutor(FETCHING_THREADS, thread_name_prefix="fork"))
        self._source = UpstreamSource(upstream, threads)

    def records(self, ingestor: Ingestor) -> Iterator[Record]:
        yield from self._source.records(lambda: ingestor.view)

    def has_block(self, number: int) -> bool:
        return self.newest is not None and number <= self.newest


@contextmanager
def open_fork(source: str) -> Iterator[ForkedChain]:
    """``source``: a URL, a data directory that no process uses, or a chain file; StartError says what is wrong."""
    with ExitStack() as stack:
        if source.startswith(("http://", "https://")):
            node = _Node(source, stack)
            yield ForkedChain(_without_proofs(node.chain), node.genesis, without_secrets(source), node)
        elif (path := Path(source)).is_dir():
            yield _of_directory(path, stack)
        else:
            file = stack.enter_context(ChainFileSource(path))
            records = _FileOrDirectory(file.records(), None)
            yield ForkedChain(_without_proofs(file.chain), file.genesis, source, records)


def check_fork(fork: Fork, allowed: Sequence[str]) -> None:
    """Refused for a source that the operator has not named, and for one that gives no chain now."""
    source = fork.source
    if source is None:
        return
    if source not in allowed:
        raise Refused(
            "A reset copies from what --fork-from and --fork-sources name only: start the node with --fork-sources to "
            "allow others",
            data={"code": "FORK_NOT_ALLOWED"},
        )
    if not source.startswith(SNAPSHOTS):  # looked for when it is fetched
        try:
            with open_fork(source):
                return
        except FastnodeError as error:
            raise Refused(f"The network is as it was: {error}", data={"code": "FORK_FAILED"}) from None


def _of_directory(path: Path, stack: ExitStack) -> ForkedChain:
    directory = DataDirectory.open(path, create=False)
    stack.callback(directory.close)
    store = stack.enter_context(ArchiverStore.open(path, create=False))
    view: ChainView = stack.enter_context(store.open_view())
    stored = view.get(layout.KEY_CHAIN)
    if stored is None:
        raise SettingError(f"--fork-from {path}: the data directory holds no chain yet")
    chain = ChainRecord.from_json(orjson.loads(stored))
    records = _FileOrDirectory(stored_records(view, 1), view.tip_number)
    return ForkedChain(_without_proofs(chain), store.load_genesis(), str(path), records)


def _without_proofs(chain: ChainRecord) -> ChainRecord:
    """Nothing is proven here, and wallets must know it."""
    return ChainRecord({**chain.node_info, "realProofs": False}, chain.l1_constants, None)
