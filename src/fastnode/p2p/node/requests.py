"""Requests to peers and from them: one stream each.

asker       the request as one frame, uncompressed; no more
answerer    one frame with one byte, the status; the answer in raw snappy; no more
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from fastnode.errors import PeerFault, PeerUnavailable
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.host import Host
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.messages.request_forms import StatusMessage
from fastnode.p2p.node.peer import Peer
from fastnode.p2p.node.request_limits import Request, RequestLimits, RequestPace, Status
from fastnode.p2p.node.served import answer
from fastnode.p2p.transport.encoding import compress, decompress
from fastnode.p2p.transport.link import Stream
from fastnode.protocol.releases import Release

__all__ = ["Requests"]

_KIB: Final = 1024
#: Longest request that is read: a frame of the reference.
_REQUEST_BYTES_MAX: Final = 64 * _KIB
_SMALL_MAX: Final = _KIB
#: Answers that are being made at a time, over all peers.
_SERVED_MAX: Final = 8


class Requests:
    """Requests to and from one node; in the loop of the network.  ``executor``: threads in which answers are made."""

    def __init__(
        self,
        host: Host,
        executor: Executor,
        *,
        timeout_s: float,
        takes_transactions: bool,
        release: Release,
        penalize: Callable[[str, Penalty, str], None],
    ) -> None:
        self._host = host
        self._executor = executor
        self._timeout_s = timeout_s
        self._release = release
        self._penalize = penalize
        self._limits = RequestLimits()
        self._pace = RequestPace()
        self._places = asyncio.Semaphore(_SERVED_MAX)
        self._loop = asyncio.get_running_loop()
        served = [Request.PING, Request.STATUS, Request.GOODBYE]
        if release.messages.serves_blocks:
            served.append(Request.BLOCK)
        if host.has_validators:
            served.append(Request.AUTH)
        if takes_transactions:
            served += [Request.TX, Request.BLOCK_TXS]
        self._served = {request.protocol: request for request in served}
        #: Counts of requests: ("in" | "out", request, status).
        self.counts: Counter[tuple[str, str, str]] = Counter()

    @property
    def protocols(self) -> list[str]:
        return list(self._served)

    def status(self) -> StatusMessage:
        return self._host.status()

    def forget(self, peer_id: str) -> None:
        self._limits.forget(peer_id)
        self._pace.forget(peer_id)

    # ---- asking ------------------------------------------------------------------------------

    async def ask(self, peer: Peer, request: Request, data: bytes, *, bytes_max: int = _SMALL_MAX) -> bytes:
        """The answer; PeerUnavailable when there is none, PeerFault for one that makes no sense.

        Waits for its turn: who asks a peer more often than it allows loses points there.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.sleep(self._pace.reserve(request, peer.id, self._loop.time()))
                status, answered = await self._exchange(peer, request, data, bytes_max)
        except TimeoutError:
            self.counts["out", request.value, "timeout"] += 1
            raise PeerUnavailable(f"no answer to {request.value} within {self._timeout_s} s") from None
        self.counts["out", request.value, status.name.lower()] += 1
        if status is not Status.SUCCESS:
            raise PeerUnavailable(f"{request.value}: {status.name.lower()}")
        return answered

    async def _exchange(self, peer: Peer, request: Request, data: bytes, bytes_max: int) -> tuple[Status, bytes]:
        stream = peer.link.open_stream()
        try:
            await stream.select([request.protocol], is_dialer=True)
            await stream.write(data)
            stream.finish()
            first = await stream.read_chunk()
            if first is None:
                return Status.UNKNOWN, b""
            status = Status.read(first)
            rest = await stream.read_all(bytes_max + bytes_max // 6 + 64)  # snappy may grow what it cannot shrink
            return status, decompress(rest, bytes_max) if status is Status.SUCCESS else b""
        finally:
            stream.release()

    async def tell(self, peer: Peer, request: Request, data: bytes) -> None:
        """Send a request that has no answer."""
        stream = peer.link.open_stream()
        try:
            await stream.select([request.protocol], is_dialer=True)
            await stream.write(data)
            stream.finish()
            self.counts["out", request.value, "sent"] += 1
            await stream.read_all(_SMALL_MAX)
        finally:
            stream.release()

    # ---- answering ---------------------------------------------------------------------------

    async def serve(self, peer: Peer, protocol: str, stream: Stream) -> None:
        request = self._served[protocol]
        try:
            async with asyncio.timeout(self._timeout_s):
                data = await stream.read_chunk() or b""
                if len(data) > _REQUEST_BYTES_MAX:
                    raise PeerFault("a request is too long")
                status, answered = await self._answer(peer, request, data)
                self.counts["in", request.value, status.name.lower()] += 1
                if request is not Request.GOODBYE:
                    await stream.write(bytes([status.value]))
                    if status is Status.SUCCESS:
                        await stream.write(compress(answered))
                stream.finish()
        except TimeoutError:
            stream.reset()

    async def _answer(self, peer: Peer, request: Request, data: bytes) -> tuple[Status, bytes]:
        is_allowed, is_of_peer = self._limits.take(request, peer.id, self._loop.time())
        if not is_allowed:
            if is_of_peer:
                self._penalize(peer.id, Penalty.HIGH_TOLERANCE, f"it asks for {request.value} too often")
            return Status.RATE_LIMIT_EXCEEDED, b""
        if request is Request.GOODBYE:
            self.counts["in", "goodbye", Goodbye.read(data).name.lower()] += 1
            return Status.SUCCESS, b""
        if request is Request.AUTH and not peer.is_protected:
            return Status.SUCCESS, b""  # only whom the operator named learns whose node this is
        async with self._places:
            status, answered = await self._loop.run_in_executor(
                self._executor, answer, self._host, request, data, self._release
            )
        if status is Status.BADLY_FORMED_REQUEST:
            self._penalize(peer.id, Penalty.LOW_TOLERANCE, f"its request for {request.value} makes no sense")
        return status, answered
