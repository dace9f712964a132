"""Random blocks, reorgs and restarts against a plain list of blocks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.log_index.chain import Chain, hashed, private_log, public_log, raw_keys

from fastnode.archiver import packing
from fastnode.errors import DatabaseError
from fastnode.log_index import layout
from fastnode.log_index.check import check_indexes
from fastnode.log_index.range_queries import AnswerLimits, find_class_logs, find_public_logs, span_of_blocks
from fastnode.log_index.tag_queries import private_logs_by_tags, public_logs_by_tags
from fastnode.protocol.effects import ContractClassLog

TAGS = [hashed("tag", number) for number in range(3)]
CONTRACTS = [hashed("contract", number) for number in range(3)]
#: More logs than any chain here has.
EVERYTHING = AnswerLimits(logs=1 << 30, size=1 << 40)
#: Rows that had another form in versions before 5.
AGING = (layout.PRIVATE_PAGE, layout.PUBLIC_PAGE, layout.PUBLIC_LOG, layout.CLASS_LOG)

tags = st.sampled_from(TAGS)
contracts = st.sampled_from(CONTRACTS)
values = st.lists(st.integers(0, 3).map(lambda number: number.to_bytes(32, "big")), max_size=3)
private_logs = st.builds(
    lambda tag, rest, cut: private_log(tag, *rest, emitted_length=cut), tags, values, st.sampled_from([None, 0, 1, 16])
)
public_logs = st.one_of(
    st.builds(lambda contract, tag, rest: public_log(contract, tag, *rest), contracts, tags, values),
    st.builds(public_log, contracts),
)
class_logs = st.builds(
    lambda contract, count, length: ContractClassLog(contract, b"\0" * 31 + b"\7" + b"\1" * 32 * count, length),
    contracts,
    st.integers(0, 3),
    st.integers(0, 3023),
)
#: Up to 25 logs at once, so that one block can begin, fill and end pages; a transaction has one class log at most.
transactions = st.one_of(
    st.builds(
        lambda logs, class_log: [*logs, *class_log],
        st.lists(st.one_of(private_logs, public_logs), max_size=3),
        st.lists(class_logs, max_size=1),
    ),
    st.builds(lambda log, count: [log] * count, st.one_of(private_logs, public_logs), st.integers(8, 25)),
)
steps = st.lists(
    st.one_of(
        st.lists(transactions, max_size=3),  # a block
        st.integers(1, 4),  # blocks to undo
        st.sampled_from(["restart", "age", "renew"]),
    ),
    min_size=1,
    max_size=8,
)


def all_pages(chain: Chain, tag: bytes, contract: bytes | None = None) -> list[Any]:
    """All logs of a tag, page after page, as a client collects them."""
    found: list[Any] = []
    for page in range(1000):
        known = chain.indexes.known_tags
        if contract is None:
            answer = json.loads(private_logs_by_tags(chain.view, known, tag, page))
        else:
            answer = json.loads(public_logs_by_tags(chain.view, known, contract, tag, page))
        assert len(answer) == 1
        found += answer[0]
        if len(answer[0]) < layout.LOGS_PER_PAGE:
            return found
    raise AssertionError("pages without end")


def assert_all_answers_are_right(chain: Chain) -> None:
    for tag in TAGS:
        assert all_pages(chain, tag) == chain.scoped_logs(tag)
        for contract in CONTRACTS:
            assert all_pages(chain, tag, contract) == chain.scoped_logs(tag, contract)
    span = span_of_blocks(1, len(chain.blocks) + 1)
    logs = chain.identified_logs("publicLogs")
    for contract in (None, *CONTRACTS):
        for tag in (None, *TAGS):
            found = find_public_logs(chain.view, span, EVERYTHING, contract=contract, tag=tag)
            assert [json.loads(log) for log in found.logs] == [
                log for log in logs if _matches(log["log"], contract, tag)
            ]
    for contract in (None, *CONTRACTS):
        found = find_class_logs(chain.view, span, EVERYTHING, contract=contract)
        assert [json.loads(log) for log in found.logs] == [
            log for log in chain.identified_logs("contractClassLogs") if _matches(log["log"], contract, None)
        ]


def are_of_many(page: bytes) -> bool:
    """True if a page has the JSON of its logs for good."""
    return len({log["txHash"] for log in json.loads(page.removeprefix(layout.CUT_PAGE))}) > 1


def _matches(log: dict[str, Any], contract: bytes | None, tag: bytes | None) -> bool:
    return (contract is None or log["contractAddress"] == "0x" + contract.hex()) and (
        tag is None or log["fields"][:1] == ["0x" + tag.hex()]
    )


@settings(max_examples=80)
@given(steps)
def test_every_answer_is_that_of_a_plain_list_after_any_change_of_the_chain(plan: list[Any]) -> None:
    """``age``: the logs are there as version 3 has stored them, and ``renew`` rewrites some of them."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "TEXTS_PER_STEP", 3 * packing.TEXTS_PER_ENTRY)
        chain = Chain(Path(directory))
        try:
            for step in plan:
                if step == "restart":
                    chain.reopen()
                elif step == "age":
                    chain.age()
                elif step == "renew":
                    chain.renew()
                elif isinstance(step, int):
                    chain.undo(step)
                else:
                    chain.add(*step)
            assert_all_answers_are_right(chain)
            assert check_indexes(chain.view) == ([], [])
            while chain.renew():
                pass
            for key, value in raw_keys(chain.view, AGING).items():
                assert not value.removeprefix(layout.CUT_PAGE).startswith(b"[") or are_of_many(value), key
            assert_all_answers_are_right(chain)
            assert check_indexes(chain.view) == ([], [])
        finally:
            chain.close()


@settings(max_examples=30)
@given(st.lists(st.lists(transactions, max_size=3), min_size=1, max_size=4), st.integers(1, 4))
def test_undoing_blocks_leaves_the_database_as_it_was(blocks: list[Any], count: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        chain = Chain(Path(directory))
        try:
            states = []
            for block in blocks:
                states.append(raw_keys(chain.view, layout.LOG_PREFIXES))
                chain.add(*block)
            count = min(count, len(blocks))
            chain.undo(count)
            after = raw_keys(chain.view, layout.LOG_PREFIXES)
            before = states[len(blocks) - count]
            # The head of an index that has gone back to the start says so; before the start there is none.
            if count == len(blocks):
                del after[layout.LOG_HEAD]
            assert after == before
        finally:
            chain.close()


def test_paging_while_blocks_arrive_gives_every_log_once(chain: Chain) -> None:
    tag, found, page = TAGS[0], [], 0
    chain.add([private_log(tag, hashed(0, number)) for number in range(13)])
    while True:
        answer = json.loads(private_logs_by_tags(chain.view, chain.indexes.known_tags, tag, page))[0]
        found += answer
        if len(answer) < 10:
            break
        page += 1
        if len(chain.blocks) < 6:
            chain.add([private_log(tag, hashed(page, number)) for number in range(17)])
    assert found == chain.scoped_logs(tag)
    assert len(found) == 13 + 5 * 17


def test_an_older_view_goes_on_answering_from_its_moment(chain: Chain) -> None:
    chain.add([private_log(TAGS[0])])
    known = chain.indexes.known_tags
    with chain.store.open_view() as before:
        chain.add([private_log(TAGS[0]), private_log(TAGS[1])])
        assert [len(logs) for logs in json.loads(private_logs_by_tags(before, known, TAGS[0] + TAGS[1], 0))] == [1, 0]
        chain.undo(2)
        assert len(json.loads(private_logs_by_tags(before, known, TAGS[0], 0))[0]) == 1
    assert private_logs_by_tags(chain.view, known, TAGS[0] + TAGS[1], 0) == b"[[],[]]"


@pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 21, 200])
def test_pages_are_full_up_to_the_last(chain: Chain, count: int) -> None:
    chain.add([private_log(TAGS[0], hashed(number)) for number in range(count)])
    sizes = []
    while (
        logs := json.loads(private_logs_by_tags(chain.view, chain.indexes.known_tags, TAGS[0], len(sizes)))[0]
    ) != []:
        sizes.append(len(logs))
    assert sizes == [10] * (count // 10) + ([count % 10] if count % 10 else [])


@pytest.mark.parametrize("count", [3, 25])
def test_logs_of_an_older_version_are_answered_undone_added_to_and_rewritten(
    chain: Chain, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the logs of one transaction are on several pages, and other logs are between them."""
    monkeypatch.setattr(packing, "TEXTS_PER_STEP", 2 * packing.TEXTS_PER_ENTRY)

    def add() -> None:
        logs: list[Any] = []
        for number in range(count):
            logs += [private_log(TAGS[number % 2], hashed(len(chain.blocks), number))]
            logs += [public_log(CONTRACTS[0], TAGS[number % 2], hashed(number))]
        chain.add(logs, logs[::3])

    def require_right() -> None:
        assert_all_answers_are_right(chain)
        assert check_indexes(chain.view) == ([], [])

    for change in (add, lambda: chain.undo(1), add, add, chain.renew, chain.renew, add, lambda: chain.undo(2)):
        chain.age()
        require_right()
        change()
        require_right()
    chain.age()
    steps = 0
    while chain.renew():
        steps += 1
        require_right()
    assert steps > 1


def test_a_page_has_the_json_of_logs_only_while_they_are_of_several_transactions(chain: Chain) -> None:
    key = layout.page_key(TAGS[0], 0)
    starts = []
    for _ in range(3):
        chain.add([private_log(TAGS[0])] * 2)
        starts.append((chain.view.get(key) or b"")[:1])
    chain.undo(2)
    starts.append((chain.view.get(key) or b"")[:1])
    assert starts == [layout.ENTRIES, b"[", b"[", layout.ENTRIES]
    assert_all_answers_are_right(chain)


def test_a_private_tag_and_a_public_one_of_the_same_value_do_not_mix(chain: Chain) -> None:
    chain.add([private_log(TAGS[0], TAGS[1]), public_log(CONTRACTS[0], TAGS[0], TAGS[2])])
    assert len(all_pages(chain, TAGS[0])) == len(all_pages(chain, TAGS[0], CONTRACTS[0])) == 1
    assert all_pages(chain, TAGS[0], CONTRACTS[1]) == []


def test_a_failed_write_leaves_the_index_where_the_chain_is(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    chain.add([private_log(TAGS[0])])
    block = chain.build([private_log(TAGS[0])])
    writer = chain.indexes.writers[1]

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(type(writer), "write", fail)
        with pytest.raises(OSError, match="no space"):
            chain.ingestor.add_block(block)
    assert_all_answers_are_right(chain)
    chain.ingestor.add_block(block)
    chain.blocks.append(block)
    assert_all_answers_are_right(chain)


def test_an_index_that_is_behind_the_chain_is_not_extended(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(indexed=False)
    chain.add([private_log(TAGS[0])])
    batch = chain.store.write_batch()
    block = chain.build([private_log(TAGS[0])])
    for writer in chain.indexes.writers:
        with pytest.raises(DatabaseError, match="ends at block 0, the chain at block 1"):
            writer.write(batch, block)
