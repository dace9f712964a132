"""A node that takes transactions though they can go nowhere from it: for tests of what becomes of them before that.

    python -m tests.taking_node start ...      with ``PYTHONPATH`` at the top of the project

As if what follows the chain, or builds blocks, were beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fastnode.app.ground.way_out import WayOut
from fastnode.cli import main

MODULE = "tests.taking_node"
ROOT = str(Path(__file__).parents[1])


@contextmanager
def taking() -> Iterator[None]:
    """Nodes that start within take transactions."""
    with patch("fastnode.app.stages.core._way_out", lambda *_: WayOut(None)):
        yield


def start_taking(start_node: Callable[..., Any], *arguments: object, **environment: str) -> Any:
    """As the fixture ``start_node``."""
    return start_node(*arguments, module=MODULE, PYTHONPATH=ROOT, **environment)


if __name__ == "__main__":
    with taking():
        main()
