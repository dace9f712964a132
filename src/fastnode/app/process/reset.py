"""Reset of a local network: the process replaces itself by a new one that begins another chain.

The ports stay the same; for a moment nothing answers on them.  The old chain stays until the new one is complete
(``reset_files``).  When that does not come about, the process goes back to the old one and serves it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fastnode.app.ground.reset_files import set_aside
from fastnode.app.ground.takeover import Resetting, replace_process
from fastnode.errors import Refused
from fastnode.log import log_facts

if TYPE_CHECKING:
    from fastnode.app.process.node import Node
    from fastnode.app.stages.core import Core
    from fastnode.local_network.options import Fork

__all__ = ["ResetRequest", "arguments_for"]

logger = logging.getLogger("fastnode.app")

#: Between two resets of a network with a seed: the chain is another one each time.
_RESET_MARK: Final = " reset "
#: Said once, to the process that started this one: the file is closed by now.
_ONCE: Final = "--ready-fd"


class ResetRequest:
    """Made by a method of the network; carried out once the node has stopped."""

    def __init__(self, core: Core) -> None:
        self._data = core.foundation.data.directory
        self._settings = core.foundation.settings
        self._is_made: asyncio.Future[Fork] = asyncio.get_running_loop().create_future()

    @classmethod
    def of(cls, core: Core) -> ResetRequest:
        """One that is never made for a node that is no local network, or does not run by the command.  Before the node
        serves."""
        request, loop = cls(core), asyncio.get_running_loop()

        def make(fork: Fork) -> None:
            if core.condition.is_stopping:
                raise Refused("The node is stopping: reset the network when it serves again")
            loop.call_soon_threadsafe(request._make, fork)

        if sys.argv[1:2] == ["start"]:
            core.local_network.let_reset(make)
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

    def withdraw(self) -> None:
        """End without the reset, once the node has stopped: the chain stays, unless it is in a temporary directory."""
        logger.info("local network not reset: the node was stopped")
        if self._settings.data_directory is None:
            shutil.rmtree(self._data.path, ignore_errors=True)

    def begin_anew(self, node: Node) -> None:
        """On the ports of ``node``, which has stopped.  Does not return."""
        from fastnode.local_network.options import allowed_sources

        fork = self._is_made.result()
        logger.info("local network reset", extra=log_facts(fork_from=fork.source))
        settings, path = self._settings, self._data.path
        ports = [f"--port={node.public.port}", f"--admin-port={node.admin.port}"]
        if node.l1_clock is not None:
            ports.append(f"--l1-clock-port={node.l1_clock.port}")
        set_aside(path)
        back = [*_kept_arguments(sys.argv[1:]), *ports]
        arguments = arguments_for(sys.argv[1:], ports, settings.seed, fork, allowed_sources(settings))
        replace_process(arguments, Resetting(path, is_temporary=settings.data_directory is None, back=tuple(back)))


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
