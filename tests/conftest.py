"""Shared fixtures, and one refusal: the suite must not pass on twins by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


def pytest_report_header() -> str:
    from fastnode import kernels

    return f"fastnode kernels: {'pure-Python twins' if kernels.USING_TWINS else kernels.poseidon2.kernel_name()}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("FASTNODE_LONG") == "1":
        return
    skip = pytest.mark.skip(reason="long: set FASTNODE_LONG=1")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The folder of recorded and generated test data."""
    return DATA
