"""Networks of their own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.publishing.live_l1 import LiveL1, live_l1


@pytest.fixture
def l1(tmp_path: Path) -> Iterator[LiveL1]:
    """Without a committee; one account pays."""
    with live_l1("without_committee", tmp_path / "kept") as l1:
        yield l1
