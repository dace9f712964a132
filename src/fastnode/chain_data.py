"""The databases of a data directory, opened and closed together.

Whoever writes the chain (the node, ``fastnode import``) must write everything that belongs to a block, so the
list of what that is stands here once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.queries import ChainView
from fastnode.archiver.store import ArchiverStore
from fastnode.data_directory import DataDirectory
from fastnode.observability.logs import fields

__all__ = ["ChainData"]

logger = logging.getLogger(__name__)


class ChainData:
    """A locked data directory with its open databases."""

    def __init__(self, directory: DataDirectory, *, create: bool) -> None:
        self._resources = ExitStack()
        self.directory = self._resources.enter_context(directory)
        try:
            self.store = self._resources.enter_context(ArchiverStore.open(directory.path, create=create))
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: Path | None, *, create: bool = True) -> ChainData:
        """Open the databases of ``path``, or of a temporary directory (with a warning) for None.

        DataDirectoryError says what is wrong with the directory or a database.
        """
        if path is not None:
            return cls(DataDirectory.open(path, create=create), create=create)
        directory = DataDirectory.temporary()
        logger.warning(
            "no --data-directory: the chain is kept in a temporary one and removed at exit",
            extra=fields(path=directory.path),
        )
        return cls(directory, create=True)

    def open_ingestor(self, *, verify: bool, on_commit: Callable[[ChainView], None] | None = None) -> Ingestor:
        """The writer of the chain; closed with the databases.  The store must have its chain."""
        verification = Verification.FULL if verify else Verification.NONE
        ingestor = Ingestor(self.store, verification=verification, on_commit=on_commit)
        self._resources.callback(ingestor.close)
        return ingestor

    def close(self) -> None:
        """May be called more than once."""
        self._resources.close()

    def __enter__(self) -> ChainData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
