"""Reset of a local network: the process replaces itself by a new one with an empty data directory.

The ports stay the same; for a moment nothing answers on them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastnode.log import log_facts
from fastnode.storage.data_directory import LOCK_FILE

if TYPE_CHECKING:
    from fastnode.app.node import Node
    from fastnode.local_network.options import Fork

__all__ = ["ResetRequest", "arguments_for", "empty_directory"]

logger = logging.getLogger("fastnode.app")

#: Between two resets of a network with a seed: the chain is another one each time.
_RESET_MARK: Final = " reset "
#: Files of a data directory that are not of a chain.
_KEPT: Final = frozenset({LOCK_FILE, "admin"})
#: Said once, to the process that started this one: the file is closed by now.
_ONCE: Final = "--ready-fd"


class ResetRequest:
    """Made by a method of the network; carried out once the node has stopped."""

    def __init__(self, node: Node) -> None:
        settings = node.settings
        self._directory = settings.data_directory
        self._seed = settings.seed
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
            self._is_made.set_result(fork)

    @property
    def is_made(self) -> bool:
        return self._is_made.done() and not self._is_made.cancelled()

    async def wait(self) -> None:
        await asyncio.shield(self._is_made)

    def begin_anew(self) -> None:
        """Does not return."""
        fork = self._is_made.result()
        logger.info("begins anew", extra=log_facts(fork_from=fork.source))
        if self._directory is not None:
            empty_directory(self._directory)
        arguments = arguments_for(sys.argv[1:], self._ports, self._seed, fork)
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-m", "fastnode", *arguments])


def arguments_for(arguments: list[str], ports: list[str], seed: str | None, fork: Fork) -> list[str]:
    """The command line of the process that takes over: what stands later counts."""
    kept: list[str] = []
    values = iter(arguments)
    for argument in values:
        if argument == _ONCE:
            next(values, None)
        elif not argument.startswith(f"{_ONCE}="):
            kept.append(argument)
    kept += ports
    if seed is not None:
        text, mark, count = seed.rpartition(_RESET_MARK)
        if mark and count.isdigit():
            kept.append(f"--seed={text}{_RESET_MARK}{int(count) + 1}")
        else:
            kept.append(f"--seed={seed}{_RESET_MARK}1")
    if fork.source is not None:
        kept.append(f"--fork-from={fork.source}")
    if fork.block_number is not None:
        kept.append(f"--fork-block-number={fork.block_number}")
    return kept


def empty_directory(directory: Path) -> None:
    """Remove everything that belongs to the chain in it."""
    for item in directory.iterdir():
        if item.name in _KEPT:
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
