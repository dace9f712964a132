"""Data of a connection, answered without Python being asked as long as it is usual."""

from collections.abc import Sequence
from typing import Any, Protocol

from fastnode._ext.wire.call_meter import Traffic
from fastnode._ext.wire.loop_time import LoopTime, Share
from fastnode._ext.wire.payer import Payer
from fastnode._ext.wire.simple_request import SimpleRequests

class _Connection(Protocol):
    def receive(self, data: bytes) -> None:
        """Data that comes while the receiver does not rest, the requests are closed, or the loop is crowded."""

    def receive_rest(self, data: bytes, answers: bytes | list[bytes] | None, view: Any, started_ns: int) -> None:
        """A burst that the requests did not answer to its end; where they stopped they say themselves.  It was begun
        at ``started_ns``, and what it has used is not charged yet."""

    def settle(self) -> None:
        """The answers are written, but writing them ended the rest."""

class _Transport(Protocol):
    def write(self, data: bytes) -> None: ...
    def writelines(self, chunks: Sequence[bytes]) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...

#: Sockets of one call of :func:`write_each`.
WRITTEN_TO_MAX: int

def write_each(descriptors: list[int], data: bytes) -> list[tuple[int, int]]:
    """Write the same to each socket, as far as it takes it at once.

    (place in the list, bytes taken) of those that did not take all of it; 0 bytes also where an error came, which the
    socket's transport meets.  ValueError: too many sockets.
    """

class Receiver:
    """Gets the data of one connection; a burst is answered up to ``bytes_max`` bytes.  Without ``requests`` it does not
    rest: all goes to the connection.

    It is answered for a slice of ``loop_time`` at most, which is charged to ``share``.  What is read goes into
    ``buffer``, which all connections of a loop share, or into ``small_buffer`` while others wait: so that the loop gets
    round soon, however many send at the same time, and what is not its turn stays in the system.
    """

    def __init__(
        self,
        requests: SimpleRequests | None,
        traffic: Traffic,
        bytes_max: int,
        loop_time: LoopTime,
        share: Share,
        buffer: bytearray,
        small_buffer: bytearray,
    ) -> None: ...
    def get_buffer(self, size_hint: int) -> bytearray:
        """Buffer for the next data; of the protocol (asyncio.BufferedProtocol)."""

    def buffer_updated(self, count: int) -> None:
        """``count`` bytes of data are in the buffer, which is free again afterwards.  ValueError if they are more than
        it holds."""
    def open(self, connection: _Connection, transport: _Transport, descriptor: int = -1) -> None:
        """To be called before the first data.

        With the ``descriptor`` of the transport's socket, answers go straight to the system while the transport holds
        nothing; what the system does not take then is the transport's.
        """

    def close(self) -> None:
        """Let go of the connection."""

    def wake(self) -> None:
        """The connection is not at rest: something else may write to the transport, or end it."""

    def receive(self, data: bytes) -> None:
        """A burst."""

    #: Payer for the calls of the connection; None: they are free.
    payer: Payer | None
    #: The connection waits for a request, and nothing is under way: whole bursts are answered here.
    is_resting: bool
    #: The next data is read in the connection's turn, however many others wait.
    has_turn: bool
    #: Requests that were answered here since the connection was opened, the bytes of their answers, and when the last
    #: ones came, by the clock of ``clock.now_ns``.
    begun: int
    written_bytes: int
    active_ns: int
