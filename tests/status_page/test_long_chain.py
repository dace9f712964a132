"""The length of the chain is nothing to the status page."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import orjson
from tests.status_page.conftest import LONG_CHAIN_BLOCKS

from fastnode.archiver.queries import ChainView
from fastnode.status_page import lists
from fastnode.view import View

#: Largest overview, however long the chain: a phone on a slow line takes it every other second.
OVERVIEW_BYTES_MAX = 64_000


class CountingView:
    """A view that counts what is read of the database."""

    def __init__(self, view: ChainView) -> None:
        self._view, self._get = view, view.get
        self.reads = 0

    def __enter__(self) -> CountingView:
        def count(key: bytes) -> bytes | None:
            self.reads += 1
            value: bytes | None = self._get(key)
            return value

        self._view.get = count
        return self

    def __exit__(self, *details: object) -> None:
        self._view.get = self._get


def test_an_overview_of_a_long_chain_reads_no_more_than_one_of_a_short_chain(
    open_site: Any, long_chain: ChainView
) -> None:
    own = open_site.node.view
    with CountingView(own.chain) as short:
        open_site.json("status-page/overview")
    open_site.show(View(long_chain))
    try:
        with CountingView(long_chain) as long:
            answer = open_site.json("status-page/overview")
    finally:
        open_site.show(own)
    assert answer["chain"]["tips"]["proposed"]["block"] == LONG_CHAIN_BLOCKS
    assert answer["chain"]["tips"]["finalized"]["block"] == LONG_CHAIN_BLOCKS - 4
    # Blocks that a commit brought are not read at all.
    assert short.reads <= own.chain.tip_number + 1
    assert long.reads <= 20


def test_an_overview_of_a_long_chain_is_small(long_site: Any) -> None:
    _, _, body = long_site.get("status-page/overview")
    assert len(body) < OVERVIEW_BYTES_MAX


def test_blocks_of_a_long_chain_are_found(long_site: Any) -> None:
    (finding,) = long_site.find(str(LONG_CHAIN_BLOCKS // 2))["found"]
    hash_text = finding["facts"][0]["value"]
    assert orjson.dumps(long_site.find(hash_text)["found"]).startswith(b'[{"kind":"block"')


class _SizedChain:
    """A chain of which some blocks have a transaction; counts how many headers are looked at."""

    def __init__(self, tip: int, with_txs: set[int]) -> None:
        self._sizes = [0]
        for number in range(1, tip + 1):
            self._sizes.append(self._sizes[-1] + 64 * (number in with_txs))
        self._with_txs = with_txs
        self.reads = 0

    def block_info(self, number: int) -> Any:
        return SimpleNamespace(tx_count=int(number in self._with_txs))

    def header_json(self, number: int) -> bytes:
        self.reads += 1
        return orjson.dumps({"state": {"partial": {"noteHashTree": {"nextAvailableLeafIndex": self._sizes[number]}}}})


def test_empty_blocks_are_passed_by_in_few_reads() -> None:
    randomly = Random(42)
    for tip, count in ((1, 0), (1, 1), (50, 3), (3000, 2), (100_000, 5)):
        with_txs = set(randomly.sample(range(1, tip + 1), count))
        chain: Any = _SizedChain(tip, with_txs)
        for number in (tip, 0, *(randomly.randrange(tip + 1) for _ in range(50))):
            chain.reads = 0
            expected = max((block for block in with_txs if block <= number), default=None)
            assert lists._with_txs(chain, number) == expected, (tip, number)
            assert chain.reads <= 2 * tip.bit_length() + 3
