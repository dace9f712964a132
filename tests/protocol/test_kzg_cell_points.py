"""The points for proofs of cells: made once, kept, and never taken for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fastnode.protocol import kzg_cell_points
from fastnode.protocol.kzg_cell_points import cell_points, keep_cell_points_in, make_cell_points


class Makes:
    """How often they were made; it takes 8 s, so that they are made once for all tests."""

    def __init__(self, packed: bytes) -> None:
        self.count = 0
        self._packed = packed

    def __call__(self) -> bytes:
        self.count += 1
        return self._packed


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch, kept_cell_points: Path) -> Iterator[Makes]:
    cell_points()
    [kept] = kept_cell_points.glob("kzg-cell-points")
    makes = Makes(kept.read_bytes())
    monkeypatch.setattr(kzg_cell_points, "make_cell_points", makes)
    yield makes
    keep_cell_points_in(kept_cell_points)


def ask_as_a_new_process() -> None:
    kzg_cell_points._points.cache_clear()
    points = cell_points()
    assert (len(points), {len(each) for each in points}) == (128, {64})


def test_they_are_made_once_and_then_come_from_the_file(tmp_path: Path, makes: Makes) -> None:
    keep_cell_points_in(tmp_path)
    ask_as_a_new_process()
    ask_as_a_new_process()
    assert makes.count == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kzg-cell-points"]


def test_a_damaged_file_is_made_anew(tmp_path: Path, makes: Makes) -> None:
    keep_cell_points_in(tmp_path)
    ask_as_a_new_process()
    file = tmp_path / "kzg-cell-points"
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], bytes([whole[0] ^ 1]) + whole[1:]):
        file.write_bytes(damaged)
        ask_as_a_new_process()
        assert file.read_bytes() == whole
    assert makes.count == 4


def test_where_they_cannot_be_kept_they_are_made_and_the_log_says_so(
    tmp_path: Path, makes: Makes, caplog: pytest.LogCaptureFixture
) -> None:
    keep_cell_points_in(tmp_path / "missing")
    ask_as_a_new_process()
    assert makes.count == 1
    assert "could not be kept" in caplog.text


@pytest.mark.long
def test_what_is_made_is_what_the_setup_gives(makes: Makes) -> None:
    assert make_cell_points() == makes()
