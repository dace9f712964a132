"""What workers count adds up, also over workers that have gone."""

from __future__ import annotations

import urllib.request
from collections import Counter
from types import SimpleNamespace
from typing import Any

from tests.workers.nodes import CONNECTIONS, SAMPLE_TIP, Workers, until

from fastnode.workers.counters import Counters, Totals


def counted(calls: int) -> Counters:
    histogram = [0] * 20
    histogram[3] = calls
    return Counters(
        histograms={"node_getBlock": (histogram, 10 * calls)},
        errors={None: Counter({-32601: calls})},
        rejected=Counter({"body_size": calls}),
        numbers=Counter(accepted=calls, sent=100 * calls),
        usage={"wallet": (calls, 2.0 * calls, 1)},
    )


def test_sums_do_not_go_back_when_a_worker_is_started_again() -> None:
    own: Any = SimpleNamespace(port=1, rate_limits=SimpleNamespace(address_count=0), engine=None)
    totals = Totals(own)
    assert totals.note(1, 100, counted(5)) is None
    assert totals.note(2, 200, counted(7)) is None
    assert totals.accepted_count == 12
    before = totals.note(1, 100, counted(6))
    assert before is not None
    assert before.numbers["accepted"] == 5
    assert totals.accepted_count == 13
    assert totals.note(1, 101, counted(1)) is None
    assert totals.accepted_count == 14
    assert totals.counters.histograms["node_getBlock"] == ([0, 0, 0, 14, *[0] * 16], 140)
    assert totals.counters.errors == {None: Counter({-32601: 14})}
    assert totals.traffic.rejected == {"body_size": 14}
    assert totals.traffic.sent_bytes == 1400
    usage = totals.rate_limits.usage["wallet"]
    assert (usage.calls, usage.cost, usage.refused) == (14, 28.0, 3)


def test_one_port_of_metrics_has_the_requests_of_all_workers(workers: Workers) -> None:
    clients = [workers.connect() for _ in range(CONNECTIONS)]
    for client in clients:
        client.result("node_getBlock", 7)

    def scraped() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{workers.metrics_port}/metrics", timeout=60) as response:
            lines = response.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    name = 'fastnode_rpc_calls_total{method="node_getBlock",set="both"}'
    until(lambda: scraped().get(name, 0) >= CONNECTIONS, "calls of workers are missing")
    figures = scraped()
    assert figures[name] == CONNECTIONS
    for number in (1, 2):
        assert figures[f'fastnode_worker_tip_block{{worker="{number}"}}'] == SAMPLE_TIP
        assert figures[f'fastnode_worker_resident_bytes{{worker="{number}"}}'] > 1 << 20
    assert figures["fastnode_workers_serving"] == figures["fastnode_workers_wanted"] == 2
    workers.kill("worker 1")
    workers.wait_for(3)
    assert scraped()[name] >= CONNECTIONS
    assert workers.node.stop() == 0
