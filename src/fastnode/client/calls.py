"""A call that is not made yet, and what both clients do with calls: bodies, answers, pauses before another try."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import urlsplit

import orjson

from fastnode.errors import CallRejected, NoAnswer
from fastnode.records import dataclass

__all__ = [
    "Call",
    "Options",
    "Readable",
    "answers_of",
    "batches_of",
    "body_of",
    "growing_pause",
    "hex_of_bytes",
    "is_passing",
    "pause_before",
    "raise_rejection",
    "seconds_of",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

#: A generator of its own: the module's belongs to the program, which may have seeded it.
_CHANCE: Final = random.Random()
#: Calls in one request; a node of default settings takes no more.
BATCH_CALLS_MAX: Final = 100
#: Before the second, third, ... try, in seconds, unless the node says when.
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_DOUBLINGS_MAX: Final = 16
#: The node is busy or restarts: another try may go through.
_PASSING: Final = frozenset(
    {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
#: Methods whose effect must not come twice.
_ONCE_PREFIXES: Final = ("nodeAdmin_", "aztecAdmin_")


class Readable(Protocol[R_co]):
    """A class of ``fastnode.protocol``: made from JSON."""

    def from_json(self, value: object, path: str = ..., /) -> R_co: ...


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One call with the type of its result: None where nothing is found."""

    method: str
    params: tuple[Any, ...] = ()
    decode: Callable[[Any], T_co] = _as_it_is

    def into(self, record: Readable[R_co]) -> Call[R_co | None]:
        """The same call with its result as a record of ``fastnode.protocol``, such as ``BlockHeader``.

        DecodeError, when it is made, for a result of another form.
        """

        def decode(value: Any) -> R_co | None:
            return None if value is None else record.from_json(value)

        return Call(self.method, self.params, decode)

    @property
    def may_be_repeated(self) -> bool:
        return not self.method.startswith(_ONCE_PREFIXES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Address of the node, and limits of its calls."""

    url: str
    api_key: str | None = None
    timeout_s: float = 30.0
    #: Tries after the first one.
    retries: int = 2

    @classmethod
    def of(cls, url: str, api_key: str | None, timeout_s: float, retries: int) -> Self:
        url = url if "://" in url else f"http://{url}"
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http:// or https:// address")
        return cls(url=url, api_key=api_key, timeout_s=timeout_s, retries=retries)

    @property
    def headers(self) -> dict[str, str]:
        key = {} if self.api_key is None else {"x-api-key": self.api_key}
        return {"Content-Type": "application/json", "Accept-Encoding": "gzip", **key}


def body_of(calls: Sequence[Call[Any]]) -> bytes:
    """The body of a request: of one call the call itself, of several an array."""
    bodies = [
        {"jsonrpc": "2.0", "id": number, "method": call.method, "params": _params_of(call)}
        for number, call in enumerate(calls)
    ]
    return orjson.dumps(bodies[0] if len(bodies) == 1 else bodies)


def batches_of(calls: Sequence[Call[T]]) -> Iterator[Sequence[Call[T]]]:
    for start in range(0, len(calls), BATCH_CALLS_MAX):
        yield calls[start : start + BATCH_CALLS_MAX]


def _params_of(call: Call[Any]) -> list[Any]:
    """Without the optional ones at the end that are not given; bytes as hex."""
    params = [hex_of_bytes(value) for value in call.params]
    while params and params[-1] is None:
        del params[-1]
    return params


def hex_of_bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, Mapping):
        return {key: hex_of_bytes(item) for key, item in value.items()}
    return [hex_of_bytes(item) for item in value] if isinstance(value, list | tuple) else value


def answers_of(calls: Sequence[Call[T]], url: str, status: int, content: bytes) -> list[T | CallRejected]:
    """Results in the order of the calls, errors in their places.  NoAnswer if they are not there."""
    try:
        said = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise NoAnswer(f"{url} is no node: it answered HTTP {status} without JSON") from None
    answers = said if isinstance(said, list) else [said]
    if any(not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0" for answer in answers):
        raise NoAnswer(f"{url} is no node: it answered HTTP {status} without JSON-RPC")
    if len(answers) == 1 and answers[0].get("id") is None:
        # The error is one of the request as a whole.
        return [_rejection(call, answers[0]) for call in calls]
    by_id = {answer.get("id"): answer for answer in answers}
    if by_id.keys() != set(range(len(calls))):
        raise NoAnswer(f"{url} answered other calls than were made")
    return [_result(call, by_id[number]) for number, call in enumerate(calls)]


def _result(call: Call[T], answer: Mapping[str, Any]) -> T | CallRejected:
    return _rejection(call, answer) if "error" in answer else call.decode(answer.get("result"))


def _rejection(call: Call[Any], answer: Mapping[str, Any]) -> CallRejected:
    error = answer.get("error")
    if not isinstance(error, dict):
        error = {"code": 0, "message": "the answer has neither a result nor an error"}
    return CallRejected(call.method, error.get("code", 0), str(error.get("message")), error.get("data"))


def raise_rejection(answers: Sequence[T | CallRejected]) -> list[T]:
    """The results, if there is no error among them."""
    results: list[T] = []
    for answer in answers:
        if isinstance(answer, CallRejected):
            raise answer
        results.append(answer)
    return results


def pause_before(attempt: int, options: Options, calls: Sequence[Call[Any]], retry_after: str | None) -> float | None:
    """Seconds before the try number ``attempt`` (the first one is 0); None if there is to be none."""
    if attempt > options.retries or not all(call.may_be_repeated for call in calls):
        return None
    asked = seconds_of(retry_after)
    return growing_pause(attempt) if asked is None else asked


def seconds_of(retry_after: str | None) -> float | None:
    """Pause that a node asks for in ``Retry-After``, as long as one may be; None if it does not say."""
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return min(float(retry_after), _LONGEST_PAUSE_S)


def growing_pause(failed_in_row: int) -> float:
    """Seconds before the next try, in part by chance."""
    pause: float = min(_FIRST_PAUSE_S * 2 ** min(failed_in_row - 1, _DOUBLINGS_MAX), _LONGEST_PAUSE_S)
    return pause * _CHANCE.uniform(0.5, 1.0)


def is_passing(status: int) -> bool:
    return status in _PASSING
