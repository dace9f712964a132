"""Putting the verifier program in its place: from a file, from a package folder, or from the package's archive.

    WORKING_DIRECTORY/program/bb          the program, or a wrapper that runs it with newer system libraries
                              bb-binary   the program beside its wrapper

It is tried where it will be used before it takes the place of another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

from fastnode.errors import SettingError
from fastnode.files import system_reason
from fastnode.proofs.folder import SetupFolder
from fastnode.proofs.program import CannotRun, VerifierProgram
from fastnode.proofs.verifier import INSTALLED
from fastnode.protocol.releases import known
from fastnode.records import dataclass

__all__ = ["Installed", "install", "platform_name"]

#: No published program has half of it.
PROGRAM_BYTES_MAX: Final = 200 << 20
_MACHINES: Final = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_SYSTEMS: Final = {"Linux": "linux", "Darwin": "macos"}
_LOADERS: Final = ("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")


@dataclass(frozen=True, slots=True)
class Installed:
    """``is_published``: the file is the published one of the release, byte for byte."""

    path: Path
    version: str
    is_published: bool


def platform_name() -> str:
    """This machine as the package names it.  SettingError where there is no program for it."""
    system, machine = platform.system(), platform.machine()
    if system not in _SYSTEMS or machine not in _MACHINES:
        raise SettingError(
            f"there is no verifier program for {system} {machine}: only for Linux and macOS, amd64 and arm64"
        )
    return f"{_MACHINES[machine]}-{_SYSTEMS[system]}"


def install(source: Path, working_directory: Path, *, libraries: Path | None = None) -> Installed:
    """Install ``source``: the program, a folder of the package, or the package's archive (.tgz).

    ``libraries``: a folder with a newer loader and system libraries, for a system that is too old.  SettingError says
    what is wrong; what was installed before stays then.
    """
    target = working_directory / INSTALLED.parent
    try:
        working_directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = Path(tempfile.mkdtemp(prefix="program-", dir=working_directory))
    except OSError as error:
        raise SettingError(
            f"{working_directory} cannot be written: {system_reason(working_directory, error)}"
        ) from None
    binary = new / INSTALLED.name
    try:
        digest = _copy_program(source, binary)
        if libraries is not None:
            _wrap(binary, libraries)
        version = _try(binary, working_directory)
        _replace(target, new)
    except (CannotRun, OSError, tarfile.TarError) as error:
        raise SettingError(str(error).replace(str(binary.absolute()), str(source))) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Installed(target / INSTALLED.name, version, digest in _published()[version].values())


def _published() -> dict[str, Mapping[str, str]]:
    """SHA-256 of the published programs, by their version and the package's name for the platform."""
    return {version: programs for release in known() for version, programs in release.verifiers.items()}


def _copy_program(source: Path, target: Path) -> str:
    """SHA-256 of what was copied."""
    if source.is_dir():
        source = _in_folder(source)
    if source.name.endswith((".tgz", ".tar.gz")):
        return _copy_from_archive(source, target)
    with source.open("rb") as file:
        return _copy(file, target, source)


def _in_folder(folder: Path) -> Path:
    for base in (folder, folder / "package", folder / "node_modules" / "@aztec" / "bb.js"):
        path = base / "build" / platform_name() / "bb"
        if path.is_file():
            return path
    raise SettingError(f"{folder} has no build/{platform_name()}/bb: it is not the folder of the package")


def _copy_from_archive(source: Path, target: Path) -> str:
    name = f"package/build/{platform_name()}/bb"
    with tarfile.open(source, "r:gz") as archive:
        for member in archive:
            if member.name == name and member.isfile():
                file = archive.extractfile(member)
                assert file is not None
                return _copy(file, target, source)
    raise SettingError(f"{source} has no {name}: it is not the package")


def _copy(file: IO[bytes], target: Path, source: Path) -> str:
    digest, left = hashlib.sha256(), PROGRAM_BYTES_MAX
    with target.open("wb") as out:
        while piece := file.read(1 << 20):
            left -= len(piece)
            if left < 0:
                raise SettingError(f"{source} is larger than {PROGRAM_BYTES_MAX >> 20} MiB: it is not the program")
            digest.update(piece)
            out.write(piece)
    target.chmod(0o755)
    return digest.hexdigest()


def _wrap(binary: Path, libraries: Path) -> None:
    """Let ``binary`` be a script that runs the program with the loader of ``libraries``."""
    folder = libraries.absolute()
    loader = next((folder / name for name in _LOADERS if (folder / name).is_file()), None)
    if loader is None:
        raise SettingError(f"{libraries} has no loader ({' or '.join(_LOADERS)})")
    beside = binary.with_name("bb-binary")
    binary.rename(beside)
    # The script finds the program beside itself, and so may be moved with it.
    binary.write_text(
        '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n'
        f'exec {_quoted(loader)} --library-path {_quoted(folder)} "$here/bb-binary" "$@"\n'
    )
    binary.chmod(0o755)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "'\\''") + "'"


def _try(binary: Path, working_directory: Path) -> str:
    """The version of the program, which can do all that is asked of it.  Derives the setup, if that was not done."""
    folder = working_directory / "setup"
    SetupFolder(folder, known()[0]).write_generator()
    program = VerifierProgram(binary.absolute(), folder.absolute())
    version = program.version()
    if version not in _published():
        keys = " and ".join(_published())
        raise SettingError(f"the program is of release {version or 'unknown'}, this node has the keys of {keys}")
    release = next(release for release in known() if version in release.verifiers)
    setup = SetupFolder(folder, release)
    if not setup.has_grumpkin():
        program.derive_setup(release)
        if not setup.has_grumpkin():
            raise SettingError("the program did not derive its setup file")
    return version


def _replace(target: Path, new: Path) -> None:
    """Checks that run go on with the program that they were started with."""
    old = target.with_name(f"{target.name}-old-{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
