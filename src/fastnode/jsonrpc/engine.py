"""The JSON-RPC 2.0 engine: the bytes of a request body in, the bytes of the answer out.

It knows nothing of HTTP.  ``Engine.handle`` answers at once unless a method asks for a thread; then
it returns an awaitable.

    body -> Calls -> charge -> Outcomes, filled one by one -> render (_ext/wire/calls.pyi)

A call waits as an outcome that is pending, and those behind it with it: calls take effect in their order.

A request stays within its allowance (http/allowance.py): its memory is asked for before it is taken; a batch lets
others have their turn between its calls; and when the client has gone, what is left of the batch is not done.

Differences from the specification's letter, both lenient: ``jsonrpc`` may be absent, and an id of any JSON type is
echoed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, Final, TypeAlias

from fastnode.errors import (
    InternalError,
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
from fastnode.jsonrpc.block_wait import BlockWait
from fastnode.jsonrpc.json_text import (
    SILENCE,
    Reply,
    WrongBatch,
    busy_reply,
    error_reply,
    error_value,
    read_calls,
    render,
)
from fastnode.jsonrpc.methods import BoundMethod, Context, MethodTable
from fastnode.jsonrpc.rate_limits import Client
from fastnode.jsonrpc.refusals import answer_to
from fastnode.kernels import calls, clock
from fastnode.values.refusal import describe
from fastnode.view import View

__all__ = ["READ_ON_LOOP_BYTES_MAX", "Engine", "Reply"]

logger = logging.getLogger("fastnode.rpc")

#: A longer body is read in a thread, unless it is plain.
READ_ON_LOOP_BYTES_MAX: Final = 32 * 1024
_FOREIGN: Final = (
    "A page of another site may not call this method; call it without an Origin, or name the page's origin with "
    "--local-network-origins"
)
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


class Engine:
    """Answers request bodies from a method table.

    ``view_source`` is asked once per body; None means that there is no chain to read yet.
    ``executor`` runs the methods that wait for something, and ``busy_executor`` those that keep a processor busy: of
    these few at a time, as they keep the interpreter from the loop (default of both: the event loop's).  ``block_wait``
    lets calls wait for a block that is not there yet.  ``meters`` counts and times every call; None: no counts.
    ``omits_absent``: the answer to a call with an absent result has no member ``result``; else it is null.
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
        omits_absent: bool = False,
    ) -> None:
        self.table = table
        self.omits_absent = omits_absent
        self._methods = table.by_wire_name()
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

    def reader_of(self, method: BoundMethod) -> Callable[[View, list[Any]], bytes | None] | None:
        """``read(view, params)``: a result that follows from the view alone, from the values of its parameters.
        LeftToStrictPath for everything that :meth:`handle` has to answer.  None if the method has none, or takes long.
        """
        if not method.is_cached or method.in_thread is True:
            return None
        unlimited = Party()

        def read(view: View, params: list[Any]) -> bytes | None:
            try:
                arguments, is_long = method.decode(params)
            except RpcError:
                raise LeftToStrictPath(f"parameters of {method.name}") from None
            if is_long:
                raise LeftToStrictPath(f"{method.name} may take long")
            limit = min(self.limits.response_bytes_max, COLLECTED_ON_LOOP_BYTES_MAX)
            allowance = Allowance(unlimited)
            try:
                return method.run(Context(view, self.table.method_set, limit, None, allowance), arguments)
            finally:
                allowance.give_back()

        return read

    def _context(
        self, view: View | None, client: Client | None, allowance: Allowance, *, is_foreign: bool = False
    ) -> Context:
        limit = self.limits.response_bytes_max
        return Context(view, self.table.method_set, limit, client, allowance, is_foreign)

    def handle(
        self, body: bytes, client: Client | None = None, allowance: Allowance | None = None, *, is_foreign: bool = False
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to one request body, for which ``client`` is charged.  Raises for nothing that a body can hold.

        Without an ``allowance`` nothing is limited, and no other request waits.  ``is_foreign``: a page of another
        site asks.
        """
        if client is not None and (refusal := self._refusal_of_body(client, len(body))) is not None:
            return refusal
        if allowance is None:
            allowance = Allowance(Party())
        # Fast path: reading a small or plain body takes less time than handing it to a thread.
        if len(body) > READ_ON_LOOP_BYTES_MAX and not _is_plain(body):
            return self._handle_long(body, client, allowance, is_foreign=is_foreign)
        try:
            asked = read_calls(body, self.limits, allowance.take)
        except (ParseError, WrongBatch, NodeBusy) as error:
            return self._refuse(error, client)
        context = self._context(self.view_source(), client, allowance, is_foreign=is_foreign)
        return self._answer(asked, calls.Outcomes(len(asked)), context)

    async def _handle_long(
        self, body: bytes, client: Client | None, allowance: Allowance, *, is_foreign: bool
    ) -> Reply:
        try:
            allowance.take_for_waiting()
            asked = await run_off_loop(self.busy_executor, allowance, read_calls, body, self.limits, allowance.take)
        except (ParseError, WrongBatch, NodeBusy) as error:
            return self._refuse(error, client)
        allowance.begin_slice()
        context = self._context(self.view_source(), client, allowance, is_foreign=is_foreign)
        reply = self._answer(asked, calls.Outcomes(len(asked)), context)
        return reply if isinstance(reply, Reply) else await reply

    def go_on(
        self,
        asked: calls.Calls,
        outcomes: calls.Outcomes,
        view: View | None,
        client: Client | None,
        allowance: Allowance,
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to calls that a scanner has found, with the outcomes that a kernel has made from the view."""
        if client is not None and not outcomes.is_charged(0):
            refusal = self._refusal_of_body(client, len(asked.text or b""))
            if refusal is not None:
                return refusal
        return self._answer(asked, outcomes, self._context(view, client, allowance))

    def _refusal_of_body(self, client: Client, size: int) -> Reply | None:
        """The answer to a body of which nothing is read; None: it is read, which a client pays for if it is long."""
        refusal = client.refusal_of_body(size)
        if refusal is None:
            return None
        self.traffic.rejected["rate"] += 1
        return error_reply(refusal)

    def _refuse(self, error: RpcError, client: Client | None) -> Reply:
        """The answer to a body that is not answered call by call; it costs what anything costs that is no call."""
        if isinstance(error, NodeBusy):
            return busy_reply(error)
        if isinstance(error, WrongBatch):
            self._note_batch(error.count)
            if error.count:
                self.traffic.rejected["batch_size"] += 1
        return error_reply(self._charge(client, None) or error)

    def _answer(
        self, asked: calls.Calls, outcomes: calls.Outcomes, context: Context
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer to calls, of which the first ones may have an outcome."""
        if asked.is_batch:
            self._note_batch(len(asked))
        made = 0
        try:
            if asked.text is not None and (made := outcomes.next_pending()):
                self._take_over(asked, 0, made, outcomes, context)
            if context.client is not None and made < len(asked):
                self._charge_all(asked, outcomes, context.client)
            if 0 < made < len(asked) and context.allowance.is_slice_over():
                pending: Awaitable[None] | None = context.allowance.next_turn()
            else:
                pending = self._fill(asked, outcomes, context)
        except NodeBusy as error:
            return busy_reply(error, asked)
        if pending is not None:
            return self._answer_later(pending, asked, outcomes, context)
        return render(asked, outcomes, omits_absent=self.omits_absent)

    async def _answer_later(
        self, pending: Awaitable[None] | None, asked: calls.Calls, outcomes: calls.Outcomes, context: Context
    ) -> Reply:
        try:
            while pending is not None:
                await pending
                if context.allowance.is_abandoned:
                    return SILENCE
                pending = self._fill(asked, outcomes, context)
        except NodeBusy as error:
            return busy_reply(error, asked)
        return render(asked, outcomes, omits_absent=self.omits_absent)

    def _note_batch(self, count: int) -> None:
        if self._meters is not None:
            self._meters.add_batch(count)

    # ---- charging ----------------------------------------------------------------------------

    def _charge_all(self, asked: calls.Calls, outcomes: calls.Outcomes, client: Client) -> None:
        """Charge calls that are pending, before the first of them is answered: what comes behind a batch that waits
        does not take its budget.  One that must not be made has its outcome with that."""
        for index in range(outcomes.next_pending(), len(asked)):
            name = asked.name(index)
            refusal = None if outcomes.is_charged(index) else self._charge(client, name)
            if refusal is not None:
                outcomes.set_error(index, refusal, error_value(refusal))
                if self._meters is not None and name is not None:
                    self._meters.calls.finish(name, clock.now_ns(), refusal.code)

    def _charge(self, client: Client | None, name: str | None) -> RpcError | None:
        """The error for a client that must not make a call; what is no call is charged too.  Budgets and lists know a
        method by one name."""
        if client is None:
            return None
        method = None if name is None else self._methods.get(name)
        refusal = client.refusal_of(name if method is None else method.name)
        if refusal is not None:
            self.traffic.rejected["rate" if isinstance(refusal, RateLimited) else "method"] += 1
        return refusal

    # ---- calls -------------------------------------------------------------------------------

    def _fill(self, asked: calls.Calls, outcomes: calls.Outcomes, context: Context) -> Awaitable[None] | None:
        """Make the outcomes that are pending, in order; None: all are there.  Otherwise there is something to wait for
        first: the outcome of a call that takes its time, or the turns of others.  NodeBusy ends all of it."""
        allowance, index, count = context.allowance, outcomes.next_pending(), len(asked)
        while index < count:
            made = index
            if asked.text is not None:  # a kernel may go on with it
                asked.fill(outcomes, context.view_or_none, allowance.slice_end_ns)
                made = outcomes.next_pending(index)
            if made > index:
                self._take_over(asked, index, made, outcomes, context)
            else:
                pending = self._call(asked, index, outcomes, context)
                if pending is not None:
                    return pending
            if count == 1:
                break
            index = outcomes.next_pending(index + 1)
            if index < count and allowance.is_slice_over():
                return allowance.next_turn()
        return None

    def _take_over(self, asked: calls.Calls, start: int, end: int, outcomes: calls.Outcomes, context: Context) -> None:
        """Count results that a kernel has made, for which there may be no room.  NodeBusy."""
        for index in range(start, end):
            try:
                context.add_result(outcomes.size(index))
            except (ResponseTooLarge, NodeBusy) as error:
                self._fail(asked, index, outcomes, error.with_traceback(None))
            else:
                if self._meters is not None:
                    self._meters.calls.finish(asked.name(index), outcomes.started_ns(index), None)

    def _call(
        self, asked: calls.Calls, index: int, outcomes: calls.Outcomes, context: Context
    ) -> Awaitable[None] | None:
        """Make one outcome, measured; what has to be awaited for it if it is not there at once."""
        name, params, _ = asked[index]
        if name is None:
            outcomes.set_error(index, params, error_value(params))
            return None
        raised = outcomes.begin_call(index)  # by a handler that has run
        try:
            method = self._methods.get(name)
            if method is None:
                raise MethodNotFound(f"Method not found: {_shorten(name)}{self.table.hint_for(name)}")
            if method.for_own_pages and context.is_foreign:
                raise Refused(_FOREIGN, data={"code": "FOREIGN_PAGE"})
            arguments, is_long = method.decode(params)
            if raised is None and is_long:
                running = self._run_in_thread(method, arguments, context)
                return self._set_later(asked, index, outcomes, method, running, context)
            result = self._run(method, context, arguments) if raised is None else self._answer_to(raised, name)
        except Exception as error:  # noqa: BLE001 - a fault is logged and counted there
            self._fail(asked, index, outcomes, self._answer_to(error, name))
            return None
        if isinstance(result, UnknownBlock) and self._block_wait is not None:
            waiting = self._run_when_known(self._block_wait, method, arguments, context, result)
            return self._set_later(asked, index, outcomes, method, waiting, context)
        self._set(asked, index, outcomes, method, result, context)
        return None

    async def _set_later(
        self,
        asked: calls.Calls,
        index: int,
        outcomes: calls.Outcomes,
        method: BoundMethod,
        pending: Awaitable[bytes | RpcError | None],
        context: Context,
    ) -> None:
        meters = self._meters
        if meters is not None:
            meters.in_flight += 1
        try:
            result = await pending
        finally:
            if meters is not None:
                meters.in_flight -= 1
        context.allowance.begin_slice()
        self._set(asked, index, outcomes, method, result, context)

    def _set(
        self,
        asked: calls.Calls,
        index: int,
        outcomes: calls.Outcomes,
        method: BoundMethod,
        result: bytes | RpcError | None,
        context: Context,
    ) -> None:
        """NodeBusy, for which there is no answer but to the whole request."""
        if isinstance(result, RpcError):
            self._fail(asked, index, outcomes, result)
            return
        outcomes.set_result(index, result)
        name, params, _ = asked[index]
        if method.is_cached and self.keep is not None and name is not None:
            self.keep(name, params, result or b"", context.view_key)
        if self._meters is not None:
            self._meters.calls.finish(name, outcomes.started_ns(index), None)

    def _fail(self, asked: calls.Calls, index: int, outcomes: calls.Outcomes, error: RpcError) -> None:
        """NodeBusy as above."""
        outcomes.set_error(index, error, error_value(error))
        if isinstance(error, ResponseTooLarge):
            self.traffic.rejected["response_size"] += 1
        if self._meters is not None:
            self._meters.calls.finish(asked.name(index), outcomes.started_ns(index), error.code)
        if isinstance(error, NodeBusy):
            raise error

    async def _run_in_thread(
        self, method: BoundMethod, arguments: list[Any], context: Context
    ) -> bytes | RpcError | None:
        executor = method.threads or (self._executor if method.waits else self.busy_executor)
        try:
            context.allowance.take_for_waiting()
            if method.prepare is not None:
                arguments = [
                    *await run_off_loop(self._executor, context.allowance, method.prepare, context, *arguments)
                ]
            return await run_off_loop(executor, context.allowance, self._run, method, context, arguments)
        except Exception as error:  # noqa: BLE001 - of what is prepared, or of threads that take no more; logged there
            return self._answer_to(error, method.name)

    async def _run_when_known(
        self, block_wait: BlockWait, method: BoundMethod, arguments: list[Any], context: Context, unknown: UnknownBlock
    ) -> bytes | RpcError | None:
        """Once more when the block has come.  The calls of a batch wait together no longer than one alone, and go on
        with the view that has the block."""
        try:
            context.allowance.take_for_waiting()
        except NodeBusy as error:
            return error.with_traceback(None)
        now = asyncio.get_running_loop().time()
        if context.wait_until is None:
            context.wait_until = now + block_wait.time_s
        if not await block_wait.wait(unknown.block_hash, context.wait_until - now):
            return unknown
        context.view_or_none = self.view_source()
        return self._run(method, context, arguments)

    def _run(self, method: BoundMethod, context: Context, arguments: list[Any]) -> bytes | RpcError | None:
        """The handler's result, or the error to answer."""
        try:
            return method.run(context, arguments)
        except Exception as error:  # noqa: BLE001 - a fault is logged and counted there
            return self._answer_to(error, method.name)

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


def _shorten(name: str) -> str:
    return describe(name)[1:-1]
