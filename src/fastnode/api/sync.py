"""The admin methods that pause, resume and take back ingestion."""

from __future__ import annotations

from typing import Final

from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.sources.rollback import SyncOperator
from fastnode.values.choices import BOOLEAN
from fastnode.values.numbers import Integer

__all__ = ["methods"]

_BLOCK_NUMBER: Final = Integer(name="number", minimum=0)


class _SyncMethods:
    def __init__(self, operator: SyncOperator | None) -> None:
        self._given = operator

    @property
    def _operator(self) -> SyncOperator:
        if self._given is None:
            raise ServerError("This node does not ingest anything")
        return self._given

    def pause(self, _context: Context) -> None:
        self._operator.pause()

    def resume(self, _context: Context) -> None:
        self._operator.resume()

    def roll_back(self, context: Context, target: int, force: bool | None = None, resume: bool | None = None) -> None:
        """The release set knows the target only: a rollback there is never forced, and always goes on."""
        if context.method_set == "release":
            force = resume = None
        self._operator.roll_back_to(target, force=bool(force), resume=resume is not False)


def methods(operator: SyncOperator | None) -> list[Method]:
    handlers = _SyncMethods(operator)
    target = Parameter("targetBlockNumber", _BLOCK_NUMBER)
    return [
        Method(
            name="nodeAdmin_pauseSync",
            summary="Stop ingesting; what is stored is served as before.",
            handler=handlers.pause,
            in_thread=True,
            waits=True,
            **common("void", may_be_absent=True),
        ),
        Method(
            name="nodeAdmin_resumeSync",
            summary="Go on ingesting.",
            handler=handlers.resume,
            in_thread=True,
            waits=True,
            **common("void", may_be_absent=True),
        ),
        Method(
            name="nodeAdmin_rollbackTo",
            summary="Undo every block above the last one of a checkpoint; then go on ingesting unless told otherwise.",
            handler=handlers.roll_back,
            in_thread=True,
            waits=True,
            release=Signature("void", (target,), may_be_absent=True),
            development=Signature(
                "void",
                (target, Parameter("force", BOOLEAN, optional=True), Parameter("resumeSync", BOOLEAN, optional=True)),
                may_be_absent=True,
            ),
        ),
    ]
