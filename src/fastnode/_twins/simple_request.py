"""Whole simple requests of one read, in plain Python: the readable form of the simple_request kernel.

The stub ``fastnode/_ext/simple_request.pyi`` says what everything does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["SimpleRequests"]

_REQUEST_LINE: Final = b"POST / HTTP/1.1\r\n"
_HEADER: Final = re.compile(rb"([A-Za-z0-9_-]+): *([ -~]*)\r\n")
_FORBIDDEN: Final = frozenset({b"expect", b"upgrade", b"content-encoding", b"proxy-connection", b"transfer-encoding"})
#: Headers that mean something here, with the values that are understood.
_MEANINGFUL: Final = {
    b"host": re.compile(rb".*[^ ]"),
    b"content-length": re.compile(rb"[0-9]{1,9}"),
    b"accept-encoding": re.compile(rb".*[^ ]"),
    b"connection": re.compile(rb"keep-alive", re.IGNORECASE),
}
_PLAIN_TEXT: Final = rb'"[ !#-\[\]-~]*"'
_BLANKS: Final = rb"[ \t\n\r]*"
_KEY: Final = re.compile(_BLANKS + rb'"(jsonrpc|method|params|id)"' + _BLANKS + b":" + _BLANKS)
_VALUES: Final = {
    b"jsonrpc": re.compile(_PLAIN_TEXT),
    b"method": re.compile(rb'"[ !#-\[\]-~]+"'),
    b"id": re.compile(_PLAIN_TEXT + rb"|null|-?(?:0|[1-9][0-9]{0,17})(?![0-9])"),
}
_NEXT: Final = re.compile(_BLANKS + rb"([,}])")
_OPEN: Final = re.compile(_BLANKS + rb"\{")
_OPEN_BATCH: Final = re.compile(_BLANKS + rb"\[")
_NEXT_CALL: Final = re.compile(_BLANKS + rb"([,\]])")
_LAST: Final = re.compile(_BLANKS)
_NO_PARAMS: Final = re.compile(rb"\[" + _BLANKS + rb"\]")
_BRACKET_OR_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}"]', re.DOTALL)


#: A larger batch is not simple.
_BATCH_CALLS_MAX: Final = 1000


class _Head(NamedTuple):
    body_start: int
    length: int
    accepted: bytes | None


class SimpleRequests:
    def __init__(
        self,
        *,
        head_bytes_max: int,
        headers_max: int,
        body_bytes_max: int,
        depth_max: int,
        batch_calls_max: int,
        response_bytes_max: int,
        coded_bytes_min: int,
    ) -> None:
        self._head_bytes_max = head_bytes_max
        self._headers_max = headers_max
        self._body_bytes_max = body_bytes_max
        self._depth_max = depth_max
        self._batch_calls_max = min(batch_calls_max, _BATCH_CALLS_MAX)
        self._response_bytes_max = response_bytes_max
        self._coded_bytes_min = coded_bytes_min
        self._head = self._end = b""
        self._results: dict[str, bytes] = {}
        self._finish: Callable[[str, int, None], object] | None = None
        self._add_batch: Callable[[int], object] | None = None
        self.position = self.count = self.end = 0
        self.method: str | None = None
        self.params: bytes | None = None
        self.id_text = b""
        self.accepted: bytes | None = None

    def set_head(self, before_length: bytes, behind_length: bytes) -> None:
        self._head, self._end = before_length, behind_length

    def set_results(
        self,
        results: dict[str, bytes],
        finish: Callable[[str, int, None], object] | None,
        add_batch: Callable[[int], object] | None,
    ) -> None:
        self._results, self._finish, self._add_batch = results, finish, add_batch

    def answer(self, data: bytes, start: int, bytes_max: int) -> bytes | None:
        if not 0 <= start <= len(data):
            raise ValueError(f"position {start} in {len(data)} bytes")
        self.position, self.count, self.method = start, 0, None
        answers = b""
        while not answers or len(answers) <= bytes_max:
            head = self._read_head(data, self.position)
            if head is None or len(data) - head.body_start < head.length:
                break
            end = head.body_start + head.length
            body = data[head.body_start : end]
            if body.lstrip(b" \t\n\r").startswith(b"["):
                batch = self._answer_batch(body, head.accepted)
                if batch is None:
                    break
                answers += b"%b%d%b%b" % (self._head, len(batch), self._end, batch)
                self.count += 1
                self.position = end
                continue
            read = self._read_call(body, 0, self._depth_max - 1)
            if read is None or _LAST.fullmatch(body, read[1]) is None:
                break
            members = read[0]
            started_ns = time.monotonic_ns()
            method, params = members[b"method"][1:-1].decode(), members.get(b"params")
            is_empty = params is None or _NO_PARAMS.fullmatch(params) is not None
            result = self._results.get(method) if is_empty else None
            body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (members[b"id"], result or b"")
            if result is None or (head.accepted is not None and len(body) > self._coded_bytes_min):
                self.method, self.params, self.id_text = method, params, members[b"id"]
                self.accepted, self.end = head.accepted, end
                break
            answers += b"%b%d%b%b" % (self._head, len(body), self._end, body)
            if self._finish is not None:
                self._finish(method, started_ns, None)
            self.count += 1
            self.position = end
        return answers or None

    def _answer_batch(self, body: bytes, accepted: bytes | None) -> bytes | None:
        calls = self._read_batch(body)
        answers: list[bytes] = []
        results: list[bytes] = []
        for members in calls:
            result = self._results.get(members[b"method"][1:-1].decode())
            if result is None or _NO_PARAMS.fullmatch(members.get(b"params", b"[]")) is None:
                return None
            results.append(result)
            answers.append(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (members[b"id"], result))
        joined = b"[" + b",".join(answers) + b"]"
        if not calls or sum(map(len, results)) > self._response_bytes_max:
            return None
        if accepted is not None and len(joined) > self._coded_bytes_min:
            return None
        if self._add_batch is not None:
            self._add_batch(len(calls))
        for members in calls:
            if self._finish is not None:
                self._finish(members[b"method"][1:-1].decode(), time.monotonic_ns(), None)
        return joined

    def _read_batch(self, body: bytes) -> list[dict[bytes, bytes]]:
        """The calls of an array that is the whole body; none if it is not simple."""
        calls: list[dict[bytes, bytes]] = []
        match = _OPEN_BATCH.match(body)
        while match is not None and len(calls) < self._batch_calls_max:
            read = self._read_call(body, match.end(), self._depth_max - 2)
            if read is None:
                return []
            calls.append(read[0])
            match = _NEXT_CALL.match(body, read[1])
            if match is not None and match[1] == b"]":
                return calls if _LAST.fullmatch(body, match.end()) is not None else []
        return []

    def _read_head(self, data: bytes, start: int) -> _Head | None:
        if not data.startswith(_REQUEST_LINE, start):
            return None
        at = start + len(_REQUEST_LINE)
        headers = 0
        found: dict[bytes, bytes] = {}
        while (match := _HEADER.match(data, at)) is not None:
            at = match.end()
            headers += 1
            name, value = match[1].lower(), match[2]
            if name in _FORBIDDEN or name in found:
                return None
            if headers > self._headers_max or at - start + headers > self._head_bytes_max:
                return None
            if name in _MEANINGFUL:
                if _MEANINGFUL[name].fullmatch(value) is None:
                    return None
                found[name] = value
        if not data.startswith(b"\r\n", at) or b"host" not in found or b"content-length" not in found:
            return None
        length = int(found[b"content-length"])
        return None if length > self._body_bytes_max else _Head(at + 2, length, found.get(b"accept-encoding"))

    def _read_call(self, body: bytes, start: int, depth_left: int) -> tuple[dict[bytes, bytes], int] | None:
        """The texts of the members of the call at ``start`` by name, and its end."""
        members: dict[bytes, bytes] = {}
        match = _OPEN.match(body, start)
        while match is not None and (key := _KEY.match(body, match.end())) is not None:
            name, start = key[1], key.end()
            end = _end_of_value(name, body, start, depth_left)
            if end is None or name in members:
                return None
            members[name] = body[start:end]
            match = _NEXT.match(body, end)
            if match is not None and match[1] == b"}":
                return (members, match.end()) if b"method" in members and b"id" in members else None
        return None


def _end_of_value(name: bytes, body: bytes, start: int, depth_left: int) -> int | None:
    if name == b"params":
        return _end_of_array(body, start, depth_left)
    match = _VALUES[name].match(body, start)
    return None if match is None else match.end()


def _end_of_array(body: bytes, start: int, depth_left: int) -> int | None:
    if not body.startswith(b"[", start):
        return None
    depth = opened = 0
    for match in _BRACKET_OR_TEXT.finditer(body, start):
        token = match[0]
        if token == b'"':
            return None
        if token in (b"[", b"{"):
            depth += 1
            opened += 1
            if opened > depth_left:
                return None
        elif token in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                return match.end() if token == b"]" else None
    return None
