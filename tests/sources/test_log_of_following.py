"""What a node that follows another one logs of its blocks: each at the tip, none of them on a long way there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import scripted_upstream

from fastnode.sources.progress import TOLD_BLOCKS_MAX, level_of_blocks


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with made_chain(tmp_path / "made") as chain:
        yield chain


def told_blocks(node: NodeProcess) -> list[int]:
    return [entry["number"] for entry in node.entries() if entry["message"] == "block"]


def wait_for_block(node: NodeProcess, number: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while node.call("node_getBlockNumber")["result"] != number:
        assert time.monotonic() < deadline, node.log.read_text()
        time.sleep(0.01)


def test_a_long_way_to_the_tip_is_not_told_block_by_block(
    tmp_path: Path, start_node: Callable[..., Any], chain: MadeChain
) -> None:
    for _ in range(8):
        chain.checkpoint(3)
    with scripted_upstream(chain) as upstream:
        arguments = ("--data-directory", tmp_path / "data", "--upstream-url", upstream.url)
        node = start_node(*arguments, "--archiver-polling-interval-ms=10")
        assert node.wait_for_line("caught up")["tip"] == 24
        node.wait_until_serving()
        assert told_blocks(node) == []
        assert len(node.entries()) < 24

        for number in (25, 26, 27):
            with upstream.lock:
                chain.propose()
            wait_for_block(node, number)
        with upstream.lock:
            chain.propose(2)
        wait_for_block(node, 29)
        assert node.stop() == 0
    assert told_blocks(node) == [25, 26, 27, 28, 29]


def test_blocks_that_were_missed_meanwhile_are_told_as_one(
    tmp_path: Path, start_node: Callable[..., Any], chain: MadeChain
) -> None:
    chain.propose()
    with scripted_upstream(chain) as upstream:
        arguments = ("--data-directory", tmp_path / "data", "--upstream-url", upstream.url)
        node = start_node(*arguments, "--archiver-polling-interval-ms=10").wait_until_serving()
        node.wait_for_line("caught up")
        with upstream.lock:
            chain.propose(TOLD_BLOCKS_MAX + 1)
        wait_for_block(node, TOLD_BLOCKS_MAX + 2)
        assert node.stop() == 0
    assert told_blocks(node) == [1]
    (line,) = (entry for entry in node.entries() if entry["message"] == "caught up" and "blocks" in entry)
    assert (line["tip"], line["blocks"]) == (TOLD_BLOCKS_MAX + 2, TOLD_BLOCKS_MAX + 1)


def test_a_few_blocks_are_told_one_by_one() -> None:
    assert level_of_blocks(0) == level_of_blocks(TOLD_BLOCKS_MAX) == logging.INFO
    assert level_of_blocks(TOLD_BLOCKS_MAX + 1) == logging.DEBUG
