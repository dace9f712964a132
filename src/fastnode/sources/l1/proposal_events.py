"""Events of proposals on the chain that L1 has now, each with its transaction and its block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.errors import DecodeError, UpstreamFault, UpstreamUnavailable
from fastnode.outgoing.client import RpcCall
from fastnode.records import dataclass
from fastnode.sources.l1 import contracts
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.endpoints import L1Block, L1Endpoint, block_call, contract_call
from fastnode.sources.l1.inbox import REORG_BLOCKS
from fastnode.sources.l1.log_ranges import LogRanges
from fastnode.sources.l1.multicall import Read, read_together
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, ProposalLog, ProposedCheckpoint, proposal_log
from fastnode.sources.l1.rollup import RollupFacts
from fastnode.sources.l1.service import L1Reader
from fastnode.sources.l1.state import L1State

__all__ = ["PlacedEvent", "ProposalEvents"]

#: From so many archive roots on they are asked for with one call.
_ROOTS_TOGETHER_MIN: Final = 4


@dataclass(frozen=True, slots=True)
class PlacedEvent:
    """An event with what else L1 says of it; ``transaction`` as ``eth_getTransactionByHash`` gives it."""

    event: ProposedCheckpoint
    transaction: Any
    block: L1Block


class ProposalEvents:
    """``log_blocks``: for how many blocks of L1 logs are asked at first."""

    def __init__(self, reader: L1Reader, log_blocks: int) -> None:
        self._reader = reader
        self._log_blocks = log_blocks
        self._logs: LogRanges | None = None
        #: Everything up to this L1 block was looked at when both chains were the same; None: it may have changed.
        self.settled: L1Block | None = None

    def archive_roots(self, facts: RollupFacts, state: L1State, numbers: Sequence[int]) -> list[bytes]:
        """At the block that was looked at, which must still be there when the answer comes.  UpstreamUnavailable."""
        # Fast path: the newest ones were read together with the block.
        known = [state.archive_after(number) for number in numbers]
        if all(root is not None for root in known):
            return [root for root in known if root is not None]
        at = state.head.number

        def read(endpoint: L1Endpoint) -> list[bytes]:
            roots = _roots_together(endpoint, facts, numbers, at) if len(numbers) >= _ROOTS_TOGETHER_MIN else None
            if roots is None:
                calls = [contract_call(facts.rollup, contracts.ARCHIVE_AT, number, block=at) for number in numbers]
                roots = [contracts.ARCHIVE_AT.decode(answer)[0] for answer in endpoint.results(calls)]
            block = endpoint.results([block_call(at)])[0]
            if block is None or L1Block.from_json(block) != state.head:
                raise UpstreamUnavailable(f"its block {at} has changed while it was asked")
            return roots

        return self._reader.ask(state.head, read)

    def read(self, view: ChainView, facts: RollupFacts, state: L1State, common: int) -> Iterator[list[ProposalLog]]:
        """Piece by piece of L1, in its order, from the events of checkpoint ``common`` on."""
        # Fast path: the event of a single new checkpoint was read when the checkpoint was noticed.
        if state.proposed is not None and state.proposed.number == common + 1:
            yield [state.proposed]
            return
        if self._logs is None:
            self._logs = LogRanges(facts.rollup, CHECKPOINT_PROPOSED, self._log_blocks)
        logs, head = self._logs, state.head
        first = self.first_block(view, facts, common)
        while first <= head.number:
            start = first

            def read(endpoint: L1Endpoint, start: int = start) -> tuple[int, list[dict[str, Any]]]:
                return next(logs.read(endpoint, start, head.number))

            end, found = self._reader.ask(head, read)
            yield [event for event in map(proposal_log, found) if event is not None]
            first = end + 1

    def first_block(self, view: ChainView, facts: RollupFacts, common: int) -> int:
        """The L1 block where the events of what is new begin."""
        newest = view.checkpoint(common)
        if newest is None:
            return facts.deployment_block
        first = int(orjson.loads(newest.l1_json)["blockNumber"])
        return first if self.settled is None else max(first, self.settled.number - REORG_BLOCKS)

    def place(self, facts: RollupFacts, state: L1State, logs: Sequence[ProposalLog]) -> list[PlacedEvent]:
        """Events that are on the chain that L1 has now, in the order of L1.  UpstreamUnavailable."""
        numbers = list(dict.fromkeys(log.number for log in logs))
        roots = dict(zip(numbers, self.archive_roots(facts, state, numbers), strict=True))
        # Logs of what is not on the chain are not decoded: anybody may have put anything there for a moment.
        events = [event for log in logs if log.archive_root == roots[log.number] for event in _decoded(log)]
        if not events:
            return []
        hashes = list(dict.fromkeys(event.tx_hash for event in events))
        calls: list[RpcCall] = [("eth_getTransactionByHash", [item]) for item in hashes]
        known = {state.head.hash: state.head}
        block_hashes = [item for item in dict.fromkeys(event.block_hash for event in events) if item not in known]
        calls += [("eth_getBlockByHash", [hex_data(item), False]) for item in block_hashes]
        if block_hashes:
            calls.append(block_call(state.head.number))

        def read(endpoint: L1Endpoint) -> tuple[list[Any], list[L1Block | None]]:
            answers = endpoint.results(calls)
            blocks = [None if block is None else L1Block.from_json(block) for block in answers[len(hashes) :]]
            for wanted, block in zip(block_hashes, blocks, strict=False):
                if block is not None and block.hash != wanted:
                    raise UpstreamFault(f"asked for L1 block {hex_data(wanted)}, it gave {hex_data(block.hash)}")
            return answers[: len(hashes)], blocks

        answers, found = self._reader.ask(state.head, read)
        if block_hashes:
            self._require_head(state, found.pop())
        transactions = dict(zip(hashes, answers, strict=True))
        blocks = known | {block.hash: block for block in found if block is not None}
        placed = []
        for event in events:
            block, transaction = blocks.get(event.block_hash), transactions[event.tx_hash]
            if block is not None and block.number != event.block_number:
                raise UpstreamUnavailable(f"L1 block {hex_data(block.hash)} has two numbers by what it says")
            if block is None or transaction is None:
                raise UpstreamUnavailable(f"it does not have the transaction of checkpoint {event.number} (yet)")
            if isinstance(transaction, dict) and transaction.get("blockHash") not in (None, hex_data(event.block_hash)):
                raise UpstreamUnavailable(f"the transaction of checkpoint {event.number} is in another block now")
            placed.append(PlacedEvent(event, transaction, block))
        return placed

    def _require_head(self, state: L1State, block: L1Block | None) -> None:
        """UpstreamUnavailable where a reorg has come since the look: events of the new chain would follow checkpoints
        that were seen to stand on the old one."""
        if block != state.head:
            self._reader.doubt()
            raise UpstreamUnavailable(f"its block {state.head.number} has changed while it was asked")


def _decoded(log: ProposalLog) -> tuple[ProposedCheckpoint, ...]:
    """Empty for what no rollup emits."""
    try:
        return (ProposedCheckpoint.from_log(log),)
    except DecodeError:
        return ()


def _roots_together(endpoint: L1Endpoint, facts: RollupFacts, numbers: Sequence[int], at: int) -> list[bytes] | None:
    """None where they cannot be asked for with one call."""
    reads = [Read(contracts.ARCHIVE_AT, (number,), facts.rollup) for number in numbers]
    answers = read_together(endpoint, reads, at)
    if answers is None:
        return None
    roots = [answer[0] for answer in answers if answer is not None]
    return roots if len(roots) == len(numbers) else None
