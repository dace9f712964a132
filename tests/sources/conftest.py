"""A made chain, another node that serves it, and a follower without ports: all in this process, on real sockets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.archiver.conftest import contents as contents
from tests.archiver.conftest import full_ingestor as full_ingestor
from tests.archiver.conftest import full_store as full_store
from tests.archiver.conftest import imported_directory as imported_directory
from tests.archiver.conftest import ingestor as ingestor
from tests.archiver.conftest import open_ingestor as open_ingestor
from tests.archiver.conftest import sample as sample
from tests.archiver.conftest import sample_path as sample_path
from tests.archiver.conftest import store as store
from tests.sources.made_chain import MadeChain, as_stored, grown_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.app.stages.ingestion import IngestionThread
from fastnode.app.stages.origins import OriginPatience, Origins
from fastnode.archiver.commit import ChainCommit
from fastnode.archiver.source import L1Tips, MessageSource
from fastnode.chain_data import ChainData, ChainOptions
from fastnode.config.settings import Settings
from fastnode.protocol.releases import FIVE, FOUR, Release
from fastnode.protocol.tips import L2Tips
from fastnode.sources.publication import Publication
from fastnode.sources.sync_control import SyncControl

#: What a slow and busy machine may need.
PATIENCE_S = 60.0
#: Pauses that a test can wait for.
QUICK = OriginPatience(
    unavailable_s=0.02,
    unavailable_max_s=0.1,
    aside_s=0.2,
    aside_max_s=0.2,
    retry_after_max_s=1.0,
    blocked_s=0.02,
    shortening_s=0.03,
    l1_grace_s=0.05,
)


class FollowingNode:
    """Databases and the thread that fills them."""

    def __init__(
        self,
        directory: Path,
        stack: ExitStack,
        settings: Settings,
        messages: MessageSource | None = None,
        l1_tips: L1Tips | None = None,
        bus: Any = None,
        proposals: Any = None,
        mempool: Any = None,
    ) -> None:
        self.directory = directory
        self.failures: list[BaseException] = []
        self.published: list[int] = []
        self.on_published: list[Callable[[ChainCommit], None]] = []
        self.control = SyncControl()
        self.data = stack.enter_context(ChainData.open(directory, options=ChainOptions.of(settings)))
        store = self.data.store
        self.origins = Origins(settings, lambda: store.chain if store.has_chain else None, patience=QUICK, bus=bus)
        stack.callback(self.origins.close)
        if not store.has_chain:
            store.adopt_chain(*self.origins.learn_chain(settings.genesis))
        publication = Publication(self._publish)
        self.ingestor = self.data.open_ingestor(verify=settings.verify, on_commit=publication)
        self.follower = self.origins.follow(
            self.ingestor,
            self.control,
            publication,
            mempool=mempool,
            messages=messages,
            l1_tips=l1_tips,
            proposals=proposals,
        )
        self._thread = IngestionThread(
            self.data,
            self.ingestor,
            None,
            self.control,
            self.follower,
            on_caught_up=lambda: None,
            on_done=lambda: None,
            on_failure=self.failures.append,
        )
        self._thread.start()
        stack.callback(self._stop)

    def _publish(self, commit: ChainCommit) -> None:
        self.published.append(commit.view.tip_number)
        for action in self.on_published:
            action(commit)

    def _stop(self) -> None:
        self.control.stop()
        self.origins.interrupt()
        self._thread.stop()

    @property
    def tips(self) -> L2Tips:
        return self.ingestor.view.tips

    def wait(self, condition: Callable[[], object], what: str = "") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert not self.failures, self.failures
            assert time.monotonic() < deadline, (what, self.follower.describe())
            time.sleep(0.005)

    def wait_for_failure(self, kind: type[BaseException], reason: str) -> None:
        """Until its thread has ended with such an error."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.failures:
            assert time.monotonic() < deadline, self.follower.describe()
            time.sleep(0.005)
        failure = self.failures.pop()
        assert isinstance(failure, kind), failure
        assert reason in str(failure)

    def wait_for(self, chain: MadeChain) -> None:
        """Until it has the chain with all four tips."""
        wanted = as_stored(chain.tips(), self.ingestor.view.block_id(0))
        self.wait(lambda: self.tips == wanted and self.follower.trouble is None, f"{wanted}")

    def wait_for_upstream(self, state: str, reason: str = "") -> dict[str, Any]:
        """Until its first upstream is in a state, for a reason that contains some words."""

        def found() -> bool:
            upstream = self.origins.upstreams.describe()[0]
            return upstream["state"] == state and reason in (upstream["reason"] or "")

        self.wait(found, f"{state}: {reason}")
        return self.origins.upstreams.describe()[0]

    def contents(self) -> dict[bytes, bytes]:
        """Everything in the chain database."""
        return dict(self.ingestor.view.scan())


@contextmanager
def following(
    directory: Path,
    *urls: str,
    messages: MessageSource | None = None,
    l1_tips: L1Tips | None = None,
    bus: Any = None,
    proposals: Any = None,
    mempool: Any = None,
    **settings: Any,
) -> Iterator[FollowingNode]:
    """A node that follows these URLs; stopped and closed at the end."""
    with ExitStack() as stack:
        values: dict[str, Any] = {"archiver_polling_interval_ms": 5, "upstream_timeout_s": 10.0}
        values |= {"untried_upstreams": True} | settings
        wanted = Settings(upstream_url=urls, **values)
        node = FollowingNode(directory, stack, wanted, messages, l1_tips, bus, proposals, mempool)
        yield node
    assert not node.failures, node.failures


#: Releases of made chains: each test of another node takes one of 4.x, and in long runs one of 5.x too.
RELEASES = [FOUR, FIVE] if os.environ.get("FASTNODE_LONG") == "1" else [FOUR]


@pytest.fixture(params=RELEASES, ids=lambda one: one.name)
def release(request: pytest.FixtureRequest) -> Release:
    """Release of the made chain."""
    release: Release = request.param
    return release


@pytest.fixture
def chain(tmp_path: Path, release: Release) -> Iterator[MadeChain]:
    """A chain of six checkpoints with one to three blocks each, and two proposed blocks."""
    with grown_chain(tmp_path / "made", 1, 2, 3, 1, 2, 1, proposed=2, release=release) as chain:
        chain.proven, chain.finalized = 3, 2
        yield chain


@pytest.fixture
def upstream(chain: MadeChain) -> Iterator[ScriptedUpstream]:
    with scripted_upstream(chain) as upstream:
        yield upstream
