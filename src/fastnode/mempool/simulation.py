"""Handing simulations of transactions to another node, where an operator wants that.

fastnode's own simulator is in ``public_execution/``.
"""

from __future__ import annotations

import http.client
import logging
import threading
import urllib.error
import urllib.request
from typing import Any, Final, Protocol

import orjson

from fastnode.errors import RpcError, ServerError
from fastnode.protocol.tx import Tx

__all__ = ["NO_SIMULATOR", "PublicSimulator", "UpstreamSimulator"]

logger = logging.getLogger("fastnode.mempool")

NO_SIMULATOR: Final = "no public simulator is configured"

_METHOD: Final = "node_simulatePublicCalls"
#: One effect with its class log and every return value is far below this.
_ANSWER_BYTES_MAX: Final = 16 << 20


class PublicSimulator(Protocol):
    """Simulates against the newest state it has.  May block; called from worker threads."""

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        """PublicSimulationOutput as JSON; RpcError when the transaction cannot be processed."""


class UpstreamSimulator:
    """Asks another node over HTTP, ``timeout_s`` each, at most ``calls_max`` at a time."""

    def __init__(self, url: str, *, timeout_s: float = 30.0, calls_max: int = 4) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._calls_max = calls_max
        self._turns = threading.BoundedSemaphore(calls_max)

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        if not self._turns.acquire(blocking=False):
            raise ServerError(f"{self._calls_max} public simulations are running; try again later")
        try:
            answer = self._ask(b"[%b,%b]" % (tx.to_json_bytes(), b"true" if skip_fee_enforcement else b"false"))
        finally:
            self._turns.release()
        if "error" in answer:
            raise _their_error(answer["error"])
        if "result" not in answer:
            raise ServerError("The public simulator gave no result")
        return orjson.dumps(answer["result"])

    def _ask(self, parameters: bytes) -> dict[str, Any]:
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":%b}' % (_METHOD.encode(), parameters)
        request = urllib.request.Request(self._url, data=body, headers={"Content-Type": "application/json"})
        try:
            return _decode(self._read(request))
        except (OSError, http.client.HTTPException) as error:
            logger.warning("the public simulator %s cannot be asked: %s", self._url, error)
            raise ServerError("The public simulator cannot be reached") from error

    def _read(self, request: urllib.request.Request) -> bytes:
        """The body of the answer, also of one whose status says error: a reference node answers 400 with the reason."""
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as response:
                return _bounded(response)
        except urllib.error.HTTPError as error:
            with error:
                return _bounded(error)


def _bounded(response: Any) -> bytes:
    body: bytes = response.read(_ANSWER_BYTES_MAX + 1)
    if len(body) > _ANSWER_BYTES_MAX:
        raise ServerError(f"The public simulator's answer exceeds {_ANSWER_BYTES_MAX} bytes")
    return body


def _decode(body: bytes) -> dict[str, Any]:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise ServerError("The public simulator's answer is no JSON-RPC answer")
    return answer


def _their_error(error: Any) -> RpcError:
    """Their reason under our code: their own codes are not standard ones."""
    message = error.get("message") if isinstance(error, dict) else None
    if not isinstance(message, str):
        return ServerError("The public simulator failed without a reason")
    return ServerError(message, data=error.get("data"))
