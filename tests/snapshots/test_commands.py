"""fastnode snapshot create, list, restore, verify: what they print and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import forked_nodes

NETWORK = "fastnode-31337-3658137161-0x322813fd9a801c5507c9de605d63cea4f2ce6c44"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SVC_", "LOG_", "SYNC_"))}
    command = [sys.executable, "-m", "fastnode", "snapshot", *arguments]
    return forked_nodes.run(command, text=True, timeout=120, env=environment)


def test_a_snapshot_goes_from_one_directory_to_another(old: Path, tmp_path: Path) -> None:
    url, target = f"file://{tmp_path}/location", tmp_path / "target"
    created = run("create", url, "--data-directory", old)
    assert created.returncode == 0, created.stderr
    assert created.stdout.startswith("block 3, ")
    listed = run("list", url).stdout.splitlines()
    assert listed[0] == NETWORK
    assert "  block 3  " in listed[1]
    assert run("verify", url).stdout == f"block 3 of {NETWORK}: whole\n"
    assert run("restore", url, "--data-directory", target).stdout == f"restored block 3 of {NETWORK}\n"
    refused = run("restore", url, "--data-directory", target)
    assert refused.returncode == 1
    assert refused.stderr.endswith("holds a chain already; add --replace to give it up\n")
    assert run("restore", url, "--data-directory", target, "--replace").returncode == 0


def test_leaves_go_from_one_directory_to_another_once_somebody_confirms_them(old: Path, tmp_path: Path) -> None:
    url, target = f"file://{tmp_path}/location", tmp_path / "target"
    created = run("create", url, "--leaves", "--data-directory", old)
    assert created.returncode == 0, created.stderr
    assert created.stdout.startswith("block 3, leaves of block 3, ")
    [listed] = json.loads(run("list", url, "--json").stdout)
    assert (listed["form"], listed["block"], listed["oldestBlock"]) == ("leaves", 3, 3)
    refused = run("restore", url, "--leaves", "--data-directory", target)
    assert refused.returncode == 1
    assert "nothing here says whose chain the leaves are of: give the hash of their block" in refused.stderr
    other = run("restore", url, "--leaves", "--block-hash", "0x" + 64 * "0", "--data-directory", target)
    assert other.returncode == 1
    assert f"not 0x{64 * '0'}" in other.stderr
    block_hash = other.stderr.split("its block 3 is ")[1][:66]
    done = run("restore", url, "--leaves", "--block-hash", block_hash, "--data-directory", target)
    assert done.stdout == f"restored block 3 of {NETWORK}\n", done.stderr


def test_a_snapshot_may_be_chosen_by_its_block(snapshot: Path, old: Path, tmp_path: Path) -> None:
    url = f"file://{snapshot}"
    assert run("create", url, "--data-directory", old).returncode == 0
    assert run("verify", url, "--block", 16).stdout == f"block 16 of {NETWORK}: whole\n"
    missing = run("verify", url, "--block", 7)
    assert missing.returncode == 1
    assert f"has no snapshot of {NETWORK} of block 7" in missing.stderr


def test_a_damaged_snapshot_is_one_line_and_exit_code_1(snapshot: Path) -> None:
    [folder] = snapshot.iterdir()
    [archive] = folder.glob("world-state-*.tar")
    archive.write_bytes(archive.read_bytes()[:-1] + b"\1")
    done = run("verify", f"file://{snapshot}")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "its SHA-256 is not the one that the index says" in done.stderr


def test_a_directory_without_a_chain_has_nothing_to_copy(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run("create", f"file://{tmp_path}/location", "--data-directory", tmp_path / "empty")
    assert done.returncode == 1
    assert "has no database archiver" in done.stderr


def test_a_directory_in_use_is_not_copied(old: Path, tmp_path: Path) -> None:
    from fastnode.storage.data_directory import DataDirectory

    with DataDirectory.open(old, create=False):
        done = run("create", f"file://{tmp_path}/location", "--data-directory", old)
    assert done.returncode == 1
    assert "is in use by fastnode process" in done.stderr
