"""Transactions in flight, kept on disk until they are decided, so that a restart goes on watching them.

    <directory>/<address>-<nonce>.json      what was sent, each attempt with its price and signature; no key.  A checked
                                            file; older nodes left its JSON alone, as version 1
    <directory>/<address>-<nonce>.blobs     its blobs, one after the other, without zeros at the end of the last

A file appears as a whole or not at all, and is there before L1 sees the transaction.  What is not what was written is
not used: a changed bit could become another call, or a price that was never meant.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.files import make_folder, read_checked_file, replace_checked_file, replace_file
from fastnode.log import log_facts
from fastnode.protocol.kzg import BLOB_BYTES
from fastnode.publishing.envelope import BlobBundle, SignedTransaction, Transaction
from fastnode.publishing.fees import Price
from fastnode.publishing.requests import Success
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data

__all__ = ["Earlier", "InFlight", "KeptTransactions", "price_of"]

logger = logging.getLogger(__name__)

#: Limit for one account; more in flight are a fault.
KEPT_MAX: Final = 32
_VERSION: Final = 2
#: Without checksums.
_VERSION_UNCHECKED: Final = 1


@dataclass(frozen=True, slots=True)
class Earlier:
    """A transaction of an earlier request with the same nonce, which L1 may have."""

    what: str
    signed: SignedTransaction


@dataclass(slots=True, kw_only=True)
class InFlight:
    """One nonce of an account, and what was sent for it; the newest attempt is the last one."""

    what: str
    sender: bytes
    nonce: int
    success: Success | None
    give_up_at: int | None
    bundle: BlobBundle | None
    attempts: list[SignedTransaction] = field(default_factory=list)
    #: L1's time when the first and the newest attempt were sent.
    first_sent_at: int = 0
    sent_at: int = 0
    #: Speed-ups so far, of the transaction or of its cancellation.
    speed_ups: int = 0
    #: Blobs of the cancellation, when it is cancelled and has some.
    cancellation: BlobBundle | None = None
    is_cancelled: bool = False
    cancelled_at: int = 0
    #: What earlier requests sent for this nonce without an end.
    earlier: tuple[Earlier, ...] = ()
    #: Not watched any more, and not decided: L1 may have it.
    is_abandoned: bool = False
    #: CRC-32 of the file of its blobs; None while there is none.
    blobs_check: int | None = None

    @property
    def newest(self) -> SignedTransaction:
        return self.attempts[-1]

    @property
    def price(self) -> Price:
        return price_of(self.newest)

    @property
    def earlier_prices(self) -> list[Price]:
        """Offers of earlier requests for this nonce."""
        return [price_of(each.signed) for each in self.earlier]

    def as_earlier(self) -> tuple[Earlier, ...]:
        """All that was sent for this nonce, for the next request that uses it."""
        return (*self.earlier, *(Earlier(self.what, attempt) for attempt in self.attempts))

    @property
    def newest_bundle(self) -> BlobBundle | None:
        """The blobs that go with the newest attempt, which may be the call although it is cancelled: L1 may refuse the
        cancellation."""
        transaction, bundle = self.newest.transaction, self.bundle
        is_call = bundle is not None and transaction.versioned_hashes == bundle.versioned_hashes
        return bundle if is_call else self.cancellation


def price_of(signed: SignedTransaction) -> Price:
    transaction = signed.transaction
    return Price(transaction.tip_max, transaction.fee_max, transaction.blob_fee_max)


_BLOBS_SUFFIX: Final = ".blobs"
_DAMAGED: Final = (
    "a transaction in flight is not watched: its file cannot be used. It may still be mined, at the price it has; "
    "remove the file once L1 counts more transactions of the account than the number in its name"
)


class KeptTransactions:
    """Transactions of all accounts.  ``directory`` None: nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory

    def put(self, item: InFlight) -> None:
        """OSError when the disk refuses."""
        if self._directory is None:
            return
        make_folder(self._directory)
        file = self._file(item)
        if item.bundle is not None and item.blobs_check is None:
            # Whatever lies there is of another one: a start that was killed in between, or a file that was damaged.
            blobs = b"".join(item.bundle.blobs).rstrip(b"\0")
            replace_file(file.with_suffix(_BLOBS_SUFFIX), blobs)
            item.blobs_check = zlib.crc32(blobs)
        replace_checked_file(file, orjson.dumps(_to_json(item)))

    def remove(self, item: InFlight) -> None:
        if self._directory is None:
            return
        file = self._file(item)
        file.unlink(missing_ok=True)
        file.with_suffix(_BLOBS_SUFFIX).unlink(missing_ok=True)
        item.blobs_check = None

    def load(self, sender: bytes) -> list[InFlight]:
        """Transactions of an account, the lowest nonce first; a file that is damaged is left alone and logged."""
        if self._directory is None or not self._directory.is_dir():
            return []
        found = []
        for file in self._directory.glob(f"{hex_data(sender)}-*.json"):
            try:
                found.append(_read(file))
            except (OSError, ValueError, LookupError, TypeError) as error:
                reason = str(error) if isinstance(error, (OSError, ValueError)) else "it is incomplete"
                facts = log_facts(publisher=hex_data(sender), file=file, reason=reason)
                logger.error(_DAMAGED, extra=facts)
        return sorted(found, key=lambda item: item.nonce)[:KEPT_MAX]

    def _file(self, item: InFlight) -> Path:
        assert self._directory is not None
        return self._directory / f"{hex_data(item.sender)}-{item.nonce}.json"


def _to_json(item: InFlight) -> dict[str, Any]:
    success = item.success
    return {
        "version": _VERSION,
        "what": item.what,
        "sender": item.sender.hex(),
        "nonce": item.nonce,
        "success": None if success is None else [success.contract.hex(), list(success.topics)],
        "giveUpAt": item.give_up_at,
        "commitments": None if item.bundle is None else [each.hex() for each in item.bundle.commitments],
        "blobsCheck": item.blobs_check,
        "firstSentAt": item.first_sent_at,
        "sentAt": item.sent_at,
        "speedUps": item.speed_ups,
        "isCancelled": item.is_cancelled,
        "cancelledAt": item.cancelled_at,
        "isAbandoned": item.is_abandoned,
        "earlier": [{"what": each.what, **_attempt_to_json(each.signed)} for each in item.earlier],
        "attempts": [_attempt_to_json(attempt) for attempt in item.attempts],
    }


def _attempt_to_json(attempt: SignedTransaction) -> dict[str, Any]:
    transaction = attempt.transaction
    return {
        "chainId": transaction.chain_id,
        "tip": str(transaction.tip_max),
        "fee": str(transaction.fee_max),
        "blobFee": None if transaction.blob_fee_max is None else str(transaction.blob_fee_max),
        "gas": transaction.gas,
        "to": transaction.to.hex(),
        "value": str(transaction.value),
        "data": transaction.data.hex(),
        "hashes": [each.hex() for each in transaction.versioned_hashes],
        "signature": attempt.signature.hex(),
    }


def _read(file: Path) -> InFlight:
    """OSError, or ValueError, LookupError or TypeError for what was not written as it is."""
    try:
        record = orjson.loads(read_checked_file(file))
    except ValueError:
        whole = file.read_bytes()
        record = orjson.loads(whole) if whole.endswith(b"}") else None
        if not isinstance(record, dict) or record["version"] != _VERSION_UNCHECKED:
            raise
        record["blobsCheck"] = None
    else:
        if record["version"] != _VERSION:
            raise ValueError(f"it is of version {record['version']}, this node reads up to {_VERSION}")
    return _from_json(record, file.with_suffix(_BLOBS_SUFFIX))


def _from_json(record: dict[str, Any], blobs: Path) -> InFlight:
    bundle, blobs_check = None, record["blobsCheck"]
    if record["commitments"] is not None:
        content, commitments = blobs.read_bytes(), [bytes.fromhex(each) for each in record["commitments"]]
        if blobs_check not in (None, zlib.crc32(content)):
            raise ValueError(f"the checksum of {blobs.name} is wrong")
        parts = [content[at * BLOB_BYTES : (at + 1) * BLOB_BYTES] for at in range(len(commitments))]
        bundle = BlobBundle(parts, commitments)
    success, nonce = record["success"], int(record["nonce"])
    item = InFlight(
        what=str(record["what"]),
        sender=bytes.fromhex(record["sender"]),
        nonce=nonce,
        success=None if success is None else Success(bytes.fromhex(success[0]), tuple(success[1])),
        give_up_at=record["giveUpAt"],
        bundle=bundle,
        attempts=[_attempt_from_json(each, nonce) for each in record["attempts"]],
        first_sent_at=int(record["firstSentAt"]),
        sent_at=int(record["sentAt"]),
        speed_ups=int(record["speedUps"]),
        is_cancelled=bool(record["isCancelled"]),
        cancelled_at=int(record["cancelledAt"]),
        # Older nodes did not write these.
        is_abandoned=bool(record.get("isAbandoned", False)),
        earlier=tuple(
            Earlier(str(each["what"]), _attempt_from_json(each, nonce)) for each in record.get("earlier", ())
        ),
        blobs_check=blobs_check,
    )
    if item.is_cancelled and item.newest.transaction.blob_fee_max is not None:
        item.cancellation = BlobBundle([b""])
    return item


def _attempt_from_json(record: dict[str, Any], nonce: int) -> SignedTransaction:
    blob_fee = record["blobFee"]
    transaction = Transaction(
        chain_id=int(record["chainId"]),
        nonce=nonce,
        tip_max=int(record["tip"]),
        fee_max=int(record["fee"]),
        gas=int(record["gas"]),
        to=bytes.fromhex(record["to"]),
        value=int(record["value"]),
        data=bytes.fromhex(record["data"]),
        blob_fee_max=None if blob_fee is None else int(blob_fee),
        versioned_hashes=tuple(map(bytes.fromhex, record["hashes"])),
    )
    return SignedTransaction(transaction, bytes.fromhex(record["signature"]))
