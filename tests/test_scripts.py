"""scripts/*: what they say when the machine lacks something, what they do, and what they skip.

Nothing is built or installed here: bash runs in a copy of the project's skeleton, with a PATH that holds only what a
test puts there, and environment.py has its commands written down.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests import programs
from tests.conftest import PATIENCE_S

PROJECT = Path(__file__).parents[1]
SCRIPTS = [
    PROJECT / ".ci" / "run",
    *(path for path in (PROJECT / "scripts").iterdir() if path.is_file() and b"bash" in path.read_bytes()[:40]),
]

#: Programs of a POSIX system that the scripts use, apart from Python and the compiler.
TOOLS = ("bash", "cat", "dirname", "env", "sh")

#: A Python that knows its version and writes down what else it is asked for.
STAND_IN = """\
#!/bin/sh
case "$*" in *version_info*) echo {version}; exit {works} ;; esac
echo "$*" >>"{record}"
"""


class Project:
    """A copy of what the scripts need, and a PATH under control."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.bin = root / "bin"
        self.record = root / "calls"
        self.bin.mkdir()
        shutil.copytree(PROJECT / "scripts", self.root / "scripts")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)

    def add_python(self, version: str, *, path: Path | None = None, works: bool = True) -> None:
        path = path or self.bin / "python3"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STAND_IN.format(version=version, record=self.record, works=int(not works)))
        path.chmod(0o755)

    def run(
        self, script: str, *arguments: str, shell: str = "bash", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / shell, self.root / "scripts" / script, *arguments],
            cwd=self.root,
            env={"PATH": str(self.bin), "HOME": str(self.root), **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def calls(self) -> list[str]:
        """Commands of the Python stand-ins, which are forgotten."""
        calls = self.record.read_text().splitlines() if self.record.exists() else []
        self.record.unlink(missing_ok=True)
        return calls


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def ready(project: Project) -> Project:
    """With an environment."""
    project.add_python("3.12", path=project.root / ".venv" / "bin" / "python")
    return project


def test_every_script_is_valid_bash() -> None:
    assert len(SCRIPTS) > 10
    for script in SCRIPTS:
        checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, ""), script.name


def test_every_script_can_be_executed() -> None:
    for script in (*(PROJECT / "scripts").iterdir(), PROJECT / ".ci" / "run"):
        assert os.access(script, os.X_OK) or script.suffix in (".sh", ".py"), script.name


def test_a_script_that_is_given_to_sh_runs_in_bash(project: Project) -> None:
    """Where sh is another shell, such as dash."""
    result = project.run("run", shell="sh")
    assert (result.returncode, result.stderr) == (1, project.run("run").stderr)


# ---- a Python is found ---------------------------------------------------------------------------------------


def test_a_machine_without_python_is_told_which_and_why(project: Project) -> None:
    result = project.run("run")
    assert result.returncode == 1
    assert result.stderr == (
        "fastnode: error: no Python found that fits; fastnode needs Python 3.11 or newer (set "
        "PYTHON=/path/to/python3.12 if it is not on the PATH)\n"
    )


def test_pythons_of_other_versions_are_named_and_refused(project: Project) -> None:
    project.add_python("3.10")
    project.add_python("2.7", path=project.bin / "python")
    result = project.run("test")
    assert result.returncode == 1
    assert "fits (python3 is 3.10, python is 2.7); fastnode needs Python 3.11 or newer" in result.stderr
    assert project.calls() == []


def test_a_python_that_is_only_a_broken_shim_is_passed_over(project: Project) -> None:
    project.add_python("", path=project.bin / "python3.12", works=False)
    project.add_python("3.11")
    project.run("run")
    assert project.calls() == [f"-I {project.root}/scripts/environment.py run {project.root}/.venv"]


def test_the_python_that_is_named_must_fit_and_is_the_one_that_prepares(ready: Project) -> None:
    ready.add_python("3.11")
    ready.add_python("3.10", path=ready.bin / "other")
    assert "no Python found that fits: PYTHON=other (other is 3.10)" in ready.run("run", PYTHON="other").stderr
    assert "PYTHON=/nowhere/python;" in ready.run("run", PYTHON="/nowhere/python").stderr
    assert ready.calls() == []
    ready.run("run", PYTHON="python3", FASTNODE_VENV=f"{ready.root}/elsewhere")
    assert ready.calls() == [f"-I {ready.root}/scripts/environment.py run {ready.root}/elsewhere"]


# ---- arguments -----------------------------------------------------------------------------------------------

#: Arguments of Python for ``scripts/run``.
START = "-P -m fastnode start --node --accept-sample-chain"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--data-directory", "/elsewhere"), {}),
        (("--data-directory=/elsewhere",), {}),
        (("--config", "node.toml"), {}),
        ((), {"SVC_DATA_DIRECTORY": "/elsewhere"}),
        ((), {"DATA_DIRECTORY": "/elsewhere"}),
        ((), {"SVC_CONFIG": "node.toml"}),
    ],
)
def test_run_keeps_to_a_data_directory_that_is_given(
    ready: Project, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    ready.run("run", *arguments, **environment)
    assert ready.calls()[1:] == [" ".join((START, *arguments))]


def test_run_keeps_data_in_the_project_unless_told_otherwise(ready: Project) -> None:
    assert ready.run("run", "--port", "0").stderr == ""
    assert ready.calls()[1:] == [f"{START} --data-directory {ready.root}/data --port 0"]


def test_test_and_bench_pass_their_arguments_to_pytest(ready: Project) -> None:
    ready.run("test", "tests/config", "-q")
    prepared, tested = ready.calls()
    assert prepared.endswith(f"environment.py test {ready.root}/.venv")
    offered = "-P -m tests.programs browser pooler verifier wallet libraries -- pytest"
    assert tested == f"{offered} -n auto --dist loadfile --no-loadscope-reorder tests/config -q"
    measure = "-P -m tests.programs verifier -- pytest"
    ready.run("bench", "-k", "import")
    assert ready.calls()[-1] == f"{measure} bench --benchmark-only --benchmark-autosave -k import"
    ready.run("bench", "bench/bench_rpc.py")
    assert ready.calls()[-1] == f"{measure} --benchmark-only --benchmark-autosave bench/bench_rpc.py"


def test_bench_puts_a_node_under_load(ready: Project) -> None:
    ready.run("bench", "load", "--rounds", "1")
    assert ready.calls()[-1] == "bench/load.py --rounds 1"
    ready.run("bench", "--against", "http://node:8080")
    assert ready.calls()[-1] == "bench/load.py --against http://node:8080"


@pytest.mark.parametrize("name", ["bench", "make-docs", "run", "soak-following", "test"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_script_without_a_parser_says_what_it_is_for_and_prepares_nothing(
    ready: Project, name: str, flag: str
) -> None:
    done = ready.run(name, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout[0].isupper()
    assert "#" not in done.stdout
    assert ready.calls() == []


@pytest.mark.parametrize(("name", "argument"), [("make-docs", "settings"), ("soak-following", "--long")])
def test_arguments_that_a_script_does_not_take_are_refused(ready: Project, name: str, argument: str) -> None:
    done = ready.run(name, argument)
    assert done.returncode == 1
    assert name in done.stderr
    assert ready.calls() == []


def test_each_python_that_is_here_is_tested_in_an_environment_of_its_own(project: Project) -> None:
    for version in ("3.11", "3.12"):
        project.add_python(version, path=project.bin / f"python{version}")
    (project.root / "scripts" / "test").write_text(
        '#!/bin/sh\necho "$PYTHON $FASTNODE_VENV $*"\n[ "$PYTHON" != python3.12 ]\n'
    )
    result = project.run("test-pythons", "-q")
    assert result.stdout.splitlines() == [
        f"python{version} {project.root}/build/python{version} -q" for version in ("3.11", "3.12")
    ]
    assert "there is no python3.13: not tested" in result.stderr
    assert "tests failed with Python 3.12" in result.stderr
    assert result.returncode == 1


# ---- an environment is made ------------------------------------------------------------------------------------


class Preparing:
    """environment.py in a copy of the project's skeleton; its commands are written down and do next to nothing."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root / "project"
        self.kernel = self.root / "src" / "fastnode" / "_ext" / "kernel.pyx"
        self.kernel.parent.mkdir(parents=True)
        self.kernel.write_text("# a kernel\n")
        for name in (
            "setup.py",
            "tests/constraints.txt",
            "deploy/docker/constraints.txt",
            "deploy/docker/build-constraints.txt",
        ):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("uvloop==0.22.1 --hash=sha256:00\n")
        self.script = self._load()
        self.calls: list[str] = []
        #: Done before a command that has this word in it.
        self.before: dict[str, Callable[[], None]] = {}
        self.failing = ""
        monkeypatch.setattr(self.script, "PROJECT", self.root)
        monkeypatch.setattr(self.script.subprocess, "run", self._run)
        monkeypatch.setattr(self.script, "check_leveldb", lambda version: None)
        self.environment = self.script.Environment(self.root / ".venv")

    @staticmethod
    def _load() -> ModuleType:
        spec = importlib.util.spec_from_file_location("environment", PROJECT / "scripts" / "environment.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _run(self, command: list[Any], *, check: bool, **_: object) -> subprocess.CompletedProcess[str]:
        text = " ".join(map(str, command[1:]))
        self.calls.append(text)
        for word, action in list(self.before.items()):
            if word in text:
                action()
        if self.failing and self.failing in text:
            if check:
                raise subprocess.CalledProcessError(1, list(map(str, command)))
            return subprocess.CompletedProcess(command, 1, "", "")
        if text.startswith("-P -m venv"):
            (self.root / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
            (self.root / ".venv" / "bin" / "python").symlink_to(sys.executable)
            packages = self.root / ".venv" / "lib" / "python3" / "site-packages" / "pip"
            packages.mkdir(parents=True)
            (self.root / ".venv" / "pyvenv.cfg").write_text("version = {}.{}.7\n".format(*sys.version_info))
        return subprocess.CompletedProcess(command, 0, "", "")

    def prepare(self, kind: str = "run") -> list[str]:
        self.calls.clear()
        self.environment.prepare(kind)
        return list(self.calls)


@pytest.fixture
def preparing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Preparing:
    return Preparing(tmp_path, monkeypatch)


def kinds(calls: list[str]) -> list[str]:
    names = {"venv": "make", "pip": "install", "build_ext": "build", "compileall": "compile"}
    return [next(kind for word, kind in names.items() if word in call.split()) for call in calls]


def test_the_first_run_makes_installs_builds_and_the_second_does_nothing(preparing: Preparing) -> None:
    assert kinds(preparing.prepare()) == ["make", "install", "build", "compile"]
    assert preparing.prepare() == []
    command = preparing.root / ".venv" / "bin" / "fastnode"
    assert os.access(command, os.X_OK)
    [link] = preparing.root.glob(".venv/lib/*/site-packages/fastnode-source.pth")
    assert (link.parent / link.read_text().strip()).resolve() == preparing.root / "src"


def test_the_tested_releases_are_installed_with_their_hashes(preparing: Preparing) -> None:
    installed = preparing.prepare()[1]
    pip = "-P -m pip install --quiet --disable-pip-version-check --require-hashes"
    assert installed == pip + "".join(
        f" --requirement={preparing.root}/deploy/docker/{name}.txt" for name in ("build-constraints", "constraints")
    )
    assert preparing.prepare("test") == [f"{pip} --requirement={preparing.root}/tests/constraints.txt"]
    for kind in ("run", "test", "bench"):
        assert preparing.prepare(kind) == [], "what tests need will do for a run"
    (preparing.root / "tests" / "constraints.txt").write_text("uvloop==0.22.2 --hash=sha256:00\n")
    assert kinds(preparing.prepare("test")) == ["install"]


def test_what_has_changed_is_compiled_before_the_next_start(preparing: Preparing) -> None:
    """A start that compiles takes twice as long, and an environment may forbid Python to keep what it made."""
    preparing.prepare()
    source = preparing.root / "src" / "fastnode" / "module.py"
    source.write_text("")
    later = source.stat().st_mtime + 60
    os.utime(source, (later, later))
    assert preparing.prepare() == [f"-P -m compileall -q -j 0 {preparing.root}/src/fastnode"]
    os.utime(source, (1, 1))
    assert preparing.prepare() == []


@pytest.mark.parametrize("name", ["kernel.pyx", "hash/c/hash.c", "c/hash.h"])
def test_a_changed_source_rebuilds_even_with_an_older_time(preparing: Preparing, name: str) -> None:
    preparing.prepare()
    source = preparing.kernel.parent / name
    source.parent.mkdir(exist_ok=True, parents=True)
    source.write_text("// changed\n")
    for path in (source, preparing.root / "setup.py"):
        os.utime(path, (0, 0))
    assert kinds(preparing.prepare()) == ["build"]
    assert source.stat().st_mtime > 0, "build tools go by times, so the file's time must say that it changed"
    assert (preparing.root / "setup.py").stat().st_mtime == 0
    assert preparing.prepare() == []


def test_a_failed_build_is_shown_and_repeated_from_scratch(preparing: Preparing) -> None:
    preparing.prepare()
    preparing.kernel.write_text("# broken\n")
    preparing.failing = "build_ext"
    with pytest.raises(preparing.script.Missing, match="the extensions could not be built"):
        preparing.prepare()
    preparing.failing = ""
    assert preparing.prepare() == ["setup.py --quiet build_ext --inplace --force"]


def test_what_was_left_half_made_is_made_again(preparing: Preparing) -> None:
    preparing.failing = "-P -m venv"
    with pytest.raises(subprocess.CalledProcessError):
        preparing.prepare()
    assert kinds(preparing.calls) == ["make"]
    preparing.failing = ""
    assert kinds(preparing.prepare()) == ["make", "install", "build", "compile"]


def test_an_environment_of_another_python_is_made_anew(preparing: Preparing) -> None:
    preparing.prepare()
    configuration = preparing.root / ".venv" / "pyvenv.cfg"
    configuration.write_text("version = 3.99.1\n")
    preparing.before["-P -m venv"] = lambda: shutil.rmtree(preparing.root / ".venv")
    assert kinds(preparing.prepare()) == ["make", "install", "build", "compile"]


def test_two_scripts_at_once_build_once(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits = threading.Event()
    flock = fcntl.flock

    def note(file: Any, how: int) -> None:
        if how == fcntl.LOCK_EX:
            waits.set()
        flock(file, how)

    monkeypatch.setattr(preparing.script.fcntl, "flock", note)
    second = threading.Thread(target=preparing.environment.prepare, args=("run",))

    def begin_the_second() -> None:
        preparing.before.clear()
        second.start()
        assert waits.wait(PATIENCE_S / 6)

    preparing.before["build_ext"] = begin_the_second
    calls = preparing.prepare()
    second.join(PATIENCE_S)
    assert kinds(preparing.calls).count("build") == kinds(calls).count("build") == 1
    assert capsys.readouterr().err.count("waiting for another script") == 1


# ---- a machine that lacks something ----------------------------------------------------------------------------


def found(*names: str) -> Callable[[str], str | None]:
    return lambda name: f"/bin/{name}" if name in names else None


def test_a_machine_without_a_compiler_is_told_what_to_install(
    preparing: Preparing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(preparing.script.shutil, "which", found())
    with pytest.raises(preparing.script.Missing, match=r"no C compiler found .*apt install gcc"):
        preparing.prepare()
    assert preparing.calls == [], "nothing is begun that cannot be finished"
    monkeypatch.setenv("CC", "no-such-cc -O2")
    with pytest.raises(preparing.script.Missing, match="CC=no-such-cc -O2 names no C compiler"):
        preparing.prepare()


def test_a_python_without_venv_or_headers_is_told_what_to_install(
    preparing: Preparing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = "{}.{}".format(*sys.version_info)
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "ensurepip", None)
        with pytest.raises(preparing.script.Missing, match=f"no venv module; .*apt install python{version}-venv"):
            preparing.prepare()
    monkeypatch.setattr(preparing.script.sysconfig, "get_path", lambda _name: str(tmp_path))
    with pytest.raises(preparing.script.Missing, match=f"the C headers .*apt install python{version}-dev"):
        preparing.prepare()
    assert preparing.calls == []


def test_a_python_without_wheels_of_leveldb_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Preparing._load()
    outcome = [1]
    monkeypatch.setattr(script.shutil, "which", found("c++"))
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], outcome[0], "", ""))
    with pytest.raises(script.Missing, match=r"no wheel for Python 3\.13 .*apt install g\+\+ libleveldb-dev"):
        script.check_leveldb("3.13")
    outcome[0] = 0
    script.check_leveldb("3.13")


def test_the_versions_in_the_script_are_those_of_the_metadata() -> None:
    text = (PROJECT / "scripts" / "environment.sh").read_text()
    metadata = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert metadata["requires-python"] == ">=3.11"
    assert "3.[0-9] | 3.10 |" in text
    for word in metadata["classifiers"]:
        version = word.rpartition(" ")[2]
        assert not version.startswith("3.") or f"python{version}" in text


# ---- programs that some tests want -----------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Root on Debian without any of the programs; the commands that are run."""
    ran: list[str] = []
    monkeypatch.setattr(programs, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(programs, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(programs, "is_root_on_debian", lambda: True)
    monkeypatch.setattr(programs.shutil, "which", found("apt-get", "npm"))
    monkeypatch.setattr(programs, "run", lambda *command, **_: ran.append(" ".join(map(str, command))))
    names = ("CHROMIUM", "TEST_BB", "TEST_PGBOUNCER", "TEST_WALLET", "WALLET")
    for name in names:
        monkeypatch.setenv(f"FASTNODE_{name}", "")
    return ran


def test_root_on_debian_gets_a_browser(machine: list[str]) -> None:
    programs.offer_browser()
    update, install = machine
    assert update.endswith("update")
    assert install.endswith("install --no-install-recommends chromium")


def test_root_on_debian_gets_a_pooler_that_is_not_installed(
    machine: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "make_whole", lambda folder, fill: fill(folder))
    programs.offer_pooler()
    update, download, version = machine
    assert update.endswith("update")
    assert "--download-only" in download
    assert download.endswith("install pgbouncer")
    assert version.endswith("/pgbouncer --version")
    assert os.environ["FASTNODE_TEST_PGBOUNCER"] == str(programs.CACHE / "pgbouncer" / "pgbouncer")


def test_a_machine_without_a_browser_is_told_so(
    machine: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "is_root_on_debian", lambda: False)
    programs.offer_browser()
    assert "no Chromium found: the tests of the status page in a browser are skipped" in capsys.readouterr().err
    monkeypatch.setenv("FASTNODE_CHROMIUM", "/anywhere/chromium")
    programs.offer_browser()
    monkeypatch.setenv("FASTNODE_CHROMIUM", "")
    monkeypatch.setattr(programs.shutil, "which", found("chromium"))
    programs.offer_browser()
    assert (machine, capsys.readouterr().err) == ([], "")


@pytest.mark.parametrize(
    ("name", "whose"), [("browser", "in a browser"), ("pooler", "behind a PgBouncer"), ("verifier", "of real proofs")]
)
def test_without_a_network_a_program_is_tried_for_once(
    machine: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    whose: str,
) -> None:
    def fail(*command: object, **_: object) -> None:
        machine.append("tried")
        raise subprocess.CalledProcessError(100, list(map(str, command)))

    monkeypatch.setattr(programs, "run", fail)
    programs.OFFERS[name]()
    assert f"the {name} could not be fetched" in (said := capsys.readouterr().err)
    assert whose in said
    programs.OFFERS[name]()
    assert "could not be fetched before" in capsys.readouterr().err
    assert machine == ["tried"]
    assert not programs.CACHE.exists() or list(programs.CACHE.iterdir()) == []


def test_a_program_of_another_content_is_not_run(machine: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The package is there, but has not the file that is known."""

    def pack(*_: object, cwd: Path | None = None) -> None:
        assert cwd is not None
        (cwd / "package" / "build" / "amd64-linux").mkdir(parents=True)
        (cwd / "package" / "build" / "amd64-linux" / "bb").write_text("another")
        with programs.tarfile.open(cwd / f"aztec-bb.js-{programs.RELEASE}.tgz", "w:gz") as file:
            file.add(cwd / "package", "package")

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(programs, "run", pack)
        programs.offer_verifier()
    assert not os.environ["FASTNODE_TEST_BB"]
    assert "could not be fetched (ValueError" in capfd.readouterr().err
