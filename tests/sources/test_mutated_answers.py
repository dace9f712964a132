"""A followed node that answers anything at all ends neither a thread nor the process, and is followed again as soon as
it behaves.  FASTNODE_LONG=1 mutates ten thousand answers, FASTNODE_SEED=N repeats those of another run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PATIENCE_S
from tests.mutated_answers import ANSWERS, Mutator, seed
from tests.sources import conftest
from tests.sources.conftest import following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream
from tests.test_loop import KINDS

from fastnode.app.stages.origins import OriginPatience
from fastnode.outgoing.client import RpcClient
from fastnode.protocol.releases import FIVE, FOUR

#: No pause keeps the test waiting.
AT_ONCE = OriginPatience(
    unavailable_s=0.0,
    unavailable_max_s=0.001,
    retry_after_max_s=0.001,
    aside_s=0.0,
    aside_max_s=0.001,
    blocked_s=0.001,
    shortening_s=0.0,
    l1_grace_s=0.0,
)
#: For ten thousand answers.
LONG_S = 3_600.0


def until(condition: Callable[[], bool], told: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.005)


def grow(chain: MadeChain, upstream: ScriptedUpstream) -> None:
    with upstream.lock:
        chain.propose(1)
        chain.publish()


@pytest.mark.parametrize("release", [FOUR, FIVE], ids=lambda one: one.name, indirect=True)
def test_a_followed_node_may_answer_anything(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "QUICK", AT_ONCE)
    mutator = Mutator(seed(1))
    with following(tmp_path / "node", upstream.url, upstream_timeout_s=0.5) as node:
        node.wait_for(chain)
        upstream.disturb = mutator.disturb(upstream.answer)
        for share in range(1, 11):
            until(
                lambda n=share: mutator.count >= ANSWERS * n // 10 or bool(node.failures), lambda: mutator.count, LONG_S
            )
            assert not node.failures, node.failures
            grow(chain, upstream)
        mutator.is_on = False
        begun = time.monotonic()
        node.wait_for(chain)
        print(f"{mutator.count} mutated answers; at the tip {time.monotonic() - begun:.2f} s after it behaves")
        assert not any(node.follower.faults().values())


@pytest.mark.parametrize("kind", [type(kind).__name__ for kind in KINDS if isinstance(kind, Exception)])
def test_a_follower_goes_on_after_any_exception(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Wherever it is raised: while another node is asked, or in the round around that."""
    error = next(each for each in KINDS if type(each).__name__ == kind)
    raised = threading.Event()

    def fail(*_: Any) -> Any:
        raised.set()
        raise error

    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        with monkeypatch.context() as patch:
            patch.setattr(RpcClient, "ask", fail)
            assert raised.wait(PATIENCE_S)
            node.wait(lambda: node.follower.trouble is not None)
        grow(chain, upstream)
        node.wait_for(chain)
        node.follower.chores = fail
        node.wait(lambda: (node.follower.faults()["follower"] or "").startswith(f"the chain is not followed: {kind}"))
        node.wait(lambda: node.follower.trouble is not None)
        node.follower.chores = lambda: None
        grow(chain, upstream)
        node.wait_for(chain)
        node.wait(lambda: not any(node.follower.faults().values()))
