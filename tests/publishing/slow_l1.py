"""A way to L1 on which a test holds things up."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

LONG_S = 120.0


@dataclass
class SlowL1:
    """``url`` leads to L1.  Requests with a method of ``before`` wait before they go there, answers to one of
    ``behind`` wait on their way back, so many seconds."""

    target: str
    url: str = ""
    before: dict[str, float] = field(default_factory=dict)
    behind: dict[str, float] = field(default_factory=dict)
    #: Called when L1 has answered a method, before the answer goes on.
    on_answer: dict[str, Callable[[], None]] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def forward(self, body: bytes) -> bytes:
        document = json.loads(body)
        methods = [call["method"] for call in (document if isinstance(document, list) else [document])]
        self._hold(self.before, methods)
        with urlopen(Request(self.target, body, {"Content-Type": "application/json"}), timeout=LONG_S) as answer:
            content: bytes = answer.read()
        for method in methods:
            self.on_answer.get(method, lambda: None)()
        self._hold(self.behind, methods)
        return content

    def _hold(self, seconds: dict[str, float], methods: list[str]) -> None:
        self.stop.wait(max((seconds.get(method, 0.0) for method in methods), default=0.0))


@contextmanager
def slow_l1(target: str) -> Iterator[SlowL1]:
    slow = SlowL1(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(OSError):
                super().handle()

        def do_POST(self) -> None:
            content = slow.forward(self.rfile.read(int(self.headers["Content-Length"])))
            with suppress(OSError):  # who asked has given up
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    slow.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield slow
    finally:
        slow.stop.set()
        server.shutdown()
        thread.join()
        server.server_close()
