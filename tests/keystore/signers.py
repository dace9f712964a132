"""A remote signer: answers ``eth_accounts``, or what a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Signer", "remote_signer"]


class Signer:
    """``accounts`` are what it holds; ``failures`` is how often it answers 503 first; ``body`` replaces the answer."""

    def __init__(self, *accounts: str) -> None:
        self.accounts = list(accounts)
        self.failures = 0
        self.body: bytes | None = None
        self.asked: list[str] = []
        self.url = ""


@contextmanager
def remote_signer(*accounts: str) -> Iterator[Signer]:
    signer = Signer(*accounts)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            signer.asked.append(question["method"])
            if signer.failures:
                signer.failures -= 1
                self.send_response(503)
                self.end_headers()
                return
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": signer.accounts}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode() if signer.body is None else signer.body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        signer.url = f"http://127.0.0.1:{server.server_port}"
        yield signer
        server.shutdown()
        thread.join()
