"""JSON-RPC to another server: batches, a deadline, a limit on what it may answer.

Nothing here tries again: whether and when to is decided once, by the endpoint's health (``health.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import orjson

from fastnode import trace
from fastnode.errors import AnswerTooLarge, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.kernels import json_shape
from fastnode.outgoing.network import Answer, ClientLimits, Network
from fastnode.records import dataclass
from fastnode.values.urls import host_of

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
_QUOTED_BYTES: Final = 40
_QUOTED_TEXT_MAX: Final = 80
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
        self._address = host_of(url)
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
        if answer.status in BUSY or answer.status > HTTPStatus.NOT_IMPLEMENTED or answer.status == 500:
            raise UpstreamUnavailable(self._describe_busy(answer, document), retry_after_s=answer.retry_after_s)
        if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
            raise UpstreamFault(f"HTTP status {answer.status}: it redirects; name the address that it redirects to")
        # Any other status may come with an answer: the reference node's errors have status 400.
        if not isinstance(document, dict | list):
            what = "its answer is not JSON" if answer.status == HTTPStatus.OK else f"HTTP status {answer.status}"
            quoted = repr(answer.body[: _QUOTED_BYTES + len(self._address)])
            raise UpstreamFault(f"{what}: {_anonymous(quoted, self._address)[:_QUOTED_TEXT_MAX]}")
        return Reply(_in_order(document, calls, self._address), len(answer.body), answer.headers)

    def _describe_busy(self, answer: Answer, document: Any) -> str:
        """With the reason, if the server gives one."""
        error = document.get("error") if isinstance(document, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        status = f"HTTP status {answer.status}"
        if not isinstance(message, str):
            return status
        return f"{status}: {_anonymous(message[:_ERROR_TEXT_MAX], self._address)}"


def decoded(body: bytes, memory_bytes_max: int) -> Any:
    """None for what is no JSON; AnswerTooLarge for what would take more memory than it may."""
    if len(body) > _UNMEASURED_BYTES_MAX and _memory_of(body) > memory_bytes_max:
        raise AnswerTooLarge(f"its answer of {len(body)} bytes would take more than {memory_bytes_max} bytes to read")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _memory_of(body: bytes) -> int:
    """Bytes that a JSON text and its values take together, at most."""
    size = len(body)
    _, containers, values = json_shape.measure(body, depth_max=size, containers_max=size, values_max=size)
    width = 1 if body.isascii() and b"\\u" not in body else _WIDE
    return size + containers * _CONTAINER_BYTES + (values - containers) * _VALUE_BYTES + size * width


def _anonymous(text: str, address: str) -> str:
    """Without the address: the text may be seen by clients."""
    return re.sub(re.escape(address) + r"(:[0-9]+)?", "(its address)", text, flags=re.IGNORECASE) if address else text


def _encode(calls: Sequence[RpcCall]) -> bytes:
    requests = [
        {"jsonrpc": "2.0", "id": index, "method": method, "params": parameters}
        for index, (method, parameters) in enumerate(calls)
    ]
    return orjson.dumps(requests[0] if len(requests) == 1 else requests)


def _in_order(answer: dict[str, Any] | list[Any], calls: Sequence[RpcCall], address: str) -> list[Any]:
    if isinstance(answer, dict):
        if "error" in answer and len(calls) > 1:
            raise _rejection(answer["error"], address)
        answer = [answer]
    by_id: dict[Any, dict[str, Any]] = {}
    for entry in answer:
        if not isinstance(entry, dict) or not isinstance(entry.get("id"), int):
            raise UpstreamFault("its answer is no JSON-RPC answer")
        by_id[entry["id"]] = entry
    answers: list[Any] = []
    for index, (method, _) in enumerate(calls):
        if index not in by_id:
            raise UpstreamFault(f"it left {method} without an answer")
        entry = by_id[index]
        answers.append(_rejection(entry["error"], address) if "error" in entry else entry.get("result"))
    return answers


def _rejection(error: Any, address: str) -> UpstreamRejection:
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        raise UpstreamFault("its answer is no JSON-RPC answer")
    message = _anonymous(str(error.get("message", ""))[:_ERROR_TEXT_MAX], address)
    return UpstreamRejection(error["code"], message, error.get("data"))
