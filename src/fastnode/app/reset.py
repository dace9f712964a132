"""Reset of a local network: the process replaces itself by a new one that begins another chain.

The ports stay the same; for a moment nothing answers on them.  The old chain stays until the new one is complete
(``reset_files``).  When that does not come about, the process goes back to the old one and serves it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from fastnode.app.reset_files import is_set_aside, remove_old, set_aside, settle
from fastnode.log import log_facts
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.app.node import Node
    from fastnode.local_network.options import Fork
    from fastnode.storage.data_directory import DataDirectory

__all__ = ["ResetRequest", "Resetting", "arguments_for"]

logger = logging.getLogger("fastnode.app")

#: Between two resets of a network with a seed: the chain is another one each time.
_RESET_MARK: Final = " reset "
#: Said once, to the process that started this one: the file is closed by now.
_ONCE: Final = "--ready-fd"
#: Hands on, from process to process, what is being reset.
_ENVIRONMENT: Final = "FASTNODE_RESET"


class ResetRequest:
    """Made by a method of the network; carried out once the node has stopped."""

    def __init__(self, node: Node) -> None:
        self._data = node.opened.data.directory
        self._settings = node.settings
        self._ports = [f"--port={node.public.port}", f"--admin-port={node.admin.port}"]
        if node.l1_clock is not None:
            self._ports.append(f"--l1-clock-port={node.l1_clock.port}")
        self._is_made: asyncio.Future[Fork] = asyncio.get_running_loop().create_future()

    @classmethod
    def of(cls, node: Node) -> ResetRequest | None:
        """None for a node that is no local network, or does not run by the command."""
        network = node.joined.local_network
        if network is None or sys.argv[1:2] != ["start"]:
            return None
        request, loop = cls(node), asyncio.get_running_loop()

        def make(fork: Fork) -> None:
            loop.call_soon_threadsafe(request._make, fork)

        network.on_reset = make
        return request

    def _make(self, fork: Fork) -> None:
        if not self._is_made.done():
            self._data.is_temporary = False  # the process that takes over removes it
            self._is_made.set_result(fork)

    @property
    def is_made(self) -> bool:
        return self._is_made.done() and not self._is_made.cancelled()

    async def wait(self) -> None:
        await asyncio.shield(self._is_made)

    def begin_anew(self) -> None:
        """Does not return."""
        from fastnode.local_network.options import allowed_sources

        fork = self._is_made.result()
        logger.info("begins anew", extra=log_facts(fork_from=fork.source))
        settings, path = self._settings, self._data.path
        set_aside(path)
        back = [*_kept_arguments(sys.argv[1:]), *self._ports]
        arguments = arguments_for(sys.argv[1:], self._ports, settings.seed, fork, allowed_sources(settings))
        _replace_process(arguments, Resetting(path, is_temporary=settings.data_directory is None, back=tuple(back)))


@dataclass(frozen=True, slots=True)
class Resetting:
    """State that this process takes over from the one that was reset.

    ``back``: the command line that serves the old chain; None: this process serves it.
    """

    directory: Path
    is_temporary: bool
    back: tuple[str, ...] | None

    @classmethod
    def taken_over(cls) -> Resetting | None:
        """None: this process was not begun by a reset.  Once; its own children are told nothing."""
        text = os.environ.pop(_ENVIRONMENT, None)
        if text is None:
            return None
        directory, is_temporary, back = orjson.loads(text)
        return cls(Path(directory), is_temporary, None if back is None else tuple(back))

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
        _replace_process(list(self.back), Resetting(self.directory, self.is_temporary, None))


def _replace_process(arguments: list[str], resetting: Resetting) -> None:
    sys.stdout.flush()
    environment = os.environ | {_ENVIRONMENT: resetting.to_text()}
    os.execve(sys.executable, [sys.executable, "-m", "fastnode", *arguments], environment)


# ---- arguments ----------------------------------------------------------------------------------------


def _kept_arguments(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    values = iter(arguments)
    for argument in values:
        if argument == _ONCE:
            next(values, None)
        elif not argument.startswith(f"{_ONCE}="):
            kept.append(argument)
    return kept


def arguments_for(
    arguments: list[str], ports: list[str], seed: str | None, fork: Fork, sources: Sequence[str] = ()
) -> list[str]:
    """The command line of the process that takes over: what stands later counts.  ``sources``: what may be copied from,
    also with what this process began with, to which a later reset may return."""
    kept = [*_kept_arguments(arguments), *ports]
    if seed is not None:
        text, mark, count = seed.rpartition(_RESET_MARK)
        if mark and count.isdigit():
            kept.append(f"--seed={text}{_RESET_MARK}{int(count) + 1}")
        else:
            kept.append(f"--seed={seed}{_RESET_MARK}1")
    if fork.source is not None:
        kept.append(f"--fork-from={fork.source}")
        if not any("," in source for source in sources):
            kept.append(f"--fork-sources={','.join(sources)}")
    if fork.block_number is not None:
        kept.append(f"--fork-block-number={fork.block_number}")
    return kept
