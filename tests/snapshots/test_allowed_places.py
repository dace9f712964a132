"""Where a client of the admin port may send a snapshot."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fastnode.errors import SnapshotError
from fastnode.snapshots.allowed_places import below_named, public_form, require_allowed


def test_without_a_setting_only_files_below_the_data_directory(tmp_path: Path) -> None:
    require_allowed(f"file://{tmp_path}/snapshots", (), tmp_path)
    (tmp_path / "out").symlink_to("/")
    for location in (
        "file:///tmp",
        f"file://{tmp_path}/../other",
        f"file://{tmp_path}2",
        f"file://{tmp_path}/out/tmp",
        "s3://bucket/path",
        "gs://bucket",
    ):
        with pytest.raises(SnapshotError, match=r"files below the data directory only; .*--snapshot-upload-locations"):
            require_allowed(location, (), tmp_path)


@pytest.mark.parametrize("location", ["s3://bucket/fastnode", "s3://bucket/fastnode/mainnet", "file:///backup/today"])
def test_what_the_operator_names_is_allowed_with_all_below_it(location: str, tmp_path: Path) -> None:
    require_allowed(location, ("s3://bucket/fastnode", "file:///backup"), tmp_path)


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket",
        "s3://bucket/fastnode2",
        "s3://bucket/fastnode/../private",
        "s3://bucket/fastnode/%2e%2e/private",
        "s3://other/fastnode",
        "s3://bucket/fastnode?endpoint=https://evil.example",
        "gs://bucket/fastnode",
        "file:///",
    ],
)
def test_what_lies_beside_it_is_not(location: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="those of --snapshot-upload-locations only"):
        require_allowed(location, ("s3://bucket/fastnode",), tmp_path)


def test_another_server_is_allowed_by_naming_it(tmp_path: Path) -> None:
    allowed = ("s3://bucket/fastnode?endpoint=http://minio:9000",)
    require_allowed("s3://bucket/fastnode/a?endpoint=http://minio:9000", allowed, tmp_path)
    with pytest.raises(SnapshotError):
        require_allowed("s3://bucket/fastnode/a", allowed, tmp_path)


# ---- what others tell ------------------------------------------------------------------------------

NAMED = ("s3://bucket/fastnode?endpoint=http://minio:9000", "https://user:pw@snaps.example/dir", "file:///backup")


@pytest.mark.parametrize(
    ("told", "used"),
    [
        ("s3://bucket/fastnode", "s3://bucket/fastnode?endpoint=http://minio:9000"),
        ("s3://bucket/fastnode/a/b", "s3://bucket/fastnode/a/b?endpoint=http://minio:9000"),
        ("s3://bucket/fastnode/x?endpoint=http://evil.example", "s3://bucket/fastnode/x?endpoint=http://minio:9000"),
        ("https://snaps.example/dir/new", "https://user:pw@snaps.example/dir/new"),
        ("https://evil:evil@snaps.example/dir#x", "https://user:pw@snaps.example/dir"),
        ("file:///backup/today", "file:///backup/today"),
    ],
)
def test_what_a_publisher_tells_is_read_below_what_is_named_with_its_server_and_credentials(
    told: str, used: str
) -> None:
    assert below_named(told, NAMED) == used


def test_nothing_that_a_publisher_tells_leads_elsewhere() -> None:
    """A seeded attacker puts hosts, paths, queries and names together."""
    dice = random.Random(14)
    schemes = ("s3", "https", "http", "file", "gs", "S3", "ftp", "")
    hosts = ("bucket", "other", "snaps.example", "snaps.example.evil.example", "evil.example", "snaps.example:81",
             "bucket@evil.example", "evil.example@bucket", "169.254.169.254", "", "[::1]", "[", "bucket:x")  # fmt: skip
    parts = ("fastnode", "fastnode2", "dir", "backup", "..", ".", "%2e%2e", "%2F..", "a", "", "\\..", "etc")
    queries = ("", "?endpoint=http://evil.example", "?endpoint=http://169.254.169.254&publicBaseUrl=x", "?", "#x")
    outcomes = set()
    for _ in range(20_000):
        path = "/".join(dice.choice(parts) for _ in range(dice.randint(0, 5)))
        told = f"{dice.choice(schemes)}://{dice.choice(hosts)}/{path}{dice.choice(queries)}"
        used = below_named(told, NAMED)
        outcomes.add(used is None)
        if used is None:
            continue
        assert used.startswith(("s3://bucket/fastnode", "https://user:pw@snaps.example/dir", "file:///backup"))
        assert (used.partition("?")[2] == "endpoint=http://minio:9000") is used.startswith("s3:")
        assert "evil" not in used
        assert "169.254" not in used
        assert "/.." not in used
        assert "fastnode2" not in used.split("/")[:4]
    assert outcomes == {True, False}


def test_what_is_told_has_no_query_and_no_credentials() -> None:
    assert public_form("s3://key:secret@bucket/a?endpoint=http://minio:9000") == "s3://bucket/a"
