"""Networks of their own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.sequencing.network import ProposingNetwork, proposing_network


@pytest.fixture
def alone(tmp_path: Path, start_node: Callable[..., Any]) -> Iterator[ProposingNetwork]:
    """Without a committee: anybody may propose.  At the begin of an epoch, as L1 gives up what is not proven when the
    next one ends."""
    with proposing_network("without_committee", tmp_path, start_node) as network:
        network.begin_slot(network.slot // 4 * 4 + 4)
        yield network


@pytest.fixture
def committee(tmp_path: Path, start_node: Callable[..., Any]) -> Iterator[ProposingNetwork]:
    """Four of six validators: the first accounts of the test mnemonic."""
    with proposing_network("committee_of_4", tmp_path, start_node) as network:
        yield network
