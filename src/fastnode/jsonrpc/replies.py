"""The answers of the engine: a reply to a request, to a batch, to a notification, and what is begun of one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, NamedTuple

import orjson

from fastnode.errors import NodeBusy, RateLimited, RpcError
from fastnode.view import View

__all__ = ["NULL_ID", "SILENCE", "Begun", "Reply", "busy_reply", "error_reply", "join", "silence", "silenced", "splice"]

NULL_ID: Final = b"null"


class Reply(NamedTuple):
    """``body`` is in pieces, each result by itself, so that it is compressed once and not copied to be answered; None:
    there is nothing to say.  ``error_code`` is set if the whole body is one error object.

    ``retry_after_s`` is set if nothing of the request was answered because its client has no budget left, ``busy`` if
    it was not answered because there is no memory for it.
    """

    body: list[bytes] | None
    error_code: int | None = None
    retry_after_s: float | None = None
    busy: NodeBusy | None = None

    @property
    def text(self) -> bytes:
        """The body in one piece; empty if there is none."""
        return b"".join(self.body or ())


class Begun(NamedTuple):
    """What the fast path has come to with a request: what the handlers of its first calls have said to ``view``, each a
    result (empty: nothing was found) or an exception, and the nanoseconds that it took."""

    view: View | None
    outcomes: list[tuple[bytes | Exception, int]]

    def outcome(self, index: int) -> tuple[bytes | Exception, int] | None:
        """Of a call; None: its handler has not run."""
        return self.outcomes[index] if index < len(self.outcomes) else None


SILENCE: Final = Reply(None)


def splice(id_text: bytes, result: bytes | None) -> Reply:
    """The answer to a call that went well; None: nothing was found."""
    if result is None:
        return Reply([b'{"jsonrpc":"2.0","id":%b}' % id_text])
    return Reply([b'{"jsonrpc":"2.0","id":%b,"result":' % id_text, result, b"}"])


def error_reply(error: RpcError, id_text: bytes) -> Reply:
    # A message may quote what a client sent; a lone surrogate in it has no UTF-8 form.
    message = orjson.dumps(error.message.encode("utf-8", "backslashreplace").decode("utf-8"))
    data = b"" if error.data is None else b',"data":' + orjson.dumps(error.data)
    body = b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b%b}}' % (id_text, error.code, message, data)
    return Reply([body], error.code, error.wait_s if isinstance(error, RateLimited) else None)


def busy_reply(error: NodeBusy) -> Reply:
    """What is said when there is no memory for a request."""
    return Reply(None, error.code, busy=error.with_traceback(None))


def silence(reply: Reply) -> Reply:
    """What is said to a notification: nothing, but for a refusal, which concerns the whole request."""
    if reply.busy is not None:
        return reply
    return SILENCE if reply.retry_after_s is None else Reply(None, None, reply.retry_after_s)


async def silenced(pending: Awaitable[Reply]) -> Reply:
    return silence(await pending)


def join(replies: list[Reply]) -> Reply:
    """The answer to a batch."""
    pieces: list[bytes] = []
    for reply in replies:
        if reply.body is not None:
            pieces.append(b"," if pieces else b"[")
            pieces += reply.body
    pieces.append(b"]")
    body = pieces if len(pieces) > 1 else None
    waits = [reply.retry_after_s for reply in replies if reply.retry_after_s is not None]
    if waits and len(waits) == len(replies):
        return Reply(body, RateLimited.code, max(waits))
    return Reply(body) if body is not None else SILENCE
