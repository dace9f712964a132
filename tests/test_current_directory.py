"""Python files in the current directory are never executed, by no command and by none of its child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import click
import pytest

from fastnode.cli.app import root

COMMAND = Path(sys.prefix) / "bin" / "fastnode"
TIMEOUT_S = 120.0

#: Starts a network, replaces its process by a reset, and stops it.
NETWORK = """
import time
from fastnode.errors import FastnodeError
from fastnode.testing import local_network

with local_network("--no-test-accounts") as network:
    network.mine(2)
    before = network.block_number
    network.call("fastnode_reset")
    for _ in range(600):
        try:
            if network.block_number < before:
                break
        except FastnodeError:  # it starts again
            pass
        time.sleep(0.1)
    else:
        raise SystemExit("the network was not reset")
"""


class HostileFolder:
    """A folder with a file for each module that Python could import, which writes its name down when it is imported."""

    def __init__(self, root: Path) -> None:
        self.path = root / "hostile"
        self.path.mkdir()
        self._imported = root / "imported"
        names = {*sys.stdlib_module_names, *packages_distributions(), "sitecustomize", "usercustomize", "fastnode"}
        for name in names:
            (self.path / f"{name}.py").write_text(
                f"with open({str(self._imported)!r}, 'a') as file:\n    file.write({name!r} + ' ')\n"
            )

    def run(self, *command: object) -> subprocess.CompletedProcess[str]:
        """A real process: a fork of one that has imported everything would import nothing from here."""
        hidden = ("PYTHONSAFEPATH", "PYTHONPATH")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in hidden and not name.startswith(("SVC_", "LOG_"))
        }
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.path, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    def imported(self) -> str:
        return self._imported.read_text() if self._imported.exists() else ""


@pytest.fixture
def hostile(tmp_path: Path) -> HostileFolder:
    return HostileFolder(tmp_path)


def leaf_commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaf_commands(found, (*path, name))
    else:
        yield path


def runs(chain: Path, folder: Path) -> list[tuple[int, Sequence[object]]]:
    """Every command but ``start``, as far as it comes without another server, with its exit code.

    ``local-network`` is ``start`` under another name: its help is enough.
    """
    data, snapshots, unreachable = folder / "data", f"file://{folder}/snapshots", "--url=http://127.0.0.1:9"
    directory, file = ("--data-directory", data), folder / "file.json"
    file.write_text("{}")
    return [
        (0, ("local-network", "--help")),
        (0, ("import", chain, "--no-verify", *directory)),
        (0, ("export", folder / "chain.jsonl", *directory)),
        (0, ("export", "--format", "parquet", "--to", "8", folder / "tables", *directory)),
        (0, ("db", "check", "--processes", "2", *directory)),
        (0, ("snapshot", "create", snapshots, *directory)),
        (0, ("snapshot", "create", snapshots, "--leaves", *directory)),
        (0, ("snapshot", "list", snapshots)),
        (0, ("snapshot", "verify", snapshots)),
        (0, ("snapshot", "verify", snapshots, "--leaves")),
        (0, ("snapshot", "restore", snapshots, "--data-directory", folder / "restored")),
        (1, ("snapshot", "restore", snapshots, "--leaves", "--data-directory", folder / "leaves")),
        (0, ("config", "show")),
        (0, ("openrpc",)),
        (0, ("completion", "bash")),
        (1, ("artifact", file, unreachable)),
        (1, ("rpc", "getBlockNumber", unreachable)),
        (1, ("status", unreachable)),
        (1, ("trace", "0x" + 64 * "1", unreachable)),
        (1, ("fleet", "status", "--bus-url=nats://127.0.0.1:9", "--timeout=1")),
        (1, ("migrate-ha-db", "up", "--database-url=postgresql://127.0.0.1:9/none")),
        (1, ("migrate-ha-db", "down", "--database-url=postgresql://127.0.0.1:9/none")),
        (1, ("proofs", "check", file, *directory)),
        (78, ("proofs", "install", folder / "missing", *directory)),
    ]


def test_no_command_imports_a_module_of_the_current_directory(
    hostile: HostileFolder, short_chain: Path, tmp_path: Path
) -> None:
    tried = []
    for code, arguments in runs(short_chain, tmp_path):
        done = hostile.run(COMMAND, *arguments)
        assert (hostile.imported(), done.returncode) == ("", code), (arguments, done.stdout, done.stderr)
        tried.append(arguments)
    left = [
        path
        for path in leaf_commands(root)
        if path != ("start",) and not any(tuple(each[: len(path)]) == path for each in tried)
    ]
    assert left == []


def test_a_local_network_that_is_reset_imports_no_module_of_the_current_directory(
    hostile: HostileFolder, tmp_path: Path
) -> None:
    script = tmp_path / "network.py"
    script.write_text(NETWORK)
    done = hostile.run(sys.executable, script)
    assert (hostile.imported(), done.returncode) == ("", 0), done.stderr


def test_the_module_fastnode_imports_no_package_of_the_current_directory(hostile: HostileFolder) -> None:
    """The standard library of Python begins ``-m`` itself, before anything of ours can see to it."""
    for name in {*sys.stdlib_module_names, "sitecustomize", "usercustomize", "fastnode"}:
        (hostile.path / f"{name}.py").unlink()
    done = hostile.run(sys.executable, "-m", "fastnode", "config", "show")
    assert (hostile.imported(), done.returncode) == ("", 0), done.stderr
