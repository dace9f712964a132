"""The methods about validators, as a node with settings of its own answers them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import ADMIN_KEY_HASH, NodeProcess

from fastnode.api.upstream import methods
from fastnode.errors import Refused

UNKNOWN = "0x" + "12" * 20

Start = Callable[..., NodeProcess]


def test_a_node_that_does_not_watch_gives_the_empty_answer(start_node: Start, short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain).wait_until_serving()
    assert node.call("node_getValidatorsStats")["result"] == {"stats": {}, "slotWindow": 0}
    assert node.call("node_getValidatorStats", UNKNOWN)["result"] is None


def test_a_node_that_watches_says_how_far_back(start_node: Start, short_chain: Path) -> None:
    node = start_node(
        "--chain-file", short_chain, SENTINEL_ENABLED="true", SENTINEL_HISTORY_LENGTH_IN_EPOCHS="3"
    ).wait_until_serving()
    answer = node.call("node_getValidatorsStats")["result"]
    assert answer["stats"] == {}  # a chain without a committee
    assert answer["slotWindow"] == 3 * 4
    assert answer["lastProcessedSlot"] - answer["initialSlot"] == 3 * 4
    assert node.call("node_getValidatorStats", UNKNOWN, 1, 2)["result"] is None


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("nodeAdmin_getSlashOffenses", ["all"]),
        ("nodeAdmin_getSlashOffenses", ["current"]),
        ("nodeAdmin_getSlashOffenses", [7]),
        ("nodeAdmin_getSlashOffenses", ["7"]),
        ("nodeAdmin_getSlashPayloads", []),
    ],
)
def test_a_node_that_does_not_watch_knows_no_offenses(
    start_node: Start, short_chain: Path, method: str, parameters: list[object]
) -> None:
    node = start_node("--chain-file", short_chain, SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH).wait_until_serving()
    error = node.call_admin(method, *parameters)["error"]
    assert (error["code"], error["message"]) == (-32000, "Slasher client not enabled")
    for wrong in ("none", -1, 1.5, None, []):
        assert node.call_admin("nodeAdmin_getSlashOffenses", wrong)["error"]["code"] == -32602


def test_a_node_that_watches_looks_for_offenses_too(start_node: Start, short_chain: Path) -> None:
    node = start_node(
        "--chain-file", short_chain, SENTINEL_ENABLED="true", SVC_ADMIN_API_KEY_HASH=ADMIN_KEY_HASH
    ).wait_until_serving()
    for wanted in ("all", "current", 7):
        assert node.call_admin("nodeAdmin_getSlashOffenses", wanted)["result"] == []
    assert node.call_admin("nodeAdmin_getSlashPayloads")["result"] == []


# ---- the network record ------------------------------------------------------------------------------------


class Questioned:
    """Answers of the followed node; an error stands for no answer."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.asked: list[tuple[str, float]] = []

    def ask_cached(self, method: str, _parameters: object, max_age_s: float) -> Any:
        self.asked.append((method, max_age_s))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def record(stored: str | None, questions: Questioned | None) -> bytes | None:
    handler: Any = next(method.handler for method in methods(questions) if method.name == "node_getEncodedEnr")
    node_info = {} if stored is None else {"enr": stored}
    chain = SimpleNamespace(node_info=node_info)
    found: bytes | None = handler(SimpleNamespace(view=SimpleNamespace(chain=SimpleNamespace(chain=chain))))
    return found


def test_the_network_record_is_that_of_the_followed_node_or_the_stored_one() -> None:
    assert record(None, None) is None
    assert record("enr:-old", None) == b'"enr:-old"'
    asked = Questioned("enr:-new")
    assert record("enr:-old", asked) == b'"enr:-new"'
    assert asked.asked == [("node_getEncodedEnr", 60.0)]
    assert record("enr:-old", Questioned(None)) is None
    assert record("enr:-old", Questioned(Refused("No upstream answers"))) == b'"enr:-old"'
    assert record(None, Questioned({"no": "text"})) is None
