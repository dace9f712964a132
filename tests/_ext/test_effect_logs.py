"""The kernel of logs in effects and its twin: the same texts, and nothing from what is no effect."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastnode._twins import effect_logs as twin
from fastnode.archiver.layout import effect_key
from fastnode.archiver.rendering import render
from fastnode.errors import DatabaseError
from fastnode.kernels import effect_logs as kernel
from fastnode.log_index.layout import encode_entry
from fastnode.protocol.effects import ContractClassLog, PrivateLog, PublicDataWrite, PublicLog, TxEffect

fields = st.integers(0, 3).map(lambda number: number.to_bytes(32, "big")) | st.binary(min_size=31, max_size=31).map(
    lambda value: b"\0" + value
)
many = st.lists(fields, max_size=3).map(tuple)
private_logs = st.builds(PrivateLog, st.lists(fields, min_size=16, max_size=16).map(tuple), st.integers(0, 16))
public_logs = st.builds(PublicLog, fields, st.lists(fields, max_size=5).map(tuple))
effects = st.builds(
    TxEffect,
    revert_code=st.integers(0, 3),
    tx_hash=fields,
    transaction_fee=st.sampled_from([0, 7, 10**30]),
    note_hashes=many,
    nullifiers=many,
    l2_to_l1_msgs=many,
    public_data_writes=st.lists(st.builds(PublicDataWrite, fields, fields), max_size=3).map(tuple),
    private_logs=st.lists(private_logs, max_size=12).map(tuple),
    public_logs=st.lists(public_logs, max_size=12).map(tuple),
    contract_class_logs=st.lists(st.builds(ContractClassLog, fields, fields, st.integers(0, 3)), max_size=1).map(tuple),
)
HASH = bytes(range(32))
U64_MAX = 2**64 - 1


def quoted(values: Any) -> list[str]:
    return ["0x" + value.hex() for value in values]


@given(effects)
def test_each_log_is_read_as_the_effect_has_it(effect: TxEffect) -> None:
    text = render(effect)
    for module in (kernel, twin):
        logs = module.LoggedEffect(text)
        for index, private in enumerate(effect.private_logs):
            assert orjson.loads(logs.fields(False, index)) == quoted(private.fields[: private.emitted_length])
        for index, public in enumerate(effect.public_logs):
            assert orjson.loads(logs.fields(True, index)) == quoted(public.fields)
            assert orjson.loads(logs.public_log(index, HASH, 5, 6)) == {
                "id": {
                    "blockNumber": 5,
                    "blockHash": "0x" + HASH.hex(),
                    "txHash": "0x" + effect.tx_hash.hex(),
                    "txIndex": 6,
                    "logIndex": index,
                },
                "log": public.to_json(),
            }
        for is_public, count in ((False, len(effect.private_logs)), (True, len(effect.public_logs))):
            with pytest.raises(DatabaseError, match=f"lacks the log {count}"):
                logs.fields(is_public, count)


@given(effects)
def test_logs_are_found_by_their_tags(effect: TxEffect) -> None:
    text = render(effect)
    of_private = {log.fields[0] for log in effect.private_logs}
    of_public = {log.contract_address + log.fields[0] for log in effect.public_logs if log.fields}
    for tag_key in (*of_private, *of_public, HASH, 2 * HASH):
        expected = [
            index
            for index, log in enumerate(effect.public_logs if len(tag_key) > 32 else effect.private_logs)
            if (log.contract_address if isinstance(log, PublicLog) else b"") + b"".join(log.fields[:1]) == tag_key
            and log.fields
        ]
        assert kernel.LoggedEffect(text).places_of(tag_key) == twin.LoggedEffect(text).places_of(tag_key) == expected


@given(st.lists(effects, min_size=1, max_size=3), st.lists(st.integers(0, 40), max_size=10), st.booleans(), st.data())
def test_a_page_has_the_logs_of_its_entries_in_their_order(
    made: list[TxEffect], chosen: list[int], is_public: bool, data: st.DataObject
) -> None:
    """In any order, though an index has them in that of the chain."""
    stored = {effect_key(number, 9): render(effect) for number, effect in enumerate(made)}
    everywhere = [
        (number, log)
        for number, effect in enumerate(made)
        for log in range(len(effect.public_logs if is_public else effect.private_logs))
    ]
    if not everywhere or not chosen:
        return
    timestamp = data.draw(st.sampled_from([0, 9, 10, 1_700_000_000, U64_MAX]))
    places = [everywhere[number % len(everywhere)] for number in chosen]
    entries = b"".join(encode_entry((number, 9, log), timestamp) for number, log in places)
    expected = []
    for number, index in places:
        effect = made[number]
        log: Any = effect.public_logs[index] if is_public else effect.private_logs[index]
        expected.append(
            {
                "txHash": "0x" + effect.tx_hash.hex(),
                "blockNumber": number,
                "blockTimestamp": str(timestamp),
                "logData": quoted(log.fields if is_public else log.fields[: log.emitted_length]),
                "noteHashes": quoted(effect.note_hashes),
                "firstNullifier": quoted(effect.nullifiers[:1] or [bytes(32)])[0],
            }
        )
    page = kernel.page_json(stored.get, is_public, entries)
    assert page == twin.page_json(stored.get, is_public, entries) == orjson.dumps(expected)


def effect_with_logs() -> bytes:
    private, public = PrivateLog((HASH,) * 16, 3), PublicLog(HASH, (HASH, HASH))
    write = PublicDataWrite(HASH, HASH)
    return render(
        TxEffect(0, HASH, 5, (HASH,), (HASH, HASH), (HASH,), (write,), (private, private), (public, public), ())
    )


def test_a_text_that_is_cut_anywhere_before_its_public_logs_is_no_effect() -> None:
    text = effect_with_logs()
    public = text.index(b'"publicLogs":[') + len(b'"publicLogs":[')
    for end in range(public):
        with pytest.raises(DatabaseError, match="is none"):
            kernel.LoggedEffect(text[:end])
    for end in range(public, text.index(b',"contractClassLogs"')):
        with pytest.raises(DatabaseError, match="lacks the log 1"):
            kernel.LoggedEffect(text[:end]).fields(True, 1)


def test_an_effect_that_is_not_there_is_named() -> None:
    text = effect_with_logs()
    for module in (kernel, twin):
        with pytest.raises(DatabaseError, match="transaction 3 of block 7 lacks its effect"):
            module.page_json(lambda _key: None, False, encode_entry((7, 3, 0), 1))
        with pytest.raises(DatabaseError, match="transaction 3 of block 7 lacks the log 2"):
            module.page_json(lambda _key: text, True, encode_entry((7, 3, 2), 1))


@pytest.mark.parametrize("entries", [b"", bytes(15), bytes(17), bytes(16 * 11)])
def test_entries_that_no_page_has_are_refused(entries: bytes) -> None:
    for module in (kernel, twin):
        with pytest.raises(ValueError, match="a page of"):
            module.page_json(lambda _key: b"", False, entries)


def test_arguments_out_of_shape_are_refused() -> None:
    for module in (kernel, twin):
        logs = module.LoggedEffect(effect_with_logs())
        with pytest.raises(ValueError, match="tag key"):
            logs.places_of(bytes(31))
        with pytest.raises(ValueError, match="block hash"):
            logs.public_log(0, bytes(31), 1, 1)
