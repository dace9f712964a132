"""The newest blocks are known from the commits that brought them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sources.made_chain import MadeChain, made_chain

from fastnode.archiver.entries import block_info
from fastnode.recent_blocks import RECENT_BLOCKS, RecentBlocks
from fastnode.view import Committed


class Chain:
    """What is stored, and which of its blocks were read."""

    def __init__(self, blocks: list[Any]) -> None:
        self.blocks = blocks
        self.read: list[int] = []

    @property
    def view(self) -> Any:
        """Of the chain as it is now."""
        infos = [
            SimpleNamespace(number=0, hash=b"genesis"),
            *[block_info(block, block.hash()) for block in self.blocks],
        ]

        def read(number: int) -> Any:
            self.read.append(number)
            return infos[number]

        tips = SimpleNamespace(proposed=SimpleNamespace(hash=infos[-1].hash))
        return SimpleNamespace(chain=SimpleNamespace(tips=tips, tip_number=len(infos) - 1, block_info=read))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MadeChain]:
    with made_chain(tmp_path_factory.mktemp("made")) as chain:
        chain.propose(RECENT_BLOCKS + 5)
        yield chain


def numbers(recent: RecentBlocks, chain: Chain, count: int = RECENT_BLOCKS) -> list[int]:
    return [info.number for info in recent.newest(chain.view, count)]


def test_what_a_commit_brought_is_not_read_again(made: MadeChain) -> None:
    recent, chain = RecentBlocks(), Chain([])
    assert numbers(recent, chain) == [0]
    for block in made.blocks[:3]:
        chain.blocks.append(block)
        recent.on_committed(Committed(chain.view, (block,)))
    assert numbers(recent, chain) == [3, 2, 1, 0]
    assert chain.read == [0]
    assert recent.newest(chain.view)[0].hash == made.blocks[2].hash()
    chain.blocks += made.blocks[3:6]
    recent.on_committed(Committed(chain.view, tuple(made.blocks[3:6])))
    shown = [info.hash for info in recent.newest(chain.view)[:6]]
    assert shown == [block.hash() for block in reversed(made.blocks[:6])]
    assert chain.read == [0]


def test_what_was_stored_before_is_read_once(made: MadeChain) -> None:
    recent, chain = RecentBlocks(), Chain(list(made.blocks[:4]))
    assert numbers(recent, chain) == numbers(recent, chain) == [4, 3, 2, 1, 0]
    assert chain.read == [4, 3, 2, 1, 0]
    recent.on_committed(Committed(chain.view))
    assert numbers(recent, chain, 2) == [4, 3]
    assert len(chain.read) == 5


def test_no_more_are_kept_than_are_shown(made: MadeChain) -> None:
    recent, chain = RecentBlocks(), Chain(list(made.blocks))
    recent.on_committed(Committed(chain.view, tuple(made.blocks)))
    tip = len(made.blocks)
    assert numbers(recent, chain) == list(range(tip, tip - RECENT_BLOCKS, -1))
    assert chain.read == []


def test_blocks_that_are_undone_go(made: MadeChain) -> None:
    recent, chain = RecentBlocks(), Chain(list(made.blocks[:3]))
    recent.on_committed(Committed(chain.view, tuple(made.blocks[:3])))
    del chain.blocks[1:]
    recent.on_committed(Committed(chain.view, (), range(2, 4)))
    assert numbers(recent, chain) == [1, 0]
    chain.blocks.append(made.blocks[1])
    recent.on_committed(Committed(chain.view, (made.blocks[1],)))
    assert numbers(recent, chain) == [2, 1, 0]
    assert chain.read == [0]


def test_a_view_from_before_a_commit_gets_its_own_blocks(made: MadeChain) -> None:
    recent, chain = RecentBlocks(), Chain(list(made.blocks[:2]))
    before = chain.view
    chain.blocks.append(made.blocks[2])
    recent.on_committed(Committed(chain.view, (made.blocks[2],)))
    assert [info.number for info in recent.newest(before)] == [2, 1, 0]
    assert numbers(recent, chain) == [3, 2, 1, 0]
