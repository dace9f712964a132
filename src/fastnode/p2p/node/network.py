"""The peer-to-peer network as a node uses it: a thread with a loop of its own, so that no peer holds up requests.

network = PeerNetwork(identity, version, host, options, budget, slot_s=36, committee_size=48)
network.start()
network.publish(Topic.TX, tx.to_buffer())
network.stop()
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeVar

from fastnode.errors import PeerUnavailable, SettingError, StartError
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.judging.host import Host
from fastnode.p2p.node.options import PeerOptions
from fastnode.p2p.node.overlay import Overlay
from fastnode.p2p.node.snapshot import NetworkSnapshot
from fastnode.p2p.node.swarm import own_record
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Budget

__all__ = ["PeerNetwork"]

logger = logging.getLogger(__name__)

#: Threads that judge transactions: each may wait for a proof.
_JUDGING: Final = 4
#: Threads that judge proposals and attestations: each may wait for transactions.
_JUDGING_OTHERS: Final = 4
#: Threads that make answers.
_ANSWERING: Final = 2
_CALL_S: Final = 10.0

Result = TypeVar("Result")


class PeerNetwork:
    """Usable from any thread."""

    def __init__(
        self,
        identity: Identity,
        version: str,
        host: Host,
        options: PeerOptions,
        budget: Budget,
        *,
        slot_s: float,
        committee_size: int,
        snapshot_s: float = 1.0,
        on_snapshot: Callable[[NetworkSnapshot], None] | None = None,
    ) -> None:
        """``on_snapshot`` is called in a thread of the network after each."""
        self._snapshot_s = snapshot_s
        self._on_snapshot = on_snapshot
        self._make: Callable[[], Overlay] = lambda: Overlay(
            identity,
            version,
            host,
            options,
            budget,
            slot_s=slot_s,
            committee_size=committee_size,
            threads=self._judging,
            other_threads=self._judging_others,
            answering=self._answering,
        )
        self._judging = ThreadPoolExecutor(_JUDGING, thread_name_prefix="p2p-judging")
        self._judging_others = ThreadPoolExecutor(_JUDGING_OTHERS, thread_name_prefix="p2p-proposals")
        self._answering = ThreadPoolExecutor(_ANSWERING, thread_name_prefix="p2p-answering")
        self._thread = threading.Thread(target=self._run, name="p2p", daemon=True)
        self._setbacks = Setbacks("the state of the peer-to-peer network is not told")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._overlay: Overlay | None = None
        self._stopping: asyncio.Event | None = None
        self._started: Future[None] = Future()
        #: As of the last ``snapshot_s``.
        self.snapshot = NetworkSnapshot(
            peer_id=identity.peer_id,
            version=version,
            port=0,
            # Without a port of its own the record is not known before the system has chosen one.
            enr=own_record(identity, version, options, options.listen_port).record.to_text()
            if options.listen_port
            else None,
        )

    # ---- start and stop ----------------------------------------------------------------------

    def start(self) -> None:
        """Returns when it listens.  StartError when the port cannot be had."""
        self._thread.start()
        try:
            self._started.result()
        except OSError as error:
            kind = SettingError if isinstance(error, socket.gaierror | PermissionError) else StartError
            name = "p2p-listen-addr" if isinstance(error, socket.gaierror) else "p2p-port"
            raise kind(f"{name}: the peer-to-peer network cannot listen: {error.strerror or error}") from None
        facts = {"peer": self.snapshot.peer_id, "port": self.snapshot.port, "network": self.snapshot.version}
        logger.info("on the peer-to-peer network", extra=log_facts(**facts))

    def stop(self) -> None:
        """Close all connections, without a goodbye (swarm.py); no-op unless it runs."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._judging.shutdown(cancel_futures=True)
        self._judging_others.shutdown(cancel_futures=True)
        self._answering.shutdown(cancel_futures=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            if self._started.done():
                logger.exception("the peer-to-peer network has ended")
            else:
                self._started.set_exception(error)

    async def _live(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        overlay = self._make()
        try:
            await overlay.start()
            self._overlay = overlay
            self.snapshot = overlay.snapshot()
            self._started.set_result(None)
            while not self._stopping.is_set():
                try:
                    async with asyncio.timeout(self._snapshot_s):
                        await self._stopping.wait()
                except TimeoutError:
                    self._tell(overlay)
        finally:
            self._overlay = None
            await overlay.stop()
            self.snapshot = replace(self.snapshot, peers=(), mesh={})

    def _tell(self, overlay: Overlay) -> None:
        try:
            self.snapshot = overlay.snapshot()
            if self._on_snapshot is not None:
                self._answering.submit(self._guarded, self._on_snapshot, self.snapshot)
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)

    def _guarded(self, action: Callable[[NetworkSnapshot], None], snapshot: NetworkSnapshot) -> None:
        try:
            action(snapshot)
            self._setbacks.end()
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._setbacks.note(error)

    @property
    def trouble(self) -> str | None:
        """Reason why the network does not run, or does not say how it is; None while it does."""
        is_over = self._started.done() and not self._thread.is_alive()
        if is_over and self._stopping is not None and not self._stopping.is_set():
            return "the peer-to-peer network has ended; the log has the cause"
        return self._setbacks.reason

    # ---- calls -------------------------------------------------------------------------------

    def _call(self, make: Callable[[Overlay], Coroutine[Any, Any, Result]], timeout_s: float) -> Result:
        overlay, loop = self._overlay, self._loop
        if overlay is None or loop is None:
            raise PeerUnavailable("the peer-to-peer network is not running")
        future = asyncio.run_coroutine_threadsafe(make(overlay), loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise PeerUnavailable(f"the peer-to-peer network has not answered within {timeout_s} s") from None

    def publish(self, topic: Topic, payload: bytes, *, keep_s: float = 0.0) -> int | None:
        """To how many peers it went at once; None if it had been seen.  PeerUnavailable when it does not run.

        ``keep_s``: so long it goes to peers that come, too.
        """

        async def publish(overlay: Overlay) -> int | None:
            return overlay.publish(topic, payload, keep_s)

        return self._call(publish, _CALL_S)

    def fetch_txs(
        self, archive_root: bytes, hashes: Sequence[bytes], missing: set[bytes], first: str | None, timeout_s: float
    ) -> list[bytes]:
        """Missing transactions of a block, as far as peers have them, in their binary form, not checked."""
        return self._call(lambda overlay: overlay.fetch_txs(archive_root, hashes, missing, first), timeout_s)
