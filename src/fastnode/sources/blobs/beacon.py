"""Consensus clients: the blobs of the last weeks, by the slot of the block that carries them.

    GET /eth/v1/beacon/blobs/{slot}?versioned_hashes=..      the blobs, joined; or JSON, data: [blob, ..]
    GET /eth/v1/beacon/blob_sidecars/{slot}                  data: [{blob, kzg_commitment}, ..]; older clients

A slot follows from the time of the L1 block and what the consensus client says of its own times; without that, from
the block's parent beacon root: the slot behind it, or one of the next ones where slots were missed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from fastnode.errors import DecodeError
from fastnode.protocol.fields import hex_text
from fastnode.protocol.kzg import BLOB_BYTES, versioned_hash
from fastnode.sources.blobs.base import BlobRequest, BlobSourceError, GivenBlob, blob_from_hex, point_from_hex
from fastnode.sources.blobs.http_get import HttpGet

__all__ = ["BeaconNode"]

#: Slots that are tried behind the one after the parent's: proposers miss slots.
MISSED_SLOTS_MAX: Final = 10
#: Blobs in one answer that are looked at; a block of L1 holds fewer.
_BLOBS_MAX: Final = 4_096
_NO_ROOT: Final = bytes(32)


class BeaconNode:
    """One consensus client.  ``key`` goes into the header ``key_header``, or into the query if there is none."""

    def __init__(
        self, url: str, http: HttpGet, name: str, key: str | None = None, key_header: str | None = None
    ) -> None:
        self.name = name
        parts = urlsplit(url)
        self._base = urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))
        self._query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
        self._headers: dict[str, str] = {}
        if key and key_header:
            self._headers[key_header] = key
        elif key:
            self._query["key"] = key
        self._http = http
        self._lock = threading.Lock()
        #: (time of slot 0, seconds per slot); None until it is asked, () if it does not say.
        self._clock: tuple[int, int] | tuple[()] | None = None

    def check(self) -> None:
        if self._get("/eth/v1/beacon/headers") is None and self._get("/eth/v1/beacon/genesis") is None:
            raise BlobSourceError("it answers neither for headers nor for its genesis: is it a consensus client?")

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        tried: set[int] = set()
        for slot in self._slots(request):
            if slot not in tried:
                tried.add(slot)
                yield from self._blobs_of_slot(slot, request)

    # ---- which slot ----------------------------------------------------------------------------

    def _slots(self, request: BlobRequest) -> Iterator[int]:
        """Slots to try, the likeliest first."""
        clock = self._read_clock()
        if clock:
            start, seconds = clock
            slot, rest = divmod(request.block_timestamp - start, seconds)
            if slot > 0 and rest == 0:
                yield slot
        root = request.read_beacon_root()
        parent = None if root is None else self._slot_of(root)
        if parent is not None:
            yield parent + 1
            head = self._slot_of("head")
            last = parent + 1 + MISSED_SLOTS_MAX
            yield from range(parent + 2, (last if head is None else min(last, head)) + 1)
        elif root is None or root == _NO_ROOT:
            # An execution client for tests that plays both parts counts slots as it counts blocks.
            yield request.block_number

    def _read_clock(self) -> tuple[int, int] | tuple[()]:
        with self._lock:
            if self._clock is None:
                genesis = _data(self._get("/eth/v1/beacon/genesis"))
                spec = _data(self._get("/eth/v1/config/spec"))
                start, seconds = _number(genesis.get("genesis_time")), _number(spec.get("SECONDS_PER_SLOT"))
                self._clock = (start, seconds) if start is not None and seconds else ()
            return self._clock

    def _slot_of(self, block: bytes | str) -> int | None:
        text = block if isinstance(block, str) else hex_text(block)
        header = _data(self._get(f"/eth/v1/beacon/headers/{text}")).get("header")
        message = header.get("message") if isinstance(header, dict) else None
        return _number(message.get("slot")) if isinstance(message, dict) else None

    # ---- its blobs -----------------------------------------------------------------------------

    def _blobs_of_slot(self, slot: int, request: BlobRequest) -> Iterator[GivenBlob]:
        query = self._query | {"versioned_hashes": ",".join(map(hex_text, request.versioned_hashes))}
        answer = self._http.json_or_bytes(f"{self._base}/eth/v1/beacon/blobs/{slot}", self._headers, query)
        blobs = _cut(answer) if isinstance(answer, bytes) else _listed(answer)
        # They come in the order of the block, which is that of the event; others among them would shift it.
        are_all_wanted = len(blobs) == len(request.versioned_hashes)
        for place, item in enumerate(blobs):
            yield GivenBlob(_blob(item), request.versioned_hashes[place] if are_all_wanted else None)
        for item in _listed(self._get(f"/eth/v1/beacon/blob_sidecars/{slot}")):
            if not isinstance(item, dict):
                raise BlobSourceError("blob_sidecars gave something that is no sidecar")
            # Sidecars whose commitments are not asked for belong to other rollups.
            commitment = point_from_hex(item.get("kzg_commitment"))
            if commitment is not None and versioned_hash(commitment) in request.versioned_hashes:
                yield GivenBlob(_blob(item.get("blob")), versioned_hash(commitment))

    def _get(self, path: str, **parameters: str) -> Any:
        return self._http.json(self._base + path, self._headers, self._query | parameters)


def _listed(answer: Any) -> list[Any]:
    data = answer.get("data") if isinstance(answer, dict) else None
    return data[:_BLOBS_MAX] if isinstance(data, list) else []


def _cut(joined: bytes) -> list[bytes]:
    """The blobs of a joined list."""
    if len(joined) % BLOB_BYTES:
        raise BlobSourceError(f"it gives {len(joined)} bytes, which are no list of blobs")
    return [joined[at : at + BLOB_BYTES] for at in range(0, len(joined), BLOB_BYTES)][:_BLOBS_MAX]


def _blob(value: Any) -> bytes:
    """Zeros at its end left out, from its bytes or their hex text."""
    try:
        return value.rstrip(b"\0") if isinstance(value, bytes) else blob_from_hex(value)
    except DecodeError as error:
        raise BlobSourceError(f"it gives {error}") from error


def _data(answer: Any) -> dict[str, Any]:
    data = answer.get("data") if isinstance(answer, dict) else None
    return data if isinstance(data, dict) else {}


def _number(value: Any) -> int | None:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
