"""Nodes of L1: what is asked of them, and in which batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final

from fastnode.errors import (
    DecodeError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamRateLimited,
    UpstreamRejection,
    UpstreamUnavailable,
)
from fastnode.outgoing.client import ClientLimits, Reply, RpcCall
from fastnode.outgoing.failover import Endpoint, Failover, begin_probe
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.outgoing.provider_limits import HELD_MAX_S, ProviderLimits, named_in
from fastnode.records import dataclass
from fastnode.sources.l1.abi import ADDRESS_BYTES, Argument, Function, from_quantity, hex_data, quantity, words_of

__all__ = ["L1Block", "L1Client", "L1Endpoint", "block_call", "contract_call", "is_revert"]

#: Refusals of one call for the rate of calls, in a row, before the endpoint counts as unavailable.
_RATE_REFUSALS_MAX: Final = 3
#: JSON-RPC error code of a call that a contract refused.
_REVERTED_CODE: Final = 3


@dataclass(frozen=True, slots=True)
class L1Block:
    """``timestamp`` in seconds since 1970; ``beacon_root``: of the consensus block before, where there is one."""

    number: int
    hash: bytes
    parent_hash: bytes
    timestamp: int
    beacon_root: bytes | None = field(default=None, compare=False)

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
            _beacon_root(value.get("parentBeaconBlockRoot")),
        )


class L1Endpoint(Endpoint):
    """One URL.  Usable from any thread.  ``expected_chain_id``: what it must be a node of; None: any chain will do."""

    kind: ClassVar[str] = "L1 node"
    counts_calls: ClassVar[bool] = True

    def __init__(
        self,
        url: str,
        network: Network,
        name: str,
        *,
        expected_chain_id: Callable[[], int | None] = lambda: None,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
        provider_limits: ProviderLimits | None = None,
    ) -> None:
        super().__init__(url, network, name, limits=limits, patience=patience, provider_limits=provider_limits)
        self._expected_chain_id = expected_chain_id
        #: True if its own chain id is another one than expected.
        self.is_of_other_chain = False
        #: Counts so far: requests, the calls in them, bytes of its answers.
        self.request_count = self.call_count = self.byte_count = 0

    def identify(self) -> None:
        """UpstreamFault when it is a node of another chain."""
        chain_id = from_quantity(self.results([("eth_chainId", [])])[0], "eth_chainId")
        expected = self._expected_chain_id()
        self.is_of_other_chain = expected is not None and chain_id != expected
        if self.is_of_other_chain:
            raise UpstreamFault(f"it is a node of chain {chain_id}, the rollup is on {expected}")

    # ---- asking ------------------------------------------------------------------------------

    def answers(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Answers in the order of the calls; one that is refused is an UpstreamRejection in its place.

        UpstreamError when there is no answer.
        """
        answers: list[Any] = [None] * len(calls)
        pending, part_max = list(range(len(calls))), len(calls)
        #: Calls of the smallest batch that was refused for its size; 0: none was.
        too_large = refusals = 0
        while pending:
            part = pending[: min(part_max, self.provider_limits.batch_calls)]
            try:
                reply = self._ask_part([calls[index] for index in part])
            except UpstreamRateLimited as error:
                refusals += 1
                is_hopeless = len(part) == 1 and refusals >= _RATE_REFUSALS_MAX
                if is_hopeless:
                    self.provider_limits.doubt_log_blocks()
                if is_hopeless or (error.retry_after_s or 0.0) > HELD_MAX_S:
                    self.on_error(error)
                    raise
                part_max = max(1, len(part) // 2)
                continue
            except UpstreamUnavailable as error:
                self.on_error(error)
                raise
            except UpstreamForbidden:
                raise
            except (UpstreamRejection, UpstreamFault) as error:
                if len(part) == 1:
                    raise
                # Many providers limit the calls of a batch, each with its own number and its own way to say so.
                too_large, part_max = len(part), named_in(error, len(part)) or len(part) // 2
                self.provider_limits.note_refused(len(part))
                continue
            if too_large:
                self.provider_limits.refuse_batch(too_large, len(part))
            else:
                self.provider_limits.grant_batch(len(part))
            too_large, part_max = 0, len(calls)
            for index, answer in zip(part, reply.answers, strict=True):
                answers[index] = answer
            refused = [index for index in part if self.provider_limits.is_rate_refusal(answers[index], calls[index])]
            pending = refused + pending[len(part) :]
            refusals = 0 if len(refused) < len(part) else refusals
        return answers

    def _ask_part(self, calls: Sequence[RpcCall]) -> Reply:
        self.request_count += 1
        self.call_count += len(calls)
        reply = self.ask_within_limits(calls)
        self.byte_count += reply.byte_count
        return reply

    def results(self, calls: Sequence[RpcCall]) -> list[Any]:
        """As :meth:`answers`; the first refused call is raised."""
        answers = self.answers(calls)
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

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        reason = self.health.reason or None
        return {
            "name": self.name,
            "ok": reason is None,
            "reason": reason,
            "requests": self.request_count,
            "calls": self.call_count,
            "bytes": self.byte_count,
            "waits": self.health.pause_count,
            "waitedSeconds": round(self.health.paused_s, 1),
            **self.provider_limits.describe(),
        }

    def _log_facts(self) -> dict[str, Any]:
        return {"l1": self.name, "url": self._url_shown}


class L1Client(Failover[L1Endpoint]):
    """All endpoints, in the order of preference.

    A piece of work (:meth:`run`) is done with one of them from its first question to its last, as two nodes may be at
    different blocks.
    """

    def __init__(
        self,
        urls: Sequence[str],
        network: Network,
        *,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
        calls_per_second: float | None = None,
        batch_calls: int | None = None,
    ) -> None:
        #: An endpoint of another chain is put aside; None before the chain is known.
        self.expected_chain_id: int | None = None
        super().__init__(
            [
                L1Endpoint(
                    url,
                    network,
                    f"L1 node {number}",
                    expected_chain_id=lambda: self.expected_chain_id,
                    limits=limits,
                    patience=patience,
                    provider_limits=ProviderLimits(calls_per_second=calls_per_second, batch_calls=batch_calls),
                )
                for number, url in enumerate(urls, 1)
            ],
            begin_probe,
        )


def _beacon_root(value: object) -> bytes | None:
    words = () if value is None else words_of(value, "L1 block.parentBeaconBlockRoot")
    return words[0] if len(words) == 1 else None


def is_revert(rejection: UpstreamRejection) -> bool:
    """True if the contract has refused the call, and not the node."""
    return rejection.code == _REVERTED_CODE or "revert" in rejection.message.lower()


def block_call(tag: str | int) -> RpcCall:
    return "eth_getBlockByNumber", [quantity(tag) if isinstance(tag, int) else tag, False]


def contract_call(contract: bytes, function: Function, *arguments: Argument, block: str | int = "latest") -> RpcCall:
    assert len(contract) == ADDRESS_BYTES
    tag = quantity(block) if isinstance(block, int) else block
    return "eth_call", [{"to": hex_data(contract), "data": function.encode(*arguments)}, tag]
