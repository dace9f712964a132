"""Ports of a node: what their headers say while it runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from fastnode.app.process.service import _follow_network
from fastnode.mempool.network import NetworkIdentity


class Unreadable:
    """Databases on a disk that fails."""

    def __getattr__(self, name: str) -> Any:
        raise OSError(f"{name} is read in the event loop")


def test_headers_say_what_is_learned_of_the_network_and_need_no_database_for_that() -> None:
    """The disk of a node may fail at any moment, and an event loop waits for no disk."""
    chain = SimpleNamespace(node_info={}, l1_chain_id=31337, rollup_version=7)
    told: list[Any] = []
    mempool = SimpleNamespace(network=NetworkIdentity(31337, 7, None, None), watch_network=told.append)
    lineage = SimpleNamespace(header=("x-fastnode-lineage", "1"), watch=told.append)
    core = SimpleNamespace(mempool=mempool, foundation=SimpleNamespace(lineage=lineage, data=Unreadable()))
    shown: list[dict[str, str]] = []
    server = SimpleNamespace(set_headers=lambda headers: shown.append(dict(headers)))

    async def learn() -> None:
        failures: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        _follow_network(cast(Any, core), cast(Any, chain), cast(Any, server))
        for version in ("4.1.3", "4.1.4"):
            mempool.network = replace(mempool.network, node_version=version)
            for on_changed in told:
                on_changed()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not failures

    asyncio.run(learn())
    assert [headers["x-aztec-packageVersion"] for headers in shown] == ["4.1.3", "4.1.3", "4.1.4", "4.1.4"]
    assert {headers["x-aztec-rollupVersion"] for headers in shown} == {"7"}
