"""The methods of the mempool: sending, checking and finding transactions, and what gas costs.

Everything that decodes a transaction runs in a thread: its hash alone takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson

from fastnode import interpreter
from fastnode.api.tx_json import without_proof
from fastnode.errors import DecodeError, InvalidParams, ServerError
from fastnode.fees.sources import ChainFees, FeeSource
from fastnode.jsonrpc.methods import Context, Method, Parameter, Signature, common
from fastnode.mempool.pool import NOT_READY, TxPool
from fastnode.mempool.service import Mempool
from fastnode.protocol.fees import ManaUsage
from fastnode.protocol.header import GasFees
from fastnode.protocol.tx import Tx
from fastnode.values.arrays import ArrayOf
from fastnode.values.choices import Choice, Options
from fastnode.values.field_elements import TX_HASH
from fastnode.values.numbers import Number
from fastnode.values.schemas import Schema, reference
from fastnode.values.value_type import ValueType
from fastnode.view import View

__all__ = ["TX", "decode_tx", "methods"]

#: Transactions in one answer, when a client says how many.
TXS_MAX: Final = 50
#: An answer of more transactions than this is put together in a thread: each has some 200 KB.
TXS_ON_LOOP_MAX: Final = 2

_NO_FLAGS: Final[frozenset[str]] = frozenset()


# ---- parameters -------------------------------------------------------------------------------


class TxParameter(ValueType):
    """A transaction.  Only its outermost shape is looked at here; the handler decodes it, in its thread."""

    __slots__ = ()

    name = "Tx"
    expects = "a transaction (an object)"

    def from_json(self, value: object) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise self.refuse(value)

    def schema(self) -> Schema:
        return reference("Tx")


class PendingLimit(Number):
    """Number of pending transactions: fractions are rounded down, as in the reference."""

    __slots__ = ()

    def from_json(self, value: object) -> int:
        return int(Number.from_json(self, value))


TX: Final = TxParameter()
TX_VALIDATION_OPTIONS: Final = Options("TxValidationOptions", ("isSimulation", "skipFeeEnforcement"))
TX_OPTIONS: Final = Options("GetTxByHashOptions", ("includeProof",))
MANA_USAGE: Final = Choice(tuple(ManaUsage), name="ManaUsageEstimate")


def decode_tx(context: Context, value: dict[str, Any]) -> Tx:
    """A transaction of the chain's release.  InvalidParams names what makes it no transaction."""
    release = context.view.chain.chain.release
    try:
        with interpreter.BUSY:
            return Tx.from_json(value, release)
    except DecodeError as error:
        raise InvalidParams(f"Invalid params: tx (parameter 1) is no transaction: {error}") from None


def _are_many(arguments: Sequence[Any]) -> bool:
    first = arguments[0]
    count = TXS_MAX if first is None else len(first) if isinstance(first, tuple) else first
    return bool(count > TXS_ON_LOOP_MAX)


def _client_of(context: Context) -> str:
    """The asking party: the charged client, else the group that its address belongs to; empty without an address."""
    if context.client is not None:
        return context.client.name
    network = context.allowance.party.network
    return "" if network is None else network.hex()


# ---- handlers -----------------------------------------------------------------------------------


class TxMethods:
    """The handlers over one mempool; without one each of them says so."""

    def __init__(self, mempool: Mempool | None, fees: FeeSource) -> None:
        self._given = mempool
        self._fees = fees

    @property
    def _mempool(self) -> Mempool:
        if self._given is None:
            raise ServerError(NOT_READY)
        return self._given

    @property
    def _pool(self) -> TxPool:
        return self._mempool.pool

    def send(self, context: Context, value: dict[str, Any]) -> None:
        """Accepted, already there, or no longer includable: all of them are success without a result."""
        if context.view.chain.chain.release.limitation is not None:
            self._mempool.require_open()  # before the work: none may be taken here, whatever it is
        self._mempool.send(decode_tx(context, value), context.view, client=_client_of(context))

    def is_valid(self, context: Context, value: dict[str, Any], options: frozenset[str] | None) -> bytes:
        flags = options or _NO_FLAGS
        result = self._mempool.validate(
            decode_tx(context, value),
            context.view,
            is_simulation="isSimulation" in flags,
            skip_fee_enforcement="skipFeeEnforcement" in flags,
            client=_client_of(context),
        )
        return result.to_json_bytes()

    def get(self, context: Context, tx_hash: bytes, options: frozenset[str] | None = None) -> bytes | None:
        return self._reader(context, options)(tx_hash)

    def get_many(
        self, context: Context, tx_hashes: Sequence[bytes], options: frozenset[str] | None = None
    ) -> Iterator[bytes | None]:
        return map(self._reader(context, options), tx_hashes)

    def pending(
        self, context: Context, limit: int | None, after: bytes | None, options: frozenset[str] | None = None
    ) -> Iterator[bytes | None]:
        hashes = self._pool.pending_hashes(limit=limit, after=after)
        return map(self._reader(context, options), hashes)

    def _reader(self, context: Context, options: frozenset[str] | None) -> Callable[[bytes], bytes | None]:
        """Source of the transactions of the pool: as they are stored, but in 5.x without their proofs if those are not
        asked for."""
        read = self._pool.tx_json
        if not context.is_five_or_later or "includeProof" in (options or _NO_FLAGS):
            return read

        def read_without_proof(tx_hash: bytes) -> bytes | None:
            tx = read(tx_hash)
            return None if tx is None else without_proof(tx)

        return read_without_proof

    def pending_count(self, _context: Context) -> bytes:
        return b"%d" % self._pool.pending_count

    def max_priority_fees(self, _context: Context) -> bytes:
        best = self._pool.best()
        return _fees_json(GasFees(0, 0) if best is None else best.max_priority_fees)

    def current_fees(self, view: View) -> bytes:
        return _fees_json(self._fees.current(view))

    def predicted_fees(self, context: Context, usage: str | None) -> bytes | None:
        predicted = self._fees.predicted(context.view, ManaUsage(usage or ManaUsage.TARGET))
        return None if predicted is None else b"[" + b",".join([_fees_json(fees) for fees in predicted]) + b"]"


def _fees_json(fees: GasFees) -> bytes:
    return orjson.dumps(fees.to_json())


# ---- table ---------------------------------------------------------------------------------------


def methods(mempool: Mempool | None, fees: FeeSource | None = None) -> list[Method]:
    """All methods of the mempool and of prices, but for node_getTxReceipt, which api/chain.py answers with the pool's
    help."""
    handlers = TxMethods(mempool, fees or ChainFees())
    tx = Parameter("tx", TX)
    tx_hash = Parameter("txHash", TX_HASH)
    tx_hashes = Parameter("txHashes", ArrayOf(TX_HASH, TXS_MAX))
    page = (
        Parameter("limit", PendingLimit(1, TXS_MAX, name="number"), optional=True),
        Parameter("after", TX_HASH, optional=True),
    )
    with_proof = Parameter("options", TX_OPTIONS, optional=True)
    return [
        Method(
            name="node_sendTx",
            summary="Submit a transaction. An answer without an error means that it is kept or was known.",
            handler=handlers.send,
            in_thread=True,
            waits=True,
            **common("void", tx, may_be_absent=True),
        ),
        Method(
            name="node_isValidTx",
            summary="Whether a transaction could be in the next block, with every reason why not.",
            handler=handlers.is_valid,
            in_thread=True,
            waits=True,
            **common("TxValidationResult", tx, Parameter("options", TX_VALIDATION_OPTIONS, optional=True)),
        ),
        Method(
            name="node_getTxByHash",
            summary="A transaction that waits, or is mined but not yet final.",
            handler=handlers.get,
            five=Signature("Tx", (tx_hash, with_proof), may_be_absent=True),
            **common("Tx", tx_hash, may_be_absent=True),
        ),
        Method(
            name="node_getTxsByHash",
            summary="The transactions of these hashes that wait, or are mined but not yet final.",
            handler=handlers.get_many,
            in_thread=_are_many,
            five=Signature("Tx[]", (tx_hashes, with_proof)),
            **common("Tx[]", tx_hashes),
        ),
        Method(
            name="node_getPendingTxs",
            summary="Pending transactions by falling priority, after the one named.",
            handler=handlers.pending,
            in_thread=_are_many,
            five=Signature("Tx[]", (*page, with_proof)),
            **common("Tx[]", *page),
        ),
        Method(
            name="node_getPendingTxCount",
            summary="How many transactions are pending.",
            handler=handlers.pending_count,
            **common("number"),
        ),
        Method(
            name="node_getMaxPriorityFees",
            summary="What the pending transaction of the highest priority offers beside the minimum.",
            handler=handlers.max_priority_fees,
            **common("GasFees"),
        ),
        Method(
            name="node_getCurrentMinFees",
            summary="What a unit of gas costs at least now.",
            read=handlers.current_fees,
            shape=b"",
            **common("GasFees"),
        ),
        Method(
            name="node_getPredictedMinFees",
            summary="What a unit of gas will cost at least in the next slots.",
            handler=handlers.predicted_fees,
            development=Signature(
                "GasFees[]", (Parameter("manaUsage", MANA_USAGE, optional=True),), may_be_absent=True
            ),
        ),
    ]
