"""Seat of a process at the public port: its own, or that of the primary of a node with workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastnode.app.ground.priorities import answer_soon

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastnode.serving.server import HttpServer

__all__ = ["OwnSeat"]


class OwnSeat:
    """This process answers there itself.  :class:`~fastnode.workers.seat.PrimarySeat` has the same form."""

    #: Id that the processes of a node share.
    instance: str | None = None
    #: True if copies are left by workers that are gone.
    is_first = False

    def begin(self) -> None:
        answer_soon()

    async def open(self, server: HttpServer, listen: Callable[[], Awaitable[None]]) -> None:
        await listen()
