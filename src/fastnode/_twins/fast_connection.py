"""What a connection receives, in plain Python: the readable form of the fast_connection kernel.

The stub ``fastnode/_ext/wire/fast_connection.pyi`` says what everything does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastnode._twins.call_meter import ByteCounts
    from fastnode._twins.simple_request import SimpleRequests

__all__ = ["Receiver"]


class Receiver:
    def __init__(
        self, requests: SimpleRequests, traffic: ByteCounts, time: Callable[[], float], bytes_max: int
    ) -> None:
        self._requests = requests
        self._traffic = traffic
        self._time = time
        self._bytes_max = bytes_max
        self._connection: Any = None
        self._transport: Any = None
        self.is_resting = False
        self.begun = self.unsent_bytes = 0
        self.active_at = 0.0

    def open(self, connection: Any, transport: Any) -> None:
        self._connection, self._transport = connection, transport

    def close(self) -> None:
        self.is_resting = False
        self._connection = self._transport = None

    def receive(self, data: bytes) -> None:
        requests = self._requests
        if not (self.is_resting and requests.is_open):
            if self._connection is not None:
                self._connection.receive_unusual(data)
            return
        view = requests.begin()
        answers = requests.answer(data, 0, self._bytes_max, view)
        if answers is None or requests.position != len(data):
            self._connection.receive_rest(data, answers, view)
            return
        self.begun += requests.count
        self.unsent_bytes += requests.size
        self._traffic.received_bytes += len(data)
        self._traffic.sent_bytes += requests.size
        self.active_at = self._time()
        if isinstance(answers, bytes):
            self._transport.write(answers)
        else:
            self._transport.writelines(answers)
        self._settle_if_woken()

    def _settle_if_woken(self) -> None:
        """Writing may have ended the rest."""
        if not self.is_resting and self._connection is not None:
            self._connection.settle()
