"""The JSON-RPC 2.0 engine: the bytes of a request body in, the bytes of the answer out.

It knows nothing of HTTP.  ``Engine.handle`` answers at once unless a method asks for a thread; then
it returns an awaitable.  Answers are spliced, never serialised: the id is the request's own text and
the result is the handler's.

    {"jsonrpc":"2.0","id":<id text>,"result":<result>}      no "result" when nothing was found
    {"jsonrpc":"2.0","id":<id text>,"error":{"code":<code>,"message":<text>,"data":<data>}}

Differences from the specification's letter, both lenient: ``jsonrpc`` may be absent or name another
version, and an id of any JSON type is echoed.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple

import orjson

from fastnode.errors import (
    DatabaseUnreadable,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    RateLimited,
    ResponseTooLarge,
    RpcError,
    ServerError,
    UnknownBlock,
)
from fastnode.http.limits import Limits
from fastnode.http.meters import CallMeters, Traffic
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.hold_off import HoldOff
from fastnode.jsonrpc.json_text import IdTexts
from fastnode.jsonrpc.methods import BoundMethod, Call, MethodTable
from fastnode.jsonrpc.provider_limits import Client
from fastnode.kernels import call_meter
from fastnode.values.refusal import describe
from fastnode.view import View

__all__ = ["RESULT_HEAD", "RESULT_NAME", "Engine", "Reply", "splice"]

logger = logging.getLogger("fastnode.rpc")

NULL_ID: Final = b"null"
_NO_PARAMETERS: Final[list[Any]] = []


class Reply(NamedTuple):
    """``body`` None: there is nothing to say.  ``error_code`` is set if the whole body is one error object.

    ``retry_after_s`` is set if nothing of the request was answered because its client has no budget left.
    """

    body: bytes | None
    error_code: int | None = None
    retry_after_s: float | None = None


_SILENCE: Final = Reply(None)


def _do_nothing() -> None:
    pass


class Engine:
    """Answers request bodies from a method table.

    ``view_source`` is asked once per body; None means that there is no chain to read yet.
    ``executor`` runs the methods that ask for a thread (default: the event loop's).  ``hold_off`` lets calls
    wait for a block that is not there yet.  ``meters`` counts and times every call; None: nobody asks.
    """

    def __init__(
        self,
        table: MethodTable,
        view_source: Callable[[], View | None],
        *,
        limits: Limits | None = None,
        executor: Executor | None = None,
        hold_off: HoldOff | None = None,
        meters: CallMeters | None = None,
    ) -> None:
        self.table = table
        #: Called when :attr:`meters` are replaced.
        self.on_change: Callable[[], None] = _do_nothing
        self._meters = meters
        self.traffic = Traffic()
        self._hold_off = hold_off
        self.limits = limits or Limits()
        #: What a request that comes now is answered from.
        self.view_source = view_source
        self._executor = executor
        #: Unexpected exceptions in methods: each one is a bug, logged with its traceback.
        self.internal_fault_count = 0

    @property
    def meters(self) -> CallMeters | None:
        return self._meters

    @meters.setter
    def meters(self, meters: CallMeters | None) -> None:
        self._meters = meters
        self.on_change()

    def answer_call(
        self, name: str, params: list[Any], id_text: bytes, view: View | None, client: Client | None = None
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to one call that is no notification and has been read already: what :meth:`handle` says to it."""
        call = Call(view, self.table.method_set, self.limits.response_bytes_max, client)
        request = {"method": name, "params": params}
        return self._measure(request, id_text, call) if self._meters else self._dispatch(request, id_text, call)

    def handle(self, body: bytes, client: Client | None = None) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to one request body, for which ``client`` is charged.  Raises for nothing that a body can hold."""
        if client is not None and (refusal := client.refusal_unread(len(body))) is not None:
            self.traffic.rejected["rate"] += 1
            return _error_reply(refusal, NULL_ID)
        try:
            request = json_text.parse(body, depth_max=self.limits.json_depth_max)
        except ParseError as error:
            return _error_reply(self._charge(client, None) or error, NULL_ID)
        call = Call(self.view_source(), self.table.method_set, self.limits.response_bytes_max, client)
        if type(request) is list:
            return self._answer_batch(request, IdTexts(body), call)
        return self._answer(request, IdTexts(body), 0, call)

    def _charge(self, client: Client | None, method: str | None) -> RpcError | None:
        """The error for a client that must not make a call; ``method`` None: for what is no call."""
        if client is None:
            return None
        refusal = client.refusal_of(method)
        if refusal is not None:
            self.traffic.rejected["rate" if isinstance(refusal, RateLimited) else "method"] += 1
        return refusal

    # ---- batches ---------------------------------------------------------------------------

    def _answer_batch(self, requests: list[Any], ids: IdTexts, call: Call) -> Reply | Coroutine[Any, Any, Reply]:
        if self._meters is not None:
            self._meters.add_batch(len(requests))
        if not requests:
            flaw = InvalidRequest("Invalid request: the batch is empty")
            return _error_reply(self._charge(call.client, None) or flaw, NULL_ID)
        limit = self.limits.batch_calls_max
        if len(requests) > limit:
            self.traffic.rejected["batch_size"] += 1
            message = f"Invalid request: a batch of {len(requests)} calls exceeds the limit of {limit}"
            return _error_reply(self._charge(call.client, None) or InvalidRequest(message), NULL_ID)
        replies: list[Reply] = []
        for index, request in enumerate(requests):
            reply = self._answer(request, ids, index, call)
            if not isinstance(reply, Reply):
                return self._finish_batch(reply, replies, requests, ids, call)
            replies.append(reply)
        return _join(replies)

    async def _finish_batch(
        self, pending: Awaitable[Reply], replies: list[Reply], requests: list[Any], ids: IdTexts, call: Call
    ) -> Reply:
        """A batch from its first call in a thread on; ``replies`` are those before it.

        One call at a time: the elements take effect in request order, and no batch takes all threads.
        """
        replies.append(await pending)
        for index in range(len(replies), len(requests)):
            reply = self._answer(requests[index], ids, index, call)
            replies.append(reply if isinstance(reply, Reply) else await reply)
        return _join(replies)

    # ---- one call --------------------------------------------------------------------------

    def _answer(self, request: Any, ids: IdTexts, index: int, call: Call) -> Reply | Coroutine[Any, Any, Reply]:
        if type(request) is not dict:
            message = f"Invalid request: a call must be an object, got {describe(request)}"
            return _error_reply(self._charge(call.client, None) or InvalidRequest(message), NULL_ID)
        is_notification = "id" not in request
        id_text = NULL_ID if is_notification else ids.text(request["id"], index)
        if (flaw := _flaw_of(request)) is not None:
            error = self._charge(call.client, None) or InvalidRequest(f"Invalid request: {flaw}")
            return _error_reply(error, id_text)
        reply = self._measure(request, id_text, call) if self._meters else self._dispatch(request, id_text, call)
        if not is_notification:
            return reply
        return _silence(reply) if isinstance(reply, Reply) else _silenced(reply)

    def _measure(self, request: dict[str, Any], id_text: bytes, call: Call) -> Reply | Coroutine[Any, Any, Reply]:
        meters = self._meters
        assert meters is not None
        started_ns = call_meter.now_ns()
        reply = self._dispatch(request, id_text, call)
        if isinstance(reply, Reply):
            meters.calls.finish(request["method"], started_ns, reply.error_code)
            return reply
        return self._measure_later(meters, request["method"], started_ns, reply)

    async def _measure_later(self, meters: CallMeters, name: str, started_ns: int, pending: Awaitable[Reply]) -> Reply:
        reply = await pending
        meters.calls.finish(name, started_ns, reply.error_code)
        return reply

    def _dispatch(self, request: dict[str, Any], id_text: bytes, call: Call) -> Reply | Coroutine[Any, Any, Reply]:
        name = request["method"]
        try:
            method = self.table.get(name)
            # Budgets and lists know a method by one name, whatever it is called by.
            known = name if method is None else method.name
            if call.client is not None and (refusal := self._charge(call.client, known)) is not None:
                raise refusal
            if method is None:
                raise MethodNotFound(f"Method not found: {_shorten(name)}")
            arguments = method.decode(_positional(request))
            if method.wants_thread(arguments):
                return self._answer_from_thread(method, arguments, id_text, call)
        except RpcError as error:
            return _error_reply(error, id_text)
        except Exception:  # noqa: BLE001 - logged and counted there
            return _error_reply(self._internal_fault(name), id_text)
        outcome = self._run(method, arguments, call)
        if isinstance(outcome, UnknownBlock) and self._hold_off is not None:
            return self._answer_when_known(self._hold_off, method, arguments, id_text, call, outcome)
        return self._reply(outcome, id_text, call)

    async def _answer_from_thread(self, method: BoundMethod, arguments: list[Any], id_text: bytes, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        try:
            pending = loop.run_in_executor(method.threads or self._executor, self._run, method, arguments, call)
        except RpcError as error:  # threads of a method's own that take no more
            return _error_reply(error, id_text)
        return self._reply(await pending, id_text, call)

    async def _answer_when_known(
        self,
        hold_off: HoldOff,
        method: BoundMethod,
        arguments: list[Any],
        id_text: bytes,
        call: Call,
        unknown: UnknownBlock,
    ) -> Reply:
        """Once more when the block has come.  The calls of a batch wait together no longer than one alone, and go on
        with the view that has the block."""
        now = asyncio.get_running_loop().time()
        if call.wait_until is None:
            call.wait_until = now + hold_off.time_s
        if not await hold_off.wait(unknown.block_hash, call.wait_until - now):
            return _error_reply(unknown, id_text)
        call.renew(self.view_source())
        return self._reply(self._run(method, arguments, call), id_text, call)

    def _run(self, method: BoundMethod, arguments: list[Any], call: Call) -> bytes | RpcError | None:
        """The handler's result, or the error to answer."""
        try:
            return method.handler(call, *arguments)
        except RpcError as error:
            return error
        except Exception:  # noqa: BLE001 - logged and counted there
            return self._internal_fault(method.name)

    def _reply(self, outcome: bytes | RpcError | None, id_text: bytes, call: Call) -> Reply:
        if outcome is None:
            return splice(id_text, None)
        if isinstance(outcome, bytes):
            try:
                call.require_bytes(len(outcome))
            except ResponseTooLarge as error:
                outcome = error
            else:
                call.bytes_left -= len(outcome)
                return splice(id_text, outcome)
        if isinstance(outcome, ResponseTooLarge):
            self.traffic.rejected["response_size"] += 1
        return _error_reply(outcome, id_text)

    def _internal_fault(self, name: str) -> RpcError:
        """To be called while an unexpected exception is handled: the log gets it, the client does not."""
        if isinstance(sys.exception(), DatabaseUnreadable):  # said once, by the database
            return ServerError("This node cannot read its database; ask another one", data={"code": "DATABASE_DAMAGED"})
        self.internal_fault_count += 1
        logger.exception("%s failed", _shorten(name))
        return InternalError("Internal error")


# ---- parts of a request -----------------------------------------------------------------------


def _flaw_of(request: dict[str, Any]) -> str | None:
    """What keeps an object from being a request, or None."""
    name = request.get("method")
    if type(name) is not str:
        return "method must be a string" if "method" in request else "method is missing"
    if not name:
        return "method must not be empty"
    if type(request.get("jsonrpc", "")) is not str:
        return "jsonrpc must be a string"
    return None


def _positional(request: dict[str, Any]) -> list[Any]:
    values = request.get("params", _NO_PARAMETERS)
    if type(values) is not list:
        raise InvalidParams(f"Invalid params: params must be an array (parameters by position), got {describe(values)}")
    return values


def _shorten(name: str) -> str:
    return describe(name)[1:-1]


# ---- parts of an answer -----------------------------------------------------------------------

RESULT_HEAD: Final = b'{"jsonrpc":"2.0","id":'
RESULT_NAME: Final = b',"result":'


def splice(id_text: bytes, result: bytes | None) -> Reply:
    """The answer to a call that went well; None: nothing was found."""
    if result is None:
        return Reply(b"%b%b}" % (RESULT_HEAD, id_text))
    return Reply(b"%b%b%b%b}" % (RESULT_HEAD, id_text, RESULT_NAME, result))


def _error_reply(error: RpcError, id_text: bytes) -> Reply:
    # A message may quote what a client sent; a lone surrogate in it has no UTF-8 form.
    message = orjson.dumps(error.message.encode("utf-8", "backslashreplace").decode("utf-8"))
    data = b"" if error.data is None else b',"data":' + orjson.dumps(error.data)
    body = b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b%b}}' % (id_text, error.code, message, data)
    return Reply(body, error.code, error.wait_s if isinstance(error, RateLimited) else None)


def _silence(reply: Reply) -> Reply:
    """What is said to a notification: nothing, but for a refusal, which concerns the whole request."""
    return _SILENCE if reply.retry_after_s is None else Reply(None, None, reply.retry_after_s)


async def _silenced(pending: Awaitable[Reply]) -> Reply:
    return _silence(await pending)


def _join(replies: list[Reply]) -> Reply:
    bodies = [reply.body for reply in replies if reply.body is not None]
    body = b"[" + b",".join(bodies) + b"]" if bodies else None
    waits = [reply.retry_after_s for reply in replies if reply.retry_after_s is not None]
    if waits and len(waits) == len(replies):
        return Reply(body, RateLimited.code, max(waits))
    return Reply(body) if body is not None else _SILENCE
