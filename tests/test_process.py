"""What a node asks of the system for its process."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import logging, resource, sys
from fastnode.process import _allow_open_files
logging.basicConfig(format="%(message)s", stream=sys.stdout)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, int(sys.argv[1])))
_allow_open_files(int(sys.argv[2]))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("hard", "wanted", "said"),
    [
        (400, 300, ["300 400"]),
        (400, 100, ["100 400"]),
        (400, 50, ["100 400"]),
        (400, 900, ["fewer open files are allowed than the connections may need", "400 400"]),
    ],
)
def test_as_many_open_files_as_needed_are_asked_for_and_no_more(hard: int, wanted: int, said: list[str]) -> None:
    command = [sys.executable, "-c", ASK, str(hard), str(wanted)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == said
