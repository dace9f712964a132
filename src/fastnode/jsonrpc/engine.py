"""The JSON-RPC 2.0 engine: the bytes of a request body in, the bytes of the answer out.

It knows nothing of HTTP.  ``Engine.handle`` answers at once unless a method asks for a thread; then
it returns an awaitable.  Answers are spliced, never serialised: the id is the request's own text and
the result is the handler's.

    {"jsonrpc":"2.0","id":<id text>,"result":<result>}      no "result" when nothing was found
    {"jsonrpc":"2.0","id":<id text>,"error":{"code":<code>,"message":<text>,"data":<data>}}

A request stays within its allowance (http/allowance.py): its memory is asked for before it is taken; a batch lets
others have their turn between its calls; and when the client has gone, what is left of the batch is not done.

Differences from the specification's letter, both lenient: ``jsonrpc`` may be absent or name another
version, and an id of any JSON type is echoed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeAlias

import orjson

from fastnode.errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    LeftToStrictPath,
    MethodNotFound,
    NodeBusy,
    ParseError,
    RateLimited,
    Refused,
    ResponseTooLarge,
    RpcError,
    UnknownBlock,
)
from fastnode.http.allowance import Allowance, Party
from fastnode.http.fair_threads import run_off_loop
from fastnode.http.limits import Limits
from fastnode.http.meters import CallMeters, Traffic
from fastnode.jsonrpc import json_text
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.jsonrpc.json_text import (
    NULL_ID,
    SILENCE,
    IdTexts,
    Reply,
    busy_reply,
    error_reply,
    join,
    silence,
    silenced,
    splice,
)
from fastnode.jsonrpc.methods import BoundMethod, Context, MethodTable, Outcome, Outcomes
from fastnode.jsonrpc.rate_limits import Client
from fastnode.jsonrpc.refusals import answer_to
from fastnode.kernels import call_meter
from fastnode.values.refusal import describe
from fastnode.view import View

__all__ = ["READ_ON_LOOP_BYTES_MAX", "Engine", "Reply"]

logger = logging.getLogger("fastnode.rpc")

_NO_PARAMETERS: Final[list[Any]] = []
#: A longer body is read in a thread, unless it is plain.
READ_ON_LOOP_BYTES_MAX: Final = 32 * 1024
_FOREIGN: Final = (
    "A page of another site may not call this method; call it without an Origin, or name the page's origin with "
    "--local-network-origins"
)
#: No method has a name as long as this; of a longer one the rest is forgotten.
NAME_LENGTH_MAX: Final = 1024
#: A plain body has no more than this, no escapes and few values: it consists of long texts, as a transaction does,
#: which are copied in a tenth of a millisecond.
PLAIN_BYTES_MAX: Final = 256 * 1024
PLAIN_VALUES_MAX: Final = 1024
#: A longer result of a range is not collected on the event loop.
COLLECTED_ON_LOOP_BYTES_MAX: Final = 1 << 20

#: ``keep(name, params, result, view_key)``: a result that follows from a view alone, of a call by a name of its method.
Keep: TypeAlias = Callable[[str, list[Any], bytes, object], None]


def _do_nothing() -> None:
    pass


class Calls:
    """The calls of one request body, each with what its answer takes."""

    __slots__ = ("context", "ids", "made", "refusals", "requests")

    def __init__(self, requests: list[Any], ids: IdTexts, context: Context, made: list[Outcome]) -> None:
        self.requests = requests  # as they were read
        self.ids = ids
        self.context = context
        self.made = made  # outcomes of the first calls, which are not run again
        self.refusals: list[RpcError | None] = []  # of each call, once it has been charged


class Engine:
    """Answers request bodies from a method table.

    ``view_source`` is asked once per body; None means that there is no chain to read yet.
    ``executor`` runs the methods that wait for something, and ``busy_executor`` those that keep a processor busy: of
    these few at a time, as they keep the interpreter from the loop (default of both: the event loop's).  ``block_wait``
    lets calls wait for a block that is not there yet.  ``meters`` counts and times every call; None: no counts.
    """

    def __init__(
        self,
        table: MethodTable,
        view_source: Callable[[], View | None],
        *,
        limits: Limits | None = None,
        executor: Executor | None = None,
        busy_executor: Executor | None = None,
        block_wait: BlockWait | None = None,
        meters: CallMeters | None = None,
    ) -> None:
        self.table = table
        #: Called when :attr:`meters` are replaced.
        self.on_change: Callable[[], None] = _do_nothing
        #: Takes the results of methods that say ``is_cached``.
        self.keep: Keep | None = None
        self._meters = meters
        self.traffic = Traffic()
        self._block_wait = block_wait
        self.limits = limits or Limits()
        #: The view that a request of now is answered from.
        self.view_source = view_source
        self._executor = executor
        self.busy_executor = busy_executor or executor
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
        self, name: str, params: list[Any], id_text: bytes, known: Outcomes, allowance: Allowance
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to one call that is no notification and has been read already: what :meth:`handle` says to it."""
        context = self._context(known.view, None, allowance)
        outcome = known.made[0] if known.made else None
        return self._answer_read({"method": name, "params": params}, id_text, context, outcome, None)

    def reader_of(self, method: BoundMethod) -> Callable[[View, bytes | None], bytes | None] | None:
        """``read(view, params)``: a result that follows from the view alone, from the text of its parameters.
        LeftToStrictPath for everything that :meth:`handle` has to answer.  None if the method has none, or takes long.
        """
        if not method.is_cached or method.in_thread is True:
            return None

        def read(view: View, params: bytes | None) -> bytes | None:
            try:
                arguments = method.decode([] if params is None else orjson.loads(params))
            except (orjson.JSONDecodeError, RpcError):
                raise LeftToStrictPath(f"parameters of {method.name}") from None
            if method.wants_thread(arguments):
                raise LeftToStrictPath(f"{method.name} may take long")
            limit = min(self.limits.response_bytes_max, COLLECTED_ON_LOOP_BYTES_MAX)
            return method.handler(Context(view, self.table.method_set, limit), *arguments)

        return read

    def _context(
        self, view: View | None, client: Client | None, allowance: Allowance, *, is_foreign: bool = False
    ) -> Context:
        limit = self.limits.response_bytes_max
        return Context(view, self.table.method_set, limit, client, allowance, is_foreign=is_foreign)

    def handle(
        self,
        body: bytes,
        client: Client | None = None,
        allowance: Allowance | None = None,
        known: Outcomes | None = None,
        *,
        is_foreign: bool = False,
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to one request body, for which ``client`` is charged.  Raises for nothing that a body can hold.

        Without an ``allowance`` nothing is limited, and no other request waits.  Calls with a ``known`` outcome are not
        run again, and all others read its view.  ``is_foreign``: a page of another site asks.
        """
        if client is not None and (refusal := client.refusal_of_body(len(body))) is not None:
            self.traffic.rejected["rate"] += 1
            return error_reply(refusal, NULL_ID)
        if allowance is None:
            allowance = Allowance(Party())
        # Fast path: reading a small or plain body takes less time than handing it to a thread.
        if len(body) > READ_ON_LOOP_BYTES_MAX and not _is_plain(body):
            return self._handle_long(body, client, allowance, known, is_foreign=is_foreign)
        try:
            request = json_text.parse(body, self.limits, allowance.take)
        except ParseError as error:
            return error_reply(self._charge(client, None) or error, NULL_ID)
        except NodeBusy as error:
            return busy_reply(error)
        return self._answer_request(request, IdTexts(body), client, allowance, known, is_foreign=is_foreign)

    async def _handle_long(
        self, body: bytes, client: Client | None, allowance: Allowance, known: Outcomes | None, *, is_foreign: bool
    ) -> Reply:
        def read() -> tuple[Any, IdTexts]:
            request = json_text.parse(body, self.limits, allowance.take)
            ids = IdTexts(body)
            ids.prepare()
            return request, ids

        try:
            allowance.take_for_waiting()
            request, ids = await run_off_loop(self.busy_executor, allowance, read)
        except ParseError as error:
            return error_reply(self._charge(client, None) or error, NULL_ID)
        except NodeBusy as error:
            return busy_reply(error)
        allowance.begin_slice()
        reply = self._answer_request(request, ids, client, allowance, known, is_foreign=is_foreign)
        return reply if isinstance(reply, Reply) else await reply

    def _answer_request(
        self,
        request: Any,
        ids: IdTexts,
        client: Client | None,
        allowance: Allowance,
        known: Outcomes | None,
        *,
        is_foreign: bool,
    ) -> Reply | Coroutine[Any, Any, Reply]:
        view = self.view_source() if known is None else known.view
        context = self._context(view, client, allowance, is_foreign=is_foreign)
        if type(request) is list:
            return self._answer_batch(Calls(request, ids, context, [] if known is None else known.made))
        calls = Calls([request], ids, context, [])
        calls.refusals = [self._charge(client, request)]
        return self._answer(calls, 0)

    def _charge(self, client: Client | None, request: Any) -> RpcError | None:
        """The error for a client that must not make a call; what is no call is charged too."""
        if client is None:
            return None
        refusal = client.refusal_of(self._called_by(request))
        if refusal is not None:
            self.traffic.rejected["rate" if isinstance(refusal, RateLimited) else "method"] += 1
        return refusal

    def _called_by(self, request: Any) -> str | None:
        """The method, by the one name by which budgets and lists know it; None: the request is no call."""
        if type(request) is not dict or _flaw_of(request) is not None:
            return None
        name: str = request["method"][:NAME_LENGTH_MAX]
        method = self.table.get(name)
        return name if method is None else method.name

    # ---- batches ---------------------------------------------------------------------------

    def _answer_batch(self, calls: Calls) -> Reply | Coroutine[Any, Any, Reply]:
        requests, context = calls.requests, calls.context
        if self._meters is not None:
            self._meters.add_batch(len(requests))
        if not requests:
            flaw = InvalidRequest("Invalid request: the batch is empty")
            return error_reply(self._charge(context.client, None) or flaw, NULL_ID)
        limit = self.limits.batch_calls_max
        if len(requests) > limit:
            self.traffic.rejected["batch_size"] += 1
            message = f"Invalid request: a batch of {len(requests)} calls exceeds the limit of {limit}"
            return error_reply(self._charge(context.client, None) or InvalidRequest(message), NULL_ID)
        # Before the first is answered: what comes behind a batch that waits does not take its budget.
        calls.refusals = [self._charge(context.client, request) for request in requests]
        replies: list[Reply] = []
        for index in range(len(requests)):
            reply = self._answer(calls, index)
            if not isinstance(reply, Reply) or context.allowance.is_slice_over():
                return self._finish_batch(reply, replies, calls)
            if reply.busy is not None:
                return reply
            replies.append(reply)
        return join(replies)

    async def _finish_batch(self, pending: Reply | Awaitable[Reply], replies: list[Reply], calls: Calls) -> Reply:
        """A batch from its first call on that is not answered at once, or for which others have to wait too long;
        ``replies`` are those before it.

        One call at a time: the elements take effect in request order, and no batch takes all threads.
        """
        allowance = calls.context.allowance
        while True:
            if not isinstance(pending, Reply):
                pending = await pending
                allowance.begin_slice()
            if pending.busy is not None:
                return pending
            replies.append(pending)
            if len(replies) == len(calls.requests):
                return join(replies)
            if allowance.is_slice_over():
                await allowance.next_turn()
            if allowance.is_abandoned:
                return SILENCE
            pending = self._answer(calls, len(replies))

    # ---- one call --------------------------------------------------------------------------

    def _answer(self, calls: Calls, index: int) -> Reply | Coroutine[Any, Any, Reply]:
        request, refusal = calls.requests[index], calls.refusals[index]
        if type(request) is not dict:
            message = f"Invalid request: a call must be an object, got {describe(request)}"
            return error_reply(refusal or InvalidRequest(message), NULL_ID)
        is_notification = "id" not in request
        id_text = NULL_ID if is_notification else calls.ids.text(request["id"], index)
        if (flaw := _flaw_of(request)) is not None:
            return error_reply(refusal or InvalidRequest(f"Invalid request: {flaw}"), id_text)
        outcome = calls.made[index] if index < len(calls.made) else None
        reply = self._answer_read(request, id_text, calls.context, outcome, refusal)
        if not is_notification:
            return reply
        return silence(reply) if isinstance(reply, Reply) else silenced(reply)

    def _answer_read(
        self,
        request: dict[str, Any],
        id_text: bytes,
        context: Context,
        known: Outcome | None,
        refusal: RpcError | None,
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to a call that is one, measured; ``known``: the outcome of a handler that has run already."""
        if len(request["method"]) > NAME_LENGTH_MAX:  # to look it up would take as long as to read it
            request["method"] = request["method"][:NAME_LENGTH_MAX]
        meters = self._meters
        if meters is None:
            return self._dispatch(request, id_text, context, known, refusal)
        started_ns = call_meter.now_ns() - (0 if known is None else known[1])
        reply = self._dispatch(request, id_text, context, known, refusal)
        if isinstance(reply, Reply):
            meters.calls.finish(request["method"], started_ns, reply.error_code)
            return reply
        return self._measure_later(meters, request["method"], started_ns, reply)

    async def _measure_later(self, meters: CallMeters, name: str, started_ns: int, pending: Awaitable[Reply]) -> Reply:
        meters.in_flight += 1
        try:
            reply = await pending
        finally:
            meters.in_flight -= 1
        meters.calls.finish(name, started_ns, reply.error_code)
        return reply

    def _dispatch(
        self,
        request: dict[str, Any],
        id_text: bytes,
        context: Context,
        known: Outcome | None,
        refusal: RpcError | None,
    ) -> Reply | Coroutine[Any, Any, Reply]:
        name = request["method"]
        try:
            if refusal is not None:
                raise refusal
            method = self.table.get(name)
            if method is None:
                raise MethodNotFound(f"Method not found: {_shorten(name)}{self.table.hint_for(name)}")
            if method.for_own_pages and context.is_foreign:
                raise Refused(_FOREIGN, data={"code": "FOREIGN_PAGE"})
            arguments = method.decode(_positional(request))
            if known is None and method.wants_thread(arguments):
                return self._answer_from_thread(method, request, arguments, id_text, context)
        except Exception as error:  # noqa: BLE001 - a fault is logged and counted there
            return error_reply(self._answer_to(error, name), id_text)
        outcome = self._run(method, arguments, context) if known is None else self._outcome_of(known[0], method)
        if isinstance(outcome, UnknownBlock) and self._block_wait is not None:
            return self._answer_when_known(self._block_wait, method, arguments, id_text, context, outcome)
        return self._conclude(method, request, outcome, id_text, context)

    async def _answer_from_thread(
        self, method: BoundMethod, request: dict[str, Any], arguments: list[Any], id_text: bytes, context: Context
    ) -> Reply:
        executor = method.threads or (self._executor if method.waits else self.busy_executor)
        try:
            context.allowance.take_for_waiting()
            if method.prepare is not None:
                arguments = [*await run_off_loop(self._executor, context.allowance, method.prepare, *arguments)]
            outcome = await run_off_loop(executor, context.allowance, self._run, method, arguments, context)
        except NodeBusy as error:
            return busy_reply(error)
        except Exception as error:  # noqa: BLE001 - of what is prepared, or of threads that take no more; logged there
            return error_reply(self._answer_to(error, method.name), id_text)
        return self._conclude(method, request, outcome, id_text, context)

    async def _answer_when_known(
        self,
        block_wait: BlockWait,
        method: BoundMethod,
        arguments: list[Any],
        id_text: bytes,
        context: Context,
        unknown: UnknownBlock,
    ) -> Reply:
        """Once more when the block has come.  The calls of a batch wait together no longer than one alone, and go on
        with the view that has the block."""
        try:
            context.allowance.take_for_waiting()
        except NodeBusy as error:
            return busy_reply(error)
        now = asyncio.get_running_loop().time()
        if context.wait_until is None:
            context.wait_until = now + block_wait.time_s
        if not await block_wait.wait(unknown.block_hash, context.wait_until - now):
            return error_reply(unknown, id_text)
        context.renew(self.view_source())
        return self._reply(self._run(method, arguments, context), id_text, context)

    def _run(self, method: BoundMethod, arguments: list[Any], context: Context) -> bytes | RpcError | None:
        """The handler's result, or the error to answer."""
        try:
            return method.handler(context, *arguments)
        except Exception as error:  # noqa: BLE001 - a fault is logged and counted there
            return self._answer_to(error, method.name)

    def _outcome_of(self, said: bytes | Exception, method: BoundMethod) -> bytes | RpcError | None:
        """The same of a handler that has run."""
        if isinstance(said, bytes):
            return said or None
        return self._answer_to(said, method.name)

    def _conclude(
        self,
        method: BoundMethod,
        request: dict[str, Any],
        outcome: bytes | RpcError | None,
        id_text: bytes,
        context: Context,
    ) -> Reply:
        if method.is_cached and self.keep is not None and not isinstance(outcome, RpcError):
            self.keep(request["method"], _positional(request), outcome or b"", context.view_key)
        return self._reply(outcome, id_text, context)

    def _reply(self, outcome: bytes | RpcError | None, id_text: bytes, context: Context) -> Reply:
        if outcome is None:
            return splice(id_text, None)
        if isinstance(outcome, bytes):
            try:
                context.add_result(len(outcome))
            except (ResponseTooLarge, NodeBusy) as error:
                return self._reply(error.with_traceback(None), id_text, context)
            return splice(id_text, outcome)
        if isinstance(outcome, NodeBusy):
            return busy_reply(outcome)
        if isinstance(outcome, ResponseTooLarge):
            self.traffic.rejected["response_size"] += 1
        return error_reply(outcome, id_text)

    def _answer_to(self, error: Exception, name: str) -> RpcError:
        """The log gets the traceback of a fault, the client nothing.

        An answer does not know where it was raised: the frames would hold on to the whole request, and to the answer.
        """
        answer = answer_to(error)
        if answer is not None:
            answer.__context__ = answer.__cause__ = None
            return answer.with_traceback(None)
        self.internal_fault_count += 1
        logger.error("%s failed", _shorten(name), exc_info=error)
        return InternalError("Internal error")


# ---- parts of a request -----------------------------------------------------------------------


def _is_plain(body: bytes) -> bool:
    return len(body) <= PLAIN_BYTES_MAX and b"\\" not in body and body.count(b",") < PLAIN_VALUES_MAX


def _flaw_of(request: dict[str, Any]) -> str | None:
    """The reason why an object is no request, or None."""
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
