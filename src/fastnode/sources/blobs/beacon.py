"""Consensus clients: the blobs of the last weeks, by the slot of the block that carries them.

    GET /eth/v1/beacon/blobs/{slot}?versioned_hashes=..&versioned_hashes=..   the blobs, joined; or JSON: data: [blob]
    GET /eth/v1/beacon/blobs/{slot}?versioned_hashes=..,..                    as some clients want it
    GET /eth/v1/beacon/blob_sidecars/{slot}                                   data: [{blob, kzg_commitment}, ..]
    GET /eth/v1/beacon/blobs/{slot}                                           all of them

Clients and the gateways before them offer some of these.  A form that is refused while another one gives the blobs
rests for some minutes; a refusal of all of them is an error with the reasons.

A slot follows from the time of the L1 block and what the consensus client says of its own times; without that, from
the block's parent beacon root: the slot behind it, or one of the next ones where slots were missed.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from fastnode.errors import DecodeError
from fastnode.outgoing.health import EndpointHealth, Patience
from fastnode.protocol.fields import hex_text
from fastnode.protocol.kzg import BLOB_BYTES, versioned_hash
from fastnode.sources.blobs.base import BlobRequest, BlobSourceError, GivenBlob, blob_from_hex, point_from_hex
from fastnode.sources.blobs.http_get import HttpGet, Parameters

__all__ = ["BeaconNode"]

#: Slots that are tried behind the one after the parent's: proposers miss slots.
MISSED_SLOTS_MAX: Final = 10
#: Blobs in one answer that are looked at; a block of L1 holds fewer.
_BLOBS_MAX: Final = 4_096
_NO_ROOT: Final = bytes(32)
#: Pauses before what a client does not offer is asked for again.
PATIENCE: Final = Patience(unavailable_s=600.0, unavailable_max_s=600.0)
#: Statuses of a path, a parameter or a form of answer that a server does not offer; besides 404.
_NOT_OFFERED: Final = frozenset({400, 403, 405, 406, 410, 415, 422, 501})
_NOT_AS_BYTES: Final = frozenset({406, 415})


class _Form(enum.Enum):
    """Ways to ask for the blobs of a slot, the best first."""

    REPEATED = "blobs"
    JOINED = "blobs with joined hashes"
    SIDECARS = "blob_sidecars"
    ALL = "blobs without hashes"


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
        #: (time of slot 0, seconds per slot); None while it is not known.
        self._clock: tuple[int, int] | None = None
        #: Whether it gives its times.
        self._times = EndpointHealth(PATIENCE)
        #: Whether it offers each form.
        self._forms = {form: EndpointHealth(PATIENCE) for form in _Form}
        #: False once it has refused to give blobs as bytes.
        self._gives_bytes = True

    def check(self) -> None:
        refusals: list[str] = []
        for path in ("/eth/v1/beacon/headers", "/eth/v1/beacon/genesis", "/eth/v1/config/spec"):
            if self._get(path, refusals) is not None:
                return
        reasons = f" ({'; '.join(dict.fromkeys(refusals))})" if refusals else ""
        raise BlobSourceError(f"it answers neither for headers nor for its genesis: is it a consensus client?{reasons}")

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

    def _read_clock(self) -> tuple[int, int] | None:
        """None where the client does not give its times."""
        with self._lock:
            if self._clock is None and not self._times.is_resting:
                genesis = _data(self._get("/eth/v1/beacon/genesis"))
                spec = _data(self._get("/eth/v1/config/spec"))
                start, seconds = _number(genesis.get("genesis_time")), _number(spec.get("SECONDS_PER_SLOT"))
                if start is not None and seconds:
                    self._clock = (start, seconds)
                else:
                    self._times.on_unavailable("it does not give its times")
            return self._clock

    def _slot_of(self, block: bytes | str) -> int | None:
        text = block if isinstance(block, str) else hex_text(block)
        header = _data(self._get(f"/eth/v1/beacon/headers/{text}")).get("header")
        message = header.get("message") if isinstance(header, dict) else None
        return _number(message.get("slot")) if isinstance(message, dict) else None

    # ---- its blobs -----------------------------------------------------------------------------

    def _blobs_of_slot(self, slot: int, request: BlobRequest) -> Iterator[GivenBlob]:
        """By one form after the other, as long as the caller takes more."""
        refusals: dict[_Form, str] = {}
        has_answered, wanted = False, len(request.versioned_hashes)
        resting = {form for form, health in self._forms.items() if health.is_resting}
        #: True if the usual form does not do: other ways to name the hashes may.
        is_odd = _Form.REPEATED in resting
        # Those that rest come last: there may be no other any more.
        for form in sorted(_Form, key=lambda form: form in resting):
            if (form is _Form.JOINED and (wanted == 1 or not is_odd)) or (form is _Form.ALL and not is_odd):
                continue
            try:
                blobs = self._ask_by(form, slot, request)
            except BlobSourceError as error:
                if error.status not in _NOT_OFFERED:
                    raise
                refusals[form] = str(error)
                is_odd = is_odd or form is _Form.REPEATED
                continue
            if blobs is None:
                continue
            has_answered = True
            if blobs:
                self._forms[form].on_identified()
                for other, reason in refusals.items():
                    self._forms[other].on_unavailable(reason)
            yield from blobs
            if form in (_Form.REPEATED, _Form.JOINED) and len(blobs) >= wanted:
                return  # it has no others
            is_odd = is_odd or (form is _Form.REPEATED and len(blobs) > 0)
        if refusals and not has_answered:
            reasons = "; ".join(f"{form.value}: {reason}" for form, reason in refusals.items())
            raise BlobSourceError(f"it offers no way to its blobs: {reasons}")

    def _ask_by(self, form: _Form, slot: int, request: BlobRequest) -> list[GivenBlob] | None:
        """None where it does not know the slot, or the path."""
        if form is _Form.SIDECARS:
            answer = self._http.json(f"{self._base}/eth/v1/beacon/blob_sidecars/{slot}", self._headers, self._pairs())
            return None if answer is None else list(_sidecars(answer, request))
        hashes = [hex_text(item) for item in request.versioned_hashes]
        values = {_Form.REPEATED: hashes, _Form.JOINED: [",".join(hashes)], _Form.ALL: []}[form]
        query = [*self._pairs(), *(("versioned_hashes", value) for value in values)]
        answer = self._blobs(f"{self._base}/eth/v1/beacon/blobs/{slot}", query)
        if answer is None:
            return None
        blobs = _cut(answer) if isinstance(answer, bytes) else _listed(answer)
        # They come in the order of the block, which is that of the event; others among them would shift it.
        are_all_wanted = len(blobs) == len(hashes) and form is not _Form.ALL
        said_to_be = request.versioned_hashes if are_all_wanted else [None] * len(blobs)
        return [GivenBlob(_blob(item), name) for item, name in zip(blobs, said_to_be, strict=True)]

    def _blobs(self, url: str, query: Parameters) -> Any:
        if self._gives_bytes:
            try:
                return self._http.json_or_bytes(url, self._headers, query)
            except BlobSourceError as error:
                if error.status not in _NOT_AS_BYTES:
                    raise
                self._gives_bytes = False
        return self._http.json(url, self._headers, query)

    def _get(self, path: str, refusals: list[str] | None = None) -> Any:
        """None for a path that is not offered; ``refusals`` gets the reason."""
        try:
            return self._http.json(self._base + path, self._headers, self._pairs())
        except BlobSourceError as error:
            if error.status not in _NOT_OFFERED:
                raise
            if refusals is not None:
                refusals.append(str(error))
            return None

    def _pairs(self) -> list[tuple[str, str]]:
        return list(self._query.items())


def _sidecars(answer: Any, request: BlobRequest) -> Iterator[GivenBlob]:
    """Those whose commitments are asked for; others belong to other rollups."""
    for item in _listed(answer):
        if not isinstance(item, dict):
            raise BlobSourceError("blob_sidecars gave something that is no sidecar")
        commitment = point_from_hex(item.get("kzg_commitment"))
        if commitment is not None and versioned_hash(commitment) in request.versioned_hashes:
            yield GivenBlob(_blob(item.get("blob")), versioned_hash(commitment))


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
