"""Providers of L1 and places of blobs that answer anything at all end no thread, and the chain is derived again as soon
as they behave.  FASTNODE_LONG=1 mutates ten thousand answers of each, FASTNODE_SEED=N repeats those of another run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mutated_answers import ANSWERS, Mutator, seed
from tests.sources import conftest as following_nodes
from tests.sources.conftest import FollowingNode
from tests.sources.l1.publishing import PublishingL1, publish
from tests.sources.made_chain import MadeChain
from tests.sources.test_mutated_answers import AT_ONCE, LONG_S, until
from tests.test_loop import KINDS

from fastnode.app.stages import derivation
from fastnode.config.settings import Settings
from fastnode.outgoing.client import RpcClient
from fastnode.protocol.releases import FIVE, FOUR
from fastnode.sources.blobs.fetcher import FetchPatience
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.l1 import retries
from fastnode.sources.l1.source import L1Source

#: Of a place of blobs.
NO_PAUSES = FetchPatience(retries_s=(0.0,), store_rounds_s=(0.0,), lie_rest_s=0.001)


#: Seconds for an answer of L1: some mutated ones never end, and others take their time on a busy machine.
ANSWER_S = 1.0


@contextmanager
def deriving(directory: Path, l1: PublishingL1, answer_s: float = 10.0) -> Iterator[FollowingNode]:
    """A node with L1 as its only source."""
    settings = Settings(
        l1_rpc_urls=(l1.url,),
        l1_consensus_host_urls=(l1.beacon.url,),
        registry_address=l1.addresses.registry,
        genesis=l1.genesis,
        max_allowed_eth_client_drift_seconds=0,
        ethereum_allow_no_debug_hosts=True,
        archiver_polling_interval_ms=5,
        l1_polling_interval_ms=5,
        l1_timeout_s=answer_s,
    )
    with ExitStack() as stack:
        yield FollowingNode(directory, stack, settings)


def has(node: FollowingNode, chain: MadeChain) -> bool:
    return node.tips.checkpointed == chain.tips().checkpointed


def grow(chain: MadeChain, l1: PublishingL1) -> None:
    with l1.lock, l1.beacon.lock:
        chain.checkpoint(1)
        publish(l1, chain.units[-1])


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_nodes, "QUICK", AT_ONCE)
    monkeypatch.setattr(derivation, "FetchPatience", lambda: NO_PAUSES)
    monkeypatch.setattr(retries, "PAUSE_MAX_S", 0.01)
    monkeypatch.setitem(L1Source.__init__.__kwdefaults__, "first_pause_s", 0.01)


def mutate(node: FollowingNode, chain: MadeChain, l1: PublishingL1, mutator: Mutator) -> None:
    """All of its answers, while the chain grows, and what comes of it."""
    due = 0

    def is_done() -> bool:
        nonlocal due
        # Some mutations change nothing, and who has everything asks for no blobs.
        if has(node, chain) or mutator.count >= due:
            due = mutator.count + ANSWERS // 10
            grow(chain, l1)
        return mutator.count >= ANSWERS or bool(node.failures)

    until(is_done, lambda: (mutator.count, node.follower.describe()), LONG_S)
    assert not node.failures, node.failures
    grow(chain, l1)
    mutator.is_on = False
    begun = time.monotonic()
    node.wait(lambda: has(node, chain) and node.follower.trouble is None)
    print(f"{mutator.count} mutated answers; at the tip {time.monotonic() - begun:.2f} s after it behaves")
    assert not any(node.follower.faults().values())
    assert node.origins.l1 is not None
    node.wait(lambda: node.origins.l1.trouble is None)  # type: ignore[union-attr]


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda one: one.name, indirect=True)
@pytest.mark.usefixtures("impatient")
def test_a_provider_of_l1_may_answer_anything(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    mutator = Mutator(seed(2))
    with deriving(tmp_path / "node", l1, ANSWER_S) as node:
        node.wait(lambda: has(node, chain))
        l1.disturb = mutator.disturb(l1.answer)
        mutate(node, chain, l1, mutator)


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda one: one.name, indirect=True)
@pytest.mark.usefixtures("impatient")
def test_a_consensus_client_may_answer_anything(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    mutator = Mutator(seed(3), share=1.0)
    with deriving(tmp_path / "node", l1, ANSWER_S) as node:
        node.wait(lambda: has(node, chain))
        l1.beacon.disturb = mutator
        mutate(node, chain, l1, mutator)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("place", [RpcClient, HttpGet], ids=["L1", "blobs"])
@pytest.mark.parametrize("kind", [type(kind).__name__ for kind in KINDS if isinstance(kind, Exception)])
def test_the_chain_is_derived_again_after_any_exception(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch, place: type, kind: str
) -> None:
    error = next(each for each in KINDS if type(each).__name__ == kind)
    raised = threading.Event()

    def fail(*_: Any, **__: Any) -> Any:
        raised.set()
        raise error

    with deriving(tmp_path / "node", l1) as node:
        node.wait(lambda: has(node, chain))
        with monkeypatch.context() as patch:
            patch.setattr(place, "ask" if place is RpcClient else "json", fail)
            grow(chain, l1)
            node.wait(raised.is_set)
            told: Callable[[], Any] = lambda: node.follower.trouble or node.origins.l1.trouble  # type: ignore[union-attr]  # noqa: E731 - short
            node.wait(lambda: told() is not None)
        node.wait(lambda: has(node, chain) and told() is None)
