"""A NATS server, publishers and replicas: all on real sockets, the nodes in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.bus.nats import NatsServer, open_bus
from tests.sources.conftest import FollowingNode, following
from tests.sources.conftest import chain as chain
from tests.sources.conftest import upstream as upstream
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.publisher import Publisher
from fastnode.bus.subjects import Subjects
from fastnode.protocol.releases import FOUR, Release
from fastnode.view import Committed, View


@pytest.fixture
def release() -> Release:
    """A bus carries the chain of one whose nodes were tried."""
    return FOUR


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "nats")
    yield server
    server.stop()


class PublishingNode:
    """Follows an upstream and publishes what it has; ``close`` ends both before the end of the test."""

    def __init__(
        self,
        directory: Path,
        upstream: ScriptedUpstream,
        server: NatsServer,
        kind: type[Publisher],
        options: dict[str, Any],
    ) -> None:
        self._stack = ExitStack()
        self.bus = open_bus(server.url, name=directory.name, **options)
        self._stack.callback(self.bus.close)
        self.node = self._stack.enter_context(following(directory, upstream.url))
        self.subjects = Subjects.of(self.node.ingestor.view.chain.node_info)
        self.publisher = kind(self.bus, self.subjects, lambda: View(self.node.ingestor.view))
        self.node.on_published.append(lambda commit: self.publisher.on_committed(Committed(View(commit.view))))
        self.publisher.start()
        self._stack.callback(self.publisher.close)

    def close(self) -> None:
        self._stack.close()


class Fleet:
    """Publishers that follow an upstream, and replicas that follow the bus."""

    def __init__(self, directory: Path, server: NatsServer, stack: ExitStack) -> None:
        self.directory = directory
        self._server = server
        self._stack = stack

    def publisher(
        self,
        upstream: ScriptedUpstream,
        name: str = "publisher",
        kind: type[Publisher] = Publisher,
        **options: Any,
    ) -> PublishingNode:
        publishing = PublishingNode(self.directory / name, upstream, self._server, kind, options)
        self._stack.callback(publishing.close)
        return publishing

    def replica(self, *urls: str, name: str = "replica", **settings: Any) -> FollowingNode:
        bus = open_bus(self._server.url, name=name)
        self._stack.callback(bus.close)
        return self._stack.enter_context(following(self.directory / name, *urls, bus=bus, **settings))


@pytest.fixture
def fleet(tmp_path: Path, server: NatsServer) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path / "fleet", server, stack)
