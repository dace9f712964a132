"""A made chain on a scripted L1, and nodes as processes behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.attacked import AttackedNode, l1_flags
from tests.sources.l1.derivation.conftest import attested as attested
from tests.sources.l1.derivation.conftest import chain as chain
from tests.sources.l1.derivation.conftest import committee as committee
from tests.sources.l1.derivation.conftest import l1 as l1
from tests.sources.l1.derivation.conftest import release as release
from tests.sources.l1.publishing import PublishingL1
from tests.sources.made_chain import SHAPE

from fastnode.development.synthetic_chain import ChainShape

Attacked = Callable[..., AttackedNode]


@pytest.fixture
def shape() -> ChainShape:
    """Without messages: those stay where they are when checkpoints are replaced, and this chain would bring others."""
    return replace(SHAPE, l1_to_l2=0)


@pytest.fixture
def attacked(tmp_path: Path, start_node: Callable[..., Any]) -> Attacked:
    """``attacked(l1, "name")``: a node that has L1 as its only source, or other sources by its flags."""

    def start(l1: PublishingL1, name: str = "on", *flags: object, **options: Any) -> AttackedNode:
        directory = ("--data-directory", tmp_path / f"data-{name}")
        return AttackedNode(start_node(*directory, *l1_flags(l1), *flags, **options))

    return start
