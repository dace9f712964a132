"""The journal: reads see the newest change, and an undo leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.public_execution.memory_state import MemoryState

from fastnode.protocol.fields import ZERO_FIELD, field_from_int
from fastnode.public_execution.state import READS_KEPT, PublishedContract, StateJournal, ViewState
from fastnode.view import View

#: Its threads outlive this module: all tests begin behind its start, also where it is the first to need it.
pytestmark = pytest.mark.usefixtures("view")

KEYS = [field_from_int(1000 + number) for number in range(4)]
CONTRACTS = [PublishedContract(key, key, key) for key in KEYS]


def base() -> MemoryState:
    state = MemoryState(leaves={KEYS[0]: KEYS[3]}, notes=[KEYS[0]] * 3, messages=[KEYS[1]])
    state.nullifiers.add(KEYS[0])
    state.contracts[KEYS[0]] = CONTRACTS[3]
    state.classes[KEYS[0]] = b"code"
    return state


def everything(journal: StateJournal) -> list[Any]:
    """All that can be read about the keys of this file."""
    return [
        *[journal.storage(key) for key in KEYS],
        *[journal.has_nullifier(key) for key in KEYS],
        *[journal.note_hash(index) for index in range(10)],
        *[journal.contract(key) for key in KEYS],
        *[journal.contract_class(key) for key in KEYS],
    ]


CHANGES = st.one_of(
    st.tuples(st.just("set_storage"), st.sampled_from(KEYS), st.sampled_from(KEYS)),
    st.tuples(st.just("add_nullifier"), st.sampled_from(KEYS)),
    st.tuples(st.just("add_note_hash"), st.integers(0, 5), st.sampled_from(KEYS)),
    st.tuples(st.just("add_contract"), st.sampled_from(KEYS), st.sampled_from(CONTRACTS)),
    st.tuples(st.just("add_contract_class"), st.sampled_from(KEYS), st.binary(max_size=2)),
)


def change(journal: StateJournal, changes: list[tuple[Any, ...]]) -> None:
    for name, *arguments in changes:
        getattr(journal, name)(*arguments)


@given(st.lists(st.lists(CHANGES, max_size=6), max_size=5))
def test_every_checkpoint_can_be_gone_back_to(rounds: list[list[tuple[Any, ...]]]) -> None:
    journal = StateJournal(base())
    marks, seen = [journal.mark()], [everything(journal)]
    for changes in rounds:
        change(journal, changes)
        marks.append(journal.mark())
        seen.append(everything(journal))
    for mark, content in zip(reversed(marks), reversed(seen), strict=True):
        journal.rollback(mark)
        assert everything(journal) == content
    assert everything(journal) == everything(StateJournal(base()))


def test_a_journal_shows_the_newest_change() -> None:
    journal = StateJournal(base(), messages=[KEYS[2]])
    assert journal.storage(KEYS[0]) == KEYS[3]
    journal.set_storage(KEYS[0], KEYS[1])
    journal.set_storage(KEYS[0], ZERO_FIELD)
    assert journal.storage(KEYS[0]) == ZERO_FIELD
    assert [journal.message(index) for index in range(3)] == [KEYS[1], KEYS[2], ZERO_FIELD]
    journal.add_contract(KEYS[0], CONTRACTS[0])
    assert journal.contract(KEYS[0]) == CONTRACTS[3], "what is published already stays"


def test_a_view_remembers_only_so_many_reads(view: View) -> None:
    state = ViewState(view)
    for number in range(READS_KEPT + 10):
        key = field_from_int((1 << 200) + number)
        assert state.storage(key) == ZERO_FIELD
        assert not state.has_nullifier(key)
    remembered = [len(value) for value in vars(state).values() if isinstance(value, dict)]
    assert max(remembered) <= READS_KEPT
    assert sum(remembered) > 0


def test_each_tx_takes_64_leaves_for_its_notes() -> None:
    journal = StateJournal(base())
    journal.add_note_hash(0, KEYS[1])
    journal.close_tx()
    journal.add_note_hash(1, KEYS[2])
    assert journal.first_note_index == 3 + 64
    assert [journal.note_hash(index) for index in (2, 3, 4, 67, 68)] == [
        KEYS[0],
        KEYS[1],
        ZERO_FIELD,
        ZERO_FIELD,
        KEYS[2],
    ]
    journal.rollback(0)
    assert journal.note_hash(3) == KEYS[1], "a transaction that is closed stays"
    assert journal.note_hash(68) == ZERO_FIELD
