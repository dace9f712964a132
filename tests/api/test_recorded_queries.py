"""Questions that the reference node answered about the sample chain, put to a whole node.

``tests/data/queries_sample.jsonl.gz`` holds one JSON object a line: ``method``, ``params`` and
``result`` or ``error`` or neither (nothing found).  Each is asked twice: with absent results left out, as they were
recorded, and as null, which is the default.  FASTNODE_QUERIES=FILE takes a larger file of the same form.
Whatever is in the node's method table is compared; nothing has to be registered here.

    release      the same JSON
    both         every key of the recorded answer with its value, and perhaps more keys
    development  the same JSON where both sets declare the same record; otherwise the tests of the
                 methods compare the development record with the release record

An error is compared with an error: codes are the standard ones here, texts are our own.
"""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from fastnode.api.node_info import MEMBERS
from fastnode.jsonrpc.engine import Engine
from fastnode.jsonrpc.methods import METHOD_SETS

SAMPLE = Path(__file__).parents[1] / "data" / "queries_sample.jsonl.gz"
COMPATIBILITY = Path(__file__).parents[2] / "docs" / "compatibility.md"
TIP = 106
MISMATCHES_SHOWN = 5


class Query(NamedTuple):
    line: int
    method: str
    params: list[Any]
    answer: dict[str, Any]  # ``result`` or ``error`` or empty

    def expected(self, *, omits_absent: bool) -> dict[str, Any]:
        """The recorded answer in the form that a node gives it."""
        return self.answer if self.answer or omits_absent else {"result": None}


class Difference(NamedTuple):
    """An accepted difference.  ``title`` is its row in docs/compatibility.md; ``applies`` gets the release engine."""

    title: str
    applies: Callable[[Query, Engine], bool]
    #: Conditions between the recorded answer and ours all the same.
    holds: Callable[[dict[str, Any], dict[str, Any]], bool]
    method_sets: tuple[str, ...] = METHOD_SETS


# ---- accepted differences ---------------------------------------------------------------------


GENESIS_HASH = "0x117e6b939d3c7895a9f9ca201a7693444d24e96bc81f37cb2af1a5cc51e21cab"
BLOCK_1_HASH = "0x2facb4a4b41ff1fa697459ca929f7d5a8fb8763c0312b3855a9eddaff4de1766"
#: Ways to name blocks 0 and 1 as the first parameter.
BLOCK_0 = ([0], [GENESIS_HASH])
BLOCK_1 = ([1], [BLOCK_1_HASH])
STATE_METHODS = {
    "node_findLeavesIndexes",
    "node_getL1ToL2MessageMembershipWitness",
    "node_getLowNullifierMembershipWitness",
    "node_getNoteHashMembershipWitness",
    "node_getNullifierMembershipWitness",
    "node_getPublicDataWitness",
    "node_getPublicStorageAt",
}
PUBLIC_DATA_TREE = 2
FRACTION = 1.5


def has_too_many_parameters(query: Query, engine: Engine) -> bool:
    method = engine.table.get(query.method)
    return method is not None and len(query.params) > len(method.parameters)


def has_a_fraction(query: Query, engine: Engine) -> bool:
    return FRACTION in query.params[1:]


def is_about_the_state_of_block_0(query: Query, engine: Engine) -> bool:
    return query.method in STATE_METHODS and query.params[:1] in BLOCK_0


def is_about_the_archive_before_block_0_or_1(query: Query, engine: Engine) -> bool:
    return query.method == "node_getBlockHashMembershipWitness" and query.params[:1] in BLOCK_0 + BLOCK_1


def asks_for_the_low_nullifier_of_a_known_one(query: Query, engine: Engine) -> bool:
    if query.method != "node_getLowNullifierMembershipWitness" or "result" not in query.answer:
        return False
    found = query.answer["result"]["leafPreimage"]["leaf"]["nullifier"]
    return bool(int(found, 16) == int(query.params[1], 0))


def looks_for_public_data_leaves(query: Query, engine: Engine) -> bool:
    return query.method == "node_findLeavesIndexes" and query.params[1:2] == [PUBLIC_DATA_TREE]


def resumes_after_a_log(query: Query, engine: Engine) -> bool:
    is_range_query = query.method in ("node_getPublicLogs", "node_getContractClassLogs")
    return is_range_query and bool(query.params) and "afterLog" in (query.params[0] or {})


def has_a_misspelt_member(query: Query, engine: Engine) -> bool:
    return any(isinstance(each, dict) and "unknown" in each for each in query.params)


def is_refused(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    return bool(answer["error"]["code"] == -32602)


def is_answered(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    return "error" not in answer


def is_answered_unless_the_parameters_are_wrong(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    return "error" not in answer or "error" in recorded


def is_absent(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    return "error" not in answer and answer.get("result") is None


def finds_genesis_leaves(query: Query, engine: Engine) -> bool:
    """Answers that the reference names block 1 for; none of the recorded ones was inserted there."""
    places = query.answer.get("result") or ()
    return query.method == "node_findLeavesIndexes" and any(place and place["l2BlockNumber"] == 1 for place in places)


def is_the_same_but_for_genesis_leaves(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    in_block_0 = {"l2BlockNumber": 0, "l2BlockHash": GENESIS_HASH}
    return all(
        given in (place, place and place | in_block_0)
        for place, given in zip(recorded["result"], answer["result"], strict=True)
    )


def ends_before_it_starts(query: Query, engine: Engine) -> bool:
    is_range_query = query.method in ("node_getPublicLogs", "node_getContractClassLogs")
    return is_range_query and query.answer.get("result") == {"logs": [], "maxLogsHit": True}


def is_empty_without_a_limit(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    return bool(answer["result"] == {"logs": [], "maxLogsHit": False})


def has_every_recorded_log(recorded: dict[str, Any], answer: dict[str, Any]) -> bool:
    if "error" in recorded or "error" in answer:
        return "error" in answer
    given = iter(answer["result"]["logs"])
    return answer["result"]["maxLogsHit"] or all(log in given for log in recorded["result"]["logs"])


ACCEPTED = [
    Difference("Too many parameters", has_too_many_parameters, is_refused),
    Difference("Misspelt members of parameters", has_a_misspelt_member, is_refused),
    Difference("Fractions where whole numbers are meant", has_a_fraction, is_refused),
    Difference("State of block 0", is_about_the_state_of_block_0, is_answered),
    Difference("Archive before the first blocks", is_about_the_archive_before_block_0_or_1, is_answered),
    Difference(
        "Leaves of the public data tree", looks_for_public_data_leaves, is_answered_unless_the_parameters_are_wrong
    ),
    Difference(
        "Low nullifier of one that exists",
        asks_for_the_low_nullifier_of_a_known_one,
        is_absent,
        method_sets=("development",),
    ),
    Difference("Genesis leaves in `node_findLeavesIndexes`", finds_genesis_leaves, is_the_same_but_for_genesis_leaves),
    Difference("A range of logs that ends before it starts", ends_before_it_starts, is_empty_without_a_limit),
    Difference("Resuming after a log", resumes_after_a_log, has_every_recorded_log),
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
    """True if ``given`` has every key and value of ``wanted``."""
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


def comparison_of(method: str) -> Callable[[Any, Any], bool]:
    """The same JSON; beside the record of a node, members that its answer is given here."""
    if method != "node_getNodeInfo":
        return equals
    made = {member.name for member in MEMBERS}
    return lambda given, wanted: equals({name: given[name] for name in given if name not in made}, wanted)


# ---- asking -----------------------------------------------------------------------------------


@contextmanager
def answering(engine: Engine, *, omits_absent: bool) -> Iterator[None]:
    before, engine.omits_absent = engine.omits_absent, omits_absent
    try:
        yield
    finally:
        engine.omits_absent = before


def ask(client: Any, query: Query) -> dict[str, Any]:
    reply = client.send(
        orjson.dumps({"jsonrpc": "2.0", "id": query.line, "method": query.method, "params": query.params})
    )
    answer: dict[str, Any] = orjson.loads(reply.text)
    assert answer["id"] == query.line
    return answer


def has_one_record_in_both_sets(served: Any, name: str) -> bool:
    release, development = (served.client(one).engine.table.get(name) for one in ("release", "development"))
    if release is None or development is None:
        return False
    same: bool = release.signature.result == development.signature.result
    return same


QUERIES = read_queries()


def mismatches(served: Any, method_set: str, queries: list[Query], compare: Callable[[Any, Any], bool]) -> list[str]:
    found = []
    release = served.client("release").engine
    client = served.client(method_set)
    for query, omits_absent in itertools.product(queries, (False, True)):
        with answering(client.engine, omits_absent=omits_absent):
            answer = ask(client, query)
        if agrees(answer, query.expected(omits_absent=omits_absent), compare):
            continue
        accepted = (one for one in ACCEPTED if method_set in one.method_sets and one.applies(query, release))
        if not any(one.holds(query.answer, answer) for one in accepted):
            found.append(
                f"line {query.line}: {query.method} {str(query.params)[:200]}\n"
                f"  recorded {str(query.answer)[:400]}\n  answered {str(answer)[:400]} ({omits_absent=})"
            )
    return found


def assert_none(found: list[str], total: int) -> None:
    shown = "\n".join(found[:MISMATCHES_SHOWN])
    assert not found, f"{len(found)} of {total} answers differ:\n{shown}"


# ---- tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_the_release_set_gives_the_recorded_answers(served: Any, method: str) -> None:
    queries = QUERIES[method]
    assert_none(mismatches(served, "release", queries, comparison_of(method)), len(queries))


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_both_sets_together_give_at_least_the_recorded_answers(served: Any, method: str) -> None:
    queries = QUERIES[method]
    assert_none(mismatches(served, "both", queries, contains), len(queries))


@pytest.mark.parametrize("method", sorted(QUERIES))
def test_the_development_set_gives_the_recorded_answers_where_the_record_is_the_same(served: Any, method: str) -> None:
    queries = QUERIES[method]
    if served.client("development").engine.table.get(method) is None:
        errors = [ask(served.client("development"), query)["error"]["code"] for query in queries]
        assert set(errors) == {-32601}
        return
    if not has_one_record_in_both_sets(served, method):
        pytest.skip("compared in the tests of the method: the sets have different records")
    # Receipts of hashes that this node has never seen say so beside what the record has.
    agree = contains if method == "node_getTxReceipt" else comparison_of(method)
    assert_none(mismatches(served, "development", queries, agree), len(queries))


def test_every_accepted_difference_is_documented() -> None:
    text = COMPATIBILITY.read_text()
    missing = [difference.title for difference in ACCEPTED if f"**{difference.title}**" not in text]
    assert not missing


def test_the_node_stands_at_the_block_of_the_recording(served: Any) -> None:
    answer = ask(served.client("release"), Query(1, "node_getBlockNumber", [], {}))
    assert answer["result"] == TIP
