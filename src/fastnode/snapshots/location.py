"""Locations of snapshots.

file:///absolute/path
s3://bucket/path?endpoint=URL&publicBaseUrl=URL     credentials from the environment (AWS_...)
gs://bucket/path?endpoint=URL                       credentials from the environment (GOOGLE_...); with an endpoint,
                                                    which is a server that stands in for Google's, none
https://host/path, http://host/path                 for reading only; not from where the server redirects to

The stores of clouds are asked by a library that follows redirects and cannot be told not to.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

import orjson

from fastnode.errors import SnapshotError, UpstreamError
from fastnode.extras import LazyModule, advice_for
from fastnode.outgoing.network import ClientLimits
from fastnode.outgoing.object_store import StoreFailure
from fastnode.outgoing.web_folder import WebFolder
from fastnode.records import dataclass
from fastnode.snapshots.allowed_places import public_form
from fastnode.snapshots.archive import CHUNK_BYTES
from fastnode.snapshots.index import INDEX_BYTES_MAX, INDEX_FILE, Index, Network
from fastnode.snapshots.leaf_index import LEAF_INDEX_FILE, LeafIndex
from fastnode.snapshots.patience import INDEX_TIME_S, STALL_TIME_S, Check, in_time, without_stall
from fastnode.storage.database import lacking_bytes
from fastnode.values.urls import is_http_url

if TYPE_CHECKING:
    import obstore
    from obstore import exceptions
    from obstore import store as stores
else:
    obstore, exceptions, stores = map(LazyModule, ("obstore", "obstore.exceptions", "obstore.store"))

__all__ = ["Location"]

_FORMS: Final = (
    "gs://bucket-name/path/to/store, s3://bucket-name/path/to/store, file:///absolute/local/path/to/store, "
    "https://host/path"
)

#: Web servers: ``request_time_s`` without anything that comes.
_WEB: Final = ClientLimits(request_time_s=INDEX_TIME_S, connect_time_s=10.0)
#: A whole archive is one request; a connection that brings nothing is given up much earlier.
_REQUEST_TIME: Final = "12h"
_CONNECT_TIME: Final = "10s"

_GZIP: Final = b"\x1f\x8b"
_CACHE_CONTROL: Final = "no-store"
#: Parts that are sent at the same time, each of CHUNK_BYTES * 8.
_PARTS_AT_A_TIME: Final = 4
_PART_BYTES: Final = 8 * CHUNK_BYTES


def _go_on() -> None:
    """Never stopped."""


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed location.  ``text`` is what people see of it: without query and credentials."""

    text: str
    store: Any
    public_url: str
    is_read_only: bool
    #: The network that the location's last folder is of, if it names one folder instead of their parent.
    network: Network | None = None
    #: Called now and then while the location is waited for; what it raises ends the wait.
    check: Check = _go_on
    #: Seconds for which a small file, and more of an archive, may stay away.
    index_s: float = INDEX_TIME_S
    stall_s: float = STALL_TIME_S

    @classmethod
    def to_read(cls, text: str, check: Check = _go_on) -> Self:
        """SnapshotError for a form that is not understood (naming those that are), or a folder that is not there."""
        return replace(cls._parse(text, create=False), check=check)

    @classmethod
    def to_write(cls, text: str) -> Self:
        """Likewise; a local folder is made, and a location that is for reading only is refused."""
        location = cls._parse(text, create=True)
        if location.is_read_only:
            raise SnapshotError(f"the location {location.text} is for reading only")
        return location

    @classmethod
    def _parse(cls, text: str, *, create: bool) -> Self:
        try:
            url = urlsplit(text)
            path = unquote(url.path).rstrip("/")
            parent, _, last = path.rpartition("/")
            network = Network.of_folder(last)
            store, public = _open(url.scheme, url.netloc, parent if network else path, url.query, create=create)
        except _UnknownFormError:
            is_path = not url.scheme and bool(text)
            advice = f" Is {Path(text).absolute().as_uri()} meant?" if is_path else ""
            raise SnapshotError(
                f"Unknown file store config: '{text}'. Supported values are {_FORMS}.{advice}"
            ) from None
        except ModuleNotFoundError as error:  # first: what is named below is of that package
            raise SnapshotError(advice_for(error) or str(error)) from error
        except (ValueError, OSError) as error:
            raise cls._unusable(text, error) from error
        except exceptions.BaseError as error:
            raise cls._unusable(text, error) from error
        return cls(public_form(text), store, public, url.scheme in ("http", "https"), network)

    @staticmethod
    def _unusable(text: str, error: Exception) -> SnapshotError:
        return SnapshotError(f"the location {_shown(text)} cannot be used: {StoreFailure.of(error).reason}")

    @property
    def kept_max(self) -> int | None:
        """Newest snapshots of leaves that stay when one is added; None: all."""
        return None

    # ---- index ---------------------------------------------------------------------------------

    def networks(self) -> list[Network]:
        """The networks whose snapshots are there; SnapshotError where folders cannot be listed."""
        if self.network is not None:
            return [self.network]
        try:
            folders = in_time(self.text, self._list_folders, self.check)
        except NotImplementedError as error:
            raise self._unlisted(error) from error
        except exceptions.BaseError as error:
            raise self._unlisted(error) from error
        found = (Network.of_folder(str(folder).rstrip("/").rpartition("/")[2]) for folder in folders)
        return [network for network in found if network is not None]

    def _unlisted(self, error: Exception) -> SnapshotError:
        reason = StoreFailure.of(error).reason
        return SnapshotError(
            f"the folders of {self.text} cannot be listed ({reason}); name the one of a network: "
            f".../fastnode-<L1 chain id>-<rollup version>-<rollup address>"
        )

    def _list_folders(self) -> Sequence[str]:
        if isinstance(self.store, WebFolder):
            raise NotImplementedError("a web server does not tell them")
        return obstore.list_with_delimiter(self.store)["common_prefixes"]

    def read_index(self, network: Network) -> Index:
        """The index of a network; an empty one if there is none."""
        if self.network is not None and self.network != network:
            raise SnapshotError(f"the location {self.text} is of another network than {network.folder}")
        text = self.read_file(network, INDEX_FILE, INDEX_BYTES_MAX, "the index")
        try:
            return Index(network) if text is None else Index.from_bytes(text, network)
        except SnapshotError as error:
            raise SnapshotError(f"{self.text}: {error}") from error

    def read_leaf_index(self, network: Network) -> LeafIndex:
        """The index of a network's snapshots of leaves; an empty one if there is none."""
        if self.network is not None and self.network != network:
            raise SnapshotError(f"the location {self.text} is of another network than {network.folder}")
        text = self.read_file(network, LEAF_INDEX_FILE, INDEX_BYTES_MAX, "the index of leaves")
        try:
            return LeafIndex(network) if text is None else LeafIndex.from_bytes(text, network)
        except SnapshotError as error:
            raise SnapshotError(f"{self.text}: {error}") from error

    def read_file(self, network: Network, name: str, bytes_max: int, what: str) -> bytes | None:
        """A small file of a network, called ``what``; None if it is not there."""
        try:
            fetch = partial(self._fetch, f"{network.folder}/{name}", bytes_max, what)
            return in_time(self.text, fetch, self.check, limit_s=self.index_s)
        except SnapshotError:
            raise
        except FileNotFoundError:
            return None
        except (UpstreamError, OSError) as error:  # first: the web and the bus are read without the library
            raise self._unreadable(what, error) from error
        except exceptions.NotFoundError:
            return None
        except exceptions.BaseError as error:
            raise self._unreadable(what, error) from error

    def _fetch(self, path: str, bytes_max: int, what: str) -> bytes:
        text = bytearray()
        for part in gunzipped(self._stream(path), f"{self.text}: {what}"):
            text += part
            self._require_small(len(text), bytes_max, what)
        return bytes(text)

    def _stream(self, path: str) -> Iterator[bytes]:
        if isinstance(self.store, WebFolder):
            yield from self.store.stream(path)
            return
        for chunk in obstore.get(self.store, path).stream(min_chunk_size=CHUNK_BYTES):
            yield bytes(chunk)

    def _require_small(self, size: int, bytes_max: int, what: str) -> None:
        if size > bytes_max:
            raise SnapshotError(f"{self.text}: {what} is larger than {bytes_max} bytes")

    def write_index(self, index: Index | LeafIndex) -> None:
        name = INDEX_FILE if isinstance(index, Index) else LEAF_INDEX_FILE
        self.write_file(index.network, name, index.to_bytes())

    def write_file(self, network: Network, name: str, content: bytes) -> None:
        """A small file that no one keeps copies of."""
        self._put(f"{network.folder}/{name}", content, {"Cache-Control": _CACHE_CONTROL})

    def ages(self, network: Network, folder: str) -> dict[str, tuple[int, float]]:
        """Size in bytes and age in seconds of each file in a folder of a network, by name; only where it can be
        written."""
        now, found = time.time(), {}
        try:
            for some in obstore.list(self.store, f"{network.folder}/{folder}"):
                for item in some:
                    name = str(item["path"]).rpartition("/")[2]
                    found[name] = item["size"], now - item["last_modified"].timestamp()
        except (exceptions.BaseError, OSError) as error:
            raise self._unreadable(f"the folder {folder}", error) from error
        return found

    def is_same_size(self, told: int, count: int) -> bool:
        """True if :meth:`ages` tells this of a file of ``count`` bytes."""
        return told == count

    def remove(self, network: Network, name: str) -> None:
        """Remove a file of a network."""
        try:
            obstore.delete(self.store, f"{network.folder}/{name}")
        except exceptions.NotFoundError:
            return
        except (exceptions.BaseError, OSError) as error:
            raise SnapshotError(f"{self.text}: {name} cannot be removed: {StoreFailure.of(error).reason}") from error

    def require_room(self, least: int, most: int) -> None:
        """SnapshotError unless what will be written, of between so many bytes, fits: on a disk without an end to the
        room of the node itself.  A store elsewhere says so by itself."""
        if isinstance(self.store, stores.LocalStore) and (
            lacking := lacking_bytes(Path(self.store.prefix or "/"), most)
        ):
            raise SnapshotError(f"{self.text}: {(lacking >> 20) + 1} MiB more must be free on its disk")

    # ---- archives ------------------------------------------------------------------------------

    def url_of(self, network: Network, name: str) -> str:
        return f"{self.public_url}/{network.folder}/{name}"

    def write_archive(self, network: Network, name: str, chunks: Iterable[bytes]) -> None:
        """The archive appears as a whole or not at all."""
        self._put(f"{network.folder}/{name}", chunks, {})

    def read_archive(self, network: Network, name: str) -> Iterator[bytes]:
        """Its bytes; SnapshotError when they stay away."""
        path = f"{network.folder}/{name}"
        # Parts and tables may begin with anything, archives with the name of a file.
        is_archive = name.endswith(".tar")

        def fetch() -> Iterator[bytes]:
            stream = self._stream(path)
            return gunzipped(stream, f"{self.text}: {name}") if is_archive else stream

        try:
            yield from without_stall(self.text, fetch, self.check, limit_s=self.stall_s)
        except SnapshotError:
            raise
        except FileNotFoundError:
            raise SnapshotError(f"{self.text} lacks the file {name}") from None
        except (UpstreamError, OSError) as error:
            raise self._unreadable(name, error) from error
        except exceptions.NotFoundError:
            raise SnapshotError(f"{self.text} lacks the file {name}") from None
        except exceptions.BaseError as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, what: str, error: Exception) -> SnapshotError:
        return SnapshotError(f"{self.text}: {what} cannot be read: {StoreFailure.of(error).reason}")

    def _put(self, path: str, content: bytes | Iterable[bytes], attributes: dict[str, str]) -> None:
        if isinstance(self.store, stores.LocalStore):
            attributes = {}  # files have none
        try:
            if not isinstance(content, bytes) and not isinstance(self.store, stores.LocalStore):
                content = _whole_if_small(content)
            obstore.put(
                self.store,
                path,
                content,
                attributes=attributes,
                chunk_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_A_TIME,
            )
        except (exceptions.BaseError, OSError) as error:
            raise SnapshotError(f"{self.text}: {path} cannot be written: {StoreFailure.of(error).reason}") from error


class _UnknownFormError(ValueError):
    pass


def gunzipped(chunks: Iterator[bytes], what: str) -> Iterator[bytes]:
    """The content of a file that may be stored in gzip, as storage services and web servers do on request.

    SnapshotError names ``what`` when its gzip data is damaged.
    """
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= len(_GZIP):
            break
    if not first.startswith(_GZIP):
        if first:
            yield first
        yield from chunks
        return
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        for chunk in chain((first,), chunks):
            data, part = chunk, b""
            while not unpacker.eof and (data or len(part) == CHUNK_BYTES):
                part = unpacker.decompress(data, CHUNK_BYTES)
                data = unpacker.unconsumed_tail
                yield part
    except zlib.error as error:
        raise SnapshotError(f"{what} is damaged gzip data") from error
    if not unpacker.eof:
        raise SnapshotError(f"{what} is gzip data that ends too early")


def _open(scheme: str, host: str, path: str, query: str, *, create: bool) -> tuple[Any, str]:
    """The store, and the URL that leads to it from outside."""
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    client: Any = {"timeout": _REQUEST_TIME, "connect_timeout": _CONNECT_TIME}
    quoted = quote(path)
    given: Any
    if scheme == "file" and not host and path.startswith("/"):
        return stores.LocalStore(path, mkdir=create), f"file://{quoted}"
    if scheme == "s3" and host:
        endpoint = options.get("endpoint")
        given = {} if endpoint is None else {"endpoint": endpoint}
        client["allow_http"] = endpoint is not None and endpoint.startswith("http://")
        store = stores.S3Store(host, prefix=path.strip("/") or None, client_options=client, **given)
        return store, options.get("publicBaseUrl", f"s3://{host}{quoted}").rstrip("/")
    if scheme == "gs" and host:
        endpoint = options.get("endpoint")
        given = {} if endpoint is None else {"service_account_key": _stand_in_for_google(endpoint)}
        client["allow_http"] = endpoint is not None and endpoint.startswith("http://")
        return stores.GCSStore(
            host, prefix=path.strip("/") or None, client_options=client, **given
        ), f"gs://{host}{quoted}"
    if scheme in ("http", "https") and host:
        url = f"{scheme}://{host}{quoted}"
        if not is_http_url(url):
            raise ValueError("its host or port makes no sense")
        return WebFolder(url, _WEB), f"{scheme}://{host.rpartition('@')[2]}{quoted}"
    raise _UnknownFormError


def _stand_in_for_google(endpoint: str) -> str:
    """Credentials that lead to another server, and are none."""
    nothing = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return orjson.dumps({"gcs_base_url": endpoint, "disable_oauth": True, **nothing}).decode()


def _shown(text: str) -> str:
    try:
        return public_form(text)
    except ValueError:
        return "(not a URL)"


def _whole_if_small(chunks: Iterable[bytes]) -> bytes | Iterable[bytes]:
    """The content as one value where it has no more than one part: an upload in parts needs one at least, and an empty
    content has none."""
    some: list[bytes] = []
    size, rest = 0, iter(chunks)
    for chunk in rest:
        some.append(chunk)
        size += len(chunk)
        if size > _PART_BYTES:
            return chain(some, rest)
    return b"".join(some)
