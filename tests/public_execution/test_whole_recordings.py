"""Simulations in whole recordings: FASTNODE_RECORDINGS=FOLDER names what was recorded beside the sample chain.

Its files are gzipped JSON lines: ``queries``, ``queries_fresh`` and ``pending_queries`` have a method, parameters and
what came back; ``traffic`` has request and response bodies of a wallet; ``bigstrings`` has the texts that the others
name by ``$big:`` and a hash.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.public_execution.test_simulation import RECORDED_FEES, RECORDED_TIMESTAMP, simulated

from fastnode.errors import DecodeError
from fastnode.protocol.header import GlobalVariables
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Tx
from fastnode.view import View

FOLDER = os.environ.get("FASTNODE_RECORDINGS")
METHOD = "node_simulatePublicCalls"
BIG = "$big:"

pytestmark = pytest.mark.skipif(FOLDER is None, reason="FASTNODE_RECORDINGS is not set")


def rows(name: str) -> Iterator[dict[str, Any]]:
    path = Path(FOLDER or "") / f"{name}.jsonl.gz"
    if path.exists():
        with gzip.open(path) as lines:
            for line in lines:
                if METHOD.encode() in line or name == "bigstrings":
                    yield orjson.loads(line)


def expanded(value: Any, big: dict[str, str]) -> Any:
    if isinstance(value, str):
        return big[value.removeprefix(BIG)] if value.startswith(BIG) else value
    if isinstance(value, list):
        return [expanded(item, big) for item in value]
    if isinstance(value, dict):
        return {key: expanded(item, big) for key, item in value.items()}
    return value


def asked_and_answered() -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """(parameters, object with a result or an error) of every recorded simulation."""
    big = {row["sha1"]: row["text"] for row in rows("bigstrings")}
    for name in ("queries", "queries_fresh", "pending_queries"):
        for row in rows(name):
            if row.get("method") == METHOD:
                yield expanded(row["params"], big), expanded(row.get("response", row), big)
    for row in rows("traffic"):
        requests, responses = row.get("request"), row.get("response")
        if not isinstance(requests, list):
            requests, responses = [requests], [responses]
        for request, response in zip(requests, responses, strict=True):
            if request.get("method") == METHOD:
                yield expanded(request["params"], big), expanded(response, big)


def test_every_simulation_of_the_recordings_has_its_answer(view: View) -> None:
    block = GlobalVariables(31337, 0, 107, 0, RECORDED_TIMESTAMP, bytes(20), bytes(32), RECORDED_FEES)
    compared = undecodable = 0
    for parameters, answer in asked_and_answered():
        try:
            tx = Tx.from_json(parameters[0] if parameters else None, FOUR)
            if not isinstance((*parameters, False)[1], bool):
                raise DecodeError("skipFeeEnforcement")
            if "result" in answer:
                block = GlobalVariables.from_json(answer["result"]["globalVariables"])
            found = simulated(view, tx, block, skip_fee_enforcement=(*parameters, False)[1])
        except DecodeError:
            assert "result" not in answer
            undecodable += 1
            continue
        wanted = {"result": answer["result"]} if "result" in answer else {"error": answer["error"]["message"]}
        assert found == wanted
        compared += 1
    assert compared > 10 * undecodable
