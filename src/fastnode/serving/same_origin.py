"""The admin port without a key: whoever reaches it may use it, but not the pages of other sites in their browser."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastnode.http.health import PROBE_PATHS
from fastnode.http.messages import Response, header_fields

__all__ = ["SameOriginGuard"]

_REFUSAL: Final = Response(
    HTTPStatus.FORBIDDEN,
    header_fields(("Vary", "Accept-Encoding, Origin"), ("Content-Type", "application/json; charset=utf-8")),
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Forbidden: pages of other sites may not use the '
    b'admin port while it asks for no key"}}',
)
_SCHEMES: Final = (b"http://", b"https://")


class SameOriginGuard:
    """Admits what does not come from a page, and what comes from a page of this port.

    A browser names the page in ``Origin`` with whatever could change something here; the host in it must be the one
    that was asked.  Probes are for everybody.
    """

    refusal = _REFUSAL

    def admits(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is None or (method == b"GET" and target.partition(b"?")[0] in PROBE_PATHS):
            return True
        host = headers.get(b"host", b"")
        return origin.lower() in {scheme + host.lower() for scheme in _SCHEMES}
