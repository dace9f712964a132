"""scripts/*: what they say when the machine lacks something, and what they skip.

Nothing is built or installed here: the scripts run in a copy of the project's skeleton, with a
PATH that holds only what a test puts there and stand-ins for Python and the compiler.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import PATIENCE_S

PROJECT = Path(__file__).parents[1]
SCRIPTS = [
    PROJECT / ".ci" / "run",
    *(path for path in (PROJECT / "scripts").iterdir() if path.is_file() and b"python" not in path.read_bytes()[:40]),
]

#: What the scripts use of a POSIX system, apart from Python and the compiler.
TOOLS = ("bash", "cat", "chmod", "cksum", "dirname", "env", "find", "flock", "grep", "mkdir", "mv", "rm", "sh", "sort")
TOOLS += ("sleep", "touch", "readlink", "printf", "basename", "uname")

#: A Python that knows its version, has every module, and writes down what else it is asked for.
STAND_IN = """\
#!/bin/sh
case "$*" in
    *version_info*) echo {version}; exit 0 ;;
    *ensurepip*) exit {venv_missing} ;;
    *Python.h*) exit {headers_missing} ;;
    *purelib*) echo "$PWD/packages"; mkdir -p packages; exit 0 ;;
    *relpath*) echo ../src; exit 0 ;;
    *"-m venv"*) mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
esac
echo "$*" >>"{record}"
{extra}
"""


class Project:
    """A copy of what the scripts need, and a PATH under control."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.bin = root / "bin"
        self.record = root / "calls"
        #: Calls of pip by the script that made it ready.
        self.installs: list[str] = []
        self.bin.mkdir()
        shutil.copytree(PROJECT / "scripts", self.root / "scripts")
        (self.root / "src" / "fastnode" / "_ext").mkdir(parents=True)
        (self.root / "src" / "fastnode" / "_ext" / "kernel.pyx").write_text("# a kernel\n")
        shutil.copy(PROJECT / "setup.py", self.root / "setup.py")
        for name in ("tests/constraints.txt", "deploy/docker/constraints.txt", "deploy/docker/build-constraints.txt"):
            self.add_pins(name, "uvloop==0.22.1 --hash=sha256:00\n")
        for tool in (*TOOLS, "cp"):
            found = shutil.which(tool)
            if found is not None:
                (self.bin / tool).symlink_to(found)

    def add_python(
        self,
        version: str,
        *,
        name: str = "python3",
        venv_missing: bool = False,
        headers_missing: bool = False,
        extra: str = "exit 0",
    ) -> None:
        path = self.bin / name
        path.write_text(
            STAND_IN.format(
                version=version,
                record=self.record,
                venv_missing=int(venv_missing),
                headers_missing=int(headers_missing),
                extra=extra,
            )
        )
        path.chmod(0o755)

    def add_pins(self, name: str, content: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(content)

    def add_compiler(self, name: str = "cc") -> None:
        (self.bin / name).write_text("#!/bin/sh\n")
        (self.bin / name).chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), "HOME": str(self.root), **more}

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / "bash", self.root / "scripts" / script, *arguments],
            cwd=self.root,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def calls(self) -> list[str]:
        """What the Python stand-in was asked for, and forgets it."""
        calls = self.record.read_text().splitlines() if self.record.exists() else []
        self.record.unlink(missing_ok=True)
        return calls


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_every_script_is_valid_bash() -> None:
    for script in SCRIPTS:
        checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, ""), script.name


def test_every_script_can_be_executed() -> None:
    for script in (*(PROJECT / "scripts").iterdir(), PROJECT / ".ci" / "run"):
        assert os.access(script, os.X_OK) or script.suffix == ".sh", script.name


def test_a_machine_without_python_is_told_which_and_why(project: Project) -> None:
    result = project.run("run")
    assert result.returncode == 1
    assert result.stderr == (
        "fastnode: error: no Python found; fastnode needs Python 3.11 or newer (set "
        "PYTHON=/path/to/python3.12 if it is not on the PATH)\n"
    )


def test_a_python_of_another_version_is_named_and_refused(project: Project) -> None:
    project.add_python("3.10")
    result = project.run("test")
    assert result.returncode == 1
    assert "no fitting Python found (python3 is 3.10); fastnode needs Python 3.11 or newer" in result.stderr


def test_a_python_that_is_only_a_broken_shim_is_passed_over(project: Project) -> None:
    project.add_python("3.12", name="python3.12", extra="exit 127")
    (project.bin / "python3.12").write_text("#!/bin/sh\nexit 127\n")
    project.add_python("3.11")
    project.add_compiler()
    assert project.run("run").returncode == 0


def test_the_python_of_the_environment_must_fit_too(project: Project) -> None:
    project.add_python("3.11")
    project.add_python("3.10", name="other")
    result = project.run("run", PYTHON="other")
    assert result.returncode == 1
    assert "PYTHON=other is Python 3.10; fastnode needs Python 3.11 or newer" in result.stderr
    result = project.run("run", PYTHON="/nowhere/python")
    assert "PYTHON=/nowhere/python does not run" in result.stderr


def test_a_machine_without_a_compiler_is_told_what_to_install(project: Project) -> None:
    project.add_python("3.12")
    result = project.run("run")
    assert result.returncode == 1
    assert "no C compiler found (tried cc, gcc, clang)" in result.stderr
    assert "apt install gcc" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (project.root / ".venv").exists(), "nothing is begun that cannot be finished"


def test_a_compiler_of_the_environment_must_exist(project: Project) -> None:
    project.add_python("3.12")
    result = project.run("run", CC="no-such-cc -O2")
    assert "CC=no-such-cc -O2 names no C compiler" in result.stderr


def test_a_python_without_venv_or_headers_is_told_what_to_install(project: Project) -> None:
    project.add_compiler()
    project.add_python("3.11", venv_missing=True)
    result = project.run("run")
    assert result.returncode == 1
    assert "Python 3.11 has no venv module; Debian and Ubuntu: apt install python3.11-venv" in result.stderr
    project.add_python("3.11", headers_missing=True)
    result = project.run("run")
    assert result.returncode == 1
    assert "the C headers of Python 3.11 are missing" in result.stderr
    assert "apt install python3.11-dev" in result.stderr


def test_a_python_without_wheels_of_leveldb_is_told_what_to_install(project: Project) -> None:
    project.add_python("3.13")
    project.add_compiler()
    result = project.run("run")
    assert result.returncode == 1
    assert "plyvel, the LevelDB binding, has no wheel for Python 3.13 on this machine" in result.stderr
    assert "apt install g++ libleveldb-dev" in result.stderr
    assert result.stderr.count("\n") == 1
    project.add_compiler("c++")  # a stand-in that finds every header
    assert project.run("run").returncode == 0


def test_the_tested_releases_are_installed_with_their_hashes(project: Project) -> None:
    ready(project)
    (installed,) = project.installs
    pip = "-m pip install --quiet --disable-pip-version-check --require-hashes"
    assert installed == pip + "".join(
        f" --requirement={project.root}/deploy/docker/{name}.txt" for name in ("build-constraints", "constraints")
    )
    assert project.run("test").returncode == 0
    assert f"{pip} --requirement={project.root}/tests/constraints.txt" in project.calls()
    for script in ("run", "test", "bench"):
        assert project.run(script).returncode == 0
    assert not any("pip install" in call for call in project.calls())


def test_what_is_installed_for_tests_will_do_for_a_run(project: Project) -> None:
    project.add_python("3.12")
    project.add_compiler()
    assert project.run("test").returncode == 0
    project.calls()
    assert project.run("run").returncode == 0
    assert not any("pip install" in call for call in project.calls())


def test_each_python_that_is_here_is_tested_in_an_environment_of_its_own(project: Project) -> None:
    for version in ("3.11", "3.12"):
        project.add_python(version, name=f"python{version}")
    project.add_compiler()
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


def ready(project: Project) -> Project:
    project.add_python("3.12")
    project.add_compiler()
    assert project.run("run").returncode == 0
    project.installs = [call for call in project.calls() if "pip install" in call]
    return project


def test_the_first_run_makes_installs_builds_and_starts(project: Project) -> None:
    project.add_python("3.12")
    project.add_compiler()
    result = project.run("run", "--port", "0")
    assert result.returncode == 0, result.stderr
    kinds = [" ".join(call.split()[:4]) for call in project.calls()]
    assert kinds[0].startswith("-m venv --clear")
    assert any(kind.startswith("-m pip install") for kind in kinds)
    assert any(kind.startswith("setup.py --quiet build_ext") for kind in kinds)
    assert kinds[-1] == "-m fastnode start --node"


def test_the_second_run_only_starts(project: Project) -> None:
    ready(project)
    result = project.run("run", "--port", "0")
    assert result.stderr == ""
    assert project.calls() == [f"-m fastnode start --node --data-directory {project.root}/data --port 0"]


def test_what_has_changed_is_compiled_before_the_next_start(project: Project) -> None:
    """A start that compiles takes twice as long, and an environment may forbid Python to keep what it made."""
    ready(project)
    source = project.root / "src" / "fastnode" / "module.py"
    source.write_text("")
    later = time.time() + 60
    os.utime(source, (later, later))
    assert project.run("run", PYTHONDONTWRITEBYTECODE="1").returncode == 0
    compiled, started = project.calls()
    assert compiled == f"-m compileall -q {project.root}/src/fastnode"
    assert started.startswith("-m fastnode start")
    os.utime(source, (1, 1))
    project.run("run")
    assert len(project.calls()) == 1


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
    project: Project, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    ready(project).run("run", *arguments, **environment)
    assert project.calls() == [" ".join(("-m fastnode start --node", *arguments))]


def test_test_and_bench_pass_their_arguments_to_pytest(project: Project) -> None:
    ready(project)
    project.run("test", "tests/config", "-q")
    assert project.calls()[-1] == "-m pytest -n auto --dist loadfile --no-loadscope-reorder tests/config -q"
    project.run("bench", "-k", "import")
    assert project.calls()[-1] == "-m pytest bench --benchmark-only --benchmark-autosave -k import"
    (project.root / "bench").mkdir()
    (project.root / "bench" / "bench_rpc.py").touch()
    project.run("bench", "bench/bench_rpc.py")
    assert project.calls()[-1] == "-m pytest --benchmark-only --benchmark-autosave bench/bench_rpc.py"


def test_bench_puts_a_node_under_load(project: Project) -> None:
    ready(project)
    project.run("bench", "load", "--rounds", "1")
    assert project.calls()[-1] == "bench/load.py --rounds 1"
    project.run("bench", "--against", "http://node:8080")
    assert project.calls()[-1] == "bench/load.py --against http://node:8080"


@pytest.mark.parametrize("name", ["bench", "make-docs", "soak-following"])
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_a_script_without_a_parser_says_what_it_is_for_and_prepares_nothing(
    project: Project, name: str, flag: str
) -> None:
    done = project.run(name, flag)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout[0].isupper()
    assert "#" not in done.stdout
    assert not (project.root / ".venv").exists()


@pytest.mark.parametrize(("name", "argument"), [("make-docs", "settings"), ("soak-following", "--long")])
def test_arguments_that_a_script_does_not_take_are_refused(project: Project, name: str, argument: str) -> None:
    done = project.run(name, argument)
    assert done.returncode == 1
    assert name in done.stderr
    assert not (project.root / ".venv").exists()


def test_other_releases_are_installed_and_nothing_is_rebuilt(project: Project) -> None:
    ready(project).add_pins("deploy/docker/constraints.txt", "uvloop==0.22.2 --hash=sha256:00\n")
    project.run("run")
    calls = project.calls()
    assert any(call.startswith("-m pip install") for call in calls)
    assert not any("build_ext" in call for call in calls)


@pytest.mark.parametrize("name", ["kernel.pyx", "c/hash.h"])
def test_a_changed_source_rebuilds_even_with_an_older_time(project: Project, name: str) -> None:
    ready(project)
    source = project.root / "src" / "fastnode" / "_ext" / name
    source.parent.mkdir(exist_ok=True)
    source.write_text("// changed\n")
    os.utime(source, (0, 0))
    project.run("run")
    calls = project.calls()
    assert any("build_ext" in call for call in calls)
    assert not any(call.startswith("-m pip install") for call in calls)
    assert source.stat().st_mtime > 0, "build tools go by times, so the file's time must say that it changed"
    project.run("run")
    assert len(project.calls()) == 1


def test_a_failed_build_is_shown_and_repeated_from_scratch(project: Project) -> None:
    ready(project)
    (project.root / "src" / "fastnode" / "_ext" / "kernel.pyx").write_text("# broken\n")
    python = project.root / ".venv" / "bin" / "python"
    working = python.read_text()
    python.write_text(
        working.removesuffix("exit 0\n") + 'case "$*" in *build_ext*) echo kernel.pyx:1; exit 1 ;; esac\n'
    )
    result = project.run("run")
    assert result.returncode == 1
    assert "kernel.pyx:1" in result.stderr
    assert "the extensions could not be built" in result.stderr
    python.write_text(working)
    project.calls()
    assert project.run("run").returncode == 0
    assert any("build_ext --inplace --force" in call for call in project.calls())


def test_a_venv_that_was_left_half_made_is_made_again(project: Project) -> None:
    ready(project)
    (project.root / "build").mkdir(exist_ok=True)
    (project.root / "build" / "venv-unfinished").touch()
    project.run("run")
    assert project.calls()[0].startswith("-m venv --clear")


@pytest.mark.skipif(shutil.which("flock") is None, reason="no flock on this machine")
def test_two_scripts_at_once_build_once(project: Project) -> None:
    gate = project.root / "gate"  # the first one builds until the other one waits
    project.add_python(
        "3.12", extra=f'case "$*" in *build_ext*) until [ -e {gate} ]; do sleep 0.02; done ;; esac; exit 0'
    )
    project.add_compiler()
    logs = [project.root / f"{number}.log" for number in range(2)]
    with ExitStack() as stack:
        scripts = [
            subprocess.Popen(
                [project.bin / "bash", project.root / "scripts" / "run"],
                cwd=project.root,
                env=project.environment(),
                stderr=stack.enter_context(log.open("w")),
            )
            for log in logs
        ]
    deadline = time.monotonic() + PATIENCE_S
    while not any("waiting for another script" in log.read_text() for log in logs) and time.monotonic() < deadline:
        time.sleep(0.02)
    gate.touch()
    assert [script.wait(PATIENCE_S) for script in scripts] == [0, 0]
    messages = [log.read_text() for log in logs]
    calls = project.calls()
    assert sum("build_ext" in call for call in calls) == 1
    assert sum(call.startswith("-m fastnode start") for call in calls) == 2
    assert sum("waiting for another script" in message for message in messages) == 1


def test_the_versions_in_the_script_are_those_of_the_metadata() -> None:
    text = (PROJECT / "scripts" / "environment.sh").read_text()
    assert '[ "${1#3.}" -ge 11 ]' in text
    metadata = (PROJECT / "pyproject.toml").read_text()
    assert 'requires-python = ">=3.11"' in metadata
    candidates = re.search(r"for candidate in (.*?);", text)
    assert candidates is not None
    named = re.findall(r"Python :: (3\.\d+)", metadata)
    assert sorted(re.findall(r"python(3\.\d+)", candidates[1])) == sorted(named)


# ---- a browser for the tests ----------------------------------------------------------------------------

_OS_RELEASE = Path("/etc/os-release")
IS_ROOT_ON_DEBIAN = os.geteuid() == 0 and _OS_RELEASE.exists() and "\nID=debian\n" in _OS_RELEASE.read_text()
on_debian = pytest.mark.skipif(not IS_ROOT_ON_DEBIAN, reason="only for root on Debian")


def add_apt_get(project: Project, *, works: bool) -> None:
    """A stand-in that writes down what it is asked for."""
    path = project.bin / "apt-get"
    path.write_text(f'#!/bin/sh\necho "apt-get $*" >>"{project.record}"\nexit {0 if works else 100}\n')
    path.chmod(0o755)


def test_a_machine_without_a_browser_is_told_so_and_tested_all_the_same(project: Project) -> None:
    ready(project)
    result = project.run("test", "-q")
    assert result.returncode == 0
    assert "no Chromium found: the tests of the status page in a browser are skipped" in result.stderr
    assert project.calls()[-1] == "-m pytest -n auto --dist loadfile --no-loadscope-reorder -q"


def test_a_browser_that_is_there_or_named_is_used_without_a_word(project: Project) -> None:
    ready(project)
    add_apt_get(project, works=True)
    assert "Chromium" not in project.run("test", FASTNODE_CHROMIUM="/anywhere/chromium").stderr
    (project.bin / "chromium").write_text("#!/bin/sh\n")
    (project.bin / "chromium").chmod(0o755)
    result = project.run("test")
    assert "Chromium" not in result.stderr
    assert not any("apt-get" in call for call in project.calls())


@on_debian
def test_root_on_debian_gets_a_browser(project: Project) -> None:
    ready(project)
    add_apt_get(project, works=True)
    result = project.run("test")
    assert result.returncode == 0
    assert "installing Chromium" in result.stderr
    update, install, tests = project.calls()[-3:]
    assert update.startswith("apt-get")
    assert update.endswith("update")
    assert install.endswith("install --no-install-recommends chromium")
    assert tests == "-m pytest -n auto --dist loadfile --no-loadscope-reorder"


@on_debian
def test_without_a_network_a_browser_is_tried_for_once(project: Project) -> None:
    ready(project)
    add_apt_get(project, works=False)
    first = project.run("test")
    assert first.returncode == 0
    assert "Chromium could not be installed" in first.stderr
    assert project.calls()[-1] == "-m pytest -n auto --dist loadfile --no-loadscope-reorder"
    second = project.run("test")
    assert second.returncode == 0
    assert "could not be installed before" in second.stderr
    assert not any("apt-get" in call for call in project.calls())
