"""A whole replica and what is said on the bus of snapshots: it reads below what its own settings name, nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.bus.conftest import Fleet
from tests.bus.nats import NatsServer
from tests.bus.test_transactions import until
from tests.conftest import NodeProcess
from tests.http_stand_in import HttpStandIn, answer
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream

from fastnode.bus.publisher import Publisher

ELSEWHERE = "a publisher tells of snapshots elsewhere than --snapshots-urls names; they are left alone"
StartNode = Callable[..., NodeProcess]


class Noted(HttpStandIn):
    """Has nothing, and notes what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__()

    def respond(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.asked.append(handler.path)
        answer(handler, b"", 404)


@pytest.mark.parametrize(
    ("told", "is_below"),
    [
        ("{inner}/latest/meta-data", False),
        ("{named}/snapshots/../secrets", False),
        ("{named}/snapshots/eu?endpoint={inner}", True),
    ],
    ids=["another server", "beside what is named", "below it, with a query"],
)
def test_a_replica_reads_snapshots_below_what_it_was_told_by_its_operator(
    fleet: Fleet, server: NatsServer, chain: MadeChain, upstream: ScriptedUpstream, start_node: StartNode,
    tmp_path: Path, told: str, is_below: bool,
) -> None:  # fmt: skip
    with Noted() as named, Noted() as inner:
        location = told.format(inner=inner.url, named=named.url)
        kind: Any = partial(Publisher, snapshots=lambda: {"location": location, "block": 1})
        fleet.publisher(upstream, kind=kind)
        replica = start_node(
            *("--bus-url", server.url, "--snapshots-urls", f"{named.url}/snapshots"),
            *("--data-directory", tmp_path / "data"),
        ).wait_until_serving()
        until(lambda: replica.call("node_getBlockNumber")["result"] == chain.tip)
        assert inner.asked == []
        paths = {path.rpartition("/fastnode-")[0] for path in named.asked}
        assert paths == ({"/snapshots", "/snapshots/eu"} if is_below else {"/snapshots"})
        assert any(entry["message"] == ELSEWHERE for entry in replica.entries()) != is_below
        assert replica.stop() == 0
