"""Questions that the reference node answered about the sample chain, put to a whole node.

``tests/data/queries_sample.jsonl.gz`` holds one JSON object a line: ``method``, ``params`` and
``result`` or ``error`` or neither (nothing found).  FASTNODE_QUERIES=FILE takes a larger file of the
same form.  Whatever is in the node's method table is compared; nothing has to be registered here.

    release      the same JSON
    both         every key of the recorded answer with its value, and perhaps more keys
    development  the same JSON where both sets declare the same record; otherwise the tests of the
                 methods compare the development record with the release record

An error is compared with an error: codes are the standard ones here, texts are our own.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import uvloop

from fastnode.config.settings import Settings
from fastnode.node import Node
from fastnode.rpc.engine import Engine, Reply
from fastnode.rpc.methods import METHOD_SETS

SAMPLE = Path(__file__).parents[1] / "data" / "queries_sample.jsonl.gz"
COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"
TIP = 106
MISMATCHES_SHOWN = 5


class Query(NamedTuple):
    line: int
    method: str
    params: list[Any]
    answer: dict[str, Any]  # ``result`` or ``error`` or empty


class Difference(NamedTuple):
    """An accepted difference.  ``title`` is its row in docs/compatibility.md; ``applies`` gets the release engine."""

    title: str
    applies: Callable[[Query, Engine], bool]


# ---- accepted differences ---------------------------------------------------------------------


def has_too_many_parameters(query: Query, engine: Engine) -> bool:
    method = engine.table.get(query.method)
    return method is not None and len(query.params) > len(method.parameters)


def has_fractional_limit(query: Query, engine: Engine) -> bool:
    return query.method in ("node_getCheckpoints", "node_getBlocks") and query.params[1:2] == [1.5]


ACCEPTED = [
    Difference("Too many parameters", has_too_many_parameters),
    Difference("Fractions where whole numbers are meant", has_fractional_limit),
]


# ---- comparing --------------------------------------------------------------------------------


def read_queries() -> dict[str, list[Query]]:
    """The recorded queries that do not depend on the moment, by method."""
    queries: dict[str, list[Query]] = {}
    with gzip.open(os.environ.get("FASTNODE_QUERIES", SAMPLE)) as lines:
        for number, line in enumerate(lines, 1):
            record = orjson.loads(line)
            if record.get("volatile"):
                continue
            answer = {key: without_leaks(record[key]) for key in ("result", "error") if key in record}
            query = Query(number, record["method"], record["params"], answer)
            queries.setdefault(query.method, []).append(query)
    return queries


def without_leaks(value: Any) -> Any:
    """``_cachedHash`` is a private member of the reference's header objects, not part of the record."""
    if isinstance(value, dict):
        return {key: without_leaks(member) for key, member in value.items() if key != "_cachedHash"}
    if isinstance(value, list):
        return [without_leaks(item) for item in value]
    return value


def contains(given: Any, wanted: Any) -> bool:
    """Whether ``given`` has every key and value of ``wanted``."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(
            key in given and contains(given[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(given, list) and len(given) == len(wanted) and all(map(contains, given, wanted))
    return type(given) is type(wanted) and given == wanted


def equals(given: Any, wanted: Any) -> bool:
    return contains(given, wanted) and contains(wanted, given)


def agrees(answer: dict[str, Any], recorded: dict[str, Any], compare: Callable[[Any, Any], bool]) -> bool:
    if "error" in answer or "error" in recorded:
        return "error" in answer and "error" in recorded
    if "result" not in answer or "result" not in recorded:
        return "result" not in answer and "result" not in recorded
    return compare(answer["result"], recorded["result"])


# ---- nodes ------------------------------------------------------------------------------------


class ServedSets:
    """A node for each method set, each on its own copy of the sample chain."""

    def __init__(self, chain: Path, copies: Path, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._nodes: dict[str, Node] = {}
        for name in METHOD_SETS:
            shutil.copytree(chain, copies / name)
            settings = Settings(data_directory=copies / name, port=0, admin_port=0, method_set=name)
            self._nodes[name] = Node(settings)
            runner.run(self._nodes[name].start())

    def engine(self, method_set: str) -> Engine:
        server = self._nodes[method_set].public
        assert server is not None
        return server.engine

    def ask(self, method_set: str, query: Query) -> dict[str, Any]:
        body = orjson.dumps({"jsonrpc": "2.0", "id": query.line, "method": query.method, "params": query.params})
        answer = self.engine(method_set).handle(body)
        reply = answer if isinstance(answer, Reply) else self._runner.run(answer)
        assert reply.body is not None
        parsed: dict[str, Any] = orjson.loads(reply.body)
        assert parsed["id"] == query.line
        return parsed

    def stop(self) -> None:
        for node in self._nodes.values():
            self._runner.run(node.stop())

    def has_one_record_in_both_sets(self, name: str) -> bool:
        release, development = (self.engine(name_of_set).table.get(name) for name_of_set in METHOD_SETS[1:])
        if release is None or development is None:
            return False
        return release.signature.result == development.signature.result


@pytest.fixture(scope="module")
def served(chain_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedSets]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sets = ServedSets(chain_directory, tmp_path_factory.mktemp("sets"), runner)
        try:
            yield sets
        finally:
            sets.stop()


QUERIES = read_queries()


def is_declared(served: ServedSets, method: str) -> bool:
    return served.engine("both").table.get(method) is not None


def mismatches(
    served: ServedSets, method_set: str, queries: list[Query], compare: Callable[[Any, Any], bool]
) -> list[str]:
    found = []
    for query in queries:
        if any(difference.applies(query, served.engine("release")) for difference in ACCEPTED):
            continue
        answer = served.ask(method_set, query)
        if not agrees(answer, query.answer, compare):
            found.append(
                f"line {query.line}: {query.method} {str(query.params)[:200]}\n"
                f"  recorded {str(query.answer)[:400]}\n  answered {str(answer)[:400]}"
            )
    return found


def assert_none(found: list[str], total: int) -> None:
    shown = "\n".join(found[:MISMATCHES_SHOWN])
    assert not found, f"{len(found)} of {total} answers differ:\n{shown}"


# ---- tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_the_release_set_gives_the_recorded_answers(served: ServedSets, method: str) -> None:
    queries = QUERIES[method]
    if not is_declared(served, method) and any("error" not in query.answer for query in queries):
        pytest.skip(f"the node has no {method}")
    assert_none(mismatches(served, "release", queries, equals), len(queries))


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_both_sets_together_give_at_least_the_recorded_answers(served: ServedSets, method: str) -> None:
    queries = QUERIES[method]
    if not is_declared(served, method) and any("error" not in query.answer for query in queries):
        pytest.skip(f"the node has no {method}")
    assert_none(mismatches(served, "both", queries, contains), len(queries))


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_the_development_set_gives_the_recorded_answers_where_the_record_is_the_same(
    served: ServedSets, method: str
) -> None:
    queries = QUERIES[method]
    if not is_declared(served, method):
        pytest.skip(f"the node has no {method}")
    if served.engine("development").table.get(method) is None:
        errors = [served.ask("development", query)["error"]["code"] for query in queries]
        assert set(errors) == {-32601}
        return
    if not served.has_one_record_in_both_sets(method):
        pytest.skip("compared in the tests of the method: the sets have different records")
    assert_none(mismatches(served, "development", queries, equals), len(queries))


def test_every_accepted_difference_is_documented() -> None:
    text = COMPATIBILITY.read_text()
    missing = [difference.title for difference in ACCEPTED if f"**{difference.title}**" not in text]
    assert not missing


def test_the_node_stands_at_the_block_of_the_recording(served: ServedSets) -> None:
    answer = served.ask("release", Query(1, "node_getBlockNumber", [], {}))
    assert answer["result"] == TIP
