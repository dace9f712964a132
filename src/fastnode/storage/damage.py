"""Damage of a database that was noticed while it is open: logged once, and located once.

LevelDB reports a damaged block without the name of the file.  So the first failed read starts a search through all
tables, in a thread of its own: an operator needs the name to put a single file back, and to judge the disk.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

from fastnode.log import log_facts
from fastnode.storage.table_files import damaged_tables

__all__ = ["Damage"]

logger = logging.getLogger(__name__)

#: Tables that the line names.
_TABLES_NAMED_MAX: Final = 3


class Damage:
    """``fault`` is what a probe says; ``remedy`` is what an operator does about it.  Usable from any thread."""

    def __init__(self, path: Path, remedy: str) -> None:
        self._path = path
        self._remedy = remedy
        self._lock = threading.Lock()
        self._search: threading.Thread | None = None
        self.fault: str | None = None

    def note(self, what: str) -> None:
        """A read failed: ``what`` ends the sentence "the database ..."."""
        with self._lock:
            if self.fault is not None:
                return
            self.fault = f"the database {self._path} {what}; {self._remedy}"
            # A daemon: a disk that does not answer must not keep the process.
            self._search = threading.Thread(
                target=self._look_for_tables, args=(what,), name="fastnode-damage", daemon=True
            )
        self._search.start()

    def wait(self, timeout_s: float) -> bool:
        """True if nothing is being looked for any more."""
        if self._search is not None:
            self._search.join(timeout_s)
        return self._search is None or not self._search.is_alive()

    def _look_for_tables(self, what: str) -> None:
        found = damaged_tables(self._path)
        if found:
            named = ", ".join(f"{name}: {fault}" for name, fault in sorted(found.items())[:_TABLES_NAMED_MAX])
            more = f" and {len(found) - _TABLES_NAMED_MAX} more" if len(found) > _TABLES_NAMED_MAX else ""
            what = f"is damaged in the table {named}{more}"
            self.fault = f"the database {self._path} {what}; {self._remedy}"
        extra = log_facts(tables=len(found), remedy=self._remedy)
        logger.error(f"the database {self._path} {what}", extra=extra)
