"""Selectors of signatures, and a memory that does not grow without end."""

from __future__ import annotations

import tracemalloc

import pytest

from fastnode.log_index.function_names import FunctionNames, function_selector


@pytest.mark.parametrize(
    ("signature", "selector"),
    [
        ("_set_authorized((Field),Field,bool)", "61966b7c"),
        ("set_authorized(Field,bool)", "b839de91"),
        ("_increase_public_balance((Field),u128)", "e7f045ff"),
    ],
)
def test_selectors_are_those_of_the_protocol_contracts(signature: str, selector: str) -> None:
    assert function_selector(signature).hex() == selector


def test_a_name_is_found_by_its_selector() -> None:
    names = FunctionNames()
    names.register("transfer(Field,Field)")
    assert names.name_of(function_selector("transfer(Field,Field)")) == "transfer"
    assert names.name_of(bytes(4)) is None


#: Both have four bytes in common; they were looked for.
SAME_SELECTOR = ("f34833(Field)", "f126310(Field)")


def registered(names: FunctionNames, *of: str) -> list[str]:
    """Names that are found again."""
    for name in of:
        names.register(f"{name}(Field)")
    found = [names.name_of(function_selector(f"{name}(Field)")) for name in of]
    assert all(name in (None, wanted) for name, wanted in zip(found, of, strict=True))
    return [name for name in found if name is not None]


def test_the_oldest_names_make_room() -> None:
    assert registered(FunctionNames(ring_bytes=18), "aaaa", "bbbb", "cc", "ddd") == ["bbbb", "cc", "ddd"]


def test_a_name_registered_again_takes_no_more_and_is_new_again() -> None:
    names = FunctionNames(ring_bytes=100)
    registered(names, "early", *["often"] * 1000)
    assert names.name_of(function_selector("early(Field)")) == "early"
    for number in range(1000):
        registered(names, "often", f"f{number}")
        assert names.name_of(function_selector("often(Field)")) == "often"


def test_a_name_of_another_signature_with_the_same_selector_takes_its_place() -> None:
    names = FunctionNames()
    first, second = SAME_SELECTOR
    assert function_selector(first) == function_selector(second)
    names.register(first)
    names.register(second)
    assert names.name_of(function_selector(first)) == second.partition("(")[0]


@pytest.mark.parametrize("name", ["a" * 99, "ä" * 99, ""])
def test_a_name_larger_than_the_memory_is_forgotten_at_once(name: str) -> None:
    names = FunctionNames(ring_bytes=99)
    assert registered(names, "small", name) == (["small"] if name else ["small", ""])


def test_names_are_bounded_by_their_number_too() -> None:
    names = FunctionNames(names_max=16)
    found = registered(names, *(f"f{number}" for number in range(1000)))
    assert 8 <= len(found) <= 16
    assert found[-1] == "f999"


def test_as_many_names_as_wallets_have_are_all_kept() -> None:
    assert len(registered(FunctionNames(), *(f"f{number}" for number in range(2000)))) == 2000


def test_names_that_are_pushed_out_leave_no_memory_behind() -> None:
    """Not one object of a name is kept: it would hold on to the page on which others were freed."""
    names = FunctionNames(names_max=1_000)
    registered(names, *(f"f{number}" for number in range(100)))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(5_000):
        names.register(f"f{number}()")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1_000
