"""What a connection receives, in plain Python: the readable form of the fast_connection kernel.

The stub ``fastnode/_ext/wire/fast_connection.pyi`` says what everything does.
"""

from __future__ import annotations

import contextlib
import os
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastnode._twins.call_meter import Traffic
    from fastnode._twins.loop_time import LoopTime, Share
    from fastnode._twins.payer import Payer
    from fastnode._twins.simple_request import SimpleRequests

__all__ = ["WRITTEN_TO_MAX", "Receiver", "write_each"]

WRITTEN_TO_MAX = 256


def write_each(descriptors: list[int], data: bytes) -> list[tuple[int, int]]:
    if len(descriptors) > WRITTEN_TO_MAX:
        raise ValueError(f"{len(descriptors)} sockets, more than {WRITTEN_TO_MAX}")
    short = []
    for place, descriptor in enumerate(descriptors):
        taken = 0
        with contextlib.suppress(OSError):
            taken = os.write(descriptor, data)
        if taken < len(data):
            short.append((place, taken))
    return short


class Receiver:
    def __init__(
        self,
        requests: SimpleRequests | None,
        traffic: Traffic,
        bytes_max: int,
        loop_time: LoopTime,
        share: Share,
        buffer: bytearray,
        small_buffer: bytearray,
    ) -> None:
        self._requests = requests
        self._traffic = traffic
        self._bytes_max = bytes_max
        self._loop_time = loop_time
        self._share = share
        self._buffer = self._lent = buffer
        self._small_buffer = small_buffer
        self.has_turn = False
        self.unfinished: tuple[list[tuple[bytes, int]], Any, bytes] | None = None
        self._connection: Any = None
        self._transport: Any = None
        self._descriptor = -1
        self._is_direct = False  # the transport holds nothing
        self.payer: Payer | None = None
        self.is_resting = False
        self.begun = self.written_bytes = 0
        self.active_ns = 0

    def get_buffer(self, size_hint: int) -> bytearray:
        self._lent = self._small_buffer if self._loop_time.is_crowded and not self.has_turn else self._buffer
        return self._lent

    def buffer_updated(self, count: int) -> None:
        if not 0 <= count <= len(self._lent):
            raise ValueError(f"{count} bytes in a buffer of {len(self._lent)}")
        self.has_turn = False
        self.receive(bytes(memoryview(self._lent)[:count]))

    def open(self, connection: Any, transport: Any, descriptor: int = -1) -> None:
        self._connection, self._transport, self._descriptor = connection, transport, descriptor

    def close(self) -> None:
        self.wake()
        self._connection = self._transport = None

    def wake(self) -> None:
        self.is_resting = self._is_direct = False

    def receive(self, data: bytes) -> None:
        requests = self._requests
        if not self.is_resting or requests is None or not requests.is_open or self._loop_time.is_crowded:
            if self._connection is not None:
                self._connection.receive(data)
            return
        requests.payer = self.payer
        started_ns = monotonic_ns()
        view = requests.begin()
        until_ns = started_ns + self._loop_time.slice_ns
        answers = requests.answer(data, 0, self._bytes_max, view, until_ns, self._resumed(data, view))
        if answers is None or requests.position != len(data):
            self._connection.receive_rest(data, answers, view, started_ns)
            return
        self.begun += requests.count
        self.written_bytes += requests.size
        self._traffic.received_bytes += len(data)
        self._traffic.sent_bytes += requests.size
        self.active_ns = started_ns
        self._send(answers)
        self._settle_if_woken()
        self._loop_time.charge(self._share, monotonic_ns() - started_ns)

    def _send(self, answers: bytes | list[bytes]) -> None:
        """Straight to the system where the transport holds nothing."""
        transport = self._transport
        if not self._is_direct and self._descriptor >= 0:
            self._is_direct = not transport.is_closing() and transport.get_write_buffer_size() == 0
        is_direct, self._is_direct = self._is_direct, False
        if isinstance(answers, list):
            transport.writelines(answers)
            return
        sent = 0
        if is_direct:
            with contextlib.suppress(OSError):  # the transport meets errors too
                sent = os.write(self._descriptor, answers)
        if sent == len(answers):
            self._is_direct = True
        else:
            transport.write(answers[sent:])

    def _resumed(self, data: bytes, view: Any) -> list[tuple[bytes, int]] | None:
        """What there is already of the batch at the beginning of the data."""
        if self.unfinished is None:
            return None
        results, view_then, request = self.unfinished
        self.unfinished = None
        return results if view_then is view and data.startswith(request) else None

    def _settle_if_woken(self) -> None:
        """Writing may have ended the rest."""
        if not self.is_resting and self._connection is not None:
            self._connection.settle()
