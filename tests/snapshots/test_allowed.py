"""Where a client of the admin port may send a snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastnode.errors import SnapshotError
from fastnode.snapshots.allowed import require_allowed


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
