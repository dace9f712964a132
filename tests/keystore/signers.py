"""A remote signer: answers ``eth_accounts``, or what a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.http_stand_in import HttpStandIn, answer, answer_json

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

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        question = json.loads(body)
        signer.asked.append(question["method"])
        if signer.failures:
            signer.failures -= 1
            answer(handler, b"", 503)
        elif signer.body is not None:
            answer(handler, signer.body)
        else:
            answer_json(handler, {"jsonrpc": "2.0", "id": question["id"], "result": signer.accounts})

    with HttpStandIn(respond) as server:
        signer.url = server.url
        yield signer
