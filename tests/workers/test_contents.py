"""Contents of transactions, in files for all workers: what is referred to is read, what nobody needs is removed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.errors import DatabaseUnreadable
from fastnode.mempool.store import entry_key, is_json_key, json_key
from fastnode.workers.contents import ContentsReader, ContentsWriter

_KIB = 1 << 10


def _content(number: int, length: int = 10 * _KIB) -> bytes:
    return b"{" + random.Random(number).randbytes(length - 1)


def _key(number: int) -> bytes:
    return json_key(number.to_bytes(32, "big"))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[ContentsWriter]:
    made = ContentsWriter(
        tmp_path / "contents", is_json_key, file_bytes_max=50 * _KIB, total_bytes_max=200 * _KIB, kept_s=0.0
    )
    yield made
    made.close()
    assert not list((tmp_path / "contents").glob("*"))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[ContentsReader]:
    made = ContentsReader(tmp_path / "contents")
    yield made
    made.close()


def test_a_content_is_written_once_and_read_by_its_reference(
    writer: ContentsWriter, reader: ContentsReader, tmp_path: Path
) -> None:
    short, record = (_key(8), b"{}"), (entry_key(bytes(32)), bytes(10 * _KIB))
    changes = [(_key(number), _content(number)) for number in range(8)]
    sent = writer.refer([*changes, short, record, (_key(99), None)])
    assert sent[8:] == [short, record, (_key(99), None)]
    assert sum(len(value or b"") for _, value in sent[:8]) < _KIB
    for _, value in sent[:9]:
        reader.note(value)
    assert [reader.read(value) for _, value in sent[:9]] == [value for _, value in [*changes, short]]
    assert sum(file.stat().st_size for file in (tmp_path / "contents").iterdir()) == 80 * _KIB == writer.total_bytes


def test_a_file_is_removed_when_all_that_it_holds_has_left_the_pool(
    writer: ContentsWriter, reader: ContentsReader, tmp_path: Path
) -> None:
    ((_, first), *_), *_ = [writer.refer([(_key(number), _content(number))]) for number in range(10)]
    reader.note(first)
    for number in range(4):
        assert writer.refer([(_key(number), None)]) == [(_key(number), None)]
    assert reader.read(first) == _content(0)  # it may still be asked for
    writer.forget([(_key(4), None)])
    writer.forget([])
    assert len(list((tmp_path / "contents").iterdir())) == 1
    reader.tidy()
    assert reader.read(first) is None


def test_what_is_left_is_written_anew_before_the_files_grow_without_bound(
    writer: ContentsWriter, reader: ContentsReader
) -> None:
    """Each tenth transaction stays: every file holds some of them."""
    database: dict[bytes, bytes | None] = {}
    stay = []
    for number in range(300):
        for key, value in writer.refer([(_key(number), _content(number))]):
            reader.note(value)
            database[key] = value
        if number % 10 == 0 and number < 100:
            stay.append(number)
            continue
        for key, value in writer.refer([(_key(number), None)]):
            reader.note(value)
            database[key] = value
        assert writer.total_bytes <= 300 * _KIB
    assert [reader.read(database[_key(number)]) for number in stay] == [_content(number) for number in stay]


def test_a_content_travels_with_its_batch_when_there_is_no_room_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "contents").write_bytes(b"")
    changes = [(_key(1), _content(1))]
    assert ContentsWriter(tmp_path / "contents", is_json_key).refer(changes) == changes


def test_a_worker_that_is_far_behind_passes_over_what_has_left_the_pool_already(
    writer: ContentsWriter, reader: ContentsReader
) -> None:
    ((_, value),) = writer.refer([(_key(1), _content(1))])
    writer.forget([(_key(1), None)])
    writer.forget([])
    reader.note(value)
    assert reader.read(value) is None


def test_a_damaged_content_is_never_given_as_if_it_were_whole(
    writer: ContentsWriter, reader: ContentsReader, tmp_path: Path
) -> None:
    ((_, value),) = writer.refer([(_key(1), _content(1))])
    reader.note(value)
    with (tmp_path / "contents" / "1").open("r+b") as file:
        file.seek(5_000)
        file.write(b"damaged")
    with pytest.raises(DatabaseUnreadable, match="damaged"):
        reader.read(value)
