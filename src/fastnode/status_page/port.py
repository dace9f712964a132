"""The explorer on a port of its own: read-only, without a key, and with nothing of the node but the chain it serves.

What is asked here is not counted as calls and not charged to clients' budgets; the limits of connections hold.  Before
many people a gateway belongs in front of it, as before every page.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from http import HTTPStatus
from typing import Any, Final

from fastnode.http.allowance import Allowance
from fastnode.http.limits import Limits
from fastnode.http.messages import Refusal, Request, Response, header_fields
from fastnode.serving.server import HttpServer
from fastnode.status_page.explorer import Explorer
from fastnode.status_page.pages import StatusPage
from fastnode.view import View

__all__ = ["ExplorerApplication", "explorer_server"]

_TEXT: Final = header_fields(("Content-Type", "text/plain; charset=utf-8"))
_LIMITS: Final = Limits(connections_max=1024, connections_per_address_max=256)


class ExplorerApplication:
    """GET and HEAD of the page, and nothing else."""

    guard = None

    def __init__(self, page: StatusPage) -> None:
        self._page = page

    def on_request(self, request: Request, allowance: Allowance) -> Response | Coroutine[Any, Any, Response]:
        if request.method not in (b"GET", b"HEAD"):
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT + header_fields(("Allow", "GET, HEAD")), b"")
        answer = self._page.on_get(request.target.partition(b"?")[0], request.target, request.headers)
        return self.on_refusal(Refusal(HTTPStatus.NOT_FOUND, "the explorer is at /")) if answer is None else answer

    def on_refusal(self, refusal: Refusal) -> Response:
        return Response(refusal.status, _TEXT, f"{refusal.status.phrase}: {refusal.reason}".encode())


def explorer_server(
    explorer: Explorer, view: Callable[[], View | None], *, host: str, port: int, executor: Executor | None = None
) -> HttpServer:
    """The server, not started yet; ``executor`` runs what the explorer reads."""
    page = StatusPage(None, explorer, view, knows_key=lambda headers: True, executor=executor)
    return HttpServer(ExplorerApplication(page), host=host, port=port, limits=_LIMITS)
