"""Putting the verifier program in its place."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from tests.proofs.conftest import set_grumpkin
from tests.proofs.programs import libraries, real_binary, stand_in

from fastnode.errors import SettingError
from fastnode.proofs.install import install, platform_name


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a derived setup file in place, since stand-ins derive none."""
    folder = tmp_path / "proofs"
    (folder / "setup").mkdir(parents=True)
    (folder / "setup" / "grumpkin_g1.flat.dat").write_bytes(set_grumpkin(monkeypatch))
    return folder


def _archive(path: Path, name: str, content: bytes) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return path


def test_the_real_program_is_installed_and_derives_its_setup(bb: Path, tmp_path: Path) -> None:
    del bb
    installed = install(real_binary(), tmp_path / "proofs", libraries=libraries())
    assert installed.version == "4.1.2"
    assert installed.is_published
    assert installed.path == tmp_path / "proofs" / "program" / "bb"
    assert (tmp_path / "proofs" / "setup" / "grumpkin_g1.flat.dat").stat().st_size == 2 << 20
    assert sorted(path.name for path in (tmp_path / "proofs").iterdir()) == ["program", "setup"]


def test_a_file_a_folder_and_an_archive_of_the_package_will_do(working_directory: Path, tmp_path: Path) -> None:
    program = stand_in(tmp_path / "bb", "exit 0")
    folder = tmp_path / "node_modules" / "@aztec" / "bb.js" / "build" / platform_name()
    folder.mkdir(parents=True)
    (folder / "bb").write_bytes(program.read_bytes())
    archive = _archive(tmp_path / "p.tgz", f"package/build/{platform_name()}/bb", program.read_bytes())
    for source in (program, tmp_path, folder.parents[1], archive):
        installed = install(source, working_directory)
        assert installed.path.read_bytes() == program.read_bytes()
        assert not installed.is_published


def test_a_wrapper_runs_the_program_with_newer_libraries(working_directory: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer libraries"
    newer.mkdir()
    loader = newer / "ld-linux-x86-64.so.2"
    loader.write_text('#!/bin/sh\n[ "$1" = --library-path ] && shift 2 && exec sh "$@"\n')
    loader.chmod(0o755)
    installed = install(stand_in(tmp_path / "bb", "exit 0"), working_directory, libraries=newer)
    assert installed.version == "4.1.2"
    assert str(newer) in installed.path.read_text()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: stand_in(path, version="4.0.0"), "is of release 4.0.0, this node has the keys of 4.1.2"),
        (lambda path: path.mkdir() or path, "it is not the folder of the package"),
        (lambda path: _archive(path.with_suffix(".tgz"), "package/readme", b""), "it is not the package"),
        (lambda path: path.with_suffix(".tgz").write_bytes(b"x") and path.with_suffix(".tgz"), "not a gzip file"),
        (lambda path: path.write_bytes(b"\x7fELF") and path, "is no program for this machine|cannot be run"),
    ],
)
def test_what_cannot_be_installed_says_why_and_leaves_what_was_there(
    make: object, complaint: str, working_directory: Path, tmp_path: Path
) -> None:
    before = install(stand_in(tmp_path / "good", "exit 0"), working_directory).path.read_bytes()
    with pytest.raises(SettingError, match=complaint):
        install(make(tmp_path / "bad"), working_directory)  # type: ignore[operator]
    assert (working_directory / "program" / "bb").read_bytes() == before
    assert sorted(path.name for path in working_directory.iterdir()) == ["program", "setup"]


def test_a_file_that_is_too_large_is_not_copied(
    working_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.proofs.install.PROGRAM_BYTES_MAX", 100)
    with pytest.raises(SettingError, match="larger than 0 MiB"):
        install(stand_in(tmp_path / "bb", "#" * 200), working_directory)


def test_libraries_without_a_loader_are_named(working_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has no loader"):
        install(stand_in(tmp_path / "bb", "exit 0"), working_directory, libraries=tmp_path)
