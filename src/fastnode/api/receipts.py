"""Receipts and effects of transactions, in the forms of both releases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

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
_UNKNOWN: Final = forms.Fate("dropped", _DROPPED, is_unknown=True)
#: The receipt of such a one, before and behind its hash: as it is in the release's set, and marked.
_UNKNOWN_RECEIPTS: Final = tuple(
    forms.write_unmined_receipt(forms.Unmined(bytes(32), _UNKNOWN, is_marked)).split(encode.to_hex(bytes(32)))
    for is_marked in (False, True)
)
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

        on_loop: Callable[..., bytes | None]
        in_thread: Callable[..., bytes | None]
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
        return not self._known.is_pending(tx_hash)

    def _noted(self, unmined: Callable[[View, bytes], bytes]) -> Callable[[View, bytes], bytes]:
        def read(view: View, tx_hash: bytes) -> bytes:
            mined = view.chain.tx_receipt_json(tx_hash)
            if mined is None:
                return unmined(view, tx_hash)
            logs = None if self._notes is None else self._notes.debug_logs_json(tx_hash)
            return mined if logs is None else forms.with_member(mined, forms.DEBUG_LOGS, logs)

        return read

    def _unmined(self, tx_hash: bytes, *, is_marked: bool) -> bytes:
        """Receipt of a transaction outside the view's blocks."""
        fate = self._fate_of(tx_hash)
        # Fast path. If: nobody knows it.  Then: all but the hash has been written before.
        if fate is _UNKNOWN:
            before, after = _UNKNOWN_RECEIPTS[is_marked]
            return b"%b%b%b" % (before, encode.to_hex(tx_hash), after)
        return forms.write_unmined_receipt(forms.Unmined(tx_hash, fate, is_marked))

    def _fate_of(self, tx_hash: bytes) -> forms.Fate:
        """The pool has a transaction until its block is final."""
        known = self._known
        if known.is_pending(tx_hash):
            return forms.Fate("pending", known.waiting_reason(tx_hash))
        reason = None if self._notes is None else self._notes.dropped_reason(tx_hash)
        if reason is None and known.ask_fleet is not None:
            # Also of one that has left this pool: the fleet hands on what only had to make room.
            try:
                standing = known.ask_fleet(tx_hash)
            except (UpstreamError, Refused):
                standing = None  # all that can be said is what is known here
            if standing is not None and standing.is_pending:
                return forms.Fate("pending", standing.reason)
            if known.is_pending(tx_hash):  # it has come while the fleet was asked
                return forms.Fate("pending", known.waiting_reason(tx_hash))
            reason = known.departure_of(tx_hash)
            if reason is None and standing is not None:
                reason = standing.reason
        elif reason is None:
            reason = known.departure_of(tx_hash)
        if reason is None:
            return _UNKNOWN
        return forms.Fate("dropped", f"{_DROPPED}: {reason}" if reason else _DROPPED)

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
        fate = self._fate_of(tx_hash)
        if fate.status == "dropped":
            return forms.write_dropped_receipt(forms.Unmined(tx_hash, fate))
        tx = self._known.tx_json(tx_hash) if "includePendingTx" in options else None
        if tx is not None and "includeProof" not in options:
            tx = without_proof(tx)
        return forms.write_pending_receipt(forms.Unmined(tx_hash, fate, tx_json=tx))

    def _mined_in_five(
        self, chain: ChainView, tx_hash: bytes, transaction: StoredTransaction, options: frozenset[str]
    ) -> bytes:
        number, index = transaction.block_number, transaction.index_in_block
        return forms.write_mined_receipt(
            forms.Receipt(
                tx_hash,
                chain.block_status(number),
                transaction,
                stored_info(chain, number).slot_number,
                chain.effect_json(number, index) if "includeTxEffect" in options else None,
                None if self._notes is None else self._notes.debug_logs_json(tx_hash),
            )
        )


def effect_in_five(view: View, tx_hash: bytes) -> bytes | None:
    """IndexedTxEffect of release 5.x, which has the slot."""
    chain = view.chain
    location = chain.tx_location(tx_hash)
    text = block_text.mined(forms.INDEXED_EFFECT, tx_hash, chain.blocks)
    if location is None or text is None:
        return None
    slot = stored_info(chain, location.block_number).slot_number
    return forms.with_member(text, forms.SLOT_NUMBER, b"%d" % slot)
