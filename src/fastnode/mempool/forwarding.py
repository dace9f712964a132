"""What goes the other way: transactions, and questions that only a full node can answer.

The first healthy upstream is asked, then the next.  Transactions that none of them took because none answered
are kept in the pool and handed on later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, Final

import orjson

from fastnode.errors import DecodeError, RpcError, ServerError, UpstreamError, UpstreamRejection, UpstreamUnavailable
from fastnode.fees.sources import LatestFees
from fastnode.log import fields
from fastnode.mempool.pool import TxPool
from fastnode.outgoing.upstreams import Upstream, Upstreams
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.header import GasFees
from fastnode.protocol.tx import Tx

__all__ = ["FeeRefresher", "Relay", "TxForwarder", "UpstreamPublicSimulator"]

logger = logging.getLogger(__name__)

#: Questions, and transactions, under way at a time: a slow upstream must not take all threads of the server.
QUESTIONS_MAX: Final = 4
FORWARDS_MAX: Final = 4
#: Transactions that wait for an upstream; the oldest go first when there are more.
WAITING_TXS_MAX: Final = 1000
#: Answers of different questions that are kept for a moment.
CACHED_ANSWERS_MAX: Final = 256
#: Fees are asked for at most this often.
FEES_INTERVAL_S: Final = 1.0

NO_UPSTREAM: Final = "No upstream answers at the moment; try again later"


def as_rpc_error(rejection: UpstreamRejection) -> ServerError:
    """The other node's reason and data under our code: its own codes are not standard ones."""
    data = rejection.data
    if data is None:
        data = {"code": "UPSTREAM_REJECTED", "upstreamCode": rejection.code}
    return ServerError(rejection.message, data=data)


class Relay:
    """Asks on behalf of clients.  Usable from worker threads."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._answers: dict[bytes, tuple[float, Any]] = {}
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(QUESTIONS_MAX)

    def ask(self, method: str, parameters: Sequence[Any]) -> Any:
        """The result, None for nothing found.  ServerError with the other node's reason, or when none answers."""
        if not self._turns.acquire(blocking=False):
            raise ServerError(f"{QUESTIONS_MAX} questions to other nodes are under way; try again later")
        try:
            return self._ask(method, parameters)
        finally:
            self._turns.release()

    def _ask(self, method: str, parameters: Sequence[Any]) -> Any:
        for upstream in self._upstreams.healthy():
            try:
                return upstream.call(method, *parameters)
            except UpstreamRejection as rejection:
                raise as_rpc_error(rejection) from rejection
            except UpstreamError as error:
                logger.info("not relayed", extra=fields(method=method, upstream=upstream.name, reason=str(error)))
        raise ServerError(NO_UPSTREAM, data={"code": "NO_UPSTREAM"})

    def ask_cached(self, method: str, parameters: Sequence[Any], max_age_s: float) -> Any:
        """As :meth:`ask`, or the same answer as a moment ago."""
        key = orjson.dumps([method, parameters])
        now = time.monotonic()
        with self._lock:
            cached = self._answers.get(key)
        if cached is not None and now - cached[0] < max_age_s:
            return cached[1]
        answer = self.ask(method, parameters)
        with self._lock:
            if len(self._answers) >= CACHED_ANSWERS_MAX:
                self._answers.clear()
            self._answers[key] = (now, answer)
        return answer


class UpstreamPublicSimulator:
    """Runs the public part of transactions on the upstream.  A ``PublicSimulator``."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        answer = self._relay.ask(
            "node_simulatePublicCalls", [orjson.Fragment(tx.to_json_bytes()), skip_fee_enforcement]
        )
        return orjson.dumps(answer)


class TxForwarder:
    """Hands transactions on.  A ``TxSink``."""

    def __init__(self, upstreams: Upstreams, pool: TxPool, executor: Executor) -> None:
        self._upstreams = upstreams
        self._pool = pool
        self._executor = executor
        #: What a former run of the node may not have handed on; whoever has them takes them as known.
        self._waiting: deque[bytes] = deque(pool.pending_hashes(), maxlen=WAITING_TXS_MAX)
        self._is_flushing = threading.Lock()
        self._turns = threading.BoundedSemaphore(FORWARDS_MAX)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def forward(self, tx: Tx, tx_json: bytes) -> None:
        """ServerError when an upstream refuses it; without one that answers, or with many on their way, it waits."""
        sent = False
        if self._turns.acquire(blocking=False):
            try:
                sent = self._send(tx_json)
            except UpstreamRejection as rejection:
                raise as_rpc_error(rejection) from rejection
            finally:
                self._turns.release()
        if not sent:
            self._waiting.append(tx.hash)

    def on_pass(self) -> None:
        """An upstream has just answered: time for what waits."""
        if self._waiting and self._is_flushing.acquire(blocking=False):
            try:
                self._executor.submit(self._flush)
            except RuntimeError:  # the node is stopping
                self._is_flushing.release()

    def _send(self, tx_json: bytes) -> bool:
        for upstream in self._upstreams.healthy():
            try:
                upstream.call("node_sendTx", orjson.Fragment(tx_json))
            except UpstreamRejection:
                raise
            except UpstreamError as error:
                logger.warning("transaction not handed on", extra=fields(upstream=upstream.name, reason=str(error)))
            else:
                return True
        return False

    def _flush(self) -> None:
        try:
            for _ in range(len(self._waiting)):
                tx_hash = self._waiting.popleft()
                if not self._hand_on(tx_hash):
                    self._waiting.appendleft(tx_hash)
                    return
        except IndexError:  # emptied by a full deque's other end
            return
        finally:
            self._is_flushing.release()

    def _hand_on(self, tx_hash: bytes) -> bool:
        """False if it has to wait longer."""
        tx_json = self._pool.tx_json(tx_hash) if self._pool.is_waiting(tx_hash) else None
        if tx_json is None:
            return True
        try:
            return self._send(tx_json)
        except UpstreamRejection as rejection:
            logger.warning(
                "transaction refused upstream", extra=fields(tx="0x" + tx_hash.hex(), reason=rejection.message)
            )
            self._pool.drop(tx_hash, "refused upstream")
            return True
        except RpcError:
            return True


class FeeRefresher:
    """Keeps ``latest`` at what the followed node says about fees; called after passes, in the ingesting thread."""

    def __init__(self, latest: LatestFees) -> None:
        self.latest = latest
        self._next_at = 0.0
        self.has_fees = False

    def refresh(self, upstream: Upstream) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + FEES_INTERVAL_S
        calls: list[tuple[str, Sequence[Any]]] = [("node_getCurrentMinFees", [])]
        calls += [("node_getPredictedMinFees", [usage.value]) for usage in ManaUsage]
        try:
            current, *predictions = upstream.ask(calls).answers
            predicted: dict[ManaUsage, Sequence[GasFees]] = {
                usage: [GasFees.from_json(item, "fees") for item in answer]
                for usage, answer in zip(ManaUsage, predictions, strict=True)
                if isinstance(answer, list) and answer
            }
            if isinstance(current, dict):
                self.latest.update(GasFees.from_json(current, "fees"), predicted)
                self.has_fees = True
        except UpstreamUnavailable:
            return
        except (UpstreamError, DecodeError) as error:
            logger.warning("fees not understood", extra=fields(upstream=upstream.name, reason=str(error)))
