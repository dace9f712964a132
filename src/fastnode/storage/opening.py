"""A database that is opened in another thread.

After a crash LevelDB replays what its log has, which takes a second for each 100 MB, outside the interpreter: two
databases replay theirs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from fastnode.storage.database import SharedDatabase

__all__ = ["OpeningDatabase"]


class OpeningDatabase:
    """Begins to open a database at once; the first :meth:`take` gets it, or the error that opening it raised."""

    def __init__(self, open_database: Callable[[], SharedDatabase]) -> None:
        self._open: Final = open_database
        self._database: SharedDatabase | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fastnode-opening")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._database = self._open()
        except BaseException as error:  # noqa: BLE001 - raised by take()
            self._error = error

    def take(self) -> SharedDatabase:
        """The open database, whose owner the caller is then; to be called once."""
        self._thread.join()
        database, self._database = self._database, None
        if self._error is not None:
            raise self._error
        assert database is not None
        return database

    def close(self) -> None:
        """Close the database unless it was taken.  May be called more than once."""
        self._thread.join()
        if self._database is not None:
            self._database.release()
            self._database = None
