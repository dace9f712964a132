"""An HTTP server in a thread of the test that answers what the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

__all__ = ["HttpStandIn", "Respond", "answer", "answer_json"]

#: ``respond(handler, body)``: send the answer to a request.
Respond = Callable[[BaseHTTPRequestHandler, bytes], None]


class HttpStandIn:
    """Answers GET and POST as :meth:`respond` says, on a free port; counts its connections.

    A subclass overrides ``respond``, or a test replaces it.
    """

    def __init__(self, respond: Respond | None = None) -> None:
        if respond is not None:
            self.respond = respond  # type: ignore[method-assign]
        self.connections = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # a body behind its head would wait 40 ms for the client

            def setup(self) -> None:
                outer.connections += 1
                super().setup()

            def _do(self) -> None:
                outer.respond(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            do_POST = do_GET = _do  # noqa: N815 - the names that http.server asks for

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        answer(handler, b"", 404)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def answer(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    """Send a whole answer; ``_`` in the name of a header stands for ``-``."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def answer_json(handler: BaseHTTPRequestHandler, value: Any, status: int = 200) -> None:
    answer(handler, json.dumps(value).encode(), status)
