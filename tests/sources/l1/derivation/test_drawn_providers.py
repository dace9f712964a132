"""Drawn providers on real sockets: the chain arrives, and few calls are refused once limits are known."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.http_stand_in import HttpStandIn
from tests.sources.l1.derivation.deriving import Deriving, has
from tests.sources.l1.providers import BeaconProvider, BeaconRules, Provider, Response, Rules
from tests.sources.l1.publishing import PublishingL1, publish
from tests.sources.made_chain import BLOCKS_OF_LARGE, LARGE_SHAPE, MadeChain, grown_chain

from fastnode.errors import BlobsUnavailable, MessagesUnavailable, UpstreamError
from fastnode.outgoing.network import ClientLimits
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobSources
from fastnode.sources.blobs.http_get import HttpGet

SEEDS = 50 if os.environ.get("FASTNODE_LONG") == "1" else 3
ARRIVAL_S = 300.0
#: Seconds of polls of what has arrived, in which refusals are counted.
AT_TIP_S = 10.0
REFUSED_FREE = 10


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with grown_chain(tmp_path / "made", *BLOCKS_OF_LARGE, shape=LARGE_SHAPE) as chain:
        yield chain


def standing_in(stack: ExitStack, answer: Callable[[str, bytes], Response | None]) -> str:
    """A server that answers as a provider does; one that is silent is so until the test is over."""
    is_over = threading.Event()

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        with lock:
            response = answer(handler.path, body)
        if response is None:
            is_over.wait()
            handler.close_connection = True
            return
        handler.send_response(response.status)
        for name, value in {**response.headers, "Content-Length": str(len(response.body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(response.body)

    lock = threading.Lock()
    server = HttpStandIn(respond)
    stack.callback(server.close)
    stack.callback(is_over.set)
    return server.url


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_chain_arrives_from_drawn_providers(tmp_path: Path, chain: MadeChain, seed: int) -> None:
    l1 = PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])
    l1.mine(40)
    for unit in chain.units:
        publish(l1, unit)
    l1.mine(3)  # some providers lag behind
    dice = random.Random(f"providers {seed}")
    count, beacon_count = dice.randrange(1, 4), dice.randrange(1, 4)
    alive, beacon_alive = dice.randrange(count), dice.randrange(beacon_count)
    info = chain.chain_record["nodeInfo"]
    providers = [
        Provider(l1, info, Rules.drawn(dice, may_be_dead=place != alive), time.monotonic) for place in range(count)
    ]
    beacons = [
        BeaconProvider(l1, BeaconRules.drawn(dice, may_be_dead=place != beacon_alive), time.monotonic)
        for place in range(beacon_count)
    ]
    for each in (*providers, *beacons):
        print(each.rules)
    with ExitStack() as stack:
        urls = [standing_in(stack, lambda _, body, one=one: one.answer(body)) for one in providers]  # type: ignore[misc]
        places = [standing_in(stack, lambda path, _, one=one: one.answer(path)) for one in beacons]  # type: ignore[misc]

        def sources(http: HttpGet) -> BlobSources:
            named = [BeaconNode(url, http, f"beacon {number}") for number, url in enumerate(places, 1)]
            return BlobSources(consensus=tuple(named))

        limits = ClientLimits(request_time_s=2.0)
        record, genesis, directory = chain.chain_record, chain.genesis, tmp_path / "node"
        node = Deriving(directory, record, genesis, l1, stack, sources, urls=urls, limits=limits, poll_interval_s=0.25)
        deadline = time.monotonic() + ARRIVAL_S
        while not has(node, chain):
            assert time.monotonic() < deadline, (node.reader.describe(), node.source.describe())
            try:
                node.pass_(looks=False)
            except (UpstreamError, BlobsUnavailable, MessagesUnavailable):
                time.sleep(0.1)
        for each in providers:
            each.count_anew()
        over = time.monotonic() + AT_TIP_S
        while time.monotonic() < over:
            l1.mine()
            time.sleep(0.5)
        calls, refused = (sum(getattr(each, name) for each in providers) for name in ("calls", "refused"))
        assert refused <= max(REFUSED_FREE, calls / 10), (refused, calls)
        assert has(node, chain)
