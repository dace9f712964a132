"""Receipts and effects of transactions, in the forms of both releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import orjson

from fastnode.api.tx_json import without_proof
from fastnode.archiver import forms
from fastnode.archiver.queries import stored_info
from fastnode.errors import LeftToStrictPath, Refused, UpstreamError
from fastnode.jsonrpc.methods import Context, MethodSet, Read
from fastnode.kernels import block_text, encode
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import StoredTransaction
    from fastnode.view import View

__all__ = ["NO_TXS", "FleetStanding", "Receipts", "TxKnowledge", "TxNotes", "effect_in_five"]

#: The error of a receipt for a transaction that neither a block nor the pool has.
_DROPPED: Final = "Tx dropped by P2P node"
_NO_OPTIONS: Final[frozenset[str]] = frozenset()


class TxNotes(Protocol):
    """Knowledge of a node that builds blocks about a transaction, in addition to its effect."""

    def debug_logs_json(self, tx_hash: bytes) -> bytes | None:
        """DebugLog[] of its public functions."""

    def dropped_reason(self, tx_hash: bytes) -> str | None:
        """Reason why no block took the transaction."""


class FleetStanding(Protocol):
    """Knowledge of the other nodes of the fleet about a transaction."""

    @property
    def is_pending(self) -> bool:
        """True: it is on its way here."""

    @property
    def reason(self) -> str: ...


#: UpstreamError when the fleet cannot be asked.
AskFleet: TypeAlias = Callable[[bytes], FleetStanding | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TxKnowledge:
    """Knowledge of transactions that no block has, by their 32-byte hashes."""

    #: True for one that the pool has.
    is_pending: Callable[[bytes], bool] = lambda tx_hash: False
    #: Reason why no other node has a transaction that waits.
    waiting_reason: Callable[[bytes], str | None] = lambda tx_hash: None
    #: Reason why one that was here is gone, empty if that is not remembered; None for a hash never seen here.
    departure_of: Callable[[bytes], str | None] = lambda tx_hash: None
    #: JSON of one that the pool has, with its proof.
    tx_json: Callable[[bytes], bytes | None] = lambda tx_hash: None
    #: Asks the other nodes of the fleet, which takes a moment; None: there is no fleet.
    ask_fleet: AskFleet | None = None


NO_TXS: Final = TxKnowledge()


class Receipts:
    """From the chain first, then from the pool, then from the fleet.  A transaction that none of them has
    counts as dropped, as wallets expect it; one that this node has never seen is marked, but for the release's set."""

    def __init__(self, known: TxKnowledge, notes: TxNotes | None) -> None:
        self._known = known
        self._notes = notes

    @property
    def reads(self) -> dict[MethodSet, Read]:
        both = self._read(is_marked=True)
        return {"both": both, "development": both, "release": self._read(is_marked=False)}

    def _read(self, *, is_marked: bool) -> Read:
        """The method's: for what is mined, Python is asked only by a node that has something to say about it."""

        def unmined(_view: View, tx_hash: bytes) -> bytes:
            return self._unmined(tx_hash, is_marked=is_marked)

        if self._known.ask_fleet is None:
            return block_text.TxQuestion(forms.MINED_RECEIPT, unmined) if self._notes is None else self._noted(unmined)

        def unmined_on_loop(_view: View, tx_hash: bytes) -> bytes:
            if self.asks_fleet([tx_hash]):
                raise LeftToStrictPath("a transaction that another node may have")
            return self._unmined(tx_hash, is_marked=is_marked)

        on_loop, in_thread = (
            block_text.TxQuestion(forms.MINED_RECEIPT, read) if self._notes is None else self._noted(read)
            for read in (unmined_on_loop, unmined)
        )

        def read(view: View, tx_hash: bytes, *, context: Context | None = None) -> bytes | None:
            return on_loop(view, tx_hash) if context is None else in_thread(view, tx_hash)

        return read

    def asks_fleet(self, arguments: Sequence[Any]) -> bool:
        """True if the fleet would be asked about this hash, unless a block has it."""
        [tx_hash] = arguments
        known = self._known
        return not known.is_pending(tx_hash) and known.departure_of(tx_hash) is None

    def _noted(self, unmined: Callable[[View, bytes], bytes]) -> Read:
        def read(view: View, tx_hash: bytes) -> bytes:
            mined = view.chain.tx_receipt_json(tx_hash)
            if mined is None:
                return unmined(view, tx_hash)
            logs = None if self._notes is None else self._notes.debug_logs_json(tx_hash)
            return mined if logs is None else b'%b,"debugLogs":%b}' % (mined[:-1], logs)

        return read

    def _unmined(self, tx_hash: bytes, *, is_marked: bool) -> bytes:
        """Receipt of a transaction outside the view's blocks."""
        standing = self._standing(tx_hash)
        return _receipt(tx_hash, standing, is_unknown=is_marked and standing.is_unknown)

    def _standing(self, tx_hash: bytes) -> _Standing:
        """The pool has a transaction until its block is final."""
        known = self._known
        if known.is_pending(tx_hash):
            return _Standing("pending", known.waiting_reason(tx_hash))
        reason = None if self._notes is None else self._notes.dropped_reason(tx_hash)
        if reason is None:
            reason = known.departure_of(tx_hash)
        if reason is None and known.ask_fleet is not None:
            try:
                standing = known.ask_fleet(tx_hash)
            except (UpstreamError, Refused):
                standing = None  # not known here: that is all there is to say
            if standing is not None and standing.is_pending:
                return _Standing("pending", standing.reason)
            reason = None if standing is None else standing.reason
        if reason is None:
            return _Standing("dropped", _DROPPED, is_unknown=True)
        return _Standing("dropped", f"{_DROPPED}: {reason}" if reason else _DROPPED)

    # ---- release 5.x -------------------------------------------------------------------------

    def asks_fleet_in_five(self, arguments: Sequence[Any]) -> bool:
        return self.asks_fleet(arguments[:1])

    def read_in_five(
        self, view: View, tx_hash: bytes, options: frozenset[str] | None = None, *, context: Context | None = None
    ) -> bytes:
        """A receipt of one of three kinds: mined, pending or dropped."""
        options = options or _NO_OPTIONS
        transaction = view.chain.transaction(tx_hash)
        if transaction is not None:
            return self._mined_in_five(view.chain, tx_hash, transaction, options)
        if context is None and self._known.ask_fleet is not None and self.asks_fleet([tx_hash]):
            raise LeftToStrictPath("a transaction that another node may have")
        standing = self._standing(tx_hash)
        if standing.status == "dropped":
            return _receipt(tx_hash, standing)
        tx = self._known.tx_json(tx_hash) if "includePendingTx" in options else None
        if tx is not None and "includeProof" not in options:
            tx = without_proof(tx)
        return b'{"txHash":"%b","status":"pending"%b}' % (
            encode.to_hex(tx_hash),
            b"" if tx is None else b',"tx":%b' % tx,
        )

    def _mined_in_five(
        self, chain: ChainView, tx_hash: bytes, transaction: StoredTransaction, options: frozenset[str]
    ) -> bytes:
        number, index = transaction.block_number, transaction.index_in_block
        effect = b',"txEffect":%b' % chain.effect_json(number, index) if "includeTxEffect" in options else b""
        logs = None if self._notes is None else self._notes.debug_logs_json(tx_hash)
        return b'{"txHash":"%b","status":"%b","executionResult":"%b",%b,"slotNumber":%d,"txIndexInBlock":%d%b%b}' % (
            encode.to_hex(tx_hash),
            chain.block_status(number),
            b"reverted" if transaction.revert_code else b"success",
            transaction.receipt_json[:-1],
            stored_info(chain, number).slot_number,
            index,
            effect,
            b"" if logs is None else b',"debugLogs":%b' % logs,
        )


class _Standing(NamedTuple):
    """Fate of a transaction that no block has: ``pending`` or ``dropped``, and why."""

    status: str
    error: str | None
    is_unknown: bool = False


def effect_in_five(view: View, tx_hash: bytes) -> bytes | None:
    """IndexedTxEffect of release 5.x, which has the slot."""
    chain = view.chain
    location = chain.tx_location(tx_hash)
    text = block_text.mined(forms.INDEXED_EFFECT, tx_hash, chain.blocks)
    if location is None or text is None:
        return None
    return b'%b,"slotNumber":%d}' % (text[:-1], stored_info(chain, location.block_number).slot_number)


def _receipt(tx_hash: bytes, standing: _Standing, *, is_unknown: bool = False) -> bytes:
    text = b"" if standing.error is None else b',"error":%b' % orjson.dumps(standing.error)
    mark = b',"unknownHere":true' if is_unknown else b""
    return b'{"txHash":"%b","status":"%b"%b%b}' % (encode.to_hex(tx_hash), standing.status.encode(), text, mark)
