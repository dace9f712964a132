"""A command in a fork is as one in a new interpreter, for who starts it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import forked_nodes
from tests.conftest import NO_FIXED_PORTS, PATIENCE_S, clean_environment

FASTNODE = (sys.executable, "-m", "fastnode")


def both(*words: str, **options: Any) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of a command in a fork, and of the same in an interpreter of its own."""
    command = [*FASTNODE, *words]
    begun = (
        forked_nodes.run(command, text=True, timeout=PATIENCE_S, **options),
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            **options,
        ),
    )
    return [(done.returncode, done.stdout, done.stderr) for done in begun]


def is_forked(process: subprocess.Popen[bytes]) -> bool:
    return b"tests.forked_nodes" in Path(f"/proc/{process.pid}/cmdline").read_bytes()


@pytest.mark.parametrize(
    "words",
    [["--version"], ["config", "show", "--json"], ["start", "--prot=1"], ["db", "check"], ["nonsense"]],
    ids=str,
)
def test_it_says_the_same_and_ends_the_same(words: Sequence[str]) -> None:
    forked, started = both(*words, env=clean_environment(SVC_PORT="4242"))
    assert forked == started


def test_it_has_the_directory_and_the_environment_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text("port = 4321\n")
    forked, started = both("config", "show", "--changed", env=clean_environment(SVC_CONFIG="node.toml"), cwd=tmp_path)
    assert forked == started
    assert "4321" in forked[1]


@pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")
def test_it_is_a_child_of_who_starts_it_and_ends_by_a_signal() -> None:
    command = [*FASTNODE, "start", "--node", *NO_FIXED_PORTS]
    with forked_nodes.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean_environment(), start_new_session=True
    ) as process:
        assert process.stderr is not None
        while b"serving" not in process.stderr.readline():
            assert process.poll() is None
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" in status
        assert is_forked(process)
        assert os.getsid(process.pid) == process.pid
        process.kill()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.parametrize("numbers", [range(3, 12), range(98, 107)], ids=str)
def test_a_descriptor_keeps_its_number_whichever_it_is(numbers: range) -> None:
    """Numbers that the process that forks has used itself are among them."""
    for least in numbers:
        reader, writer = os.pipe()
        passed = fcntl.fcntl(writer, fcntl.F_DUPFD_CLOEXEC, least)
        os.close(writer)
        command = [*FASTNODE, "start", "--local-network", *NO_FIXED_PORTS, f"--ready-fd={passed}"]
        with os.fdopen(reader, "rb") as ready:
            process = forked_nodes.Popen(
                command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[passed], env=clean_environment()
            )
            os.close(passed)
            with process:
                assert ready.readline(), passed
                process.kill()


def test_what_could_tell_the_difference_gets_an_interpreter() -> None:
    for environment in ({"FASTNODE_NO_EXTENSIONS": "2"}, {"LD_LIBRARY_PATH": "/nowhere"}, {"PYTHONPATH": "/nowhere"}):
        with forked_nodes.Popen(
            [*FASTNODE, "start", "--node", *NO_FIXED_PORTS],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(**environment),
        ) as process:
            assert not is_forked(process)
            process.kill()
