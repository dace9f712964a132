"""What is published: the source distribution is whole, and a wheel made of it runs where there is nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
EXTENSIONS = Path("src", "fastnode", "_ext")

#: Beside the package; the rest of the repository (tests, benchmarks, deployment) is in no distribution.
BESIDE = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
#: What setuptools adds.
ADDED = {"PKG-INFO", "setup.cfg"}

#: A wheel with symbols and debug information has three times as many.
WHEEL_BYTES_MAX = 3 << 20


def sources() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "src", *BESIDE],
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git repository")
    return [name for name in listed.stdout.decode().split("\0") if name and (PROJECT / name).is_file()]


def copy_sources(to: Path) -> Path:
    """The project as a fresh clone has it: nothing is built."""
    for name in sources():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, to / name)
    return to


def run(*command: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def source_distribution(tree: Path, to: Path) -> Path:
    run(sys.executable, "setup.py", "-q", "sdist", "-d", to, cwd=tree)
    [archive] = to.iterdir()
    return archive


def test_the_source_distribution_has_every_source_and_nothing_that_a_build_makes(tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")
    # What a build leaves behind, under names that stand for all.
    for name in ("poseidon2.c", "poseidon2.cpython-311-x86_64-linux-gnu.so", "poseidon2.html"):
        (tree / EXTENSIONS / "hash" / name).write_text("made")
    archive = source_distribution(tree, tmp_path / "dist")
    with tarfile.open(archive) as file:
        names = {member.name.partition("/")[2] for member in file.getmembers() if member.isfile()}
    assert {name for name in names if ".egg-info/" not in name} == {*sources(), *ADDED}


@pytest.mark.parametrize("name", ["hash/poseidon2.pyx", "hash/c/poseidon2_portable.c"])
def test_a_build_without_a_source_of_an_extension_fails_and_names_it(tmp_path: Path, name: str) -> None:
    tree = copy_sources(tmp_path)
    (tree / EXTENSIONS / name).unlink()
    for command in ("sdist", "bdist_wheel"):
        done = subprocess.run(
            [sys.executable, "setup.py", "-q", command], cwd=tree, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert f"sources of extensions are missing: {EXTENSIONS / name}" in done.stderr


@pytest.mark.long
def test_a_wheel_made_of_the_source_distribution_runs_in_a_clean_environment(tmp_path: Path) -> None:
    archive = source_distribution(copy_sources(tmp_path / "tree"), tmp_path / "dist")
    run(sys.executable, "-m", "venv", "clean", cwd=tmp_path)
    pip = tmp_path / "clean" / "bin" / "pip"
    run(pip, "wheel", "-q", "--no-deps", "-w", tmp_path / "wheels", archive, cwd=tmp_path)
    [wheel] = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as file:
        packed = sum(item.compress_size for item in file.infolist())
        built = [name for name in file.namelist() if name.endswith(".so")]
        assert not [name for name in file.namelist() if name.endswith((".pyx", ".c", ".h"))]
    assert len(built) == len(list((PROJECT / EXTENSIONS).rglob("*.pyx")))
    assert packed < WHEEL_BYTES_MAX
    print(f"sdist {archive.stat().st_size:,} bytes, wheel {wheel.stat().st_size:,} bytes")
    run(pip, "install", "-q", wheel, cwd=tmp_path)
    fastnode = tmp_path / "clean" / "bin" / "fastnode"
    assert run(fastnode, "--version", cwd=tmp_path).startswith("fastnode ")
    assert "Usage: fastnode" in run(fastnode, "--help", cwd=tmp_path)
