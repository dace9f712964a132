"""Requests to upstreams: transactions to forward, and questions that only a full node can answer.

The first healthy upstream is asked, then the next.  A transaction that none of them took because none
answered is kept by mempool/handover.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Final

import orjson

from fastnode.errors import (
    DecodeError,
    Refused,
    UpstreamError,
    UpstreamRejection,
    UpstreamUnavailable,
    UpstreamUndecided,
    UpstreamVerdict,
)
from fastnode.fees.sources import LatestFees
from fastnode.log import log_facts
from fastnode.mempool.handover import NO_UPSTREAM, Given, Handover
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.header import GasFees
from fastnode.protocol.tx import Tx
from fastnode.sources.upstreams import Upstream, Upstreams

__all__ = ["FeeRefresher", "HandoverPass", "UpstreamPublicSimulator", "UpstreamQuestions", "UpstreamTxSink"]

logger = logging.getLogger(__name__)

#: Questions under way at a time: a slow upstream must not take all threads of the server.
QUESTIONS_MAX: Final = 4
#: Answers of different questions that are kept for a moment.
CACHED_ANSWERS_MAX: Final = 256
#: Fees are asked for at most this often.
FEES_INTERVAL_S: Final = 1.0


def as_rpc_error(rejection: UpstreamRejection) -> Refused:
    """The other node's reason and data under our code: its own codes are not standard ones."""
    data = rejection.data
    if data is None:
        data = {"code": "UPSTREAM_REJECTED", "upstreamCode": rejection.code}
    return Refused(rejection.message, data=data)


class UpstreamQuestions:
    """Asks on behalf of clients.  Usable from worker threads."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._answers: dict[bytes, tuple[float, Any]] = {}
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(QUESTIONS_MAX)

    def ask(self, method: str, parameters: Sequence[Any]) -> Any:
        """The result, None for nothing found.  Refused with the other node's reason, or when none answers."""
        if not self._turns.acquire(blocking=False):
            raise Refused(f"{QUESTIONS_MAX} questions to other nodes are under way; try again later")
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
                logger.info(
                    "question not answered", extra=log_facts(method=method, upstream=upstream.name, reason=str(error))
                )
        raise Refused(NO_UPSTREAM, data={"code": "NO_UPSTREAM"})

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

    def __init__(self, questions: UpstreamQuestions) -> None:
        self._questions = questions

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        answer = self._questions.ask(
            "node_simulatePublicCalls", [orjson.Fragment(tx.to_json_bytes()), skip_fee_enforcement]
        )
        return orjson.dumps(answer)


class UpstreamTxSink:
    """The first healthy upstream that takes a transaction.  A ``TxSink``.

    An upstream refuses too what a block has that this node has not seen yet: its nullifiers exist there.  Such a one
    has been taken, and waits here for that block.
    """

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams

    def forward(self, tx_json: bytes, _is_wanted: Callable[[], bool] = lambda: True, /) -> bool:
        return self.give(tx_json) is not Given.UNTAKEN

    def give(self, tx_json: bytes) -> Given:
        """Refused with the upstream's own code, text and data when it refuses what no upstream has: its verdict is the
        sender's answer.  UpstreamUndecided when it refuses, none says that it has it, and one does not answer."""
        for upstream in self._upstreams.healthy():
            try:
                upstream.call("node_sendTx", orjson.Fragment(tx_json))
            except UpstreamRejection as rejection:
                if self._is_known(orjson.loads(tx_json)["txHash"], upstream, rejection):
                    return Given.KNOWN
                raise UpstreamVerdict(rejection.message, data=rejection.data, code=rejection.code) from rejection
            except UpstreamError as error:
                logger.warning("transaction not handed on", extra=log_facts(upstream=upstream.name, reason=str(error)))
            else:
                return Given.TAKEN
        return Given.UNTAKEN

    def _is_known(self, tx_hash: str, refuser: Upstream, rejection: UpstreamRejection) -> bool:
        """True if a healthy upstream has what one refused.  UpstreamUndecided."""
        silent: list[str] = []
        for upstream in (refuser, *(each for each in self._upstreams.healthy() if each is not refuser)):
            try:
                receipt = upstream.call("node_getTxReceipt", tx_hash)
            except UpstreamRejection:
                continue  # it does not tell anybody
            except UpstreamError as error:
                logger.warning("question not answered", extra=log_facts(upstream=upstream.name, reason=str(error)))
                silent.append(upstream.name)
            else:
                if isinstance(receipt, dict) and receipt.get("status") not in (None, "dropped"):
                    return True
        if silent:
            raise UpstreamUndecided(
                f"{refuser.name} refuses a transaction ({rejection.message}), and {' and '.join(silent)} did not say "
                f"whether it is in a block already: it waits here"
            )
        return False


class HandoverPass:
    """After each pass an upstream has just answered: time for the transactions that wait."""

    def __init__(self, handover: Handover, executor: Executor) -> None:
        self._handover = handover
        self._executor = executor

    def on_pass(self, _upstream: Upstream) -> None:
        if self._handover.has_waiting:
            with suppress(RuntimeError):  # the node is stopping
                self._executor.submit(self._flush)

    def _flush(self) -> None:
        try:
            self._handover.flush()
        except Exception:  # /readyz says it too; the next pass tries again
            logger.exception("transactions are not handed on")


class FeeRefresher:
    """Keeps ``latest`` at what the followed node says about fees; called after passes, in the ingesting thread."""

    def __init__(self, latest: LatestFees) -> None:
        self.latest = latest
        self._next_at = 0.0
        #: Reason why the newest answer could not be used; None if it could.
        self.trouble: str | None = None

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
            self.trouble = None
        except UpstreamUnavailable:
            return
        except (UpstreamError, DecodeError) as error:
            self.trouble = f"the fees that {upstream.name} names are not understood: {error}"
            logger.warning("fees not understood", extra=log_facts(upstream=upstream.name, reason=str(error)))
