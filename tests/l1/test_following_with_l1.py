"""Following a node that gives no messages, beside L1, which does."""

from __future__ import annotations

from pathlib import Path

from tests.following.conftest import following
from tests.following.made_chain import MadeChain
from tests.following.scripted_upstream import ScriptedUpstream
from tests.l1.conftest import publish_on_l1
from tests.l1.scripted_l1 import ScriptedL1


def test_x(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1) -> None:
    genesis = tmp_path / "genesis.jsonl"
    import json

    genesis.write_text(
        json.dumps({"kind": "chain", "version": 1, **chain.chain_record})
        + "\n"
        + json.dumps({"kind": "genesis", **chain.genesis})
        + "\n"
    )
    with following(
        tmp_path / "node", upstream.url, l1_rpc_urls=(l1.url,), l1_polling_interval_ms=20, genesis=genesis
    ) as node:
        node.wait_for(chain)
        print(node.following.status())
