"""Files that are replaced whole."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastnode import files
from fastnode.files import (
    UNFINISHED_SUFFIX,
    make_folder,
    put_file,
    read_checked_file,
    replace_checked_file,
    replace_file,
    sync_path,
)


def test_a_file_gets_its_content_of_all_parts(tmp_path: Path) -> None:
    replace_file(tmp_path / "facts", b"one ", b"two")
    assert (tmp_path / "facts").read_bytes() == b"one two"
    replace_file(tmp_path / "facts", b"three")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("facts", b"three")]


def test_a_secret_is_readable_by_its_owner_alone_also_where_a_killed_process_left_a_half(tmp_path: Path) -> None:
    half = tmp_path / ("key" + UNFINISHED_SUFFIX)
    half.write_bytes(b"ha")
    half.chmod(0o644)
    replace_file(tmp_path / "key", b"secret", mode=0o600)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert not half.exists()


def test_content_and_then_name_are_on_disk_before_it_returns(tmp_path: Path, synced: list[str]) -> None:
    replace_file(tmp_path / "facts", b"one")
    assert synced == ["facts" + UNFINISHED_SUFFIX, tmp_path.name]
    synced.clear()
    sync_path(tmp_path / "facts")
    assert synced == ["facts"]


def test_one_of_many_is_on_disk_without_its_name_and_what_may_be_lost_waits_for_nothing(
    tmp_path: Path, synced: list[str]
) -> None:
    put_file(tmp_path / "facts", b"one")
    assert synced == ["facts" + UNFINISHED_SUFFIX]
    synced.clear()
    put_file(tmp_path / "facts", b"two", is_synced=False)
    assert synced == []
    assert (tmp_path / "facts").read_bytes() == b"two"


def test_what_the_disk_refuses_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(tmp_path / "facts", b"old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "facts", b"new")
    assert (tmp_path / "facts").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "facts"], (
        "what is left of the new one takes the room that others need"
    )


def test_what_cannot_be_put_under_its_name_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    with pytest.raises(IsADirectoryError):
        put_file(tmp_path / "facts", b"new")
    assert [item.name for item in tmp_path.iterdir()] == ["facts"]


@pytest.mark.parametrize("content", [b"", b"one\n", bytes(range(200))])
def test_a_checked_file_is_what_was_written_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "facts"
    replace_checked_file(path, content)
    assert read_checked_file(path) == content
    written = path.read_bytes()
    damages = [written[:left] for left in range(len(written))]
    for place in range(len(written) * 8):
        changed = bytearray(written)
        changed[place // 8] ^= 1 << place % 8
        damages.append(bytes(changed))
    for damage in damages:
        path.write_bytes(damage)
        with pytest.raises(ValueError, match="its checksum is wrong"):
            read_checked_file(path)


def test_a_process_that_is_killed_while_it_writes_leaves_one_whole_content(tmp_path: Path) -> None:
    program = (
        "import itertools, pathlib, sys\n"
        "from fastnode.files import replace_file\n"
        "for number in itertools.count():\n"
        "    replace_file(pathlib.Path(sys.argv[1]), b'%d,' % number * 10_000)\n"
    )
    path = tmp_path / "facts"
    for _ in range(5):
        path.unlink(missing_ok=True)
        writer = subprocess.Popen([sys.executable, "-c", program, str(path)])
        while not path.exists() or path.read_bytes().startswith(b"0,"):
            assert writer.poll() is None
            time.sleep(0.001)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        numbers = path.read_bytes().split(b",")
        assert len(numbers) == 10_001
        assert len(set(numbers[:-1])) == 1


def test_a_folder_is_on_disk_with_those_that_it_lies_in(tmp_path: Path, synced: list[str]) -> None:
    make_folder(tmp_path / "one" / "two")
    assert (tmp_path / "one" / "two").is_dir()
    assert synced == [tmp_path.name, "one"]
    make_folder(tmp_path / "one" / "two")
    assert len(synced) == 2, "it is there"
