"""Questions of workers to the primary: names, and how errors travel.

An error is sent as what the client will be told, since exceptions with a history do not pickle well.
"""

from __future__ import annotations

from typing import Any, Final

from fastnode.errors import FastnodeError, Refused, RpcError, ServerError, UpstreamVerdict

__all__ = ["AWAY", "failure_of", "raised"]

#: Answer to a request that only the primary could serve.
AWAY: Final = "The writing process of this node is starting again; try again in a second"
_BUSY: Final = {"code": "BUSY", "retryAfterMs": 1000}


def away() -> Refused:
    return Refused(AWAY, data=_BUSY)


def failure_of(error: FastnodeError, answer: RpcError | None) -> tuple[str, str, Any, int | None]:
    """``error`` as it is sent; ``answer`` is what a client would be told of it."""
    if isinstance(error, UpstreamVerdict):
        return "verdict", error.message, error.data, error.code
    if isinstance(error, Refused):
        return "refused", error.message, error.data, None
    if answer is None:
        return "internal", type(error).__name__, None, None
    return "answer", answer.message, answer.data, answer.code


def raised(failure: tuple[str, str, Any, int | None]) -> Exception:
    """Exception that the worker raises."""
    kind, message, data, code = failure
    if kind == "verdict":
        return UpstreamVerdict(message, code=code or ServerError.code, data=data)
    if kind == "refused":
        return Refused(message, data=data)
    if kind == "answer":
        return RpcError(message, data=data, code=code)
    return RuntimeError(f"the primary failed: {message}")
