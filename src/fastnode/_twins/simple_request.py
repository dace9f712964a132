"""Whole simple requests of one read, in plain Python: the readable form of the simple_request kernel.

The stub ``fastnode/_ext/wire/simple_request.pyi`` says what everything does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from fastnode._twins.packed import APART_BYTES_MIN, join

if TYPE_CHECKING:
    from fastnode._twins.cached_responses import CachedResponses
    from fastnode._twins.call_meter import CallMeter
    from fastnode._twins.payer import Payer

__all__ = ["Published", "SimpleRequests"]

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
_BLANK_BYTES: Final = b" \t\n\r"
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


#: Of a batch with more bytes of results, the strict path asks for the memory.
_RESULTS_BYTES_MAX: Final = 4 << 20
#: A larger batch is not simple.
_BATCH_CALLS_MAX: Final = 1000


#: A larger result is sent from where it is.
_COPIED_BYTES_MAX: Final = 65536
#: More is not compressed anew here, nor what belongs to a longer id.
_COMPRESSED_BYTES_MAX: Final = 262144
_PACKED_ID_BYTES_MAX: Final = 64


_T = TypeVar("_T")


class Published(Generic[_T]):
    def __init__(self, value: _T) -> None:
        self.value = value
        self.version = 0

    def publish(self, value: _T) -> None:
        self.value = value
        self.version += 1

    def __call__(self) -> _T:
        return self.value


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
        results: CachedResponses,
        source: Callable[[], Any],
        renew: Callable[..., None],
        choose_coding: Callable[[bytes], str | None],
    ) -> None:
        self._head_bytes_max = head_bytes_max
        self._headers_max = headers_max
        self._body_bytes_max = body_bytes_max
        self._depth_max = depth_max
        self._batch_calls_max = min(batch_calls_max, _BATCH_CALLS_MAX)
        self._results_bytes_max = min(response_bytes_max, _RESULTS_BYTES_MAX)
        self._coded_bytes_min = coded_bytes_min
        self._results = results
        self._source = source
        self._renew = renew
        self._choose_coding = choose_coding
        self._head = self._head_packed = self._end = b""
        self._calls: CallMeter | None = None
        self._add_batch: Callable[[int], object] | None = None
        self._seen = -1
        self.is_open = True
        self.payer: Payer | None = None
        self.position = self.count = self.end = self.size = 0
        self.method: str | None = None
        self.params: bytes | None = None
        self.id_text = b""
        self.accepted: bytes | None = None
        self.body: list[bytes] | None = None
        self.is_late = False
        self.unfinished: list[tuple[bytes, int]] | None = None
        self.batch: bytes | None = None
        self.outcomes: list[tuple[bytes | Exception, int]] | None = None
        self._until_ns = 0

    def set_head(self, before_length: bytes, before_packed_length: bytes, behind_length: bytes) -> None:
        self._head, self._head_packed, self._end = before_length, before_packed_length, behind_length

    def set_meters(self, calls: CallMeter | None, add_batch: Callable[[int], object] | None) -> None:
        self._calls, self._add_batch = calls, add_batch

    def _result_of(self, members: dict[bytes, bytes], view: Any) -> tuple[str, bytes | None]:
        """The method of a call, and its result: empty if nothing is found, None if it has to be made elsewhere."""
        name = members[b"method"][1:-1].decode()
        return name, self._results.result(name, members.get(b"params"), view)

    # ---- a burst ---------------------------------------------------------------------------

    def begin(self) -> Any:
        if not isinstance(self._source, Published):
            view = self._source()
        elif self._source.version == self._seen:
            return self._source.value
        else:
            self._seen = self._source.version
            view = self._source.value
        self._renew(view)
        return view

    def answer(
        self,
        data: bytes,
        start: int,
        bytes_max: int,
        view: Any = None,
        until_ns: int = 0,
        unfinished: list[tuple[bytes, int]] | None = None,
    ) -> bytes | list[bytes] | None:
        if not 0 <= start <= len(data):
            raise ValueError(f"position {start} in {len(data)} bytes")
        self.position, self.count, self.method, self.body = start, 0, None, None
        self.is_late, self.unfinished, self._until_ns = False, unfinished, until_ns
        self.batch, self.outcomes = None, None
        chunks: list[bytes] = []
        while sum(map(len, chunks)) <= bytes_max:
            head = self._read_head(data, self.position) if self.payer is None else self._head_of_client(data)
            if head is None or len(data) - head.body_start < head.length:
                break
            end = head.body_start + head.length
            body = data[head.body_start : end]
            if body.lstrip(_BLANK_BYTES).startswith(b"["):
                answer = self._answer_batch(body, head.accepted, view)
                if answer is None:
                    if self.body is None and self.batch is None and self.payer is not None:
                        self.payer.refund()
                    self.accepted, self.end = head.accepted, end
                    break
            else:
                read = self._read_call(body, 0, self._depth_max - 1)
                if read is None or _LAST.fullmatch(body, read[1]) is None:
                    break
                members = read[0]
                if self.payer is not None and not self._pay(members):
                    break
                started_ns = time.monotonic_ns()
                self._results.batch = []
                method, result = self._result_of(members, view)
                if result is not None and self._calls is not None:
                    self._calls.finish(method, started_ns, None)
                elif result is None and self._results.outcome is not None:
                    self.outcomes = [(self._results.outcome, time.monotonic_ns() - started_ns)]
                answer = None
                if result is not None:
                    answers = [(members[b"id"], result, self._results.is_cached)]
                    answer = self._answer(answers, head.accepted, is_batch=False)
                if answer is None:
                    self.method, self.params, self.id_text = method, members.get(b"params"), members[b"id"]
                    self.accepted, self.end = head.accepted, end
                    break
            chunks += answer
            self.count += 1
            self.position = end
            self.unfinished = None
            if end < len(data) and self._is_time_over():
                self.is_late = True
                break
        self.size = _length(chunks)
        if any(len(chunk) > _COPIED_BYTES_MAX for chunk in chunks):
            return _join_small(chunks)
        return b"".join(chunks) or None

    def _is_time_over(self) -> bool:
        return self._until_ns > 0 and time.monotonic_ns() > self._until_ns

    def _answer(
        self, answers: list[tuple[bytes, bytes, bool]], accepted: bytes | None, *, is_batch: bool
    ) -> list[bytes] | None:
        """To calls: their ids, their results, and whether those are kept.  None: the body is there, but it has to be
        coded elsewhere."""
        pieces: list[bytes] = []
        for number, (id_text, result, _) in enumerate(answers):
            if is_batch:
                pieces.append(b"," if number else b"[")
            pieces += _answer_of(id_text, result)
        if is_batch:
            pieces.append(b"]")
        coding = None
        if accepted is not None and _length(pieces) > self._coded_bytes_min:
            coding = self._choose_coding(accepted)
        if coding is None:
            return [b"%b%d%b" % (self._head, _length(pieces), self._end), *pieces]
        if coding != "gzip" or not self._is_packable(answers):
            self.body = pieces
            return None
        kept = [result for _, result, is_kept in answers if is_kept and _is_apart(result)]
        packs = {id(result): self._results.pack(result, True) for result in kept}
        member = join([packs.get(id(piece), piece) for piece in pieces])
        return [b"%b%d%b" % (self._head_packed, len(member), self._end), member]

    def _is_packable(self, answers: list[tuple[bytes, bytes, bool]]) -> bool:
        """Whether no more has to be compressed than is bearable."""
        new_bytes = 0
        for id_text, result, is_kept in answers:
            if not (is_kept and _is_apart(result) and self._results.find_packed(result) is not None):
                new_bytes += len(result)
            if len(id_text) > _PACKED_ID_BYTES_MAX:
                return False
        return new_bytes <= _COMPRESSED_BYTES_MAX

    def _answer_batch(self, body: bytes, accepted: bytes | None, view: Any) -> list[bytes] | None:
        calls = self._read_batch(body)
        finished, self.unfinished = self.unfinished or [], None
        if not calls or (self.payer is not None and not all(map(self._pay, calls))):
            return None
        answers: list[tuple[bytes, bytes, bool]] = []
        before = len(finished)
        self._results.batch = [(call[b"method"][1:-1].decode(), call.get(b"params")) for call in calls]
        for index, members in enumerate(calls):
            is_kept = False
            if index >= before:
                if index > before and self._is_time_over():
                    self.unfinished, self.is_late = finished, True
                    return None
                started_ns = time.monotonic_ns()
                result = self._result_of(members, view)[1]
                elapsed_ns = time.monotonic_ns() - started_ns
                if result is None:
                    outcome = self._results.outcome
                    self.outcomes = [*finished] if outcome is None else [*finished, (outcome, elapsed_ns)]
                    self.batch = body.lstrip(_BLANK_BYTES)
                    return None
                is_kept = self._results.is_cached
                finished.append((result, elapsed_ns))
            answers.append((members[b"id"], finished[index][0], is_kept))
            if sum(len(result) for result, _ in finished[: index + 1]) > self._results_bytes_max:
                self.batch, self.outcomes = body.lstrip(_BLANK_BYTES), [*finished[: index + 1]]
                return None
        if self._add_batch is not None:
            self._add_batch(len(calls))
        if self._calls is not None:
            for members, (_, elapsed_ns) in zip(calls, finished, strict=True):
                self._calls.finish(members[b"method"][1:-1].decode(), time.monotonic_ns() - elapsed_ns, None)
        return self._answer(answers, accepted, is_batch=True)

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

    # ---- who pays --------------------------------------------------------------------------

    def _head_of_client(self, data: bytes) -> _Head | None:
        """The next head, and who sent it."""
        assert self.payer is not None
        end = data.find(b"\r\n\r\n", self.position)
        if end < 0 or end - self.position > self._head_bytes_max - self._headers_max:
            return None
        end += len(b"\r\n\r\n")
        plain = self.payer.identified(data[self.position : end])
        head = None if plain is None else self._read_head(plain, 0)
        if plain is None or head is None or head.body_start != len(plain):
            return None
        if head.length > self.payer.body_bytes_max:
            return None
        return head._replace(body_start=end)

    def _pay(self, members: dict[bytes, bytes]) -> bool:
        """Whether the client may make a call, and has paid for it."""
        assert self.payer is not None
        name = members[b"method"][1:-1].decode()
        return self._results.has(name) and self.payer.pay(name)

    # ---- what is read ----------------------------------------------------------------------

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


def _answer_of(id_text: bytes, result: bytes) -> list[bytes]:
    if not result:
        return [b'{"jsonrpc":"2.0","id":%b}' % id_text]
    return [b'{"jsonrpc":"2.0","id":%b,"result":' % id_text, result, b"}"]


def _is_apart(result: bytes) -> bool:
    return len(result) >= APART_BYTES_MIN


def _length(chunks: list[bytes]) -> int:
    return sum(map(len, chunks))


def _join_small(chunks: list[bytes]) -> list[bytes]:
    """The same bytes, with only the large pieces by themselves."""
    joined: list[bytes] = []
    small: list[bytes] = []
    for chunk in chunks:
        if len(chunk) > _COPIED_BYTES_MAX:
            joined += [b"".join(small), chunk]
            small = []
        else:
            small.append(chunk)
    return [*joined, b"".join(small)]


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
