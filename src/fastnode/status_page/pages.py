"""Pages of the admin port for browsers: the page and its files, and the data behind the key.

The explorer has a port of its own on request (:mod:`fastnode.status_page.port`): the same page without the node's own
state, read-only and for everybody.

Without a key the page comes with 401: it holds nothing but a field for the key.  The key stays in the page's memory
and travels in ``x-api-key``; there is no cookie, so no other site can make a browser use it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

import orjson

from fastnode.errors import BlockPruned, Refused
from fastnode.http.messages import Response, header_fields
from fastnode.status_page.explorer import Explorer
from fastnode.status_page.files import CAUTION, FOLDER, NOT_KEPT, Document, page_files, respond
from fastnode.status_page.overview import Overview
from fastnode.view import View

__all__ = ["StatusPage", "is_link", "open_paths"]

ROOT: Final = b"/"
OVERVIEW: Final = FOLDER + b"overview"
FIND: Final = FOLDER + b"find"
BLOCK: Final = FOLDER + b"block"
TRACE: Final = FOLDER + b"trace"

_JSON: Final = CAUTION + NOT_KEPT + header_fields(("Content-Type", "application/json; charset=utf-8"))
#: First question of the explorer's own port.
_LANDING: Final = "newest"
_LANDING_MODULES: Final = ("explorer.js",)
#: Longest answer for a browser: only a whole block can be longer.
ANSWER_BYTES_MAX: Final = 32 << 20
#: Paths of other block explorers, and what is looked up for them.
_LINK: Final = re.compile(rb"/(?:block|tx|address)/([0-9A-Za-z]{1,80})/?")
_QUERY_MEMBERS_MAX: Final = 8
#: Numbers of a query have fewer digits.
_DIGITS_MAX: Final = 15


def open_paths(prefix: str = "") -> frozenset[bytes]:
    """Paths that are answered without the key, also under ``prefix``, where the page is at ``prefix/``.

    Nothing in these answers depends on the node."""
    paths = {ROOT, *page_files().by_path}
    return frozenset(paths.union(prefix.encode("ascii") + path for path in paths))


def is_link(path: bytes, prefix: str = "") -> bool:
    """True for a path, also under ``prefix``, that leads to a search on the page: /block/N, /tx/HASH or /address/A.

    The answer does not depend on the node, so that no key is needed for it."""
    return _LINK.fullmatch(path.removeprefix(prefix.encode("ascii"))) is not None


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
        self._files = page_files().by_path
        self._document = Document(shows_node=overview is not None)

    def on_get(
        self, path: bytes, target: bytes, headers: Mapping[bytes, bytes]
    ) -> Response | Coroutine[Any, Any, Response] | None:
        """The answer to a GET or HEAD; None for a path that is not one of the page's."""
        if path == ROOT:
            return self._on_page(headers) if self._knows_key(headers) else self._document.ask_for_key(headers)
        link = _LINK.fullmatch(path)
        if link is not None:
            return _redirect(link[1], target)
        if not path.startswith(FOLDER):
            return None
        file = self._files.get(path)
        if file is not None:
            return file.respond(headers)
        if path == OVERVIEW and self._overview is not None:
            return self._in_thread(self._executor, self._on_overview, _members(target), headers)
        if path == TRACE:
            threads = self._explorer.trace_threads or self._executor
            return self._in_thread(threads, self._on_trace, _members(target), headers)
        answer = {FIND: self._on_find, BLOCK: self._on_block}.get(path)
        return None if answer is None else self._in_thread(self._busy_executor, answer, _members(target), headers)

    async def _on_page(self, headers: Mapping[bytes, bytes]) -> Response:
        """The page with what it shows at first, so that it need not ask for it."""
        overview = self._overview

        def make() -> Response:
            if overview is None:
                data = self._explorer.find(self._view(), _LANDING)
                return self._document.respond(headers, data, _LANDING_MODULES)
            return self._document.respond(headers, overview.render(), overview.modules)

        executor = self._busy_executor if overview is None else self._executor
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, make)
        except Refused:  # there is no room for it: the page asks by itself and says so
            return self._document.respond(headers, None)

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
        headers: Mapping[bytes, bytes],
    ) -> Response:
        def make() -> Response:
            body = answer(query)
            if body is None:
                return Response(HTTPStatus.NOT_FOUND, _JSON, orjson.dumps({"message": "not found"}))
            if len(body) > ANSWER_BYTES_MAX:
                message = f"{len(body)} bytes are too many for a page; ask the public port"
                return Response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _JSON, orjson.dumps({"message": message}))
            return respond(HTTPStatus.OK, _JSON, body, headers)

        try:
            return await asyncio.get_running_loop().run_in_executor(executor, make)
        except BlockPruned as error:
            return Response(HTTPStatus.GONE, _JSON, orjson.dumps({"message": error.message}))
        except Refused as error:  # there is no room for it
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, _JSON, orjson.dumps({"message": error.message}))


def _redirect(query: bytes, target: bytes) -> Response:
    """To the search for ``query``, relative to the ``target``: the page may be under a prefix."""
    up = "../../" if target.partition(b"?")[0].endswith(b"/") else "../"
    location = f"{up}#find={query.decode('ascii')}"
    return Response(HTTPStatus.FOUND, CAUTION + NOT_KEPT + header_fields(("Location", location)), b"")


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
