"""Words of a node whose settings and calls are in the forms of the network's other nodes, or ask for too much."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import ADMIN_KEY_HASH, NodeProcess


def test_what_is_not_taken_as_it_was_said_is_told(start_node: Callable[..., NodeProcess], short_chain: Path) -> None:
    node = start_node(
        *("--chain-file", short_chain, "--maxL2BlockGas=999999999999"),
        LOG_LEVEL="info; debug: p2p, archiver",
        SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH,
    ).wait_until_serving()
    capped = node.wait_for_line("a value is capped at the limit of a checkpoint")
    assert (capped["key"], capped["limit"]) == ("maxL2BlockGas", 200_000_000)
    assert node.call_admin("nodeAdmin_getConfig")["result"]["maxL2BlockGas"] == 200_000_000
    wrong = node.call_admin("nodeAdmin_getSlashOffenses", "foo")["error"]
    assert wrong["code"] == -32602
    assert 'must be the number of a round, "all" or "current", got "foo"' in wrong["message"]
    for wanted in (True, False):
        assert "error" not in node.call_admin("nodeAdmin_setConfig", {"realProofs": wanted})
    node.wait_for_line("proofs of transactions are not checked any more")
    assert node.stop() == 0
    assert {entry["level"] for entry in node.entries()} <= {"info", "warning", "error"}
