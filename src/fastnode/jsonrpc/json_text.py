"""The JSON of requests and answers: reading the calls of a body with the exact text of their ids, rendering outcomes.

orjson parses.  Two things it cannot do are done here:

* An id is echoed byte for byte.  orjson turns ``12345678901234567890123`` into a float, ``-0``
  into ``0`` and forgets how a string was escaped.  :class:`IdTexts` finds the text itself.
* ``"\\ud800"``, a lone surrogate, is grammatical JSON (RFC 8259, section 8.2) that orjson refuses; the standard
  library's parser takes it.

Both are rare, so the common request never pays for them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from fastnode.errors import InvalidRequest, NodeBusy, ParseError, RateLimited, RpcError
from fastnode.http.limits import Limits
from fastnode.kernels import calls, json_shape
from fastnode.values.refusal import describe

__all__ = [
    "NULL_ID",
    "SILENCE",
    "IdTexts",
    "Reply",
    "busy_reply",
    "error_reply",
    "error_value",
    "parse",
    "read_calls",
    "render",
]

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: The integers that orjson keeps exact; others become floats, here as there.
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**64 - 1

_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: A longer text with a lone surrogate is refused: the parser that takes them is slow.
LENIENT_BYTES_MAX: Final = 32 * 1024
#: About what a value takes in memory beside its text, which there is twice then.
VALUE_BYTES: Final = 64
#: No method has a name as long as this; of a longer one the rest is forgotten.
NAME_LENGTH_MAX: Final = 1024
NO_PARAMETERS: Final[list[Any]] = []
NULL_ID: Final = b"null"
#: What the member ``jsonrpc`` of a call has, if it is there.
VERSION: Final = "2.0"
#: Texts with fewer values, that are shorter, are not worth asking.
UNASKED_VALUES_MAX: Final = 256
UNASKED_BYTES_MAX: Final = 16 * 1024


def parse(body: bytes, limits: Limits, take: Callable[[int], None] = lambda count: None) -> Any:
    """The value of a JSON text.

    Its shape is measured before anything is built, and ``take`` is asked for the bytes that the values will need.
    A byte order mark is skipped; of equal keys the last one counts.  Raises
    :class:`~fastnode.errors.ParseError` for anything that is not JSON, for numbers too large for a
    double, and for more than ``limits`` allow: arrays and objects inside each other, or at all, and values.
    """
    depth, containers, values = json_shape.measure(
        body,
        depth_max=limits.json_depth_max,
        containers_max=limits.json_containers_max,
        values_max=limits.json_values_max,
    )
    if depth > limits.json_depth_max:
        raise ParseError(f"Parse error: more than {limits.json_depth_max} arrays and objects inside each other")
    if containers > limits.json_containers_max:
        raise ParseError(f"Parse error: more than {limits.json_containers_max} arrays and objects")
    if values > limits.json_values_max:
        raise ParseError(f"Parse error: more than {limits.json_values_max} values")
    if values > UNASKED_VALUES_MAX or len(body) > UNASKED_BYTES_MAX:
        take(len(body) + values * VALUE_BYTES)
    if body.startswith(BYTE_ORDER_MARK):
        body = body[len(BYTE_ORDER_MARK) :]
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if _SURROGATE_ESCAPE.search(body) is None:
            raise ParseError(f"Parse error: {error}") from None
    return _parse_with_lone_surrogates(body)


# ---- lone surrogates ------------------------------------------------------------------------


def _parse_with_lone_surrogates(body: bytes) -> Any:
    """As :func:`orjson.loads`, but a lone surrogate is a character like another."""
    if len(body) > LENIENT_BYTES_MAX:
        raise ParseError(f"Parse error: not JSON, or half a character in more than {LENIENT_BYTES_MAX} bytes")
    try:
        return _LENIENT_DECODER.decode(body.decode("utf-8"))
    except ValueError as error:
        raise ParseError(f"Parse error: {error}") from None


def _read_integer(text: str) -> int | float:
    # 20 characters hold every integer of 64 bits; longer texts are never worth an exact integer.
    if len(text) <= 20 and INT_MIN <= (value := int(text)) <= INT_MAX:
        return value
    return _read_float(text)


def _read_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("number is infinity when parsed as double")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_LENIENT_DECODER: Final = json.JSONDecoder(
    parse_int=_read_integer, parse_float=_read_float, parse_constant=_refuse_constant
)

# ---- calls ----------------------------------------------------------------------------------


class IdTexts:
    """The exact texts of the ids in one request body that :func:`parse` has accepted."""

    __slots__ = ("_body", "_has_escapes", "_texts")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._has_escapes: bool | None = None
        self._texts: list[bytes] | None = None

    def text(self, value: object, index: int) -> bytes:
        """The text of the id whose parsed value is ``value``; ``index`` is the request's place in its batch,
        0 for a request alone."""
        # Fast path: values with only one possible text are written directly.
        if value is None:
            return b"null"
        kind = type(value)
        if kind is int and (value != 0 or b"-0" not in self._body):
            return str(value).encode()
        if kind is bool:
            return b"true" if value else b"false"
        if kind is str and not self._escapes():
            return b'"%b"' % str(value).encode()
        # Strict path: look it up.
        if self._texts is None:
            self._texts = json_shape.find_ids(self._body)
        return self._texts[index]

    def _escapes(self) -> bool:
        if self._has_escapes is None:
            self._has_escapes = b"\\" in self._body
        return self._has_escapes


def read_calls(body: bytes, limits: Limits, take: Callable[[int], None]) -> calls.Calls:
    """The calls of a body.  Errors of :func:`parse`; WrongBatch for a batch of none or too many."""
    request = parse(body, limits, take)
    ids = IdTexts(body)
    if type(request) is not list:
        return calls.Calls([_entry_of(request, ids, 0)], is_batch=False)
    if not 0 < len(request) <= limits.batch_calls_max:
        raise WrongBatch(len(request), limits.batch_calls_max)
    return calls.Calls([_entry_of(each, ids, index) for index, each in enumerate(request)], is_batch=True)


class WrongBatch(InvalidRequest):
    """A batch without calls, or with too many."""

    def __init__(self, count: int, limit: int) -> None:
        flaw = f"a batch of {count} calls exceeds the limit of {limit}" if count else "the batch is empty"
        super().__init__(f"Invalid request: {flaw}")
        self.count = count


def _entry_of(request: Any, ids: IdTexts, index: int) -> calls.Entry:
    if type(request) is not dict:
        return None, InvalidRequest(f"Invalid request: a call must be an object, got {describe(request)}"), NULL_ID
    id_text = ids.text(request["id"], index) if "id" in request else None
    name = request.get("method")
    if type(name) is not str:
        flaw = "method must be a string" if "method" in request else "method is missing"
    elif not name:
        flaw = "method must not be empty"
    elif request.get("jsonrpc", VERSION) != VERSION:
        flaw = f'jsonrpc must be "{VERSION}" or missing, got {describe(request["jsonrpc"])}'
    else:
        return name[:NAME_LENGTH_MAX], request.get("params", NO_PARAMETERS), id_text
    return None, InvalidRequest(f"Invalid request: {flaw}"), id_text or NULL_ID


# ---- answers --------------------------------------------------------------------------------


class Reply(NamedTuple):
    """``body`` is in pieces, each result by itself, so that it is compressed once and not copied to be answered; None:
    there is nothing to say.  ``error_code`` is set if the whole body is one error object.

    ``retry_after_s`` is set if nothing of the request was answered because its client has no budget left, ``busy`` if
    it was not answered because there is no memory for it: each call that has been read is rejected in ``body``.
    """

    body: list[bytes] | None
    error_code: int | None = None
    retry_after_s: float | None = None
    busy: NodeBusy | None = None

    @property
    def text(self) -> bytes:
        """The body in one piece; empty if there is none."""
        return b"".join(self.body or ())


SILENCE: Final = Reply(None)


def render(asked: calls.Calls, outcomes: calls.Outcomes, *, omits_absent: bool = False) -> Reply:
    """The answer to calls that all have an outcome."""
    body, errors = calls.render(asked, outcomes, omits_absent=omits_absent), outcomes.errors
    if errors is None:
        return Reply(body)
    waits = [error.wait_s for error in errors if isinstance(error, RateLimited)]
    if len(waits) == len(asked):
        return Reply(body, RateLimited.code, max(waits))
    return Reply(body, None if asked.is_batch or body is None else errors[0].code)


def error_value(error: RpcError) -> bytes:
    """An error as its answer has it: no member ``data`` for None."""
    # A message may quote what a client sent; a lone surrogate in it has no UTF-8 form.
    text = orjson.dumps(error.message.encode("utf-8", "backslashreplace").decode("utf-8"))
    more = b"" if error.data is None else b',"data":' + orjson.dumps(error.data)
    return b'{"code":%d,"message":%b%b}' % (error.code, text, more)


def error_reply(error: RpcError) -> Reply:
    """The answer to a request of which no call can be told."""
    outcomes = calls.Outcomes(1)
    outcomes.set_error(0, error, error_value(error))
    return render(calls.Calls([(None, error, NULL_ID)], is_batch=False), outcomes)


def error_text(code: int, message: str, data: object = None) -> bytes:
    """The same where no engine answers."""
    return error_reply(RpcError(message, data=data, code=code)).text


def busy_reply(error: NodeBusy, asked: calls.Calls | None = None) -> Reply:
    """The reply when there is no memory for a request; ``asked``: its calls, if they have been read."""
    body = None
    if asked is not None:
        outcomes, text = calls.Outcomes(len(asked)), error_value(error)
        for index in range(len(asked)):
            outcomes.set_error(index, error, text)
        body = calls.render(asked, outcomes)
    return Reply(body, error.code, busy=error.with_traceback(None))
