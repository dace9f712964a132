"""JSON-RPC to another server: batches, a deadline, a limit on what it may answer.

Nothing here tries again: whether and when to is decided once, by the endpoint's health (``health.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import orjson

from fastnode import trace
from fastnode.errors import (
    AnswerTooLarge,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamRateLimited,
    UpstreamRejection,
    UpstreamUnavailable,
)
from fastnode.kernels import json_shape
from fastnode.outgoing.network import Answer, ClientLimits, Network
from fastnode.outgoing.provider_limits import is_rate_text
from fastnode.outgoing.quoting import FORBIDDEN, described, message_in, quoted, without_secrets_of
from fastnode.records import dataclass

__all__ = ["BUSY", "METHOD_NOT_FOUND", "ClientLimits", "Reply", "RpcCall", "RpcClient", "decoded"]

#: Method and parameters.
RpcCall: TypeAlias = tuple[str, Sequence[Any]]

METHOD_NOT_FOUND: Final = -32601

#: Bytes that values take when they are read, at most: an object of few members, a member or element with its place,
#: and for each byte of text one, or five where characters beyond ASCII make all of it wide.
_CONTAINER_BYTES: Final = 250
_VALUE_BYTES: Final = 200
_WIDE: Final = 5
#: Shorter answers are not measured: they cannot take much memory.
_UNMEASURED_BYTES_MAX: Final = 1 << 19

_ERROR_TEXT_MAX: Final = 2000
#: Of an error that has no code, or one that is no number.
_NO_CODE: Final = -32000
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: Statuses of a busy server.
BUSY: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers in the order of the calls: a result, None for nothing found, or an UpstreamRejection.

    ``headers`` are those of the response, by their names in lower case.
    """

    answers: list[Any]
    byte_count: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def results(self) -> list[Any]:
        """The answers; the first rejection among them is raised."""
        for answer in self.answers:
            if isinstance(answer, UpstreamRejection):
                raise answer
        return self.answers


class RpcClient:
    """Asks one URL, with ``headers`` beside the usual ones.  Usable from any thread.

    ``on_headers`` is told of the headers of each answer, whatever its status; what it raises is the outcome.
    """

    def __init__(
        self,
        url: str,
        network: Network,
        limits: ClientLimits | None = None,
        headers: Mapping[str, str] | None = None,
        on_headers: Callable[[Mapping[str, str]], None] = lambda headers: None,
    ) -> None:
        self._url = url
        self._on_headers = on_headers
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._network = network
        self._limits = limits or ClientLimits()

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        """One request with all the calls; blocks until it is answered.

        UpstreamUnavailable: try later; UpstreamFault: the answer is malformed; UpstreamRejection: the request
        as a whole was refused.  No text of theirs has the address: clients may see it.
        """
        named = trace.current()
        parent = None if named is None else named.parent
        headers = self._headers if parent is None else {**self._headers, "traceparent": parent}
        limits = self._limits.here
        answer = self._network.post(self._url, _encode(calls), limits, headers)
        self._on_headers(answer.headers)
        document = decoded(answer.body, limits.memory_bytes_max)
        self._check_status(answer, document)
        # Any other status may come with an answer: the reference node's errors have status 400.
        if not isinstance(document, dict | list):
            if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                text = quoted(answer.body, self._url) or "it is empty"
                raise UpstreamFault(f"its answer is not JSON: {text}")
            raise UpstreamFault(self._describe(answer, document))
        answers = _in_order(document, calls, self._without_secrets)
        if answers is None:
            raise UpstreamFault(f"its answer is not a JSON-RPC answer: {quoted(answer.body, self._url)}")
        return Reply(answers, len(answer.body), answer.headers)

    def _check_status(self, answer: Answer, document: Any) -> None:
        """Raise the error that a status means whatever comes with it."""
        status = answer.status
        if status in FORBIDDEN:
            text = self._describe(answer, document)
            if is_rate_text(text):
                raise UpstreamRateLimited(text, retry_after_s=answer.retry_after_s)
            raise UpstreamForbidden(f"{text} (check the URL and its API key)")
        if status in BUSY or status > HTTPStatus.NOT_IMPLEMENTED or status == 500:
            text = self._describe(answer, document)
            is_rate = status == HTTPStatus.TOO_MANY_REQUESTS or is_rate_text(message_in(document) or "")
            kind = UpstreamRateLimited if is_rate else UpstreamUnavailable
            raise kind(text, retry_after_s=answer.retry_after_s)
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            raise UpstreamFault(f"HTTP status {status}: it redirects; name the address that it redirects to")

    def _describe(self, answer: Answer, document: Any) -> str:
        """With the reason that the server gives."""
        return described(answer.status, document, answer.body, self._url)

    def _without_secrets(self, text: str) -> str:
        return without_secrets_of(self._url, text)


def decoded(body: bytes, memory_bytes_max: int) -> Any:
    """None for what is no JSON; AnswerTooLarge for what would take more memory than it may."""
    if len(body) > _UNMEASURED_BYTES_MAX and _memory_of(body) > memory_bytes_max:
        raise AnswerTooLarge(f"its answer of {len(body)} bytes would take more than {memory_bytes_max} bytes to read")
    try:
        return orjson.loads(body.removeprefix(_BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return None


def _memory_of(body: bytes) -> int:
    """Bytes that a JSON text and its values take together, at most."""
    size = len(body)
    _, containers, values = json_shape.measure(body, depth_max=size, containers_max=size, values_max=size)
    width = 1 if body.isascii() and b"\\u" not in body else _WIDE
    return size + containers * _CONTAINER_BYTES + (values - containers) * _VALUE_BYTES + size * width


def _encode(calls: Sequence[RpcCall]) -> bytes:
    requests = [
        {"jsonrpc": "2.0", "id": index, "method": method, "params": parameters}
        for index, (method, parameters) in enumerate(calls)
    ]
    return orjson.dumps(requests[0] if len(requests) == 1 else requests)


def _in_order(
    answer: dict[str, Any] | list[Any], calls: Sequence[RpcCall], shown: Callable[[str], str]
) -> list[Any] | None:
    """Answers in the order of the calls; None for what is not a JSON-RPC answer.

    Tolerant where there is no doubt: some servers send ids as texts or floats, leave out the only one, or add an error
    that is null.
    """
    entries = answer if isinstance(answer, list) else [answer]
    by_id: dict[int, dict[str, Any]] = {}
    for entry in entries:
        if not isinstance(entry, dict):
            return None
        number = _number_of(entry.get("id"))
        if entry.get("id") is None and len(calls) == len(entries) == 1 and entry.keys() & {"result", "error"}:
            number = 0
        if number is None or (isinstance(answer, dict) and len(calls) > 1):
            if entry.get("error") is None:
                return None
            raise _rejection(entry["error"], shown)
        by_id[number] = entry
    answers: list[Any] = []
    for index, (method, _) in enumerate(calls):
        if index not in by_id:
            raise UpstreamFault(f"it left {method} without an answer")
        error = by_id[index].get("error")
        answers.append(by_id[index].get("result") if error is None else _rejection(error, shown))
    return answers


def _number_of(value: Any) -> int | None:
    """The number that was sent as an id: ``0``, ``0.0``, ``"0"``."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10 else None


def _rejection(error: Any, shown: Callable[[str], str]) -> UpstreamRejection:
    record = error if isinstance(error, dict) else {"message": error}
    message = record.get("message")
    text = message if isinstance(message, str) else orjson.dumps(error).decode()
    return UpstreamRejection(_code_of(record.get("code")), shown(text[:_ERROR_TEXT_MAX]), record.get("data"))


def _code_of(value: Any) -> int:
    try:
        return _NO_CODE if isinstance(value, bool) else int(value)
    except (TypeError, ValueError, OverflowError):
        return _NO_CODE
