"""What a running node logs, and what it never does."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastnode.chain_data import ChainData
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

SHORT_TIP = 16
#: Stands for what no log may hold: part of a request.
MARK = "0x" + "5ec2e7" * 10 + "5ec2"


def test_every_block_is_one_line(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, LOG_LEVEL="debug").wait_until_serving()
    node.wait_for_line("chain file loaded")
    assert node.stop() == 0
    blocks = [entry for entry in node.entries() if entry["message"] == "block"]
    assert [entry["number"] for entry in blocks] == list(range(1, SHORT_TIP + 1))
    for entry in blocks:
        assert set(entry) == {"time", "level", "logger", "message", "number", "hash", "txs", "checkpoint", "ms"}
        assert len(entry["hash"]) == 66
        assert entry["ms"] > 0


def test_the_level_of_block_lines_is_the_ingestors_choice(
    tmp_path: Path, short_chain: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "fastnode.archiver.ingest"), ChainData.open(tmp_path / "data") as data:
        adopt_chain_file(data.store, short_chain)
        ingestor = data.open_ingestor(verify=False)
        ingestor.block_log_level = logging.INFO
        import_chain_file(ingestor, short_chain)
        assert [record.message for record in caplog.records].count("block") == SHORT_TIP
        assert ingestor.progress.blocks == SHORT_TIP


def test_neither_bodies_nor_keys_are_logged(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, LOG_LEVEL="debug").wait_until_serving()
    node.call("node_getTxEffect", MARK)
    node.call("node_getPublicLogs", {"tag": MARK, "fromBlock": -1, "txHash": 7})
    node.call(f"node_{MARK}", MARK)
    node.call("node_sendTx", {"data": MARK})
    for key in (node.admin_key, MARK):
        body = json.dumps({"jsonrpc": "2.0", "id": MARK, "method": "nodeAdmin_getConfig", "params": []}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{node.admin_port}",
            data=body,
            headers={"x-api-key": key, "Content-Type": "application/json"},
        )
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            assert key == MARK
            error.close()
    key = node.admin_key
    assert node.stop() == 0
    log = node.log.read_text()
    assert "5ec2e75ec2e7" not in log
    assert key not in log
