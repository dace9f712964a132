"""Answers of a local network about itself, its clock, and of the transactions that it has executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from fastnode.jsonrpc.methods import Context
from fastnode.kernels import encode

if TYPE_CHECKING:
    from fastnode.local_network.network import LocalNetwork
    from fastnode.log_index.function_names import FunctionNames
    from fastnode.public_execution.tracer import Tracer

__all__ = ["About", "text_of"]


def text_of(value: bytes) -> str:
    return encode.to_hex(value).decode()


class About:
    """Handlers that read; only the names of functions can be added to.

    ``tracer`` executes transactions again whose failure is not in memory; None: their failure is unknown.
    """

    def __init__(self, network: LocalNetwork, names: FunctionNames, tracer: Tracer | None = None) -> None:
        self._network = network
        self._names = names
        self._tracer = tracer

    def node_info(self, _context: Context) -> bytes:
        network, chain = self._network, self._network.view.chain
        info = chain.block_info(chain.tip_number)
        assert info is not None
        return orjson.dumps(
            {
                "currentBlockNumber": info.number,
                "currentBlockTimestamp": info.timestamp,
                "currentBlockHash": text_of(info.hash),
                "nextBlockTimestamp": network.clock.next_timestamp(),
                "clockOffset": network.clock.time.offset,
                "automine": network.is_automining,
                "intervalMining": network.interval_s,
                "coinbase": text_of(network.miner.coinbase),
                "minFee": str(network.fees.current().fee_per_l2_gas),
                "finalityLag": network.options.finality_lag,
                "pendingTxs": network.mempool.pool.pending_count,
                "snapshots": [f"0x{snapshot.number:x}" for snapshot in network.kept.snapshots],
                "openMessages": len(network.kept.messages),
            }
        )

    def failure(self, context: Context, tx_hash: bytes) -> bytes | None:
        stored = self._network.notes.failure_json(tx_hash)
        failure = self._traced_failure(context, tx_hash) if stored is None else orjson.loads(stored)
        if failure is None:
            return None
        return orjson.dumps(failure | {"functionErrorStack": self._named(failure["functionErrorStack"])})

    def _traced_failure(self, context: Context, tx_hash: bytes) -> dict[str, Any] | None:
        """Return the failure of a transaction without notes, mined before the node started, from its trace."""
        if self._tracer is None:
            return None
        return self._tracer.failure_of(context.view, tx_hash, context.allowance.party)

    def calls(self, _context: Context, tx_hash: bytes) -> bytes | None:
        stored = self._network.notes.calls_json(tx_hash)
        return None if stored is None else orjson.dumps(self._named(orjson.loads(stored)))

    def _named(self, frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """With the names of the functions that wallets have registered."""
        for frame in frames:
            selector = frame.get("functionSelector")
            name = None if selector is None else self._names.name_of(encode.from_hex(selector))
            if name is not None:
                frame["functionName"] = name
        return frames

    def register(self, _context: Context, signatures: Sequence[str]) -> None:
        for signature in signatures:
            self._names.register(signature)
