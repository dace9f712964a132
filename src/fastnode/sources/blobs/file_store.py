"""File stores: a file per blob, under the name of the rollup.

<store>/aztec-<L1 chain id>-<rollup version>-<rollup address>/blobs/<versioned hash>.data
    one raw block of snappy: {"blob": "0x..", "kzg_commitment": "0x.."}
<store>/aztec-.../.healthcheck
    "ok": written by the uploader, so that a reader sees that there is a store

Stores are folders (file://), S3, Google Cloud Storage or web servers, of which no redirect to another one is followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import orjson

from fastnode.errors import DecodeError, UpstreamError, UpstreamUnavailable
from fastnode.extras import LazyModule, advice_for
from fastnode.outgoing.client import BUSY
from fastnode.outgoing.network import ClientLimits
from fastnode.outgoing.object_store import StoreFailure
from fastnode.outgoing.web_folder import WebFolder
from fastnode.protocol.fields import hex_text
from fastnode.protocol.kzg import BLOB_BYTES
from fastnode.sources.blobs.base import BlobRequest, BlobSourceError, GivenBlob, blob_from_hex
from fastnode.values.urls import is_http_url

if TYPE_CHECKING:
    import obstore
    from obstore import exceptions
    from obstore import store as stores
else:
    obstore, exceptions, stores = map(LazyModule, ("obstore", "obstore.exceptions", "obstore.store"))

__all__ = ["FileStore", "folder_of", "pack_blob", "unpack_blob"]

#: Length of the text of one blob and its commitment, with some room for other keys.
_TEXT_BYTES_MAX: Final = 2 * BLOB_BYTES + 4_096
#: Snappy never makes a text longer than by a sixth.
_FILE_BYTES_MAX: Final = 32 + _TEXT_BYTES_MAX + _TEXT_BYTES_MAX // 6
#: Code of a store that lacks the bucket, not a file.
_NO_BUCKET: Final = "NoSuchBucket"
_HEALTH_FILE: Final = ".healthcheck"
_REQUEST_TIME: Final = "15s"
_CONNECT_TIME: Final = "5s"
#: The library's own retries: its usual ten hide a store that limits requests, and wait minutes for a silent one.
_RETRIES: Final[Any] = {"max_retries": 2, "retry_timeout": timedelta(seconds=15)}
_WEB: Final = ClientLimits(request_time_s=15.0, connect_time_s=5.0)


def folder_of(chain_id: int, version: int, rollup: bytes) -> str:
    """The folder of one rollup in every store."""
    return f"aztec-{chain_id}-{version}-{hex_text(rollup)}"


class FileStore:
    """One store.  BlobSourceError for a URL of an unknown form."""

    def __init__(self, url: str, folder: str, name: str, *, is_written: bool = False) -> None:
        self.name = name
        self._folder = folder
        try:
            self._store = _open(url, is_written)
        except ModuleNotFoundError as error:  # first: what is named below is of that package
            raise BlobSourceError(advice_for(error) or str(error)) from error
        except (ValueError, OSError) as error:
            raise BlobSourceError(f"it cannot be used: {StoreFailure.of(error).reason}") from error
        except exceptions.BaseError as error:
            raise BlobSourceError(f"it cannot be used: {StoreFailure.of(error).reason}") from error

    def check(self) -> None:
        if self._read(f"{self._folder}/{_HEALTH_FILE}", 1_024) is None:
            raise BlobSourceError(f"it has no file {self._folder}/{_HEALTH_FILE}")

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        for versioned_hash in request.versioned_hashes:
            packed = self._read(self._path(versioned_hash), _FILE_BYTES_MAX)
            if packed is not None:
                yield GivenBlob(unpack_blob(packed), versioned_hash)

    def upload(self, versioned_hash: bytes, blob: bytes, commitment: bytes) -> bool:
        """Write a blob that is not there yet; returns whether it was not."""
        path = self._path(versioned_hash)
        try:
            try:
                obstore.head(self._store, path)
            except (exceptions.NotFoundError, FileNotFoundError):
                obstore.put(self._store, path, pack_blob(blob, commitment))
                return True
        except (exceptions.BaseError, OSError) as error:
            raise _error_of(error, "it cannot be written: ") from error
        return False

    def sign_as_healthy(self) -> None:
        """Write the file that tells readers that the store is kept."""
        try:
            obstore.put(self._store, f"{self._folder}/{_HEALTH_FILE}", b"ok")
        except (exceptions.BaseError, OSError) as error:
            raise _error_of(error, "it cannot be written: ") from error

    def _path(self, versioned_hash: bytes) -> str:
        return f"{self._folder}/blobs/{hex_text(versioned_hash)}.data"

    def _read(self, path: str, bytes_max: int) -> bytes | None:
        """None when it is not there."""
        if isinstance(self._store, WebFolder):
            return _read_web(self._store, path, bytes_max)
        try:
            answer = obstore.get(self._store, path)
            if answer.meta["size"] > bytes_max:
                raise BlobSourceError(f"{path} is larger than {bytes_max} bytes")
            return bytes(answer.bytes())
        except (exceptions.NotFoundError, FileNotFoundError) as error:
            if _NO_BUCKET in str(error):
                raise _error_of(error) from error
            return None
        except (exceptions.BaseError, OSError) as error:
            raise _error_of(error) from error


def _read_web(folder: WebFolder, path: str, bytes_max: int) -> bytes | None:
    try:
        return folder.read(path, bytes_max)
    except FileNotFoundError:
        return None
    except UpstreamError as error:
        raise BlobSourceError(str(error), is_passing=isinstance(error, UpstreamUnavailable)) from error


def unpack_blob(packed: bytes) -> bytes:
    """The blob in a file, zeros at its end left out.  BlobSourceError."""
    import cramjam

    if _announced_bytes(packed) > _TEXT_BYTES_MAX:
        raise BlobSourceError("it gives a file that is no blob: its text would be too long")
    try:
        record = orjson.loads(bytes(cramjam.snappy.decompress_raw(packed)))
        return blob_from_hex(record.get("blob") if isinstance(record, dict) else None)
    except (cramjam.DecompressionError, orjson.JSONDecodeError, DecodeError) as error:
        raise BlobSourceError(f"it gives a file that is no blob: {error}") from error


def pack_blob(blob: bytes, commitment: bytes) -> bytes:
    """The file of a blob; zeros at its end may be left out."""
    import cramjam

    text = orjson.dumps({"blob": hex_text(blob.ljust(BLOB_BYTES, b"\0")), "kzg_commitment": hex_text(commitment)})
    return bytes(cramjam.snappy.compress_raw(text))


def _announced_bytes(packed: bytes) -> int:
    """The length of the text, with which a block of snappy begins: seven bits a byte, the lowest first."""
    length = 0
    for place, byte in enumerate(packed[:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return length


def _open(url: str, is_written: bool) -> Any:
    parts = urlsplit(url)
    path = unquote(parts.path).rstrip("/")
    client: Any = {"timeout": _REQUEST_TIME, "connect_timeout": _CONNECT_TIME, "allow_http": True}
    settings: Any = {"client_options": client, "retry_config": _RETRIES}
    options = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
    if parts.scheme == "file" and not parts.netloc and path.startswith("/"):
        return stores.LocalStore(_folder(path, is_written))
    if parts.scheme == "s3" and parts.netloc:
        given: Any = {"endpoint": unquote(options["endpoint"])} if "endpoint" in options else {}
        return stores.S3Store(parts.netloc, prefix=path.strip("/") or None, **settings, **given)
    if parts.scheme == "gs" and parts.netloc:
        return stores.GCSStore(parts.netloc, prefix=path.strip("/") or None, **settings)
    if parts.scheme in ("http", "https") and parts.netloc and not is_written:
        if not is_http_url(url):
            raise ValueError("its host or port makes no sense")
        return WebFolder(url, _WEB)
    forms = "file:///folder, s3://bucket/path, gs://bucket/path" + ("" if is_written else ", https://host/path")
    raise ValueError(f"its URL has none of the forms {forms}")


def _folder(path: str, is_written: bool) -> str:
    """ValueError for a folder to read from that is not there; one to write to is made."""
    folder = Path(path)
    if is_written:
        folder.mkdir(parents=True, exist_ok=True)
    elif not folder.is_dir():
        raise ValueError(f"there is no folder {path}")
    return path


def _error_of(error: Exception, beginning: str = "") -> BlobSourceError:
    failure = StoreFailure.of(error)
    is_passing = failure.status is None or failure.status in BUSY or failure.status == HTTPStatus.INTERNAL_SERVER_ERROR
    return BlobSourceError(beginning + failure.reason, is_passing=is_passing, status=failure.status)
