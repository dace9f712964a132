"""The interface of a source of blobs, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, NamedTuple, Protocol

from fastnode.errors import AnswerTooLarge, DecodeError, FastnodeError
from fastnode.kernels import encode
from fastnode.protocol.kzg import BLOB_BYTES, COMMITMENT_BYTES
from fastnode.records import dataclass

__all__ = [
    "BlobAnswerTooLarge",
    "BlobRequest",
    "BlobSource",
    "BlobSourceError",
    "GivenBlob",
    "blob_from_hex",
    "point_from_hex",
]

_HEX_LENGTH: Final = 2 + 2 * BLOB_BYTES


class BlobSourceError(FastnodeError):
    """A source cannot be asked, or answers with something that is not what was asked for.

    ``is_passing``: it may go better in a second, as with a connection that broke.  ``status``: HTTP status of its
    answer, None where there is none.
    """

    def __init__(self, reason: str, *, is_passing: bool = False, status: int | None = None) -> None:
        super().__init__(reason)
        self.is_passing, self.status = is_passing, status


class BlobAnswerTooLarge(BlobSourceError, AnswerTooLarge):  # noqa: N818 - as the other one
    """An answer has no room where it was asked for."""


@dataclass(frozen=True, slots=True)
class BlobRequest:
    """Blobs of a checkpoint by their versioned hashes, and the L1 block that carries them.

    ``read_beacon_root`` asks L1 for the block's parent beacon root, None where there is none; UpstreamUnavailable.
    ``commitments`` by versioned hashes, which are their own: blobs that a source gives for these are not proven here.
    """

    checkpoint: int
    versioned_hashes: tuple[bytes, ...]
    block_number: int
    block_hash: bytes
    block_timestamp: int
    read_beacon_root: Callable[[], bytes | None]
    commitments: Mapping[bytes, bytes] = field(default_factory=dict)

    def without(self, found: Sequence[bytes]) -> BlobRequest:
        """Asking for the rest only."""
        rest = tuple(item for item in self.versioned_hashes if item not in found)
        return replace(self, versioned_hashes=rest)


class GivenBlob(NamedTuple):
    """A blob as a source gives it, zeros at its end left out.

    ``said_to_be``: the versioned hash that it has by what the source says, which may be anything.
    """

    data: bytes
    said_to_be: bytes | None = None


class BlobSource(Protocol):
    """Usable from any thread; its calls block."""

    @property
    def name(self) -> str:
        """For logs and status, without secrets."""
        ...

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        """Candidates for the blobs, in any order, possibly with others among them; the caller verifies each.

        The source goes on looking until no more is taken from the
        iterator, or it knows no further place.  BlobSourceError.
        """
        ...

    def check(self) -> None:
        """BlobSourceError when it cannot be reached."""
        ...


def blob_from_hex(value: Any) -> bytes:
    """A blob from its hex text, zeros at its end left out.  DecodeError for any other length."""
    if not isinstance(value, str) or len(value) != _HEX_LENGTH:
        length = len(value) if isinstance(value, str) else type(value).__name__
        raise DecodeError(f"a blob of {length} instead of {_HEX_LENGTH} characters")
    try:
        return encode.from_hex(value).rstrip(b"\0")
    except ValueError:
        raise DecodeError("a blob that is not hex") from None


def point_from_hex(value: Any) -> bytes | None:
    """A commitment or a proof from its hex text; None where there is none."""
    try:
        data = encode.from_hex(value) if isinstance(value, str) else b""
    except ValueError:
        return None
    return data if len(data) == COMMITMENT_BYTES else None
