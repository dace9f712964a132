"""Answers of servers, mutated: status, headers, types of JSON, sizes, truncations, redirects.

mutator = Mutator(seed)
server.disturb = mutator.disturb(server.answer)       # a ScriptedServer
mutator.count                                         # answers that were mutated

The same seed gives the same mutations for the same questions in the same order.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["ANSWERS", "Mutator", "seed"]

#: Mutated answers for each kind of server; FASTNODE_LONG=1 makes ten thousand.
ANSWERS = 10_000 if os.environ.get("FASTNODE_LONG") == "1" else 100

STATUSES = (100, 101, 103, 199, 200, 204, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 410)
STATUSES += (413, 414, 425, 429, 451, 500, 501, 502, 503, 504, 507, 511, 599, 600, 999)
LINES = (b"HTTP/1.1 200", b"HTTP/9.9 200 OK", b"HTTP/1.1 2OO OK", b"ICY 200 OK", b"HTTP/1.1 -1 no", b"\xff\xfe", b"")
#: By name: values that some program somewhere sends.
HEADERS = {
    b"Retry-After": (
        *(b"0", b"-1", b"1e9", b"9" * 400, b"soon", b"", b"\xb2"),
        b"Fri, 31 Dec 9999 23:59:59 -9999",
        b"Fri, 31 Dec 9999 23:59:59",
        b"Fri, 31 Dec 99999999999 23:59:59 GMT",
        b"Sat, 01 Jan 0001 00:00:00 +2359",
        b"Sat, 01 Jan 2000 00:00:00 +99999999999",
        b"Wed, 32 Foo 2026 99:99:99 GMT",
    ),
    b"Location": (
        *(b"http://[", b"http://[::1", b"//", b"", b"/", b"http://b\xfccher.example/", b"file:///etc/passwd"),
        *(b"http://a..b/", b"http://127.0.0.1:99999/", b"http://127.0.0.1:x/", b"?" + b"a" * 5000, b"http://\x00/"),
    ),
    b"Content-Length": (b"0", b"1", b"-5", b"1e3", b"9" * 30, b"9" * 5000, b"abc", b"", b"12, 12"),
    b"Transfer-Encoding": (b"chunked", b"gzip", b"identity", b"chunked, chunked", b"\xff"),
    b"Content-Encoding": (b"gzip", b"deflate", b"br", b"identity", b"gzip, gzip", b"\xff"),
    b"Content-Type": (b"text/html", b"", b"application/json; charset=\xff", b"multipart/byteranges"),
    b"Connection": (b"close", b"keep-alive", b"upgrade"),
    b"x-aztec-" + b"a" * 200: (b"\xff" * 300,),
    b"aztec-version": (b"", b"\xff", b"9" * 5000),
    b"Broken header": (b"x",),
    b"": (b"no name",),
}
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, 2**256, -(2**63), 1.5, 1e308, -0.0),
    *("", "0x", "0x0", "0x" + "f" * 64, "0x" + "f" * 65, "0xzz", "latest", "\u0000", "\ud7ff", "-1", "1e9", "NaN"),
    *("0x" + "00" * 100_000, "9" * 400, "\u00b2", " 1", [], {}, [[]], [{}], [None], {"code": 1}, {"error": None}),
)
RAW = (
    *(b"", b" ", b"null", b"[]", b"{}", b'""', b"0", b"NaN", b"Infinity", b"1e999", b"[" * 3000, b'{"a":' * 3000),
    *(
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b"<html>busy</html>",
        b"[" * 1000 + b"]" * 1000,
        b"[" + b"0," * 50_000 + b"0]",
    ),
    b'{"jsonrpc":"2.0","id":0,"error":{"code":-32005,"message":"' + b"x" * 5000 + b'"}}',
    b'{"jsonrpc":"2.0","id":0,"error":{"code":"no","message":5}}',
    b'{"jsonrpc":"2.0","id":0,"error":null}',
    b'{"jsonrpc":"2.0","id":"0","result":0}',
    b'{"jsonrpc":"2.0","id":1e999,"result":0}',
    b'{"jsonrpc":"2.0","id":true,"result":[]}',
    b'[{"id":0,"result":null},{"id":0,"result":1}]',
)


def seed(default: int) -> int:
    """``FASTNODE_SEED=N`` repeats another run."""
    return int(os.environ.get("FASTNODE_SEED", default))


class Mutator:
    """Usable from the threads of a server.  ``share`` of all answers are mutated while it is switched on."""

    def __init__(self, number: int, share: float = 0.6) -> None:
        self.chance = random.Random(number)
        self.share = share
        self.is_on = True
        self.count = 0
        self.lock = threading.Lock()

    def disturb(self, answer: Callable[[bytes], bytes]) -> Callable[[Any, bytes], bool]:
        """For ``ScriptedServer.disturb``: deals with some requests itself."""

        def disturb(handler: Any, body: bytes) -> bool:
            if not self.is_turn():
                return False
            self.send(handler, answer(body))
            return True

        return disturb

    def is_turn(self) -> bool:
        """Whether the next answer is a mutated one."""
        with self.lock:
            is_turn = self.is_on and self.chance.random() < self.share
            self.count += is_turn
            return is_turn

    def send(self, handler: Any, body: bytes) -> None:
        """An answer that differs from ``body`` in some way, and the end of the connection at times."""
        with self.lock:
            sent = self.response(body)
            closes = self.chance.random() < 0.5
        handler.wfile.write(sent)
        handler.wfile.flush()
        handler.close_connection = closes or handler.close_connection

    # ---- HTTP ------------------------------------------------------------------------------------

    def response(self, body: bytes) -> bytes:
        """A whole response, from its first byte to its last."""
        chance = self.chance
        kind = chance.choice(("body", "body", "body", "body", "status", "header", "headers", "line", "cut", "bytes"))
        if kind == "body":
            return _response(200, self.content(body))
        if kind == "status":
            content = body if chance.random() < 0.5 else self.content(body)
            headers = dict(self._header() for _ in range(chance.randrange(2)))
            return _response(chance.choice(STATUSES), content, headers)
        if kind == "header":
            name, value = self._header()
            status = chance.choice((200, 200, 302, 429, 503))
            return _response(status, body, {name: value})
        if kind == "headers":
            many = {b"x-%d" % number: b"y" * chance.randrange(300) for number in range(chance.choice((3, 90, 200)))}
            return _response(200, body, many | dict(self._header() for _ in range(3)))
        if kind == "line":
            return chance.choice(LINES) + b"\r\n" + _response(200, body).split(b"\r\n", 1)[1]
        whole = _response(200, body)
        if kind == "cut":
            return whole[: chance.randrange(len(whole))]
        return self.bent(whole)

    def _header(self) -> tuple[bytes, bytes]:
        name = self.chance.choice(tuple(HEADERS))
        return name, self.chance.choice(HEADERS[name])

    # ---- what is in it -----------------------------------------------------------------------------

    def content(self, body: bytes) -> bytes:
        chance = self.chance
        kind = chance.randrange(10)
        if kind == 0:
            return chance.choice(RAW)
        if kind == 1:
            return body[: chance.randrange(len(body) + 1)]
        if kind == 2:
            return self.bent(body)
        if kind == 3:
            return body + b" " * chance.choice((1, 1000, 300_000)) + chance.choice((b"", b"x", b"{}"))
        try:
            value = json.loads(body)
        except ValueError:
            return self.bent(body)
        for _ in range(chance.choice((1, 1, 1, 2, 5))):
            value = self.changed(value)
        return json.dumps(value).encode("utf-8", "surrogatepass")

    def bent(self, data: bytes) -> bytes:
        """Some bytes are others, gone or doubled."""
        bent, chance = bytearray(data), self.chance
        for _ in range(chance.choice((1, 1, 3, 20))):
            if bent:
                place = chance.randrange(len(bent))
                match chance.randrange(3):
                    case 0:
                        bent[place] = chance.randrange(256)
                    case 1:
                        del bent[place]
                    case _:
                        bent[place:place] = bytes(bent[place : place + chance.randrange(1, 20)])
        return bytes(bent)

    def changed(self, value: Any) -> Any:
        """One place of a JSON value is another value, gone, doubled or renamed."""
        chance = self.chance
        if isinstance(value, dict) and value and chance.random() < 0.85:
            key = chance.choice(tuple(value))
            match chance.randrange(12):
                case 0:
                    return {name: item for name, item in value.items() if name != key}
                case 1:
                    return {(name + "_" if name == key else name): item for name, item in value.items()}
                case _:
                    return value | {key: self.changed(value[key])}
        if isinstance(value, list) and value and chance.random() < 0.85:
            place = chance.randrange(len(value))
            match chance.randrange(12):
                case 0:
                    return value[:place] + value[place + 1 :]
                case 1:
                    return value[: place + 1] + value[place:]
                case 2:
                    return value[::-1]
                case _:
                    return [*value[:place], self.changed(value[place]), *value[place + 1 :]]
        if isinstance(value, str) and value and chance.random() < 0.6:
            return self._changed_text(value)
        if isinstance(value, int) and not isinstance(value, bool) and chance.random() < 0.6:
            return chance.choice((value + 1, value - 1, -value, value * 2**32, str(value), hex(value), float(value)))
        return chance.choice(SCALARS)

    def _changed_text(self, text: str) -> str:
        chance = self.chance
        place = chance.randrange(len(text))
        match chance.randrange(5):
            case 0:
                return text[:place]
            case 1:
                return text[:place] + chance.choice("0f9zA\u00fc\u0000 ") + text[place + 1 :]
            case 2:
                return text + text
            case 3:
                return text.upper()
            case _:
                return text.removeprefix("0x")


def _response(status: int, body: bytes, headers: dict[bytes, bytes] | None = None) -> bytes:
    told = {b"Content-Type": b"application/json", b"Content-Length": b"%d" % len(body)} | (headers or {})
    head = b"".join(b"%b: %b\r\n" % item for item in told.items())
    return b"HTTP/1.1 %d some reason\r\n%b\r\n%b" % (status, head, body)
