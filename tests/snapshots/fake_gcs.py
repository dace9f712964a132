"""As much of Google Cloud Storage (its XML interface) as a client needs that writes, reads and lists objects."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["FakeGcs", "fake_gcs"]


class FakeGcs:
    """What is stored: objects by bucket and name, and the headers that each was written with.

    ``refusal``: status and body of every answer, instead.
    """

    def __init__(self, *buckets: str) -> None:
        self.buckets: dict[str, dict[str, bytes]] = {name: {} for name in buckets}
        self.headers: dict[str, dict[str, str]] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.url = ""
        self.refusal: tuple[int, bytes] | None = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FakeGcs

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _request(self) -> tuple[str, str, dict[str, str]]:
        url = urlsplit(self.path)
        bucket, _, name = unquote(url.path).lstrip("/").partition("/")
        return bucket, name, {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuses(self) -> bool:
        if self.store.refusal is None:
            return False
        self._body()
        self._answer(*self.store.refusal)
        return True

    def _keep(self, bucket: str, name: str, content: bytes) -> None:
        self.store.buckets[bucket][name] = content
        self.store.headers[name] = {key.lower(): value for key, value in self.headers.items()}
        self._answer(200, ETag=_tag(content))

    def do_PUT(self) -> None:
        if self._refuses():
            return
        bucket, name, query = self._request()
        body = self._body()
        if bucket not in self.store.buckets:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif "partNumber" in query:
            self.store.parts[query["uploadId"]][int(query["partNumber"])] = body
            self._answer(200, ETag=_tag(body))
        else:
            self._keep(bucket, name, body)

    def do_POST(self) -> None:
        if self._refuses():
            return
        bucket, name, query = self._request()
        body = self._body()
        if "uploads" in query:
            upload = f"upload-{len(self.store.parts)}"
            self.store.parts[upload] = {}
            element = "InitiateMultipartUploadResult"
            self._answer(200, f"<{element}><UploadId>{upload}</UploadId></{element}>".encode())
            return
        parts = self.store.parts[query["uploadId"]]
        wanted = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        content = b"".join(parts[number] for number in wanted)
        self.store.buckets[bucket][name] = content
        tag = escape(_tag(content))
        self._answer(200, f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>".encode())

    def do_GET(self) -> None:
        if self._refuses():
            return
        bucket, name, query = self._request()
        objects = self.store.buckets.get(bucket)
        if objects is None:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif "list-type" in query:
            self._answer(200, _listing(objects, query), Content_Type="application/xml")
        elif name in objects:
            modified = "Sat, 01 Jan 2022 00:00:00 GMT"
            self._answer(200, objects[name], ETag=_tag(objects[name]), Last_Modified=modified)
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    do_HEAD = do_GET  # noqa: N815 - the name that the base class looks for


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'


def _listing(objects: dict[str, bytes], query: dict[str, str]) -> bytes:
    """The folders right below the prefix, or all files, when no delimiter is given."""
    prefix = query.get("prefix", "")
    if not query.get("delimiter"):
        files = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size><ETag>{escape(_tag(content))}</ETag>"
            f"<LastModified>{datetime.now(UTC).isoformat(timespec='seconds').replace('+00:00', 'Z')}</LastModified>"
            f"</Contents>"
            for name, content in objects.items()
            if name.startswith(prefix)
        )
        return f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{files}</ListBucketResult>".encode()
    below = (name[len(prefix) :] for name in objects if name.startswith(prefix))
    folders = sorted({prefix + name.partition("/")[0] + "/" for name in below if "/" in name})
    common = "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
    return f"<ListBucketResult><Prefix>{escape(prefix)}</Prefix>{common}</ListBucketResult>".encode()


@contextmanager
def fake_gcs(*buckets: str) -> Iterator[FakeGcs]:
    """A server with these buckets, empty."""
    store = FakeGcs(*buckets)
    handler = type("Handler", (_Handler,), {"store": store})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        store.url = f"http://127.0.0.1:{server.server_port}"
        yield store
        server.shutdown()
        thread.join()
