"""Every command of the pages is run, in order, as a reader would; what cannot be says why."""

from __future__ import annotations

import re
import resource
import subprocess
from pathlib import Path

import click
import pytest
from tests.doc_runner import PROJECT, PageRun, blocks_of, matches, reason_against_running

from fastnode.cli.app import root

PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
PAGES_WITH_COMMANDS = [page for page in PAGES if any(block.is_run for block in blocks_of(page))]
#: Blocks that are not run, on all pages together.
NOT_RUN_MAX = 11
#: Pages with former names, with those of other nodes or of scripts, or with mistakes.
OTHER_NAMES = ("settings.md", "mistakes.md", "testing.md")
#: From the first command of the README to a witness, with what has to be built on the way; of processor time, as other
#: programs may use the machine.
FIRST_WITNESS_S = 300.0


@pytest.fixture
def can_run() -> None:
    reason = reason_against_running()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path, can_run: None) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    PageRun(page, tmp_path)
    if page.name == "README.md":
        assert "siblingPath" in "".join(output.read_text() for output in tmp_path.glob("*.out"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < FIRST_WITNESS_S


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_is_good_shell(page: Path) -> None:
    for block in blocks_of(page):
        assert block.commands.strip(), f"{page.name}:{block.line} has no command"
        checked = subprocess.run(["bash", "-n"], input=block.commands, capture_output=True, text=True)
        assert checked.returncode == 0, f"{page.name}:{block.line}: {checked.stderr}"


def test_few_commands_are_not_run_and_each_says_why() -> None:
    not_run = [
        f"{page.name}:{block.line}: {block.mark}" for page in PAGES for block in blocks_of(page) if not block.is_run
    ]
    assert len(not_run) <= NOT_RUN_MAX, "\n".join(not_run)


def flags_of(command: click.Command) -> set[str]:
    """Of a command and of all below it."""
    found = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    return found.union(*map(flags_of, command.commands.values())) if isinstance(command, click.Group) else found


def test_every_flag_that_a_page_names_is_one() -> None:
    known = flags_of(root) | {"--help"}
    for page in PAGES:
        if page.name in OTHER_NAMES:
            continue
        is_figure = False  # commands of figures are those of benchmarks
        for number, line in enumerate(page.read_text().splitlines(), 1):
            is_figure = line.startswith("<!-- figures: ") or (is_figure and line != "<!-- end of figures -->")
            ours = "" if is_figure else line.partition("aztec start")[0]  # what is behind it is of the published node
            for name in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w-]|\.\w)", ours):
                assert name in known, f"{page.name}:{number}: {name}"


def test_every_start_in_a_page_says_of_what() -> None:
    for page in PAGES:
        if page.name in OTHER_NAMES:
            continue
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for start in re.findall(r"fastnode start (--\S+.*)", line):
                assert re.match(r"--node|--local-network|--help", start), f"{page.name}:{number}: {start}"


# ---- the runner itself ---------------------------------------------------------------------------------


def run_text(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    (tmp_path / "scratch").mkdir()
    PageRun(page, tmp_path / "scratch")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```sh\ntrue\n```\n\n```sh\nfalse\n```\n", "page.md:6: exit 1"),
        ("```console\n$ echo 5\n6\n```\n", "page.md:2: it printed something else"),
        ("```sh\necho '{\"error\":{}}'\n```\n", "page.md:2: an answer is an error"),
        ("<!-- runs in the background -->\n```sh\nexit 3\n```\n", "page.md:3: exit 70"),
    ],
)
def test_a_block_that_fails_is_named(text: str, words: str, tmp_path: Path, can_run: None) -> None:
    with pytest.raises(AssertionError) as caught:
        run_text(text, tmp_path)
    assert words in str(caught.value)


def test_three_dots_stand_for_anything() -> None:
    assert matches('{\n  "a": ...,\n...\n}\n', '{\n  "a": 5,\n  "b": 6\n}\n')
    assert not matches("a...c", "a b")
    assert not matches("5", "55")
