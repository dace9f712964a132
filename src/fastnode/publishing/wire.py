"""Questions of an account to L1: prices, its nonces, what became of a transaction; and how one is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import DecodeError, NotTaken, UpstreamError, UpstreamRejection, UpstreamUnavailable
from fastnode.publishing.envelope import BlobBundle, SidecarForm, SignedTransaction, sidecar_form_of
from fastnode.publishing.fees import L1Prices, read_prices
from fastnode.publishing.kept import Earlier, InFlight
from fastnode.records import dataclass
from fastnode.sources.l1.abi import from_amount, from_quantity, hex_data
from fastnode.sources.l1.endpoints import L1Block, L1Client, L1Endpoint

__all__ = ["Look", "Wire", "paid", "quantity_of"]

REASON_MAX: Final = 300
_KNOWN_WORDS: Final = ("already known", "already imported", "alreadyknown", "known transaction")
_FORM_WORDS: Final = ("decode", "sidecar", "blob proof", "cell proof", "wrapper", "unexpected blob")
#: After every change of the form that blobs have.
_ANY_TIME: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Look:
    """State of a nonce on L1 now."""

    timestamp: int
    latest_nonce: int
    pending_nonce: int
    is_known: bool
    receipt: dict[str, Any] | None
    #: The transaction of an earlier request that has its nonce, with its receipt.
    earlier: tuple[Earlier, dict[str, Any]] | None = None


class Wire:
    """Questions of one account; usable from any thread."""

    def __init__(self, address: bytes, l1: L1Client, chain_id: int) -> None:
        self._address = hex_data(address)
        self._l1 = l1
        self._chain_id = chain_id
        self._form: SidecarForm | None = None

    def prices(self) -> L1Prices:
        """NotTaken when no L1 node answers."""
        try:
            return self._l1.run(read_prices)
        except UpstreamUnavailable as error:
            raise NotTaken(f"no L1 node answers: {error}") from None

    def look(self, item: InFlight) -> Look:
        """UpstreamUnavailable."""
        hashes = [hex_data(attempt.hash()) for attempt in item.attempts]

        def ask(endpoint: L1Endpoint) -> Look:
            block, latest, pending, *found = endpoint.results(
                [
                    ("eth_getBlockByNumber", ["latest", False]),
                    ("eth_getTransactionCount", [self._address, "latest"]),
                    ("eth_getTransactionCount", [self._address, "pending"]),
                    *(("eth_getTransactionByHash", [each]) for each in hashes),
                ]
            )
            latest_nonce = from_quantity(latest, "nonce")
            receipt, earlier = None, None
            if latest_nonce > item.nonce:
                before = [hex_data(each.signed.hash()) for each in item.earlier]
                receipts = endpoint.results([("eth_getTransactionReceipt", [each]) for each in (*hashes, *before)])
                receipt = next((each for each in receipts[: len(hashes)] if isinstance(each, dict)), None)
                others = zip(item.earlier, receipts[len(hashes) :], strict=True)
                earlier = next(((each, found) for each, found in others if isinstance(found, dict)), None)
            timestamp = L1Block.from_json(block).timestamp
            is_known = any(each is not None for each in found)
            return Look(timestamp, latest_nonce, from_quantity(pending, "nonce"), is_known, receipt, earlier)

        return self._l1.run(ask)

    def knows(self, signed: SignedTransaction) -> bool | None:
        """True if L1 has it, in its pool or in a block; None when no L1 node answers."""
        call = ("eth_getTransactionByHash", [hex_data(signed.hash())])
        try:
            return self._l1.run(lambda endpoint: endpoint.results([call])[0]) is not None
        except UpstreamUnavailable:
            return None

    def nonce(self, tag: str) -> int:
        return self._l1.run(
            lambda endpoint: from_quantity(
                endpoint.results([("eth_getTransactionCount", [self._address, tag])])[0], "nonce"
            )
        )

    def transmit(self, signed: SignedTransaction, bundle: BlobBundle | None) -> None:
        """NotTaken with what the node says; UpstreamUnavailable."""
        forms: Sequence[SidecarForm] = (SidecarForm.EIP_4844,)
        if bundle is not None:
            form = self.sidecar_form()
            forms = (form, form.other)
        refusal = ""
        silent: set[str] = set()
        for form in forms:
            refusal = self._transmit_as(signed, bundle, form, silent)
            if not refusal:
                self._form = form
                return
            if not any(words in refusal.lower() for words in _FORM_WORDS):
                break
        raise NotTaken(f"L1 does not take it: {refusal[:REASON_MAX]}", is_certain=not silent)

    def _transmit_as(
        self, signed: SignedTransaction, bundle: BlobBundle | None, form: SidecarForm, silent: set[str]
    ) -> str:
        """Send a transaction in this form; returns why it is refused, empty if it is not.  ``silent`` gets the names of
        nodes that it was sent to and that gave no answer."""
        raw = hex_data(signed.raw(bundle, form))

        def send(endpoint: L1Endpoint) -> str:
            try:
                answer = endpoint.answers([("eth_sendRawTransaction", [raw])])[0]
            except UpstreamError:
                silent.add(endpoint.name)
                raise
            if not isinstance(answer, UpstreamRejection):
                return ""
            text = answer.message
            return "" if any(words in text.lower() for words in _KNOWN_WORDS) else text or str(answer)

        return self._l1.run(send)

    def sidecar_form(self) -> SidecarForm:
        """The one that was taken last, else the one that the chain should want."""
        return self._form or sidecar_form_of(self._chain_id, _ANY_TIME)


def quantity_of(record: dict[str, Any], key: str) -> int:
    try:
        return from_amount(record.get(key), key)
    except DecodeError:
        return 0


def paid(receipt: dict[str, Any]) -> int:
    plain = quantity_of(receipt, "gasUsed") * quantity_of(receipt, "effectiveGasPrice")
    return plain + quantity_of(receipt, "blobGasUsed") * quantity_of(receipt, "blobGasPrice")
