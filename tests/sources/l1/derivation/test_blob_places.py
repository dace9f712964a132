"""Places of blobs beside consensus clients: object stores and a blob archive, each as the only one, on real sockets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from tests.http_stand_in import HttpStandIn, answer_json
from tests.snapshots.fake_gcs import FakeGcs, fake_gcs
from tests.sources.l1.derivation.deriving import deriving, has
from tests.sources.l1.publishing import PublishingL1
from tests.sources.made_chain import MadeChain

from fastnode.errors import BlobsUnavailable
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import ClientLimits
from fastnode.protocol.kzg import BLOB_BYTES
from fastnode.sources.blobs import fetcher as fetcher_module
from fastnode.sources.blobs.archive_api import BlobArchive
from fastnode.sources.blobs.base import BlobAnswerTooLarge, BlobRequest, BlobSourceError, GivenBlob
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobFetcher, BlobSources
from fastnode.sources.blobs.file_store import FileStore, folder_of
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.blobs.own import OwnBlobs
from fastnode.sources.l1.abi import hex_data

Json = dict[str, Any]
BUCKET = "bucket"


# ---- object stores ----------------------------------------------------------------------------


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGcs]:
    """It speaks as much of S3 and of Google's interface as a blob store needs; credentials are from the environment."""
    with fake_gcs(BUCKET) as server:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "none")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        key = {"gcs_base_url": server.url, "disable_oauth": True}
        nothing = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key | nothing))
        yield server


def url_of(kind: str, server: FakeGcs) -> str:
    return {
        "s3": f"s3://{BUCKET}/blobs?endpoint={server.url}",
        "gs": f"gs://{BUCKET}/blobs",
        "http": f"{server.url}/{BUCKET}/blobs",
    }[kind]


def fill(server: FakeGcs, kind: str, chain: MadeChain, l1: PublishingL1) -> str:
    """Upload all blobs as another node does; gives the folder of the rollup."""
    info = chain.chain_record["nodeInfo"]
    folder = folder_of(int(info["l1ChainId"]), int(info["rollupVersion"]), l1.rollup)
    writer = FileStore(url_of("s3" if kind == "http" else kind, server), folder, "upload", is_written=True)
    writer.sign_as_healthy()
    for unit in chain.units:
        sheet = l1.sheet(unit.published or {})
        for blob, commitment, item in zip(sheet.blobs, sheet.commitments, sheet.hashes, strict=True):
            assert writer.upload(item, blob, commitment)
            assert not writer.upload(item, blob, commitment)
    return folder


@pytest.mark.parametrize("kind", ["s3", "gs", "http"])
def test_an_object_store_alone_is_enough(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, server: FakeGcs, kind: str
) -> None:
    folder = fill(server, kind, chain, l1)
    store = FileStore(url_of(kind, server), folder, "blob store 1")
    store.check()
    with deriving(tmp_path, chain, l1, lambda _: BlobSources(stores=(store,))) as node:
        node.pass_()
        assert has(node, chain)
    assert l1.beacon.requests == []


@pytest.mark.parametrize("kind", ["s3", "gs", "http"])
def test_an_object_store_without_a_health_file_is_named(
    chain: MadeChain, l1: PublishingL1, server: FakeGcs, kind: str
) -> None:
    folder = fill(server, kind, chain, l1)
    del server.buckets[BUCKET][f"blobs/{folder}/.healthcheck"]
    with pytest.raises(BlobSourceError, match=rf"it has no file {folder}/\.healthcheck"):
        FileStore(url_of(kind, server), folder, "blob store 1").check()


@pytest.mark.parametrize("kind", ["s3", "gs", "http"])
def test_a_lying_object_store_gives_nothing(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, server: FakeGcs, kind: str
) -> None:
    """Each file is that of another blob; its claimed commitment is not looked at."""
    folder = fill(server, kind, chain, l1)
    objects = server.buckets[BUCKET]
    names = [name for name in objects if name.endswith(".data")]
    objects |= dict(zip(names, [objects[name] for name in names[1:] + names[:1]], strict=True))
    store = FileStore(url_of(kind, server), folder, "blob store 1")
    with deriving(tmp_path, chain, l1, lambda _: BlobSources(stores=(store,))) as node:
        with pytest.raises(BlobsUnavailable, match=r"blob store 1: it gave . blobs, none of which has a hash"):
            node.pass_()
        assert node.checkpoint == 0


S3_DOCUMENT = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>User: arn:aws:iam::1:user/x is '
    b"not authorized to perform: s3:GetObject</Message><RequestId>TX1</RequestId></Error>"
)
GOOGLE_DOCUMENT = b'{\n "error": {\n  "code": 403,\n  "message": "x@y does not have storage.objects.get access."}}'
CREDENTIALS = " (check the credentials in the environment)"


@pytest.mark.parametrize(
    ("kind", "status", "body", "reason"),
    [
        (
            "s3",
            403,
            S3_DOCUMENT,
            "HTTP status 403: AccessDenied: User: arn:aws:iam::1:user/x is not authorized to perform: s3:GetObject"
            + CREDENTIALS,
        ),
        ("gs", 403, GOOGLE_DOCUMENT, "HTTP status 403: x@y does not have storage.objects.get access." + CREDENTIALS),
        ("gs", 401, b"<html>\nlog in", "HTTP status 401: b'<html>\\nlog in'" + CREDENTIALS),
        ("s3", 503, b"", "HTTP status 503"),
    ],
)
def test_status_and_message_of_an_object_store_are_quoted(
    chain: MadeChain, l1: PublishingL1, server: FakeGcs, kind: str, status: int, body: bytes, reason: str
) -> None:
    store = FileStore(url_of(kind, server), fill(server, kind, chain, l1), "upload", is_written=True)
    server.refusal = status, body
    with pytest.raises(BlobSourceError) as read:
        store.check()
    with pytest.raises(BlobSourceError) as written:
        store.sign_as_healthy()
    assert str(read.value) == reason
    assert str(written.value) == f"it cannot be written: {reason}"
    assert read.value.status == status
    assert read.value.is_passing is (status == 503)


@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_missing_bucket_is_named(server: FakeGcs, kind: str) -> None:
    store = FileStore(url_of(kind, server), "folder", "blob store 1")
    del server.buckets[BUCKET]
    with pytest.raises(BlobSourceError, match=r"^HTTP status 404: NoSuchBucket$"):
        store.check()


# ---- archive ----------------------------------------------------------------------------------


class ScriptedArchive(HttpStandIn):
    """The interface of Blobscan over the blobs of a scripted L1."""

    def __init__(self, l1: PublishingL1) -> None:
        super().__init__()
        self._l1 = l1
        self.requests: list[str] = []
        self.lies = False
        self.beside = ""
        self.status = 200
        self.url += "/api"

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append(handler.path)
        status, value = self.answer(handler.path)
        answer_json(handler, value, status)

    def answer(self, target: str) -> tuple[int, Json]:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        if self.status != 200:
            return self.status, {}
        if parts.path == "/api/blocks":
            return 200, {"blocks": [{"hash": hex_data(self._l1.head.hash)}]}
        assert query == {"type": ["canonical"], "expand": ["blob,blob_data"]}
        wanted = parts.path.rpartition("/")[2]
        block = next((block for block in self._l1.blocks if hex_data(block.hash) == wanted), None)
        if block is None:
            return 404, {}
        blobs = [
            {"versionedHash": hex_data(item), "data": hex_data(self._shown(blob).ljust(BLOB_BYTES, b"\0"))}
            for item, blob in self._l1.beacon.blobs.get(block.number, [])
        ]
        # Blobs of another rollup in the same block.
        other = {"versionedHash": "0x01" + "22" * 31, "data": hex_data(bytes(BLOB_BYTES))}
        return 200, {"transactions": [{"blobs": [other]}, {"blobs": blobs}], "beside": self.beside}

    def _shown(self, blob: bytes) -> bytes:
        return blob[:31] + b"\2" + blob[32:] if self.lies else blob


@pytest.fixture
def archive(l1: PublishingL1) -> Iterator[ScriptedArchive]:
    archive = ScriptedArchive(l1)
    yield archive
    archive.close()


def test_a_blob_archive_alone_is_enough(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, archive: ScriptedArchive
) -> None:
    def sources(http: HttpGet) -> BlobSources:
        found = BlobArchive(archive.url, http, "blob archive")
        found.check()
        return BlobSources(archives=(found,))

    with deriving(tmp_path, chain, l1, sources) as node:
        node.pass_()
        assert has(node, chain)
    assert l1.beacon.requests == []


def test_a_blob_archive_is_asked_last(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, archive: ScriptedArchive
) -> None:
    l1.beacon.hidden = set(l1.sheet(chain.units[1].published or {}).hashes)

    def sources(http: HttpGet) -> BlobSources:
        beacon = BeaconNode(l1.beacon.url, http, "beacon 1")
        return BlobSources(consensus=(beacon,), archives=(BlobArchive(archive.url, http, "blob archive"),))

    with deriving(tmp_path, chain, l1, sources) as node:
        node.pass_()
        assert has(node, chain)
        assert len(archive.requests) == 1, "only for the checkpoint whose blobs the consensus client does not have"


def test_a_lying_blob_archive_gives_nothing(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, archive: ScriptedArchive
) -> None:
    archive.lies = True
    with deriving(
        tmp_path, chain, l1, lambda http: BlobSources(archives=(BlobArchive(archive.url, http, "blob archive"),))
    ) as node:
        with pytest.raises(BlobsUnavailable, match="blob archive: it gave 1 blobs, none of which has a hash"):
            node.pass_()
        assert node.checkpoint == 0


@pytest.mark.parametrize(("status", "reason"), [(404, "it does not have them"), (503, "HTTP status 503")])
def test_a_blob_archive_that_has_nothing_is_named(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, archive: ScriptedArchive, status: int, reason: str
) -> None:
    archive.status = status
    with (
        deriving(
            tmp_path, chain, l1, lambda http: BlobSources(archives=(BlobArchive(archive.url, http, "blob archive"),))
        ) as node,
        pytest.raises(BlobsUnavailable, match=f"blob archive: {reason}"),
    ):
        node.pass_()


def test_a_folder_to_read_blobs_from_must_be_there(tmp_path: Path) -> None:
    missing = tmp_path / "no such folder"
    with pytest.raises(BlobSourceError, match=rf"^it cannot be used: there is no folder {missing}$"):
        FileStore(f"file://{quote(str(missing))}", "aztec-1-2-0x03", "blob store 1")
    FileStore(f"file://{quote(str(missing))}", "aztec-1-2-0x03", "blob upload", is_written=True).sign_as_healthy()
    FileStore(f"file://{quote(str(missing))}", "aztec-1-2-0x03", "blob store 1").check()


# ---- answers that are larger than usual ----------------------------------------------------------


class Lavish:
    """A place of blobs whose answers are megabytes of nothing that was asked for."""

    name = "lavish place"

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self.at_a_time = self.most = self.answers = 0

    def check(self) -> None:
        """Always there."""

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        if ClientLimits.of_provider(1.0).here.response_bytes_max < 8 << 20:
            raise BlobAnswerTooLarge("its answer is too large")
        with self._counting:
            self.answers += 1
            self.at_a_time += 1
            self.most = max(self.most, self.at_a_time)
        time.sleep(0.002)
        yield GivenBlob(b"\0")
        with self._counting:
            self.at_a_time -= 1


def test_one_large_answer_is_in_use_at_a_time_whatever_is_derived_ahead() -> None:
    place, count = Lavish(), 16
    request = BlobRequest(1, (b"\1" * 32,), 1, bytes(32), 1, lambda: None)
    with ThreadPoolExecutor(count) as threads:
        fetcher = BlobFetcher(BlobSources(consensus=(place,)), threads)
        fetches = [threads.submit(fetcher.fetch, request, near_tip=False) for _ in range(count)]
        for fetch in fetches:
            with pytest.raises(BlobsUnavailable, match="lavish place"):
                fetch.result()
    assert place.answers >= 1
    assert place.most == 1


def test_an_archive_that_tells_more_than_usual_is_asked_again_and_one_that_tells_too_much_left_alone(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, archive: ScriptedArchive
) -> None:
    def sources(http: HttpGet) -> BlobSources:
        limited = HttpGet(http.network, ClientLimits.of_provider(10.0))
        return BlobSources(archives=(BlobArchive(archive.url, limited, "blob archive"),))

    archive.beside = "x" * (25 << 20)
    with deriving(tmp_path, chain, l1, sources) as node:
        with pytest.raises(BlobsUnavailable, match=f"exceeds {24 << 20} bytes"):
            node.pass_()
        archive.beside = "x" * (4 << 20)
        node.pass_()
        assert has(node, chain)


# ---- sources that cannot be reached -------------------------------------------------------------


class Scripted:
    """A blob source that has everything, and writes down that it is asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self._asked, self.is_away = name, asked, False

    def check(self) -> None:
        if self.is_away:
            raise BlobSourceError("no connection", is_passing=True)

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        self._asked.append(self.name)
        self.check()
        yield from (GivenBlob(b"", item) for item in request.versioned_hashes)


def test_a_source_that_cannot_be_reached_comes_last_until_a_check_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_module, "_REACH_PATIENCE", Patience(unavailable_s=0.0))
    asked: list[str] = []
    first, second = Scripted("first", asked), Scripted("second", asked)
    item = b"\1" * 32
    request = BlobRequest(1, (item,), 1, bytes(32), 1, lambda: None, commitments={item: b""})
    with ThreadPoolExecutor(1) as threads:
        fetcher = BlobFetcher(BlobSources(consensus=(first, second)), threads)

        def asked_in_a_fetch() -> list[str]:
            asked.clear()
            fetcher.fetch(request, near_tip=False)
            threads.submit(lambda: None).result()  # behind a check in the background
            return list(asked)

        first.is_away = True
        assert asked_in_a_fetch() == ["first", "second"]
        assert asked_in_a_fetch() == ["second"]
        first.is_away = False
        assert asked_in_a_fetch() == ["second"], "the check is made meanwhile"
        assert asked_in_a_fetch() == ["first"]


# ---- what the node has published itself --------------------------------------------------------


def keep_all(own: OwnBlobs, chain: MadeChain, l1: PublishingL1) -> None:
    for unit in chain.units:
        sheet = l1.sheet(unit.published or {})
        own.keep([blob.ljust(BLOB_BYTES, b"\0") for blob in sheet.blobs], sheet.commitments)


def test_a_node_needs_nobody_for_the_blobs_that_it_has_published(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    own = OwnBlobs(tmp_path / "own")
    with deriving(tmp_path, chain, l1, lambda http: BlobSources(own=own)) as node:
        with pytest.raises(BlobsUnavailable, match="own blobs: it does not have them"):
            node.pass_()
        keep_all(own, chain, l1)
        node.pass_()
        assert has(node, chain)
        [told] = node.fetcher.describe()
        assert (told["name"], told["wrongBlobs"]) == ("own blobs", 0)


def test_own_blobs_are_no_place_of_the_blobs_of_others(tmp_path: Path) -> None:
    """A node that has no other is told so at its start."""
    assert BlobSources(own=OwnBlobs(tmp_path)).all == ()


def test_the_folder_of_own_blobs_is_waited_for_once(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, synced: list[str]
) -> None:
    unit = max(chain.units, key=lambda unit: len(l1.sheet(unit.published or {}).blobs))
    sheet = l1.sheet(unit.published or {})
    blobs = [*sheet.blobs, bytes(BLOB_BYTES)]
    OwnBlobs(tmp_path).keep(blobs, [*sheet.commitments, b"\xc0" + bytes(47)])
    assert len(synced) == len(blobs) + 1
    assert synced[-1] == tmp_path.name


def test_the_oldest_own_blobs_go(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.sources.blobs.own.KEPT_MAX", 2)
    own = OwnBlobs(tmp_path)
    keep_all(own, chain, l1)
    sheets = [l1.sheet(unit.published or {}) for unit in chain.units]
    newest = {hex_data(item) + ".blob" for sheet in sheets[-2:] for item in sheet.hashes}
    assert {file.name for file in tmp_path.iterdir() if file.suffix == ".blob"} == newest
