"""Finality as providers of L1 say it, rightly or not: what is stored as final is not taken back easily."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sources.l1.derivation.deriving import Deriving
from tests.sources.l1.publishing import PublishingL1, publish, served
from tests.sources.made_chain import SHAPE, MadeChain
from tests.sources.scripted_upstream import RejectionError

from fastnode.archiver.source import UndoRecord
from fastnode.development.synthetic_chain import ChainShape
from fastnode.errors import UpstreamFault
from fastnode.sources.l1.source import CONTRADICTION_S

LIE = 3


@pytest.fixture
def shape() -> ChainShape:
    """Without messages, which would be others once checkpoints are replaced."""
    return replace(SHAPE, l1_to_l2=0)


def calling_final(number: int) -> Callable[[str, Any, Any], Any]:
    """The answer to the newest final block's checkpoint, the last word of its call, is another one."""

    def tamper(method: str, parameters: Any, result: Any) -> Any:
        if method == "eth_call" and parameters[1] == "finalized":
            return result[:-64] + f"{number:064x}"
        return result

    return tamper


def refuse(method: str, parameters: Any, result: Any) -> Any:
    raise RejectionError(-32000, "not now")


@pytest.fixture
def other(chain: MadeChain, l1: PublishingL1) -> Iterator[PublishingL1]:
    """A second provider of the same L1."""
    with served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as other:
        other.blocks = l1.blocks
        yield other


@pytest.fixture
def node(tmp_path: Path, chain: MadeChain, l1: PublishingL1, other: PublishingL1) -> Iterator[Deriving]:
    with ExitStack() as stack:
        yield Deriving(tmp_path / "node", chain.chain_record, chain.genesis, l1, stack, other_urls=[other.url])


def final_of(node: Deriving) -> int:
    return node.tips.finalized.checkpoint.number


def test_nothing_is_final_that_is_not_proven(node: Deriving, l1: PublishingL1, other: PublishingL1) -> None:
    node.pass_()
    l1.tamper = other.tamper = calling_final(LIE)
    l1.mine(proven=1)
    node.pass_()
    assert final_of(node) == 0
    l1.tamper = other.tamper = lambda method, parameters, result: result
    l1.mine(l1.finality)
    node.pass_()
    assert final_of(node) == 1


def test_a_second_provider_is_asked_before_anything_is_final(
    node: Deriving, l1: PublishingL1, other: PublishingL1
) -> None:
    l1.mine(proven=LIE)
    node.pass_()
    l1.tamper = calling_final(LIE)
    l1.mine()
    node.pass_()
    assert final_of(node) == 0
    l1.mine(l1.finality)
    node.pass_()
    assert final_of(node) == LIE


def test_one_provider_is_enough_where_the_other_does_not_answer(
    node: Deriving, l1: PublishingL1, other: PublishingL1
) -> None:
    l1.mine(proven=2)
    node.pass_()
    other.tamper = refuse
    l1.mine(l1.finality)
    node.pass_()
    assert final_of(node) == 2


def test_what_was_called_final_wrongly_is_given_up_in_the_end(
    node: Deriving, chain: MadeChain, l1: PublishingL1, other: PublishingL1, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only when no provider has had it for long; then the chain goes on, also after another start."""
    l1.mine(proven=LIE)
    l1.tamper = other.tamper = calling_final(LIE)
    l1.mine()
    node.pass_()
    assert final_of(node) == LIE
    l1.tamper = other.tamper = lambda method, parameters, result: result
    with l1.lock:
        first = next(block.number for block in l1.blocks if block.pending == LIE)
        l1.reorg(len(l1.blocks) - first)
        chain.undo_to(chain.units[LIE - 2].blocks[-1].number)
        chain.checkpoint(2)
        publish(l1, chain.units[-1])
    with pytest.raises(UpstreamFault, match="another checkpoint 3 than the final one"):
        node.pass_()
    now = node.source._clock()
    monkeypatch.setattr(node.source, "_clock", lambda: now + CONTRADICTION_S + 1)
    l1.mine()
    applied = node.pass_()
    assert any(isinstance(record, UndoRecord) and record.is_below_final for record in applied)
    assert node.tips.checkpointed.block.hash == chain.units[-1].blocks[-1].hash()
    assert final_of(node) < LIE
    chain.checkpoint(1)
    publish(l1, chain.units[-1])
    node.pass_()
    assert node.tips.checkpointed.block.hash == chain.units[-1].blocks[-1].hash()
