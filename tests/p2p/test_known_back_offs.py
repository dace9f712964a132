"""Back-offs from one run to the next."""

from __future__ import annotations

from pathlib import Path

from fastnode.p2p.node.known_back_offs import BACK_OFFS_FILE, KnownBackOffs


def test_what_remains_is_there_after_a_restart_and_what_is_over_is_not(tmp_path: Path) -> None:
    KnownBackOffs(tmp_path, lambda: 1000.0).save({("tx", "one"): 60.0, ("tx", "two"): 5.0})
    assert KnownBackOffs(tmp_path, lambda: 1010.0).load() == {("tx", "one"): 51.0}


def test_without_a_folder_nothing_is_kept() -> None:
    kept = KnownBackOffs(None)
    kept.save({("tx", "one"): 60.0})
    assert kept.load() == {}


def test_what_makes_no_sense_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / BACK_OFFS_FILE
    file.write_text("\nx\n1e9 one tx\n 99 one tx\n9999999999 one\n9999999999 one tx more\n2000 two tx\n")
    assert KnownBackOffs(tmp_path, lambda: 1000.0).load() == {("tx", "two"): 1000.0}
    file.write_bytes(b"\xff\xfe")
    assert KnownBackOffs(tmp_path).load() == {}


def test_they_are_written_when_they_change_and_bounded(tmp_path: Path) -> None:
    kept, file = KnownBackOffs(tmp_path, lambda: 1000.0), tmp_path / BACK_OFFS_FILE
    kept.save({("tx", str(number)): float(number) for number in range(1000)})
    assert len(file.read_text().splitlines()) == 400
    file.unlink()
    kept.save({("tx", str(number)): float(number) for number in range(1000)})
    assert not file.exists()
    kept.save({})
    assert file.read_text() == ""


def test_nothing_waits_for_the_disk(tmp_path: Path, synced: list[str]) -> None:
    """They are written on the event loop of the peers, every few seconds."""
    KnownBackOffs(tmp_path).save({("tx", "one"): 60.0})
    assert (tmp_path / BACK_OFFS_FILE).exists()
    assert synced == []
