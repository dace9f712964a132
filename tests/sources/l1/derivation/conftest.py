"""A made chain that is published on a scripted L1, and one that was recorded with its L1."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest
from coincurve import PrivateKey
from tests.sources.conftest import release as release
from tests.sources.l1.derivation.attesting import address_of
from tests.sources.l1.derivation.deriving import Deriving
from tests.sources.l1.publishing import PublishingL1, RecordedL1, publish, served
from tests.sources.made_chain import SHAPE, MadeChain, grown_chain

from fastnode.development.synthetic_chain import ChainShape
from fastnode.protocol.releases import Release


@pytest.fixture
def shape() -> ChainShape:
    """Of the made chain."""
    return SHAPE


@pytest.fixture
def chain(tmp_path: Path, shape: ChainShape, release: Release) -> Iterator[MadeChain]:
    """Three checkpoints of one, two and one blocks."""
    with grown_chain(tmp_path / "made", 1, 2, 1, shape=shape, release=release) as chain:
        yield chain


@pytest.fixture
def l1(tmp_path: Path, chain: MadeChain) -> Iterator[PublishingL1]:
    """It has the made chain."""
    with served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as l1:
        l1.genesis = chain.write_genesis(tmp_path / "genesis.jsonl")
        for unit in chain.units:
            publish(l1, unit)
        yield l1


@pytest.fixture
def committee() -> list[PrivateKey]:
    return [PrivateKey(bytes([place + 1]) * 32) for place in range(4)]


@pytest.fixture
def attested(tmp_path: Path, chain: MadeChain, committee: list[PrivateKey]) -> Iterator[PublishingL1]:
    """L1 without checkpoints, with a committee of four for every epoch."""
    with served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as l1:
        l1.genesis = chain.write_genesis(tmp_path / "genesis.jsonl")
        l1.committee_size = 4
        members = tuple(map(address_of, committee))
        l1.mine(committees=tuple((epoch, members) for epoch in range(200)))
        yield l1


@pytest.fixture
def node(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> Iterator[Deriving]:
    with ExitStack() as stack:
        yield Deriving(tmp_path / "node", chain.chain_record, chain.genesis, l1, stack)


@pytest.fixture(scope="session")
def sample(sample_chain: Path) -> list[dict[str, Any]]:
    """The recorded chain, line by line."""
    return [orjson.loads(line) for line in lzma.decompress(sample_chain.read_bytes()).splitlines()]


@pytest.fixture
def recorded(sample: list[dict[str, Any]]) -> Iterator[RecordedL1]:
    """The L1 of the recorded chain."""
    with served(RecordedL1(sample[0]["nodeInfo"], sample[0]["l1Constants"])) as l1:
        assert isinstance(l1, RecordedL1)
        yield l1
