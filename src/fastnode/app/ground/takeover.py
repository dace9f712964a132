"""State that a process takes over from the one that it replaces: a local network that was reset."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.app.ground.reset_files import is_set_aside, remove_old, settle
from fastnode.log import log_facts
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.storage.data_directory import DataDirectory

__all__ = ["FIRST_PROCESS", "FirstProcess", "Resetting", "replace_process", "taken_over"]

logger = logging.getLogger("fastnode.app")

#: Hands on, from process to process, what is being reset.
_ENVIRONMENT: Final = "FASTNODE_RESET"


@dataclass(frozen=True, slots=True)
class Resetting:
    """State that this process takes over from the one that was reset.

    ``back``: the command line that serves the old chain; None: this process serves it.
    """

    directory: Path
    is_temporary: bool
    back: tuple[str, ...] | None

    def to_text(self) -> str:
        return orjson.dumps([str(self.directory), self.is_temporary, self.back]).decode()

    @property
    def adopted(self) -> Path | None:
        """The temporary directory to go on with; None: there is none."""
        return self.directory if self.is_temporary else None

    def is_unfinished(self) -> bool:
        """True until the new chain is complete."""
        return self.back is not None and is_set_aside(self.directory)

    def finish(self, directory: DataDirectory) -> None:
        """The chain of this process is complete."""
        remove_old(self.directory)
        directory.is_temporary = self.is_temporary

    def give_up(self) -> None:
        """The process ends before the new chain is complete: nobody goes on with what is temporary."""
        if self.is_temporary and self.is_unfinished():
            shutil.rmtree(self.directory, ignore_errors=True)

    def go_back(self, reason: BaseException) -> None:
        """Serve the old chain again.  Does not return."""
        logger.error("the network is not reset, the old chain goes on", extra=log_facts(reason=reason))
        assert self.back is not None
        settle(self.directory)
        replace_process(list(self.back), Resetting(self.directory, self.is_temporary, None))


class FirstProcess:
    """A process that was not begun by a reset: it takes over nothing, and there is no way back."""

    adopted: Path | None = None

    def is_unfinished(self) -> bool:
        return False

    def finish(self, directory: DataDirectory) -> None:
        pass

    def give_up(self) -> None:
        pass

    def go_back(self, reason: BaseException) -> None:
        raise reason


FIRST_PROCESS: Final = FirstProcess()


def taken_over() -> Resetting | FirstProcess:
    """Take the state that this process was begun with.  Once; its own children are told nothing."""
    text = os.environ.pop(_ENVIRONMENT, None)
    if text is None:
        return FIRST_PROCESS
    directory, is_temporary, back = orjson.loads(text)
    return Resetting(Path(directory), is_temporary, None if back is None else tuple(back))


def replace_process(arguments: list[str], resetting: Resetting) -> None:
    sys.stdout.flush()
    environment = os.environ | {_ENVIRONMENT: resetting.to_text()}
    os.execve(sys.executable, [sys.executable, "-P", "-m", "fastnode", *arguments], environment)
