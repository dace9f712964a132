"""The databases of a data directory, opened and closed together.

A writer of the chain (the node, ``fastnode import``) must write everything that belongs to a block, so the
list of what that is stands here once: the chain itself, the indexes beside it, and the state trees.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final

from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.store import ARCHIVER_DIRECTORY, ArchiverStore
from fastnode.config.settings import Settings
from fastnode.errors import DataDirectoryError
from fastnode.log import log_facts
from fastnode.log_index import TAG_FILTER_FILE, ChainIndexes
from fastnode.records import dataclass
from fastnode.storage.data_directory import DataDirectory
from fastnode.storage.database import (
    CHAIN_MEMORY,
    LOG_LEFT_BYTES_MAX,
    SMALL_MEMORY,
    DatabaseMemory,
    SharedDatabase,
    end_databases,
    log_bytes,
)
from fastnode.storage.database_files import is_database
from fastnode.storage.opening import OpeningDatabase
from fastnode.storage.replacement import finish_replacement, remove_sample
from fastnode.world_state.state import WORLD_STATE_DIRECTORY, WorldState, open_state_database

__all__ = ["ChainData", "ChainOptions", "has_databases"]

logger = logging.getLogger(__name__)

_MIB = 1 << 20
#: Defaults of the settings.  A local network should use little memory: it runs beside the tests.
WORLD_STATE_CACHE_MB: Final = 256
LOCAL_WORLD_STATE_CACHE_MB: Final = 32

#: Folders that only a data directory with a chain can have.
_OF_A_CHAIN: Final = ("world_state", "p2p", "offenses")


def has_databases(directory: Path) -> bool:
    """Tell whether there is anything of a chain in a data directory: a damaged one is one too."""
    return any(is_database(directory / name) for name in (ARCHIVER_DIRECTORY, *_OF_A_CHAIN))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainOptions:
    """Options for the databases, from the settings; the same names mean the same."""

    world_state_cache_mb: int = WORLD_STATE_CACHE_MB
    world_state_checkpoint_history: int = 0
    world_state_history_from: str = "genesis"
    tag_filter_mb: int = 16
    database_memory: DatabaseMemory = CHAIN_MEMORY

    @classmethod
    def of(cls, settings: Settings) -> ChainOptions:
        usual_cache_mb = LOCAL_WORLD_STATE_CACHE_MB if settings.local_network else WORLD_STATE_CACHE_MB
        return cls(
            world_state_cache_mb=settings.world_state_cache_mb or usual_cache_mb,
            world_state_checkpoint_history=settings.world_state_checkpoint_history,
            world_state_history_from=settings.world_state_history_from,
            tag_filter_mb=settings.tag_filter_mb,
            database_memory=SMALL_MEMORY if settings.local_network else CHAIN_MEMORY,
        )


class ChainData:
    """A locked data directory with its open databases.

    The chain database is open from the beginning.  The state follows from it (:attr:`state`), because a state
    without its chain has no genesis.
    """

    def __init__(self, directory: DataDirectory, *, create: bool, options: ChainOptions) -> None:
        self._resources = ExitStack()
        self._options = options
        self.directory = self._resources.enter_context(directory)
        self._is_ending = False
        self._resources.callback(self._end_databases)
        self.indexes = ChainIndexes(filter_bytes=options.tag_filter_mb * _MIB)
        self._opening_state: OpeningDatabase | None = None
        try:
            finish_replacement(directory.path)
            if create:
                remove_sample(directory.path)
            if log_bytes(directory.path / WORLD_STATE_DIRECTORY) > LOG_LEFT_BYTES_MAX:
                self._opening_state = OpeningDatabase(self._open_state_database)
                self._resources.callback(self._opening_state.close)
            self.store = self._resources.enter_context(
                ArchiverStore.open(directory.path, create=create, memory=options.database_memory)
            )
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(
        cls, path: Path | None, *, create: bool = True, options: ChainOptions | None = None, adopted: Path | None = None
    ) -> ChainData:
        """Open the databases of ``path``, or of a temporary directory (with a warning) for None: ``adopted``, if it is
        given, which its owner removes.

        DataDirectoryError says what is wrong with the directory or a database.
        """
        options = options or ChainOptions()
        if path is not None:
            return cls(DataDirectory.open(path, create=create), create=create, options=options)
        directory = DataDirectory.temporary() if adopted is None else DataDirectory.open(adopted, create=False)
        logger.warning(
            "no --data-directory: the chain is kept in a temporary one and removed at exit",
            extra=log_facts(path=directory.path),
        )
        return cls(directory, create=True, options=options)

    def require_new(self) -> None:
        """DataDirectoryError when there is no chain but what belongs to one: it was lost, and no other one may take its
        place by itself.
        """
        if self.store.has_chain:
            return
        left = [name for name in _OF_A_CHAIN if is_database(self.directory.path / name)]
        if left:
            raise DataDirectoryError(
                f"the chain database {self.store.path} is empty, but its {' and '.join(left)} are there: it was lost; "
                f"restore it, import the chain again, or remove the directory"
            )

    def faults(self) -> dict[str, str | None]:
        """Fault of each database, None for nothing."""
        return {
            "chain_database": self.store.fault,
            "state_database": None if self.state is None else self.state.fault,
        }

    @property
    def tag_filter_file(self) -> Path:
        return self.directory.path / TAG_FILTER_FILE

    def open_ingestor(self, *, verify: bool, on_commit: Callable[[ChainCommit], None] | None = None) -> Ingestor:
        """The writer of the chain; closed with the databases.  The store must have its chain.

        The state may be behind the chain after a crash: ``ingestor.catch_up()`` comes before any new block.
        """
        self.indexes.catch_up(self.store)
        ingestor = Ingestor(
            self.store,
            verification=Verification.FULL if verify else Verification.NONE,
            state=self.state,
            index_writers=self.indexes.writers,
            on_commit=on_commit,
        )
        self._resources.callback(ingestor.close)
        return ingestor

    @cached_property
    def state(self) -> WorldState:
        """The state trees of the stored chain, opened on first use; made from its genesis if they are not there yet."""
        state = WorldState(
            self.directory.path,
            self.store.load_genesis(),
            cache_mb=self._options.world_state_cache_mb,
            history=self._options.world_state_checkpoint_history,
            takes_runs=self._options.world_state_history_from == "sync",
            rules=self.store.chain.release.trees,
            database=self._open_state_database() if self._opening_state is None else self._opening_state.take(),
        )
        return self._resources.enter_context(state)

    def _open_state_database(self) -> SharedDatabase:
        options = self._options
        return open_state_database(
            self.directory.path, options.world_state_cache_mb, options.database_memory.write_buffer_bytes
        )

    def close(self) -> None:
        """May be called more than once."""
        self._resources.close()

    def end(self) -> None:
        """Close, and with it every database of the directory that is still open, also under those who hold views.

        Only once no thread can be inside a read any more.  May be called more than once.
        """
        self._is_ending = True
        self.close()

    def _end_databases(self) -> None:
        if self._is_ending and not self.directory.is_temporary:
            end_databases(self.directory.path)

    def __enter__(self) -> ChainData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
