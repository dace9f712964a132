"""Nodes of L1: which of several URLs answers, and why the others do not.

The order of the URLs is an order of preference.  A piece of work (:meth:`L1Client.run`) is done with one of them from
its first question to its last, as two nodes may be at different blocks; if that one fails, it is done again with
the next.  One that gives no answer rests for a growing while, one whose answers make no sense for longer.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastnode.errors import DecodeError, UpstreamError, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.log import fields
from fastnode.outgoing.client import ClientLimits, RpcCall, RpcClient
from fastnode.outgoing.network import NetworkThread
from fastnode.outgoing.upstreams import Patience, without_secrets
from fastnode.sources.l1.abi import ADDRESS_BYTES, Argument, Function, from_quantity, hex_data, quantity, words_of

__all__ = ["L1Block", "L1Client", "L1Endpoint", "block_call", "contract_call"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Calls in one request.  Providers allow between 10 and 1000; one that refuses so many gets half.
BATCH_CALLS_MAX: Final = 50
DOUBLINGS_MAX: Final = 16
#: By which a provider says: too fast.  The code -32005 alone may as well mean: too much at once.
_TOO_FAST_CODES: Final = frozenset({-32016, 429})
_TOO_FAST_WORDS: Final = ("rate limit", "too many requests", "rate-limit", "compute units per second")


@dataclass(frozen=True, slots=True)
class L1Block:
    """``timestamp`` in seconds since 1970."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: int

    @classmethod
    def from_json(cls, value: object) -> L1Block:
        if not isinstance(value, dict):
            raise DecodeError("L1 block: no record")
        hashes = [words_of(value.get(key), f"L1 block.{key}") for key in ("hash", "parentHash")]
        if any(len(words) != 1 for words in hashes):
            raise DecodeError("L1 block: a hash is not 32 bytes long")
        return cls(
            from_quantity(value.get("number"), "L1 block.number"),
            hashes[0][0],
            hashes[1][0],
            from_quantity(value.get("timestamp"), "L1 block.timestamp"),
        )


class L1Endpoint:
    """One URL.  Usable from any thread.  ``name`` stands for it wherever clients can look."""

    def __init__(self, url: str, network: NetworkThread, name: str, limits: ClientLimits, patience: Patience) -> None:
        self.name = name
        self._url_shown = without_secrets(url)
        self._network = network
        self._client = RpcClient(url, network, limits)
        self._patience = patience
        self._lock = threading.Lock()
        self._failures = 0
        self._batch_calls = BATCH_CALLS_MAX
        #: On the clock of ``time.monotonic``.
        self.usable_at = 0.0
        #: Why it is not asked; None if it is.
        self.reason: str | None = None
        #: None until it has said it.
        self.chain_id: int | None = None

    # ---- asking ------------------------------------------------------------------------------

    def ask(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Answers in the order of the calls; one that is refused is an UpstreamRejection in its place.

        UpstreamError when there is no answer.
        """
        answers: list[Any] = []
        while len(answers) < len(calls):
            part = calls[len(answers) : len(answers) + self._batch_calls]
            try:
                answers += self._client.ask(part).answers
            except (UpstreamRejection, UpstreamFault) as error:
                if isinstance(error, UpstreamRejection) and _is_too_fast(error):
                    raise UpstreamUnavailable(f"it limits requests: {error.message}") from error
                if len(part) == 1:
                    raise
                # Many providers count the calls of a batch, each with its own limit and its own way to say so.
                self._batch_calls = len(part) // 2
        for answer in answers:
            if isinstance(answer, UpstreamRejection) and _is_too_fast(answer):
                raise UpstreamUnavailable(f"it limits requests: {answer.message}")
        return answers

    def results(self, calls: Sequence[RpcCall]) -> list[Any]:
        """As :meth:`ask`; the first refused call is raised."""
        answers = self.ask(calls)
        for answer in answers:
            if isinstance(answer, UpstreamRejection):
                raise answer
        return answers

    def block(self, tag: str | int) -> L1Block | None:
        """A block by its number or tag (``latest``, ``finalized``)."""
        answer = self.results([block_call(tag)])[0]
        return None if answer is None else L1Block.from_json(answer)

    def read(self, contract: bytes, function: Function, *arguments: Argument, block: str | int = "latest") -> Any:
        """All outputs of one function; UpstreamRejection when it reverts."""
        answer = self.results([contract_call(contract, function, *arguments, block=block)])[0]
        return function.decode(answer)

    # ---- health ------------------------------------------------------------------------------

    def on_answer(self) -> None:
        """It was of use."""
        if self.reason is not None:
            logger.info("L1 answers", extra=fields(l1=self.name, url=self._url_shown))
        with self._lock:
            self._failures, self.usable_at, self.reason = 0, 0.0, None

    def on_failure(self, error: UpstreamError | DecodeError) -> None:
        """It was not."""
        if self._network.is_closed:
            return
        patience = self._patience
        # What it refuses now it may grant later; what makes no sense will not soon.
        is_away = isinstance(error, UpstreamUnavailable | UpstreamRejection)
        shortest = patience.unavailable_s if is_away else patience.aside_s
        longest = patience.unavailable_max_s if is_away else patience.aside_max_s
        with self._lock:
            pause = min(shortest * 2 ** min(self._failures, DOUBLINGS_MAX), longest) * random.uniform(0.5, 1.5)
            if isinstance(error, UpstreamUnavailable) and error.retry_after_s is not None:
                pause = max(pause, min(error.retry_after_s, patience.retry_after_max_s))
            self._failures += 1
            self.usable_at = time.monotonic() + pause
            is_news = self.reason != str(error)
            self.reason = str(error)
            # It may be another node behind the same name when it is back.
            self.chain_id = None
        if is_news:
            facts = fields(l1=self.name, url=self._url_shown, reason=str(error), seconds=round(pause, 1))
            logger.warning("L1 does not answer" if is_away else "L1 node put aside", extra=facts)

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return {"name": self.name, "ok": self.reason is None, "reason": self.reason}


class L1Client:
    """All endpoints.  ``expected_chain_id``: an endpoint of another chain is put aside."""

    def __init__(
        self,
        urls: Sequence[str],
        network: NetworkThread,
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.endpoints = tuple(
            L1Endpoint(url, network, f"L1 node {number}", limits or ClientLimits(), patience or Patience())
            for number, url in enumerate(urls, 1)
        )
        self.expected_chain_id: int | None = None

    def run(self, work: Callable[[L1Endpoint], T]) -> T:
        """The result of ``work`` with the first endpoint that can do it.

        UpstreamUnavailable says why none can.  What else ``work`` raises goes to the caller.
        """
        for endpoint in self._usable():
            try:
                self._identify(endpoint)
                result = work(endpoint)
            except (UpstreamError, DecodeError) as error:
                endpoint.on_failure(error)
            else:
                endpoint.on_answer()
                return result
        raise UpstreamUnavailable(self.reasons() or "no L1 node is configured")

    def reasons(self) -> str:
        """Why each of those that are not asked is not."""
        return "; ".join(f"{item.name}: {item.reason}" for item in self.endpoints if item.reason)

    def seconds_until_usable(self) -> float:
        return max(0.0, min(item.usable_at for item in self.endpoints) - time.monotonic())

    def _usable(self) -> Iterator[L1Endpoint]:
        for endpoint in self.endpoints:
            if endpoint.usable_at <= time.monotonic():
                yield endpoint

    def _identify(self, endpoint: L1Endpoint) -> None:
        if endpoint.chain_id is None:
            endpoint.chain_id = from_quantity(endpoint.results([("eth_chainId", [])])[0], "eth_chainId")
        if self.expected_chain_id is not None and endpoint.chain_id != self.expected_chain_id:
            raise UpstreamFault(f"it is a node of chain {endpoint.chain_id}, the rollup is on {self.expected_chain_id}")


def _is_too_fast(rejection: UpstreamRejection) -> bool:
    text = rejection.message.lower()
    return rejection.code in _TOO_FAST_CODES or any(words in text for words in _TOO_FAST_WORDS)


def block_call(tag: str | int) -> RpcCall:
    return "eth_getBlockByNumber", [quantity(tag) if isinstance(tag, int) else tag, False]


def contract_call(contract: bytes, function: Function, *arguments: Argument, block: str | int = "latest") -> RpcCall:
    assert len(contract) == ADDRESS_BYTES
    tag = quantity(block) if isinstance(block, int) else block
    return "eth_call", [{"to": hex_data(contract), "data": function.encode(*arguments)}, tag]
