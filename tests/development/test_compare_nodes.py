"""Comparing two nodes: a real one, and the same one with a word changed on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fastnode.development import compare_nodes
from fastnode.development.accepted_differences import DOCUMENTED
from fastnode.development.compare_nodes import Ask, Failure, Materials, Question, asking, collect, compare, questions

TIP = 106


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    from tests.conftest import NodeProcess

    directory = tmp_path_factory.mktemp("node")
    node = NodeProcess(["--data-directory", str(directory / "data"), "--metrics-port=0"], directory / "log", {})
    try:
        node.wait_until_serving()
        node.wait_for_line("chain file loaded")
        yield node.url
    finally:
        node.stop()


@pytest.fixture(scope="module")
def materials(url: str) -> Materials:
    return collect(asking(url), 40)


def test_what_is_asked_about_is_on_the_chain(materials: Materials) -> None:
    assert materials.tip == TIP
    assert len(materials.block_hashes) == 40
    assert all(
        (materials.tx_hashes, materials.nullifiers, materials.note_hashes, materials.private_tags, materials.class_ids)
    )
    assert set(materials.log_ids) == {"node_getPublicLogs", "node_getContractClassLogs"}
    assert materials.messages


def test_the_same_seed_asks_the_same(materials: Materials) -> None:
    first, again, other = (list(questions(materials, 200, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert len({method for method, _ in first}) > 30


def test_a_node_answers_as_it_does_itself_and_most_answers_are_found(url: str, materials: Materials) -> None:
    asked = list(questions(materials, 300, 1))
    assert compare(asking(url), asking(url), asked, pause_s=0).differences == []
    answers = [answer for start in range(0, 300, 50) for answer in asking(url)(asked[start : start + 50])]
    assert sum(isinstance(answer, Failure) for answer in answers) < 10
    assert sum(answer is not None for answer in answers) > 200


def _changing(ask: Ask, change: Callable[[Question, Any], Any]) -> Ask:
    def changed(asked: Sequence[Question]) -> list[Any]:
        return [change(question, copy.deepcopy(answer)) for question, answer in zip(asked, ask(asked), strict=True)]

    return changed


def test_a_difference_in_any_place_is_found_with_both_answers(url: str) -> None:
    def change(question: Question, answer: Any) -> Any:
        if question[0] == "node_getBlock":
            answer["header"]["totalFees"] = "0x0"
        return answer

    asked: list[Question] = [("node_getBlock", [5]), ("node_getBlockHeader", [5])]
    [difference] = compare(asking(url), _changing(asking(url), change), asked, pause_s=0).differences
    assert difference.question == asked[0]
    assert difference.second["header"]["totalFees"] == "0x0" != difference.first["header"]["totalFees"]
    assert str(difference).startswith("node_getBlock [5]\n    first:  {")


def test_a_difference_that_passes_does_not_count(url: str) -> None:
    """One of the two was a moment behind."""
    left = 2

    def change(_question: Question, answer: Any) -> Any:
        nonlocal left
        left -= 1
        return None if left >= 0 else answer

    assert (
        compare(asking(url), _changing(asking(url), change), [("node_getBlockNumber", [])], pause_s=0).differences == []
    )


def test_errors_are_alike_if_only_their_texts_differ(url: str) -> None:
    unknown: list[Question] = [("node_getBlockHeader", ["0x" + "05" * 32 + "1"])]
    [answer] = asking(url)(unknown)
    assert isinstance(answer, Failure)
    other = _changing(asking(url), lambda _question, _answer: Failure("another text"))
    assert compare(asking(url), other, unknown, pause_s=0).differences == []
    found = compare(
        asking(url), _changing(asking(url), lambda _question, _answer: None), unknown, pause_s=0
    ).differences
    assert len(found) == 1


def test_private_members_and_absent_ones_are_no_difference(url: str) -> None:
    def change(_question: Question, answer: Any) -> Any:
        return answer | {"_cachedHash": {}, "absent": None}

    other = _changing(asking(url), change)
    assert compare(asking(url), other, [("node_getBlockHeader", [3])], pause_s=0).differences == []


def test_the_command_says_how_many_differ_and_exits_with_it(url: str) -> None:
    result = CliRunner().invoke(compare_nodes.compare_nodes, [url, url, "--queries", "50", "--blocks", "10"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("50 questions of ")
    assert result.output.rstrip().endswith(", 0 differences")


def test_keys_that_only_the_first_has_count_unless_they_are_those_of_a_joint_record(url: str) -> None:
    asked: list[Question] = [("node_getBlock", [5]), ("node_getBlockHeader", [5])]

    def release(_question: Question, answer: Any) -> Any:
        return {key: value for key, value in answer.items() if key not in {"hash", "number"}}

    found = compare(asking(url), _changing(asking(url), release), asked, pause_s=0)
    assert (found.with_more_keys, found.documented, found.differences) == (1, [], [])

    def without_state(_question: Question, answer: Any) -> Any:
        return {key: value for key, value in answer.items() if key not in {"state", "body"}}

    found = compare(asking(url), _changing(asking(url), without_state), asked, pause_s=0)
    assert len(found.differences) == 2, "keys that are missing on the other side"
    found = compare(_changing(asking(url), release), asking(url), asked, pause_s=0)
    assert len(found.differences) == 1, "keys that only the second node has"


def test_a_documented_difference_is_counted_with_its_row(url: str) -> None:
    asked: list[Question] = [("node_getPublicLogs", [{"fromBlock": 3, "toBlock": 2}])]
    other = _changing(asking(url), lambda _question, answer: answer | {"maxLogsHit": True})
    found = compare(asking(url), other, asked, pause_s=0)
    assert [row for row, _ in found.documented] == ["A range of logs that ends before it starts"]
    assert found.differences == []


def test_state_that_the_other_node_has_dropped_is_documented_and_state_that_we_lack_is_not(url: str) -> None:
    asked: list[Question] = [("node_getPublicStorageAt", [2, "0x" + "00" * 31 + "05", "0x01"])]
    dropped = Failure("Unable to find low leaf for block 2, failed to get block data.")
    gone = _changing(asking(url), lambda _question, _answer: dropped)
    found = compare(asking(url), gone, asked, pause_s=0)
    assert ([row for row, _ in found.documented], found.differences) == (["State of old blocks"], [])
    assert len(compare(gone, asking(url), asked, pause_s=0).differences) == 1


def test_every_documented_difference_has_its_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text()
    for row, _, _ in DOCUMENTED:
        assert f"| **{row}** |" in page, row
