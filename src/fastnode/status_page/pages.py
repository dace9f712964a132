"""Pages of the admin port for browsers: the page and its files, and the data behind the key.

The explorer has a port of its own on request (:mod:`fastnode.status_page.port`): the same page without the node's own
state, read-only and for everybody.

Without a key the page comes with 401: it holds nothing but a field for the key.  The key stays in the page's memory
and travels in ``x-api-key``; there is no cookie, so no other site can make a browser use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from http import HTTPStatus
from importlib import resources
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from fastnode.errors import Refused
from fastnode.http.messages import Response, header_fields
from fastnode.status_page.explorer import Explorer
from fastnode.status_page.overview import Overview
from fastnode.view import View

__all__ = ["StatusPage", "open_paths"]

ROOT: Final = b"/"
FOLDER: Final = b"/status-page/"
OVERVIEW: Final = FOLDER + b"overview"
FIND: Final = FOLDER + b"find"
BLOCK: Final = FOLDER + b"block"
TRACE: Final = FOLDER + b"trace"

_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_PAGE: Final = "page.html"
_FILES: Final = (
    "page.css",
    "page.js",
    "explorer.js",
    "trace.js",
    "local-network.js",
    "proposing.js",
    "charts.js",
    "elements.js",
    "icon.svg",
)
#: Place in the page that says whether a key has to be entered.
_SIGN_IN: Final = b'data-sign-in="no"'
_SIGN_IN_FIRST: Final = b'data-sign-in="yes"'
#: Place in the page that says what it shows.
_WHOLE: Final = b'data-shows="node"'
_EXPLORER_ONLY: Final = b'data-shows="chain"'

#: Answer to a request without the key; nothing in it depends on the node.
_OPEN_PATHS: Final = frozenset({ROOT, *(FOLDER + name.encode() for name in _FILES)})

#: Only this port's own files, no inline code, no frames around it, and no HTML made from text.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_CAUTION: Final = header_fields(
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
_JSON: Final = _CAUTION + header_fields(("Content-Type", "application/json; charset=utf-8"))
#: Longest answer for a browser: only a whole block can be longer.
ANSWER_BYTES_MAX: Final = 32 << 20
_QUERY_MEMBERS_MAX: Final = 8
#: Numbers of a query have fewer digits.
_DIGITS_MAX: Final = 15


def open_paths(prefix: str = "") -> frozenset[bytes]:
    """Paths that are answered without the key, also under ``prefix``, where the page is at ``prefix/``."""
    return _OPEN_PATHS.union(prefix.encode("ascii") + path for path in _OPEN_PATHS)


class StatusPage:
    """``knows_key`` says whether a request carries the key; ``executor`` runs what may wait, ``busy_executor`` what the
    explorer reads, which is work for the interpreter.

    Without an ``overview`` there is nothing but the explorer.
    """

    def __init__(
        self,
        overview: Overview | None,
        explorer: Explorer,
        view: Callable[[], View | None],
        *,
        knows_key: Callable[[Mapping[bytes, bytes]], bool],
        executor: Executor | None = None,
        busy_executor: Executor | None = None,
    ) -> None:
        self._overview = overview
        self._explorer = explorer
        self._view = view
        self._knows_key = knows_key
        self._executor = executor
        self._busy_executor = busy_executor or executor
        self._files = {FOLDER + name.encode(): _load(name) for name in _FILES}
        page = _load(_PAGE)
        assert isinstance(page.body, bytes)
        assert _SIGN_IN in page.body
        assert _WHOLE in page.body
        body = page.body if overview is not None else page.body.replace(_WHOLE, _EXPLORER_ONLY, 1)
        self._page = page._replace(body=body)
        self._sign_in = page._replace(status=HTTPStatus.UNAUTHORIZED, body=body.replace(_SIGN_IN, _SIGN_IN_FIRST, 1))

    def on_get(
        self, path: bytes, target: bytes, headers: Mapping[bytes, bytes]
    ) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to a GET or HEAD; None for a path that is not one of the page's."""
        if path == ROOT:
            return self._page if self._knows_key(headers) else self._sign_in
        if not path.startswith(FOLDER):
            return None
        file = self._files.get(path)
        if file is not None:
            return file
        if path == OVERVIEW and self._overview is not None:
            return self._in_thread(self._executor, self._on_overview, _members(target))
        if path == TRACE:
            threads = self._explorer.trace_threads or self._executor
            return self._in_thread(threads, self._on_trace, _members(target))
        answer = {FIND: self._on_find, BLOCK: self._on_block}.get(path)
        return None if answer is None else self._in_thread(self._busy_executor, answer, _members(target))

    def _on_overview(self, query: Mapping[str, str]) -> bytes:
        assert self._overview is not None
        return self._overview.render(after=_number(query.get("after")) or 0)

    def _on_find(self, query: Mapping[str, str]) -> bytes:
        return self._explorer.find(self._view(), query.get("q", ""))

    def _on_trace(self, query: Mapping[str, str]) -> bytes:
        return self._explorer.trace(self._view(), query.get("hash", ""))

    def _on_block(self, query: Mapping[str, str]) -> bytes | None:
        number = _number(query.get("number"))
        return None if number is None else self._explorer.block(self._view(), number)

    async def _in_thread(
        self,
        executor: Executor | None,
        answer: Callable[[Mapping[str, str]], bytes | None],
        query: Mapping[str, str],
    ) -> Response:
        try:
            body = await asyncio.get_running_loop().run_in_executor(executor, answer, query)
        except Refused as error:  # there is no room for it
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, _JSON, orjson.dumps({"message": error.message}))
        if body is None:
            return Response(HTTPStatus.NOT_FOUND, _JSON, orjson.dumps({"message": "not found"}))
        if len(body) > ANSWER_BYTES_MAX:
            message = f"{len(body)} bytes are too many for a page; ask the public port"
            return Response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _JSON, orjson.dumps({"message": message}))
        return Response(HTTPStatus.OK, _JSON, body)


def _load(name: str) -> Response:
    file = resources.files("fastnode.status_page") / "assets" / name
    kind = _TYPES[name[name.rindex(".") :]]
    fields = _CAUTION + header_fields(("Content-Type", f"{kind}; charset=utf-8"))
    return Response(HTTPStatus.OK, fields, file.read_bytes())


def _members(target: bytes) -> dict[str, str]:
    """The query of a request target; what cannot be read is not there."""
    text = target.partition(b"?")[2].decode("latin-1")
    try:
        return {name: values[-1] for name, values in parse_qs(text, max_num_fields=_QUERY_MEMBERS_MAX).items()}
    except ValueError:
        return {}


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    return int(text)
