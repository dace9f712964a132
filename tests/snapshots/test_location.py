"""Where snapshots are kept: a folder, an S3 server, a web server, and what is none of these."""

from __future__ import annotations

import gzip
import http.server
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.snapshots.conftest import create_leaves_at
from tests.snapshots.fake_gcs import FakeGcs, fake_gcs

from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.errors import SnapshotError
from fastnode.snapshots.create import create_snapshot
from fastnode.snapshots.index import Network
from fastnode.snapshots.leaf_index import PartList, part_name
from fastnode.snapshots.leaf_restore import download_leaves, find_leaf_snapshots
from fastnode.snapshots.location import Location
from fastnode.snapshots.restore import choose_network, download, find_snapshots, ignore_progress

PATIENCE_S = 60.0


def verified(location: Location, network: Network, target: Path) -> int:
    """Block of the newest snapshot, after downloading and verifying it."""
    newest = find_snapshots(location, network)[0]
    download(target, location, network, newest)
    return newest.l2_block_number


# ---- forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/path",
        "ftp://host/path",
        "file://host/path",
        "file:path",
        "s3:///path",
        "gs://",
        "https:///path",
        "data:,x",
    ],
)
def test_an_unknown_form_is_answered_with_the_known_ones(text: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        Location.to_read(text)
    assert str(caught.value) == (
        f"Unknown file store config: '{text}'. Supported values are gs://bucket-name/path/to/store, "
        "s3://bucket-name/path/to/store, file:///absolute/local/path/to/store, https://host/path."
        + (" Is file:///path meant?" if text == "/path" else "")
    )


@pytest.mark.parametrize("text", ["https://host/path", "http://user:hunter2@host/path?key=hunter2"])
def test_the_web_is_for_reading_only_and_its_password_is_not_shown(text: str) -> None:
    with pytest.raises(SnapshotError, match=r"the location https?://host/path is for reading only"):
        Location.to_write(text)


def test_a_folder_is_made_for_writing_only(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="cannot be used"):
        Location.to_read(f"file://{tmp_path}/new")
    assert not (tmp_path / "new").exists()
    Location.to_write(f"file://{tmp_path}/new")
    assert (tmp_path / "new").is_dir()


def test_a_path_may_need_quoting(tmp_path: Path, long_directory: Path) -> None:
    location = Location.to_write(f"file://{tmp_path}/a%20b%23c")
    made = create_snapshot(long_directory, location, nullcontext())
    [folder] = (tmp_path / "a b#c").iterdir()
    for url in made.data_urls.values():
        assert url.startswith(f"file://{tmp_path}/a%20b%23c/{folder.name}/")
    assert verified(Location.to_read(folder.as_uri()), choose_network(location), tmp_path / "part") == 16


def test_two_snapshots_of_one_second_and_one_block_do_not_overwrite_each_other(
    long_directory: Path, tmp_path: Path
) -> None:
    location = Location.to_write(f"file://{tmp_path}/location")
    for _ in range(3):
        create_snapshot(long_directory, location, nullcontext())
    network = choose_network(location)
    found = find_snapshots(location, network)
    assert len({item.file_name("archiver") for item in found}) == 3
    for number, item in enumerate(found):
        download(tmp_path / f"part{number}", location, network, item)


def test_an_upload_without_its_index_is_no_snapshot(
    long_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Location.to_write(f"file://{tmp_path}/location")

    def fail(*_: object) -> None:
        raise SnapshotError("the disk is full")

    monkeypatch.setattr(Location, "write_index", fail)
    with pytest.raises(SnapshotError, match="the disk is full"):
        create_snapshot(long_directory, location, nullcontext())
    assert find_snapshots(location, choose_network(location)) == []
    assert not list(long_directory.glob("snapshot-*"))


# ---- a web server --------------------------------------------------------------------------------------


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(made_snapshot: Path) -> Iterator[str]:
    """The URL of a web server for the folder with a snapshot."""
    handler = partial(QuietHandler, directory=str(made_snapshot))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_snapshot_is_read_from_a_web_server(web: str, made_snapshot: Path, tmp_path: Path) -> None:
    [folder] = made_snapshot.iterdir()
    network = Network.of_folder(folder.name)
    assert network is not None
    assert verified(Location.to_read(web), network, tmp_path / "one") == 16
    by_folder = Location.to_read(f"{web}/{folder.name}")
    assert choose_network(by_folder) == network
    assert verified(by_folder, network, tmp_path / "two") == 16


@pytest.mark.parametrize("is_whole", [True, False], ids=["all files", "the index"])
def test_a_snapshot_that_is_stored_in_gzip_is_read(made_snapshot: Path, tmp_path: Path, is_whole: bool) -> None:
    """From a web server that names the coding, and from a folder."""
    packed = Path(shutil.copytree(made_snapshot, tmp_path / "packed"))
    for file in packed.glob("*/*" if is_whole else "*/index.json"):
        file.write_bytes(gzip.compress(file.read_bytes(), 1))

    class Coded(QuietHandler):
        def end_headers(self) -> None:
            if is_whole or self.path.endswith(".json"):
                self.send_header("Content-Encoding", "gzip")
            super().end_headers()

    network = Network.of_folder(next(packed.iterdir()).name)
    assert network is not None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Coded, directory=str(packed))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            location = Location.to_read(f"http://127.0.0.1:{server.server_port}")
            assert verified(location, network, tmp_path / "web") == 16
        finally:
            server.shutdown()
            thread.join()
    assert verified(Location.to_read(f"file://{packed}"), network, tmp_path / "folder") == 16


@pytest.mark.parametrize("damage", ["cut", "flipped", "bomb"])
def test_damaged_gzip_data_is_named(made_snapshot: Path, tmp_path: Path, damage: str) -> None:
    packed = Path(shutil.copytree(made_snapshot, tmp_path / "packed"))
    (index,) = packed.glob("*/index.json")
    content = gzip.compress(index.read_bytes())
    if damage == "cut":
        content = content[:-9]
    elif damage == "flipped":
        content = content[:20] + bytes([content[20] ^ 0xFF]) + content[21:]
    else:
        content = gzip.compress(bytes(64 << 20))
    index.write_bytes(content)
    network = Network.of_folder(index.parent.name)
    assert network is not None
    with pytest.raises(SnapshotError, match=r"the index is (damaged gzip data|gzip data that ends|larger than)"):
        Location.to_read(f"file://{packed}").read_index(network)


def test_a_network_that_a_web_server_does_not_have_has_no_snapshots(web: str) -> None:
    assert find_snapshots(Location.to_read(web), Network(1, 2, "0x" + "00" * 20)) == []


def test_a_web_server_that_cannot_list_wants_the_folder_of_a_network(web: str) -> None:
    with pytest.raises(SnapshotError, match=r"cannot be listed .*; name the one of a network"):
        choose_network(Location.to_read(web))


def test_a_web_server_that_leads_to_another_one_is_left(web: str, made_snapshot: Path, tmp_path: Path) -> None:
    """An index, or an archive behind a good index, that lies elsewhere: only this machine may be able to reach it."""
    [folder] = made_snapshot.iterdir()
    network = Network.of_folder(folder.name)
    assert network is not None
    asked: list[str] = []

    class Leads(QuietHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if moved_only not in self.path:
                super().do_GET()
                return
            self.send_response(http.HTTPStatus.TEMPORARY_REDIRECT)
            self.send_header("Location", f"{web}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Leads, directory=str(made_snapshot))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            for moved_only in ("index.json", "archiver"):
                location = Location.to_read(f"http://127.0.0.1:{server.server_port}")
                with pytest.raises(SnapshotError, match=r"cannot be read: it redirects to another server, 127.0.0.1:"):
                    verified(location, network, tmp_path / moved_only)
        finally:
            server.shutdown()
            thread.join()
    assert len(asked) == 3


def test_the_web_is_read_without_the_library_of_clouds(
    web: str, made_snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("obstore", "obstore.exceptions", "obstore.store"):
        monkeypatch.setitem(sys.modules, name, None)
    [folder] = made_snapshot.iterdir()
    location = Location.to_read(f"{web}/{folder.name}")
    network = choose_network(location)
    assert verified(location, network, tmp_path / "part") == 16
    with pytest.raises(SnapshotError, match="lacks the file other"):
        list(location.read_archive(network, "other"))
    assert find_snapshots(Location.to_read(f"{web}/elsewhere"), network) == []


# ---- S3 ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """The address of a server that speaks S3, with one bucket."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = os.environ | {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        _make_bucket(f"{url}/bucket", server)
        yield url
    finally:
        server.terminate()
        server.wait()


def _make_bucket(url: str, server: subprocess.Popen[bytes]) -> None:
    """As soon as the server listens; its first answer takes seconds, for which it loads what it needs."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=PATIENCE_S):
                return
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, "the server did not start"
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.mark.usefixtures("credentials")
def test_a_snapshot_is_written_to_s3_and_read_from_there(
    s3_endpoint: str, long_directory: Path, tmp_path: Path
) -> None:
    url = f"s3://bucket/some/path?endpoint={s3_endpoint}&publicBaseUrl=https://snapshots.example/here/"
    location = Location.to_write(url)
    made = create_snapshot(long_directory, location, nullcontext())
    network = choose_network(Location.to_read(url))
    assert made.data_urls["archiver"] == (
        f"https://snapshots.example/here/{network.folder}/{made.file_name('archiver')}"
    )
    assert location.text == "s3://bucket/some/path"
    assert verified(Location.to_read(url), network, tmp_path / "part") == 16
    again = create_snapshot(long_directory, location, nullcontext())
    assert [item.timestamp_ms for item in find_snapshots(location, network)] == [again.timestamp_ms, made.timestamp_ms]


@pytest.mark.usefixtures("credentials")
def test_an_archive_of_several_parts_arrives_whole(s3_endpoint: str) -> None:
    location = Location.to_write(f"s3://bucket/parts?endpoint={s3_endpoint}")
    network = Network(1, 2, "0x" + "00" * 20)
    chunks = [os.urandom(1 << 20) for _ in range(19)]
    location.write_archive(network, "large.tar", iter(chunks))
    assert b"".join(location.read_archive(network, "large.tar")) == b"".join(chunks)


@pytest.mark.usefixtures("credentials")
def test_a_bucket_that_is_not_there_is_one_line(s3_endpoint: str, long_directory: Path) -> None:
    location = Location.to_write(f"s3://nobody?endpoint={s3_endpoint}")
    with pytest.raises(SnapshotError, match=r"s3://nobody: .* cannot be (read|written)") as caught:
        create_snapshot(long_directory, location, nullcontext())
    assert "\n" not in str(caught.value)


# ---- Google Cloud Storage ----------------------------------------------------------------------------------


@pytest.fixture
def gcs() -> Iterator[FakeGcs]:
    """A server with one bucket that stands in for Google's."""
    with fake_gcs("bucket") as server:
        yield server


def test_a_snapshot_is_written_to_google_and_read_from_there(
    gcs: FakeGcs, long_directory: Path, tmp_path: Path
) -> None:
    url = f"gs://bucket/some/path?endpoint={gcs.url}"
    location = Location.to_write(url)
    assert location.text == "gs://bucket/some/path"
    made = create_snapshot(long_directory, location, nullcontext())
    network = choose_network(Location.to_read(url))
    folder = f"some/path/{network.folder}"
    assert made.data_urls["archiver"] == f"gs://bucket/{folder}/{made.file_name('archiver')}"
    assert set(gcs.buckets["bucket"]) == {
        f"{folder}/index.json",
        f"{folder}/{made.file_name('archiver')}",
        f"{folder}/{made.file_name('world-state')}",
    }
    assert gcs.headers[f"{folder}/index.json"]["cache-control"] == "no-store"
    assert verified(Location.to_read(url), network, tmp_path / "part") == 16
    again = create_snapshot(long_directory, location, nullcontext())
    assert [item.timestamp_ms for item in find_snapshots(location, network)] == [again.timestamp_ms, made.timestamp_ms]


def test_an_archive_of_several_parts_arrives_whole_at_google(gcs: FakeGcs) -> None:
    location = Location.to_write(f"gs://bucket/parts?endpoint={gcs.url}")
    network = Network(1, 2, "0x" + "00" * 20)
    chunks = [os.urandom(1 << 20) for _ in range(19)]
    location.write_archive(network, "large.tar", iter(chunks))
    assert len(gcs.parts["upload-0"]) == 3
    assert b"".join(location.read_archive(network, "large.tar")) == b"".join(chunks)


def test_a_flipped_bit_at_google_is_found(gcs: FakeGcs, long_directory: Path, tmp_path: Path) -> None:
    location = Location.to_write(f"gs://bucket?endpoint={gcs.url}")
    made = create_snapshot(long_directory, location, nullcontext())
    network = choose_network(location)
    name = f"{network.folder}/{made.file_name('archiver')}"
    content = bytearray(gcs.buckets["bucket"][name])
    content[len(content) // 2] ^= 1
    gcs.buckets["bucket"][name] = bytes(content)
    with pytest.raises(SnapshotError):
        verified(location, network, tmp_path / "part")


def test_a_bucket_of_google_that_is_not_there_is_one_line(gcs: FakeGcs, long_directory: Path) -> None:
    location = Location.to_write(f"gs://nobody?endpoint={gcs.url}")
    with pytest.raises(SnapshotError, match=r"gs://nobody: .* cannot be (read|written)") as caught:
        create_snapshot(long_directory, location, nullcontext())
    assert "\n" not in str(caught.value)


def test_what_google_says_is_quoted_in_one_line(gcs: FakeGcs) -> None:
    location = Location.to_read(f"gs://bucket?endpoint={gcs.url}")
    gcs.refusal = 403, b'{\n "error": {\n  "message": "x@y does not have storage.objects.list access"}}'
    said = "HTTP status 403: x@y does not have storage.objects.list access (check the credentials in the environment)"
    with pytest.raises(SnapshotError) as listed:
        location.networks()
    assert f"cannot be listed ({said})" in str(listed.value)
    with pytest.raises(SnapshotError) as read:
        location.read_index(Network(1, 2, "0x" + "00" * 20))
    assert str(read.value) == f"gs://bucket: the index cannot be read: {said}"


# ---- snapshots of leaves ---------------------------------------------------------------------------------


@pytest.fixture
def giver(long_directory: Path, tmp_path: Path) -> Path:
    """A data directory whose leaves are shipped."""
    return Path(shutil.copytree(long_directory, tmp_path / "giver"))


def made_of_leaves(location: Location, network: Network, target: Path) -> int:
    """Newest block of the state that is made of the newest leaves of a location."""
    download_leaves(target, location, network, find_leaf_snapshots(location, network)[0], on_progress=ignore_progress)
    with ChainData.open(target, create=False) as data:
        assert check_data(data).problems == []
        return data.state.block_number


def require_leaves_arrive(url: str, giver: Path, tmp_path: Path) -> None:
    """They do, and those that are made again upload no part of a tree."""
    location = Location.to_write(url)
    made = create_leaves_at(giver, location)
    reader = Location.to_read(url)
    network = choose_network(reader)
    assert find_leaf_snapshots(reader, network) == [made]
    assert made_of_leaves(reader, network, tmp_path / "part") == 16
    written: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "write_archive", lambda _self, _network, name, _chunks: written.append(name))
        again = create_leaves_at(giver, location)
    text = reader.read_file(network, made.list_name, made.parts.bytes, "the list")
    assert text is not None
    leaves = {part_name(facts) for each in PartList.from_bytes(text).leaves for facts in each}
    assert leaves
    assert leaves.isdisjoint(written)
    assert find_leaf_snapshots(location, network)[0] == again


@pytest.mark.usefixtures("credentials")
def test_leaves_go_to_s3_and_come_from_there(s3_endpoint: str, giver: Path, tmp_path: Path) -> None:
    require_leaves_arrive(f"s3://bucket/leaves?endpoint={s3_endpoint}", giver, tmp_path)


def test_leaves_go_to_google_and_come_from_there(gcs: FakeGcs, giver: Path, tmp_path: Path) -> None:
    require_leaves_arrive(f"gs://bucket/leaves?endpoint={gcs.url}", giver, tmp_path)


def test_a_flipped_bit_of_a_part_at_google_is_found_and_the_others_are_kept(
    gcs: FakeGcs, giver: Path, tmp_path: Path
) -> None:
    location = Location.to_write(f"gs://bucket?endpoint={gcs.url}")
    create_leaves_at(giver, location)
    network = choose_network(location)
    names = sorted(name for name in gcs.buckets["bucket"] if "/parts/" in name)
    right = gcs.buckets["bucket"][names[-1]]
    gcs.buckets["bucket"][names[-1]] = bytes((right[0] ^ 1,)) + right[1:]
    with pytest.raises(SnapshotError, match="its SHA-256 is another one"):
        made_of_leaves(location, network, tmp_path / "part")
    gcs.buckets["bucket"][names[-1]] = right
    assert made_of_leaves(location, network, tmp_path / "part") == 16


def test_leaves_are_read_from_a_web_server_and_gone_on_with_when_it_is_back(made_leaves: Path, tmp_path: Path) -> None:
    [folder] = made_leaves.iterdir()
    network = Network.of_folder(folder.name)
    assert network is not None
    served: list[str] = []
    parts_before_silence = 3

    class Counts(QuietHandler):
        def do_GET(self) -> None:
            if "/parts/" in self.path:
                if len(served) == parts_before_silence:
                    self.send_error(http.HTTPStatus.NOT_FOUND)
                    return
                served.append(self.path)
            super().do_GET()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Counts, directory=str(made_leaves))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            location = Location.to_read(f"http://127.0.0.1:{server.server_port}")
            with pytest.raises(SnapshotError, match="lacks the file parts/"):
                made_of_leaves(location, network, tmp_path / "part")
            parts_before_silence = 1_000_000
            assert made_of_leaves(location, network, tmp_path / "part") == 16
        finally:
            server.shutdown()
            thread.join()
    assert len(served) == len(set(served))
