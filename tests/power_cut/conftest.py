"""Chains that are the truth, and short distances for all kinds of work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.power_cut import life
from tests.power_cut.truth import Truth, make_truth


@pytest.fixture(scope="session")
def true_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("truth")
    make_truth(folder)
    return folder


@pytest.fixture(scope="module")
def truth(true_folder: Path) -> Iterator[Truth]:
    truth = Truth(true_folder)
    yield truth
    truth.close()


@pytest.fixture(scope="module", autouse=True)
def near() -> Iterator[None]:
    """Distances as those of the lives."""
    with pytest.MonkeyPatch.context() as patch:
        life.shorten_distances(patch.setattr)
        yield
