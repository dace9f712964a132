"""Files of the page in memory, plain and in gzip.

Each has two paths: one by its name, and one in a folder that is named by a hash of all of them.  What is in the folder
never changes, so that browsers keep it and ask for the page alone when they come back.  Modules name each other by
relative paths and thus stay in the folder from which the first of them was loaded.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from http import HTTPStatus
from importlib import resources
from typing import Final, NamedTuple

from fastnode.http.content_coding import choose_coding
from fastnode.http.messages import Response, header_fields

__all__ = ["CAUTION", "FOLDER", "NAMES", "NOT_KEPT", "Document", "File", "PageFiles", "page_files", "respond"]

FOLDER: Final = b"/status-page/"
PAGE: Final = "page.html"
NAMES: Final = (
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
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_DIGEST_BYTES: Final = 8

#: Only this port's own files, no inline code, no frames around it, and no HTML made from text.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
CAUTION: Final = header_fields(
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Vary", "Accept-Encoding"),
)
NOT_KEPT: Final = header_fields(("Cache-Control", "no-store"))
_KEPT: Final = header_fields(("Cache-Control", "public, max-age=31536000, immutable"))
_GZIP: Final = header_fields(("Content-Encoding", "gzip"))

#: Places in the page: for the need of a key, for what it shows, for modules that run before the page's own, for data.
_SIGN_IN: Final = (b'data-sign-in="no"', b'data-sign-in="yes"')
_SHOWS: Final = (b'data-shows="node"', b'data-shows="chain"')
_MODULES: Final = b"<!-- more modules -->"
_DATA: Final = b"<!-- first data -->"
#: A smaller body fits in one packet.
_PACKED_BYTES_MIN: Final = 1024
#: Level of the compression of what is sent once.
_QUICKLY: Final = 1


class File(NamedTuple):
    fields: bytes
    content: bytes

    def respond(self, headers: Mapping[bytes, bytes]) -> Response:
        """The file in the coding that a request asks for."""
        if _takes_gzip(headers):
            return Response(HTTPStatus.OK, self.fields + _GZIP, _packed(self.content))
        return Response(HTTPStatus.OK, self.fields, self.content)


class PageFiles(NamedTuple):
    """``page`` names its files by their paths in ``folder``, which are relative: the page may be under a prefix.

    ``by_path`` has each file twice."""

    page: bytes
    folder: bytes
    by_path: Mapping[bytes, File]


@lru_cache(maxsize=1)
def page_files() -> PageFiles:
    folder = resources.files("fastnode.status_page") / "assets"
    contents = {name: (folder / name).read_bytes() for name in NAMES}
    kept = FOLDER + _digest(contents) + b"/"
    by_path: dict[bytes, File] = {}
    for name, content in contents.items():
        fields = CAUTION + _type_of(name)
        by_path[FOLDER + name.encode()] = File(fields + NOT_KEPT, content)
        by_path[kept + name.encode()] = File(fields + _KEPT, content)
    page = (folder / PAGE).read_bytes()
    for place in (*_SIGN_IN[:1], *_SHOWS[:1], _MODULES, _DATA):
        assert page.count(place) == 1, place
    return PageFiles(page.replace(FOLDER[1:], kept[1:]), kept[1:], by_path)


class Document:
    """The page: ``shows_node`` or the chain alone."""

    def __init__(self, *, shows_node: bool) -> None:
        files = page_files()
        self._page = files.page if shows_node else files.page.replace(*_SHOWS)
        self._folder = files.folder

    def ask_for_key(self, headers: Mapping[bytes, bytes]) -> Response:
        """The page with a field for the key, and with nothing of the node."""
        return self._respond(HTTPStatus.UNAUTHORIZED, self._page.replace(*_SIGN_IN), headers)

    def respond(self, headers: Mapping[bytes, bytes], data: bytes | None, modules: tuple[str, ...] = ()) -> Response:
        """The page with JSON ``data`` in it, if there is any, and ``modules`` that run before the page's own."""
        page = self._page
        if modules:
            script = b'<script type="module" src="%b%b"></script>'
            page = page.replace(_MODULES, b"\n".join(script % (self._folder, name.encode()) for name in modules))
        if data is not None:
            # No text in it can end the block.
            block = b'<script id="first" type="application/json">%b</script>' % data.replace(b"<", b"\\u003c")
            page = page.replace(_DATA, block)
        return self._respond(HTTPStatus.OK, page, headers)

    def _respond(self, status: HTTPStatus, page: bytes, headers: Mapping[bytes, bytes]) -> Response:
        return respond(status, CAUTION + NOT_KEPT + _type_of(PAGE), page, headers)


def respond(status: HTTPStatus, fields: bytes, body: bytes, headers: Mapping[bytes, bytes]) -> Response:
    """A body in the coding that a request asks for."""
    if len(body) < _PACKED_BYTES_MIN or not _takes_gzip(headers):
        return Response(status, fields, body)
    return Response(status, fields + _GZIP, gzip.compress(body, _QUICKLY, mtime=0))


@lru_cache(maxsize=len(NAMES))
def _packed(content: bytes) -> bytes:
    """Compress on the first request for it: a start has no time for that."""
    return gzip.compress(content, mtime=0)


def _takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    accepted = headers.get(b"accept-encoding")
    return accepted is not None and choose_coding(accepted) == "gzip"


def _type_of(name: str) -> bytes:
    return header_fields(("Content-Type", f"{_TYPES[name[name.rindex('.') :]]}; charset=utf-8"))


def _digest(contents: Mapping[str, bytes]) -> bytes:
    state = blake2b(digest_size=_DIGEST_BYTES)
    for name, content in contents.items():
        state.update(b"%b\0%d\0" % (name.encode(), len(content)))
        state.update(content)
    return state.hexdigest().encode()
