"""The recipe of CONTRIBUTING.md for a method with existing types: four files by hand, the rest is made from them.

It is followed for a made-up method in a copy of the project, where the tests that hold methods together then pass.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

NAME = "fastnode_getTipNumber"

HANDLER = """
def _get_tip_number(context: Context) -> bytes:
    return b"%d" % context.view.chain.tip_number


"""

ROW = f"""
    Method(
        name="{NAME}",
        summary="The number of the newest block.",
        handler=_get_tip_number,
        **common("number"),
    ),
"""

TEST = f"""

def test_the_tip_is_the_newest_block(both: Any) -> None:
    assert both.result("{NAME}") == both.result("node_getBlockNumber")
"""

#: Where each part goes: file, the text behind which it stands (empty: at the end), the part.
BY_HAND = {
    "src/fastnode/api/chain.py": [("# ---- tips " + "-" * 83 + "\n\n", HANDLER), ("_TIP_METHODS: Final = [", ROW)],
    "tests/api/test_chain.py": [("", TEST)],
    "src/fastnode/data/method_examples.json": [("{\n", f'"{NAME}": [\n  {{"params":[],"result":106}}\n],\n')],
    "CHANGELOG.md": [("### Added\n\n", f"- `{NAME}`.\n")],
}

MADE = {
    "docs/methods-5.md",
    "docs/methods.md",
    "src/fastnode/client/methods.py",
    "src/fastnode/client/methods5.py",
    "src/fastnode/client/prepared.py",
    "src/fastnode/client/prepared5.py",
}

#: What holds the methods, their pages, their examples and the clients together.
TESTS = (
    "tests/api/test_openrpc.py",
    "tests/app/test_methods_page.py",
    "tests/client/test_client.py::test_the_methods_of_the_clients_are_those_of_the_table",
    "tests/client/test_client.py::test_every_method_can_be_prepared_and_called_under_one_name",
    "tests/test_repository.py::test_the_page_of_methods_lists_every_method",
    "tests/test_unused_names.py",
    "tests/api/test_chain.py::test_the_tip_is_the_newest_block",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project without its history and its large files; with what Python has compiled, which takes long."""
    folder = tmp_path / "project"
    leave_out = shutil.ignore_patterns("*.c", "*.gz", "*.xz")
    for name in ("src", "docs", "scripts", "bench"):
        shutil.copytree(PROJECT / name, folder / name, ignore=leave_out)
    shutil.copytree(PROJECT / "tests", folder / "tests", ignore=shutil.ignore_patterns("data"))
    (folder / "tests" / "data").symlink_to(PROJECT / "tests" / "data")
    for page in (*PROJECT.glob("*.md"), PROJECT / "pyproject.toml"):
        shutil.copy(page, folder / page.name)
    shutil.copytree(PROJECT / "src" / "fastnode" / "data", folder / "src" / "fastnode" / "data", dirs_exist_ok=True)
    return folder


def run(folder: Path, *command: str | Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def write(folder: Path) -> None:
    for name, parts in BY_HAND.items():
        path = folder / name
        text = path.read_text(encoding="utf-8")
        for place, part in parts:
            assert place in text, f"{name} has no place for it"
            text = text.replace(place, place + part, 1) if place else text + part
        path.write_text(text, encoding="utf-8")


def changed(folder: Path) -> set[str]:
    """Files that are not as they are in the project."""
    found = set()
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        is_made_by_python = {"__pycache__", ".pytest_cache", ".hypothesis"} & set(name.parts)
        original = PROJECT / name
        if path.is_file() and not is_made_by_python:
            is_same = original.is_file() and filecmp.cmp(path, original, shallow=False)
            found |= set() if is_same else {str(name)}
    return found


def test_a_method_with_existing_types_takes_four_files(copy: Path) -> None:
    assert "That is four files" in (PROJECT / "CONTRIBUTING.md").read_text()
    write(copy)
    assert changed(copy) == set(BY_HAND)
    assert len(BY_HAND) == 4
    (copy / "docs" / "methods.md").write_text(run(copy, "-m", "fastnode.app.ground.documentation"))
    (copy / "docs" / "methods-5.md").write_text(run(copy, "-m", "fastnode.app.ground.documentation", "5.x"))
    run(copy, "-m", "fastnode.development.client_code", copy / "src" / "fastnode" / "client")
    assert changed(copy) == set(BY_HAND) | MADE
    assert run(copy, "-m", "fastnode", "--version")
    run(
        copy,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-k",
        "method or example or user or tip_is",
        *TESTS,
    )
