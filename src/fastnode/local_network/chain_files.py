"""The chain of a local network as one chain file, to be saved and loaded."""

from __future__ import annotations

import gzip
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fastnode.archiver.source import CheckpointRecord, TipsRecord
from fastnode.errors import BlockRejected, ChainFileError, FastnodeError, Refused, StartError
from fastnode.log import log_facts
from fastnode.sources.chain_export import export_chain_file
from fastnode.sources.chain_file import ChainFileSource

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.local_network.network import LocalNetwork

__all__ = ["StateDump", "dump_chain", "load_chain"]

logger = logging.getLogger(__name__)


def dump_chain(chain: ChainView) -> bytes:
    """A compressed chain file of all blocks.  Refused when the disk of temporary files does not take it."""
    with _taken_by_the_disk(), tempfile.TemporaryDirectory(prefix="fastnode-state-") as directory:
        path = Path(directory) / "chain.jsonl.gz"
        export_chain_file(chain, path)
        return path.read_bytes()


class StateDump:
    """The chain file that a network writes when it stops; nothing is written without a file.

    A file that changed since the start belongs to another network too: it is not overwritten, and the chain is written
    to a new file in its folder.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seen = _version_of(file)

    def write(self, chain: ChainView) -> None:
        """Write the chain.  A failure is logged."""
        file = self._file
        if file is None:
            return
        if _version_of(file) != self._seen:
            beside = file.with_name(f"{os.getpid()}-{file.name}")
            facts = log_facts(file=file, written_to=beside)
            logger.error("state file not overwritten: it was changed since the start", extra=facts)
            file = beside
        _write_state(chain, file)


def _version_of(file: Path | None) -> tuple[int, int, int] | None:
    """Identity of the content of a file; None if there is no file."""
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _write_state(chain: ChainView, file: Path) -> None:
    try:
        export_chain_file(chain, file)
    except FastnodeError as error:
        logger.error("the chain is not written", extra=log_facts(file=file, reason=error))
    else:
        logger.info("the chain is written", extra=log_facts(file=file, tip=chain.tip_number))


def load_chain(network: LocalNetwork, content: bytes) -> None:
    """Let the chain be that of a chain file, compressed or not, of the same network.

    Refused when it is another network's, or no chain file, or there is no room for it; the chain is then as it was as
    far as the file's blocks were refused.
    """
    with ExitStack() as stack:
        with _taken_by_the_disk():
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="fastnode-state-"))
            path = Path(directory) / ("chain.jsonl.gz" if content[:2] == gzip.compress(b"")[:2] else "chain.jsonl")
            path.write_bytes(content)
        try:
            network.do(lambda: _load(network, path))
        except (StartError, BlockRejected) as error:
            # The caller knows nothing of the file that the state was written to.
            reason = str(error).replace(f"{path}, ", "").replace(str(path), "the state")
            raise Refused(f"The state cannot be loaded: {reason}") from None


@contextmanager
def _taken_by_the_disk() -> Iterator[None]:
    try:
        yield
    except (OSError, ChainFileError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"The state needs room for temporary files: {reason}", data={"code": "DISK_FULL"}) from error


def _load(network: LocalNetwork, path: Path) -> None:
    with ChainFileSource(path) as source:
        _require_same_network(network, source)
        tip = 0
        for record in source.records():
            if isinstance(record, CheckpointRecord):
                tip = record.block_headers[-1].global_variables.block_number
                network.take_checkpoint(record)
            elif isinstance(record, TipsRecord):
                break
        network.undo_above(tip, keep_txs=False, force=True)
        network.clock.follow(network.view_timestamp())
        network.keep()


def _require_same_network(network: LocalNetwork, source: ChainFileSource) -> None:
    ours = network.view.chain.chain
    theirs = source.chain.node_info
    if (
        source.genesis.block_hash != ours.genesis_block_hash
        or int(theirs["rollupVersion"]) != ours.rollup_version
        or int(theirs["l1ChainId"]) != ours.l1_chain_id
    ):
        raise Refused(
            f"The state is of another network (rollup version {theirs['rollupVersion']}, this one's is "
            f"{ours.rollup_version}): start one from it with --load-state"
        )
