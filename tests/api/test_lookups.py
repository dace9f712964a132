"""From what a caller names to a block."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.api.test_views import MovingChain
from tests.api.test_views import moving as moving

TIP = 106


def ask(moving: MovingChain, method: str, *parameters: Any) -> Any:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters})
    reply: Any = moving.engine().handle(body)
    return orjson.loads(reply.text).get("result")


def test_the_tips_of_an_empty_chain_carry_a_hash_that_the_node_knows(moving: MovingChain) -> None:
    tips = ask(moving, "node_getL2Tips")
    named = {
        tips["proposed"]["hash"],
        *(tips[name]["block"]["hash"] for name in ("checkpointed", "proven", "finalized")),
    }
    assert len(named) == 1
    header = ask(moving, "node_getBlockHeader", named.pop())
    assert header == ask(moving, "node_getBlockHeader", 0)
    assert header is not None


@pytest.mark.parametrize("number", [1, 50, TIP])
def test_a_bare_archive_root_is_looked_up_when_no_block_has_that_hash(moving: MovingChain, number: int) -> None:
    moving.load()
    block = ask(moving, "node_getBlock", number)
    assert ask(moving, "node_getBlock", block["archive"]["root"]) == block
    assert ask(moving, "node_getBlockHeader", block["archive"]["root"]) == block["header"]
    # An object says which of the two is meant.
    assert ask(moving, "node_getBlock", {"hash": block["archive"]["root"]}) is None
