"""The admin methods of 5.x that hold the production of blocks."""

from __future__ import annotations

from typing import Protocol

from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Signature

__all__ = ["BlockProduction", "methods"]


class BlockProduction(Protocol):
    """Builds blocks, until it is told to rest."""

    def hold(self) -> None:
        """Build no more blocks; transactions wait.  Again: nothing changes."""

    def go_on(self) -> None: ...


class _SequencerMethods:
    def __init__(self, production: BlockProduction | None) -> None:
        self._production = production

    def pause(self, _context: Context) -> None:
        if self._production is None:
            raise ServerError("Cannot pause sequencer: no sequencer is running", data={"code": "NO_SEQUENCER"})
        self._production.hold()

    def resume(self, _context: Context) -> None:
        if self._production is None:
            raise ServerError("Cannot resume sequencer: no sequencer is running", data={"code": "NO_SEQUENCER"})
        self._production.go_on()


def methods(production: BlockProduction | None) -> list[Method]:
    """``production`` None: this node builds no blocks, and the methods say so."""
    handlers = _SequencerMethods(production)
    return [
        Method(
            name="nodeAdmin_pauseSequencer",
            summary="Build no more blocks; transactions go on waiting.",
            handler=handlers.pause,
            five=Signature("void", may_be_absent=True),
        ),
        Method(
            name="nodeAdmin_resumeSequencer",
            summary="Build blocks again.",
            handler=handlers.resume,
            five=Signature("void", may_be_absent=True),
        ),
    ]
