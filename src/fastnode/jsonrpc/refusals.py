"""Errors of the rooms below the API as JSON-RPC errors: the one place where both are known."""

from __future__ import annotations

from fastnode.errors import (
    DatabaseFull,
    DatabaseUnreadable,
    DatabaseUnwritable,
    FastnodeError,
    InvalidParams,
    Refused,
    RpcError,
    ServerError,
    UpstreamVerdict,
    ValueRefused,
)

__all__ = ["answer_to"]


def answer_to(error: BaseException | None) -> RpcError | None:
    """The error to answer; None: it is a fault of the node, whose text is not for clients."""
    if not isinstance(error, FastnodeError):
        return None
    if isinstance(error, RpcError):
        return error
    if isinstance(error, UpstreamVerdict):
        return RpcError(error.message, data=error.data, code=error.code)
    if isinstance(error, ValueRefused):
        return InvalidParams(error.message, data=error.data)
    if isinstance(error, Refused):
        return ServerError(error.message, data=error.data)
    if isinstance(error, DatabaseFull):  # /readyz says it too
        text = "The disk of this node is full: nothing was kept, try again later"
        return ServerError(text, data={"code": "DISK_FULL"})
    if isinstance(error, DatabaseUnwritable):
        return ServerError("The disk of this node refuses writes: try again later", data={"code": "DISK_FAILS"})
    if isinstance(error, DatabaseUnreadable):  # logged once, by the database
        return ServerError("This node cannot read its database; ask another one", data={"code": "DATABASE_DAMAGED"})
    return None
