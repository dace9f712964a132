"""Leaves an environment in which fastnode is installed in place with its extensions built: environment.py KIND FOLDER.

KIND is run, test or bench.  environment.sh calls this with the Python to be used, of which only the library is there.

Each step leaves a stamp in FOLDER/fastnode-stamps after its work, so that an interrupted run repeats a step and
a complete one is skipped.  Stamps are made of the content of files, never of times.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
#: Suffixes of the files of which extensions are built, beside the C that is in folders of that name.
SOURCES = {".py", ".pyx", ".pxd", ".h"}
#: The command of an environment.
COMMAND = '#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/python" -P -m fastnode "$@"\n'


def say(text: str) -> None:
    print(f"fastnode: {text}", file=sys.stderr, flush=True)


class Missing(Exception):  # noqa: N818 - what is missing
    """Something that this machine lacks, with what to do."""


def run(*command: object, **environment: str) -> None:
    """Runs a command in the project, with its output on stderr: stdout is for what the scripts were called for."""
    subprocess.run(
        [str(word) for word in command], cwd=PROJECT, env=os.environ | environment, stdout=sys.stderr, check=True
    )


# ---- what the machine must have ----------------------------------------------------------------------------


def check_machine() -> None:
    """Ends with a line that names what to install, before anything is begun."""
    version = "{}.{}".format(*sys.version_info)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise Missing(
            f"Python {version} has no venv module; Debian and Ubuntu: apt install python{version}-venv"
        ) from None
    check_compiler()
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise Missing(
            f"the C headers of Python {version} are missing; Debian and Ubuntu: apt install python{version}-dev, "
            "Fedora: dnf install python3-devel"
        )
    check_leveldb(version)


def check_compiler() -> None:
    if named := os.environ.get("CC"):
        if shutil.which(named.split()[0]) is None:  # flags may follow
            raise Missing(f"CC={named} names no C compiler; fastnode compiles its extensions on this machine")
        return
    found = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if found is None:
        raise Missing(
            "no C compiler found (tried cc, gcc, clang); fastnode compiles its extensions on this machine (Debian and "
            "Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install; or set CC=)"
        )
    # setuptools calls the name that Python itself was built with, which need not exist here.
    os.environ["CC"] = found


def check_leveldb(version: str) -> None:
    """plyvel has wheels for two Pythons on x86_64 Linux; elsewhere it is compiled against the LevelDB of the system."""
    if version in ("3.11", "3.12") and (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        return
    compiler = next(filter(shutil.which, (os.environ.get("CXX", ""), "c++", "g++", "clang++")), None)
    if compiler is not None:
        program = "#include <leveldb/db.h>\n"
        tried = subprocess.run(
            [compiler, "-x", "c++", "-E", "-"], input=program, text=True, capture_output=True, check=False
        )
        if tried.returncode == 0:
            return
    raise Missing(
        f"plyvel, the LevelDB binding, has no wheel for Python {version} on this machine, and a C++ compiler with the "
        "headers of LevelDB is missing; Debian and Ubuntu: apt install g++ libleveldb-dev, Fedora: dnf install gcc-c++ "
        "leveldb-devel, macOS: brew install leveldb"
    )


# ---- the environment ---------------------------------------------------------------------------------------


class Environment:
    """A virtual environment and what of it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self._command = folder / "bin" / "fastnode"
        self._stamps = folder / "fastnode-stamps"
        # Outside of the folder, which is emptied when it is made.
        self._half_made = PROJECT / "build" / f"{folder.name.lstrip('.')}-unfinished"

    def prepare(self, kind: str) -> None:
        if not self.is_ready(kind):
            with Path(__file__).open() as lock:  # nothing has to be created or cleaned up
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    say(f"waiting for another script that prepares {self.folder.name}")
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if not self.is_ready(kind):
                    check_machine()
                    self._make()
                    self._install(kind)
                    self._link_package()
                    self._build()
        self._compile_package()

    def is_ready(self, kind: str) -> bool:
        is_built = self._stamp("extensions") == checksums(sources())
        return self._is_made() and self._is_installed(kind) and self._is_linked() and is_built

    def _stamp(self, name: str) -> object:
        try:
            return json.loads((self._stamps / name).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def _write_stamp(self, name: str, content: object) -> None:
        self._stamps.mkdir(exist_ok=True)
        new = self._stamps / f"{name}.new"
        new.write_text(json.dumps(content, indent=0))
        new.replace(self._stamps / name)

    def _is_made(self) -> bool:
        """One made by hand will do, if it has the version of the Python that was named."""
        try:
            text = (self.folder / "pyvenv.cfg").read_text()
        except FileNotFoundError:
            return False
        version = "{}.{}.".format(*sys.version_info)
        is_same = any(line.startswith("version") and version in f"{line}." for line in text.splitlines())
        return is_same and not self._half_made.exists() and os.access(self.python, os.X_OK)

    def _make(self) -> None:
        if self._is_made() and next(self.folder.glob("lib/python*/site-packages/pip"), None) is not None:
            return
        say("making {} with Python {}.{}".format(self.folder.name, *sys.version_info))
        self._half_made.parent.mkdir(exist_ok=True)
        self._half_made.touch()
        # The Python that runs here may be the one of the environment itself.
        run(getattr(sys, "_base_executable", sys.executable), "-P", "-m", "venv", "--clear", self.folder)
        self._half_made.unlink()

    def _is_installed(self, kind: str) -> bool:
        """Tests need all that a run needs."""
        wanted = [pins_of("test")] if kind != "run" else [pins_of("test"), pins_of("run")]
        return self._stamp("pinned") in [checksums(pins) for pins in wanted]

    def _install(self, kind: str) -> None:
        if self._is_installed(kind):
            return
        say("installing dependencies")
        pins = pins_of(kind)
        pip = ("-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
        run(self.python, *pip, *(f"--requirement={file}" for file in pins))
        self._write_stamp("pinned", checksums(pins))

    def _link_package(self) -> None:
        """Makes `import fastnode` and the command work on the sources in place.

        An editable install has absolute paths: these are relative, the project can be moved with its environment.
        """
        [packages] = self.folder.glob("lib/python*/site-packages")
        (packages / "fastnode-source.pth").write_text(os.path.relpath(PROJECT / "src", packages) + "\n")
        self._command.write_text(COMMAND)
        self._command.chmod(0o755)

    def _is_linked(self) -> bool:
        return self._command.exists() and self._command.read_text() == COMMAND

    def _build(self) -> None:
        found, built = checksums(sources()), self._stamp("extensions")
        if found == built:
            return
        say("building the extensions (a minute or two the first time)")
        # setuptools and Cython go by times, and an archive may bring an older time with newer content.
        for name in found:
            if not isinstance(built, dict) or built.get(name) != found[name]:
                (PROJECT / name).touch()
        # A compiler that was killed leaves half a file with a fresh time.
        unfinished, force, environment = self._stamps / "build-unfinished", [], {}
        if unfinished.exists():
            force, environment = ["--force"], {"CYTHON_FORCE_REGEN": "1"}
        unfinished.touch()
        log = self._stamps / "build.log"
        with log.open("w") as output:
            done = subprocess.run(
                [self.python, "setup.py", "--quiet", "build_ext", "--inplace", *force],
                cwd=PROJECT, env=os.environ | environment, stdout=output, stderr=output, check=False,
            )  # fmt: skip
        if done.returncode:
            raise Missing(f"{log.read_text()}the extensions could not be built; the compiler's output is above")
        unfinished.unlink()
        self._write_stamp("extensions", found)

    def _compile_package(self) -> None:
        """Compiles what has changed since the last time, whatever PYTHONDONTWRITEBYTECODE says: without it every start
        would compile the package again, which takes longer than the start itself."""
        stamp, package = self._stamps / "bytecode", PROJECT / "src" / "fastnode"
        begun = stamp.with_name(f"bytecode.{os.getpid()}.{threading.get_ident()}")
        if stamp.exists():
            since = stamp.stat().st_mtime
            if not any(path.stat().st_mtime > since for path in package.rglob("*.py")):
                return
        begun.touch()
        # Where the sources cannot be written next to, everything works as well, only slower.
        compile_all = (self.python, "-P", "-m", "compileall", "-q", "-j", "0", package)
        done = subprocess.run(compile_all, check=False, stdout=sys.stderr)
        if done.returncode:
            begun.unlink()
        else:
            begun.replace(stamp)


def pins_of(kind: str) -> list[Path]:
    """Releases to install, with the hashes of their files."""
    if kind == "run":
        return [PROJECT / "deploy" / "docker" / name for name in ("build-constraints.txt", "constraints.txt")]
    return [PROJECT / "tests" / "constraints.txt"]


def sources() -> list[Path]:
    """Every file that goes into the build of the extensions."""
    found = [path for path in (PROJECT / "src" / "fastnode" / "_ext").rglob("*") if path.suffix in SOURCES]
    return sorted([PROJECT / "setup.py", *found, *(PROJECT / "src" / "fastnode" / "_ext").glob("*/c/*.c")])


def checksums(files: list[Path]) -> dict[str, str]:
    return {str(file.relative_to(PROJECT)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> int:
    kind, folder = sys.argv[1:]
    try:
        Environment(Path(folder).absolute()).prepare(kind)
    except Missing as missing:
        print(f"fastnode: error: {missing}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"fastnode: error: {' '.join(error.cmd[:5])} failed; its output is above", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
