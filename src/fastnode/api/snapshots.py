"""The admin method that makes a snapshot of the running node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastnode.errors import InvalidParams, ServerError, SnapshotError
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.values.texts import Text

if TYPE_CHECKING:
    from fastnode.snapshots.service import SnapshotUploads

__all__ = ["methods"]

_LOCATION: Final = Parameter("location", Text(name="location", length_max=2000))


def methods(uploads: SnapshotUploads | None) -> list[Method]:
    """``uploads`` None: the node has nothing to make a snapshot of."""

    def start_upload(_context: Context, location: str) -> None:
        if uploads is None:
            raise ServerError("This node has no databases")
        try:
            uploads.start(location)
        except SnapshotError as error:
            raise InvalidParams(f"Invalid params: location (parameter 1): {error}") from error

    return [
        Method(
            name="nodeAdmin_startSnapshotUpload",
            summary="Copy the databases and upload the copy. Answers at once; how it goes on is in the log.",
            handler=start_upload,
            in_thread=True,
            waits=True,
            **common("void", _LOCATION, may_be_absent=True),
        )
    ]
