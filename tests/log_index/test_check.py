"""Findings of the check of the indexes, and none where nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.log_index.chain import Chain, hashed, private_log, public_log, raw_keys
from tests.log_index.test_contracts import CLASS_B, class_log, instance_log, make_class, make_instance, update_log

from fastnode.log_index import layout
from fastnode.log_index.check import check_indexes
from fastnode.protocol.effects import ContractClassLog

ENTRIES = tuple(
    prefix
    for prefix in (*layout.LOG_PREFIXES, *layout.CONTRACT_PREFIXES)
    if prefix not in (layout.LOG_HEAD, layout.CONTRACT_HEAD)
)


@pytest.fixture
def full(chain: Chain) -> Chain:
    """A chain with entries of every kind."""
    instance = make_instance(1)
    for number in range(4):
        chain.add(
            [private_log(hashed("tag", number % 2), hashed(number)) for _ in range(9)],
            [public_log(hashed("contract"), hashed("tag"), hashed(number)), public_log(hashed("contract"))],
            [class_log(make_class(b"code"))],
            [ContractClassLog(hashed("contract"), hashed(number), 1)],
            [instance_log(instance), update_log(instance.address, bytes(32), CLASS_B, number)],
        )
    assert set(ENTRIES) == {key[:1] for key in raw_keys(chain.view, ENTRIES)}
    return chain


def change(chain: Chain, key: bytes, value: bytes | None) -> None:
    batch = chain.store.write_batch()
    batch.put(key, value) if value is not None else batch.delete(key)
    batch.commit()


def problems(chain: Chain) -> list[str]:
    with chain.store.open_view() as view:
        found, notes = check_indexes(view)
        assert notes == []
        return found


def test_sound_indexes_are_clean(full: Chain) -> None:
    steps: list[tuple[int, int]] = []
    with full.store.open_view() as view:
        assert check_indexes(view, progress=lambda done, total: steps.append((done, total))) == ([], [])
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    full.undo(2)
    assert problems(full) == []
    full.undo(2)
    assert problems(full) == []


def test_every_missing_entry_is_found(full: Chain) -> None:
    for key, value in raw_keys(full.view, ENTRIES).items():
        change(full, key, None)
        assert problems(full), key
        change(full, key, value)
    assert problems(full) == []


def test_every_changed_entry_is_found(full: Chain) -> None:
    for key, value in raw_keys(full.view, ENTRIES).items():
        change(full, key, value[:-1] + bytes([value[-1] ^ 1]))
        assert problems(full), key
        change(full, key, value)


def test_every_superfluous_entry_is_found(full: Chain) -> None:
    for prefix in ENTRIES:
        key = prefix + b"\xee" * 75
        change(full, key, b"\0\0\0\0")
        assert problems(full), prefix
        change(full, key, None)


def test_a_log_in_another_tags_page_is_found(full: Chain) -> None:
    one, other = (layout.page_key(hashed("tag", number), 0) for number in range(2))
    values = full.view.get(one), full.view.get(other)
    change(full, one, values[1])
    change(full, other, values[0])
    assert "the logs of all tags together are not those of the blocks" in problems(full)


def test_an_index_that_a_start_mends_is_a_note(make_chain: Callable[..., Chain]) -> None:
    chain = make_chain(indexed=False)
    chain.add([private_log(hashed("tag"))])
    found, notes = check_indexes(chain.view)
    assert found == []
    assert [note.partition(";")[0] for note in notes] == [
        "there is no index of logs yet",
        "there is no index of contracts yet",
    ]
    chain.reopen()
    assert check_indexes(chain.view) == ([], [])
    chain.reopen(indexed=False)
    chain.add([private_log(hashed("tag"))])
    assert len(check_indexes(chain.view)[1]) == 2
