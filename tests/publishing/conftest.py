"""Networks of their own for each test, and the database of duties of tests/ha."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ha.conftest import database, empty_database, server_url
from tests.publishing.live_l1 import LiveL1, live_l1

__all__ = ["database", "empty_database", "server_url"]


@pytest.fixture
def l1(tmp_path: Path) -> Iterator[LiveL1]:
    """Without a committee; one account pays."""
    with live_l1("without_committee", tmp_path / "kept") as l1:
        yield l1
