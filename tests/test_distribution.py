"""What is published: the source distribution is whole, and a wheel made of it runs where there is nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tokenize
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from fastnode import __version__
from fastnode.extras import ALSO_IN, DISTRIBUTIONS, EXTRAS, advice_for
from fastnode.testing import call_url

PROJECT = Path(__file__).parents[1]
EXTENSIONS = Path("src", "fastnode", "_ext")

#: Beside the package; the rest of the repository (tests, benchmarks, deployment) is in no distribution.
BESIDE = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md")
#: What setuptools adds.
ADDED = {"PKG-INFO", "setup.cfg"}

#: As setuptools packs it: 0.86 MB are Python, 0.69 extensions, 0.47 data that hardly shrinks (points of KZG, a chain).
#: With debug information or signatures in extensions, or comments and all docstrings in modules, it is more.
WHEEL_BYTES_MAX = 2_250_000
#: Of an installation without extras, beside Python.
INSTALLED_BYTES_MAX = 60_000_000
#: From the start of the installation, with the files of the index on this machine.
FIRST_ANSWER_S_MAX = 15.0


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


def statements(text: str, *, keep_docstrings: bool) -> list[tuple[int, str]]:
    """Where each statement begins, and what the whole module says."""
    module = ast.parse(text)
    for node in [] if keep_docstrings else ast.walk(module):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            alone = ast.Pass(lineno=node.body[0].lineno)
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [alone])
    places = [(node.lineno, type(node).__name__) for node in ast.walk(module) if isinstance(node, ast.stmt)]
    return [*places, (0, ast.dump(module))]


def test_modules_of_a_wheel_say_the_same_in_the_same_lines_without_comments(tmp_path: Path) -> None:
    tree = copy_sources(tmp_path / "tree")
    run(sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path / "built", cwd=tree)
    built = sorted((tmp_path / "built").rglob("*.py"))
    assert len(built) > 500
    documented = set()
    for path in built:
        name = path.relative_to(tmp_path / "built")
        text, original = path.read_text(), (PROJECT / "src" / name).read_text()
        is_documented = bool(ast.get_docstring(ast.parse(text)))
        if is_documented:
            documented.add(name.parts[1])
        made = statements(text, keep_docstrings=True)
        assert made == statements(original, keep_docstrings=is_documented), name
        assert text.count("\n") == original.count("\n")
        assert not [token for token in tokens(path) if token.type == tokenize.COMMENT]
    modules = {"__init__.py", "errors.py", "pytest_plugin.py", "testing.py", "verify.py"}
    assert documented == {"client", "protocol", "cli", *modules}


def tokens(path: Path) -> list[tokenize.TokenInfo]:
    with path.open("rb") as file:
        return list(tokenize.tokenize(file.readline))


# ---- what is installed ----------------------------------------------------------------------------------


def metadata() -> dict[str, Any]:
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


def names_in(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=]", text)[0] for text in requirements}


def test_each_package_of_an_extra_is_in_that_extra_alone_and_all_has_every_extra() -> None:
    project = metadata()["project"]
    extras = project["optional-dependencies"]
    wanted = {extra for extra, _ in EXTRAS.values()}
    for extra in wanted:
        packages = {
            package for package, (name, _) in EXTRAS.items() if name == extra or extra in ALSO_IN.get(package, ())
        }
        assert names_in(extras[extra]) == {DISTRIBUTIONS.get(package, package) for package in packages}
    distributions = {DISTRIBUTIONS.get(package, package) for package in EXTRAS}
    assert not names_in(project["dependencies"]) & distributions
    [everything] = extras["all"]
    assert everything.startswith(f"{project['name']}[")
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == wanted
    assert set(extras) == wanted | {"all", "test", "bench"}


def test_nothing_keeps_a_newer_python_out() -> None:
    assert "<" not in metadata()["project"]["requires-python"]


def test_a_package_that_is_missing_is_named_with_what_to_install() -> None:
    line = advice_for(ModuleNotFoundError("No module named 'psycopg.rows'", name="psycopg.rows"))
    assert line == (
        "the database of redundant signers takes the package psycopg, which is not installed: "
        "pip install 'aztec-fastnode[ha]'"
    )
    for other in (ModuleNotFoundError("x", name="nothing"), ModuleNotFoundError("x"), ImportError("x", name="rich")):
        assert advice_for(other) is None


#: Runs the command line as if some packages had not been installed.
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv = ["fastnode", *{arguments!r}]
from fastnode.cli import main
main()
"""


def without_extras(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(packages=set(EXTRAS), arguments=list(map(str, arguments)))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


def test_every_command_that_lacks_an_extra_ends_with_a_line_that_names_it(tmp_path: Path, sample_chain: Path) -> None:
    done = without_extras("import", sample_chain, "--data-directory", tmp_path / "data", "--no-verify")
    assert done.returncode == 0, done.stderr
    for extra, *arguments in (
        ("check", "db", "check", "--data-directory", tmp_path / "data"),
        ("snapshots", "snapshot", "list", f"file://{tmp_path}"),
        ("ha", "migrate-ha-db", "up", "--database-url", "postgresql://nowhere/none"),
    ):
        done = without_extras(*arguments)
        assert done.returncode == 1
        assert done.stderr.endswith(f"which is not installed: pip install 'aztec-fastnode[{extra}]'\n")
        assert done.stderr.count("fastnode: error: ") == 1


def test_a_plain_start_imports_no_package_of_an_extra() -> None:
    program = "import sys, fastnode.app.process; print(*{name.partition('.')[0] for name in sys.modules})"
    imported = set(run(sys.executable, "-c", program, cwd=PROJECT).split())
    assert not imported & set(EXTRAS)


# ---- a release --------------------------------------------------------------------------------------------


def release_version(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, PROJECT / "scripts" / "release-version", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_everything_that_names_a_version_names_this_one() -> None:
    done = release_version(__version__)
    assert (done.returncode, done.stdout) == (0, f"version={__version__}\n"), done.stderr
    done = release_version("9.9.9")
    assert done.returncode == 1
    assert f"src/fastnode/__init__.py has version {__version__}, not 9.9.9" in done.stderr
    assert release_version("--notes", __version__).stdout.startswith("### Added\n")
    assert release_version("--notes", "9.9.9").returncode == 1


def test_a_release_says_where_the_project_is(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(PROJECT / "scripts" / "release-version", tmp_path / "scripts")
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    run(sys.executable, script, "--address", "https://code.example/us/fastnode/", cwd=tmp_path)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Homepage"] == "https://code.example/us/fastnode"
    assert project["urls"]["Changelog"].endswith("/CHANGELOG.md")
    del project["urls"]
    assert project == metadata()["project"]


def test_a_tag_publishes_wheels_an_image_the_chart_and_the_document() -> None:
    workflow = yaml.safe_load((PROJECT / ".github" / "workflows" / "release.yaml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML takes `on` for true
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    steps = {name: json.dumps(job["steps"]) for name, job in jobs.items()}
    assert "cibuildwheel" in steps["wheels"]
    assert jobs["index"]["permissions"] == {"id-token": "write"}
    assert "password" not in steps["index"]
    assert '"sbom": true' in steps["image"]
    assert "linux/amd64,linux/arm64" in steps["image"]
    assert "oci://" in steps["chart"]
    assert "openrpc.json" in steps["notes"]
    for job in jobs.values():
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(jobs)


def test_wheels_are_built_for_every_platform_that_is_promised() -> None:
    wanted = metadata()["tool"]["cibuildwheel"]
    assert wanted["build"].split() == ["cp311-*", "cp312-*"]
    assert wanted["linux"]["archs"] == ["x86_64", "aarch64"]
    assert wanted["macos"]["archs"] == ["arm64"]


# ---- the first minute after it ---------------------------------------------------------------------------


class Installed:
    """An environment in which nothing but a distribution is installed, by a user who has no compiler unless told so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "home").mkdir()
        run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
        self.bin = folder / "venv" / "bin"
        self._packages = next((folder / "venv" / "lib").iterdir()) / "site-packages"
        # Neither settings nor a cache of the user's pip, and no program but those of the environment itself.
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        self.environment = kept | {"PATH": str(self.bin), "HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        self._bare_bytes = self._size()

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._packages.rglob("*") if path.is_file())

    @property
    def bytes(self) -> int:
        """What the distribution and all that it needs take on the disk."""
        return self._size() - self._bare_bytes

    def pip(self, *arguments: object, path: str | None = None) -> None:
        environment = self.environment | ({} if path is None else {"PATH": path})
        run_alone(environment, self.bin / "python", "-m", "pip", "-q", *arguments, cwd=self._folder)

    def first_block(self) -> int:
        """The answer of a local network to its first call."""
        command = [self.bin / "fastnode", "start", "--local-network", "--port=0", "--admin-port=0", "--metrics-port=0"]
        node = subprocess.Popen(
            list(map(str, command)),
            cwd=self._folder,
            env=self.environment | {"LOG_JSON": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert node.stderr is not None
            for line in node.stderr:
                if line.startswith("{") and (url := json.loads(line).get("url")) is not None:
                    return int(call_url(url, "node_getBlockNumber", ()))
            raise AssertionError("the node has ended without serving")
        finally:
            node.terminate()
            node.communicate(timeout=60)


def run_alone(environment: dict[str, str], *command: object, cwd: Path) -> None:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.long
def test_from_an_installation_without_a_compiler_to_the_first_answer_of_a_local_network(tmp_path: Path) -> None:
    archive = source_distribution(copy_sources(tmp_path / "tree"), tmp_path / "dist")
    builder = Installed(tmp_path / "builder")
    began = time.monotonic()
    builder.pip("wheel", "--no-deps", "-w", tmp_path / "wheels", archive, path=os.environ["PATH"])
    built_s = time.monotonic() - began
    [wheel] = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as file:
        built = [name for name in file.namelist() if name.endswith(".so")]
        assert not [name for name in file.namelist() if name.endswith((".pyx", ".c", ".h"))]
    assert len(built) == len(list((PROJECT / EXTENSIONS).rglob("*.pyx")))
    assert wheel.stat().st_size < WHEEL_BYTES_MAX

    # What the index has is fetched before: how fast it is says nothing about what is published here.
    builder.pip("download", "--only-binary=:all:", "-d", tmp_path / "index", wheel)
    user = Installed(tmp_path / "user")
    assert shutil.which("cc", path=user.environment["PATH"]) is None
    from_index = ("--no-index", "--find-links", tmp_path / "index")
    began = time.monotonic()
    user.pip("install", "--only-binary=:all:", *from_index, wheel)
    installed_s = time.monotonic() - began
    assert user.first_block() > 0
    answered_s = time.monotonic() - began
    print(
        f"sdist {archive.stat().st_size:,} bytes, built in {built_s:.0f} s; wheel {wheel.stat().st_size:,} bytes, "
        f"installed in {installed_s:.1f} s, first answer after {answered_s:.1f} s; {user.bytes:,} bytes on the disk"
    )
    assert answered_s < FIRST_ANSWER_S_MAX
    assert user.bytes < INSTALLED_BYTES_MAX
    # What pip built of the source distribution is the same package.
    builder.pip("install", *from_index, wheel)
    assert builder.first_block() > 0
