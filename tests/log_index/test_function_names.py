"""Selectors of signatures, and a memory that does not grow without end."""

from __future__ import annotations

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


def test_the_oldest_names_make_room() -> None:
    names = FunctionNames(length_max=10)
    for name in ("aaaa", "bbbb", "cc", "ddd"):
        names.register(f"{name}()")
    kept = [name for name in ("aaaa", "bbbb", "cc", "ddd") if names.name_of(function_selector(f"{name}()"))]
    assert kept == ["bbbb", "cc", "ddd"]


def test_a_name_registered_again_counts_once_and_is_new_again() -> None:
    names = FunctionNames(length_max=10)
    for name in ("aaaa", "bbbb", "aaaa", "aaaa", "cccc"):
        names.register(f"{name}()")
    assert names.name_of(function_selector("aaaa()")) == "aaaa"
    assert names.name_of(function_selector("bbbb()")) is None
    assert len(names) == 2


def test_a_name_larger_than_the_memory_is_forgotten_at_once() -> None:
    names = FunctionNames(length_max=3)
    names.register("abcd()")
    assert len(names) == 0


def test_names_are_bounded_by_their_number_too() -> None:
    names = FunctionNames(names_max=3)
    for number in range(1000):
        names.register(f"f{number}()")
    assert len(names) == 3
    assert names.name_of(function_selector("f999()")) == "f999"
    assert names.name_of(function_selector("f996()")) is None
