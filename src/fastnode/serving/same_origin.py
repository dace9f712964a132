"""Guards of what is open to all who reach a port, but not to pages of other sites in their browsers.

On the admin port without a key that is everything; on the ports of a local network the methods that change it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final

from fastnode.errors import ServerError
from fastnode.http.health import PROBE_PATHS
from fastnode.http.messages import Response, header_fields
from fastnode.jsonrpc.json_text import error_text

__all__ = ["OriginsOfPages", "SameOriginGuard"]

_REFUSAL: Final = Response(
    HTTPStatus.FORBIDDEN,
    header_fields(("Vary", "Accept-Encoding, Origin"), ("Content-Type", "application/json; charset=utf-8")),
    error_text(
        ServerError.code,
        "Forbidden: pages of other sites may not use the admin port while it asks for no key; call it by address, as "
        "localhost, or by a name of --admin-names",
    ),
)
_SCHEMES: Final = (b"http://", b"https://")


class _Hosts:
    """Names of this machine: addresses, localhost, and those that the operator gives."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(name.lower().encode() for name in (LOCALHOST, *names))

    def has(self, host: bytes) -> bool:
        """Without any, as HTTP/1.0 allows: no browser leaves it out."""
        if not host or _ADDRESS.fullmatch(host):
            return True
        name, colon, port = host.rpartition(b":")
        return (name if colon and port.isdigit() else host).rstrip(b".") in self._names


def _is_of(origin: bytes, host: bytes) -> bool:
    """True if the page of an Origin came from the host that is asked."""
    return origin in {scheme + host for scheme in _SCHEMES}


class OriginsOfPages:
    """Knows the pages that may change a local network: those of its own port, as above, and of the ``origins`` that the
    operator names.  What names no page, as programs do, may too."""

    def __init__(self, names: Collection[str] = (), origins: Collection[str] = ()) -> None:
        self._hosts = _Hosts(names)
        self._origins = frozenset(origin.lower().rstrip("/").encode() for origin in origins)

    def is_foreign(self, headers: Mapping[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return False
        origin, host = origin.lower(), headers.get(b"host", b"").lower()
        return origin not in self._origins and not (host and self._hosts.has(host) and _is_of(origin, host))


class SameOriginGuard:
    """Admits what does not come from a page, and what comes from a page of this port.

    With every request that could change something here a browser names the page in ``Origin``; its host must be the one
    that was asked.  That alone is not enough: a site may let its own name lead to this machine, and its page is then of
    this port for the browser.  So the host must be an address, localhost, or one of the ``names`` of the operator.
    Probes are open to all.
    """

    refusal = _REFUSAL

    def __init__(self, names: Collection[str] = ()) -> None:
        self._hosts = _Hosts(names)

    def admits(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bool:
        if method == b"GET" and target.partition(b"?")[0] in PROBE_PATHS:
            return True
        host = headers.get(b"host", b"").lower()
        if not self._hosts.has(host):
            return False
        origin = headers.get(b"origin")
        return origin is None or _is_of(origin.lower(), host)


LOCALHOST: Final = "localhost"
#: IPv4, or IPv6 in brackets, with or without a port.
_ADDRESS: Final = re.compile(rb"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
