"""Simulations by another node, where an operator asks for that.

fastnode's own simulator is in ``public_execution/``.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final, Protocol

import orjson

from fastnode.errors import Refused, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.log import log_facts
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
        """PublicSimulationOutput as JSON; Refused when the transaction cannot be processed."""


class UpstreamSimulator:
    """Asks another node over HTTP, ``timeout_s`` each, at most ``calls_max`` at a time."""

    def __init__(self, url: str, *, timeout_s: float = 30.0, calls_max: int = 4) -> None:
        self._calls_max = calls_max
        from fastnode.outgoing.client import ClientLimits, RpcClient
        from fastnode.outgoing.network import Network

        self._turns = threading.BoundedSemaphore(calls_max)
        self._network = Network()
        limits = ClientLimits(request_time_s=timeout_s, response_bytes_max=_ANSWER_BYTES_MAX)
        self._client = RpcClient(url, self._network, limits)

    def close(self) -> None:
        """End what is under way.  May be called more than once."""
        self._network.close()

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        if not self._turns.acquire(blocking=False):
            raise Refused(f"{self._calls_max} public simulations are running; try again later")
        try:
            return self._ask([orjson.Fragment(tx.to_json_bytes()), skip_fee_enforcement])
        finally:
            self._turns.release()

    def _ask(self, parameters: list[Any]) -> bytes:
        try:
            result = self._client.ask([(_METHOD, parameters)]).results()[0]
        except UpstreamRejection as rejection:
            # Their reason under our code: their own codes are not standard ones.
            raise Refused(rejection.message, data=rejection.data) from rejection
        except UpstreamUnavailable as error:
            logger.warning("the public simulator does not answer", extra=log_facts(reason=str(error)))
            raise Refused("The public simulator cannot be reached") from error
        except UpstreamFault as error:
            raise Refused(f"The public simulator gave no usable answer: {error}") from error
        if result is None:
            raise Refused("The public simulator gave no result")
        return orjson.dumps(result)
